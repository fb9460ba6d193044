use super::*;

fn zone() -> Name {
    Name::parse("example.com.").unwrap()
}

fn soa(serial: u32) -> String {
    format!("example.com. 60 IN SOA ns.example.com. h.example.com. {serial} 2 3 4 5")
}

/// What the client makes of these lines, asked for the changes since 1.
fn heard(lines: &[String]) -> Option<Delta> {
    let mut answer = Answer::since(Serial(1));
    for line in lines {
        let record: Record = line.parse().unwrap();
        let row = WireRecord::new(record.name, record.ttl, &record.data);
        answer.take(&zone(), &row).ok()?;
    }
    answer.delta()
}

fn a(name: &str, ttl: u32) -> String {
    format!("{name}.example.com. {ttl} IN A 192.0.2.1")
}

fn shown(records: &[Record]) -> Vec<String> {
    records.iter().map(ToString::to_string).collect()
}

#[test]
fn sequences_are_condensed_to_their_net_effect() {
    let lines = [
        vec![soa(3), soa(1), a("old", 60), a("ttl", 60), soa(2)],
        vec![a("ttl", 90), a("brief", 60), soa(2), a("brief", 60)],
        vec![a("back", 60), soa(3), a("new", 60), a("back", 60), soa(3)],
    ];
    let Some(Delta::Difference(steps)) = heard(&lines.concat()) else {
        panic!("not understood");
    };
    assert_eq!(steps.to.to_string(), soa(3));
    assert_eq!(shown(&steps.removed), [a("old", 60), a("ttl", 60)]);
    assert_eq!(shown(&steps.added), [a("new", 60), a("ttl", 90)]);
    assert_eq!(shown(&steps.fleeting), [a("brief", 0)]);
    assert_eq!(shown(&steps.returned), [a("back", 60)]);
}

#[test]
fn a_lone_soa_that_is_not_newer_means_up_to_date() {
    assert_eq!(heard(&[soa(1)]), Some(Delta::UpToDate(Serial(1))));
    assert_eq!(heard(&[soa(0)]), Some(Delta::UpToDate(Serial(0))));
    assert_eq!(heard(&[soa(2)]), None);
    assert_eq!(heard(&[soa(1), soa(1)]), None);
}

#[test]
fn a_whole_zone_is_known_by_its_second_row() {
    let Some(Delta::Whole(content)) = heard(&[soa(5), a("w", 60), soa(5)]) else {
        panic!("not understood");
    };
    assert_eq!((content.serial, content.sets.len()), (Serial(5), 2));
    assert!(matches!(heard(&[soa(5), soa(5)]), Some(Delta::Whole(_))));
}

#[test]
fn sequences_that_do_not_join_are_refused() {
    // The second sequence does not begin where the first ended.
    let lines = [soa(3), soa(1), soa(2), soa(4), soa(3), soa(3)];
    assert_eq!(heard(&lines), None);
    // Nothing may follow the end.
    let lines = [soa(2), soa(1), soa(2), soa(2), a("w", 60)];
    assert_eq!(heard(&lines), None);
    // Nothing may lie outside the zone.
    let foreign = "www.example.net. 60 IN A 192.0.2.1".to_owned();
    assert_eq!(heard(&[soa(2), soa(1), foreign, soa(2), soa(2)]), None);
}

#[test]
fn the_way_between_two_contents_leads_there() {
    let content = |lines: &[String]| match heard(lines) {
        Some(Delta::Whole(content)) => content,
        other => panic!("{other:?}"),
    };
    let from = content(&[soa(2), a("old", 60), a("same", 60), a("ttl", 60), soa(2)]);
    let to = content(&[soa(5), a("new", 60), a("same", 60), a("ttl", 90), soa(5)]);
    let steps = Difference::between(&zone(), &from, &to).unwrap();
    assert_eq!(steps.to.to_string(), soa(5));
    assert_eq!(shown(&steps.removed), [a("old", 60), a("ttl", 60)]);
    assert_eq!(shown(&steps.added), [a("new", 60), a("ttl", 90)]);
}

#[test]
fn mirrored_name_servers_come_before_the_old_ones_go() {
    let line = |text: &str| text.parse::<Record>().unwrap();
    let steps = Difference {
        to: line(&soa(2)),
        removed: vec![
            line(&a("ttl", 60)),
            line("example.com. 60 IN NS old.example."),
        ],
        added: vec![
            line(&a("ttl", 90)),
            line("example.com. 60 IN NS new.example."),
        ],
        fleeting: Vec::new(),
        returned: Vec::new(),
    };
    let message = update::mirror(1, &zone(), &line(&soa(1)), &steps);
    let rows: Vec<(u16, u16, u32)> = message
        .authority
        .iter()
        .map(|row| (row.class, row.rtype, row.ttl))
        .collect();
    // A new TTL needs no deletion.
    assert_eq!(rows, [(1, 2, 60), (254, 2, 0), (1, 1, 90), (1, 6, 60)]);
    assert_eq!(message.answer.len(), 1);
}

#[tokio::test]
async fn steps_that_do_not_lead_forwards_are_not_sent() {
    let line = |text: &str| text.parse::<Record>().unwrap();
    let steps = Difference {
        to: line(&soa(2)),
        removed: Vec::new(),
        added: Vec::new(),
        fleeting: Vec::new(),
        returned: Vec::new(),
    };
    let server = Server::new("192.0.2.1:53", None);
    for from in [2, 3] {
        let fault = server.send_steps(&zone(), &line(&soa(from)), &steps).await;
        assert_eq!(fault.unwrap_err().kind, FaultKind::Malformed);
    }
}

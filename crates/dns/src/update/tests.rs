use bindery_core::{Record, RecordKey};

use super::*;

/// The change of one set from zone-file data: what must stand, what goes, what comes.
fn change(key: &str, expect: Option<&[&str]>, remove: &[&str], add: &[&str]) -> Change {
    let line = |data: &str| format!("{} 300 IN {data}", key.split(' ').next().unwrap());
    let read = |data: &&str| line(data).parse::<Record>().unwrap().data;
    let (name, rtype) = key.split_once(' ').unwrap();
    Change {
        key: RecordKey::new(Name::parse(name).unwrap(), rtype.parse().unwrap()),
        expect: match expect {
            None => Expect::Anything,
            Some([]) => Expect::Absent,
            Some(data) => Expect::Exactly(data.iter().map(read).collect()),
        },
        remove: remove.iter().map(read).collect(),
        add: add.iter().map(read).collect(),
        ttl: 300,
    }
}

/// One line per row: section, verb, name, type, and how many bytes of data.
fn shown(changes: &[Change]) -> Vec<String> {
    let message = message(1, &Name::parse("example.com.").unwrap(), changes);
    let line = |section: &str, row: &WireRecord| {
        let verb = match row.class {
            class::IN => "in",
            class::NONE => "none",
            class::ANY => "any",
            _ => "?",
        };
        let rtype = RecordType::from_code(row.rtype);
        format!(
            "{section} {verb} {} {rtype} {} {}",
            row.name,
            row.ttl,
            row.rdata.len()
        )
    };
    let prerequisites = message.answer.iter().map(|row| line("if", row));
    let updates = message.authority.iter().map(|row| line("do", row));
    prerequisites.chain(updates).collect()
}

#[test]
fn a_new_set_must_not_exist() {
    let changes = [change("w.example.com. A", Some(&[]), &[], &["A 192.0.2.1"])];
    assert_eq!(
        shown(&changes),
        [
            "if none w.example.com. A 0 0",
            "do in w.example.com. A 300 4"
        ]
    );
}

#[test]
fn a_changed_set_must_be_what_is_known() {
    let known = ["A 192.0.2.1", "A 192.0.2.2"];
    let changes = [change(
        "w.example.com. A",
        Some(&known),
        &known[..1],
        &["A 192.0.2.3"],
    )];
    assert_eq!(
        shown(&changes),
        [
            "if in w.example.com. A 0 4",
            "if in w.example.com. A 0 4",
            "do none w.example.com. A 0 4",
            "do in w.example.com. A 300 4"
        ]
    );
}

#[test]
fn a_set_that_goes_whole_is_deleted_as_a_set() {
    let known = ["A 192.0.2.1", "A 192.0.2.2"];
    let all = [change("w.example.com. A", Some(&known), &known, &[])];
    assert_eq!(shown(&all)[2..], ["do any w.example.com. A 0 0"]);
    let some = [change("w.example.com. A", Some(&known), &known[..1], &[])];
    assert_eq!(shown(&some)[2..], ["do none w.example.com. A 0 4"]);
}

#[test]
fn all_deletions_come_before_all_additions() {
    let changes = [
        change(
            "w.example.com. CNAME",
            Some(&[]),
            &[],
            &["CNAME x.example.com."],
        ),
        change(
            "w.example.com. A",
            Some(&["A 192.0.2.1"]),
            &["A 192.0.2.1"],
            &[],
        ),
    ];
    assert_eq!(
        shown(&changes)[2..],
        [
            "do any w.example.com. A 0 0",
            "do in w.example.com. CNAME 300 15"
        ]
    );
}

#[test]
fn new_servers_of_the_zone_come_before_the_old_ones_go() {
    let old = ["NS a.example.net."];
    let changes = [change(
        "example.com. NS",
        Some(&old),
        &old,
        &["NS b.example.net."],
    )];
    assert_eq!(
        shown(&changes)[1..],
        [
            "do in example.com. NS 300 15",
            "do none example.com. NS 0 15"
        ]
    );
}

#[test]
fn without_an_expectation_there_is_no_prerequisite() {
    let changes = [change("w.example.com. A", None, &[], &["A 192.0.2.1"])];
    assert_eq!(shown(&changes), ["do in w.example.com. A 300 4"]);
}

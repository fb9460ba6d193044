use bindery_core::Record;
use proptest::prelude::*;

use super::*;

fn apex() -> Name {
    Name::parse("example.com.").unwrap()
}

fn zone() -> Content {
    let mut content = Content::new(apex());
    for line in [
        "example.com. 60 IN SOA a.example.com. b.example.com. 4294967295 2 3 4 5",
        "example.com. 60 IN NS a.example.com.",
        "www.example.com. 60 IN A 192.0.2.1",
    ] {
        let record: Record = line.parse().unwrap();
        let set = RecordSet::new(record.ttl, [record.data.clone()]);
        content.put(&record.name, record.data.rtype(), Some(Arc::new(set)));
    }
    content
}

const OWNERS: [&str; 5] = [
    "example.com.",
    "www.example.com.",
    "a.example.com.",
    "b.a.example.com.",
    "*.example.com.",
];

const DATA: [&str; 8] = [
    "A 192.0.2.1",
    "A 192.0.2.2",
    "TXT \"x\"",
    "CNAME www.example.com.",
    "CNAME other.example.net.",
    "NS a.example.com.",
    "NS ns.example.net.",
    "SOA a.example.com. b.example.com. 7 1 1 1 1",
];

/// Any change: an addition, a deletion of a record, of a set or of a name.
fn row() -> impl Strategy<Value = WireRecord> {
    (0..OWNERS.len(), 0..DATA.len(), 0..4_u8, 1..3_u32).prop_map(|(owner, data, verb, ttl)| {
        let line = format!("{} {ttl} IN {}", OWNERS[owner], DATA[data]);
        let record: Record = line.parse().unwrap();
        let row = WireRecord::new(record.name, record.ttl, &record.data);
        match verb {
            0 => WireRecord {
                class: class::NONE,
                ttl: 0,
                ..row
            },
            1 => WireRecord {
                class: class::ANY,
                ttl: 0,
                rdata: Vec::new(),
                ..row
            },
            2 => WireRecord {
                class: class::ANY,
                ttl: 0,
                rdata: Vec::new(),
                rtype: rtype::ANY,
                ..row
            },
            _ => row,
        }
    })
}

fn lines(content: &Content) -> Vec<String> {
    content
        .sets()
        .flat_map(|(name, _, set)| {
            set.data()
                .iter()
                .map(move |data| format!("{name} {} {data}", set.ttl))
        })
        .collect()
}

proptest! {
    #[test]
    fn whatever_is_updated_the_zone_stays_a_zone(
        updates in proptest::collection::vec(proptest::collection::vec(row(), 1..6), 1..20),
    ) {
        let mut content = zone();
        for rows in updates {
            let data = prescan(&apex(), &rows).unwrap();
            let before = content.clone();
            let updated = apply(&content, &rows, data);
            content = updated.content;

            prop_assert_eq!(content.set(&apex(), RecordType::Soa).map(|set| set.len()), Some(1));
            prop_assert!(content.set(&apex(), RecordType::Ns).is_some());
            for (name, _, _) in content.sets() {
                let node = content.node(name).unwrap();
                let aliased = node.set(RecordType::Cname).is_some();
                prop_assert!(!aliased || node.sets.len() == 1, "{} is an alias beside data", name);
            }
            let changed = lines(&before) != lines(&content);
            prop_assert_eq!(changed, !updated.changed.is_empty());
            let newer = content.serial().unwrap().newer_than(before.serial().unwrap());
            prop_assert_eq!(changed, newer, "the serial rises with each change");
            // What is told to the journal is all that differs.
            let mut replayed = before.clone();
            for (name, rtype) in &updated.changed {
                replayed.put(name, *rtype, content.set(name, *rtype).cloned());
            }
            prop_assert_eq!(lines(&replayed), lines(&content));
        }
    }

    #[test]
    fn what_a_zone_holds_is_what_its_prerequisites_accept(
        rows in proptest::collection::vec(row(), 1..12),
    ) {
        let data = prescan(&apex(), &rows).unwrap();
        let content = apply(&zone(), &rows, data).content;
        let exact: Vec<WireRecord> = content
            .sets()
            .flat_map(|(name, _, set)| {
                set.data().iter().map(move |data| WireRecord::new(name.clone(), 0, data))
            })
            .collect();
        prop_assert_eq!(check(&content, &exact), Ok(()));
        for row in &exact {
            let absent = WireRecord { class: class::NONE, rdata: Vec::new(), ..row.clone() };
            prop_assert_eq!(check(&content, &[absent]), Err(rcode::YXRRSET));
        }
    }
}

#[test]
fn the_serial_passes_over_zero() {
    let record: Record = "x.example.com. 60 IN A 192.0.2.1".parse().unwrap();
    let rows = [WireRecord::new(record.name, 60, &record.data)];
    let data = prescan(&apex(), &rows).unwrap();
    assert_eq!(
        apply(&zone(), &rows, data).content.serial(),
        Some(Serial(1))
    );
}

#[test]
fn questions_and_signatures_are_no_data() {
    for code in [0, rtype::OPT, rtype::TSIG, rtype::AXFR, rtype::ANY] {
        let row = WireRecord {
            rtype: code,
            ..WireRecord::empty(apex(), RecordType::A, class::IN)
        };
        assert_eq!(
            prescan(&apex(), &[row]).unwrap_err(),
            rcode::FORMERR,
            "{code}"
        );
    }
}

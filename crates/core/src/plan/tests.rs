use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::record::Record;

fn set(ttl: u32, values: &[&str]) -> RecordSet {
    let record = |value: &&str| {
        let line = format!("www.example.com. {ttl} IN A {value}");
        line.parse::<Record>().expect("the line is sound")
    };
    RecordSet::new(ttl, values.iter().map(|value| record(value).data))
}

fn key() -> RecordKey {
    let name = Name::parse("www.example.com.").expect("the name is sound");
    RecordKey::new(name, crate::RecordType::A)
}

#[test]
fn the_room_a_change_needs_counts_what_is_demanded_and_every_record() {
    // The owner's 17 bytes with the ten that every record has, and an address' four.
    let (owner, record) = (27, 31);
    let two = set(60, &["192.0.2.1", "192.0.2.2"]).data().to_vec();
    let one = set(60, &["192.0.2.3"]).data().to_vec();
    let len = |expect, remove: &[RecordData], add: &[RecordData]| {
        let change = Change {
            key: key(),
            expect,
            remove: remove.to_vec(),
            add: add.to_vec(),
            ttl: 60,
        };
        change.wire_len_max()
    };
    assert_eq!(len(Expect::Absent, &[], &two), owner + 2 * record);
    assert_eq!(len(Expect::Anything, &one, &[]), record);
    assert_eq!(len(Expect::Exactly(two.clone()), &two, &one), 5 * record);
}

#[test]
fn another_ttl_writes_every_value_again() {
    let (old, new) = (set(60, &["192.0.2.1"]), set(300, &["192.0.2.1"]));
    let made = change(&key(), Some(&new), Some(&old), |_| true).expect("it is ours");
    let made = made.expect("there is something to do");
    assert_eq!((made.add, made.ttl), (new.data().to_vec(), 300));
    assert!(made.remove.is_empty());
    assert_eq!(change(&key(), Some(&old), Some(&old), |_| true), Ok(None));
}

/// A zone's content, and what is desired of it, over a few names, types and values.
fn content() -> impl Strategy<Value = ZoneContent> {
    let record = (0..4_u8, 0..3_u8, 1..4_u8).prop_map(|(name, rtype, value)| {
        let data = match rtype {
            0 => format!("A 192.0.2.{value}"),
            1 => format!("TXT \"{value}\""),
            _ => format!("AAAA 2001:db8::{value}"),
        };
        let line = format!("h{name}.example.com. 300 IN {data}");
        line.parse::<Record>().expect("the line is sound")
    });
    prop::collection::vec(record, 0..10).prop_map(|records| records.into_iter().collect())
}

/// The plan that turns one content into another, where everything is ours.
pub(crate) fn plan_between(actual: &ZoneContent, desired: &ZoneContent) -> Plan {
    let keys: BTreeSet<&RecordKey> = actual.sets.keys().chain(desired.sets.keys()).collect();
    let changes = keys.into_iter().filter_map(|key| {
        let wanted = desired.sets.get(key);
        let change = change(key, wanted, actual.sets.get(key), |_| true);
        let change = change.expect("everything is ours")?;
        let is_left = |other: &&RecordKey| other.name == key.name;
        let loss = match (change.is_removal(), wanted) {
            (false, _) => Loss::Nothing,
            (true, Some(_)) => Loss::Values,
            (true, None) if desired.sets.keys().any(|other| is_left(&other)) => Loss::Set,
            (true, None) => Loss::Name,
        };
        Some(PlannedChange {
            change,
            companions: Vec::new(),
            askers: Vec::new(),
            holder: Holder::Ours,
            loss,
            word: Going::Asked,
            intruders: Vec::new(),
        })
    });
    let zone = Name::parse("example.com").expect("the name is sound");
    Plan::new(zone, changes.collect())
}

/// Two contents of one zone.
pub(crate) fn contents() -> impl Strategy<Value = (ZoneContent, ZoneContent)> {
    (content(), content())
}

proptest! {
    #[test]
    fn replanning_after_a_rehearsal_is_empty((mut actual, desired) in contents()) {
        let plan = plan_between(&actual, &desired);
        prop_assert!(plan.changes().all(|change| actual.meets(change)));
        plan.rehearse(&mut actual);
        prop_assert_eq!(&actual.sets, &desired.sets);
        prop_assert!(plan_between(&actual, &desired).is_empty());
    }

    #[test]
    fn a_digest_is_stable_and_differs_when_the_plan_does(
        (actual, desired) in contents(),
        (_, other) in contents(),
    ) {
        let plan = plan_between(&actual, &desired);
        let again = Plan::new(plan.zone().clone(), plan.planned().iter().rev().cloned().collect());
        prop_assert_eq!(plan.digest(), again.digest());
        let other = plan_between(&actual, &other);
        prop_assert_eq!(plan == other, plan.digest() == other.digest());
    }
}

#[test]
fn a_plan_is_printed_line_by_line_removals_first() {
    let old = records(&[
        "a.example.com. 60 IN A 192.0.2.1",
        "b.example.com. 60 IN A 192.0.2.1",
    ]);
    let new = records(&[
        "a.example.com. 60 IN A 192.0.2.2",
        "c.example.com. 300 IN A 192.0.2.3",
    ]);
    let plan = plan_between(&old, &new);
    assert_eq!(
        plan.to_string(),
        "b.example.com. A -192.0.2.1\n\
         a.example.com. A -192.0.2.1 +192.0.2.2 ttl 60\n\
         c.example.com. A +192.0.2.3 ttl 300\n"
    );
}

/// A content of these lines.
pub(crate) fn records(lines: &[&str]) -> ZoneContent {
    let record = |line: &&str| line.parse::<Record>().expect("the line is sound");
    lines.iter().map(record).collect()
}

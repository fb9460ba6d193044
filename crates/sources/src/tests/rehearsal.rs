//! Rehearsals over short manifests.

use std::collections::BTreeMap;

use bindery_core::zones::ZoneContent;
use bindery_core::{Group, Name, Record, ZoneKey};

use super::catalog;
use crate::rehearsal::{Coverage, RecordChange, Rehearsed, rehearse};

const ZONE: &str =
    "DNSZone example-com@1 {} {zoneName: example.com, ttl: 300, recordsFrom: [{selector: {}}]}";
const WWW: &str = "ARecord www@2 {} {name: www, ipv4Addresses: [192.0.2.1]}";
const WWW_LINE: &str = "www.example.com. 300 IN A 192.0.2.1";

fn key() -> ZoneKey {
    ZoneKey {
        name: Name::parse("example.com").expect("it is a name"),
        group: Group::UNNAMED,
    }
}

fn rehearsed(objects: &[&str], lines: &[&str]) -> Rehearsed {
    let record = |line: &&str| line.parse::<Record>().expect("the line is sound");
    let content: ZoneContent = lines.iter().map(record).collect();
    let transferred = BTreeMap::from([(key(), Ok(content))]);
    rehearse(catalog(objects), transferred, Coverage::Whole)
}

fn changes(rehearsed: &Rehearsed) -> Vec<String> {
    let changes = rehearsed.zones[&key()].changes.iter();
    let line = |change: &RecordChange| match change {
        RecordChange::Add(record) => format!("+ {record}"),
        RecordChange::Remove(record) => format!("- {record}"),
    };
    changes.map(line).collect()
}

#[test]
fn a_new_object_records_what_it_owns_and_then_its_record_comes() {
    let found = rehearsed(&[ZONE, WWW], &[]);
    assert_eq!(changes(&found), [format!("+ {WWW_LINE}")]);
    let recordings = &found.zones[&key()].recordings;
    assert_eq!(recordings.len(), 1);
    assert_eq!(recordings[0].object.to_string(), "arecord/default/www");
    assert_eq!(recordings[0].records[0].to_string(), WWW_LINE);
}

#[test]
fn what_others_wrote_stays_and_the_object_is_refused() {
    let found = rehearsed(&[ZONE, WWW], &["www.example.com. 5 IN A 192.0.2.99"]);
    assert_eq!(changes(&found), [""; 0]);
    let refusals = &found.zones[&key()].refusals;
    assert!(
        refusals[0].message.contains("Bindery did not write it"),
        "{refusals:?}"
    );
}

#[test]
fn an_object_that_goes_takes_its_records_along() {
    let going = format!(
        "ARecord www@2 {{deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [bindery.dev/dns], \
         annotations: {{bindery.dev/published: {WWW_LINE}}}}} \
         {{name: www, ipv4Addresses: [192.0.2.1]}}"
    );
    let found = rehearsed(&[ZONE, &going], &[WWW_LINE]);
    assert_eq!(changes(&found), [format!("- {WWW_LINE}")]);
}

#[test]
fn an_object_in_no_zone_is_told_so() {
    let found = rehearsed(&[WWW], &[]);
    assert_eq!(found.no_zone.len(), 1);
    assert!(found.zones.is_empty());
}

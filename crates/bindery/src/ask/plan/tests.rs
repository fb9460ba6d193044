use bindery_core::{Record, RecordKey, RecordSet, Serial};

use super::*;
use crate::ask::fixture::{TOWN, inventory};

/// A zone with these lines.
fn content(lines: &[&str]) -> ZoneContent {
    let mut sets: BTreeMap<RecordKey, RecordSet> = BTreeMap::new();
    for line in lines {
        let record: Record = line.parse().expect("a fixture is a zone-file line");
        let before = sets.remove(&record.key());
        let data = before.iter().flat_map(RecordSet::data).cloned();
        let set = RecordSet::new(record.ttl, data.chain([record.data.clone()]));
        sets.insert(record.key(), set);
    }
    ZoneContent {
        serial: Serial(7),
        sets,
    }
}

fn planned(objects: &str, zone: Result<&[&str], &str>) -> Vec<String> {
    let inventory = inventory(objects);
    let places = places(&inventory, &[]);
    let world = zone
        .map(content)
        .map_err(|message| Fault::new(FaultKind::Unreachable, message));
    let name = Name::parse("example.com").expect("it is a name");
    let zone = ZoneKey {
        name,
        group: Group::UNNAMED,
    };
    let worlds = BTreeMap::from([(zone, world)]);
    let answer = answer(inventory, places, worlds, (Some("default"), Sight::Whole));
    serde_json::to_string(&answer).expect("it is plain data");
    lines(&answer, Paint::Plain)
}

const HEAD: &str = "example.com. dnszone/default/example-com at 127.0.0.1:5300, serial 7";
const LOST: &str = "  ! arecord/default/lost: ";

const NEW: &str = "---
kind: ARecord
metadata: {name: new, labels: {zone: example-com}}
spec: {name: new, ipv4Addresses: [192.0.2.3], ttl: 60}
";

#[test]
fn a_settled_zone_needs_nothing() {
    let lines = planned(TOWN, Ok(&["www.example.com. 300 IN A 192.0.2.1"]));
    assert_eq!(lines[..2], [HEAD, "  nothing to do"]);
    assert!(
        lines[2].starts_with("  ! cnamerecord/default/alias: www.example.com. has a A record of"),
        "{lines:?}"
    );
    assert_eq!(lines[3], "in no zone");
    assert!(lines[4].starts_with(LOST), "{lines:?}");
}

#[test]
fn what_is_missing_is_added_and_what_is_foreign_stays() {
    let lines = planned(TOWN, Ok(&["other.example.com. 5 IN A 192.0.2.77"]));
    assert_eq!(
        lines[..2],
        [HEAD, "  + www.example.com. 300 IN A 192.0.2.1"]
    );
}

#[test]
fn a_changed_ttl_takes_the_old_line_away() {
    let lines = planned(TOWN, Ok(&["www.example.com. 5 IN A 192.0.2.1"]));
    assert_eq!(
        lines[1..3],
        [
            "  - www.example.com. 5 IN A 192.0.2.1",
            "  + www.example.com. 300 IN A 192.0.2.1",
        ]
    );
}

#[test]
fn a_new_object_is_written_down_first() {
    let town = format!("{TOWN}{NEW}");
    let lines = planned(&town, Ok(&["www.example.com. 300 IN A 192.0.2.1"]));
    assert_eq!(
        lines[1..3],
        [
            "  ~ arecord/default/new waits to be written down: new.example.com. 60 IN A 192.0.2.3",
            "  + new.example.com. 60 IN A 192.0.2.3",
        ]
    );
}

#[test]
fn what_somebody_else_wrote_is_not_taken() {
    let town = format!("{TOWN}{NEW}");
    let zone: &[&str] = &[
        "www.example.com. 300 IN A 192.0.2.1",
        "new.example.com. 60 IN A 192.0.2.99",
    ];
    let lines = planned(&town, Ok(zone));
    assert_eq!(lines[1], "  nothing to do");
    let text = lines.join("\n");
    assert!(
        text.contains("! arecord/default/new: new.example.com. A is in DNS"),
        "{text}"
    );
}

#[test]
fn an_object_that_goes_takes_its_lines_along() {
    let town = TOWN.replace(
        "  name: www\n",
        "  name: www\n  deletionTimestamp: '2026-01-01T00:00:00Z'\n",
    );
    let town = town.replace("kind: CNAMERecord", "kind: TXTRecord");
    let lines = planned(&town, Ok(&["www.example.com. 300 IN A 192.0.2.1"]));
    assert_eq!(
        lines[1], "  - www.example.com. 300 IN A 192.0.2.1",
        "{lines:?}"
    );
}

#[test]
fn a_zone_that_cannot_be_read_says_why() {
    let lines = planned(TOWN, Err("nobody answers"));
    assert_eq!(
        lines[0],
        "example.com. dnszone/default/example-com at 127.0.0.1:5300"
    );
    assert!(lines[1].contains("nobody answers"), "{lines:?}");
}

#[test]
fn an_exclusive_zone_keeps_its_glue_and_loses_what_others_wrote() {
    let town = TOWN.replace(
        "zoneName: example.com,",
        "zoneName: example.com, exclusive: true,",
    );
    let zone: &[&str] = &[
        "example.com. 300 IN NS ns1.example.com.",
        "ns1.example.com. 300 IN A 192.0.2.53",
        "www.example.com. 300 IN A 192.0.2.1",
        "other.example.com. 5 IN A 192.0.2.77",
    ];
    let lines = planned(&town, Ok(zone));
    assert_eq!(lines[1], "  - other.example.com. 5 IN A 192.0.2.77");
    assert!(lines[2].starts_with("  ! "), "{lines:?}");
}

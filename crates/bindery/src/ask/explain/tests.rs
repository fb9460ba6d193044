use super::*;
use crate::ask::fixture::{TOWN, book};

fn explained(kind: Kind, name: &str) -> Vec<String> {
    let book = book(TOWN);
    let id = book
        .named(kind, "default", name)
        .expect("it is in the town");
    lines(&way(book, &id), Paint::Plain)
}

#[test]
fn a_ready_record_goes_all_the_way() {
    assert_eq!(
        explained(Kind::ARecord, "www"),
        [
            "arecord/default/www",
            "✓  object        generation 1, finalizer bindery.dev/dns",
            "✓  claim         www.example.com. 300 IN A 192.0.2.1",
            "✓  zone          example.com. of dnszone/default/example-com",
            "                 by its labels: the zone's spec.recordsFrom[0] selects zone=example-com",
            "✓  written down  1 line in the annotation bindery.dev/published",
            "✓  servers       127.0.0.1:5300 primary serial 7 ready",
            "✓  served        Ready=True R: is served",
            "                 hash abc",
            "                 last updated 2026-01-01T00:00:00Z",
            "it is served as declared",
        ]
    );
}

#[test]
fn a_record_that_no_zone_selects_stops_there() {
    let lines = explained(Kind::ARecord, "lost");
    assert_eq!(
        lines[2],
        "✓  claim         lost (the zone's TTL) IN A 192.0.2.9"
    );
    assert!(
        lines[3].starts_with("✗  zone          NotSelected: "),
        "{lines:?}"
    );
    assert_eq!(lines[4].trim_start(), "its labels: zone=nowhere");
    assert_eq!(
        lines[5].trim_start(),
        "dnszone/default/example-com selects zone=example-com"
    );
    assert_eq!(
        lines[6..],
        [
            "-  written down  not reached",
            "-  servers       not reached",
            "-  served        not reached",
            "it stops at: zone",
        ]
    );
}

#[test]
fn a_conflict_stops_at_the_end() {
    let lines = explained(Kind::CnameRecord, "alias");
    assert!(
        lines.contains(&"✗  served        Conflict: taken".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn a_zone_has_a_way_too() {
    let lines = explained(Kind::DnsZone, "example-com");
    assert_eq!(lines[2], "✓  claim         the zone example.com.");
    assert_eq!(
        lines.last().map(String::as_str),
        Some("it is served as declared")
    );
}

use bindery_core::Kind;

use super::*;
use crate::ask::fixture::{TOWN, inventory};

fn explained(kind: Kind, name: &str) -> Vec<String> {
    explained_in(TOWN, kind, name)
}

fn explained_in(town: &str, kind: Kind, name: &str) -> Vec<String> {
    let inventory = inventory(town);
    let id = inventory
        .named(kind, "default", name)
        .expect("it is in the town");
    lines(&trace(inventory, &id), Paint::Plain)
}

#[test]
fn a_ready_record_goes_all_the_way() {
    assert_eq!(
        explained(Kind::ARecord, "www"),
        [
            "arecord/default/www",
            "✓  object   generation 1, finalizer bindery.dev/dns",
            "✓  claim    www.example.com. 300 IN A 192.0.2.1",
            "            example.com. of dnszone/default/example-com",
            "            by its labels: the zone's spec.recordsFrom[0] selects zone=example-com",
            "✓  tracker  1 line in the annotation bindery.dev/published",
            "✓  plan     what has to change is known",
            "✓  guard    no policy of the zone holds it back",
            "✓  commit   the leader has acknowledged it",
            "✓  verify   127.0.0.1:5300 primary serial 7 ready",
            "✓  receipt  what became of each claim is known",
            "✓  status   Ready=True R: is served",
            "            hash abc",
            "            last updated 2026-01-01T00:00:00Z",
            "it is served as declared",
        ]
    );
}

#[test]
fn a_record_that_no_zone_selects_stops_there() {
    let lines = explained(Kind::ARecord, "lost");
    assert_eq!(lines[2], "✗  claim    lost (the zone's TTL) IN A 192.0.2.9");
    let rest = lines[3].trim_start();
    assert!(rest.starts_with("NotSelected: "), "{lines:?}");
    assert_eq!(lines[4].trim_start(), "its labels: zone=nowhere");
    assert_eq!(
        lines[5].trim_start(),
        "dnszone/default/example-com selects zone=example-com"
    );
    assert_eq!(lines[6], "-  tracker  not reached");
    assert_eq!(
        lines[12..],
        ["-  status   not reached", "it stops at: claim"]
    );
}

#[test]
fn a_conflict_stops_where_claims_are_merged() {
    let lines = explained(Kind::CnameRecord, "alias");
    assert!(
        lines.contains(&"            Conflict: taken".to_owned()),
        "{lines:?}"
    );
    assert_eq!(
        lines.last().map(String::as_str),
        Some("it stops at: tracker")
    );
}

#[test]
fn a_zone_has_a_way_too() {
    let lines = explained(Kind::DnsZone, "example-com");
    assert_eq!(lines[2], "✓  claim    the zone example.com.");
    assert_eq!(
        lines.last().map(String::as_str),
        Some("it is served as declared")
    );
}

#[test]
fn a_step_that_failed_for_a_part_has_no_check_mark() {
    let town = format!(
        "{TOWN}---
kind: DNSEndpoint
metadata:
  name: shop
  finalizers: [bindery.dev/dns]
  annotations: {{bindery.dev/published: shop.example.com. 300 IN A 192.0.2.5}}
spec:
  endpoints:
  - {{dnsName: shop.example.com, recordType: A, targets: [192.0.2.5]}}
  - {{dnsName: bad.example.com, recordType: A, targets: [nowhere]}}
  - {{dnsName: shop.example.net, recordType: A, targets: [192.0.2.5]}}
status:
  conditions:
  - {{type: Accepted, status: 'False', reason: PartiallyAccepted, message: not all, observedGeneration: 1}}
  - {{type: Programmed, status: 'True', reason: Programmed, message: served, observedGeneration: 1}}
"
    );
    let lines = explained_in(&town, Kind::DnsEndpoint, "shop");
    assert_eq!(lines[2], "!  claim    shop.example.com. 300 IN A 192.0.2.5");
    assert!(
        lines[3].contains("spec.endpoints[1].targets[0]"),
        "{lines:?}"
    );
    let outside = lines[4].trim_start();
    assert!(outside.starts_with("NoMatchingZone: "), "{lines:?}");
    assert!(lines[7].starts_with("✓  tracker"), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("it stops at: claim"));
}

#[test]
fn a_server_that_is_late_has_no_check_mark() {
    let late = "{address: '127.0.0.1:5301', role: secondary, serial: 6, ready: false}";
    let town = TOWN.replace("ready: true}]", &format!("ready: true}}, {late}]"));
    let lines = explained_in(&town, Kind::ARecord, "www");
    assert!(
        lines.contains(&"!  verify   127.0.0.1:5300 primary serial 7 ready".to_owned()),
        "{lines:?}"
    );
}

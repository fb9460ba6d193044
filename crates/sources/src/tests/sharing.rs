//! What the catalog and the engine have in common is kept once.

use std::sync::Arc;

use bindery_core::{Claim, Kind};

use super::{catalog, decide, find, object};
use crate::{Catalog, NextAct};

const ZONE: &str = "DNSZone a@1 {} {zoneName: example.com, recordsFrom: [{selector: {}}]}";

/// An `ARecord` as it is after our writes.
fn record(name: &str) -> String {
    format!(
        "ARecord {name}@1 {{finalizers: [bindery.dev/dns], annotations: \
         {{bindy.firestoned.io/zone: example.com, bindery.dev/published: '{name}.example.com. 3600 IN A \
         192.0.2.1'}}}} {{name: {name}, ipv4Addresses: [192.0.2.1]}}"
    )
}

fn claim(catalog: &Catalog, name: &str) -> Claim {
    let decision = catalog.decide(&find(catalog, Kind::ARecord, name), &|_, _| true);
    match decision.map(|decision| decision.next) {
        Some(NextAct::Declare(mut parts)) => parts[0].1.claims.remove(0),
        next => unreachable!("{next:?}"),
    }
}

#[test]
fn values_that_were_given_away_stay_the_catalogs_own_when_an_object_is_read_again() {
    let mut catalog = catalog(&[ZONE, &record("www")]);
    let given = claim(&catalog, "www");
    let noted = "resourceVersion: '2', annotations: {bindery.dev/adopt: 'true', ";
    let again = record("www").replace("annotations: {", noted);
    catalog.upsert(object(&again));
    assert!(Arc::ptr_eq(&claim(&catalog, "www").data, &given.data));
}

#[test]
fn objects_share_their_namespace_though_whoever_read_them_holds_on() {
    let mut catalog = catalog(&[ZONE, &record("www")]);
    let held = object(&record("api"));
    let id = Arc::clone(&held.meta.object);
    catalog.upsert(held);
    let namespace = |name| Arc::clone(&find(&catalog, Kind::ARecord, name).namespace);
    assert!(Arc::ptr_eq(&namespace("www"), &namespace("api")));
    assert_eq!(decide(&catalog, Kind::ARecord, "api").zones.len(), 1);
    assert_eq!(*id.name, *"api");
}

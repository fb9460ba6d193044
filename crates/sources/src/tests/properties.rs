//! The catalog against one that is built anew, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::{Kind, Name, ObjectRef, Record};
use proptest::prelude::*;

use super::{object, said};
use crate::{Catalog, Id, Life, Object, Precedence, Spec};
use bindery_api::DesiredZone;

/// Something that happens to one object; a later event of the same object has a higher version.
#[derive(Clone, Debug)]
enum Event {
    See(String),
    Lose(usize),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn zone() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["example.com", "b.example.com", "example.net", "."]);
    let selector = prop::sample::select(vec![
        "{}",
        "{matchLabels: {k: red}}",
        "{matchLabels: {k: blue}}",
    ]);
    let deleted = prop::bool::weighted(0.2);
    (0..4usize, name, selector, 1..4u32, deleted).prop_map(|(at, name, selector, ttl, deleted)| {
        let meta = if deleted {
            "deletionTimestamp: '2026-01-01T00:00:00Z', "
        } else {
            ""
        };
        // A negative TTL makes a zone that its author has to correct.
        let ttl = i64::from(ttl) - 2;
        format!(
            "DNSZone {}@{at} {{{meta}VERSION}} {{zoneName: {name}, ttl: {ttl}, \
             recordsFrom: [{{selector: {selector}}}]}}",
            NAMES[at]
        )
    })
}

fn record() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["red", "blue", "green"]);
    let zone = prop::sample::select(vec!["", "zoneRef: a, ", "zoneRef: d, "]);
    (0..4usize, label, zone, 1..4u32).prop_map(|(at, label, zone, address)| {
        format!(
            "ARecord {}@{at} {{labels: {{k: {label}}}, VERSION}} \
             {{{zone}name: www, ipv4Addresses: [192.0.2.{address}]}}",
            NAMES[at]
        )
    })
}

fn endpoints() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec!["x.b.example.com", "example.net", "y.example.org"]);
    (0..4usize, prop::collection::vec(host, 0..3)).prop_map(|(at, hosts)| {
        let hosts: Vec<String> = hosts
            .iter()
            .map(|host| format!("{{dnsName: {host}, recordType: A, targets: [192.0.2.1]}}"))
            .collect();
        format!(
            "DNSEndpoint {}@{at} {{VERSION}} {{endpoints: [{}]}}",
            NAMES[at],
            hosts.join(", ")
        )
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => zone().prop_map(Event::See),
        3 => record().prop_map(Event::See),
        2 => endpoints().prop_map(Event::See),
        1 => (0..12usize).prop_map(Event::Lose),
    ];
    prop::collection::vec(event, 1..24)
}

fn lost(catalog: &Catalog, at: usize) -> Option<Id> {
    let kind = [Kind::DnsZone, Kind::ARecord, Kind::DnsEndpoint][at % 3];
    catalog.named(kind, "default", NAMES[at / 3])
}

/// Everything that is decided, but for the versions that patches are made for.
type Picture = BTreeMap<ObjectRef, (Option<(Vec<String>, Vec<Id>)>, Option<Precedence>)>;

fn picture(catalog: &Catalog) -> Picture {
    let ids = catalog.ids();
    ids.map(|id| {
        let precedence = catalog.zone(id).map(|view| view.precedence);
        let decided = catalog.decide(id, &|_, _| true);
        let decided = decided.map(|decision| (said(&decision), decision.zones));
        ((**id).clone(), (decided, precedence))
    })
    .collect()
}

/// The zone of a record, found by looking at everything.
fn naive_zone(objects: &[Object], record: &Object) -> Option<Name> {
    let Spec::Record(desired) = &record.spec else {
        return None;
    };
    let active = active_zones(objects);
    let zones = active.iter().filter(|(zone, spec)| {
        zone.meta.object.namespace == record.meta.object.namespace
            && match &desired.zone_ref {
                Some(name) => **name == *zone.meta.object.name,
                None => spec.selectors.iter().any(|one| one.matches(&record.labels)),
            }
    });
    let zones: Vec<_> = zones.collect();
    let stays = |zone: &Object| zone.meta.life == Life::Alive;
    // A zone that goes is left for one that stays.
    let is_left = zones.iter().any(|(zone, _)| stays(zone));
    let mut zones = zones.iter().filter(|(zone, _)| !is_left || stays(zone));
    match (zones.next(), zones.next()) {
        (Some((_, only)), None) => Some(only.name.clone()),
        (None | Some(_), _) => None,
    }
}

/// The zones that are served, found by looking at everything: of each name the oldest that is to stay, or
/// else one that is being deleted, which may be held.
fn active_zones(objects: &[Object]) -> Vec<(&Object, &DesiredZone)> {
    let mut zones: Vec<(&Object, &DesiredZone)> = objects
        .iter()
        .filter_map(|object| match &object.spec {
            Spec::Zone(Ok(desired)) => Some((object, desired)),
            Spec::Zone(_) | Spec::Record(_) | Spec::Endpoints(_) => None,
        })
        .collect();
    zones.sort_by_key(|(zone, _)| match zone.meta.life {
        Life::Alive => (0, zone.meta.created, Id::clone(&zone.meta.object)),
        Life::Deleting => (1, 0, Id::clone(&zone.meta.object)),
    });
    let mut names = BTreeSet::new();
    zones.retain(|(_, desired)| names.insert(desired.name.clone()));
    zones
}

/// What an object is to have in DNS, found by looking at everything.
fn naive_lines(objects: &[Object], object: &Object) -> BTreeSet<String> {
    let line = |name: &Name, ttl: u32, data| {
        let name = name.clone();
        format!("[{}]", Record { name, ttl, data })
    };
    match &object.spec {
        Spec::Zone(_) => BTreeSet::new(),
        Spec::Record(desired) => naive_zone(objects, object)
            .into_iter()
            .flat_map(|zone| {
                let name = Name::parse_in(&desired.name, &zone).expect("a short name");
                let ttl = zone_ttl(objects, &zone);
                let data = desired.data.iter().flat_map(|data| data.iter().cloned());
                data.map(|data| line(&name, ttl, data)).collect::<Vec<_>>()
            })
            .collect(),
        Spec::Endpoints(desired) => desired
            .iter()
            .flatten()
            .filter_map(|desired| {
                let name = &desired.key.name;
                let zones = active_zones(objects).into_iter();
                let zones = zones.filter(|(_, zone)| name.is_in(&zone.name));
                let longest = zones.max_by_key(|(_, zone)| zone.name.labels().count())?;
                Some(line(name, longest.1.ttl, desired.data.first()?.clone()))
            })
            .collect(),
    }
}

fn zone_ttl(objects: &[Object], name: &Name) -> u32 {
    let zones = active_zones(objects).into_iter();
    let mut ttls = zones
        .filter(|(_, zone)| zone.name == *name)
        .map(|(_, zone)| zone.ttl);
    ttls.next().expect("it was just found")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_way_there_does_not_matter_and_every_change_is_announced(events in events()) {
        let mut catalog = Catalog::default();
        let mut newest: BTreeMap<String, String> = BTreeMap::new();
        for (version, event) in events.iter().enumerate() {
            let before = picture(&catalog);
            let affected: BTreeSet<Id> = match event {
                Event::See(text) => {
                    let text = text.replace("VERSION", &format!("resourceVersion: '{}'", version + 1));
                    let key = text.split('@').next().unwrap_or_default().to_owned();
                    newest.insert(key, text.clone());
                    catalog.upsert(object(&text))
                }
                Event::Lose(at) => match lost(&catalog, *at) {
                    Some(id) => {
                        newest.remove(&format!("{} {}", id.kind.as_str(), id.name));
                        catalog.remove(&id)
                    }
                    None => continue,
                },
            };
            for (object, now) in picture(&catalog) {
                prop_assert!(
                    before.get(&object) == Some(&now) || affected.contains(&object),
                    "{object} changed unannounced"
                );
            }
        }
        // The same objects in the order of their names make the same picture.
        let mut anew = Catalog::default();
        for text in newest.values() {
            anew.upsert(object(text));
        }
        prop_assert_eq!(picture(&catalog), picture(&anew));
        let objects: Vec<Object> = newest.values().map(|text| object(text)).collect();
        for one in &objects {
            let decision = catalog.decide(&one.meta.object, &|_, _| true);
            let said = decision.map_or_else(Vec::new, |decision| said(&decision));
            let lines = said.into_iter().filter(|line| line.starts_with('['));
            prop_assert_eq!(lines.collect::<BTreeSet<_>>(), naive_lines(&objects, one));
        }
    }
}

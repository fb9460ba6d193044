//! What the author of objects may expect in DNS, worked out from the objects alone.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use serde_json::Value;

use crate::user::{CLUSTER, INSIDE};

/// A zone on its servers: the cluster's name, empty for the usual ones, and the zone's.
pub(crate) type Place = (String, String);

/// One wish as it stands in an object: name, type, TTL and value in presentation form.
type Wish = (String, &'static str, u32, String);

/// What DNS is to hold for these objects, per zone, as sorted lines without the apex, and which
/// objects have all their wishes fulfilled.
#[must_use]
pub(crate) fn expected(objects: &[DynamicObject], taken: &BTreeSet<String>) -> Expected {
    let zones = active_zones(objects);
    let mut wishes: Vec<(Rank, Place, Wish)> = Vec::new();
    let mut fulfilled: BTreeMap<String, bool> = BTreeMap::new();
    for object in objects
        .iter()
        .filter(|o| o.metadata.deletion_timestamp.is_none())
    {
        let id = id(object);
        let rank = rank(object);
        let spec = &object.data["spec"];
        if id.starts_with("DNSZone/") {
            // Of several zones of one name on the same servers the earliest counts.
            let place = place_of(spec);
            let earliest = zones.iter().find(|(other, _)| *other == place);
            let is_first = earliest.is_some_and(|(_, first)| *first == id);
            fulfilled.insert(id, is_first);
            continue;
        }
        fulfilled.insert(id.clone(), true);
        let notes = object.metadata.annotations.as_ref();
        let cluster = notes.and_then(|notes| notes.get(CLUSTER));
        let placed: Vec<(Option<Place>, Wish)> = match spec["endpoints"].as_array() {
            Some(endpoints) => endpoints
                .iter()
                .map(|one| place_endpoint(one, cluster, &zones))
                .collect(),
            None => vec![place_record(object, &zones)],
        };
        for (index, (zone, wish)) in placed.into_iter().enumerate() {
            match zone {
                Some(zone) => wishes.push(((rank.0.clone(), rank.1.clone(), index), zone, wish)),
                None => drop(fulfilled.insert(id.clone(), false)),
            }
        }
    }
    wishes.sort();
    let wanted = wishes.iter().map(|((_, object, _), place, wish)| Wanted {
        object: object.clone(),
        place: place.clone(),
        name: wish.0.clone(),
        rtype: wish.1,
        value: wish.3.clone(),
    });
    let wanted = wanted.collect();
    let mut expected = merge(wishes, fulfilled, taken);
    expected.wanted = wanted;
    for (place, _) in zones {
        expected.lines.entry(place).or_default();
    }
    expected
}

/// What an observer may expect.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Lines per zone that there is to be.
    pub(crate) lines: BTreeMap<Place, BTreeSet<String>>,
    /// Whether each object has everything it asks for.
    pub(crate) fulfilled: BTreeMap<String, bool>,
    /// Everything that is asked for in some zone, whether it can be had or not.
    pub(crate) wanted: Vec<Wanted>,
}

/// A value that an object asks for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) object: String,
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) rtype: &'static str,
    pub(crate) value: String,
}

/// Creation time, object, position in the object.
type Rank = (String, String, usize);

fn merge(
    wishes: Vec<(Rank, Place, Wish)>,
    mut fulfilled: BTreeMap<String, bool>,
    taken: &BTreeSet<String>,
) -> Expected {
    let mut expected = Expected::default();
    let mut sets: BTreeMap<(Place, String, &str), (u32, BTreeSet<String>)> = BTreeMap::new();
    for ((_, id, _), zone, (name, rtype, ttl, value)) in wishes {
        // What cannot be published does not stand in the way of others.
        if is_taken(taken, &name, rtype) {
            fulfilled.insert(id, false);
            continue;
        }
        let clash = sets.iter().any(|((z, n, t), (_, values))| {
            (z, n) == (&zone, &name)
                && match (*t == "CNAME", rtype == "CNAME") {
                    (true, true) => !values.contains(&value),
                    (one, other) => one || other,
                }
        });
        if clash {
            fulfilled.insert(id, false);
            continue;
        }
        let set = sets
            .entry((zone, name, rtype))
            .or_insert((ttl, BTreeSet::new()));
        set.0 = set.0.min(ttl);
        set.1.insert(value);
    }
    for ((zone, name, rtype), (ttl, values)) in sets {
        let lines = expected.lines.entry(zone).or_default();
        lines.extend(
            values
                .iter()
                .map(|v| format!("{name} {ttl} IN {rtype} {v}")),
        );
    }
    expected.fulfilled = fulfilled;
    expected
}

/// Whether somebody else's record stands in the way.
fn is_taken(taken: &BTreeSet<String>, name: &str, rtype: &str) -> bool {
    taken.iter().any(|key| {
        key.split_once(' ')
            .is_some_and(|(n, t)| n == name && (t == rtype || rtype == "CNAME"))
    })
}

/// The zones that are declared, those of the earliest object first, and by which object.
fn active_zones(objects: &[DynamicObject]) -> Vec<(Place, String)> {
    let mut zones: Vec<&DynamicObject> = objects
        .iter()
        .filter(|o| id(o).starts_with("DNSZone/") && o.metadata.deletion_timestamp.is_none())
        .collect();
    zones.sort_by_key(|zone| rank(zone));
    let zones = zones.into_iter();
    zones
        .map(|zone| (place_of(&zone.data["spec"]), id(zone)))
        .collect()
}

/// Where a zone's spec wants it.
fn place_of(spec: &Value) -> Place {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    (text("clusterRef"), text("zoneName"))
}

fn place_record(object: &DynamicObject, zones: &[(Place, String)]) -> (Option<Place>, Wish) {
    let spec = &object.data["spec"];
    let labels = object.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get("zone"));
    let label = label.map(String::as_str).unwrap_or_default();
    let (cluster, zone) = match label.strip_prefix(INSIDE) {
        Some(zone) => (INSIDE, zone.trim_start_matches('.')),
        None => ("", label),
    };
    let place: Place = (cluster.to_owned(), zone.to_owned());
    let label = spec["name"].as_str().unwrap_or_default();
    let name = if label == "@" {
        format!("{zone}.")
    } else {
        format!("{label}.{zone}.")
    };
    let (rtype, value) = if let Some(address) = spec["ipv4Address"].as_str() {
        ("A", address.to_owned())
    } else if let Some(address) = spec["ipv6Addresses"][0].as_str() {
        ("AAAA", address.to_owned())
    } else if let Some(target) = spec["target"].as_str() {
        ("CNAME", target.to_owned())
    } else {
        (
            "TXT",
            format!("\"{}\"", spec["text"][0].as_str().unwrap_or_default()),
        )
    };
    let ttl = ttl(&spec["ttl"]);
    (
        zones.iter().any(|(one, _)| *one == place).then_some(place),
        (name, rtype, ttl, value),
    )
}

fn place_endpoint(
    endpoint: &Value,
    cluster: Option<&String>,
    zones: &[(Place, String)],
) -> (Option<Place>, Wish) {
    let name = endpoint["dnsName"].as_str().unwrap_or_default();
    let mut zone: Option<&Place> = None;
    for (place, _) in zones {
        let (on, apex) = place;
        let fits = name.ends_with(&format!(".{apex}")) || name == apex;
        let longer = zone.is_none_or(|(_, known)| apex.len() > known.len());
        if fits && longer && cluster.is_none_or(|cluster| cluster == on) {
            zone = Some(place);
        }
    }
    let rtype = ["A", "AAAA", "CNAME"]
        .into_iter()
        .find(|rtype| endpoint["recordType"] == *rtype)
        .unwrap_or("A");
    let value = endpoint["targets"][0]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (
        zone.cloned(),
        (
            format!("{name}."),
            rtype,
            ttl(&endpoint["recordTTL"]),
            value,
        ),
    )
}

/// Kind and name of an object.
#[must_use]
pub(crate) fn id(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!(
        "{kind}/{}",
        object.metadata.name.as_deref().unwrap_or_default()
    )
}

fn rank(object: &DynamicObject) -> (String, String) {
    let created = object.metadata.creation_timestamp.as_ref();
    (
        created.map(|time| time.0.to_string()).unwrap_or_default(),
        id(object),
    )
}

fn ttl(value: &Value) -> u32 {
    value
        .as_u64()
        .and_then(|ttl| u32::try_from(ttl).ok())
        .unwrap_or_default()
}

//! The author of objects in a simulation, and what he may expect in DNS.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::weather::Random;

/// The zones of a simulation.
pub const ZONES: [&str; 2] = ["example.com", "sub.example.com"];

/// The names that objects fight for.
const NAMES: [&str; 5] = ["@", "www", "api", "*.wild", "taken"];

const KINDS: [(&str, &str, &str); 6] = [
    ("bindy.firestoned.io", "v1beta1", "ARecord"),
    ("bindy.firestoned.io", "v1beta1", "AAAARecord"),
    ("bindy.firestoned.io", "v1beta1", "CNAMERecord"),
    ("bindy.firestoned.io", "v1beta1", "TXTRecord"),
    ("externaldns.k8s.io", "v1alpha1", "DNSEndpoint"),
    ("bindy.firestoned.io", "v1beta1", "DNSZone"),
];

/// Somebody who creates, edits and deletes objects at random.
pub struct User {
    client: Client,
    random: Random,
    clusters: Clusters,
}

/// Whether the user knows of servers beside the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// There are none.
    One,
    /// There is the cluster [`INSIDE`] too.
    Two,
}

/// The annotation by which endpoints name it.
const CLUSTER: &str = "bindery.dev/cluster";

/// The name of the cluster beside the usual servers.
pub const INSIDE: &str = "inside";

/// A zone on its servers: the cluster's name, empty for the usual ones, and the zone's.
pub type Place = (String, String);

/// One wish as it stands in an object: name, type, TTL and value in presentation form.
type Wish = (String, &'static str, u32, String);

impl User {
    /// A user whose acts are a function of the seed.
    #[must_use]
    pub fn new(client: Client, seed: u64, clusters: Clusters) -> Self {
        Self {
            client,
            random: Random::new(seed ^ 0x0005_ea50),
            clusters,
        }
    }

    /// Does one thing, and says what.
    ///
    /// # Errors
    /// The API refused, which no act of this user should cause.
    pub async fn act(&mut self) -> Result<String, kube::Error> {
        let (group, version, kind) = *self.random.pick(&KINDS);
        let name = match kind {
            "DNSZone" => format!("zone{}", self.random.below(3)),
            _ => format!("object{}", self.random.below(3)),
        };
        let api = self.api(group, version, kind);
        let existing = api.get_opt(&name).await?;
        let deleting = existing
            .as_ref()
            .is_some_and(|o| o.metadata.deletion_timestamp.is_some());
        if deleting {
            return Ok(format!("wait for {kind}/{name}"));
        }
        let delete_percent = if kind == "DNSZone" { 15 } else { 25 };
        match existing {
            None => {
                let object = self.object(group, version, kind, &name);
                api.create(&PostParams::default(), &object).await?;
                Ok(format!(
                    "create {}",
                    serde_json::to_string(&object.data).unwrap_or_default()
                ))
            }
            Some(_) if self.random.percent(delete_percent) => {
                api.delete(&name, &kube::api::DeleteParams::default())
                    .await?;
                Ok(format!("delete {kind}/{name}"))
            }
            // Most zones stay where they are, so that something is served.
            Some(_) if kind == "DNSZone" && self.random.percent(60) => {
                Ok(format!("look at {kind}/{name}"))
            }
            Some(_) => {
                let wanted = self.object(group, version, kind, &name);
                let labels = wanted.metadata.labels.clone();
                let notes = wanted.metadata.annotations.unwrap_or_default();
                let notes = json!({ CLUSTER: notes.get(CLUSTER) });
                let patch = json!({
                    "metadata": { "labels": labels, "annotations": notes },
                    "spec": wanted.data["spec"],
                });
                let params = PatchParams::default();
                api.patch(&name, &params, &Patch::Merge(&patch)).await?;
                Ok(format!("edit {kind}/{name} {patch}"))
            }
        }
    }

    /// Makes sure that both zones are declared, so that there is something to serve.
    ///
    /// # Errors
    /// The API refused.
    pub async fn declare_zones(&mut self) -> Result<(), kube::Error> {
        let (group, version, kind) = KINDS[5];
        for (index, zone) in ZONES.iter().enumerate() {
            let mut object = self.object(group, version, kind, &format!("zone{index}"));
            object.data = json!({ "spec": zone_spec(zone, "") });
            self.api(group, version, kind)
                .create(&PostParams::default(), &object)
                .await?;
        }
        Ok(())
    }

    /// Every object that there is.
    ///
    /// # Errors
    /// The API did not answer.
    pub async fn objects(&self) -> Result<Vec<DynamicObject>, kube::Error> {
        let mut objects = Vec::new();
        for (group, version, kind) in KINDS {
            let list = self
                .api(group, version, kind)
                .list(&ListParams::default())
                .await?;
            objects.extend(list.items.into_iter().map(|mut object| {
                object.types = Some(kube::core::TypeMeta {
                    api_version: format!("{group}/{version}"),
                    kind: kind.to_owned(),
                });
                object
            }));
        }
        Ok(objects)
    }

    /// Creates a namespace, as a first sign that the API works.
    ///
    /// # Errors
    /// The API refused.
    pub async fn greet(&self) -> Result<(), kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.get("default").await.map(drop)
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    fn object(&mut self, group: &str, version: &str, kind: &str, name: &str) -> DynamicObject {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let spec = self.spec(kind);
        let mut object = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
        let zone = ["example.com", "sub.example.com", "nowhere"][self.random.below(3)];
        let label = mark(zone, self.cluster());
        object.metadata.labels = Some(BTreeMap::from([("zone".to_owned(), label)]));
        if kind == "DNSEndpoint" && self.cluster() == INSIDE {
            let note = (CLUSTER.to_owned(), INSIDE.to_owned());
            object.metadata.annotations = Some(BTreeMap::from([note]));
        }
        object
    }

    fn cluster(&mut self) -> &'static str {
        match self.clusters {
            Clusters::Two if self.random.percent(40) => INSIDE,
            Clusters::One | Clusters::Two => "",
        }
    }

    fn spec(&mut self, kind: &str) -> Value {
        // A zone's own name cannot be a CNAME; an edit to that is invalid, and what was served stays.
        let names = if kind == "CNAMERecord" {
            &NAMES[1..]
        } else {
            &NAMES[..]
        };
        let name = *self.random.pick(names);
        let number = 1 + self.random.below(3);
        let ttl = [60, 300][self.random.below(2)];
        match kind {
            "ARecord" => json!({ "name": name, "ttl": ttl, "ipv4Address": v4(number) }),
            "AAAARecord" => json!({ "name": name, "ttl": ttl, "ipv6Addresses": [v6(number)] }),
            "CNAMERecord" => json!({ "name": name, "ttl": ttl, "target": target(number) }),
            "TXTRecord" => json!({ "name": name, "ttl": ttl, "text": [format!("text{number}")] }),
            "DNSZone" => zone_spec(ZONES[self.random.below(ZONES.len())], self.cluster()),
            _ => json!({ "endpoints": (0..=number).map(|_| self.endpoint()).collect::<Vec<_>>() }),
        }
    }

    fn endpoint(&mut self) -> Value {
        let zone = ["example.com", "sub.example.com", "example.net"][self.random.below(3)];
        let label = *self.random.pick(&["www", "api", "extra"]);
        let number = 1 + self.random.below(3);
        let (rtype, value) = match self.random.below(3) {
            0 => ("A", v4(number)),
            1 => ("AAAA", v6(number)),
            _ => ("CNAME", target(number)),
        };
        json!({
            "dnsName": format!("{label}.{zone}"),
            "recordType": rtype,
            "recordTTL": 60,
            "targets": [value],
        })
    }
}

/// What DNS is to hold for these objects, per zone, as sorted lines without the apex, and which
/// objects have all their wishes fulfilled.
#[must_use]
pub fn expected(objects: &[DynamicObject], taken: &BTreeSet<String>) -> Expected {
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
    let mut expected = merge(wishes, fulfilled, taken);
    for (place, _) in zones {
        expected.lines.entry(place).or_default();
    }
    expected
}

/// What an observer may expect.
#[derive(Debug, Default)]
pub struct Expected {
    /// Lines per zone that there is to be.
    pub lines: BTreeMap<Place, BTreeSet<String>>,
    /// Whether each object has everything it asks for.
    pub fulfilled: BTreeMap<String, bool>,
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

fn zone_spec(zone: &str, cluster: &str) -> Value {
    json!({
        "zoneName": zone,
        "clusterRef": if cluster.is_empty() { Value::Null } else { cluster.into() },
        "recordsFrom": [{ "selector": { "matchLabels": { "zone": mark(zone, cluster) } } }],
    })
}

/// The label of records in a zone.
fn mark(zone: &str, cluster: &str) -> String {
    if cluster.is_empty() {
        return zone.to_owned();
    }
    format!("{cluster}.{zone}")
}

/// Kind and name of an object.
#[must_use]
pub fn id(object: &DynamicObject) -> String {
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

fn v4(number: usize) -> String {
    format!("192.0.2.{number}")
}

fn v6(number: usize) -> String {
    format!("2001:db8::{number}")
}

fn target(number: usize) -> String {
    format!("target{number}.example.net.")
}

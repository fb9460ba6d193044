//! The author of objects in a simulation.

use std::collections::BTreeMap;

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

/// What stands before a digest in the message that tells how to name it.
const ALLOW: &str = "bindery.dev/allow-plan=";

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
    /// What is done to what Bindery wrote, which must not change what the user does otherwise.
    mischief: Random,
    clusters: Clusters,
    /// Objects as they once were.
    exports: Vec<DynamicObject>,
    /// How many probes there were.
    probes: usize,
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
pub(crate) const CLUSTER: &str = "bindery.dev/cluster";

/// The annotation in which Bindery keeps what is its own.
const PUBLISHED: &str = "bindery.dev/published";

/// The name of the cluster beside the usual servers.
pub const INSIDE: &str = "inside";

impl User {
    /// A user whose acts are a function of the seed.
    #[must_use]
    pub fn new(client: Client, seed: u64, clusters: Clusters) -> Self {
        Self {
            client,
            random: Random::new(seed ^ 0x0005_ea50),
            mischief: Random::new(seed ^ 0x0bad_5eed),
            clusters,
            exports: Vec::new(),
            probes: 0,
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

    /// Does something to what Bindery wrote into objects, perhaps, and says what.
    ///
    /// # Errors
    /// The API refused, which no act of this user should cause.
    pub async fn meddle(&mut self) -> Result<Option<String>, kube::Error> {
        let (group, version, kind) = *self.mischief.pick(&KINDS);
        let name = match kind {
            "DNSZone" => format!("zone{}", self.mischief.below(3)),
            _ => format!("object{}", self.mischief.below(3)),
        };
        let api = self.api(group, version, kind);
        let existing = api.get_opt(&name).await?;
        let existing = existing.filter(|one| one.metadata.deletion_timestamp.is_none());
        let Some(existing) = existing.filter(|_| self.mischief.percent(60)) else {
            return Ok(None);
        };
        let params = PatchParams::default();
        let what = match self.mischief.below(4) {
            0 => {
                let patch = json!({"metadata": {"annotations": {PUBLISHED: null}}});
                api.patch(&name, &params, &Patch::Merge(&patch)).await?;
                "loses its annotation"
            }
            1 => {
                let notes = existing.metadata.annotations.as_ref();
                let Some(note) = notes.and_then(|notes| notes.get(PUBLISHED)) else {
                    return Ok(None);
                };
                let (from, to) = (1 + self.mischief.below(3), 1 + self.mischief.below(3));
                let note = note.replace(&v4(from), &v4(to)).replace(&v6(from), &v6(to));
                let patch = json!({"metadata": {"annotations": {PUBLISHED: note}}});
                api.patch(&name, &params, &Patch::Merge(&patch)).await?;
                "has its annotation edited"
            }
            2 => {
                let wrong = json!({"status": {"published": null, "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ZoneNotReady", "message": "no",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]}});
                for _ in 0..=self.mischief.below(3) {
                    api.patch_status(&name, &params, &Patch::Merge(&wrong))
                        .await?;
                    let pause = self.mischief.next_u64() % 30;
                    tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                }
                "has its status overwritten"
            }
            _ => {
                let uid = existing.metadata.uid.clone();
                let export = self.exports.iter().rfind(|one| one.metadata.uid == uid);
                let Some(mut export) = export.cloned() else {
                    self.exports.push(existing);
                    return Ok(None);
                };
                // Whoever takes our finalizer away asks for its records to stay.
                export.metadata.finalizers = existing.metadata.finalizers;
                export.metadata.resource_version = existing.metadata.resource_version;
                let replaced = api.replace(&name, &PostParams::default(), &export).await;
                match replaced {
                    Err(kube::Error::Api(status)) if status.code == 409 => return Ok(None),
                    replaced => drop(replaced?),
                }
                "is put back as it was"
            }
        };
        Ok(Some(format!("{kind}/{name} {what}")))
    }

    /// Declares a record that nothing else stands in the way of, or edits it; returns which.
    ///
    /// # Errors
    /// The API refused.
    pub async fn probe(&mut self) -> Result<String, kube::Error> {
        let (group, version, kind) = KINDS[0];
        let api = self.api(group, version, kind);
        self.probes += 1;
        let label = format!("probe{}", self.probes % 2);
        let address = format!("203.0.113.{}", self.probes);
        let zone = ZONES[self.probes % 2];
        let spec = json!({ "name": label, "ttl": 60, "ipv4Address": address });
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let mut object = DynamicObject::new(&label, &resource).data(json!({ "spec": spec }));
        object.metadata.labels = Some(BTreeMap::from([("zone".to_owned(), mark(zone, ""))]));
        if api.get_opt(&label).await?.is_none() {
            api.create(&PostParams::default(), &object).await?;
        } else {
            let patch = Patch::Merge(&object.data);
            api.patch(&label, &PatchParams::default(), &patch).await?;
        }
        Ok(format!("{kind}/{label}"))
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

    /// Lets every plan through that is held, and returns the zones that may go with them.
    ///
    /// # Errors
    /// The API refused.
    pub async fn let_through(&mut self) -> Result<Vec<String>, kube::Error> {
        let (group, version, kind) = KINDS[5];
        let api = self.api(group, version, kind);
        let mut zones = Vec::new();
        for object in api.list(&ListParams::default()).await?.items {
            let message = object.data["status"]["conditions"]
                .as_array()
                .and_then(|all| {
                    let guarded = all.iter().find(|one| one["type"] == "Guarded")?;
                    guarded["message"].as_str()
                });
            let (Some(message), Some(name)) = (message, &object.metadata.name) else {
                continue;
            };
            let mut commands = message.split(ALLOW).skip(1);
            let Some(digest) = commands.next().and_then(|text| text.split(' ').next()) else {
                continue;
            };
            let patch = json!({"metadata": {"annotations": {"bindery.dev/allow-plan": digest}}});
            let params = PatchParams::default();
            match api.patch(name, &params, &Patch::Merge(&patch)).await {
                // It went meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => drop(result?),
            }
            zones.extend(
                ZONES
                    .iter()
                    .filter(|zone| message.contains(*zone))
                    .map(ToString::to_string),
            );
        }
        Ok(zones)
    }

    /// Whether a zone is served on the usual servers and nobody is about to change that.
    ///
    /// # Errors
    /// The API did not answer.
    pub async fn is_steady(&self, zone: &str) -> Result<bool, kube::Error> {
        let (group, version, kind) = KINDS[5];
        let list = self.api(group, version, kind);
        let list = list.list(&ListParams::default()).await?.items;
        let is_ready = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|one| {
                one["type"] == "Ready"
                    && one["status"] == "True"
                    && one["observedGeneration"].as_i64() == object.metadata.generation
            })
        };
        let mut leaving = list.iter().map(|one| &one.metadata.deletion_timestamp);
        Ok(leaving.all(Option::is_none)
            && list.iter().any(|one| {
                let spec = &one.data["spec"];
                spec["zoneName"] == zone && spec["clusterRef"].is_null() && is_ready(one)
            }))
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

fn v4(number: usize) -> String {
    format!("192.0.2.{number}")
}

fn v6(number: usize) -> String {
    format!("2001:db8::{number}")
}

fn target(number: usize) -> String {
    format!("target{number}.example.net.")
}

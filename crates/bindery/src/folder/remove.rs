//! Takes what is no longer declared out of the API, as `kubectl delete` would; zones are kept.

use std::collections::BTreeMap;

use bindery_sources::meta::PUBLISHED;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::discovery::Scope;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::apply::{Applier, REQUESTS_MAX, plain};
use super::document::{FileProblem, ObjectKey};
use super::plan::{Absent, Origin};
use super::{FILE, NO_LONGER_DECLARED};

/// The kind of zones, and its group.
const ZONE: (&str, &str) = ("bindy.firestoned.io", "DNSZone");

/// The field manager of the mark on a zone.
const MARKER: &str = "bindery-up-marks";

/// What became of an object that is no longer declared.
#[derive(Debug)]
pub(crate) enum Removed {
    /// It is gone, being deleted, or somebody else's.
    Done,
    /// A zone, which is kept and says so.
    Kept,
    /// It stays as long as its zone is kept.
    With(ObjectKey),
    /// Something stands against it.
    Refused(FileProblem),
}

/// Zones that no file declares and that are there all the same.
pub(crate) type Undeclared = BTreeMap<ObjectKey, DynamicObject>;

/// Whether this is a zone.
pub(crate) fn is_zone(key: &ObjectKey) -> bool {
    (key.group.as_str(), key.kind.as_str()) == ZONE
}

/// Whether this declares name servers, with which everything that they serve would go.
fn is_server(key: &ObjectKey) -> bool {
    let kinds = [
        "ClusterBind9Provider",
        "Bind9GlobalCluster",
        "Bind9Cluster",
        "Bind9Instance",
    ];
    key.group == ZONE.0 && kinds.contains(&key.kind.as_str())
}

/// Whether this is a namespace.
pub(crate) fn is_namespace(key: &ObjectKey) -> bool {
    (key.group.as_str(), key.kind.as_str()) == ("", "Namespace")
}

/// In which order things go: what is in a namespace before it, and objects before their kind.
pub(crate) fn rank(key: &ObjectKey) -> u8 {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 2,
        _ if is_namespace(key) => 1,
        _ => 0,
    }
}

impl Applier {
    /// The zones among these that are there.
    ///
    /// # Errors
    /// What the API says against looking.
    pub(crate) async fn fetch_undeclared(
        &self,
        absent: &[Absent],
    ) -> Result<Undeclared, FileProblem> {
        let zones = absent.iter().filter(|one| is_zone(&one.key));
        let zones: Vec<Absent> = zones.cloned().collect();
        let found: Vec<Option<(ObjectKey, DynamicObject)>> = stream::iter(zones)
            .map(|one| self.fetch_zone(one))
            .buffered(REQUESTS_MAX)
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Keeps a zone that no file declares any longer, and marks it. One that never was on a server, and
    /// has nothing to lose, is deleted.
    ///
    /// Cancellation: the zone is as it was or marked; the next pass does the rest.
    pub(crate) async fn keep_zone(&self, one: &Absent, undeclared: &Undeclared) -> Removed {
        let Absent { key, origin, .. } = one;
        let (Some(zone), Some(api)) = (undeclared.get(key), self.api_of(key, origin)) else {
            return Removed::Done;
        };
        let mark = zone.annotations().get(NO_LONGER_DECLARED);
        // Whoever deleted it has decided.
        if zone.metadata.deletion_timestamp.is_some() || mark == Some(&origin.file) {
            return Removed::Kept;
        }
        let done = if was_never_served(zone) {
            // It may be served the next moment: then it has another version and is not deleted.
            let preconditions = Preconditions {
                uid: zone.uid(),
                resource_version: zone.resource_version(),
            };
            let params = DeleteParams::background().preconditions(preconditions);
            api.delete(&key.name, &params).await.map(drop)
        } else {
            let mark = json!({"metadata": {
                "uid": zone.uid(),
                "annotations": {NO_LONGER_DECLARED: origin.file},
            }});
            let params = PatchParams {
                field_manager: Some(MARKER.to_owned()),
                ..PatchParams::default()
            };
            let marked = api.patch(&key.name, &params, &Patch::Merge(mark)).await;
            marked.map(drop)
        };
        match done {
            Ok(()) => Removed::Kept,
            // It is not what it was; the next pass looks again.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Removed::Kept,
            Err(error) => Removed::Refused(refusal(key, origin, plain(&error))),
        }
    }

    /// Deletes objects that are no zones, many at a time, unless a zone that is kept needs them.
    ///
    /// Cancellation: some are deleted, others not; the next pass deletes the rest.
    pub(crate) async fn remove(
        &self,
        absent: Vec<Absent>,
        undeclared: &Undeclared,
    ) -> Vec<(ObjectKey, Removed)> {
        stream::iter(absent)
            .map(|one| self.remove_one(one, undeclared))
            .buffered(REQUESTS_MAX)
            .collect()
            .await
    }

    async fn remove_one(&self, one: Absent, undeclared: &Undeclared) -> (ObjectKey, Removed) {
        let removed = self.try_remove(&one.key, &one.origin, undeclared).await;
        (one.key, removed.unwrap_or_else(Removed::Refused))
    }

    async fn fetch_zone(
        &self,
        one: Absent,
    ) -> Result<Option<(ObjectKey, DynamicObject)>, FileProblem> {
        let found = self.fetch_own(&one.key, &one.origin).await?;
        Ok(found.map(|zone| (one.key, zone)))
    }

    async fn try_remove(
        &self,
        key: &ObjectKey,
        origin: &Origin,
        undeclared: &Undeclared,
    ) -> Result<Removed, FileProblem> {
        if is_our_definition(key) {
            return Ok(Removed::Done);
        }
        // Somebody may have taken it over, or made a new one of the same name: then it is theirs.
        let Some(object) = self.fetch_own(key, origin).await? else {
            return Ok(Removed::Done);
        };
        if let Some(zone) = zone_of(&object, undeclared) {
            return Ok(Removed::With(zone));
        }
        if is_namespace(key) {
            self.check_namespace(key, origin).await?;
        }
        if is_server(key) {
            let place = match key.namespace.as_str() {
                "" => String::new(),
                namespace => format!(" -n {namespace}"),
            };
            let (kind, name) = (key.kind.to_lowercase(), &key.name);
            let text = format!(
                "no file declares it any longer; it is kept because zones are served by it: kubectl delete \
                 {kind} {name}{place} lets it go"
            );
            return Err(refusal(key, origin, text));
        }
        let Some(api) = self.api_of(key, origin) else {
            return Ok(Removed::Done);
        };
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(preconditions);
        match api.delete(&key.name, &params).await {
            Ok(_) => Ok(Removed::Done),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Removed::Done),
            Err(error) => Err(refusal(key, origin, plain(&error))),
        }
    }

    /// Whether no zone would go with a namespace.
    async fn check_namespace(&self, key: &ObjectKey, origin: &Origin) -> Result<(), FileProblem> {
        let refuse = |text: String| refusal(key, origin, text);
        let zones = bindery_api::crds()
            .into_iter()
            .find(|crd| (crd.spec.group.as_str(), crd.spec.names.kind.as_str()) == ZONE);
        let Some(zones) = zones.map(|crd| crate::live::resource(&crd)) else {
            return Ok(());
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.name, &zones);
        let found = api.list_metadata(&ListParams::default().limit(1)).await;
        let found = found.map_err(|error| refuse(plain(&error)))?;
        match found.items.first() {
            None => Ok(()),
            Some(zone) => Err(refuse(format!(
                "no file declares it any longer; it is kept because it has zones in it, which would go \
                 with it: kubectl delete dnszone {} -n {} lets one go",
                zone.name_any(),
                key.name
            ))),
        }
    }

    /// An object that still is what the file declared.
    async fn fetch_own(
        &self,
        key: &ObjectKey,
        origin: &Origin,
    ) -> Result<Option<DynamicObject>, FileProblem> {
        // Where its kind is gone, the object went with it.
        let Some(api) = self.api_of(key, origin) else {
            return Ok(None);
        };
        let found = api.get_opt(&key.name).await;
        let found = found.map_err(|error| refusal(key, origin, plain(&error)))?;
        Ok(found.filter(|object| object.annotations().get(FILE) == Some(&origin.file)))
    }

    fn api_of(&self, key: &ObjectKey, origin: &Origin) -> Option<Api<DynamicObject>> {
        let served = self.resolve(&origin.api_version, &key.kind)?;
        Some(match served.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &served.resource),
            Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), &key.namespace, &served.resource)
            }
        })
    }
}

fn refusal(key: &ObjectKey, origin: &Origin, text: impl std::fmt::Display) -> FileProblem {
    FileProblem::with_file(&origin.file, format!("{key}: {text}"))
}

/// Whether a zone was on no server yet, as far as its object tells. In doubt it was.
fn was_never_served(zone: &DynamicObject) -> bool {
    let listed = |path: &str| {
        let found = zone.data.pointer(path).and_then(Value::as_array);
        found.map_or(&[][..], Vec::as_slice)
    };
    let is_counted = |path: &str| {
        let found = zone.data.pointer(path);
        found.is_some_and(|count| count.as_i64() != Some(0))
    };
    let was_ready = listed("/status/conditions")
        .iter()
        .any(|found| found["type"] == "Ready" && found["status"] != "False");
    zone.finalizers().is_empty()
        && !zone.annotations().contains_key(PUBLISHED)
        && !was_ready
        && listed("/status/servers").is_empty()
        && !is_counted("/status/recordsCount")
        && !is_counted("/status/foreignCount")
}

/// The zone among these that an object is in, as its status or what it has published tells.
fn zone_of(object: &DynamicObject, undeclared: &Undeclared) -> Option<ObjectKey> {
    let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
    let named = text("/status/zoneRef/name").zip(text("/status/zoneRef/namespace"));
    if let Some((name, namespace)) = named {
        let is_it = |zone: &&ObjectKey| zone.name == name && zone.namespace == namespace;
        return undeclared.keys().find(is_it).cloned();
    }
    let lines = object.annotations().get(PUBLISHED)?;
    let is_below = |zone: &str| {
        let owners = lines.lines().filter_map(|line| line.split(' ').next());
        let zone = zone.trim_end_matches('.').to_lowercase();
        owners
            .map(|name| name.trim_end_matches('.').to_lowercase())
            .any(|name| {
                let rest = name.strip_suffix(&zone);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
    };
    let found = undeclared.iter().find(|(_, zone)| {
        let name = zone.data.pointer("/spec/zoneName").and_then(Value::as_str);
        name.is_some_and(is_below)
    });
    found.map(|(key, _)| key.clone())
}

/// Bindery's own kinds are never deleted: all zones and records would go with them.
fn is_our_definition(key: &ObjectKey) -> bool {
    key.kind == "CustomResourceDefinition"
        && bindery_api::crds()
            .iter()
            .any(|crd| crd.metadata.name.as_ref() == Some(&key.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(metadata: &str, rest: &str) -> DynamicObject {
        let text = format!(
            "{{apiVersion: bindy.firestoned.io/v1beta1, kind: DNSZone, \
             metadata: {{name: z, namespace: default, {metadata}}}, {rest}}}"
        );
        serde_saphyr::from_str(&text).expect("a fixture is YAML")
    }

    #[test]
    fn only_a_zone_that_was_on_no_server_has_nothing_to_lose() {
        let refused = "status: {conditions: [{type: Ready, status: 'False', reason: Invalid}]}";
        assert!(was_never_served(&object("", "spec: {}")));
        assert!(was_never_served(&object("", refused)));
        for (metadata, rest) in [
            ("finalizers: [bindery.dev/dns]", "spec: {}"),
            ("annotations: {bindery.dev/published: x}", "spec: {}"),
            ("", "status: {conditions: [{type: Ready, status: 'True'}]}"),
            ("", "status: {conditions: [{type: Ready, status: Unknown}]}"),
            ("", "status: {servers: [{address: a}]}"),
            ("", "status: {recordsCount: 1}"),
            ("", "status: {foreignCount: 1}"),
        ] {
            assert!(
                !was_never_served(&object(metadata, rest)),
                "{metadata} {rest}"
            );
        }
    }

    #[test]
    fn the_zone_of_an_object_is_told_by_its_status_or_its_lines() {
        let key = |name: &str| ObjectKey::new("bindy.firestoned.io/v1beta1", "DNSZone", None, name);
        let zone = object("", "spec: {zoneName: Example.com.}");
        let undeclared = Undeclared::from([(key("z"), zone)]);
        let lines = |name: &str| {
            format!("annotations: {{bindery.dev/published: '{name} 60 IN A 192.0.2.1'}}")
        };
        for (metadata, rest, wanted) in [
            (
                String::new(),
                "status: {zoneRef: {name: z, namespace: default}}",
                true,
            ),
            (
                String::new(),
                "status: {zoneRef: {name: other, namespace: default}}",
                false,
            ),
            (
                lines("www.example.com."),
                "status: {zoneRef: {name: other, namespace: default}}",
                false,
            ),
            (lines("www.example.com."), "spec: {}", true),
            (lines("example.com."), "spec: {}", true),
            (lines("anexample.com."), "spec: {}", false),
            (String::new(), "spec: {}", false),
        ] {
            let found = zone_of(&object(&metadata, rest), &undeclared);
            assert_eq!(found.is_some(), wanted, "{metadata} {rest}");
        }
    }
}

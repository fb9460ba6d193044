//! Objects for tests, from short YAML.

use bindery_core::Kind;
use serde_json::Value;

use super::inventory::Inventory;
use super::listed_object::ListedObject;

/// The inventory of the objects in a YAML stream; names of objects are their UIDs.
pub(super) fn inventory(yaml: &str) -> Inventory {
    let objects = yaml.split("---\n").filter(|part| !part.trim().is_empty());
    Inventory::new(
        objects
            .enumerate()
            .map(|(at, part)| listed(at, part))
            .collect(),
    )
}

fn listed(at: usize, yaml: &str) -> ListedObject {
    let mut data: Value = serde_saphyr::from_str(yaml).expect("a fixture is YAML");
    let kind = Kind::ALL
        .into_iter()
        .find(|kind: &Kind| data["kind"] == kind.as_str())
        .expect("a fixture has a kind of ours");
    let meta = &mut data["metadata"];
    meta["uid"] = format!("uid-{at}").into();
    meta["resourceVersion"] = "7".into();
    meta["generation"] = 1.into();
    if meta["namespace"].is_null() {
        meta["namespace"] = "default".into();
    }
    let metadata = serde_json::from_value(meta.clone()).expect("a fixture has metadata");
    if data["status"].is_object() {
        data["status"]["observedGeneration"] = 1.into();
    }
    ListedObject::new(kind, metadata, &data).expect("a fixture has a status")
}

/// A healthy zone with its server, a ready record, one in conflict and one without a zone.
pub(super) const TOWN: &str = "\
kind: DNSZone
metadata: {name: example-com, finalizers: [bindery.dev/dns]}
spec: {zoneName: example.com, ttl: 300, recordsFrom: [{selector: {matchLabels: {zone: example-com}}}]}
status:
  conditions: [{type: Ready, status: 'True', reason: R, message: served, observedGeneration: 1}]
  servers: [{address: '127.0.0.1:5300', role: primary, serial: 7, ready: true}]
---
kind: ARecord
metadata:
  name: www
  labels: {zone: example-com}
  finalizers: [bindery.dev/dns]
  annotations: {bindery.dev/published: www.example.com. 300 IN A 192.0.2.1}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
status:
  conditions: [{type: Ready, status: 'True', reason: R, message: is served, observedGeneration: 1}]
  recordHash: abc
  lastUpdated: '2026-01-01T00:00:00Z'
---
kind: CNAMERecord
metadata:
  name: alias
  labels: {zone: example-com}
  creationTimestamp: '2026-01-01T00:00:00Z'
  finalizers: [bindery.dev/dns]
  annotations: {bindery.dev/published: www.example.com. 300 IN CNAME x.example.com.}
spec: {name: www, target: x.example.com.}
status:
  conditions: [{type: Ready, status: 'False', reason: Conflict, message: taken, observedGeneration: 1}]
---
kind: ARecord
metadata: {name: lost, labels: {zone: nowhere}}
spec: {name: lost, ipv4Addresses: [192.0.2.9]}
status:
  conditions: [{type: Ready, status: 'False', reason: NotSelected, message: label it, observedGeneration: 1}]
";

//! Kinds that are not like ours: of the whole cluster, with data outside the spec, watched in part.

use std::sync::LazyLock;

use bindery_api::{KindInfo, Kinds, RawObject, Scope, Spec, Watch, info};
use bindery_core::Kind;
use bindery_kube::Management;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use kube::core::ApiResource;
use serde_json::json;

use super::bench::{Bench, ZONE};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: beacons.test.bindery.dev}
spec:
  group: test.bindery.dev
  scope: Cluster
  names: {kind: Beacon, plural: beacons, singular: beacon, listKind: BeaconList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          data: {type: object, additionalProperties: {type: string}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// The table of kinds with beacons in the place of endpoints.
static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let endpoints = Kind::DnsEndpoint;
    let mut kinds = bindery_api::KINDS;
    kinds[endpoints as usize] = KindInfo {
        scope: Scope::Cluster,
        watch: Watch {
            labels: Some("light=on"),
            fields: Some("metadata.name!=dark"),
        },
        resource: || ApiResource {
            group: "test.bindery.dev".to_owned(),
            version: "v1".to_owned(),
            api_version: "test.bindery.dev/v1".to_owned(),
            kind: "Beacon".to_owned(),
            plural: "beacons".to_owned(),
        },
        read,
        ..*info(endpoints)
    };
    kinds
});

/// A beacon says in its data where it is, and by its owners what it stands on.
fn read(object: &RawObject) -> Spec {
    let data = object.field("data");
    let address = json!({
        "dnsName": data["host"], "recordType": "A", "targets": [data["address"]],
    });
    let owners = object.metadata.owner_references.iter().flatten();
    let owners = owners.map(
        |owner| json!({ "dnsName": data["host"], "recordType": "TXT", "targets": [owner.name] }),
    );
    let endpoints: Vec<_> = std::iter::once(address).chain(owners).collect();
    let spec = json!({ "endpoints": endpoints });
    (info(Kind::DnsEndpoint).read)(&RawObject::new(ObjectMeta::default(), [("spec", spec)]))
}

fn beacon(name: &str, light: &str, rest: &str) -> String {
    format!(
        "
apiVersion: test.bindery.dev/v1
kind: Beacon
metadata: {{name: {name}, labels: {{light: '{light}'}}{rest}}}
data: {{host: {name}.example.com, address: 192.0.2.9}}
"
    )
}

async fn with_zone() -> Bench {
    let mut bench = Bench::stopped(Management::Managed).await;
    bench.create(DEFINITION).await;
    bench.kinds = &KINDS;
    bench.start();
    bench.create(ZONE).await;
    bench
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_whole_cluster_is_published_by_its_data_and_its_owners() {
    let mut bench = with_zone().await;
    bench.create(&beacon("rock", "off", "")).await;
    let rock = bench.get("Beacon/rock").await.expect("it is there");
    let uid = rock.metadata.uid.unwrap_or_default();
    let owner = format!(
        ", ownerReferences: [{{apiVersion: test.bindery.dev/v1, kind: Beacon, name: rock, uid: {uid}}}]"
    );
    bench.create(&beacon("east", "on", &owner)).await;
    bench
        .until("Beacon/east", "Programmed", "+Programmed")
        .await;
    let lines = [
        "east.example.com. 300 IN A 192.0.2.9",
        "east.example.com. 300 IN TXT \"rock\"",
    ];
    bench.until_lines(&lines).await;
    bench.restart().await;
    bench.settle().await;
    assert_eq!(bench.lines(), lines);

    bench.delete("Beacon/east").await;
    bench.until_gone("Beacon/east").await;
    bench.until_lines(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_the_selectors_of_a_kind_match_is_looked_at() {
    let bench = with_zone().await;
    for (name, light) in [("off", "off"), ("dark", "on"), ("west", "on")] {
        bench.create(&beacon(name, light, "")).await;
    }
    bench
        .until("Beacon/west", "Programmed", "+Programmed")
        .await;
    bench.settle().await;
    let west = ["west.example.com. 300 IN A 192.0.2.9"];
    assert_eq!(bench.lines(), west);
    for name in ["Beacon/off", "Beacon/dark"] {
        assert!(bench.finalizers(name).await.is_empty(), "{name}");
        let object = bench.get(name).await.expect("it is there");
        assert!(object.data["status"].is_null(), "{name}");
    }

    // What leaves the selection is told as deleted, and what comes into it as new.
    let light = |light: &str| json!({"metadata": {"labels": {"light": light}}});
    bench.patch("Beacon/west", light("off")).await;
    bench.until_lines(&[]).await;
    bench.patch("Beacon/west", light("on")).await;
    bench.until_lines(&west).await;
}

#[tokio::test(start_paused = true)]
async fn events_about_an_object_of_the_whole_cluster_stand_where_kubernetes_puts_them() {
    let bench = with_zone().await;
    bench.create(&beacon("south", "on", "")).await;
    bench
        .until("Beacon/south", "Programmed", "+Programmed")
        .await;
    bench
        .patch("Beacon/south", json!({"data": {"address": "nowhere"}}))
        .await;
    bench.until("Beacon/south", "Accepted", "-Invalid").await;
    bench.settle().await;
    let events: Api<Event> = Api::namespaced(bench.client.clone(), "default");
    let events = events.list(&ListParams::default()).await;
    let events = events.expect("the API answers").items;
    let event = events
        .iter()
        .find(|event| event.involved_object.name.as_deref() == Some("south"))
        .expect("its author is warned");
    assert_eq!(event.involved_object.kind.as_deref(), Some("Beacon"));
    assert_eq!(event.involved_object.namespace, None);
    assert_eq!(event.reason.as_deref(), Some("Invalid"));
}

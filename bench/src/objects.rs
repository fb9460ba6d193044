//! The objects that are declared and the names they stand for.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use bindery_core::Name;
use serde_json::{Value, json};

/// Where zones are created.
pub(crate) const ZONES: &str = "/apis/bindy.firestoned.io/v1beta1/namespaces/default/dnszones";
/// Where clusters of name servers are created.
pub(crate) const CLUSTERS: &str =
    "/apis/bindy.firestoned.io/v1beta1/namespaces/default/bind9clusters";
/// Where their name servers are listed.
pub(crate) const INSTANCES: &str =
    "/apis/bindy.firestoned.io/v1beta1/namespaces/default/bind9instances";
/// Where pods are listed.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
/// Where secrets are listed.
pub(crate) const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Where address records are created.
pub(crate) const RECORDS: &str = "/apis/bindy.firestoned.io/v1beta1/namespaces/default/arecords";
/// Where endpoints are created.
pub(crate) const ENDPOINTS: &str =
    "/apis/externaldns.k8s.io/v1alpha1/namespaces/default/dnsendpoints";
/// Where config maps are created.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The TTL of every record.
pub(crate) const TTL: u32 = 300;

/// The label and value by which all zones are listed.
pub(crate) const ALL_ZONES: &str = "part=zones";

/// A zone that takes the records labelled with its own name.
pub(crate) fn zone(label: &str) -> Value {
    json!({
        "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "DNSZone",
        "metadata": {"name": label, "labels": {"part": "zones"}},
        "spec": {
            "zoneName": format!("{label}.test"), "ttl": TTL,
            "recordsFrom": [{"selector": {"matchLabels": {"zone": label}}}],
        },
    })
}

/// The same on the servers of a cluster.
pub(crate) fn zone_on(label: &str, cluster: Option<&str>) -> Value {
    let mut zone = zone(label);
    if let Some(cluster) = cluster {
        zone["spec"]["clusterRef"] = cluster.into();
    }
    zone
}

/// A cluster of so many primaries and secondaries.
pub(crate) fn cluster(name: &str, primaries: usize, secondaries: usize) -> Value {
    json!({
        "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "Bind9Cluster",
        "metadata": {"name": name},
        "spec": {
            "primary": {"replicas": primaries}, "secondary": {"replicas": secondaries},
            "global": {"recursion": false, "allowQuery": ["any"]},
        },
    })
}

/// An address record in a zone; `part` tells watches which measurement it belongs to.
pub(crate) fn record(zone: &str, name: &str, part: &str, address: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "ARecord",
        "metadata": {"name": object(zone, name), "labels": {"zone": zone, "part": part}},
        "spec": {"name": name, "ipv4Addresses": [address.to_string()]},
    })
}

/// The same as an endpoint, which external-dns reads too.
pub(crate) fn endpoint(zone: &str, name: &str, part: &str, address: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint",
        "metadata": {"name": object(zone, name), "labels": {"part": part}},
        "spec": {"endpoints": [{
            "dnsName": format!("{name}.{zone}.test"), "recordType": "A", "recordTTL": TTL,
            "targets": [address.to_string()],
        }]},
    })
}

/// The name of the object of a record in a zone.
pub(crate) fn object(zone: &str, name: &str) -> String {
    format!("{name}.{zone}")
}

/// A small object that no controller looks at.
pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"key": "a short value"},
    })
}

/// The apex of the zone that [`zone`] declares.
pub(crate) fn apex(label: &str) -> Result<Name> {
    Name::parse(&format!("{label}.test")).with_context(|| format!("{label} is no label"))
}

/// The domain name of a record in a zone.
pub(crate) fn host(zone: &str, name: &str) -> Result<Name> {
    Name::parse(&format!("{name}.{zone}.test")).with_context(|| format!("{name} is no label"))
}

/// A different address for every number, all in 10.0.0.0/8.
pub(crate) fn address(number: usize) -> Ipv4Addr {
    let [_, high, middle, low] = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

/// Whether the object says Ready, or Programmed as endpoints do, for its present generation.
pub(crate) fn is_ready(object: &Value) -> bool {
    let generation = object["metadata"]["generation"].as_i64();
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        (condition["type"] == "Ready" || condition["type"] == "Programmed")
            && condition["status"] == "True"
            && condition["observedGeneration"].as_i64() == generation
    })
}

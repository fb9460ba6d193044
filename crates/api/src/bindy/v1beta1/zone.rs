//! `DNSZone`.

#![expect(
    clippy::duplicated_attributes,
    reason = "columns of one kind share types and paths"
)]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::ZoneStatus;
use crate::schema;

/// What a zone is to be.
#[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "bindy.firestoned.io",
    version = "v1beta1",
    kind = "DNSZone",
    root = "DnsZone",
    plural = "dnszones",
    shortname = "zone",
    shortname = "zones",
    shortname = "dz",
    shortname = "dzs",
    namespaced,
    status = "ZoneStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A DNS zone that Bindery serves, and the records that belong to it.",
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zoneName"),
    printcolumn(
        name = "Records",
        type_ = "integer",
        json_path = ".status.recordsCount"
    ),
    printcolumn(name = "TTL", type_ = "integer", json_path = ".spec.ttl"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = 1
    ),
    printcolumn(
        name = "Serial",
        type_ = "integer",
        json_path = ".status.servers[0].serial",
        priority = 1
    ),
    printcolumn(
        name = "DNSSEC",
        type_ = "boolean",
        json_path = ".status.dnssec.signed",
        priority = 1
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterRef",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["zoneName"]))]
pub struct DnsZoneSpec {
    /// The zone's name, such as example.com. The trailing dot is optional.
    #[schemars(schema_with = "schema::zone_name")]
    pub zone_name: String,

    /// The SOA record. Whatever is left out gets a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soa_record: Option<SoaRecord>,

    /// The TTL in seconds of records that set none. Default 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ttl")]
    pub ttl: Option<i64>,

    /// The zone's name servers: NS records at its apex, with glue where an address is given.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::list::<NameServer, 64>")]
    pub name_servers: Vec<NameServer>,

    /// Older form of nameServers: host name to IPv4 address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub name_server_ips: BTreeMap<String, String>,

    /// Which records of the same namespace belong to the zone. A record matches when any selector
    /// does; an empty selector matches every record.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::list::<SelectorSource, 64>")]
    pub records_from: Vec<SelectorSource>,

    /// Whether records that Bindery did not write are removed from the zone. Default false: they are
    /// kept and counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,

    /// The cluster of name servers that serves the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<String>,

    /// The cluster-wide provider that serves the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_provider_ref: Option<String>,

    /// Older name of clusterProviderRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_cluster_ref: Option<String>,

    /// Which name server instances serve the zone, by their labels.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::list::<SelectorSource, 64>")]
    pub bind9_instances_from: Vec<SelectorSource>,

    /// Older name of bind9InstancesFrom.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::list::<SelectorSource, 64>")]
    pub instances_from: Vec<SelectorSource>,

    /// The DNSSEC policy by which the first primary signs the zone: "default", or one that the cluster declares.
    /// "none" takes keys and signatures out of a signed zone; left out, the zone stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::dnssec_policy")]
    pub dnssec_policy: Option<String>,
}

/// The SOA record of a zone.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SoaRecord {
    /// The primary name server. Default: the first of nameServers, else ns1 in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_name")]
    pub primary_ns: Option<String>,

    /// Who is responsible: admin@example.com, or admin.example.com. in DNS form.
    /// Default: hostmaster in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mailbox")]
    pub admin_email: Option<String>,

    /// The serial to start with. It grows with every change. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 4_294_967_295>")]
    pub serial: Option<i64>,

    /// Seconds between checks by secondaries. Default 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 2_147_483_647>")]
    pub refresh: Option<i64>,

    /// Seconds before a failed check is tried again. Default 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 2_147_483_647>")]
    pub retry: Option<i64>,

    /// Seconds after which secondaries without contact stop answering. Default 604800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 2_147_483_647>")]
    pub expire: Option<i64>,

    /// Seconds for which resolvers may remember that a name does not exist. Default 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ttl")]
    pub negative_ttl: Option<i64>,
}

/// A name server of a zone.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["hostname"]))]
pub struct NameServer {
    /// Its host name.
    #[schemars(schema_with = "schema::name")]
    pub hostname: String,

    /// Its IPv4 address, published as glue when the host lies in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ipv4")]
    pub ipv4_address: Option<String>,

    /// Its IPv6 address, published as glue when the host lies in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ipv6")]
    pub ipv6_address: Option<String>,
}

/// One way of choosing objects.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["selector"]))]
pub struct SelectorSource {
    /// Chooses objects by their labels.
    pub selector: LabelSelector,
}

/// A label selector; all of its requirements must hold.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be present with exactly these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Further requirements on labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<Requirement>>,
}

/// One requirement on a label.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct Requirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// In, NotIn, Exists or DoesNotExist.
    #[schemars(extend("enum" = ["In", "NotIn", "Exists", "DoesNotExist"]))]
    pub operator: String,

    /// The values for In and NotIn; nothing for the other two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

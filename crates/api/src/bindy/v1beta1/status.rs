//! The statuses of zones and records.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is known about a zone.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneStatus {
    /// Ready, Progressing and Degraded; Guarded where a plan is held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many record objects belong to the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_count: Option<i64>,

    /// The record objects that belong to the zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordReference>,

    /// How many record sets in the zone Bindery did not write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_count: Option<i64>,
    /// The newest serial that the first server was seen at, while it has an older one because it lost
    /// changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_serial: Option<i64>,
    /// The serial that the zone was last seen at, while no server tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_serial: Option<i64>,

    /// The zones that this object has on servers, sealed for it. Bindery knows by them what is its own where
    /// the annotation was edited or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,

    /// How the zone is signed, where it is or is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<DnssecStatus>,

    /// The servers of the zone and what each of them serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::servers")]
    pub servers: Vec<ServerStatus>,

    /// Removals of late, so that a restart does not forget them; they are written down before they
    /// happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removals: Option<RemovalsStatus>,
}

/// How a zone is signed.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["signed"]))]
pub struct DnssecStatus {
    /// Whether all of it is signed.
    pub signed: bool,
    /// The server that signs it, and that alone of all primaries has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// What the zone above is to publish, one for each key that signs keys: "example.com. IN DS 12345 13 2 …".
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ds_records: Vec<String>,
    /// The tag of the first of these keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_tag: Option<i64>,
    /// Its algorithm, such as ECDSAP256SHA256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
}

/// Removals of late.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["at"]))]
pub struct RemovalsStatus {
    /// When this was written.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// What stands for each record set that was, or was about to be, removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<String>,
    /// How many more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<i64>,
    /// What stands for each record set whose removal was let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<String>,
}

/// A record object of a zone.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name", "namespace"]))]
pub struct RecordReference {
    /// The record's API version.
    pub api_version: String,
    /// The record's kind.
    pub kind: String,
    /// The record object's name.
    pub name: String,
    /// The record object's namespace.
    pub namespace: String,
    /// The DNS name that it declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_name: Option<String>,
    /// When it was last published.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_reconciled_at: Option<String>,
}

/// One server of a zone.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["address", "role", "ready"]))]
pub struct ServerStatus {
    /// Where it listens.
    pub address: String,
    /// Its role: primary or secondary.
    pub role: String,
    /// The serial that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<i64>,
    /// Whether it serves what is declared.
    pub ready: bool,
}

/// What is known about a record.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordStatus {
    /// Ready says whether the record is served as declared, and why not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The name of the zone that the record is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,

    /// The zone object that the record belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_ref: Option<ZoneReference>,

    /// SHA-256 over what was published: name, type, TTL and data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_hash: Option<String>,

    /// When DNS was last changed for this record.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated: Option<String>,

    /// The addresses that were published, comma-separated (A and AAAA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<String>,

    /// The zone-file lines that were seen in DNS for this object, sealed for it. Bindery knows by them what
    /// is its own where the annotation was edited or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,

    /// The full DNS name that was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_name: Option<String>,
}

/// The zone object of a record.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name", "namespace", "zoneName"]))]
pub struct ZoneReference {
    /// The zone's API version.
    pub api_version: String,
    /// The zone's kind.
    pub kind: String,
    /// The zone object's name.
    pub name: String,
    /// The zone object's namespace.
    pub namespace: String,
    /// The zone's DNS name.
    pub zone_name: String,
    /// When the record was last published there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_reconciled_at: Option<String>,
}

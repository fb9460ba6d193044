//! `Bind9Instance`.

#![expect(
    clippy::duplicated_attributes,
    reason = "columns of one kind share types and paths"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::{Bind9Config, BindcarConfig};
use super::pod::{ConfigMapRefs, ImageConfig, RndcKeyConfig, RndcSecretRef, StorageConfig};
use crate::schema;

/// What an instance is to be.
#[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "bindy.firestoned.io",
    version = "v1beta1",
    kind = "Bind9Instance",
    plural = "bind9instances",
    shortname = "b9",
    shortname = "b9s",
    namespaced,
    status = "InstanceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A BIND 9 name server: one of a cluster, or one by itself.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Zones", type_ = "integer", json_path = ".status.zonesCount"),
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
        name = "Address",
        type_ = "string",
        json_path = ".status.serviceAddress",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["clusterRef", "role"]))]
pub struct Bind9InstanceSpec {
    /// The Bind9Cluster of the same namespace that it belongs to, or the cluster-wide one; empty for an
    /// instance by itself.
    #[schemars(schema_with = "schema::cluster_name")]
    pub cluster_ref: String,

    /// primary takes updates, secondary copies.
    #[schemars(schema_with = "schema::server_role")]
    pub role: String,

    /// How many pods it has. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 100>")]
    pub replicas: Option<i64>,

    /// The version of BIND. Default: that of its cluster, else 9.18.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::version")]
    pub version: Option<String>,

    /// The image. Default: that of its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageConfig>,

    /// Configuration of your own instead of the generated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_refs: Option<ConfigMapRefs>,

    /// The configuration; what it leaves out is as its cluster says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Bind9Config>,

    /// Not acted on: zones are copied from the primaries of their own servers.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::address_list")]
    pub primary_servers: Vec<String>,

    /// Volumes of the pods, as Kubernetes writes them: emptyDir, configMap, secret or
    /// persistentVolumeClaim.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::open_list")]
    pub volumes: Vec<Value>,

    /// Where the server mounts them.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::open_list")]
    pub volume_mounts: Vec<Value>,

    /// Older form of rndcKey.secretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_secret_ref: Option<RndcSecretRef>,

    /// The key. Default: one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_key: Option<RndcKeyConfig>,

    /// Where it keeps its zones. Default: emptyDir, which goes with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,

    /// The sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindcar_config: Option<BindcarConfig>,
}

/// What is known about an instance.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStatus {
    /// Ready, and one condition for each pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The generation of the cluster that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_parent_generation: Option<i64>,

    /// How many pods there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,

    /// How many of them are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i64>,

    /// The address of its Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_address: Option<String>,

    /// The cluster that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<OwnerReferenceStatus>,

    /// The zones that it serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ServedZone>,

    /// How many zones it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones_count: Option<i64>,

    /// When its key is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_key_rotation: Option<KeyRotationStatus>,
}

/// The cluster of an instance.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct OwnerReferenceStatus {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A zone that an instance serves.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["apiVersion", "kind", "name", "namespace", "zoneName"]))]
pub struct ServedZone {
    /// The zone object's API version.
    pub api_version: String,
    /// The zone object's kind.
    pub kind: String,
    /// The zone object's name.
    pub name: String,
    /// The zone object's namespace.
    pub namespace: String,
    /// The zone's DNS name.
    pub zone_name: String,
}

/// When a key was made and is replaced.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["createdAt"]))]
pub struct KeyRotationStatus {
    /// When the key was made.
    #[schemars(schema_with = "schema::time")]
    pub created_at: String,
    /// When it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub rotate_at: Option<String>,
    /// When the one before it was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_rotated_at: Option<String>,
    /// How often that was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_count: Option<i64>,
}

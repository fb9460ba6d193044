//! What a spec says about the pods of a server: image, storage, keys, Service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// The image of a server.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageConfig {
    /// The image. Default: internetsystemsconsortium/bind9 of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,

    /// When it is pulled: Always, IfNotPresent or Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pull_policy")]
    pub image_pull_policy: Option<String>,

    /// Names of Secrets to pull it with.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::object_names")]
    pub image_pull_secrets: Vec<String>,
}

/// `ConfigMap`s with configuration of your own.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapRefs {
    /// The ConfigMap with named.conf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub named_conf: Option<String>,

    /// The ConfigMap with named.conf.options.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub named_conf_options: Option<String>,

    /// The ConfigMap with named.conf.zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub named_conf_zones: Option<String>,
}

/// The Service of an instance.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceConfig {
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Fields of its spec, as Kubernetes writes them, such as type and externalTrafficPolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub spec: Option<Value>,
}

/// A key in a Secret that already exists.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct RndcSecretRef {
    /// The Secret's name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// The key's algorithm. Default hmac-sha256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_algorithm")]
    pub algorithm: Option<String>,

    /// The field of the Secret with the key's name. Default key-name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_name_key: Option<String>,

    /// The field of the Secret with the key. Default secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
}

/// The key of a server.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RndcKeyConfig {
    /// Whether a generated key is replaced from time to time. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_rotate: Option<bool>,

    /// After how long: 720h, 30d, 4w. Default 720h; at least 1h, at most 8760h.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::rotation")]
    pub rotate_after: Option<String>,

    /// A Secret that already exists, instead of a generated key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<RndcSecretRef>,

    /// What the Secret of the generated key is to be called and to carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<RndcSecretConfig>,

    /// The algorithm of a generated key. Default hmac-sha256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::key_algorithm")]
    pub algorithm: Option<String>,
}

/// The Secret of a generated key.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RndcSecretConfig {
    /// Its name, labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<SecretMetadata>,

    /// Its type. Default Opaque.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Further fields, as text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub string_data: BTreeMap<String, String>,

    /// Further fields, in base64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
}

/// Name, labels and annotations of a Secret.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretMetadata {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: Option<String>,

    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Where a server keeps its zones.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageConfig {
    /// emptyDir, which goes with the pod, or persistentVolumeClaim, which stays. Default emptyDir.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::storage_type")]
    pub storage_type: Option<String>,

    /// The emptyDir, as Kubernetes writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub empty_dir: Option<Value>,

    /// The claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimConfig>,
}

/// A claim of storage for each pod.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimConfig {
    /// A claim that already exists, for an instance of one pod, instead of one for each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object_name")]
    pub claim_name: Option<String>,

    /// The class of storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,

    /// How much. Default 1Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<String>,

    /// Who may mount it. Default ReadWriteOnce.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::access_modes")]
    pub access_modes: Vec<String>,
}

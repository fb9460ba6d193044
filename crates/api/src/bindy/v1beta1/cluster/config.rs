//! The configuration of `named` and of its sidecar, as a spec gives it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pod::RndcSecretRef;
use crate::schema;

/// The configuration of `named`.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Bind9Config {
    /// Whether it resolves names of other zones. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursion: Option<bool>,

    /// Who may ask: addresses, networks, names of acls, any, none, localhost, localnets; ! before one
    /// excludes it. Default any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_list")]
    pub allow_query: Option<Vec<String>>,

    /// Who may copy zones, beside the servers of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_list")]
    pub allow_transfer: Option<Vec<String>>,

    /// DNSSEC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<DnssecConfig>,

    /// Where questions about other zones go: addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_list")]
    pub forwarders: Option<Vec<String>>,

    /// Addresses to listen on. Default any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_list")]
    pub listen_on: Option<Vec<String>>,

    /// IPv6 addresses to listen on. Default any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_list")]
    pub listen_on_v6: Option<Vec<String>>,

    /// Limits how often the same answer goes to the same network. Default: not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitConfig>,

    /// Older place of rndcKey.secretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_secret_ref: Option<RndcSecretRef>,

    /// The sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bindcar_config: Option<BindcarConfig>,
}

/// How often the same answer may go to the same network.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitConfig {
    /// Same answers per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 1000>")]
    pub responses_per_second: Option<i64>,

    /// Over how many seconds they are counted. Default 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 3600>")]
    pub window: Option<i64>,

    /// Every how many of the answers that are kept back is sent cut short instead. Default 2; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 10>")]
    pub slip: Option<i64>,
}

/// DNSSEC of a server.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DnssecConfig {
    /// Older manifests have it. named always serves what a zone is signed with, so that only true can be meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::only_true")]
    pub enabled: Option<bool>,

    /// Whether answers of other zones are checked, where it resolves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<bool>,

    /// How zones are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<SigningConfig>,
}

/// A policy by which zones are signed.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SigningConfig {
    /// Whether zones that name the policy can be signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// The name of the policy, which a zone gives in dnssecPolicy. Default: bindery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::dnssec_policy")]
    pub policy: Option<String>,

    /// The algorithm of the keys. Default ECDSAP256SHA256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::dnssec_algorithm")]
    pub algorithm: Option<String>,

    /// How long a key-signing key is used: 365d, or unlimited. Default unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::lifetime")]
    pub ksk_lifetime: Option<String>,

    /// How long a zone-signing key is used: 90d, or unlimited. Default unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::lifetime")]
    pub zsk_lifetime: Option<String>,

    /// Whether NSEC3 proves that a name does not exist, instead of NSEC. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nsec3: Option<bool>,

    /// Salt for NSEC3: digits of its length are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::salt")]
    pub nsec3_salt: Option<String>,

    /// Iterations of NSEC3. Default 0, as RFC 9276 asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 50>")]
    pub nsec3_iterations: Option<i64>,

    /// Where keys come from. Default: the server makes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_from: Option<SigningKeySource>,

    /// Whether keys are made by the server where none are given. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_generate: Option<bool>,

    /// Whether keys are kept in the Secret INSTANCE-dnssec-keys, so that another pod has them again. Default true,
    /// unless keysFrom is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_to_secret: Option<bool>,
}

/// Where the keys of signed zones come from.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SigningKeySource {
    /// A Secret of the same namespace that has them, with _ for + in the names of their files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,

    /// Not acted on: keys lie beside the zones, so that storage that stays keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub persistent_volume: Option<Value>,
}

/// A Secret.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct SecretReference {
    /// Its name.
    pub name: String,

    /// Its namespace. Default: that of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The sidecar that manages the zones of a server.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct BindcarConfig {
    /// Its image. Default: that of Bindery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<String>,

    /// When the image is pulled: Always, IfNotPresent or Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pull_policy")]
    pub image_pull_policy: Option<String>,

    /// Its resources, as Kubernetes writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub resources: Option<Value>,

    /// The port that it listens on. Default 8080.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<1, 65_535>")]
    pub port: Option<i64>,

    /// A Service INSTANCE-api for the sidecars, of this spec. Default: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub service_spec: Option<Value>,

    /// How much it logs: error, warn, info, debug or trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::log_level")]
    pub log_level: Option<String>,

    /// Further variables of its environment, as Kubernetes writes them.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::open_list")]
    pub env_vars: Vec<Value>,
}

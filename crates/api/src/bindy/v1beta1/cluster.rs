//! Clusters of name servers: `Bind9Cluster`, and the kinds that declare one for the whole Kubernetes cluster.

#![expect(
    clippy::duplicated_attributes,
    reason = "columns of one kind share types and paths"
)]

mod config;
mod instance;
mod pod;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

pub use config::{
    Bind9Config, BindcarConfig, DnssecConfig, RateLimitConfig, SecretReference, SigningConfig,
    SigningKeySource,
};
pub use instance::{
    Bind9Instance, Bind9InstanceSpec, InstanceStatus, KeyRotationStatus, OwnerReferenceStatus,
    ServedZone,
};
pub use pod::{
    ClaimConfig, ConfigMapRefs, ImageConfig, RndcKeyConfig, RndcSecretConfig, RndcSecretRef,
    SecretMetadata, ServiceConfig, StorageConfig,
};

/// What a cluster of name servers is to be.
#[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "bindy.firestoned.io",
    version = "v1beta1",
    kind = "Bind9Cluster",
    plural = "bind9clusters",
    shortname = "b9c",
    shortname = "b9cs",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A cluster of BIND 9 name servers in one namespace.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Primary",
        type_ = "integer",
        json_path = ".spec.primary.replicas"
    ),
    printcolumn(
        name = "Secondary",
        type_ = "integer",
        json_path = ".spec.secondary.replicas"
    ),
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
pub struct Bind9ClusterSpec {
    /// What every cluster says.
    #[serde(flatten)]
    pub common: ClusterConfig,
}

macro_rules! provider {
    ($kind:literal, $spec:ident, $plural:literal, [$($short:literal),*], $doc:literal) => {
        #[doc = $doc]
        #[derive(CustomResource, Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
        #[kube(
            group = "bindy.firestoned.io",
            version = "v1beta1",
            kind = $kind,
            plural = $plural,
            $(shortname = $short,)*
            status = "ClusterStatus",
            derive = "PartialEq",
            derive = "Default",
            doc = $doc,
            printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
            printcolumn(
                name = "Primary",
                type_ = "integer",
                json_path = ".spec.primary.replicas"
            ),
            printcolumn(
                name = "Secondary",
                type_ = "integer",
                json_path = ".spec.secondary.replicas"
            ),
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
        pub struct $spec {
            /// The namespace of its cluster. Default: the namespace that Bindery runs in, else
            /// bindy-system.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "schema::object_name")]
            pub namespace: Option<String>,

            /// What every cluster says.
            #[serde(flatten)]
            pub common: ClusterConfig,
        }
    };
}

provider!(
    "ClusterBind9Provider",
    ClusterBind9ProviderSpec,
    "clusterbind9providers",
    ["cb9p", "cb9ps"],
    "A cluster of BIND 9 name servers that zones of every namespace may use."
);
provider!(
    "Bind9GlobalCluster",
    Bind9GlobalClusterSpec,
    "bind9globalclusters",
    ["b9gc", "b9gcs"],
    "The older name of ClusterBind9Provider."
);

/// What a cluster of name servers is to be, of whatever kind it is.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterConfig {
    /// The version of BIND. Default 9.18.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::version")]
    pub version: Option<String>,

    /// The servers that take updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<ServerSet>,

    /// The servers that copy from the primaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secondary: Option<ServerSet>,

    /// The image of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageConfig>,

    /// Configuration of your own instead of the generated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_refs: Option<ConfigMapRefs>,

    /// The configuration of every server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<Bind9Config>,

    /// Keys in Secrets that already exist, which every server accepts for updates and transfers.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::list::<RndcSecretRef, 16>")]
    pub rndc_secret_refs: Vec<RndcSecretRef>,

    /// Access lists: names that allowQuery and allowTransfer may use, with their addresses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::acls")]
    pub acls: BTreeMap<String, Vec<String>>,

    /// Where servers keep their zones. Default: emptyDir, which goes with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,

    /// Volumes of the pods, as Kubernetes writes them: emptyDir, configMap, secret or
    /// persistentVolumeClaim.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::open_list")]
    pub volumes: Vec<Value>,

    /// Where the servers mount them.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::open_list")]
    pub volume_mounts: Vec<Value>,
}

/// The servers of one role.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerSet {
    /// How many instances there are, each of one pod. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::number::<0, 100>")]
    pub replicas: Option<i64>,

    /// Further labels of the instances.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// The Service of each instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceConfig>,

    /// Who may copy zones from these servers, beside the servers of the cluster.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "schema::null_as_empty"
    )]
    #[schemars(schema_with = "schema::address_list")]
    pub allow_transfer: Vec<String>,

    /// Older form of rndcKey.secretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_secret_ref: Option<RndcSecretRef>,

    /// The key of these servers. Default: one is made for each instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rndc_key: Option<RndcKeyConfig>,
}

/// What is known about a cluster.
#[derive(Deserialize, Serialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Ready, and one condition for each child.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many instances there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_count: Option<i64>,

    /// How many of them are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_instances: Option<i64>,

    /// The names of the instances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
}

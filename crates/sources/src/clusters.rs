//! Clusters of name servers: which objects carry out what is declared, and what is said of them.
//!
//! A cluster-wide declaration has a cluster, a cluster has instances, an instance has a `StatefulSet` with
//! what its pods need. Each level looks only at its own children.

mod conditions;
mod cover;
mod files;
mod hierarchy;
mod key_ring;
mod labels;
mod named_conf;
mod pods;
mod signing_keys;
mod volumes;
mod workload;

pub use conditions::{Rollup, Said, merge_conditions};
pub use cover::covers;
pub use files::{GivenFile, given_files, has_foreign_sidecar, instance_files};
pub use hierarchy::{
    ClusterView, InstancePlan, InstanceView, cluster_of_provider, cluster_rollup, plan_instances,
    provider_rollup,
};
pub use key_ring::{
    KEY_OVERLAP, KeyFacts, KeyRing, KeyStep, KeyWish, OtherKey, RingKey, rotation_period,
};
pub use labels::{
    CLUSTER_FINALIZER, CLUSTER_LABEL, INDEX_ANNOTATION, INSTANCE_FINALIZER, INSTANCE_LABEL,
    PARENT_GENERATION_ANNOTATION, PART_OF, PART_OF_LABEL, ROLE_LABEL,
};
pub use named_conf::{
    ALIVE_PORT, CONTROL_PORT, DNS_PORT, KeySlot, NamedConf, NamedKey, POLICY_DEFAULT,
    default_policy, key_files, merged, render,
};
pub use pods::{InstanceFacts, PodView, SidecarView, instance_rollup};
pub use signing_keys::{
    SigningKeys, kept_keys, keys_to_keep, makes_no_keys, not_acted_on, not_acted_on_by_any,
};
pub use volumes::volume_problems;
pub use workload::{
    ConfigFiles, KEY_NAME, TRANSFER_KEY, TRANSFER_SECRET, Workload, config_name, given_secret,
    key_secret_name, workload,
};

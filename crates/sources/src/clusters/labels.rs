//! Names, labels and annotations of the objects of a cluster.

use bindery_api::Bind9InstanceSpec;
use serde_json::{Map, Value, json};

/// Which instance of its cluster an instance is; its condition has the same number.
pub const INDEX_ANNOTATION: &str = "bindy.firestoned.io/instance-index";
/// The generation of the cluster whose configuration an instance is to have.
pub const PARENT_GENERATION_ANNOTATION: &str = "bindery.dev/cluster-generation";
/// The cluster of an instance.
pub const CLUSTER_LABEL: &str = "bindy.firestoned.io/cluster";
/// What an instance does.
pub const ROLE_LABEL: &str = "bindy.firestoned.io/role";
/// Who made an instance.
pub(crate) const MANAGED_BY_LABEL: &str = "bindy.firestoned.io/managed-by";
/// The instance of a pod, and of everything that it needs.
pub const INSTANCE_LABEL: &str = "instance";
/// What everything of a cluster is part of, so that it can be watched alone.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// Its value.
pub const PART_OF: &str = "bindy";
/// Keeps an instance until its servers serve no zone.
pub const INSTANCE_FINALIZER: &str = "bindy.firestoned.io/bind9instance-finalizer";
/// What earlier operators left on clusters; nothing waits for it here.
pub const CLUSTER_FINALIZER: &str = "bindy.firestoned.io/bind9cluster-finalizer";

/// The labels of an instance's workload.
pub(crate) fn workload_labels(instance: &str, spec: &Bind9InstanceSpec) -> Map<String, Value> {
    let owner = if spec.cluster_ref.is_empty() {
        "Bind9Instance"
    } else {
        "Bind9Cluster"
    };
    let labels = json!({
        "app": "bind9",
        INSTANCE_LABEL: instance,
        ROLE_LABEL: spec.role,
        "app.kubernetes.io/name": "bind9",
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": "dns-server",
        PART_OF_LABEL: PART_OF,
        "app.kubernetes.io/managed-by": owner,
    });
    // It was written as an object above.
    labels.as_object().cloned().unwrap_or_default()
}

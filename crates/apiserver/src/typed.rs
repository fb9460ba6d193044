//! Built-in kinds read through their Kubernetes types: wrong types are refused, unknown fields found.

use k8s_openapi::api::{
    apps::v1 as apps, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, networking::v1 as networking,
    policy::v1 as policy, rbac::v1 as rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an object through its type and writes it back, which drops what the type does not know.
/// `None` if the kind has no type here.
pub(crate) fn round_trip(
    api_version: &str,
    kind: &str,
    value: &Value,
) -> Option<Result<Value, serde_json::Error>> {
    let through = match (api_version, kind) {
        ("v1", "ConfigMap") => through::<core::ConfigMap>,
        ("v1", "Endpoints") => through::<core::Endpoints>,
        ("v1", "Event") => through::<core::Event>,
        ("v1", "Namespace") => through::<core::Namespace>,
        ("v1", "Node") => through::<core::Node>,
        ("v1", "PersistentVolumeClaim") => through::<core::PersistentVolumeClaim>,
        ("v1", "Pod") => through::<core::Pod>,
        ("v1", "Secret") => through::<core::Secret>,
        ("v1", "ServiceAccount") => through::<core::ServiceAccount>,
        ("v1", "Service") => through::<core::Service>,
        ("events.k8s.io/v1", "Event") => through::<events::Event>,
        ("coordination.k8s.io/v1", "Lease") => through::<coordination::Lease>,
        ("discovery.k8s.io/v1", "EndpointSlice") => through::<discovery::EndpointSlice>,
        ("networking.k8s.io/v1", "IngressClass") => through::<networking::IngressClass>,
        ("networking.k8s.io/v1", "Ingress") => through::<networking::Ingress>,
        ("networking.k8s.io/v1", "NetworkPolicy") => through::<networking::NetworkPolicy>,
        ("apps/v1", "ControllerRevision") => through::<apps::ControllerRevision>,
        ("apps/v1", "DaemonSet") => through::<apps::DaemonSet>,
        ("apps/v1", "Deployment") => through::<apps::Deployment>,
        ("apps/v1", "ReplicaSet") => through::<apps::ReplicaSet>,
        ("apps/v1", "StatefulSet") => through::<apps::StatefulSet>,
        ("policy/v1", _) => through::<policy::PodDisruptionBudget>,
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => {
            through::<rbac::ClusterRoleBinding>
        }
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => through::<rbac::ClusterRole>,
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => through::<rbac::RoleBinding>,
        ("rbac.authorization.k8s.io/v1", "Role") => through::<rbac::Role>,
        ("apiextensions.k8s.io/v1", _) => through::<apiextensions::CustomResourceDefinition>,
        _ => return None,
    };
    Some(through(value))
}

/// Reads a value through a type and writes it back.
pub(crate) fn through<T: DeserializeOwned + Serialize>(
    value: &Value,
) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(value)?)
}

/// The paths of `given` that are not in `known`: fields the type dropped.
pub(crate) fn unknown_fields(given: &Value, known: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(given, known, "", &mut found);
    found.sort();
    found
}

fn collect(given: &Value, known: &Value, path: &str, found: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match known.get(name) {
                    Some(known) => collect(value, known, &path, found),
                    None if value.is_null() => {}
                    None => found.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                collect(given, known, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

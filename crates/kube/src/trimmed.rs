//! Metadata without what nobody here looks at.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

/// The fields of metadata that are read; `managedFields` is most of an object and is skipped.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Trimmed {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

/// Reads metadata, leaving out who owns which field: building that tree would cost more than all the
/// rest of an object.
///
/// # Errors
/// If it is no metadata.
pub fn trimmed_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let trimmed = Trimmed::deserialize(from)?;
    Ok(ObjectMeta {
        name: trimmed.name,
        namespace: trimmed.namespace,
        uid: trimmed.uid,
        resource_version: trimmed.resource_version,
        generation: trimmed.generation,
        creation_timestamp: trimmed.creation_timestamp,
        deletion_timestamp: trimmed.deletion_timestamp,
        labels: trimmed.labels,
        annotations: trimmed.annotations,
        finalizers: trimmed.finalizers,
        ..ObjectMeta::default()
    })
}

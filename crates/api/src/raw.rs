//! Objects as the API gives them, before anything but their metadata is read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dynamic_resource;

/// An object as the API gives it: metadata, and every other field unread.
///
/// What of it is kept is decided by the row of its kind, not here. Only `managedFields` is left out, and what
/// the row knows anyway: group, version and kind.
#[derive(Clone, Debug, Default)]
pub struct RawObject {
    /// Its metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    fields: Vec<(Box<str>, Box<RawValue>)>,
}

impl RawObject {
    /// An object of which these fields are known beside the metadata.
    #[must_use]
    pub fn new<'a, V: Serialize>(
        metadata: ObjectMeta,
        fields: impl IntoIterator<Item = (&'a str, V)>,
    ) -> Self {
        let raw = |(name, value): (&str, V)| {
            let value = serde_json::value::to_raw_value(&value).ok()?;
            Some((name.into(), value))
        };
        Self {
            metadata,
            fields: fields.into_iter().filter_map(raw).collect(),
        }
    }

    /// A field beside the metadata; null where the object does not have it.
    #[must_use]
    pub fn field(&self, name: &str) -> Value {
        let found = self.fields.iter().find(|(one, _)| **one == *name);
        // It was found to be JSON when the object was taken apart.
        found
            .and_then(|(_, raw)| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }
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
        owner_references: trimmed.owner_references,
        ..ObjectMeta::default()
    })
}

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
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Deserialize)]
struct Metadata(#[serde(deserialize_with = "trimmed_metadata")] ObjectMeta);

struct Taken;

impl<'de> Visitor<'de> for Taken {
    type Value = RawObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
        let mut object = RawObject::default();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match &*name {
                "metadata" => object.metadata = map.next_value::<Metadata>()?.0,
                "apiVersion" | "kind" => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => object.fields.push((name.into(), map.next_value()?)),
            }
        }
        Ok(object)
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Taken)
    }
}

dynamic_resource!(RawObject);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Secret as an API server gives it out: its data stands beside the spec that it does not have.
    const SECRET: &str = r#"{
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "key", "namespace": "web", "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "p"}],
            "managedFields": [{"manager": "kubectl", "operation": "Update"}]
        },
        "type": "Opaque", "immutable": true, "data": {"secret": "czNjcjN0"}
    }"#;

    #[test]
    fn an_object_keeps_its_whole_body_and_its_owners() {
        let secret: RawObject = serde_json::from_str(SECRET).expect("it is an object");
        assert_eq!(secret.field("data"), json!({"secret": "czNjcjN0"}));
        assert_eq!(secret.field("type"), json!("Opaque"));
        assert_eq!(secret.field("immutable"), json!(true));
        assert_eq!(secret.field("spec"), Value::Null);
        let owners = secret.metadata.owner_references.unwrap_or_default();
        assert_eq!(owners[0].name, "web-0");
        assert_eq!(secret.metadata.managed_fields, None);
    }

    #[test]
    fn an_object_in_parts_is_the_same() {
        let parts = [("spec", json!({"a": 1})), ("status", Value::Null)];
        let object = RawObject::new(ObjectMeta::default(), parts);
        assert_eq!(object.field("spec"), json!({"a": 1}));
        assert_eq!(object.field("status"), Value::Null);
        let read: RawObject = serde_json::from_value(json!({"spec": {"a": 1}})).expect("fine");
        assert_eq!(read.field("spec"), json!({"a": 1}));
    }
}

//! Kinds declared by CustomResourceDefinition objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Custom, Generation, Kind, ScalePaths, group_version};
use crate::schema::Structural;
use crate::table::{Column, custom_columns};

/// The kinds of one definition, one per served version.
pub(super) fn kinds(definition: &Value) -> Vec<Arc<Kind>> {
    if !is_established(definition) {
        return Vec::new();
    }
    let versions = definition["spec"]["versions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let stored = versions
        .iter()
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| Arc::new(kind(&definition["spec"], version, stored)))
        .collect()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|held| held["type"] == "Established" && held["status"] == "True")
}

fn kind(spec: &Value, version: &Value, stored: &str) -> Kind {
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let group = text(&spec["group"]);
    let plural = text(&names["plural"]);
    let kind = text(&names["kind"]);
    let subresources = &version["subresources"];
    let scale = subresources.get("scale").map(|scale| ScalePaths {
        spec_replicas: path(&scale["specReplicasPath"]),
        status_replicas: path(&scale["statusReplicasPath"]),
        selector: scale.get("labelSelectorPath").map(path),
    });
    Kind {
        list_kind: names["listKind"]
            .as_str()
            .map_or_else(|| format!("{kind}List"), Into::into)
            .into(),
        singular: names["singular"]
            .as_str()
            .map_or_else(|| kind.to_lowercase(), Into::into)
            .into(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        resource: format!("{plural}.{group}").into(),
        stored_as: group_version(&group, stored).into(),
        status: subresources.get("status").is_some(),
        scale,
        generation: Generation::Anything,
        habits: Vec::new(),
        selectable: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| path(&field["jsonPath"]))
            .collect(),
        api_version: group_version(&group, version["name"].as_str().unwrap_or_default()).into(),
        deprecated: deprecation(&group, &kind, version),
        columns: columns(version),
        custom: Some(Custom {
            declared: Arc::new(version.clone()),
            schema: schema(version),
        }),
        group: group.into(),
        version: text(&version["name"]).into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The compiled schema of a version. Definitions are checked when they are written; one that an older
/// Bindery accepted and this one does not is served without a schema.
fn schema(version: &Value) -> Arc<Structural> {
    let compiled = Structural::compile(&version["schema"]["openAPIV3Schema"]);
    Arc::new(compiled.unwrap_or_else(|_| Structural::open()))
}

fn deprecation(group: &str, kind: &str, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let name = version["name"].as_str().unwrap_or_default();
    let given = version["deprecationWarning"].as_str();
    Some(given.map_or_else(
        || format!("{group}/{name} {kind} is deprecated"),
        ToOwned::to_owned,
    ))
}

/// The printer columns of a version, or the usual ones if they cannot be read.
fn columns(version: &Value) -> Vec<Column> {
    custom_columns(version)
        .or_else(|_| custom_columns(&Value::Null))
        .unwrap_or_default()
}

/// A JSON path of a definition (`.spec.replicas`) without its leading dot.
fn path(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .trim_start_matches('.')
        .to_owned()
}

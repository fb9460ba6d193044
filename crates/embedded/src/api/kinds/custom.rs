//! Kinds declared by CustomResourceDefinition objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Custom, Generation, Kind, ScalePaths, group_version};
use crate::api::failure::Fault;
use crate::schema::{Cause, Structural};
use crate::table::{Column, custom_columns};

/// The kinds of one definition, one per served version.
pub(super) fn kinds(definition: &Value) -> Vec<Arc<Kind>> {
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
        unconditional: false,
        upsert: false,
        echo_deleted: false,
        selectable: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| path(&field["jsonPath"]))
            .collect(),
        api_version: group_version(&group, version["name"].as_str().unwrap_or_default()).into(),
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

/// What is wrong with a definition.
pub(crate) fn check(definition: &Value) -> Vec<Fault> {
    let spec = &definition["spec"];
    let mut faults = Vec::new();
    let group = spec["group"].as_str().unwrap_or_default();
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let mut require = |field: &str, value: &Value| {
        if value.as_str().is_none_or(str::is_empty) {
            faults.push(Fault::required(field, ""));
        }
    };
    require("spec.group", &spec["group"]);
    require("spec.scope", &spec["scope"]);
    require("spec.names.plural", &spec["names"]["plural"]);
    require("spec.names.kind", &spec["names"]["kind"]);
    let name = &definition["metadata"]["name"];
    let expected = format!("{plural}.{group}");
    if name.as_str().is_some_and(|name| name != expected) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        faults.push(Fault::invalid("metadata.name", name, why));
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        faults.push(Fault::invalid("spec.versions", &spec["versions"], why));
    }
    let single = versions.len() == 1;
    for (index, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            faults.push(Fault::required(field, "schemas are required"));
            continue;
        }
        // The real server moves a lone schema to the top before it looks at it.
        let place = if single {
            "spec.validation".to_owned()
        } else {
            format!("spec.versions[{index}].schema")
        };
        let causes = Structural::compile(schema).err().unwrap_or_default();
        faults.extend(causes.into_iter().map(|cause| {
            let field = format!("{place}.{}", cause.field);
            Fault::from(Cause { field, ..cause })
        }));
    }
    faults
}

/// Writes the status that says a definition is served.
pub(crate) fn accept(definition: &mut Value, now: &str) {
    let spec = &definition["spec"];
    let names = spec["names"].clone();
    let stored: Vec<Value> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let status = &mut definition["status"];
    if !status["conditions"].is_array() {
        *status = json!({"conditions": []});
    }
    let mut kept = status["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for version in stored {
        if !kept.contains(&version) {
            kept.push(version);
        }
    }
    status["storedVersions"] = Value::Array(kept);
    status["acceptedNames"] = names;
    for (condition, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let held = status["conditions"].as_array().into_iter().flatten();
        if held
            .into_iter()
            .any(|held| held["type"] == condition && held["status"] == "True")
        {
            continue;
        }
        let condition = json!({
            "type": condition, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now,
        });
        if let Some(conditions) = status["conditions"].as_array_mut() {
            conditions.push(condition);
        }
    }
}

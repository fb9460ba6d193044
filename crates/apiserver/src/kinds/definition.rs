//! Rules of CustomResourceDefinition objects themselves.

use serde_json::{Value, json};

use super::{Kind, Kinds};
use crate::failure::Fault;
use crate::schema::{FieldCause, Structural};

/// What is wrong with a definition; `before` is the one it replaces.
pub(crate) fn check(definition: &Value, before: Option<&Value>) -> Vec<Fault> {
    let mut faults = name_problems(definition);
    let spec = &definition["spec"];
    if let Some(before) = before {
        for field in ["group", "scope"] {
            if before["spec"][field] != spec[field] {
                let path = format!("spec.{field}");
                faults.push(Fault::invalid(path, &spec[field], "field is immutable"));
            }
        }
    }
    // There is nobody here who would call it; silence would hand out objects in the wrong version.
    if spec["conversion"]["strategy"] == "Webhook" {
        faults.push(Fault {
            reason: "FieldValueNotSupported",
            message: "Unsupported value: \"Webhook\": supported values: \"None\"".to_owned(),
            field: "spec.conversion.strategy".to_owned(),
        });
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
            Fault::from(FieldCause { field, ..cause })
        }));
    }
    faults
}

/// Writes the status that says whether a definition is served.
pub(crate) fn accept(definition: &mut Value, kinds: &Kinds, now: &str) {
    let spec = &definition["spec"];
    let names = spec["names"].clone();
    let conflict = kinds.iter().find_map(|kind| name_in_use(spec, kind));
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
    match conflict {
        None => {
            status["acceptedNames"] = names;
            let accepted = ["True", "NoConflicts", "no conflicts found"];
            set_condition(status, "NamesAccepted", accepted, now);
            let message = "the initial names have been accepted";
            set_condition(
                status,
                "Established",
                ["True", "InitialNamesAccepted", message],
                now,
            );
        }
        Some((reason, message)) => {
            status["acceptedNames"] = json!({"plural": "", "kind": ""});
            set_condition(status, "NamesAccepted", ["False", reason, &message], now);
            let message = "not all names are accepted";
            set_condition(
                status,
                "Established",
                ["False", "NotAccepted", message],
                now,
            );
        }
    }
}

fn name_problems(definition: &Value) -> Vec<Fault> {
    let spec = &definition["spec"];
    let mut faults = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    for (field, value) in [
        ("spec.group", &spec["group"]),
        ("spec.scope", &spec["scope"]),
        ("spec.names.plural", &spec["names"]["plural"]),
        ("spec.names.kind", &spec["names"]["kind"]),
    ] {
        if value.as_str().is_none_or(str::is_empty) {
            faults.push(Fault::required(field, ""));
        }
    }
    let scope = text(&spec["scope"]);
    if !matches!(scope.as_str(), "" | "Namespaced" | "Cluster") {
        let supported = "\"Cluster\", \"Namespaced\"";
        let message = format!("Unsupported value: {scope:?}: supported values: {supported}");
        let field = "spec.scope".to_owned();
        faults.push(Fault {
            reason: "FieldValueNotSupported",
            message,
            field,
        });
    }
    let name = &definition["metadata"]["name"];
    if name
        .as_str()
        .is_some_and(|name| name != format!("{plural}.{group}"))
    {
        let why = "must be spec.names.plural+\".\"+spec.group";
        faults.push(Fault::invalid("metadata.name", name, why));
    }
    // The community's own groups need its consent.
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.ends_with(&format!(".{own}")));
    let approval = "api-approved.kubernetes.io";
    if protected && definition["metadata"]["annotations"][approval].is_null() {
        let why = "protected groups must have approval annotation \"api-approved.kubernetes.io\", \
                   see https://github.com/kubernetes/enhancements/pull/1111";
        faults.push(Fault::required(
            format!("metadata.annotations[{approval}]"),
            why,
        ));
    }
    faults
}

/// Why the names of a definition cannot be had beside `kind`.
fn name_in_use(spec: &Value, kind: &Kind) -> Option<(&'static str, String)> {
    let names = &spec["names"];
    if spec["group"] != *kind.group || names["plural"] == *kind.plural {
        return None;
    }
    let taken = |reason, name: &str| Some((reason, format!("{name:?} is already in use")));
    if names["kind"] == *kind.kind {
        return taken("KindConflict", &kind.kind);
    }
    if names["listKind"] == *kind.list_kind {
        return taken("ListKindConflict", &kind.list_kind);
    }
    if names["singular"] == *kind.singular {
        return taken("SingularConflict", &kind.singular);
    }
    let short_names = names["shortNames"].as_array().into_iter().flatten();
    let mut short_names = short_names.filter_map(Value::as_str);
    let short_name = short_names.find(|name| kind.short_names.iter().any(|held| held == name))?;
    taken("ShortNamesConflict", short_name)
}

fn set_condition(status: &mut Value, kind: &str, [value, reason, message]: [&str; 3], now: &str) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    let held = conditions.iter().position(|held| held["type"] == kind);
    if held.is_some_and(|index| conditions[index]["status"] == value) {
        return;
    }
    let condition = json!({
        "type": kind, "status": value, "reason": reason, "message": message,
        "lastTransitionTime": now,
    });
    match held {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

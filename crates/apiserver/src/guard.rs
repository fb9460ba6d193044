//! What a change may not touch: identity, what the server sets, and the parts other endpoints own.

use serde_json::{Map, Value, json};

use super::failure::{Failure, Fault, Subject};
use super::kinds::{Generation, Habit, Kind};
use super::request::Part;
use super::service::Call;

/// Name, namespace, UID and resourceVersion must be those of the object that is changed.
pub(crate) fn check_identity(call: &Call, current: &Value, value: &Value) -> Result<(), Failure> {
    let kind = &call.target.kind;
    let (held, given) = (&current["metadata"], &value["metadata"]);
    let name = text(held, "name");
    let given_name = text(given, "name");
    if given_name != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given_name}) does not match the name on the URL ({name})"
        )));
    }
    let namespace = text(given, "namespace");
    if !namespace.is_empty() && namespace != text(held, "namespace") {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let uid = text(given, "uid");
    if !uid.is_empty() && uid != text(held, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(held, "uid")
        );
        return Err(Failure::conflict(kind.subject(), name, &why));
    }
    let version = text(given, "resourceVersion");
    if version.is_empty() || version == "0" {
        if !kind.has(Habit::Unconditional) {
            let why = "must be specified for an update";
            let fault = Fault::invalid("metadata.resourceVersion", &json!(0), why);
            let subject = Subject {
                kind: &kind.plural,
                ..kind.subject()
            };
            return Err(Failure::invalid(subject, name, &[fault]));
        }
    } else if version != text(held, "resourceVersion") {
        return Err(Failure::stale(kind.subject(), name));
    }
    Ok(())
}

/// Puts back what this endpoint does not change.
pub(crate) fn keep_unchangeable(call: &Call, current: &Value, value: &mut Value) {
    keep_system_fields(current, value);
    match call.target.part {
        Part::Whole | Part::Scale => {
            if call.target.kind.status {
                keep(current, value, "status");
            }
            if &*call.target.kind.resource == "namespaces" {
                keep(current, value, "spec");
            }
        }
        Part::Status => keep_all_but(current, value, "status"),
        Part::Finalize => keep_all_but(current, value, "spec"),
    }
}

/// Bumps the generation if what it counts has changed.
pub(crate) fn count_generation(call: &Call, current: &Value, value: &mut Value) {
    if call.target.part == Part::Status {
        return;
    }
    let kind = &call.target.kind;
    let changed = match kind.generation {
        Generation::Never => return,
        Generation::Spec => current.get("spec") != value.get("spec"),
        Generation::Anything => differs(kind, current, value) || differs(kind, value, current),
    };
    if changed {
        let generation = current["metadata"]["generation"].as_u64().unwrap_or(0);
        value["metadata"]["generation"] = json!(generation + 1);
    }
}

/// Whether a write would change nothing but the times in `managedFields`.
pub(crate) fn same(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return false;
    };
    before.len() == after.len()
        && before.iter().all(|(name, held)| {
            after
                .get(name)
                .is_some_and(|new| held == new || (name == "metadata" && same_metadata(held, new)))
        })
}

fn same_metadata(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return false;
    };
    before.len() == after.len()
        && before.iter().all(|(name, held)| {
            after.get(name).is_some_and(|new| {
                held == new || (name == "managedFields" && same_managers(held, new))
            })
        })
}

fn same_managers(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_array(), after.as_array()) else {
        return false;
    };
    let timeless = |entry: &Value| {
        let mut entry = entry.clone();
        if let Some(fields) = entry.as_object_mut() {
            fields.remove("time");
        }
        entry
    };
    before.len() == after.len()
        && before
            .iter()
            .zip(after)
            .all(|(one, other)| timeless(one) == timeless(other))
}

/// Whether a field of `one` outside metadata and status is another in `other`.
fn differs(kind: &Kind, one: &Value, other: &Value) -> bool {
    let fields = one.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !(*name == "metadata" || (*name == "status" && kind.status)))
        .any(|(name, field)| other.get(name) != Some(field))
}

/// What only the server sets stays as it is; what a client leaves out of the rest it does not mean to
/// clear.
fn keep_system_fields(current: &Value, value: &mut Value) {
    const OURS: [&str; 4] = ["name", "namespace", "generation", "resourceVersion"];
    // Of these, `managedFields` is owned by whoever changes it.
    const KEPT: [&str; 5] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ];
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return;
    };
    let held = &current["metadata"];
    metadata.remove("selfLink");
    for field in OURS {
        put_back(metadata, field, held.get(field));
    }
    for field in KEPT {
        if !metadata.contains_key(field) {
            put_back(metadata, field, held.get(field));
        }
    }
}

/// One field stays as it is.
fn keep(current: &Value, value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        put_back(fields, field, current.get(field));
    }
}

/// Only one field changes, and who owns it.
fn keep_all_but(current: &Value, value: &mut Value, changing: &str) {
    let (Some(held), Some(fields)) = (current.as_object(), value.as_object_mut()) else {
        return;
    };
    put_back_all_but(&["metadata", changing], fields, held);
    let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), Some(held)) = (metadata, current["metadata"].as_object()) {
        put_back_all_but(&["managedFields"], metadata, held);
    }
}

fn put_back_all_but(changing: &[&str], fields: &mut Map<String, Value>, held: &Map<String, Value>) {
    fields.retain(|name, _| changing.contains(&name.as_str()) || held.contains_key(name));
    for (name, held) in held {
        if !changing.contains(&name.as_str()) {
            put_back(fields, name, Some(held));
        }
    }
}

/// A copy of what was there, made only where it is another now: most writes leave most as it was.
fn put_back(fields: &mut Map<String, Value>, name: &str, held: Option<&Value>) {
    match (held, fields.get_mut(name)) {
        (Some(held), Some(value)) if held == value => {}
        (Some(held), Some(value)) => *value = held.clone(),
        (Some(held), None) => {
            fields.insert(name.to_owned(), held.clone());
        }
        (None, _) => {
            fields.remove(name);
        }
    }
}

/// A field of metadata, empty if it is no text.
fn text<'a>(metadata: &'a Value, field: &str) -> &'a str {
    metadata[field].as_str().unwrap_or_default()
}

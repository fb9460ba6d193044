//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges the patch into the target: null deletes, objects merge, everything else replaces.
///
/// Recursion follows the patch, whose depth the JSON parser bounds.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = without_nulls(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else {
        return;
    };
    for (name, change) in patch {
        if change.is_null() {
            object.remove(name);
        } else {
            let member = object.entry(name.as_str()).or_insert(Value::Null);
            merge_patch(member, change);
        }
    }
}

/// What a patch brings in whole has no null members either, even inside lists, as in the real server.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(
                kept.map(|(name, member)| (name.clone(), without_nulls(member)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            plain.clone()
        }
    }
}

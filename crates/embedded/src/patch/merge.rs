//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges the patch into the target: null deletes, objects merge, everything else replaces.
///
/// Recursion follows the patch, whose depth the JSON parser bounds.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
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

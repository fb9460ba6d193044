//! Sets of field paths in their wire form, `FieldsV1`, worked on as they are.
//!
//! A set is a JSON object. Its names are path steps (`f:` a member, `k:` a list item by key, `v:` a
//! list item by value, `i:` by index); below each stands the set of paths that go on from there. A
//! step that ends a path has the value `{}`, or holds the name `.` if other paths go on from it.

use serde_json::{Map, Value};

use crate::schema::go_quote;

/// A set of paths.
pub(crate) type Fields = Map<String, Value>;

const SELF: &str = ".";

/// What stands below a step of a set.
pub(crate) fn below<'a>(fields: &'a Fields, step: &str) -> Option<&'a Fields> {
    fields.get(step).and_then(Value::as_object)
}

/// A step that ends a path and from which those of the set go on.
pub(crate) fn ending(mut further: Fields) -> Value {
    if !further.is_empty() {
        further.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    Value::Object(further)
}

/// Whether the step that holds this set ends a path.
pub(crate) fn ends(fields: &Fields) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

/// Adds all paths of `other`.
pub(crate) fn unite(fields: &mut Fields, other: &Fields) {
    for (step, theirs) in other {
        if step == SELF {
            continue;
        }
        let Some(theirs) = theirs.as_object() else {
            continue;
        };
        match fields.get_mut(step) {
            Some(Value::Object(ours)) => {
                let ended = ends(ours) || ends(theirs);
                unite(ours, theirs);
                settle(ours, ended);
            }
            _ => {
                fields.insert(step.clone(), Value::Object(theirs.clone()));
            }
        }
    }
}

/// Takes away all paths of `other`.
pub(crate) fn subtract(fields: &mut Fields, other: &Fields) {
    if fields.is_empty() || other.is_empty() {
        return;
    }
    for (step, theirs) in other {
        let (Some(Value::Object(ours)), Some(theirs)) = (fields.get_mut(step), theirs.as_object())
        else {
            continue;
        };
        if step == SELF {
            continue;
        }
        let ended = ends(ours) && !ends(theirs);
        ours.remove(SELF);
        subtract(ours, theirs);
        if !ended && ours.is_empty() {
            fields.remove(step);
        } else {
            settle(ours, ended);
        }
    }
}

/// The paths that are in both sets.
pub(crate) fn common(one: &Fields, other: &Fields) -> Fields {
    let mut shared = Map::new();
    for (step, ours) in one {
        let (Some(ours), Some(theirs)) = (ours.as_object(), below(other, step)) else {
            continue;
        };
        if step == SELF {
            continue;
        }
        let ended = ends(ours) && ends(theirs);
        let further = common(ours, theirs);
        if ended {
            shared.insert(step.clone(), ending(further));
        } else if !further.is_empty() {
            shared.insert(step.clone(), Value::Object(further));
        }
    }
    shared
}

/// All paths of the set as the real server prints and orders them: those that end at a level come
/// first, then those that go on. For example `.spec.ports[port=53].name`.
pub(crate) fn paths(fields: &Fields) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = String::new();
    collect(fields, &mut path, &mut found);
    found
}

fn collect(fields: &Fields, path: &mut String, found: &mut Vec<String>) {
    let steps = || {
        let steps = fields.iter().filter(|(step, _)| *step != SELF);
        steps.filter_map(|(step, further)| Some((step, further.as_object()?)))
    };
    let before = path.len();
    for (step, _) in steps().filter(|(_, further)| ends(further)) {
        path.push_str(&printed(step));
        found.push(path.clone());
        path.truncate(before);
    }
    for (step, further) in steps() {
        path.push_str(&printed(step));
        collect(further, path, found);
        path.truncate(before);
    }
}

fn printed(step: &str) -> String {
    let (kind, rest) = step.split_at_checked(2).unwrap_or((step, ""));
    let scalar = |value: &Value| match value {
        Value::String(text) => go_quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    match kind {
        "f:" => format!(".{rest}"),
        "i:" => format!("[{rest}]"),
        "v:" => {
            let value = serde_json::from_str(rest).unwrap_or(Value::Null);
            format!("[={}]", scalar(&value))
        }
        "k:" => {
            let key: Fields = serde_json::from_str(rest).unwrap_or_default();
            let parts: Vec<String> = key
                .iter()
                .map(|(name, value)| format!("{name}={}", scalar(value)))
                .collect();
            format!("[{}]", parts.join(","))
        }
        _ => step.to_owned(),
    }
}

/// Puts the mark of an ended path where it belongs.
fn settle(fields: &mut Fields, ended: bool) {
    fields.remove(SELF);
    if ended && !fields.is_empty() {
        fields.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
}

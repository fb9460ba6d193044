//! Which fields an object has, and which ones two objects differ in.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::patch::fields::{Fields, ending};
use crate::patch::shape::{ListMerge, Shape};

/// The fields in which two objects differ.
#[derive(Default)]
pub(crate) struct Difference {
    /// Added or given another value.
    pub(crate) changed: Fields,
    /// No longer there.
    pub(crate) removed: Fields,
}

/// Members of the object's metadata that nobody owns: the server sets them.
pub(crate) const UNOWNED_METADATA: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The difference of two whole objects, without what nobody owns.
pub(crate) fn objects(before: &Value, after: &Value, shape: Shape<'_>) -> Difference {
    let mut found = Difference::default();
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return found;
    };
    zip(before, after, |name, old, new| match name {
        "apiVersion" | "kind" => {}
        "metadata" => {
            let empty = Map::new();
            let old = old.and_then(Value::as_object).unwrap_or(&empty);
            let new = new.and_then(Value::as_object).unwrap_or(&empty);
            let inner = metadata(old, new);
            keep(&mut found, "f:metadata".to_owned(), inner);
        }
        name => member(&mut found, shape, name, old, new),
    });
    found
}

/// All fields that an applied object gives, without what nobody owns.
pub(crate) fn applied(object: &Value, shape: Shape<'_>) -> Fields {
    let mut fields = Map::new();
    let Value::Object(object) = object else {
        return fields;
    };
    for (name, value) in object {
        match (name.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                let mut inner = Map::new();
                for (name, value) in metadata {
                    if !UNOWNED_METADATA.contains(&name.as_str()) {
                        given(&mut inner, METADATA, name, value);
                    }
                }
                if !inner.is_empty() {
                    fields.insert("f:metadata".to_owned(), Value::Object(inner));
                }
            }
            (name, value) => given(&mut fields, shape, name, value),
        }
    }
    fields
}

/// What is known of every object's metadata.
pub(crate) const METADATA: Shape<'static> = Shape::Known {
    ports: crate::patch::shape::Ports::Container,
    name: "metadata",
};

fn metadata(old: &Map<String, Value>, new: &Map<String, Value>) -> Difference {
    let mut found = Difference::default();
    zip(old, new, |name, old, new| {
        if !UNOWNED_METADATA.contains(&name) {
            member(&mut found, METADATA, name, old, new);
        }
    });
    found
}

fn member<'a>(
    found: &mut Difference,
    shape: Shape<'a>,
    name: &'a str,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    // Most of an object stays as it was, so that most names need not be spelled out.
    if old != new {
        let (inner, _) = shape.member(name);
        value(found, member_step(name), inner, old, new);
    }
}

/// Notes how one value differs under its step.
fn value(
    found: &mut Difference,
    step: String,
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => {
            found.changed.insert(step, everything(new, shape));
        }
        (Some(old), None) => {
            found.removed.insert(step, everything(old, shape));
        }
        (Some(old), Some(new)) => {
            let empty_object = Map::new();
            match (old, new) {
                (Value::Object(old), Value::Object(new)) if !is_leaf(old, new, shape) => {
                    keep(found, step, inside_object(old, new, shape));
                }
                (Value::Null, Value::Object(new)) if !is_leaf(&empty_object, new, shape) => {
                    keep(found, step, inside_object(&empty_object, new, shape));
                }
                (Value::Array(old), Value::Array(new)) if merges(shape, old, new) => {
                    keep(found, step, inside_list(old, new, shape));
                }
                (Value::Null, Value::Array(new)) if merges(shape, &[], new) => {
                    keep(found, step, inside_list(&[], new, shape));
                }
                (old, new) if old != new => {
                    found.changed.insert(step, Value::Object(Map::new()));
                }
                _ => {}
            }
        }
    }
}

fn is_leaf(old: &Map<String, Value>, new: &Map<String, Value>, shape: Shape<'_>) -> bool {
    shape.is_whole() || (old.is_empty() && new.is_empty())
}

fn merges(shape: Shape<'_>, old: &[Value], new: &[Value]) -> bool {
    let are_empty = old.is_empty() && new.is_empty();
    !matches!(shape.list(), ListMerge::Whole) && !are_empty
}

fn inside_object(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: Shape<'_>,
) -> Difference {
    let mut found = Difference::default();
    zip(old, new, |name, old, new| {
        member(&mut found, shape, name, old, new);
    });
    found
}

fn inside_list(old: &[Value], new: &[Value], shape: Shape<'_>) -> Difference {
    let mut found = Difference::default();
    let merge = shape.list();
    let mut earlier: BTreeMap<String, &Value> = BTreeMap::new();
    for (index, item) in old.iter().enumerate() {
        earlier.entry(merge.step(index, item)).or_insert(item);
    }
    for (index, item) in new.iter().enumerate() {
        let step = merge.step(index, item);
        let before = earlier.remove(&step);
        value(&mut found, step, shape.item(), before, Some(item));
    }
    for (step, item) in earlier {
        if !found.changed.contains_key(&step) {
            found.removed.insert(step, everything(item, shape.item()));
        }
    }
    found
}

/// A step with all paths below it, each container's own path among them.
fn everything(value: &Value, shape: Shape<'_>) -> Value {
    match value {
        Value::Object(object) if !shape.is_whole() => ending(
            object
                .iter()
                .map(|(name, value)| {
                    let (inner, _) = shape.member(name);
                    (member_step(name), everything(value, inner))
                })
                .collect(),
        ),
        Value::Array(list) => match shape.list() {
            ListMerge::Whole => Value::Object(Map::new()),
            merge @ (ListMerge::Set | ListMerge::ByKey(_)) => ending(
                list.iter()
                    .enumerate()
                    .map(|(index, item)| (merge.step(index, item), everything(item, shape.item())))
                    .collect(),
            ),
        },
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Value::Object(Map::new())
        }
    }
}

/// Adds the paths that an applied member gives.
fn given<'a>(fields: &mut Fields, shape: Shape<'a>, name: &'a str, value: &Value) {
    let (inner, named) = shape.member(name);
    let step = member_step(name);
    match value {
        Value::Object(object) if !inner.is_whole() && !object.is_empty() => {
            let mut further = Map::new();
            for (name, value) in object {
                given(&mut further, inner, name, value);
            }
            if !named {
                fields.insert(step, ending(further));
            } else if !further.is_empty() {
                fields.insert(step, Value::Object(further));
            }
        }
        Value::Array(list) => match inner.list() {
            ListMerge::Whole => {
                fields.insert(step, Value::Object(Map::new()));
            }
            merge @ (ListMerge::Set | ListMerge::ByKey(_)) => {
                let mut further = Map::new();
                for (index, item) in list.iter().enumerate() {
                    let inside = items_fields(item, inner.item());
                    further.insert(merge.step(index, item), ending(inside));
                }
                if !further.is_empty() {
                    fields.insert(step, Value::Object(further));
                }
            }
        },
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            fields.insert(step, Value::Object(Map::new()));
        }
    }
}

fn items_fields(item: &Value, shape: Shape<'_>) -> Fields {
    let mut fields = Map::new();
    if let (Value::Object(object), false) = (item, shape.is_whole()) {
        for (name, value) in object {
            given(&mut fields, shape, name, value);
        }
    }
    fields
}

fn keep(found: &mut Difference, step: String, inner: Difference) {
    if !inner.removed.is_empty() {
        found
            .removed
            .insert(step.clone(), Value::Object(inner.removed));
    }
    if !inner.changed.is_empty() {
        found.changed.insert(step, Value::Object(inner.changed));
    }
}

fn zip<'a>(
    old: &'a Map<String, Value>,
    new: &'a Map<String, Value>,
    mut visit: impl FnMut(&'a str, Option<&'a Value>, Option<&'a Value>),
) {
    for (name, value) in old {
        visit(name, Some(value), new.get(name));
    }
    for (name, value) in new {
        if !old.contains_key(name) {
            visit(name, None, Some(value));
        }
    }
}

/// The step to a member of an object.
fn member_step(name: &str) -> String {
    ["f:", name].concat()
}

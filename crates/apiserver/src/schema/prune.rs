//! Dropping of fields that a schema does not know.

use serde_json::{Map, Value};

use crate::schema::node::{Additional, Node};
use crate::schema::path::Path;

/// Prunes an object that is a resource itself: its type and metadata stay.
pub(crate) fn resource(node: &Node, value: &mut Value, path: Path<'_>, dropped: &mut Vec<String>) {
    if let Value::Object(object) = value {
        members(node, object, &path, dropped, Whole::Resource);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Resource,
    Part,
}

fn part(node: &Node, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            let whole = if node.embedded {
                Whole::Resource
            } else {
                Whole::Part
            };
            members(node, object, path, dropped, whole);
        }
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                match &node.items {
                    Some(items) => part(items, item, &path.index(index), dropped),
                    None if node.keeps_unknown => {}
                    None => part(&Node::default(), item, &path.index(index), dropped),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members(
    node: &Node,
    object: &mut Map<String, Value>,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
    whole: Whole,
) {
    object.retain(|name, value| {
        if whole == Whole::Resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        if let Some(property) = node.properties.get(name) {
            part(property, value, &path.field(name), dropped);
            return true;
        }
        match &node.additional {
            Additional::Shape(shape) => {
                part(shape, value, &path.field(name), dropped);
                true
            }
            Additional::Anything => true,
            Additional::Unsaid if node.keeps_unknown => true,
            Additional::Unsaid => {
                dropped.push(path.field(name).dotted());
                false
            }
        }
    });
}

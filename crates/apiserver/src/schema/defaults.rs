//! Defaults of a schema filled into an object.

use serde_json::Value;

use crate::schema::node::{Additional, Node};

/// Drops nulls that have no meaning and fills in defaults, from the outside in.
pub(crate) fn fill(node: &Node, value: &mut Value) {
    if !node.defaults_below {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, property) in &node.properties {
                match object.get_mut(name) {
                    Some(Value::Null) if !property.nullable => match &property.default {
                        Some(default) => {
                            object.insert(name.clone(), default.clone());
                        }
                        None => {
                            object.remove(name);
                        }
                    },
                    Some(_) => {}
                    None => {
                        if let Some(default) = &property.default {
                            object.insert(name.clone(), default.clone());
                        }
                    }
                }
                if let Some(member) = object.get_mut(name) {
                    fill(property, member);
                }
            }
            if let Additional::Shape(shape) = &node.additional {
                for member in object.values_mut() {
                    replace_null(shape, member);
                    fill(shape, member);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for item in list {
                    replace_null(items, item);
                    fill(items, item);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&*value, node.nullable, &node.default) {
        *value = default.clone();
    }
}

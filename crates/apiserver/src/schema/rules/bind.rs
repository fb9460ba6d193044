//! JSON values as rules see them, typed by the schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use kube_cel::cel::Value as CelValue;
use kube_cel::cel::functions::{duration, timestamp};
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use crate::schema::formats::Format;
use crate::schema::node::{Additional, Node, Type};

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A value with the types that its schema gives; of resources, only the named metadata is seen.
/// A field that is null is not there.
pub(crate) fn value(node: &Node, value: &Value, is_resource: bool) -> CelValue {
    match value {
        Value::Object(object) => {
            let mut members = HashMap::with_capacity(object.len());
            for (name, member) in object {
                if member.is_null() && node.properties.contains_key(name) {
                    continue;
                }
                let (name, member) = match (node.properties.get(name), &node.additional) {
                    (Some(_) | None, _) if is_resource && name == "metadata" => {
                        (name.clone(), metadata(member))
                    }
                    (Some(property), _) => (
                        escape(name),
                        self::value(property, member, property.embedded),
                    ),
                    (None, Additional::Shape(shape)) => {
                        (name.clone(), self::value(shape, member, shape.embedded))
                    }
                    (None, Additional::Unsaid | Additional::Anything) => {
                        (escape(name), free(member))
                    }
                };
                members.insert(key(name), member);
            }
            map(members)
        }
        Value::Array(list) => {
            let item = |item| match &node.items {
                Some(items) => self::value(items, item, items.embedded),
                None => free(item),
            };
            CelValue::List(Arc::new(list.iter().map(item).collect()))
        }
        Value::Number(number) if node.kind == Type::Number => {
            CelValue::Float(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::String(text) => formatted(node, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => free(value),
    }
}

/// The number of items in the largest list or map.
pub(crate) fn largest(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list
            .iter()
            .map(largest)
            .max()
            .unwrap_or(0)
            .max(list.len() as u64),
        Value::Object(object) => object
            .values()
            .map(largest)
            .max()
            .unwrap_or(0)
            .max(object.len() as u64),
        Value::String(text) => (text.len() / 16) as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A field's name as rules must write it.
pub(crate) fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

fn metadata(value: &Value) -> CelValue {
    let mut members = HashMap::new();
    for name in ["name", "generateName"] {
        if let Some(member) = value.get(name) {
            members.insert(key(name.to_owned()), free(member));
        }
    }
    map(members)
}

fn formatted(node: &Node, text: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    match node.format.map(Format::as_str) {
        Some("date-time") => timestamp(Arc::new(text.to_owned())).unwrap_or_else(|_| plain()),
        Some("date") => {
            timestamp(Arc::new(format!("{text}T00:00:00Z"))).unwrap_or_else(|_| plain())
        }
        Some("duration") => duration(Arc::new(text.to_owned())).unwrap_or_else(|_| plain()),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes))),
        Some(_) | None => plain(),
    }
}

/// A value that the schema says nothing about.
fn free(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => number.as_i64().map_or_else(
            || CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            CelValue::Int,
        ),
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(list) => CelValue::List(Arc::new(list.iter().map(free).collect())),
        Value::Object(object) => map(object
            .iter()
            .map(|(name, member)| (key(name.clone()), free(member)))
            .collect()),
    }
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn map(members: HashMap<Key, CelValue>) -> CelValue {
    CelValue::Map(Map {
        map: Arc::new(members),
    })
}

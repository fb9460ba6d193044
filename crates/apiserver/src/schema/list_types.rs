//! Uniqueness of lists that are declared to be sets or maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::go_text::bad_value;
use crate::schema::node::{Additional, ListType, Node};
use crate::schema::path::Path;
use crate::schema::{CauseReason, FieldCause};

/// Elements or keys that occur twice in such lists.
pub(crate) fn problems(node: &Node, value: &Value) -> Vec<FieldCause> {
    let mut causes = Vec::new();
    walk(node, value, Path::root(), &mut causes);
    causes
}

fn walk(node: &Node, value: &Value, path: Path<'_>, causes: &mut Vec<FieldCause>) {
    if !node.unique_below {
        return;
    }
    match value {
        Value::Object(object) => {
            for (name, member) in object {
                if let Some(property) = node.properties.get(name) {
                    walk(property, member, path.field(name), causes);
                } else if let Additional::Shape(shape) = &node.additional {
                    walk(shape, member, path.key(name), causes);
                }
            }
        }
        Value::Array(list) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => duplicates(list, path, causes),
                ListType::Map(keys) => duplicate_keys(keys, list, path, causes),
            }
            if let Some(items) = &node.items {
                for (index, item) in list.iter().enumerate() {
                    walk(items, item, path.index(index), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn duplicate_keys(keys: &[String], list: &[Value], path: Path<'_>, causes: &mut Vec<FieldCause>) {
    let stray = list
        .iter()
        .position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = stray {
        causes.push(FieldCause {
            reason: CauseReason::FieldValueInvalid,
            message: format!(
                "Invalid value: {}: must be an object for an array of list-type map",
                bad_value(&list[index])
            ),
            field: path.index(index).bracketed_field(),
        });
        return;
    }
    if list.len() < 2 {
        return;
    }
    let key_of = |item: &Value| {
        let named = |key: &String| Some((key.clone(), item.get(key)?.clone()));
        Value::Object(keys.iter().filter_map(named).collect::<Map<_, _>>())
    };
    let found: Vec<Value> = list.iter().map(key_of).collect();
    duplicates(&found, path, causes);
}

/// Each value that occurs more than once is reported where it occurs the second time.
fn duplicates(list: &[Value], path: Path<'_>, causes: &mut Vec<FieldCause>) {
    if list.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (index, item) in list.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_insert(0);
        *times += 1;
        if *times == 2 {
            causes.push(FieldCause {
                reason: CauseReason::FieldValueDuplicate,
                message: format!("Duplicate value: {}", bad_value(item)),
                field: path.index(index).bracketed_field(),
            });
        }
    }
}

//! Strategic merge patch: lists of built-in kinds merge by key, with directives.

use serde_json::{Map, Value};

use crate::patch::PatchFault;
use crate::patch::shape::{Ports, is_set, strategic_key};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// How the lists of a built-in kind merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeKeys {
    ports: Ports,
}

impl MergeKeys {
    /// The merge keys of a kind.
    #[must_use]
    pub fn of(kind: &str) -> Self {
        Self {
            ports: Ports::of(kind),
        }
    }
}

/// Merges the patch into an object of a built-in kind.
///
/// Recursion follows the patch, whose depth the JSON parser bounds.
///
/// # Errors
/// A directive that cannot be read, or a list item without its key. The target may then be changed
/// in part and must be thrown away.
pub fn strategic_merge(
    target: &mut Value,
    patch: &Value,
    kind: &MergeKeys,
) -> Result<(), PatchFault> {
    let Value::Object(patch) = patch else {
        return Err(PatchFault::Malformed("Invalid JSON Patch".to_owned()));
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return Ok(());
    };
    merge_maps(target, patch, kind.ports)
}

fn merge_maps(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    ports: Ports,
) -> Result<(), PatchFault> {
    match directive(patch)? {
        Some(Directive::Replace) => {
            target.clear();
            let plain = patch.iter().filter(|(name, _)| *name != PATCH);
            target.extend(plain.map(|(name, value)| (name.clone(), value.clone())));
            return Ok(());
        }
        Some(Directive::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(Directive::Merge) | None => {}
    }
    if let Some(kept) = patch.get(RETAIN_KEYS) {
        let kept = list(RETAIN_KEYS, kept)?;
        target.retain(|name, _| kept.iter().any(|key| key.as_str() == Some(name)));
    }
    for (name, gone) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM) {
            let gone = list(name, gone)?;
            if let Some(Value::Array(items)) = target.get_mut(field) {
                items.retain(|item| !gone.contains(item));
                if items.is_empty() {
                    target.remove(field);
                }
            }
        }
    }
    for (name, value) in patch {
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            target.remove(name);
            continue;
        }
        merge_member(target, name, value, ports)?;
    }
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix(ELEMENT_ORDER) {
            let order = list(name, order)?;
            if let Some(Value::Array(items)) = target.get_mut(field) {
                sort_by(items, order, strategic_key(ports, field));
            }
        }
    }
    Ok(())
}

fn merge_member(
    target: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    ports: Ports,
) -> Result<(), PatchFault> {
    match value {
        Value::Object(patch) => {
            let deleted = matches!(directive(patch)?, Some(Directive::Delete));
            if deleted {
                target.remove(name);
                return Ok(());
            }
            let member = target.entry(name).or_insert(Value::Null);
            if !member.is_object() {
                *member = Value::Object(Map::new());
            }
            if let Value::Object(member) = member {
                merge_maps(member, patch, ports)?;
            }
        }
        Value::Array(patch) => {
            let member = target.entry(name).or_insert(Value::Null);
            if !member.is_array() {
                *member = Value::Array(Vec::new());
            }
            if let Value::Array(member) = member {
                merge_lists(member, patch, name, ports)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            target.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn merge_lists(
    target: &mut Vec<Value>,
    patch: &[Value],
    name: &str,
    ports: Ports,
) -> Result<(), PatchFault> {
    let Some(key) = strategic_key(ports, name) else {
        if is_set(name) {
            let before = target.clone();
            for item in patch {
                if !target.contains(item) {
                    target.push(item.clone());
                }
            }
            interleave(target, &before, patch, None);
        } else {
            *target = patch.to_vec();
        }
        return Ok(());
    };
    let replaces = |item: &Value| item.get(PATCH).and_then(Value::as_str) == Some("replace");
    if patch.iter().any(replaces) {
        *target = patch
            .iter()
            .filter(|item| !replaces(item))
            .cloned()
            .collect();
        return Ok(());
    }
    let before = target.clone();
    for item in patch {
        let Value::Object(item) = item else {
            return Err(PatchFault::Malformed(format!(
                "list element of {name} is not an object"
            )));
        };
        let Some(id) = item.get(key) else {
            return Err(PatchFault::Inapplicable(format!(
                "map: {} does not contain declared merge key: {key}",
                Value::Object(item.clone())
            )));
        };
        if matches!(directive(item)?, Some(Directive::Delete)) {
            target.retain(|existing| existing.get(key) != Some(id));
            continue;
        }
        let found = target
            .iter_mut()
            .find(|existing| existing.get(key) == Some(id));
        if let Some(Value::Object(existing)) = found {
            merge_maps(existing, item, ports)?;
        } else {
            let mut fresh = Map::new();
            merge_maps(&mut fresh, item, ports)?;
            target.push(Value::Object(fresh));
        }
    }
    interleave(target, &before, patch, Some(key));
    Ok(())
}

/// The order of a merged list: what the patch names comes in the patch's order, the rest in the old
/// order, and of two neighbours the patched one comes first unless the old list says otherwise.
fn interleave(
    items: &mut Vec<Value>,
    before: &[Value],
    patch: &[Value],
    key: Option<&'static str>,
) {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or(Value::Null),
        None => item.clone(),
    };
    let named: Vec<Value> = patch.iter().map(&id).collect();
    let held: Vec<Value> = before.iter().map(&id).collect();
    let rank = |list: &[Value], item: &Value| list.iter().position(|other| *other == id(item));
    let all = std::mem::take(items);
    let (mut patched, rest): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|item| rank(&named, item).is_some());
    patched.sort_by_key(|item| rank(&named, item));
    let mut patched = patched.into_iter().peekable();
    for item in rest {
        let goes_first = |other: &Value| match (rank(&held, &item), rank(&held, other)) {
            (Some(own), Some(other)) => other < own,
            (_, None) | (None, _) => true,
        };
        while let Some(earlier) = patched.next_if(goes_first) {
            items.push(earlier);
        }
        items.push(item);
    }
    items.extend(patched);
}

/// Listed items in the listed order; the others keep their place relative to their neighbours.
fn sort_by(items: &mut Vec<Value>, order: &[Value], key: Option<&'static str>) {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or(Value::Null),
        None => item.clone(),
    };
    let wanted: Vec<Value> = order.iter().map(&id).collect();
    let place = |item: &Value| wanted.iter().position(|listed| *listed == id(item));
    let (mut listed, mut rest) = (Vec::new(), Vec::new());
    for (index, item) in std::mem::take(items).into_iter().enumerate() {
        match place(&item) {
            Some(rank) => listed.push((rank, index, item)),
            None => rest.push((index, item)),
        }
    }
    listed.sort_by_key(|(rank, _, _)| *rank);
    let mut rest = rest.into_iter().peekable();
    for (_, index, item) in listed {
        while let Some((_, earlier)) = rest.next_if(|(other, _)| *other < index) {
            items.push(earlier);
        }
        items.push(item);
    }
    items.extend(rest.map(|(_, item)| item));
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, PatchFault> {
    match patch.get(PATCH) {
        None => Ok(None),
        Some(Value::String(word)) => match word.as_str() {
            "merge" => Ok(Some(Directive::Merge)),
            "replace" => Ok(Some(Directive::Replace)),
            "delete" => Ok(Some(Directive::Delete)),
            other => Err(PatchFault::Malformed(format!(
                "Unknown patch type found: {other}"
            ))),
        },
        Some(other) => Err(PatchFault::Malformed(format!(
            "Unknown patch type found: {other}"
        ))),
    }
}

fn list<'a>(name: &str, value: &'a Value) -> Result<&'a [Value], PatchFault> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| PatchFault::Malformed(format!("{name} must be a list")))
}

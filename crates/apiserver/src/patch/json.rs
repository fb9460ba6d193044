//! JSON patch (RFC 6902) with the habits of the real server.
//!
//! Those habits: `test` of null passes where the member is missing, `replace` of a missing member
//! adds it, and list indexes may count from the end.

use serde_json::Value;

use crate::patch::PatchFault;

/// Operations in one patch, as in the real server.
const OPERATIONS_MAX: usize = 10_000;
/// What all copies of one patch may add: the real server's 3 MiB request limit.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// Steps in one pointer; objects are never nested deeper.
const POINTER_DEPTH_MAX: usize = 200;

/// Applies a list of operations and returns the patched object; the target stays as it was.
///
/// # Errors
/// The first operation that cannot be read or does not fit, in the real server's words.
pub fn json_patch(target: &Value, ops: &Value) -> Result<Value, PatchFault> {
    let Value::Array(ops) = ops else {
        return Err(PatchFault::Malformed(
            "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".to_owned(),
        ));
    };
    if ops.len() > OPERATIONS_MAX {
        return Err(PatchFault::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            ops.len()
        )));
    }
    let mut doc = target.clone();
    let mut copied = 0;
    for op in ops {
        apply(&mut doc, op, &mut copied).map_err(PatchFault::Inapplicable)?;
    }
    Ok(doc)
}

fn apply(doc: &mut Value, op: &Value, copied: &mut usize) -> Result<(), String> {
    let kind = op.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let pointer = |name: &str| op.get(name).and_then(Value::as_str);
    let value = || op.get("value").cloned().unwrap_or(Value::Null);
    let needed = |name: &'static str| {
        pointer(name).ok_or_else(|| {
            format!("{kind} operation failed to decode {name}: operation missing {name} field: missing value")
        })
    };
    match kind {
        "add" => add(doc, needed("path")?, value()),
        "remove" => remove(doc, needed("path")?).map(drop),
        "replace" => replace(doc, needed("path")?, value()),
        "test" => test(doc, needed("path")?, &value()),
        "move" => {
            let (from, path) = (needed("from")?, needed("path")?);
            let moved = take(doc, from)?;
            place(doc, path, moved, "move")
        }
        "copy" => {
            let (from, path) = (needed("from")?, needed("path")?);
            let found = find(doc, from, "copy")?;
            *copied += found.to_string().len();
            if *copied > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is \
                     {copied}, exceeding the limit {COPIED_BYTES_MAX}"
                ));
            }
            place(doc, path, found, "copy")
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn add(doc: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *doc = value;
        return Ok(());
    }
    let (holder, key) = holder(doc, path).ok_or_else(|| {
        format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
    })?;
    insert(holder, &key, value).map_err(|why| format!("error in add for path: '{path}': {why}"))
}

fn place(doc: &mut Value, path: &str, value: Value, kind: &str) -> Result<(), String> {
    let (holder, key) = holder(doc, path).ok_or_else(|| {
        format!(
            "{kind} operation does not apply: doc is missing destination path: {path}: missing value"
        )
    })?;
    insert(holder, &key, value).map_err(|why| match kind {
        "copy" => format!("error while adding value during copy: {why}"),
        _ => format!("error in {kind} for path: '{path}': {why}"),
    })
}

fn remove(doc: &mut Value, path: &str) -> Result<Value, String> {
    let (holder, key) = holder(doc, path).ok_or_else(|| {
        format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
    })?;
    extract(holder, &key).map_err(|why| format!("error in remove for path: '{path}': {why}"))
}

fn take(doc: &mut Value, from: &str) -> Result<Value, String> {
    let (holder, key) = holder(doc, from).ok_or_else(|| {
        format!("move operation does not apply: doc is missing from path: {from}: missing value")
    })?;
    extract(holder, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *doc = value;
        return Ok(());
    }
    let (holder, key) = holder(doc, path).ok_or_else(|| {
        format!("replace operation does not apply: doc is missing path: {path}: missing value")
    })?;
    match holder {
        Value::Object(object) => {
            object.insert(key, value);
        }
        Value::Array(list) => {
            let index = existing(&key, list.len()).map_err(|_| {
                format!(
                    "replace operation does not apply: doc is missing key: {path}: missing value"
                )
            })?;
            list[index] = value;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn test(doc: &mut Value, path: &str, expected: &Value) -> Result<(), String> {
    let failed = || format!("testing value {path} failed: test failed");
    if path.is_empty() {
        return if doc == expected {
            Ok(())
        } else {
            Err(failed())
        };
    }
    let (holder, key) = holder(doc, path).ok_or_else(|| {
        format!("test operation does not apply: is missing path: {path}: missing value")
    })?;
    let found = if let Value::Array(list) = holder {
        let index = existing(&key, list.len())
            .map_err(|why| format!("error in test for path: '{path}': {why}"))?;
        &list[index]
    } else {
        // A member that is missing counts as null: kube's finalizer helper relies on it.
        holder.get(&key).unwrap_or(&Value::Null)
    };
    if found == expected {
        Ok(())
    } else {
        Err(failed())
    }
}

fn find(doc: &mut Value, from: &str, kind: &str) -> Result<Value, String> {
    let (holder, key) = holder(doc, from).ok_or_else(|| {
        format!("{kind} operation does not apply: doc is missing from path: {from}: missing value")
    })?;
    if let Value::Array(list) = holder {
        let index = existing(&key, list.len())
            .map_err(|why| format!("error in {kind} for from: '{from}': {why}"))?;
        return Ok(list[index].clone());
    }
    Ok(holder.get(&key).cloned().unwrap_or(Value::Null))
}

/// The object or list that a pointer ends in, and the last step.
fn holder<'a>(doc: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut steps: Vec<&str> = path.split('/').skip(1).collect();
    if steps.len() > POINTER_DEPTH_MAX {
        return None;
    }
    let last = unescape(steps.pop()?);
    let mut here = doc;
    for step in steps {
        let step = unescape(step);
        here = match here {
            Value::Object(object) => object.get_mut(&step)?,
            Value::Array(items) => {
                let index = existing(&step, items.len()).ok()?;
                items.get_mut(index)?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    (here.is_object() || here.is_array()).then_some((here, last))
}

fn insert(holder: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match holder {
        Value::Object(object) => {
            object.insert(key.to_owned(), value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let index: i64 = key.parse().map_err(|_| {
                format!(
                    "value was not a proper array index: '{key}': {}",
                    not_a_number(key)
                )
            })?;
            let index = counted(index, list.len() + 1)?;
            list.insert(index, value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn extract(holder: &mut Value, key: &str) -> Result<Value, String> {
    match holder {
        Value::Array(list) => {
            let index = existing(key, list.len())?;
            Ok(list.remove(index))
        }
        Value::Object(object) => object
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Value::Null),
    }
}

fn existing(key: &str, len: usize) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| not_a_number(key))?;
    counted(index, len)
}

/// Indexes below zero count from the end.
fn counted(index: i64, len: usize) -> Result<usize, String> {
    let from_end = || usize::try_from(index.unsigned_abs()).ok();
    let found = match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => from_end().and_then(|back| len.checked_sub(back)),
    };
    found
        .filter(|found| *found < len)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn not_a_number(key: &str) -> String {
    format!("strconv.Atoi: parsing \"{key}\": invalid syntax")
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

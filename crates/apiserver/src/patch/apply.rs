//! Server-side apply: merging what one manager declares into what others own.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::patch::compare::{self, METADATA};
use crate::patch::fields::{Fields, below, common, paths, subtract, unite};
use crate::patch::managed::{
    Entry, Operation, entries_of, known_name, set_entries, shape_of, skeleton,
};
use crate::patch::shape::{ListMerge, Shape};
use crate::schema::{CauseReason, FieldCause, Structural, go_quote};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether an apply may take fields from other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A field that another manager owns with another value is a conflict.
    No,
    /// Take it.
    Yes,
}

/// One apply.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The stored object, none if it is to be created.
    pub live: Option<&'a Value>,
    /// What the manager declares.
    pub applied: &'a Value,
    /// Who applies.
    pub manager: &'a str,
    /// Whether conflicts are overruled.
    pub force: Force,
    /// The schema of a custom resource.
    pub schema: Option<&'a Structural>,
    /// The time now, RFC 3339 in UTC with whole seconds.
    pub now: &'a str,
    /// The subresource applied to, empty for the object itself.
    pub subresource: &'a str,
    /// `group/version` of the request.
    pub api_version: &'a str,
}

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages print it.
    pub manager: String,
    /// The field: `.spec.ttl`.
    pub field: String,
}

impl Conflict {
    /// The entry in `details.causes`.
    #[must_use]
    pub fn cause(&self) -> FieldCause {
        FieldCause {
            reason: CauseReason::FieldManagerConflict,
            message: format!("conflict with {}", self.manager),
            field: self.field.clone(),
        }
    }
}

/// The message of the 409 answer.
#[must_use]
pub fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.manager, only.field
        );
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        let fields = by_manager.entry(&conflict.manager).or_default();
        fields.push(&conflict.field);
    }
    let mut lines = Vec::new();
    for (manager, fields) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(fields.iter().map(|field| format!("- {field}")));
    }
    let count = conflicts.len();
    format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
}

/// Applies a declaration and returns the new object with its `managedFields`.
///
/// Fields that the manager declared before and no longer does are removed, unless another manager
/// owns them too.
///
/// # Assumptions
/// Where the kind has a `/status` subresource, the caller took `status` out of what is applied to
/// the object itself. Of what is applied to `status`, only the status counts.
///
/// # Errors
/// The conflicts, unless forced.
pub fn server_side_apply(request: ApplyRequest<'_>) -> Result<Value, Vec<Conflict>> {
    let shape = shape_of(request.schema, request.applied);
    let empty = Value::Object(Map::new());
    let live = request.live.unwrap_or(&empty);
    let mut entries = entries_of(live);
    if request.live.is_some() && entries.is_empty() {
        entries.push(first_entry(request, live, shape));
    }
    let last = entries
        .iter()
        .position(|entry| is_ours(entry, request))
        .map(|index| entries.remove(index));
    let declared = declared(request, shape);

    let mut merged = live.clone();
    merge_object(&mut merged, request.applied, shape, request.subresource);
    if let Some(last) = &last {
        let mut owned = declared.clone();
        for entry in &entries {
            unite(&mut owned, &entry.fields);
        }
        prune(&mut merged, &last.fields, &owned, Level::Object(shape));
    }

    let difference = match request.live {
        Some(live) => compare::objects(live, &merged, shape),
        None => compare::Difference::default(),
    };
    let conflicts = conflicts(&entries, &difference.changed);
    if request.force == Force::No && !conflicts.is_empty() {
        let allowed = allowed_by_last_applied(request, live, shape);
        let remaining = remaining(&conflicts, &allowed);
        if !remaining.is_empty() {
            return Err(remaining);
        }
    }
    for entry in &mut entries {
        subtract(&mut entry.fields, &difference.changed);
        subtract(&mut entry.fields, &difference.removed);
    }

    // Owning other fields of an object that stays the same leaves the time as it was.
    let is_same =
        request.live.is_some() && difference.changed.is_empty() && difference.removed.is_empty();
    let time = if is_same {
        last.and_then(|last| last.time)
    } else {
        Some(request.now.to_owned())
    };
    entries.push(Entry {
        manager: known_name(request.manager),
        operation: Operation::Apply,
        api_version: request.api_version.to_owned(),
        subresource: request.subresource.to_owned(),
        time,
        fields: declared,
    });
    renew_last_applied(request, &mut merged);
    set_entries(&mut merged, entries);
    Ok(merged)
}

/// The owner of everything in an object that was never tracked.
fn first_entry(request: ApplyRequest<'_>, live: &Value, shape: Shape<'_>) -> Entry {
    Entry {
        manager: "before-first-apply".to_owned(),
        operation: Operation::Update,
        api_version: request.api_version.to_owned(),
        subresource: String::new(),
        time: Some(request.now.to_owned()),
        fields: compare::objects(&skeleton(shape, live), live, shape).changed,
    }
}

fn is_ours(entry: &Entry, request: ApplyRequest<'_>) -> bool {
    entry.operation == Operation::Apply
        && entry.manager == known_name(request.manager)
        && entry.subresource == request.subresource
}

fn declared(request: ApplyRequest<'_>, shape: Shape<'_>) -> Fields {
    let mut fields = compare::applied(request.applied, shape);
    if request.subresource == "status" {
        fields.retain(|step, _| step == "f:status");
    }
    fields
}

fn conflicts(entries: &[Entry], changed: &Fields) -> Vec<(String, Fields)> {
    entries
        .iter()
        .filter_map(|entry| {
            let shared = common(&entry.fields, changed);
            (!shared.is_empty()).then(|| (printed(entry), shared))
        })
        .collect()
}

fn remaining(conflicts: &[(String, Fields)], allowed: &Fields) -> Vec<Conflict> {
    let mut found = Vec::new();
    for (manager, fields) in conflicts {
        let mut fields = fields.clone();
        subtract(&mut fields, allowed);
        found.extend(paths(&fields).into_iter().map(|field| Conflict {
            manager: manager.clone(),
            field,
        }));
    }
    found
}

fn printed(entry: &Entry) -> String {
    let mut text = go_quote(&entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(" with subresource ");
        text.push_str(&go_quote(&entry.subresource));
    }
    if entry.operation == Operation::Update {
        text.push_str(" using ");
        text.push_str(&entry.api_version);
    }
    text
}

/// kubectl may take over what it applied itself before applies went through the server.
fn allowed_by_last_applied(request: ApplyRequest<'_>, live: &Value, shape: Shape<'_>) -> Fields {
    let parsed = (request.manager == "kubectl")
        .then(|| last_applied(live))
        .flatten()
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .filter(|last| last.get("apiVersion").and_then(Value::as_str) == Some(request.api_version));
    let Some(last) = parsed else {
        return Map::new();
    };
    let mut allowed = compare::applied(&last, shape);
    let since = compare::objects(&last, live, shape);
    subtract(&mut allowed, &since.changed);
    subtract(&mut allowed, &since.removed);
    allowed
}

fn renew_last_applied(request: ApplyRequest<'_>, merged: &mut Value) {
    if request.manager != "kubectl" || request.live.and_then(last_applied).is_none() {
        return;
    }
    let annotations = merged
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"))
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        let text = format!("{}\n", request.applied);
        annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
    }
}

fn last_applied(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations
        .get(LAST_APPLIED)?
        .as_str()
        .filter(|text| !text.is_empty())
}

fn merge_object(target: &mut Value, applied: &Value, shape: Shape<'_>, subresource: &str) {
    let (Value::Object(target), Value::Object(applied)) = (target, applied) else {
        return;
    };
    for (name, value) in applied {
        if subresource == "status" && name != "status" {
            continue;
        }
        if name == "metadata" {
            let metadata = target
                .entry("metadata")
                .or_insert_with(|| Value::Object(Map::new()));
            let mut value = value.clone();
            if let Value::Object(value) = &mut value {
                // `creationTimestamp: null` is in every manifest that a Go program printed.
                value.retain(|name, value| name != "managedFields" && !value.is_null());
            }
            merge(metadata, &value, METADATA);
        } else {
            merge_member(target, name, value, shape);
        }
    }
}

fn merge_member<'a>(
    target: &mut Map<String, Value>,
    name: &'a str,
    value: &Value,
    shape: Shape<'a>,
) {
    let (inner, _) = shape.member(name);
    if value.is_null() && matches!(inner, Shape::Known { .. }) {
        target.remove(name);
        return;
    }
    match target.get_mut(name) {
        Some(member) => merge(member, value, inner),
        None => {
            target.insert(name.to_owned(), value.clone());
        }
    }
}

fn merge(target: &mut Value, value: &Value, shape: Shape<'_>) {
    match (target, value) {
        (Value::Object(target), Value::Object(value)) if !shape.is_whole() => {
            for (name, value) in value {
                merge_member(target, name, value, shape);
            }
        }
        (Value::Array(target), Value::Array(value)) => {
            let merged = match shape.list() {
                ListMerge::Whole => value.clone(),
                by @ (ListMerge::Set | ListMerge::ByKey(_)) => {
                    merge_lists(target, value, &by, shape.item())
                }
            };
            *target = merged;
        }
        (target, value) => *target = value.clone(),
    }
}

/// Shared items stand in the order applied; items that only stood there before keep their place.
fn merge_lists(
    target: &[Value],
    value: &[Value],
    by: &ListMerge<'_>,
    shape: Shape<'_>,
) -> Vec<Value> {
    let steps = |list: &[Value]| -> Vec<String> {
        let step = |(index, item)| by.step(index, item);
        list.iter().enumerate().map(step).collect()
    };
    let (old_steps, new_steps) = (steps(target), steps(value));
    let old_index: BTreeMap<&str, usize> = old_steps
        .iter()
        .enumerate()
        .map(|(index, step)| (step.as_str(), index))
        .collect();
    let mut unplaced: BTreeMap<&str, usize> = BTreeMap::new();
    for step in &new_steps {
        *unplaced.entry(step).or_default() += 1;
    }
    let mut merged = Vec::with_capacity(target.len().max(value.len()));
    let mut old = old_steps.iter().zip(target).peekable();
    for (step, item) in new_steps.iter().zip(value) {
        while let Some((old_step, old_item)) = old.peek() {
            if unplaced.contains_key(old_step.as_str()) {
                if *old_step != step && old_index.contains_key(step.as_str()) {
                    // Both lists hold both items in different order: the applied order wins.
                    break;
                }
                if *old_step == step {
                    old.next();
                }
                break;
            }
            merged.push((*old_item).clone());
            old.next();
        }
        let mut result = old_index
            .get(step.as_str())
            .map_or(Value::Null, |index| target[*index].clone());
        merge(&mut result, item, shape);
        merged.push(result);
    }
    for (step, item) in old {
        if !unplaced.contains_key(step.as_str()) {
            merged.push(item.clone());
        }
    }
    merged
}

/// Where pruning is: at the whole object, whose metadata has a shape of its own, or inside.
#[derive(Clone, Copy)]
enum Level<'a> {
    Object(Shape<'a>),
    Part(Shape<'a>),
}

/// Removes what was declared last and is owned by nobody now.
fn prune(value: &mut Value, last: &Fields, owned: &Fields, level: Level<'_>) {
    let (Level::Object(shape) | Level::Part(shape)) = level;
    match value {
        Value::Object(object) if !shape.is_whole() => {
            for (step, further) in last {
                let (Some(name), Some(further)) = (step.strip_prefix("f:"), further.as_object())
                else {
                    continue;
                };
                match (below(owned, step), level) {
                    (None, Level::Object(_)) if name == "metadata" => {
                        if let Some(metadata) = object.get_mut(name) {
                            prune(metadata, further, &Map::new(), Level::Part(METADATA));
                        }
                    }
                    (None, _) => {
                        object.remove(name);
                    }
                    (Some(owned), level) => {
                        let inner = match level {
                            Level::Object(_) if name == "metadata" => METADATA,
                            Level::Object(_) | Level::Part(_) => shape.member(name).0,
                        };
                        if let Some(member) = object.get_mut(name) {
                            prune(member, further, owned, Level::Part(inner));
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            let by = shape.list();
            if matches!(by, ListMerge::Whole) {
                return;
            }
            let mut index = 0;
            items.retain_mut(|item| {
                let step = by.step(index, item);
                index += 1;
                match (below(last, &step), below(owned, &step)) {
                    (Some(_), None) => false,
                    (Some(last), Some(owned)) => {
                        prune(item, last, owned, Level::Part(shape.item()));
                        true
                    }
                    (None, _) => true,
                }
            });
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

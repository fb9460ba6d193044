//! `metadata.managedFields`: who last wrote which field.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::patch::compare::{self, Difference};
use crate::patch::fields::{Fields, subtract, unite};
use crate::patch::shape::{Ports, Shape};
use crate::schema::Structural;

/// Update entries kept; the oldest beyond it are put together, as in the real server.
const UPDATE_ENTRIES_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Parts that Go programs always write, even empty, from the outside in: nobody adds them.
const ALWAYS_THERE: &[&str] = &[
    "/source",
    "/spec",
    "/spec/names",
    "/spec/strategy",
    "/spec/updateStrategy",
    "/spec/template",
    "/spec/template/metadata",
    "/spec/template/spec",
    "/spec/template/spec/containers",
    "/spec/containers",
    "/status",
    "/status/loadBalancer",
];

/// A write that is not an apply: create, replace or patch.
#[derive(Clone, Copy)]
pub struct UpdateRequest<'a> {
    /// The stored object, none on create.
    pub before: Option<&'a Value>,
    /// Who writes: `fieldManager` or the start of the user agent.
    pub manager: &'a str,
    /// The schema of a custom resource.
    pub schema: Option<&'a Structural>,
    /// The time now, RFC 3339 in UTC with whole seconds.
    pub now: &'a str,
    /// The subresource written through, empty for the object itself.
    pub subresource: &'a str,
    /// `group/version` of the request.
    pub api_version: &'a str,
}

/// Records in `after` which fields the writer now owns.
///
/// # Assumptions
/// `after` is what will be stored: fields that this endpoint may not change are already put back.
pub fn track_update(request: UpdateRequest<'_>, after: &mut Value) {
    let entries = base_entries(request, after);
    record(request, entries, after);
}

/// The same for a write that says nothing of ownership itself: `held` was [taken](take_managers) out
/// of the stored object before it was changed.
pub(crate) fn infer_update(request: UpdateRequest<'_>, held: Vec<Value>, after: &mut Value) {
    let entries = readable(held);
    record(request, (!entries.is_empty()).then_some(entries), after);
}

/// Takes the entries out of an object.
pub(crate) fn take_managers(object: &mut Value) -> Vec<Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    match metadata.and_then(|metadata| metadata.remove("managedFields")) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}

/// Works out the entries after a write from those before it; without any, ownership is not tracked.
fn record(request: UpdateRequest<'_>, entries: Option<Vec<Entry>>, after: &mut Value) {
    let Some(mut entries) = entries else {
        set_entries(after, Vec::new());
        return;
    };
    let shape = shape_of(request.schema, after);
    let difference = match request.before {
        Some(before) => compare::objects(&completed(before, after, shape), after, shape),
        None => compare::objects(&skeleton(shape, after), after, shape),
    };
    let Difference { changed, removed } = difference;
    for entry in &mut entries {
        if !(entry.is_update_of(request)) {
            subtract(&mut entry.fields, &changed);
        }
        subtract(&mut entry.fields, &removed);
    }
    if !changed.is_empty() {
        match entries.iter_mut().find(|entry| entry.is_update_of(request)) {
            Some(entry) => {
                unite(&mut entry.fields, &changed);
                entry.time = Some(request.now.to_owned());
            }
            None => entries.push(Entry {
                manager: known_name(request.manager),
                operation: Operation::Update,
                api_version: request.api_version.to_owned(),
                subresource: request.subresource.to_owned(),
                time: Some(request.now.to_owned()),
                fields: changed,
            }),
        }
    }
    set_entries(after, capped(entries));
}

/// How an entry came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// One owner and its fields.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: Fields,
}

impl Entry {
    fn is_update_of(&self, request: UpdateRequest<'_>) -> bool {
        self.operation == Operation::Update
            && (self.manager == request.manager
                || (request.manager.is_empty() && self.manager == "unknown"))
            && self.api_version == request.api_version
            && self.subresource == request.subresource
    }

    fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut parts) = value else {
            return None;
        };
        let mut text = |name: &str| match parts.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        Some(Self {
            manager: text("manager")?,
            operation,
            api_version: text("apiVersion")?,
            subresource: text("subresource").unwrap_or_default(),
            time: text("time"),
            fields: match parts.remove("fieldsV1") {
                Some(Value::Object(fields)) => fields,
                _ => Fields::default(),
            },
        })
    }

    fn into_value(self) -> Value {
        let mut value = Map::new();
        value.insert("apiVersion".to_owned(), self.api_version.into());
        value.insert("fieldsType".to_owned(), "FieldsV1".into());
        value.insert("fieldsV1".to_owned(), Value::Object(self.fields));
        value.insert("manager".to_owned(), self.manager.into());
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        value.insert("operation".to_owned(), operation.into());
        if !self.subresource.is_empty() {
            value.insert("subresource".to_owned(), self.subresource.into());
        }
        if let Some(time) = self.time {
            value.insert("time".to_owned(), time.into());
        }
        Value::Object(value)
    }
}

/// The entries of an object; unreadable ones are left out.
pub(crate) fn entries_of(object: &Value) -> Vec<Entry> {
    let list = managed_fields(object).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .cloned()
        .filter_map(Entry::from_value)
        .collect()
}

/// Writes the entries into an object, in the real server's order.
pub(crate) fn set_entries(object: &mut Value, mut entries: Vec<Entry>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    entries.retain(|entry| !entry.fields.is_empty());
    if entries.is_empty() {
        metadata.remove("managedFields");
        return;
    }
    entries.sort_by(|one, other| {
        (one.operation, one.time.as_deref().unwrap_or_default())
            .cmp(&(other.operation, other.time.as_deref().unwrap_or_default()))
            .then_with(|| one.manager.cmp(&other.manager))
            .then_with(|| one.api_version.cmp(&other.api_version))
            .then_with(|| one.subresource.cmp(&other.subresource))
    });
    let list = entries.into_iter().map(Entry::into_value).collect();
    metadata.insert("managedFields".to_owned(), Value::Array(list));
}

/// What is known of an object's fields.
pub(crate) fn shape_of<'a>(schema: Option<&'a Structural>, object: &Value) -> Shape<'a> {
    if let Some(schema) = schema {
        return Shape::Schema(schema.root());
    }
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    let group = api_version
        .and_then(|version| version.split_once('/'))
        .map_or("", |(group, _)| group);
    if !group.is_empty() && group.contains('.') && !group.ends_with(".k8s.io") {
        return Shape::Free;
    }
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let ports = Ports::of(kind);
    Shape::Known { ports, name: "" }
}

/// The name under which an unnamed writer is listed.
pub(crate) fn known_name(manager: &str) -> String {
    if manager.is_empty() {
        "unknown".to_owned()
    } else {
        manager.to_owned()
    }
}

/// An object of the kind before anything was set: built-in kinds always have spec and status.
pub(crate) fn skeleton(shape: Shape<'_>, object: &Value) -> Value {
    let mut empty = json!({});
    if let Shape::Known { .. } = shape {
        for path in ALWAYS_THERE {
            if let Some(value) = object.pointer(path) {
                let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
                if let Some(Value::Object(parent)) = empty.pointer_mut(parent) {
                    let blank = if value.is_object() {
                        json!({})
                    } else {
                        Value::Null
                    };
                    parent.insert(name.to_owned(), blank);
                }
            }
        }
    }
    empty
}

/// The stored object with the parts that it would have on a real server.
fn completed<'a>(before: &'a Value, after: &Value, shape: Shape<'_>) -> Cow<'a, Value> {
    let mut completed = Cow::Borrowed(before);
    if let Shape::Known { .. } = shape {
        for name in ["spec", "status"] {
            let is_new =
                before.get(name).is_none() && after.get(name).is_some_and(Value::is_object);
            if is_new {
                completed.to_mut()[name] = json!({});
            }
        }
    }
    completed
}

/// The entries to start from; none if ownership is not tracked for this object.
///
/// A writer may send entries itself (that is how kubectl moves a client-side apply over to the
/// server) and may send one empty entry to have tracking ended.
fn base_entries(request: UpdateRequest<'_>, after: &mut Value) -> Option<Vec<Entry>> {
    let sent = take_managers(after);
    if request.subresource.is_empty() {
        let is_reset = matches!(sent.as_slice(), [Value::Object(only)] if only.is_empty());
        if is_reset {
            return None;
        }
        let len = sent.len();
        let entries = readable(sent);
        if !entries.is_empty() && entries.len() == len {
            return Some(entries);
        }
    }
    match request.before {
        None => Some(Vec::new()),
        Some(before) => {
            let entries = entries_of(before);
            (!entries.is_empty()).then_some(entries)
        }
    }
}

/// Puts the oldest update entries of each version together until few enough are left.
fn capped(mut entries: Vec<Entry>) -> Vec<Entry> {
    let updates = |entries: &[Entry]| {
        let is_update = |entry: &&Entry| entry.operation == Operation::Update;
        entries.iter().filter(is_update).count()
    };
    while updates(&entries) > UPDATE_ENTRIES_MAX {
        let oldest = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.operation == Operation::Update && entry.manager != ANCIENT)
            .min_by(|(_, one), (_, other)| one.time.cmp(&other.time))
            .map(|(index, _)| index);
        let Some(oldest) = oldest else {
            break;
        };
        let mut old = entries.remove(oldest);
        let ancient = entries
            .iter_mut()
            .find(|entry| entry.manager == ANCIENT && entry.api_version == old.api_version);
        if let Some(ancient) = ancient {
            unite(&mut ancient.fields, &old.fields);
            ancient.time = old.time;
        } else {
            // One entry becomes another: the next oldest must join it for the count to fall.
            ANCIENT.clone_into(&mut old.manager);
            old.subresource.clear();
            entries.push(old);
        }
    }
    entries
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The entries that can be read.
fn readable(entries: Vec<Value>) -> Vec<Entry> {
    entries.into_iter().filter_map(Entry::from_value).collect()
}

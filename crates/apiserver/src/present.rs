//! Objects and lists in the version and form a client asked for.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::object::Stored;
use super::request::{Form, Query};
use super::service::{Call, Reply};
use crate::table::{RowObject, TableOptions, table};

/// How a client wants to see objects of a kind.
pub(crate) struct View<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) form: Form,
    pub(crate) row_object: RowObject,
    pub(crate) now: Timestamp,
}

impl View<'_> {
    /// The serialized form of an object.
    pub(crate) fn bytes(&self, stored: &Stored) -> Bytes {
        match self.form {
            Form::Object => in_version(self.kind, stored),
            Form::Metadata => Bytes::from(partial(&stored.value()).to_string()),
            Form::Table => {
                let metadata = json!({"resourceVersion": stored.version.to_string()});
                self.table(&[converted(self.kind, stored)], metadata)
            }
        }
    }

    fn table(&self, items: &[Value], metadata: Value) -> Bytes {
        let items: Vec<&Value> = items.iter().collect();
        let options = TableOptions {
            now: self.now,
            row_object: self.row_object,
            metadata,
        };
        Bytes::from(table(&self.kind.columns, &items, &options).to_string())
    }
}

/// One object as the answer of a call.
pub(crate) fn object(call: &Call, code: StatusCode, stored: &Stored) -> Reply {
    Reply::json(code, call.view().bytes(stored))
}

/// What a list says about itself.
pub(crate) struct ListMeta {
    pub(crate) version: u64,
    pub(crate) resume: Option<String>,
    pub(crate) remaining: Option<usize>,
}

/// A list as the answer of a call.
pub(crate) fn list(call: &Call, meta: &ListMeta, items: &[Arc<Stored>]) -> Reply {
    let kind = &call.target.kind;
    let mut metadata = json!({"resourceVersion": meta.version.to_string()});
    if let Some(resume) = &meta.resume {
        metadata["continue"] = json!(resume);
    }
    if let Some(remaining) = meta.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let bytes = match call.form {
        Form::Object => {
            let each = items.iter().map(|item| in_version(kind, item));
            list_bytes(&kind.list_kind, &kind.api_version, &metadata, each)
        }
        Form::Metadata => {
            let each = items
                .iter()
                .map(|item| Bytes::from(partial(&item.value()).to_string()));
            list_bytes(
                "PartialObjectMetadataList",
                "meta.k8s.io/v1",
                &metadata,
                each,
            )
        }
        Form::Table => {
            let items: Vec<Value> = items.iter().map(|item| converted(kind, item)).collect();
            call.view().table(&items, metadata)
        }
    };
    Reply::json(StatusCode::OK, bytes)
}

/// Which part of the object a table's rows carry.
pub(crate) fn row_object(query: &Query) -> RowObject {
    match query.get("includeObject") {
        Some("None") => RowObject::Nothing,
        Some("Object") => RowObject::Whole,
        Some(_) | None => RowObject::Metadata,
    }
}

/// An object's metadata alone.
pub(crate) fn partial(value: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": value["metadata"],
    })
}

/// An object as a tree in the version of `kind`.
pub(crate) fn converted(kind: &Kind, stored: &Stored) -> Value {
    let mut value = stored.value();
    convert(&mut value, &kind.api_version);
    value
}

/// Rewrites an object into another version of its kind.
pub(crate) fn convert(value: &mut Value, api_version: &str) {
    if value["apiVersion"] == api_version {
        return;
    }
    value["apiVersion"] = json!(api_version);
    if value["kind"] == "Event" {
        let newer = api_version.starts_with("events.k8s.io/");
        convert_event(value, newer);
    }
}

fn in_version(kind: &Kind, stored: &Stored) -> Bytes {
    if *stored.api_version == *kind.api_version {
        return stored.text();
    }
    Bytes::from(converted(kind, stored).to_string())
}

fn list_bytes(
    kind: &str,
    api_version: &str,
    metadata: &Value,
    items: impl Iterator<Item = Bytes>,
) -> Bytes {
    let mut bytes = BytesMut::new();
    let head = format!(
        "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
    );
    bytes.put_slice(head.as_bytes());
    for (index, item) in items.enumerate() {
        if index > 0 {
            bytes.put_u8(b',');
        }
        bytes.put_slice(&item);
    }
    bytes.put_slice(b"]}");
    bytes.freeze()
}

/// The two spellings of Event name the same fields differently.
fn convert_event(event: &mut Value, newer: bool) {
    const NAMES: [(&str, &str); 6] = [
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
    ];
    const REPORTER: [(&str, &str); 2] = [
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    let Some(fields) = event.as_object_mut() else {
        return;
    };
    for (old, new) in NAMES.into_iter().chain(REPORTER) {
        let (from, to) = if newer { (old, new) } else { (new, old) };
        if from != to
            && let Some(value) = fields.remove(from)
        {
            fields.insert(to.to_owned(), value);
        }
    }
}

/// A dotted path's value.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(value, |value, segment| value.get(segment))
}

/// The media type of a request's body without its parameters.
pub(crate) fn media_type(call: &Call) -> Cow<'_, str> {
    let header = call.parts.headers.get(http::header::CONTENT_TYPE);
    let text = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or("application/json");
    Cow::Borrowed(text.split(';').next().unwrap_or(text).trim())
}

//! Stored objects: their serialized form plus the few fields the store itself needs.

mod interner;
mod uid;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::store::Packed;
pub(crate) use interner::Interner;
pub(crate) use uid::ObjectUid;

/// Where an object lives: resource (`plural.group`), namespace (empty if cluster-scoped) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    pub(crate) resource: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// One `ownerReferences` entry, as garbage collection needs it.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) uid: ObjectUid,
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) blocks: bool,
}

/// One version of one object. The JSON is kept as a packed text only; a parsed tree costs many times
/// more memory and is needed only when the object is written.
#[derive(Debug)]
pub(crate) struct Stored {
    /// One for all versions of an object.
    pub(crate) id: Arc<ObjectId>,
    pub(crate) version: u64,
    pub(crate) uid: ObjectUid,
    pub(crate) api_version: Arc<str>,
    pub(crate) packed: Packed,
    labels: Labels,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) deleting: bool,
    /// Waits for its dependents before it goes (`foregroundDeletion` among its finalizers).
    pub(crate) foreground: bool,
}

impl Stored {
    /// Reads the indexed fields of `value` and serializes it. It is not packed: nobody keeps it.
    pub(crate) fn new(id: Arc<ObjectId>, version: u64, value: &Value) -> Self {
        let packed = Packed::plain(serialized(value));
        Self::with_text(id, version, value, packed, &mut Interner::default())
    }

    /// The same for an object whose serialized form is at hand; it shares the texts that others have too.
    pub(crate) fn with_text(
        id: Arc<ObjectId>,
        version: u64,
        value: &Value,
        packed: Packed,
        texts: &mut Interner,
    ) -> Self {
        let metadata = &value["metadata"];
        let owners = metadata["ownerReferences"]
            .as_array()
            .map_or_else(Box::default, |owners| owners.iter().map(owner).collect());
        let foreground = has_finalizer(value, FOREGROUND);
        Self {
            id,
            version,
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            api_version: texts.share(value["apiVersion"].as_str().unwrap_or_default()),
            packed,
            labels: Labels::of(&metadata["labels"], texts),
            owners,
            deleting: metadata.get("deletionTimestamp").is_some(),
            foreground,
        }
    }

    /// The object as JSON.
    pub(crate) fn text(&self) -> Bytes {
        self.packed.text()
    }

    /// The object as a tree.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.text()).expect("the store serialized this text itself")
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }
}

/// An object as JSON.
pub(crate) fn serialized(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a tree of JSON has only texts for names")
}

/// Labels in one piece: each key and each value ends with a line, which neither can hold.
#[derive(Debug)]
struct Labels(Arc<str>);

impl Labels {
    fn of(labels: &Value, texts: &mut Interner) -> Self {
        let mut text = String::new();
        for (key, value) in labels.as_object().into_iter().flatten() {
            text.push_str(key);
            text.push('\n');
            text.push_str(value.as_str().unwrap_or_default());
            text.push('\n');
        }
        Self(texts.share(&text))
    }

    fn get(&self, key: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        while let (Some(held), Some(value)) = (lines.next(), lines.next()) {
            if held == key {
                return Some(value);
            }
        }
        None
    }
}

/// The finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Whether `metadata.finalizers` holds `finalizer`.
pub(crate) fn has_finalizer(value: &Value, finalizer: &str) -> bool {
    finalizers(value).any(|held| held == finalizer)
}

/// The finalizers of an object.
pub(crate) fn finalizers(value: &Value) -> impl Iterator<Item = &str> {
    value["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The `resourceVersion` written in an object, 0 if there is none.
pub(crate) fn version_of(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn owner(reference: &Value) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    Owner {
        uid: text("uid").into(),
        api_version: text("apiVersion").into(),
        kind: text("kind").into(),
        name: text("name").into(),
        blocks: reference["blockOwnerDeletion"].as_bool().unwrap_or(false),
    }
}

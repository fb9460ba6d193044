//! Objects as the API gives them, read into what decisions need.

use bindery_api::{KindInfo, RawObject, Spec};
use bindery_core::selector::Labels;
use serde_json::Value;

use crate::meta::Meta;

/// One object, read.
#[derive(Clone, Debug)]
pub struct Object {
    /// What is kept of its metadata.
    pub meta: Meta,
    /// Its labels.
    pub labels: Labels,
    /// What it asks for.
    pub spec: Spec,
}

impl Object {
    /// Reads an object by the row of its kind. `None` where it has no identity, which no API server gives
    /// out.
    #[must_use]
    pub fn read(row: &KindInfo, object: &RawObject) -> Option<Self> {
        let meta = Meta::read(row, &object.metadata)?;
        Some(Self::new(row, meta, object))
    }

    /// The same with what its status says to have been in DNS.
    #[must_use]
    pub fn with_status(self, status: &Value) -> Self {
        Self {
            meta: self.meta.with_status(status),
            ..self
        }
    }

    /// An object whose metadata was read already.
    #[must_use]
    pub fn new(row: &KindInfo, meta: Meta, object: &RawObject) -> Self {
        Self {
            spec: (row.read)(object),
            meta,
            labels: object.metadata.labels.clone().unwrap_or_default(),
        }
    }
}

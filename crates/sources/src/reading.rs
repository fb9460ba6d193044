//! Objects as the API gives them, read into what decisions need.

use bindery_api::{Spec, info};
use bindery_core::Kind;
use bindery_core::selector::Labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
    /// Reads an object of a kind. `None` where it has no identity, which no API server gives out.
    #[must_use]
    pub fn read(kind: Kind, meta: &ObjectMeta, spec: Value) -> Option<Self> {
        let labels = meta.labels.clone().unwrap_or_default();
        Some(Self::new(Meta::read(kind, meta)?, labels, spec))
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
    pub fn new(meta: Meta, labels: Labels, spec: Value) -> Self {
        Self {
            spec: (info(meta.object.kind).read)(spec),
            meta,
            labels,
        }
    }
}

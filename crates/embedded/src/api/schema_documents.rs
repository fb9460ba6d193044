//! The `OpenAPI` documents of what is served, made when they are first asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{Kind, Kinds};
use super::service::Reply;
use crate::openapi::{Resource, Scope, document, index};

/// The documents by their paths below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
#[derive(Debug, Default)]
pub(crate) struct Documents(BTreeMap<String, Bytes>);

/// Answers a path below `/openapi/v3`.
pub(crate) fn answer(kinds: &Kinds, rest: &[&str]) -> Result<Reply, Failure> {
    let documents = kinds.documents();
    if rest.is_empty() {
        let texts = documents
            .0
            .iter()
            .map(|(path, text)| (path.as_str(), &text[..]));
        return Ok(Reply::ok(&index(texts)));
    }
    let found = documents.0.get(&rest.join("/"));
    let text = found.ok_or_else(Failure::no_resource)?;
    Ok(Reply::json(StatusCode::OK, text.clone()))
}

impl Documents {
    /// The documents of all kinds.
    pub(crate) fn of(kinds: &Kinds) -> Self {
        let mut by_path: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
        for kind in kinds.iter() {
            let root = if kind.group.is_empty() { "api" } else { "apis" };
            by_path
                .entry(format!("{root}/{}", kind.api_version))
                .or_default()
                .push(kind);
        }
        let text = |kinds: Vec<&Kind>| {
            let parts: Vec<Vec<&str>> = kinds.iter().map(|kind| parts(kind)).collect();
            let resources: Vec<Resource<'_>> = kinds
                .iter()
                .zip(&parts)
                .map(|(kind, parts)| resource(kind, parts))
                .collect();
            Bytes::from(document(&resources).to_string())
        };
        Self(
            by_path
                .into_iter()
                .map(|(path, kinds)| (path, text(kinds)))
                .collect(),
        )
    }
}

fn parts(kind: &Kind) -> Vec<&'static str> {
    let status = kind.status.then_some("status");
    let scale = kind.scale.is_some().then_some("scale");
    status.into_iter().chain(scale).collect()
}

fn resource<'a>(kind: &'a Kind, subresources: &'a [&'a str]) -> Resource<'a> {
    let schema = kind.custom.as_ref();
    Resource {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
        plural: &kind.plural,
        scope: if kind.namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        subresources,
        schema: schema.map(|custom| declared_schema(&custom.declared)),
    }
}

fn declared_schema(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

//! The `OpenAPI` documents of what is served.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Core;
use super::failure::Failure;
use super::kinds::{Kind, Kinds};
use super::service::Reply;
use crate::openapi::{self, Resource, Scope};

/// Answers a path below `/openapi/v3`.
pub(crate) fn answer(_core: &Core, kinds: &Kinds, rest: &[&str]) -> Result<Reply, Failure> {
    let mut by_path: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds.iter() {
        by_path.entry(path(kind)).or_default().push(kind);
    }
    if rest.is_empty() {
        let texts: Vec<(&str, Vec<u8>)> = by_path
            .iter()
            .map(|(path, kinds)| (path.as_str(), document(kinds).to_string().into_bytes()))
            .collect();
        let texts = texts.iter().map(|(path, text)| (*path, text.as_slice()));
        return Ok(Reply::ok(&openapi::index(texts)));
    }
    by_path
        .get(&rest.join("/"))
        .map(|kinds| Reply::ok(&document(kinds)))
        .ok_or_else(Failure::no_resource)
}

fn path(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

fn document(kinds: &[&Kind]) -> Value {
    let resources: Vec<Resource<'_>> = kinds
        .iter()
        .map(|kind| Resource {
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
            plural: &kind.plural,
            scope: if kind.namespaced {
                Scope::Namespaced
            } else {
                Scope::Cluster
            },
            subresources: if kind.status { &["status"] } else { &[] },
            schema: kind
                .custom
                .as_ref()
                .map(|custom| &custom.declared["schema"]["openAPIV3Schema"]),
        })
        .collect();
    openapi::document(&resources)
}

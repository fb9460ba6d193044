//! The `OpenAPI` documents of what is served, made when they are first asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, Kinds};
use super::service::Reply;
use crate::openapi::{Resource, ResourceScope, document, index};

/// The media type of a document of version 2 as a message.
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// What clients ask for it by, although it is no media type.
const PROTOBUF_V2_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

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

/// A document of version 2 that describes no kind. `kubectl` looks for a `List` in it, and sends the items as
/// they are when it does not find their kinds.
pub(crate) fn answer_v2(headers: &HeaderMap) -> Reply {
    let accepted = headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
    let accepted = String::from_utf8_lossy(accepted.unwrap_or_default()).into_owned();
    let (title, version) = ("Kubernetes", "1.36");
    let names = [PROTOBUF_V2, PROTOBUF_V2_OLD];
    if !names.iter().any(|name| accepted.contains(name)) {
        return Reply::ok(&json!({
            "swagger": "2.0", "info": {"title": title, "version": version},
            "paths": {}, "definitions": {},
        }));
    }
    let info = [text_field(1, title), text_field(2, version)].concat();
    let document = [
        text_field(1, "2.0"),
        bytes_field(2, &info),
        // Paths and definitions.
        bytes_field(8, b""),
        bytes_field(9, b""),
    ];
    let mut reply = Reply::json(StatusCode::OK, document.concat());
    reply.content_type = PROTOBUF_V2;
    reply
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
            ResourceScope::Namespaced
        } else {
            ResourceScope::Cluster
        },
        subresources,
        schema: schema.map(|custom| declared_schema(&custom.declared)),
    }
}

fn declared_schema(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

fn text_field(number: u8, text: &str) -> Vec<u8> {
    bytes_field(number, text.as_bytes())
}

/// A field of a protobuf message, short enough for a length of one byte.
fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).unwrap_or_default();
    [&[number << 3 | 2, len], bytes].concat()
}

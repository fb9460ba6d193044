//! The `OpenAPI` documents of what is served.

use serde_json::json;

use super::Core;
use super::failure::Failure;
use super::kinds::Kinds;
use super::service::Reply;

/// Answers a path below `/openapi/v3`.
pub(crate) fn answer(_core: &Core, _kinds: &Kinds, rest: &[&str]) -> Result<Reply, Failure> {
    match rest {
        [] => Ok(Reply::ok(&json!({"paths": {}}))),
        _ => Err(Failure::no_resource()),
    }
}

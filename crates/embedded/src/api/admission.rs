//! What an object goes through before it is stored: decoding, defaults, pruning and validation.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::Core;
use super::failure::Failure;
use super::kinds::{self, Kind};
use super::metadata::{self, NameRule};
use super::present;
use super::request::WriteOptions;
use super::service::Call;
use super::store::CRD_RESOURCE;

/// An object on its way into the store.
pub(crate) struct Draft<'a> {
    pub(crate) core: &'a Core,
    pub(crate) call: &'a Call,
    pub(crate) options: &'a WriteOptions,
    /// What it replaces, in the version of the call.
    pub(crate) before: Option<&'a Value>,
}

impl Draft<'_> {
    /// Completes and checks the object, and turns it into the form it is stored in. Returns warnings
    /// for the client.
    pub(crate) fn admit(&self, value: &mut Value) -> Result<Vec<String>, Failure> {
        let kind = &self.call.target.kind;
        let warnings = Vec::new();
        self.fill_defaults(value);
        let mut faults = metadata::problems(value, NameRule::of(&kind.resource));
        if let Some(before) = self.before {
            faults.extend(metadata::transition_problems(before, value));
        }
        if &*kind.resource == CRD_RESOURCE {
            faults.extend(kinds::check_crd(value));
        }
        if !faults.is_empty() {
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Failure::invalid(kind.subject(), name, &faults));
        }
        present::convert(value, &kind.stored_as);
        Ok(warnings)
    }

    fn fill_defaults(&self, value: &mut Value) {
        let now = self.core.now();
        match &*self.call.target.kind.resource {
            CRD_RESOURCE => kinds::accept_crd(value, &now),
            "namespaces" => {
                let name = value["metadata"]["name"].clone();
                value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
                if self.before.is_none() {
                    value["spec"] = json!({"finalizers": ["kubernetes"]});
                    value["status"] = json!({"phase": "Active"});
                }
            }
            _ => {}
        }
    }
}

/// The object in a request's body.
pub(crate) fn decode(call: &Call) -> Result<Value, Failure> {
    let media_type = present::media_type(call);
    match &*media_type {
        "application/json" => parse_json(&call.body),
        other => Err(unsupported_media_type(other)),
    }
}

/// Reads JSON that must be an object.
pub(crate) fn parse_json(body: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Failure::bad_request("couldn't get version/kind; json parse error: not an object"))
}

/// The body's media type is not one this call takes.
pub(crate) fn unsupported_media_type(given: &str) -> Failure {
    let message = format!(
        "the body of the request was in an unknown format ({given}) - accepted media types include: \
         application/json, application/yaml"
    );
    Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// The object must be of the kind in the path, and its outer shape that of any object.
pub(crate) fn check_type(kind: &Kind, value: &mut Value) -> Result<(), Failure> {
    if kind.custom.is_none() {
        for (field, text) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
            if value[field].is_null() {
                value[field] = json!(&**text);
            }
        }
    }
    let given = value["kind"].as_str().unwrap_or_default();
    if given.is_empty() {
        return Err(Failure::bad_request(format!("Object 'Kind' is missing in '{value}'")));
    }
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    if api_version != &*kind.api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            kind.api_version
        )));
    }
    if given != &*kind.kind {
        return Err(Failure::bad_request(format!(
            "{given} in version {:?} cannot be handled as a {}",
            &*kind.version, kind.kind
        )));
    }
    if value["metadata"].is_null() {
        value["metadata"] = json!({});
    }
    let unreadable = |why: String| {
        Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            kind.kind, &*kind.version, kind.kind
        ))
    };
    if let Err(error) = ObjectMeta::deserialize(&value["metadata"]) {
        return Err(unreadable(format!("metadata: {error}")));
    }
    if kind.custom.is_none() {
        for field in ["spec", "status"] {
            if value.get(field).is_some_and(|part| !part.is_object() && !part.is_null()) {
                return Err(unreadable(format!("{field}: not an object")));
            }
        }
    }
    drop_nulls(value);
    Ok(())
}

/// A null in metadata is the same as nothing there.
fn drop_nulls(value: &mut Value) {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|_, field| !field.is_null());
    }
}

//! What an object goes through before it is stored: decoding, defaults, pruning and validation.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::Core;
use super::failure::{Failure, Fault};
use super::kinds::{self, Custom, Kind};
use super::metadata::{self, NameRule};
use super::request::{FieldValidation, Part, WriteOptions};
use super::service::Call;
use super::store::CRD_RESOURCE;
use super::{builtin_rules, decode, defaults, present, protobuf, typed};

/// An object on its way into the store.
pub(crate) struct Draft<'a> {
    pub(crate) core: &'a Core,
    pub(crate) call: &'a Call,
    pub(crate) options: &'a WriteOptions,
    /// What it replaces, in the version of the call.
    pub(crate) before: Option<&'a Value>,
}

/// Fields a body has too many of.
#[derive(Debug, Default)]
pub(crate) struct Surplus {
    pub(crate) unknown: Vec<String>,
    pub(crate) duplicate: Vec<String>,
}

/// Bytes an object may have, about as many as etcd takes in one request.
const OBJECT_BYTES_MAX: usize = 3 << 19;

/// Many small patches must not make one object that nobody can list any more.
pub(crate) fn check_size(value: &Value) -> Result<(), Failure> {
    let size = weight(value);
    if size <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the object has {size} bytes, the limit is {OBJECT_BYTES_MAX}");
    Err(Failure::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "RequestEntityTooLarge",
        message,
    ))
}

/// About how many bytes a value takes when it is written, without writing it.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, field)| name.len() + weight(field) + 4)
                .sum::<usize>()
                + 2
        }
    }
}

impl Draft<'_> {
    /// Completes and checks the object.
    pub(crate) fn admit(&self, value: &mut Value) -> Result<(), Failure> {
        let kind = &self.call.target.kind;
        if kind.custom.is_none() {
            defaults::fill(&kind.resource, value, self.before);
        }
        self.check_stranger(value)?;
        let mut faults = metadata::problems(value, NameRule::of(&kind.resource));
        if let Some(before) = self.before {
            faults.extend(metadata::transition_problems(before, value));
        }
        match &kind.custom {
            Some(custom) => faults.extend(self.check_schema(custom, value)),
            None if &*kind.resource == CRD_RESOURCE => {
                faults.extend(kinds::definition_problems(value, self.before));
                if faults.is_empty() {
                    let served = self.core.registry.current(&self.core.store);
                    kinds::accept_definition(value, &served, &self.core.now());
                }
            }
            None => faults.extend(builtin_rules::problems(&kind.resource, value, self.before)),
        }
        if faults.is_empty() {
            return Ok(());
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        Err(Failure::invalid(kind.subject(), name, &faults))
    }

    /// Drops what the kind does not know and fills in defaults of custom kinds; the client is told as it
    /// asked to be.
    pub(crate) fn shape(
        &self,
        value: &mut Value,
        mut surplus: Surplus,
    ) -> Result<Vec<String>, Failure> {
        let kind = &self.call.target.kind;
        self.check_type(value)?;
        let unknown = drop_unknown(kind, value).map_err(|why| self.unreadable(value, &why))?;
        surplus.unknown.extend(unknown);
        if let Some(custom) = &kind.custom {
            surplus.unknown.extend(custom.schema.prune(value));
            custom.schema.apply_defaults(value);
        }
        surplus.unknown.sort();
        let unknown = surplus
            .unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""));
        let duplicate = surplus
            .duplicate
            .iter()
            .map(|path| format!("duplicate field \"{path}\""));
        let remarks: Vec<String> = duplicate.chain(unknown).collect();
        match self.options.validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(remarks),
            FieldValidation::Strict if remarks.is_empty() => Ok(Vec::new()),
            FieldValidation::Strict => {
                let why = format!("strict decoding error: {}", remarks.join(", "));
                Err(self.undecodable(&why))
            }
        }
    }

    /// The fields of a declaration that its kind does not know; the declaration stays as it is.
    pub(crate) fn unknown_fields(&self, declared: &Value) -> Result<Vec<String>, Failure> {
        let kind = &self.call.target.kind;
        let mut copy = declared.clone();
        self.check_type(&mut copy)?;
        let mut unknown = drop_unknown(kind, &mut copy).map_err(|why| self.undecodable(&why))?;
        if let Some(custom) = &kind.custom {
            unknown.extend(custom.schema.prune(&mut copy));
        }
        Ok(unknown)
    }

    fn check_schema(&self, custom: &Custom, value: &Value) -> Vec<Fault> {
        let causes = match self.call.target.part {
            Part::Status => custom.schema.validate_status(value, self.before),
            Part::Whole | Part::Scale | Part::Finalize => {
                custom.schema.validate(value, self.before)
            }
        };
        causes.into_iter().map(Fault::from).collect()
    }
}

/// The object in a request's body and what it has too much of.
pub(crate) fn decode(call: &Call) -> Result<(Value, Surplus), Failure> {
    let media_type = present::media_type(call);
    match &*media_type {
        "application/json" => parse_json(&call.body),
        "application/yaml" => parse_yaml(&call.body).map(|value| (value, Surplus::default())),
        "application/vnd.kubernetes.protobuf" => {
            let refused = |why: String| {
                let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Failure::new(code, "UnsupportedMediaType", why)
            };
            let value = protobuf::decode(&call.body).map_err(refused)?;
            Ok((value, Surplus::default()))
        }
        other => Err(unsupported_media_type(other)),
    }
}

/// Reads JSON that must be an object.
pub(crate) fn parse_json(body: &[u8]) -> Result<(Value, Surplus), Failure> {
    let (value, duplicate) = decode::parse(body).map_err(|error| {
        Failure::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    if value.is_object() {
        return Ok((
            value,
            Surplus {
                unknown: Vec::new(),
                duplicate,
            },
        ));
    }
    Err(Failure::bad_request(
        "couldn't get version/kind; json parse error: not an object",
    ))
}

/// Reads YAML (or JSON, which is YAML) that must be an object.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, Failure> {
    if let Ok(value) = serde_json::from_slice::<Value>(body)
        && value.is_object()
    {
        return Ok(value);
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    let value: Value = serde_saphyr::from_str_with_options(text, yaml_limits())
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Failure::bad_request("error decoding YAML: not an object"))
}

/// Nodes that a YAML body may have, and those that its aliases may repeat: a body of 3 MiB has fewer
/// unless it was made to explode.
const YAML_NODES_MAX: usize = 500_000;
const YAML_ALIASED_NODES_MAX: usize = 10_000;

fn yaml_limits() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_nodes: YAML_NODES_MAX,
            max_events: 2 * YAML_NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: YAML_ALIASED_NODES_MAX,
        },
        with_snippet: false,
    }
}

/// The body's media type is not one this call takes.
pub(crate) fn unsupported_media_type(given: &str) -> Failure {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml (it was {given})"
    );
    Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        message,
    )
}

/// Reads the metadata, and built-in kinds as a whole, through their types; returns the paths of
/// fields these do not know, or says why they cannot be read.
fn drop_unknown(kind: &Kind, value: &mut Value) -> Result<Vec<String>, String> {
    let whole = if kind.custom.is_some() {
        None
    } else {
        typed::round_trip(&kind.api_version, &kind.kind, value)
    };
    match whole {
        Some(Ok(known)) => {
            let unknown = typed::unknown_fields(value, &known);
            *value = known;
            Ok(unknown)
        }
        Some(Err(error)) => Err(error.to_string()),
        None if is_plain(&value["metadata"]) => Ok(Vec::new()),
        None => {
            let given = &value["metadata"];
            let known = typed::through::<ObjectMeta>(given)
                .map_err(|error| format!("metadata: {error}"))?;
            let unknown = typed::unknown_fields(given, &known);
            value["metadata"] = known;
            Ok(unknown
                .into_iter()
                .map(|path| format!("metadata.{path}"))
                .collect())
        }
    }
}

/// Whether metadata has known fields of the right types only, which is so in almost every write and
/// spares the way through its type.
fn is_plain(metadata: &Value) -> bool {
    let texts = |value: &Value| {
        value
            .as_object()
            .is_some_and(|fields| fields.values().all(Value::is_string))
    };
    metadata.as_object().is_some_and(|fields| {
        fields.iter().all(|(name, value)| match name.as_str() {
            "name" | "namespace" | "uid" | "resourceVersion" | "generateName" => value.is_string(),
            "creationTimestamp" | "deletionTimestamp" => value
                .as_str()
                .is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
            "labels" | "annotations" => texts(value),
            "generation" | "deletionGracePeriodSeconds" => value.is_i64(),
            "finalizers" => value
                .as_array()
                .is_some_and(|list| list.iter().all(Value::is_string)),
            // Entries that cannot be read are left out when ownership is worked out.
            "managedFields" => value.is_array(),
            _ => false,
        })
    })
}

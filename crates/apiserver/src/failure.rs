//! Errors as a Kubernetes API says them: a `Status` with reason, code, details and causes.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::store::Refused;
use crate::schema::FieldCause;

/// One failed call, ready to be answered as a `Status` object.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: StatusCode,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    /// Whether they stand in the answer although there are none.
    has_details: bool,
    resume: Option<String>,
}

/// One field at fault, as it stands in `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

/// A resource as error messages name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
}

impl Subject<'_> {
    fn qualified(&self, word: &str) -> String {
        if self.group.is_empty() {
            word.to_owned()
        } else {
            format!("{word}.{}", self.group)
        }
    }
}

impl From<FieldCause> for Fault {
    fn from(cause: FieldCause) -> Self {
        Self {
            reason: cause.reason.as_str(),
            message: cause.message,
            field: cause.field,
        }
    }
}

impl Fault {
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self {
            reason: "FieldValueInvalid",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            reason: "FieldValueRequired",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        Self {
            reason: "FieldValueNotSupported",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self {
            reason: "FieldValueForbidden",
            message,
            field: field.into(),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, why: &str) -> Self {
        let message = format!("Too long: {why}");
        Self {
            reason: "FieldValueTooLong",
            message,
            field: field.into(),
        }
    }
}

impl Failure {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            has_details: false,
            resume: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The disk did not take it.
    pub(crate) fn unwritten(refused: &Refused) -> Self {
        if refused.is_full {
            let code = StatusCode::INSUFFICIENT_STORAGE;
            return Self::new(code, "InsufficientStorage", &*refused.message);
        }
        Self::internal(&*refused.message)
    }

    /// The path leads to nothing that is served.
    pub(crate) fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn not_found(subject: Subject<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", subject.qualified(subject.plural));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(subject, name)
    }

    /// Whether an object of this name exists already.
    pub(crate) fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    pub(crate) fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" already exists",
            subject.qualified(subject.plural)
        );
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(subject, name)
    }

    /// The name is still taken by an object on its way out.
    pub(crate) fn being_deleted(subject: Subject<'_>, name: &str) -> Self {
        let mut failure = Self::already_exists(subject, name);
        failure.message = format!("object is being deleted: {}", failure.message);
        failure
    }

    pub(crate) fn conflict(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let resource = subject.qualified(subject.plural);
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(subject, name)
    }

    /// The caller's copy is older than what is stored.
    pub(crate) fn stale(subject: Subject<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(subject, name, why)
    }

    pub(crate) fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let resource = subject.qualified(subject.plural);
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(subject, name)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// A resourceVersion that this server has not reached yet.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message.clone());
        let cause =
            json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        failure.details.insert("causes".to_owned(), json!([cause]));
        failure
            .details
            .insert("retryAfterSeconds".to_owned(), json!(1));
        failure
    }

    /// Fields the author has to correct, all of them at once.
    pub(crate) fn invalid(subject: Subject<'_>, name: &str, faults: &[Fault]) -> Self {
        let listed: Vec<String> = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.field, fault.message))
            .collect();
        let listed = match listed.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!(
            "{} \"{name}\" is invalid: {listed}",
            subject.qualified(subject.kind)
        );
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        failure.name_details(subject.group, subject.kind, name);
        let causes: Vec<Value> = faults
            .iter()
            .map(|fault| {
                json!({"reason": fault.reason, "message": fault.message, "field": fault.field})
            })
            .collect();
        failure
            .details
            .insert("causes".to_owned(), Value::Array(causes));
        failure
    }

    /// Adds one machine-readable cause.
    pub(crate) fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = json!(field);
        }
        match self.details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(cause),
            None => {
                self.details.insert("causes".to_owned(), json!([cause]));
            }
        }
        self
    }

    /// Says that there is nothing more to say, as the real server does now and then.
    pub(crate) fn with_empty_details(mut self) -> Self {
        self.has_details = true;
        self
    }

    /// Offers a token with which a list can go on.
    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.resume = Some(token);
        self
    }

    /// The `Status` object of this failure.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.resume {
            status["metadata"]["continue"] = json!(token);
        }
        if self.has_details || !self.details.is_empty() {
            status["details"] = Value::Object(self.details.clone());
        }
        status
    }

    fn about(mut self, subject: Subject<'_>, name: &str) -> Self {
        self.name_details(subject.group, subject.plural, name);
        self
    }

    fn name_details(&mut self, group: &str, kind: &str, name: &str) {
        if !name.is_empty() {
            self.details.insert("name".to_owned(), json!(name));
        }
        if !group.is_empty() {
            self.details.insert("group".to_owned(), json!(group));
        }
        if !kind.is_empty() {
            self.details.insert("kind".to_owned(), json!(kind));
        }
    }
}

/// A value as error messages show it: strings quoted, everything else as JSON.
fn shown(value: &Value) -> String {
    value.to_string()
}

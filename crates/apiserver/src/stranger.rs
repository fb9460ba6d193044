//! Objects that say they are of another kind than the one they are sent as, in the real server's words.

use http::Method;
use serde_json::{Value, json};

use super::admission::Draft;
use super::failure::{Failure, Fault, Subject};
use super::kinds::{Custom, Kind, split_group_version};

/// How much of a body is shown of which the kind is not known.
const GLIMPSE_LEN: usize = 30;

/// Where the real server's list of kinds is written down, which it tells its clients.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

impl Draft<'_> {
    /// The object must be of the kind in the path. What says that it is another custom kind is looked at
    /// further, and refused by [`Self::check_stranger`].
    pub(super) fn check_type(&self, value: &mut Value) -> Result<(), Failure> {
        let kind = &self.call.target.kind;
        if !value.is_object() {
            return Err(Failure::bad_request("the object must be a JSON object"));
        }
        if kind.custom.is_none() {
            for (field, text) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
                if value[field].is_null() {
                    value[field] = json!(&**text);
                }
            }
        }
        let given = value["kind"].as_str().unwrap_or_default();
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        if given.is_empty() {
            return Err(self.without_kind());
        }
        let is_other = given != &*kind.kind || api_version != &*kind.api_version;
        if kind.custom.is_none() && is_other {
            let why = self.misfit(api_version, given);
            return Err(self.unreadable(value, &why));
        }
        if api_version != &*kind.api_version && self.call.parts.method != Method::PATCH {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version \
                 ({})",
                kind.api_version
            )));
        }
        if value["metadata"].is_null() {
            value["metadata"] = json!({});
        }
        Ok(())
    }

    /// Refuses a custom object that says it is of another kind.
    pub(super) fn check_stranger(&self, value: &Value) -> Result<(), Failure> {
        let custom = self.call.target.kind.custom.as_ref();
        match custom.and_then(|custom| self.stranger(custom, value)) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// What is wrong with a custom object that says it is of another kind: that, and what its rules find.
    fn stranger(&self, custom: &Custom, value: &Value) -> Option<Failure> {
        let kind = &self.call.target.kind;
        let wanted = [("kind", &kind.kind), ("apiVersion", &kind.api_version)];
        let other = wanted
            .iter()
            .filter(|(field, text)| value[field] != ***text);
        let mut faults: Vec<Fault> = other
            .map(|(field, text)| Fault::invalid(*field, &value[field], &format!("must be {text}")))
            .collect();
        if faults.is_empty() {
            return None;
        }
        let found = custom.schema.validate_stranger(value, self.before);
        faults.extend(found.into_iter().map(Fault::from));
        let (group, _) = split_group_version(value["apiVersion"].as_str().unwrap_or_default());
        let subject = Subject {
            group,
            kind: value["kind"].as_str().unwrap_or_default(),
            ..kind.subject()
        };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        Some(Failure::invalid(subject, name, &faults))
    }

    /// A body that cannot be read as its kind, or not strictly.
    pub(super) fn undecodable(&self, why: &str) -> Failure {
        let kind = &self.call.target.kind;
        Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            kind.kind, &*kind.version, kind.kind
        ))
    }

    /// An object that cannot be read as its kind.
    pub(super) fn unreadable(&self, value: &Value, why: &str) -> Failure {
        if self.call.parts.method == Method::PATCH {
            let fault = Fault::invalid("patch", &json!(value.to_string()), why);
            let nobody = Subject {
                group: "",
                plural: "",
                kind: "",
            };
            return Failure::invalid(nobody, "", &[fault]);
        }
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        let (_, version) = split_group_version(text("apiVersion"));
        Failure::bad_request(format!(
            "{} in version {version:?} cannot be handled as a {}: {why}",
            text("kind"),
            self.call.target.kind.kind
        ))
    }

    fn without_kind(&self) -> Failure {
        let body = String::from_utf8_lossy(&self.call.body);
        let glimpse: String = body.chars().take(GLIMPSE_LEN).collect();
        let more = if glimpse.len() < body.len() {
            " ..."
        } else {
            ""
        };
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in \
             '{body}' ({glimpse}{more})",
            self.call.target.kind.kind
        ))
    }

    /// Why an object of another kind is not one of this built-in kind.
    fn misfit(&self, api_version: &str, given: &str) -> String {
        let kind = &self.call.target.kind;
        if !self.is_registered(api_version, given) {
            return format!(
                "no kind {given:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
            );
        }
        let (_, version) = split_group_version(api_version);
        format!(
            "converting ({version}.{given}) to ({}.{}): unknown conversion",
            package(kind),
            kind.kind
        )
    }

    /// Whether the server that has this kind built in has the other one too.
    fn is_registered(&self, api_version: &str, given: &str) -> bool {
        let target = &self.call.target.kind;
        let kinds = self.core.registry.current(&self.core.store);
        let is_known = |word: &str| {
            let found = kinds.by_kind(api_version, word);
            found.is_some_and(|kind| {
                kind.custom.is_none() && is_extension(kind) == is_extension(target)
            })
        };
        let is_list = api_version == "v1" && given == "List" && !is_extension(target);
        is_list || is_known(given) || given.strip_suffix("List").is_some_and(is_known)
    }
}

/// Definitions are served by a server of their own.
fn is_extension(kind: &Kind) -> bool {
    &*kind.group == "apiextensions.k8s.io"
}

/// The package in which the real server has a kind.
fn package(kind: &Kind) -> &str {
    match kind.group.split('.').next() {
        None | Some("" | "events") => "core",
        Some(word) => word,
    }
}

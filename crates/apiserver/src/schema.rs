//! Custom resource schemas, compiled once and then asked to prune, default and validate.

mod compile;
mod defaults;
mod formats;
mod go_text;
mod list_types;
mod node;
mod numbers;
mod path;
mod prune;
mod rules;
mod structure;
mod validate;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use crate::schema::go_text::quote as go_quote;
pub(crate) use crate::schema::node::{Additional, ListType, MapType, Node};
use crate::schema::path::Path;

/// Deepest object or schema that is looked into; deeper input is refused.
///
/// The real server bounds nesting through its decoder; 100 levels are far beyond any real schema and
/// leave ample stack.
pub const DEPTH_MAX: usize = 100;

/// Stack for compiling one schema: rules of [16 KiB](rules) can nest a few thousand levels.
const COMPILE_STACK_BYTES: usize = 256 << 20;

/// Why a field was refused, with the words that Kubernetes uses in `details.causes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseReason {
    /// The value breaks a rule.
    FieldValueInvalid,
    /// The value is missing.
    FieldValueRequired,
    /// The value is not one of a closed set.
    FieldValueNotSupported,
    /// The value occurs twice where it must be unique.
    FieldValueDuplicate,
    /// The value has the wrong JSON type.
    FieldValueTypeInvalid,
    /// The value must not be given.
    FieldValueForbidden,
    /// The value is too long.
    FieldValueTooLong,
    /// The list or map has too many entries.
    FieldValueTooMany,
    /// The value refers to something that does not exist.
    FieldValueNotFound,
    /// The server could not decide.
    InternalError,
    /// Another field manager owns the field.
    FieldManagerConflict,
}

/// One entry of `details.causes`: what is wrong with which field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCause {
    /// The class of the mistake.
    pub reason: CauseReason,
    /// The explanation, without the field.
    pub message: String,
    /// The path of the field, `<nil>` for the object itself.
    pub field: String,
}

/// A compiled schema of one version of a custom resource.
#[derive(Debug)]
pub struct Structural {
    root: Node,
}

impl CauseReason {
    /// The word used on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FieldValueInvalid => "FieldValueInvalid",
            Self::FieldValueRequired => "FieldValueRequired",
            Self::FieldValueNotSupported => "FieldValueNotSupported",
            Self::FieldValueDuplicate => "FieldValueDuplicate",
            Self::FieldValueTypeInvalid => "FieldValueTypeInvalid",
            Self::FieldValueForbidden => "FieldValueForbidden",
            Self::FieldValueTooLong => "FieldValueTooLong",
            Self::FieldValueTooMany => "FieldValueTooMany",
            Self::FieldValueNotFound => "FieldValueNotFound",
            Self::InternalError => "InternalError",
            Self::FieldManagerConflict => "FieldManagerConflict",
        }
    }
}

impl Structural {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// Everything that makes the schema not structural, or a rule or pattern that does not compile.
    /// The fields start with `openAPIV3Schema`; the caller puts `spec.versions[0].schema.` or
    /// `spec.validation.` in front.
    ///
    /// # Limits
    /// Schemas nested deeper than [`DEPTH_MAX`] are refused.
    pub fn compile(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldCause>> {
        let causes = structure::problems(open_api_v3_schema);
        if !causes.is_empty() {
            return Err(causes);
        }
        // The parser of rules recurses deeply; a stack of its own keeps any rule from overflowing.
        let compiled = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("schema".to_owned())
                .stack_size(COMPILE_STACK_BYTES)
                .spawn_scoped(scope, || compile::root(open_api_v3_schema))
                .map(std::thread::ScopedJoinHandle::join)
        });
        match compiled {
            Ok(Ok(root)) => root.map(|root| Self { root }),
            Ok(Err(_)) | Err(_) => Err(vec![FieldCause {
                reason: CauseReason::InternalError,
                message: "Internal error: the schema could not be compiled".to_owned(),
                field: "openAPIV3Schema".to_owned(),
            }]),
        }
    }

    /// A schema that keeps and accepts everything.
    #[must_use]
    pub fn open() -> Self {
        Self { root: Node::open() }
    }

    /// Drops fields that the schema does not know and returns their paths in order.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object itself and of embedded resources stay.
    pub fn prune(&self, obj: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune::resource(&self.root, obj, Path::root(), &mut dropped);
        dropped
    }

    /// Drops nulls where null is not allowed and fills in defaults.
    pub fn apply_defaults(&self, obj: &mut Value) {
        defaults::fill(&self.root, obj);
    }

    /// Checks a whole object; `old` is the stored one on update.
    #[must_use]
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldCause> {
        let mut causes = validate::check(&self.root, new, old);
        self.list_types_and_rules(new, old, &mut causes);
        causes
    }

    /// Checks an object written through its `/status` subresource.
    #[must_use]
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<FieldCause> {
        let mut causes = Vec::new();
        if let (Some(status), Some(node)) = (new.get("status"), self.root.properties.get("status"))
        {
            let before = old.map(|old| old.get("status").unwrap_or(&Value::Null));
            causes = validate::check(node, status, before);
            for cause in &mut causes {
                cause.field = under("status", &cause.field);
            }
        }
        self.list_types_and_rules(new, old, &mut causes);
        causes
    }

    /// Checks only what is checked of an object that says it is of another kind.
    #[must_use]
    pub fn validate_stranger(&self, new: &Value, old: Option<&Value>) -> Vec<FieldCause> {
        let mut causes = Vec::new();
        self.list_types_and_rules(new, old, &mut causes);
        causes
    }

    /// The compiled tree, for server-side apply.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    fn list_types_and_rules(&self, new: &Value, old: Option<&Value>, causes: &mut Vec<FieldCause>) {
        let repeated = list_types::problems(&self.root, new);
        // Where the stored object already has repetitions, a write may keep them.
        let is_new = !repeated.is_empty()
            && old.is_none_or(|old| list_types::problems(&self.root, old).is_empty());
        if is_new {
            causes.extend(repeated);
        }
        if !self.root.rules_below {
            return;
        }
        if causes.iter().any(|cause| blocks_rules(cause.reason)) {
            causes.push(rules::skipped());
        } else {
            causes.extend(rules::check(&self.root, new, old));
        }
    }
}

/// The text after `is invalid: ` in the message of a 422 answer.
#[must_use]
pub fn summary(causes: &[FieldCause]) -> String {
    let mut lines: Vec<String> = Vec::with_capacity(causes.len());
    for cause in causes {
        let line = format!("{}: {}", cause.field, cause.message);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [single] => single.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn under(parent: &str, field: &str) -> String {
    if field == path::NO_FIELD {
        parent.to_owned()
    } else if field.starts_with('[') {
        format!("{parent}{field}")
    } else {
        format!("{parent}.{field}")
    }
}

/// Rules may rely on types and presence, so they do not run on objects that fail those.
fn blocks_rules(reason: CauseReason) -> bool {
    matches!(
        reason,
        CauseReason::FieldValueNotSupported
            | CauseReason::FieldValueRequired
            | CauseReason::FieldValueTooLong
            | CauseReason::FieldValueTooMany
            | CauseReason::FieldValueTypeInvalid
    )
}

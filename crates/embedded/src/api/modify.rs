//! Changing objects: replace and patch.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::Core;
use super::admission::{self, Draft, Surplus};
use super::failure::{Failure, Fault, Subject};
use super::kinds::{Generation, Kind};
use super::lifecycle::Cascade;
use super::object::Stored;
use super::present;
use super::request::{Part, WriteOptions};
use super::service::{Call, Reply};
use crate::patch::{PatchFault, json_patch, merge_patch};

/// How often a patch is computed again because others wrote in between.
const ATTEMPTS_MAX: usize = 64;

/// A change as the body describes it.
enum Edit {
    Replace(Value, Vec<String>),
    Json(Value),
    Merge(Value, Vec<String>),
}

impl Core {
    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn replace(&self, call: &Call) -> Result<Reply, Failure> {
        let options = WriteOptions::read(&call.query, &call.parts.headers, "UpdateOptions")?;
        let (value, surplus) = admission::decode(call)?;
        if call.target.part == Part::Scale {
            return self.replace_scale(call, &value, &options).await;
        }
        let name = call.target.name.as_deref().unwrap_or_default();
        let kind = &call.target.kind;
        let missing = self.store.latest(&call.target.id_of(name)).is_none();
        if kind.upsert && missing && call.target.part == Part::Whole {
            return self.create_object(call, value, surplus, &options).await;
        }
        let duplicate = surplus.duplicate;
        self.modify(call, &Edit::Replace(value, duplicate), &options).await
    }

    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn patch(&self, call: &Call) -> Result<Reply, Failure> {
        let options = WriteOptions::read(&call.query, &call.parts.headers, "PatchOptions")?;
        let media_type = present::media_type(call);
        let apply = &*media_type == "application/apply-patch+yaml";
        if !apply && call.query.get("force").is_some() {
            let subject = Subject { group: "meta.k8s.io", plural: "", kind: "PatchOptions" };
            let why = "may not be specified for non-apply patch";
            return Err(Failure::invalid(subject, "", &[Fault::forbidden("force", why)]));
        }
        let edit = match &*media_type {
            "application/json-patch+json" => Edit::Json(json_operations(&call.body)?),
            "application/merge-patch+json" => {
                let (patch, surplus) = admission::parse_json(&call.body)?;
                Edit::Merge(patch, surplus.duplicate)
            }
            other => return Err(unsupported_patch(call, other)),
        };
        if call.target.part == Part::Scale {
            return self.patch_scale(call, &options, |scale| edit.apply(scale)).await;
        }
        self.modify(call, &edit, &options).await
    }

    /// Computes the change on the newest state until no other write comes between.
    async fn modify(
        &self,
        call: &Call,
        edit: &Edit,
        options: &WriteOptions,
    ) -> Result<Reply, Failure> {
        self.change(call, options, |current| edit.apply(current)).await
    }

    /// Replaces an object by what `edit` makes of it.
    ///
    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn change(
        &self,
        call: &Call,
        options: &WriteOptions,
        edit: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<Reply, Failure> {
        let kind = &call.target.kind;
        let name = call.target.name.as_deref().unwrap_or_default();
        let id = call.target.id_of(name);
        for _ in 0..ATTEMPTS_MAX {
            let before = self
                .store
                .latest(&id)
                .ok_or_else(|| Failure::not_found(kind.subject(), name))?;
            let current = present::converted(kind, &before);
            let mut value = edit(&current)?;
            let warnings = self.prepare(call, options, &current, &mut value)?;
            let (stored, version) = if same(&before, &value) {
                (before.clone(), before.version)
            } else if options.dry_run {
                (Arc::new(Stored::new(id.clone(), before.version, &value)), before.version)
            } else {
                match self.stage_change(&before, &mut value) {
                    Some(staged) => staged,
                    None => continue,
                }
            };
            self.settle(version).await?;
            let mut reply = present::object(call, StatusCode::OK, &stored);
            reply.warnings = warnings;
            return Ok(reply);
        }
        Err(Failure::stale(kind.subject(), name))
    }

    /// Stages the change if `before` is still the newest state.
    fn stage_change(&self, before: &Arc<Stored>, value: &mut Value) -> Option<(Arc<Stored>, u64)> {
        let kinds = self.registry.current(&self.store);
        let now = self.now();
        let mut transaction = self.store.begin();
        let newest = transaction.get(&before.id)?;
        if newest.version != before.version {
            return None;
        }
        let stored = Cascade::new(&mut transaction, &kinds, &now).write(&before.id, value);
        Some((stored, transaction.finish()))
    }

    /// Checks a change and completes it with what the client may not set.
    fn prepare(
        &self,
        call: &Call,
        options: &WriteOptions,
        current: &Value,
        value: &mut Value,
    ) -> Result<Vec<String>, Failure> {
        let kind = &call.target.kind;
        admission::check_type(kind, value)?;
        check_identity(call, current, value)?;
        keep_system_fields(current, value);
        match call.target.part {
            Part::Whole | Part::Scale => keep(current, value, kind.status.then_some("status")),
            Part::Status => keep_all_but(current, value, &["status"]),
            Part::Finalize => keep_all_but(current, value, &["spec"]),
        }
        if call.target.part != Part::Status {
            count_generation(kind, current, value);
        }
        Draft { core: self, call, options, before: Some(current) }.admit(value)
    }
}

impl Edit {
    fn apply(&self, current: &Value) -> Result<Value, Failure> {
        match self {
            Self::Replace(value, _) => Ok(value.clone()),
            Self::Merge(patch, _) => {
                let mut value = current.clone();
                merge_patch(&mut value, patch);
                Ok(value)
            }
            Self::Json(operations) => json_patch(current, operations).map_err(patch_failure),
        }
    }
}

/// A patch fault as the real server answers it.
pub(crate) fn patch_failure(fault: PatchFault) -> Failure {
    match fault {
        PatchFault::Malformed(why) => Failure::bad_request(format!("error decoding patch: {why}")),
        PatchFault::TooLarge(why) => {
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", why)
        }
        PatchFault::Inapplicable(why) => rejected_patch(&why),
    }
}

/// The patch is well-formed but does not fit the object.
fn rejected_patch(why: &str) -> Failure {
    let message = "the server rejected our request due to an error in our request";
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_cause(
        "UnexpectedServerResponse",
        why,
        "",
    )
}

fn json_operations(body: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))
}

fn unsupported_patch(call: &Call, given: &str) -> Failure {
    let mut supported =
        vec!["application/json-patch+json", "application/merge-patch+json"];
    if call.target.kind.custom.is_none() {
        supported.push("application/strategic-merge-patch+json");
    }
    supported.push("application/apply-patch+yaml");
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {} ({given})",
        supported.join(", ")
    );
    Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// Name, namespace, UID and resourceVersion must be those of the object that is changed.
fn check_identity(call: &Call, current: &Value, value: &Value) -> Result<(), Failure> {
    let kind = &call.target.kind;
    let (held, given) = (&current["metadata"], &value["metadata"]);
    let text = |metadata: &Value, field: &str| {
        metadata[field].as_str().unwrap_or_default().to_owned()
    };
    let name = text(held, "name");
    let given_name = text(given, "name");
    if given_name != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given_name}) does not match the name on the URL ({name})"
        )));
    }
    let namespace = text(given, "namespace");
    if !namespace.is_empty() && namespace != text(held, "namespace") {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let uid = text(given, "uid");
    if !uid.is_empty() && uid != text(held, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(held, "uid")
        );
        return Err(Failure::conflict(kind.subject(), &name, &why));
    }
    let version = text(given, "resourceVersion");
    if version.is_empty() || version == "0" {
        if !kind.unconditional {
            let why = "must be specified for an update";
            let fault = Fault::invalid("metadata.resourceVersion", &json!(0), why);
            return Err(Failure::invalid(kind.subject(), &name, &[fault]));
        }
    } else if version != text(held, "resourceVersion") {
        return Err(Failure::stale(kind.subject(), &name));
    }
    Ok(())
}

/// What only the server sets stays as it is.
fn keep_system_fields(current: &Value, value: &mut Value) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "generateName",
    ] {
        match current["metadata"].get(field) {
            Some(held) => value["metadata"][field] = held.clone(),
            None => {
                if let Some(metadata) = value["metadata"].as_object_mut() {
                    metadata.remove(field);
                }
            }
        }
    }
}

/// One field stays as it is.
fn keep(current: &Value, value: &mut Value, field: Option<&str>) {
    let (Some(field), Some(fields)) = (field, value.as_object_mut()) else { return };
    match current.get(field) {
        Some(held) => fields.insert(field.to_owned(), held.clone()),
        None => fields.remove(field),
    };
}

/// Only the named fields change.
fn keep_all_but(current: &Value, value: &mut Value, changing: &[&str]) {
    let mut kept = current.clone();
    for &field in changing {
        keep(value, &mut kept, Some(field));
    }
    *value = kept;
}

fn count_generation(kind: &Kind, current: &Value, value: &mut Value) {
    let changed = match kind.generation {
        Generation::Never => return,
        Generation::Spec => current.get("spec") != value.get("spec"),
        Generation::Anything => {
            let counted = |value: &Value| -> Vec<(String, Value)> {
                let fields = value.as_object().into_iter().flatten();
                let outside = |name: &str| name == "metadata" || (name == "status" && kind.status);
                let mut fields: Vec<_> = fields
                    .filter(|(name, _)| !outside(name))
                    .map(|(name, field)| (name.clone(), field.clone()))
                    .collect();
                fields.sort_by(|one, other| one.0.cmp(&other.0));
                fields
            };
            counted(current) != counted(value)
        }
    };
    if changed {
        let generation = current["metadata"]["generation"].as_u64().unwrap_or(0);
        value["metadata"]["generation"] = json!(generation + 1);
    }
}

/// Whether a write would change nothing.
fn same(before: &Stored, value: &Value) -> bool {
    before.value() == *value
}

//! Changing objects: replace, patch and apply.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::Core;
use super::admission::{self, Draft, Surplus};
use super::failure::{Failure, Fault, Subject};
use super::guard;
use super::kinds::{Habit, split_group_version};
use super::lifecycle::Cascade;
use super::object::Stored;
use super::present;
use super::request::{Part, WriteOptions};
use super::service::{Call, Reply};
use crate::patch::{
    ApplyRequest, Force, MergeKeys, PatchFault, UpdateRequest, conflict_message, infer_update,
    json_patch, merge_patch, server_side_apply, strategic_merge, take_managers, track_update,
};

/// How often a patch is computed again because others wrote in between.
const ATTEMPTS_MAX: usize = 64;

/// A change as the body describes it.
pub(crate) enum Edit {
    Replace(Value),
    Json(Value),
    Merge(Value),
    Strategic(Value, MergeKeys),
    Apply(Value, Force),
}

/// A change with what its body had too much of.
pub(crate) struct Request<'a> {
    pub(crate) call: &'a Call,
    pub(crate) options: &'a WriteOptions,
    pub(crate) duplicate: Vec<String>,
}

impl Core {
    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn replace(&self, call: &Call) -> Result<Reply, Failure> {
        let options = &WriteOptions::read(&call.query, &call.parts.headers, "UpdateOptions")?;
        let (mut value, surplus) = admission::decode(call)?;
        let name = call.target.name.as_deref().unwrap_or_default();
        let missing = self.store.latest(&call.target.id_of(name)).is_none();
        if call.target.kind.has(Habit::Upsert) && missing && call.target.part == Part::Whole {
            return self.create_object(call, value, surplus, options).await;
        }
        if missing && call.target.part == Part::Whole {
            // A body that cannot be read is told before an object that is not there.
            let draft = Draft {
                core: self,
                call,
                options,
                before: None,
            };
            draft.shape(&mut value, surplus)?;
            return Err(Failure::not_found(call.target.kind.subject(), name));
        }
        let request = Request {
            call,
            options,
            duplicate: surplus.duplicate,
        };
        self.modify(&request, &Edit::Replace(value)).await
    }

    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn patch(&self, call: &Call) -> Result<Reply, Failure> {
        let options = &WriteOptions::read(&call.query, &call.parts.headers, "PatchOptions")?;
        let media_type = present::media_type(call);
        check_patch_options(call, &media_type)?;
        let mut duplicate = Vec::new();
        let edit = match &*media_type {
            "application/json-patch+json" => {
                Edit::Json(serde_json::from_slice(&call.body).map_err(|error| {
                    Failure::bad_request(format!("error decoding patch: {error}"))
                })?)
            }
            "application/merge-patch+json" => {
                let (patch, surplus) = admission::parse_json(&call.body)?;
                duplicate = surplus.duplicate;
                Edit::Merge(patch)
            }
            "application/strategic-merge-patch+json" if call.target.kind.custom.is_none() => {
                let (patch, surplus) = admission::parse_json(&call.body)?;
                duplicate = surplus.duplicate;
                Edit::Strategic(patch, MergeKeys::of(&call.target.kind.kind))
            }
            "application/apply-patch+yaml" | "application/apply-patch+json" => {
                let force = if call.query.is_true("force") {
                    Force::Yes
                } else {
                    Force::No
                };
                Edit::Apply(self.declaration(call, options)?, force)
            }
            other => return Err(unsupported_patch(call, other)),
        };
        let request = Request {
            call,
            options,
            duplicate,
        };
        self.modify(&request, &edit).await
    }

    async fn modify(&self, request: &Request<'_>, edit: &Edit) -> Result<Reply, Failure> {
        if request.call.target.part == Part::Scale {
            return self.change_scale(request, |scale| edit.apply(scale)).await;
        }
        let call = request.call;
        if let Edit::Apply(applied, force) = edit {
            let name = call.target.name.as_deref().unwrap_or_default();
            if self.store.latest(&call.target.id_of(name)).is_none() {
                if call.target.part != Part::Whole {
                    return Err(Failure::not_found(call.target.kind.subject(), name));
                }
                let value = self.applied(request, None, applied, *force)?;
                let created = self.create_applied(call, value, request.options).await;
                // Created by somebody else meanwhile, it is changed like one that was there before.
                if !created.as_ref().is_err_and(Failure::is_already_exists) {
                    return created;
                }
            }
            let edit = |current: &Value| self.applied(request, Some(current), applied, *force);
            let changed = self.change(request, Ownership::Declared, edit).await?;
            return Ok(answer(call, changed));
        }
        let ownership = if edit.leaves_managers() {
            Ownership::Inferred
        } else {
            Ownership::Tracked
        };
        let edit = |current: &Value| edit.apply(current);
        let changed = self.change(request, ownership, edit).await?;
        Ok(answer(call, changed))
    }

    /// Replaces an object by what `edit` makes of its newest state, again if others wrote meanwhile.
    ///
    /// # Cancellation
    /// A change that was staged is made; only the answer is lost.
    pub(crate) async fn change(
        &self,
        request: &Request<'_>,
        ownership: Ownership,
        edit: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<(Arc<Stored>, Vec<String>), Failure> {
        let call = request.call;
        let kind = &call.target.kind;
        let name = call.target.name.as_deref().unwrap_or_default();
        let id = call.target.id_of(name);
        for _ in 0..ATTEMPTS_MAX {
            let before = self
                .store
                .latest(&id)
                .ok_or_else(|| Failure::not_found(kind.subject(), name))?;
            let mut current = present::converted(kind, &before);
            let managers = match ownership {
                Ownership::Inferred => Some(take_managers(&mut current)),
                Ownership::Tracked | Ownership::Declared => None,
            };
            let mut value = edit(&current)?;
            let warnings = self.prepare(request, &current, &mut value)?;
            let (stored, version) = if guard::same(&current, &value) {
                (Arc::clone(&before), before.version)
            } else {
                if ownership != Ownership::Declared {
                    self.track(request, Some(&current), managers, &mut value);
                }
                self.give_addresses(&kind.resource, &mut value);
                admission::check_size(&value)?;
                present::convert(&mut value, &kind.stored_as);
                if request.options.dry_run {
                    (
                        Arc::new(Stored::new(Arc::clone(&before.id), before.version, &value)),
                        before.version,
                    )
                } else {
                    match self.stage_change(&before, &mut value)? {
                        Some(staged) => staged,
                        None => continue,
                    }
                }
            };
            self.settle(version).await?;
            return Ok((stored, warnings));
        }
        Err(Failure::stale(kind.subject(), name))
    }

    /// Records who now owns which field. `managers` is who did so far, where that was taken out of
    /// the object before it was changed.
    pub(crate) fn track(
        &self,
        request: &Request<'_>,
        before: Option<&Value>,
        managers: Option<Vec<Value>>,
        value: &mut Value,
    ) {
        let kind = &request.call.target.kind;
        let update = UpdateRequest {
            before,
            manager: &request.options.manager,
            schema: kind.custom.as_ref().map(|custom| &*custom.schema),
            now: &self.now(),
            subresource: request.call.target.part.as_str(),
            api_version: &kind.api_version,
        };
        match managers {
            Some(held) => infer_update(update, held, value),
            None => track_update(update, value),
        }
    }

    /// Stages the change if `before` is still the newest state.
    fn stage_change(
        &self,
        before: &Arc<Stored>,
        value: &mut Value,
    ) -> Result<Option<(Arc<Stored>, u64)>, Failure> {
        let kinds = self.registry.current(&self.store);
        let now = self.now();
        let mut transaction = self.begin()?;
        let newest = transaction.get(&before.id);
        if newest.is_none_or(|newest| newest.version != before.version) {
            return Ok(None);
        }
        let stored = Cascade::new(&mut transaction, &kinds, &now).write(&before.id, value);
        Ok(Some((stored, transaction.finish())))
    }

    /// Checks a change and completes it with what the client may not set.
    fn prepare(
        &self,
        request: &Request<'_>,
        current: &Value,
        value: &mut Value,
    ) -> Result<Vec<String>, Failure> {
        let call = request.call;
        let draft = Draft {
            core: self,
            call,
            options: request.options,
            before: Some(current),
        };
        let surplus = Surplus {
            unknown: Vec::new(),
            duplicate: request.duplicate.clone(),
        };
        let warnings = draft.shape(value, surplus)?;
        guard::check_identity(call, current, value)?;
        guard::keep_unchangeable(call, current, value);
        draft.admit(value)?;
        guard::count_generation(call, current, value);
        Ok(warnings)
    }

    /// The body of an apply.
    fn declaration(&self, call: &Call, options: &WriteOptions) -> Result<Value, Failure> {
        let kind = &call.target.kind;
        let mut applied = admission::parse_yaml(&call.body)?;
        let managed = applied["metadata"]["managedFields"].as_array();
        if managed.is_some_and(|entries| !entries.is_empty()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        if applied["metadata"]["name"].is_null() && applied["metadata"].is_object() {
            applied["metadata"]["name"] = json!(call.target.name.as_deref());
        }
        let given = applied["metadata"]["name"].as_str().unwrap_or_default();
        let name = call.target.name.as_deref().unwrap_or_default();
        if given != name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        let given = |field: &str| applied[field].as_str().unwrap_or_default();
        if given("kind") != &*kind.kind || given("apiVersion") != &*kind.api_version {
            let (group, version) = split_group_version(given("apiVersion"));
            return Err(Failure::bad_request(format!(
                "invalid object type: {group}/{version}, Kind={}",
                given("kind")
            )));
        }
        let draft = Draft {
            core: self,
            call,
            options,
            before: None,
        };
        let unknown = draft.unknown_fields(&applied)?;
        if let Some(path) = unknown.first() {
            let namespace = call.target.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "failed to create typed patch object ({namespace}/{name}; {}, Kind={}): .{path}: \
                 field not declared in schema",
                kind.api_version, kind.kind
            );
            return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
        }
        if let Some(fields) = applied.as_object_mut()
            && kind.status
            && call.target.part == Part::Whole
        {
            fields.remove("status");
        }
        Ok(applied)
    }

    /// The object after an apply, with its `managedFields`.
    fn applied(
        &self,
        request: &Request<'_>,
        live: Option<&Value>,
        applied: &Value,
        force: Force,
    ) -> Result<Value, Failure> {
        let call = request.call;
        let kind = &call.target.kind;
        if !applied["metadata"]["managedFields"].is_null() {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let result = server_side_apply(ApplyRequest {
            live,
            applied,
            manager: &request.options.manager,
            force,
            schema: kind.custom.as_ref().map(|custom| &*custom.schema),
            now: &self.now(),
            subresource: call.target.part.as_str(),
            api_version: &kind.api_version,
        });
        result.map_err(|conflicts| {
            let message = conflict_message(&conflicts);
            let mut failure = Failure::new(StatusCode::CONFLICT, "Conflict", message);
            for conflict in &conflicts {
                let cause = conflict.cause();
                failure = failure.with_cause(cause.reason.as_str(), &cause.message, &cause.field);
            }
            failure
        })
    }
}

/// Where the `managedFields` of a change come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// From what changed, and from what the body says of them.
    Tracked,
    /// From what changed alone. They are most of an object, so they are not copied and compared
    /// where the body does not touch them.
    Inferred,
    /// From what the apply declared.
    Declared,
}

impl Edit {
    /// Whether it is clear that `managedFields` stays as it is.
    fn leaves_managers(&self) -> bool {
        match self {
            Self::Merge(patch) => match patch.get("metadata") {
                Some(Value::Object(metadata)) => !metadata.contains_key("managedFields"),
                Some(_) => false,
                None => patch.is_object(),
            },
            Self::Replace(_) | Self::Json(_) | Self::Strategic(..) | Self::Apply(..) => false,
        }
    }

    fn apply(&self, current: &Value) -> Result<Value, Failure> {
        match self {
            Self::Replace(value) => Ok(value.clone()),
            Self::Merge(patch) | Self::Apply(patch, _) => {
                let mut value = current.clone();
                merge_patch(&mut value, patch);
                Ok(value)
            }
            Self::Strategic(patch, keys) => {
                let mut value = current.clone();
                strategic_merge(&mut value, patch, keys).map_err(patch_failure)?;
                Ok(value)
            }
            Self::Json(operations) => json_patch(current, operations).map_err(patch_failure),
        }
    }
}

fn check_patch_options(call: &Call, media_type: &str) -> Result<(), Failure> {
    let subject = Subject {
        group: "meta.k8s.io",
        plural: "",
        kind: "PatchOptions",
    };
    let apply = media_type.starts_with("application/apply-patch+");
    if !apply && call.query.get("force").is_some() {
        let why = "may not be specified for non-apply patch";
        return Err(Failure::invalid(
            subject,
            "",
            &[Fault::forbidden("force", why)],
        ));
    }
    if apply && call.query.get("fieldManager").is_none() {
        let fault = Fault::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid(subject, "", &[fault]));
    }
    Ok(())
}

fn answer(call: &Call, (stored, warnings): (Arc<Stored>, Vec<String>)) -> Reply {
    let mut reply = present::object(call, StatusCode::OK, &stored);
    reply.warnings = warnings;
    reply
}

/// A patch fault as the real server answers it.
fn patch_failure(fault: PatchFault) -> Failure {
    match fault {
        PatchFault::Malformed(why) => Failure::bad_request(format!("error decoding patch: {why}")),
        PatchFault::TooLarge(why) => {
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", why)
        }
        // The real server keeps to itself what did not fit.
        PatchFault::Inapplicable(_) => {
            let message = "the server rejected our request due to an error in our request";
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_empty_details()
        }
    }
}

fn unsupported_patch(call: &Call, given: &str) -> Failure {
    let strategic = call.target.kind.custom.is_none();
    let strategic = if strategic {
        ", application/strategic-merge-patch+json"
    } else {
        ""
    };
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json{strategic}, \
         application/apply-patch+yaml (it was {given})"
    );
    Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        message,
    )
}

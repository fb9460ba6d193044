//! Deleting objects, one or many.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Core;
use super::failure::{Failure, Fault, Subject};
use super::kinds::Habit;
use super::lifecycle::{Cascade, Deleted, Propagation};
use super::object::{ObjectId, Stored};
use super::present::{self, ListMeta};
use super::request::WriteOptions;
use super::selector::Selector;
use super::service::{Call, Reply};

/// The body of a deletion.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    preconditions: Option<Preconditions>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

struct Plan {
    policy: Propagation,
    preconditions: Preconditions,
    dry_run: bool,
}

impl Core {
    /// # Cancellation
    /// A deletion that was staged goes on; only its answer is lost.
    pub(crate) async fn delete(&self, call: &Call) -> Result<Reply, Failure> {
        let plan = Plan::read(call)?;
        let name = call.target.name.as_deref().unwrap_or_default();
        let id = call.target.id_of(name);
        let (deleted, version) = self.delete_staged(call, &id, &plan)?;
        self.settle(version).await?;
        let kind = &call.target.kind;
        Ok(match deleted {
            Deleted::Gone(stored) if !kind.has(Habit::EchoDeleted) => {
                let mut details =
                    json!({"name": name, "kind": &*kind.plural, "uid": stored.uid.to_string()});
                if !kind.group.is_empty() {
                    details["group"] = json!(&*kind.group);
                }
                Reply::ok(&json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details,
                }))
            }
            Deleted::Gone(stored) | Deleted::Waiting(stored) => {
                present::object(call, StatusCode::OK, &stored)
            }
        })
    }

    /// # Cancellation
    /// Deletions that were staged go on; only the answer is lost.
    pub(crate) async fn delete_collection(&self, call: &Call) -> Result<Reply, Failure> {
        let plan = Plan::read(call)?;
        let query = &call.query;
        let kind = &call.target.kind;
        let selector =
            Selector::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        let (listed, _) = self
            .store
            .list(&kind.resource, call.target.namespace.as_deref());
        let mut gone: Vec<Arc<Stored>> = Vec::new();
        let mut last = 0;
        for stored in listed.iter().filter(|stored| selector.matches(stored)) {
            match self.delete_staged(call, &stored.id, &plan) {
                Ok((Deleted::Gone(stored) | Deleted::Waiting(stored), version)) => {
                    last = version;
                    gone.push(stored);
                }
                // Someone else deleted it meanwhile, which is what was wanted.
                Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
                Err(failure) => return Err(failure),
            }
        }
        self.settle(last).await?;
        let meta = ListMeta {
            version: self.store.version(),
            resume: None,
            remaining: None,
        };
        Ok(present::list(call, &meta, &gone))
    }

    fn delete_staged(
        &self,
        call: &Call,
        id: &ObjectId,
        plan: &Plan,
    ) -> Result<(Deleted, u64), Failure> {
        let kind = &call.target.kind;
        let kinds = self.registry.current(&self.store);
        let now = self.now();
        let mut transaction = self.begin()?;
        let stored = transaction
            .get(id)
            .ok_or_else(|| Failure::not_found(kind.subject(), &id.name))?;
        plan.preconditions.check(kind.subject(), &stored)?;
        if &*id.resource == "namespaces" && is_kept(&id.name) {
            return Err(Failure::forbidden(
                kind.subject(),
                &id.name,
                "this namespace may not be deleted",
            ));
        }
        if plan.dry_run {
            return Ok((Deleted::Gone(stored), 0));
        }
        let deleted = Cascade::new(&mut transaction, &kinds, &now)
            .delete(id, plan.policy)
            .ok_or_else(|| Failure::not_found(kind.subject(), &id.name))?;
        Ok((deleted, transaction.finish()))
    }
}

impl Plan {
    fn read(call: &Call) -> Result<Self, Failure> {
        let write = WriteOptions::read(&call.query, &call.parts.headers, "DeleteOptions")?;
        let options: DeleteOptions = if call.body.is_empty() {
            DeleteOptions::default()
        } else {
            serde_json::from_slice(&call.body).map_err(|error| {
                Failure::bad_request(format!("couldn't decode DeleteOptions: {error}"))
            })?
        };
        let subject = Subject {
            group: "meta.k8s.io",
            plural: "",
            kind: "DeleteOptions",
        };
        let orphan = options.orphan_dependents.or_else(|| {
            call.query
                .get("orphanDependents")
                .map(|text| matches!(text, "true" | "1"))
        });
        let policy = options
            .propagation_policy
            .as_deref()
            .or_else(|| call.query.get("propagationPolicy"));
        let policy = match (policy, orphan) {
            (Some(_), Some(_)) => {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let fault = Fault::invalid("propagationPolicy", &json!(policy), why);
                return Err(Failure::invalid(subject, "", &[fault]));
            }
            (None | Some("Background"), None) | (None, Some(false)) => Propagation::Background,
            (Some("Foreground"), None) => Propagation::Foreground,
            (Some("Orphan"), None) | (None, Some(true)) => Propagation::Orphan,
            (Some(other), None) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Foreground\", \
                     \"Background\", \"Orphan\", \"nil\""
                );
                let field = "propagationPolicy".to_owned();
                let fault = Fault {
                    reason: "FieldValueNotSupported",
                    message,
                    field,
                };
                return Err(Failure::invalid(subject, "", &[fault]));
            }
        };
        if options
            .grace_period_seconds
            .is_some_and(|seconds| seconds < 0)
        {
            let why = "must be greater than or equal to 0";
            let fault = Fault::invalid("gracePeriodSeconds", &Value::from(-1), why);
            return Err(Failure::invalid(subject, "", &[fault]));
        }
        let dry_run = write.dry_run
            || options
                .dry_run
                .is_some_and(|values| values.iter().any(|value| value == "All"));
        Ok(Self {
            policy,
            preconditions: options.preconditions.unwrap_or_default(),
            dry_run,
        })
    }
}

impl Preconditions {
    fn check(&self, subject: Subject<'_>, stored: &Stored) -> Result<(), Failure> {
        let name = &stored.id.name;
        let refused = |what: &str, asked: &str, held: &str| {
            let why = format!(
                "the {what} in the precondition ({asked}) does not match the {what} in record ({held}). \
                 The object might have been deleted and then recreated"
            );
            Err(Failure::conflict(subject, name, &why))
        };
        let uid = stored.uid.to_string();
        if let Some(asked) = self.uid.as_deref().filter(|asked| *asked != uid) {
            return refused("UID", asked, &uid);
        }
        let held = stored.version.to_string();
        if let Some(asked) = self
            .resource_version
            .as_deref()
            .filter(|asked| *asked != held)
        {
            return refused("ResourceVersion", asked, &held);
        }
        Ok(())
    }
}

/// Namespaces that cannot be deleted.
fn is_kept(name: &str) -> bool {
    matches!(name, "default" | "kube-system" | "kube-public")
}

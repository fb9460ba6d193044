//! What follows from a write: deletion with finalizers, dependents, emptied namespaces and definitions.
//!
//! All of it happens in the transaction of the write that caused it, so a crash cannot come between and
//! nothing has to be swept up later.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kinds;
use super::object::{FOREGROUND, ObjectId, ObjectUid, Owner, Stored, finalizers, has_finalizer};
use super::store::{CRD_RESOURCE, Transaction};

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What became of a deleted object.
pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It is marked and waits for finalizers or for its content.
    Waiting(Arc<Stored>),
}

/// Writes and whatever follows from them, in one transaction.
pub(crate) struct Cascade<'a, 'b> {
    pub(crate) transaction: &'a mut Transaction<'b>,
    pub(crate) kinds: &'a Kinds,
    pub(crate) now: &'a str,
    work: Vec<Work>,
}

enum Work {
    Delete(Arc<ObjectId>, Propagation),
    Removed(Arc<Stored>),
    /// An object that waits for its dependents.
    Foreground(Arc<ObjectId>),
}

/// The finalizer of definitions that still have objects.
const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl<'a, 'b> Cascade<'a, 'b> {
    pub(crate) fn new(
        transaction: &'a mut Transaction<'b>,
        kinds: &'a Kinds,
        now: &'a str,
    ) -> Self {
        Self {
            transaction,
            kinds,
            now,
            work: Vec::new(),
        }
    }

    /// Writes an object, or removes it if it was waiting for its last finalizer.
    pub(crate) fn write(&mut self, id: &ObjectId, value: &mut Value) -> Arc<Stored> {
        if is_finished(value) {
            let removed = self.transaction.remove(id, value);
            self.work.push(Work::Removed(Arc::clone(&removed)));
            self.run();
            return removed;
        }
        let stored = self.transaction.put(id, value);
        if !stored.owners.is_empty() && !stored.deleting && self.is_abandoned(&stored) {
            let id = Arc::clone(&stored.id);
            self.work.push(Work::Delete(id, Propagation::Background));
        }
        self.run();
        stored
    }

    /// Deletes an object and what depends on it.
    pub(crate) fn delete(&mut self, id: &ObjectId, policy: Propagation) -> Option<Deleted> {
        let deleted = self.delete_one(id, policy);
        self.run();
        deleted
    }

    fn run(&mut self) {
        while let Some(work) = self.work.pop() {
            match work {
                Work::Delete(id, policy) => {
                    self.delete_one(&id, policy);
                }
                Work::Removed(stored) => self.after_removal(&stored),
                Work::Foreground(id) => self.finish_foreground(&id),
            }
        }
    }

    fn delete_one(&mut self, id: &ObjectId, policy: Propagation) -> Option<Deleted> {
        let stored = self.transaction.get(id)?;
        if stored.deleting {
            return Some(Deleted::Waiting(stored));
        }
        let mut value = stored.value();
        if policy == Propagation::Orphan {
            self.orphan_dependents(&stored);
        }
        let content = self.content(id);
        if policy == Propagation::Foreground && !has_finalizer(&value, FOREGROUND) {
            add_finalizer(&mut value, FOREGROUND);
        }
        let waits = finalizers(&value).next().is_some() || !content.is_empty();
        // A namespace is always seen terminating before it goes, as its content may be watched.
        if !waits && &*id.resource != "namespaces" {
            let removed = self.transaction.remove(id, &mut value);
            self.work.push(Work::Removed(Arc::clone(&removed)));
            return Some(Deleted::Gone(removed));
        }
        self.mark(id, &mut value, !content.is_empty());
        let marked = self.transaction.put(id, &mut value);
        self.work.push(Work::Foreground(Arc::clone(&marked.id)));
        if policy == Propagation::Foreground {
            self.delete_dependents(&stored);
        }
        if content.is_empty() && is_container(id) {
            self.finish_container(id);
        }
        self.work.extend(
            content
                .into_iter()
                .map(|id| Work::Delete(id, Propagation::Background)),
        );
        Some(Deleted::Waiting(marked))
    }

    /// Sets the deletion time and, on namespaces and definitions, what says that they end.
    fn mark(&self, id: &ObjectId, value: &mut Value, has_content: bool) {
        let metadata = &mut value["metadata"];
        metadata["deletionTimestamp"] = json!(self.now);
        if let Some(generation) = metadata["generation"].as_u64() {
            metadata["generation"] = json!(generation + 1);
        }
        if &*id.resource == "namespaces" {
            value["status"]["phase"] = json!("Terminating");
            return;
        }
        metadata["deletionGracePeriodSeconds"] = json!(0);
        if &*id.resource == CRD_RESOURCE && has_content {
            add_finalizer(value, CRD_CLEANUP);
            let condition = json!({
                "type": "Terminating", "status": "True", "lastTransitionTime": self.now,
                "reason": "InstanceDeletionInProgress",
                "message": "CustomResource deletion is in progress",
            });
            if let Some(conditions) = value["status"]["conditions"].as_array_mut() {
                conditions.push(condition);
            }
        }
    }

    /// What must go before this object can: a namespace's objects, a definition's objects.
    fn content(&self, id: &ObjectId) -> Vec<Arc<ObjectId>> {
        match &*id.resource {
            "namespaces" => self.transaction.in_namespace(&id.name),
            CRD_RESOURCE => self.transaction.of_resource(&id.name),
            _ => Vec::new(),
        }
    }

    fn after_removal(&mut self, removed: &Stored) {
        for id in self.transaction.dependents(&removed.uid) {
            let Some(dependent) = self.transaction.get(&id) else {
                continue;
            };
            if self.has_solid_owner(&dependent, &removed.uid) {
                self.drop_owner(&dependent, &removed.uid);
            } else {
                self.work.push(Work::Delete(id, Propagation::Background));
            }
        }
        for owner in &removed.owners {
            if let Some(id) = self.transaction.by_uid(&owner.uid) {
                self.work.push(Work::Foreground(Arc::clone(id)));
            }
        }
        if !removed.id.namespace.is_empty() {
            let id = ObjectId {
                resource: "namespaces".into(),
                namespace: "".into(),
                name: Arc::clone(&removed.id.namespace),
            };
            self.finish_container(&id);
        }
        let definition = ObjectId {
            resource: CRD_RESOURCE.into(),
            namespace: "".into(),
            name: Arc::clone(&removed.id.resource),
        };
        self.finish_container(&definition);
    }

    /// Removes a namespace or definition that waits for its content, once that is gone.
    fn finish_container(&mut self, id: &ObjectId) {
        let Some(stored) = self.transaction.get(id).filter(|stored| stored.deleting) else {
            return;
        };
        let left = match &*id.resource {
            "namespaces" => self.transaction.namespace_len(&id.name),
            _ => self.transaction.resource_len(&id.name),
        };
        if left > 0 {
            return;
        }
        let mut value = stored.value();
        remove_finalizer(&mut value, CRD_CLEANUP);
        let held = value
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("finalizers"));
        if let Some(held) = held.and_then(Value::as_array_mut) {
            held.retain(|finalizer| finalizer != "kubernetes");
        }
        if is_finished(&value) {
            let removed = self.transaction.remove(id, &mut value);
            self.work.push(Work::Removed(removed));
        } else if value != stored.value() {
            self.transaction.put(id, &mut value);
        }
    }

    /// Lets an object go that waited for dependents which are gone now.
    fn finish_foreground(&mut self, id: &ObjectId) {
        let Some(owner) = self.transaction.get(id) else {
            return;
        };
        if !owner.deleting || !owner.foreground {
            return;
        }
        let blocked = self
            .transaction
            .dependents(&owner.uid)
            .into_iter()
            .any(|id| {
                self.transaction.get(&id).is_some_and(|dependent| {
                    dependent
                        .owners
                        .iter()
                        .any(|held| held.uid == owner.uid && held.blocks)
                })
            });
        if blocked {
            return;
        }
        let mut value = owner.value();
        remove_finalizer(&mut value, FOREGROUND);
        if is_finished(&value) {
            let removed = self.transaction.remove(id, &mut value);
            self.work.push(Work::Removed(removed));
        } else {
            self.transaction.put(id, &mut value);
        }
    }

    fn delete_dependents(&mut self, owner: &Stored) {
        for id in self.transaction.dependents(&owner.uid) {
            let Some(dependent) = self.transaction.get(&id) else {
                continue;
            };
            if self.has_solid_owner(&dependent, &owner.uid) {
                self.drop_owner(&dependent, &owner.uid);
                continue;
            }
            let own = !self.transaction.dependents(&dependent.uid).is_empty();
            let policy = if own {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            self.work.push(Work::Delete(id, policy));
        }
    }

    fn orphan_dependents(&mut self, owner: &Stored) {
        for id in self.transaction.dependents(&owner.uid) {
            if let Some(dependent) = self.transaction.get(&id) {
                self.drop_owner(&dependent, &owner.uid);
            }
        }
    }

    fn drop_owner(&mut self, dependent: &Stored, uid: &ObjectUid) {
        let mut value = dependent.value();
        let uid = uid.to_string();
        let metadata = &mut value["metadata"];
        if let Some(owners) = metadata["ownerReferences"].as_array_mut() {
            owners.retain(|owner| owner["uid"] != uid);
            if owners.is_empty()
                && let Some(metadata) = metadata.as_object_mut()
            {
                metadata.remove("ownerReferences");
            }
        }
        self.transaction.put(&dependent.id, &mut value);
    }

    /// Whether an owner other than `except` keeps this object.
    fn has_solid_owner(&self, dependent: &Stored, except: &ObjectUid) -> bool {
        dependent.owners.iter().any(|owner| {
            owner.uid != *except
                && self
                    .owner(dependent, owner)
                    .is_some_and(|held| !(held.deleting && held.foreground))
        })
    }

    /// Whether an object has owners and none of them exists. An owner of a kind that is not served
    /// cannot be looked up, so it counts as existing.
    fn is_abandoned(&self, dependent: &Stored) -> bool {
        dependent.owners.iter().all(|owner| {
            self.kinds
                .by_kind(&owner.api_version, &owner.kind)
                .is_some()
                && self.owner(dependent, owner).is_none()
        })
    }

    /// The owner an object refers to: in its own namespace or cluster-wide, with the very UID.
    fn owner(&self, dependent: &Stored, owner: &Owner) -> Option<Arc<Stored>> {
        let id = self.transaction.by_uid(&owner.uid)?;
        let reachable = id.namespace.is_empty() || id.namespace == dependent.id.namespace;
        (reachable && *id.name == *owner.name)
            .then(|| self.transaction.get(id))
            .flatten()
    }
}

/// Whether an object is marked for deletion and nothing holds it any more.
fn is_finished(value: &Value) -> bool {
    let held = value["spec"]["finalizers"]
        .as_array()
        .is_some_and(|held| !held.is_empty());
    value["metadata"].get("deletionTimestamp").is_some()
        && finalizers(value).next().is_none()
        && !(value["kind"] == "Namespace" && held)
}

fn is_container(id: &ObjectId) -> bool {
    matches!(&*id.resource, "namespaces" | CRD_RESOURCE)
}

fn add_finalizer(value: &mut Value, finalizer: &str) {
    let held = &mut value["metadata"]["finalizers"];
    match held.as_array_mut() {
        Some(held) => held.push(json!(finalizer)),
        None => *held = json!([finalizer]),
    }
}

fn remove_finalizer(value: &mut Value, finalizer: &str) {
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return;
    };
    let Some(held) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) else {
        return;
    };
    held.retain(|held| held != finalizer);
    if held.is_empty() {
        metadata.remove("finalizers");
    }
}

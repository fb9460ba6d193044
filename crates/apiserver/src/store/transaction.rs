//! A group of writes that become durable and visible together.

use std::sync::{Arc, MutexGuard};

use serde_json::{Value, json};

use super::super::object::serialized;
use super::{Bell, Change, ObjectId, ObjectUid, Refused, Shared, State, Stored, Write};

/// Holds the store's lock; no other write comes between what it reads and what it writes. What was
/// written cannot be taken back, so every check comes first.
pub(crate) struct Transaction<'a> {
    shared: &'a Shared,
    state: MutexGuard<'a, State>,
    in_memory: bool,
    changed: Vec<Arc<Bell>>,
}

impl<'a> Transaction<'a> {
    /// Refused while the disk takes nothing.
    pub(super) fn new(shared: &'a Shared, in_memory: bool) -> Result<Self, Refused> {
        let state = shared.lock();
        if let Some(refused) = &state.refused {
            return Err(refused.clone());
        }
        Ok(Self {
            shared,
            state,
            in_memory,
            changed: Vec::new(),
        })
    }

    /// The object as the last write left it.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        self.state.latest(id)
    }

    /// Where the object of this UID lives.
    pub(crate) fn by_uid(&self, uid: &ObjectUid) -> Option<&Arc<ObjectId>> {
        self.state.uids.get(uid)
    }

    /// The objects that name this UID as owner.
    pub(crate) fn dependents(&self, uid: &ObjectUid) -> Vec<Arc<ObjectId>> {
        self.state
            .dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Number of objects in a namespace.
    pub(crate) fn namespace_len(&self, namespace: &str) -> usize {
        self.state
            .namespace_len
            .get(namespace)
            .copied()
            .unwrap_or(0)
    }

    /// Number of objects of a resource.
    pub(crate) fn resource_len(&self, resource: &str) -> usize {
        self.state.resource_len.get(resource).copied().unwrap_or(0)
    }

    /// Every object of a namespace, of every resource.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<ObjectId>> {
        let all = self.state.uids.values();
        let mut ids: Vec<_> = all
            .filter(|id| *id.namespace == *namespace)
            .cloned()
            .collect();
        ids.sort();
        ids
    }

    /// Every object of a resource.
    pub(crate) fn of_resource(&self, resource: &str) -> Vec<Arc<ObjectId>> {
        let all = self.state.uids.values();
        let mut ids: Vec<_> = all
            .filter(|id| *id.resource == *resource)
            .cloned()
            .collect();
        ids.sort();
        ids
    }

    /// Creates or replaces an object; `value` gets its new resourceVersion.
    pub(crate) fn put(&mut self, id: &ObjectId, value: &mut Value) -> Arc<Stored> {
        let before = self.get(id);
        let after = self.next_version(id, before.as_deref(), value);
        self.state.index(&after, before.as_deref());
        let change = if before.is_some() {
            Change::Updated
        } else {
            Change::Created
        };
        self.stage(Write {
            change,
            before,
            after: Arc::clone(&after),
        });
        after
    }

    /// Removes an object; `value` is its last state and gets the deletion's resourceVersion.
    pub(crate) fn remove(&mut self, id: &ObjectId, value: &mut Value) -> Arc<Stored> {
        let before = self.get(id);
        let after = self.next_version(id, before.as_deref(), value);
        if let Some(before) = &before {
            self.state.unindex(before);
        }
        self.stage(Write {
            change: Change::Deleted,
            before,
            after: Arc::clone(&after),
        });
        after
    }

    /// Everything up to now is history that nobody can ask for.
    pub(crate) fn forget_past(&mut self) {
        self.state.opened = self.state.assigned;
        let opened = self.state.opened;
        for collection in self.state.collections.values_mut() {
            collection.history.forget_until(opened);
        }
    }

    /// Lets go of the lock and hands the writes to the committer. Returns the version to wait for.
    pub(crate) fn finish(self) -> u64 {
        let version = self.state.assigned;
        let waiting = !self.state.pending.is_empty();
        drop(self.state);
        if waiting {
            self.shared.work.notify_one();
        }
        for changed in self.changed {
            changed.ring();
        }
        version
    }

    fn next_version(
        &mut self,
        id: &ObjectId,
        before: Option<&Stored>,
        value: &mut Value,
    ) -> Arc<Stored> {
        self.state.assigned += 1;
        let version = self.state.assigned;
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let id = match before {
            Some(before) => Arc::clone(&before.id),
            None => self.state.shared_id(id),
        };
        if self.in_memory {
            return Arc::new(Stored::new(id, version, value));
        }
        let state = &mut *self.state;
        let packed = state.bases.pack(&id.resource, serialized(value));
        let stored = Stored::with_text(id, version, value, packed, &mut state.texts);
        Arc::new(stored)
    }

    fn stage(&mut self, write: Write) {
        if self.in_memory {
            self.shared
                .publish(&mut self.state, write, &mut self.changed);
            return;
        }
        let staged = match write.change {
            Change::Deleted => None,
            Change::Created | Change::Updated => Some(Arc::clone(&write.after)),
        };
        let id = Arc::clone(&write.after.id);
        let entry = (write.after.version, staged);
        let collection = self.state.collection(&id.resource);
        collection.staged.insert(id, entry);
        self.state.pending.push(write);
    }
}

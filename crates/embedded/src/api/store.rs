//! The store: objects in memory, every write durable before anyone can see it.
//!
//! A write is *staged* under the lock (it gets its resourceVersion there), then committed together with
//! whatever else waits, then *published* to readers and watchers, then acknowledged. Checks of later
//! writes see staged objects; reads and watches see published ones only.

mod disk;
mod history;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::watch;

pub use disk::Open;
pub(crate) use history::{Change, Event, watch_line};
pub(crate) use transaction::Transaction;

use super::object::{ObjectId, Stored};
use history::History;

/// The resource whose objects say what else is served.
pub(crate) const CRD_RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// All objects of one API. Dropping it waits until staged writes are on disk.
pub(crate) struct Store {
    shared: Arc<Shared>,
    committer: Option<disk::Committer>,
}

/// The resourceVersion asked for is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) oldest: u64,
}

/// The disk refused a write; nothing can be acknowledged any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

struct Shared {
    state: Mutex<State>,
    /// Wakes the committer thread.
    work: Condvar,
    durable: watch::Sender<Durable>,
    /// Counts published changes of CustomResourceDefinitions.
    crd_changes: AtomicU64,
    /// Counts transactions written to disk.
    commits: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Durable {
    version: u64,
    broken: bool,
}

#[derive(Default)]
struct State {
    collections: BTreeMap<Arc<str>, Collection>,
    /// Where the object of a UID lives, staged ones included.
    uids: BTreeMap<Arc<str>, ObjectId>,
    /// Objects that name a UID as owner, staged ones included.
    dependents: BTreeMap<Arc<str>, BTreeSet<ObjectId>>,
    /// Number of objects per namespace and per resource, staged ones included.
    namespace_len: BTreeMap<Arc<str>, usize>,
    resource_len: BTreeMap<Arc<str>, usize>,
    /// The resourceVersion at start; what happened before is not known.
    opened: u64,
    /// The last resourceVersion handed out.
    assigned: u64,
    /// The last resourceVersion that readers may see.
    visible: u64,
    pending: Vec<Write>,
    stopping: bool,
}

type Slot = (Arc<str>, Arc<str>);

struct Collection {
    objects: BTreeMap<Slot, Arc<Stored>>,
    staged: BTreeMap<Slot, (u64, Option<Arc<Stored>>)>,
    history: History,
    changed: Arc<watch::Sender<()>>,
}

struct Write {
    change: Change,
    before: Option<Arc<Stored>>,
    after: Arc<Stored>,
}

impl Store {
    /// An empty store that lives as long as the process.
    pub(crate) fn in_memory() -> Self {
        Self {
            shared: Shared::new(State::default()),
            committer: None,
        }
    }

    /// Opens the store in `folder`, creating it if it is missing.
    pub(crate) fn on_disk(folder: &Path) -> Result<Self, Open> {
        let opened = disk::open(folder)?;
        let version = opened.version;
        let mut state = State {
            opened: version,
            assigned: version,
            visible: version,
            ..State::default()
        };
        for stored in opened.objects {
            state.index(&stored, None);
            let collection = state.collection(&stored.id.resource);
            collection.objects.insert(slot(&stored.id), stored);
        }
        let shared = Shared::new(state);
        let committer = disk::Committer::start(opened.database, opened.lock, Arc::clone(&shared))?;
        Ok(Self {
            shared,
            committer: Some(committer),
        })
    }

    /// The object as the next write must see it: staged, if a write is under way.
    pub(crate) fn latest(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        self.shared.lock().latest(id)
    }

    /// The object as readers see it.
    pub(crate) fn visible(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        let state = self.shared.lock();
        state
            .collections
            .get(&id.resource)?
            .objects
            .get(&slot(id))
            .cloned()
    }

    /// The resourceVersion readers see.
    pub(crate) fn version(&self) -> u64 {
        self.shared.lock().visible
    }

    /// All objects of a resource, of one namespace or of all, in order of namespace and name, and
    /// the resourceVersion of this snapshot.
    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> (Vec<Arc<Stored>>, u64) {
        let state = self.shared.lock();
        let listed = state
            .collections
            .get(resource)
            .map_or_else(Vec::new, |collection| {
                in_namespace(&collection.objects, namespace)
                    .cloned()
                    .collect()
            });
        (listed, state.visible)
    }

    /// The same as it was at `version`, by undoing what happened since.
    pub(crate) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Vec<Arc<Stored>>, Expired> {
        let mut state = self.shared.lock();
        let collection = state.collection(resource);
        let mut objects: BTreeMap<Slot, Arc<Stored>> = in_namespace(&collection.objects, namespace)
            .map(|stored| (slot(&stored.id), Arc::clone(stored)))
            .collect();
        for event in collection.history.after(version)?.rev() {
            let id = &event.after.id;
            if namespace.is_some_and(|namespace| *namespace != *id.namespace) {
                continue;
            }
            match &event.before {
                Some(before) => objects.insert(slot(id), Arc::clone(before)),
                None => objects.remove(&slot(id)),
            };
        }
        Ok(objects.into_values().collect())
    }

    /// Up to `len_max` events of a resource after `version`, and the version readers see if there are
    /// no more.
    pub(crate) fn events_after(
        &self,
        resource: &str,
        version: u64,
        len_max: usize,
    ) -> Result<(Vec<Arc<Event>>, Option<u64>), Expired> {
        let mut state = self.shared.lock();
        let visible = state.visible;
        let collection = state.collection(resource);
        let mut rest = collection.history.after(version)?;
        let events: Vec<_> = rest.by_ref().take(len_max).cloned().collect();
        Ok((events, rest.next().is_none().then_some(visible)))
    }

    /// Tells when a resource has new events.
    pub(crate) fn subscribe(&self, resource: &str) -> watch::Receiver<()> {
        self.shared.lock().collection(resource).changed.subscribe()
    }

    /// Begins a group of writes that become durable and visible together.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        Transaction::new(&self.shared, self.committer.is_none())
    }

    /// Waits until everything up to `version` is durable and visible.
    ///
    /// # Cancellation
    /// The write goes on if this is dropped; only its acknowledgement is lost.
    pub(crate) async fn settled(&self, version: u64) -> Result<(), Lost> {
        if self.committer.is_none() {
            return Ok(());
        }
        let mut durable = self.shared.durable.subscribe();
        let reached = durable
            .wait_for(|durable| durable.broken || durable.version >= version)
            .await;
        match reached {
            Ok(durable) if durable.version >= version => Ok(()),
            Ok(_) | Err(_) => Err(Lost),
        }
    }

    /// Changes whenever a CustomResourceDefinition was published.
    pub(crate) fn crd_changes(&self) -> u64 {
        self.shared.crd_changes.load(Ordering::Acquire)
    }

    /// Transactions written to disk so far.
    #[cfg(test)]
    pub(crate) fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn new(state: State) -> Arc<Self> {
        let durable = Durable {
            version: state.visible,
            broken: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            durable: watch::Sender::new(durable),
            crd_changes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the store")
    }

    /// Shows one durable write to readers; the caller wakes `changed` once it let go of the lock.
    fn publish(&self, state: &mut State, write: Write, changed: &mut Vec<Arc<watch::Sender<()>>>) {
        let version = write.after.version;
        state.visible = version;
        let id = write.after.id.clone();
        let collection = state.collection(&id.resource);
        let slot = slot(&id);
        match write.change {
            Change::Deleted => collection.objects.remove(&slot),
            Change::Created | Change::Updated => collection
                .objects
                .insert(slot.clone(), Arc::clone(&write.after)),
        };
        if collection
            .staged
            .get(&slot)
            .is_some_and(|(staged, _)| *staged == version)
        {
            collection.staged.remove(&slot);
        }
        collection
            .history
            .push(Event::new(write.change, write.before, write.after));
        if !changed
            .iter()
            .any(|sender| Arc::ptr_eq(sender, &collection.changed))
        {
            changed.push(Arc::clone(&collection.changed));
        }
        if &*id.resource == CRD_RESOURCE {
            self.crd_changes.fetch_add(1, Ordering::Release);
        }
    }
}

impl State {
    fn latest(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        let collection = self.collections.get(&id.resource)?;
        let slot = slot(id);
        match collection.staged.get(&slot) {
            Some((_, staged)) => staged.clone(),
            None => collection.objects.get(&slot).cloned(),
        }
    }

    fn collection(&mut self, resource: &str) -> &mut Collection {
        if !self.collections.contains_key(resource) {
            let collection = Collection {
                objects: BTreeMap::new(),
                staged: BTreeMap::new(),
                history: History::starting_at(self.opened),
                changed: Arc::new(watch::Sender::new(())),
            };
            self.collections.insert(resource.into(), collection);
        }
        self.collections
            .get_mut(resource)
            .expect("it was inserted above")
    }

    /// Enters an object into the indexes, `before` being the version it replaces.
    fn index(&mut self, stored: &Stored, before: Option<&Stored>) {
        if let Some(before) = before {
            self.unindex_owners(before);
        } else {
            let id = &stored.id;
            self.uids.insert(Arc::clone(&stored.uid), id.clone());
            *self
                .namespace_len
                .entry(Arc::clone(&id.namespace))
                .or_default() += 1;
            *self
                .resource_len
                .entry(Arc::clone(&id.resource))
                .or_default() += 1;
        }
        for owner in &stored.owners {
            self.dependents
                .entry(Arc::clone(&owner.uid))
                .or_default()
                .insert(stored.id.clone());
        }
    }

    fn unindex(&mut self, stored: &Stored) {
        self.unindex_owners(stored);
        self.uids.remove(&stored.uid);
        count_down(&mut self.namespace_len, &stored.id.namespace);
        count_down(&mut self.resource_len, &stored.id.resource);
    }

    fn unindex_owners(&mut self, stored: &Stored) {
        for owner in &stored.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&stored.id);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

fn count_down(counts: &mut BTreeMap<Arc<str>, usize>, key: &str) {
    if let Some(len) = counts.get_mut(key) {
        *len -= 1;
        if *len == 0 {
            counts.remove(key);
        }
    }
}

fn slot(id: &ObjectId) -> Slot {
    (Arc::clone(&id.namespace), Arc::clone(&id.name))
}

fn in_namespace<'a>(
    objects: &'a BTreeMap<Slot, Arc<Stored>>,
    namespace: Option<&str>,
) -> impl Iterator<Item = &'a Arc<Stored>> {
    let from = (namespace.unwrap_or_default().into(), "".into());
    let wanted: Option<Arc<str>> = namespace.map(Into::into);
    objects
        .range((Bound::Included(from), Bound::Unbounded))
        .take_while(move |((held, _), _)| wanted.as_ref().is_none_or(|wanted| wanted == held))
        .map(|(_, stored)| stored)
}

/// Reads one object back from its serialized form.
fn read_back(id: ObjectId, bytes: Bytes) -> Result<Stored, serde_json::Error> {
    let value = serde_json::from_slice(&bytes)?;
    let version = super::object::version_of(&value);
    Ok(Stored::with_bytes(id, version, &value, bytes))
}

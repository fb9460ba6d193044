//! The store: objects in memory, every write durable before anyone can see it.
//!
//! A write is *staged* under the lock (it gets its resourceVersion there), then committed together with
//! whatever else waits, then *published* to readers and watchers, then acknowledged. Checks of later
//! writes see staged objects; reads and watches see published ones only.

mod bell;
mod committer;
mod disk;
mod history;
mod listing;
mod packed;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::watch;

pub(crate) use bell::{Bell, Listener};
use committer::Committer;
pub use disk::OpenError;
use disk::{Disk, Folder};
pub(crate) use history::{Change, Event, watch_line};
pub(crate) use listing::{Page, Wanted};
pub(crate) use packed::Packed;
pub(crate) use transaction::Transaction;

use super::object::{Interner, ObjectId, ObjectUid, Stored};
use history::History;
use packed::Bases;

/// The resource whose objects say what else is served.
pub(crate) const CRD_RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// All objects of one API. Dropping it waits until staged writes are on disk.
pub(crate) struct Store {
    shared: Arc<Shared>,
    committer: Option<Committer>,
}

/// The resourceVersion asked for is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) oldest: u64,
}

/// The disk takes no writes; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// There is no room, as opposed to a fault.
    pub(crate) is_full: bool,
    /// What to tell the writer.
    pub(crate) message: Arc<str>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the committer thread.
    work: Condvar,
    durable: watch::Sender<Durable>,
    /// Counts published changes of CustomResourceDefinitions.
    crd_changes: AtomicU64,
    /// Counts transactions written to disk.
    commits: AtomicU64,
    /// Counts objects that lists looked at.
    visited: AtomicU64,
}

/// How far the disk is.
#[derive(Debug)]
struct Durable {
    version: u64,
    /// First and last version of the writes that were taken back last; they will never be.
    lost: (u64, u64),
    /// Of versions up to this one it is no longer known whether they were taken back.
    forgotten: u64,
    /// Why they were.
    why: Option<Refused>,
    /// Nothing more will come.
    ended: bool,
}

impl Durable {
    /// What became of a write, `None` while it is not known.
    fn outcome(&self, version: u64) -> Option<Result<(), Refused>> {
        // A dry run has written nothing.
        if version == 0 {
            return Some(Ok(()));
        }
        let (first, last) = self.lost;
        if version > last {
            let reached = self.version >= version;
            return (reached || self.ended).then(|| if reached { Ok(()) } else { Err(self.why()) });
        }
        let is_lost = version >= first || (self.forgotten > 0 && version <= self.forgotten);
        Some(if is_lost { Err(self.why()) } else { Ok(()) })
    }

    fn why(&self) -> Refused {
        self.why.clone().unwrap_or_else(|| Refused {
            is_full: false,
            message: "the store is closed, so nothing was changed".into(),
        })
    }
}

#[derive(Default)]
struct State {
    collections: BTreeMap<Arc<str>, Collection>,
    bases: Bases,
    /// Texts that many objects have.
    texts: Interner,
    /// Where the object of a UID lives, staged ones included.
    uids: BTreeMap<ObjectUid, Arc<ObjectId>>,
    /// Objects that name a UID as owner, staged ones included.
    dependents: BTreeMap<ObjectUid, BTreeSet<Arc<ObjectId>>>,
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
    /// Why the disk takes no writes, while it does not.
    refused: Option<Refused>,
    stopping: bool,
}

struct Collection {
    objects: BTreeMap<Arc<ObjectId>, Arc<Stored>>,
    staged: BTreeMap<Arc<ObjectId>, (u64, Option<Arc<Stored>>)>,
    history: History,
    changed: Arc<Bell>,
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
    pub(crate) fn on_disk(folder: &Path) -> Result<Self, OpenError> {
        Self::on(Box::new(Folder(folder.to_owned())))
    }

    fn on(disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let mut state = State::default();
        let opened = disk::open(&*disk, &mut state)?;
        state.open_at(opened.version);
        let shared = Shared::new(state);
        let committer = Committer::start(disk, opened.database, opened.lock, Arc::clone(&shared))?;
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
            .get(id)
            .cloned()
    }

    /// The resourceVersion readers see.
    pub(crate) fn version(&self) -> u64 {
        self.shared.lock().visible
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
    pub(crate) fn subscribe(&self, resource: &str) -> Listener {
        self.shared.lock().collection(resource).changed.listen()
    }

    /// Begins a group of writes that become durable and visible together.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, Refused> {
        Transaction::new(&self.shared, self.committer.is_none())
    }

    /// Why no writes are taken, while that is so.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.shared.lock().refused.clone()
    }

    /// Waits until everything up to `version` is durable and visible.
    ///
    /// # Errors
    /// The disk did not take it; it was taken back.
    ///
    /// # Cancellation
    /// The write goes on if this is dropped; only its acknowledgement is lost.
    pub(crate) async fn settled(&self, version: u64) -> Result<(), Refused> {
        if self.committer.is_none() {
            return Ok(());
        }
        let mut durable = self.shared.durable.subscribe();
        let mut outcome = None;
        let _sender_lives = durable
            .wait_for(|durable| {
                outcome = durable.outcome(version);
                outcome.is_some()
            })
            .await;
        outcome.unwrap_or_else(|| Err(self.shared.durable.borrow().why()))
    }

    /// Changes whenever a CustomResourceDefinition was published.
    pub(crate) fn crd_changes(&self) -> u64 {
        self.shared.crd_changes.load(Ordering::Acquire)
    }

    /// Bytes that an object takes.
    #[cfg(test)]
    pub(crate) fn packed_len(&self, value: &serde_json::Value) -> usize {
        let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
        let state = self.shared.lock();
        let id = state.uids.get(&uid.into()).expect("it is there");
        state.latest(id).map_or(0, |stored| stored.packed.len())
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
            lost: (0, 0),
            forgotten: 0,
            why: None,
            ended: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            durable: watch::Sender::new(durable),
            crd_changes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            visited: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the store")
    }

    /// Shows one durable write to readers; the caller wakes `changed` once it let go of the lock.
    fn publish(&self, state: &mut State, write: Write, changed: &mut Vec<Arc<Bell>>) {
        let version = write.after.version;
        state.visible = version;
        let id = Arc::clone(&write.after.id);
        let collection = state.collection(&id.resource);
        match write.change {
            Change::Deleted => collection.objects.remove(&id),
            Change::Created | Change::Updated => collection
                .objects
                .insert(Arc::clone(&id), Arc::clone(&write.after)),
        };
        if collection
            .staged
            .get(&id)
            .is_some_and(|(staged, _)| *staged == version)
        {
            collection.staged.remove(&id);
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
    /// What happened up to `version` is not known.
    fn open_at(&mut self, version: u64) {
        self.opened = version;
        self.assigned = version;
        self.visible = version;
        // A map that was filled in order has its nodes half empty.
        self.uids = std::mem::take(&mut self.uids).into_iter().collect();
        for collection in self.collections.values_mut() {
            collection.history.forget_until(version);
            let objects = std::mem::take(&mut collection.objects);
            collection.objects = objects.into_iter().collect();
        }
    }

    /// Takes an object as it stands on disk; `None` if it is damaged.
    fn load(&mut self, id: &ObjectId, bytes: &[u8]) -> Option<()> {
        let packed = self.bases.read(bytes)?;
        let text = packed.text();
        let value = serde_json::from_slice(&text).ok()?;
        // One that an older Bindery wrote takes less memory at once, and less disk when it changes.
        let packed = if packed.is_plain() {
            self.bases.pack(&id.resource, text.into())
        } else {
            packed
        };
        let version = super::object::version_of(&value);
        let id = self.shared_id(id);
        let stored = Stored::with_text(id, version, &value, packed, &mut self.texts);
        self.index(&stored, None);
        let collection = self.collection(&stored.id.resource);
        let id = Arc::clone(&stored.id);
        collection.objects.insert(id, Arc::new(stored));
        Some(())
    }

    /// The same identity; words that many objects share are kept once.
    fn shared_id(&self, id: &ObjectId) -> Arc<ObjectId> {
        let shared = |counts: &BTreeMap<Arc<str>, usize>, word: &Arc<str>| {
            let held = counts.get_key_value(word);
            Arc::clone(held.map_or(word, |(held, _)| held))
        };
        Arc::new(ObjectId {
            resource: shared(&self.resource_len, &id.resource),
            namespace: shared(&self.namespace_len, &id.namespace),
            name: Arc::clone(&id.name),
        })
    }

    /// Undoes a staged write, the last one first.
    fn take_back(&mut self, write: &Write) {
        match (&write.before, write.change) {
            (Some(before), Change::Deleted) => self.index(before, None),
            (Some(before), Change::Created | Change::Updated) => {
                self.index(before, Some(&write.after));
            }
            (None, Change::Deleted) => {}
            (None, Change::Created | Change::Updated) => self.unindex(&write.after),
        }
        let id = &write.after.id;
        self.collection(&id.resource).staged.remove(id);
    }

    fn latest(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        let collection = self.collections.get(&id.resource)?;
        match collection.staged.get(id) {
            Some((_, staged)) => staged.clone(),
            None => collection.objects.get(id).cloned(),
        }
    }

    fn collection(&mut self, resource: &str) -> &mut Collection {
        if !self.collections.contains_key(resource) {
            let collection = Collection {
                objects: BTreeMap::new(),
                staged: BTreeMap::new(),
                history: History::starting_at(self.opened),
                changed: Arc::default(),
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
            self.uids.insert(stored.uid.clone(), Arc::clone(id));
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
                .entry(owner.uid.clone())
                .or_default()
                .insert(Arc::clone(&stored.id));
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

#[cfg(test)]
mod tests;

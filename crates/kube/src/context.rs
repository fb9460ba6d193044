//! What every controller shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bindery_api::{Kinds, RawObject, Role, Scope, role};
use bindery_core::{Adoption, Group, Kind, Moment, Uid};
use bindery_engine::queue::BoundedQueue;
use bindery_engine::work::WorkQueue;
use bindery_engine::{Engine, Servers};
use bindery_sources::{Groups, Id, Meta, Object};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::{Cluster, Watched};
use crate::events::{self, EVENTS_WAITING_MAX, QueuedEvent};
use crate::publishing;
use crate::reconcile::RECONCILES;
use crate::replica::Replica;
use crate::state::State;
use crate::status::ObservedStatus;
use crate::zone;

/// Where the time of day comes from.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Moment;
}

/// Whether zones are ours to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// Bindery manages the server: zones are created and deleted on it.
    Managed,
    /// The server is somebody else's: zones must exist on it.
    External,
}

/// A group of servers as far as the controllers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Whether zones are ours to create.
    pub management: Management,
    /// Where the first primary listens: `192.0.2.1:53`; `None` while the group has none.
    pub primary: Option<Arc<str>>,
    /// Whose the lines are that stand there as an object asks for them, where the object does not say.
    pub adoption: Adoption,
}

/// How the controllers are to behave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The namespaces that are looked at; none stands for all.
    pub namespaces: BTreeSet<Arc<str>>,
    /// The objects were lost, but not what they have in DNS on the servers that Bindery manages: there
    /// nobody else writes, and what stands as an object asks for it is the object's.
    pub is_after_loss: bool,
}

impl Settings {
    /// Everything that is listed and watched.
    pub(crate) fn watched(&self, kinds: &Kinds) -> BTreeSet<Watched> {
        let namespaces: Vec<Option<Arc<str>>> = if self.namespaces.is_empty() {
            vec![None]
        } else {
            self.namespaces.iter().cloned().map(Some).collect()
        };
        let watched = kinds.iter().flat_map(|row| {
            let namespaces = match row.scope {
                Scope::Namespaced => namespaces.as_slice(),
                Scope::Cluster => &[None],
            };
            namespaces.iter().map(|namespace| Watched {
                kind: row.kind,
                namespace: namespace.clone(),
            })
        });
        watched.collect()
    }
}

/// What every controller shares.
pub(crate) struct Context {
    pub(crate) cluster: Cluster,
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    /// This process among others.
    pub(crate) replica: Replica,
    /// Everything that is listed and watched.
    pub(crate) watched: BTreeSet<Watched>,
    pub(crate) zones: WorkQueue<Id>,
    pub(crate) records: WorkQueue<Id>,
    pub(crate) endpoints: WorkQueue<Id>,
    pub(crate) events: BoundedQueue<QueuedEvent>,
    pub(crate) synced: watch::Sender<bool>,
    state: Mutex<State>,
    /// What was not read in full yet.
    unread: Mutex<BTreeSet<Watched>>,
    /// When something was last heard of what is watched.
    heard: Mutex<BTreeMap<Watched, Instant>>,
    /// What is to be watched and cannot be.
    failing: Mutex<BTreeSet<Watched>>,
    open: AtomicBool,
}

impl Context {
    pub(crate) fn new(
        (cluster, engine): (Cluster, Engine),
        settings: Settings,
        clock: Arc<dyn Clock>,
        kinds: &Kinds,
        replica: Replica,
    ) -> Self {
        let state = State::new(groups(&engine));
        let watched = settings.watched(kinds);
        Self {
            unread: Mutex::new(watched.clone()),
            watched,
            cluster,
            engine,
            settings,
            clock,
            replica,
            zones: WorkQueue::new(RECONCILES),
            records: WorkQueue::new(RECONCILES),
            endpoints: WorkQueue::new(RECONCILES),
            events: BoundedQueue::new(EVENTS_WAITING_MAX),
            synced: watch::Sender::new(false),
            state: Mutex::new(state),
            heard: Mutex::default(),
            failing: Mutex::default(),
            open: AtomicBool::new(false),
        }
    }

    /// The shared state. Held for moments only, and never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is our bug and ends the process; until then the state is read on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues objects.
    pub(crate) fn push_all(&self, ids: impl IntoIterator<Item = Id>) {
        for id in ids {
            self.push(id);
        }
    }

    /// What is known of a group of servers: zones are ours to create where Bindery manages the servers.
    pub(crate) fn group_config(&self, group: &Group) -> Option<GroupConfig> {
        let servers = self.engine.servers(group)?;
        let primary = servers.first_primary();
        let has_host = primary.is_some_and(|primary| primary.host.is_some());
        // Servers that are declared may come later, and are managed when they do.
        let management = if has_host || group.is_declared() {
            Management::Managed
        } else {
            Management::External
        };
        let is_known = self.settings.is_after_loss && management == Management::Managed;
        Some(GroupConfig {
            management,
            primary: primary.map(|primary| Arc::clone(&primary.info.address)),
            adoption: if is_known {
                Adoption::Known
            } else {
                Adoption::Refuse
            },
        })
    }

    /// Takes in that the servers of some group changed: what stands on them is looked at again.
    pub(crate) fn on_servers(&self) {
        let groups = groups(&self.engine);
        let mut state = self.state();
        let mut affected = state.catalog.set_groups(groups);
        let is_zone = |id: &&Id| role(id.kind) == Role::Zone;
        affected.extend(state.catalog.ids().filter(is_zone).cloned());
        drop(state);
        self.push_if_open(affected);
    }

    /// Queues an object.
    pub(crate) fn push(&self, id: Id) {
        self.queue(role(id.kind)).push(id);
    }

    /// The queue of the controller for a role.
    pub(crate) fn queue(&self, role: Role) -> &WorkQueue<Id> {
        match role {
            Role::Zone => &self.zones,
            Role::Record => &self.records,
            Role::Endpoints => &self.endpoints,
        }
    }

    /// Takes in an object as a list or a watch shows it.
    pub(crate) fn on_event(&self, kind: Kind, object: &RawObject) {
        if let Some(meta) = self.read_meta(kind, object) {
            self.ingest(meta, object);
        }
    }

    /// Takes in an object as the answer to a request shows it. An answer that comes late must not
    /// bring an object back that the watch has seen go.
    pub(crate) fn on_response(&self, kind: Kind, object: &RawObject) {
        if let Some(meta) = self.read_meta(kind, object)
            && self.state().catalog.meta(&meta.object).is_some()
        {
            self.state().catalog.confirm(&meta);
            self.ingest(meta, object);
        }
    }

    /// What is kept of an object's metadata. One that cannot be told from others is not passed over in
    /// silence.
    fn read_meta(&self, kind: Kind, object: &RawObject) -> Option<Meta> {
        let meta = Meta::read(self.cluster.row(kind), &object.metadata);
        if meta.is_none() {
            let (kind, name) = (kind.as_str(), object.metadata.name.as_deref());
            tracing::warn!(
                kind,
                name,
                "an object has no name, namespace, UID or version and is left out"
            );
        }
        meta
    }

    fn ingest(&self, meta: Meta, object: &RawObject) {
        // What we wrote ourselves comes back by the watch.
        if self.state().is_known(&meta) {
            return;
        }
        // Reading is most of the work, so it is done without the lock.
        let status = object.field("status");
        let is_zone = role(meta.object.kind) == Role::Zone;
        if is_zone {
            self.state().tell_serial(&meta.object, &status);
        }
        let note = is_zone.then(|| zone::Note::read(&status)).flatten();
        let (meta, status) = (meta.with_status(&status), ObservedStatus::read(&status));
        let row = self.cluster.row(meta.object.kind);
        let object = Object::new(row, meta, object);
        // What was there before the start may have been served for years.
        let since = self.open.load(Ordering::SeqCst).then(Instant::now);
        let id = Id::clone(&object.meta.object);
        let (affected, is_news) = {
            let mut state = self.state();
            let is_tampered =
                |state: &State| state.catalog.meta(&id).is_some_and(Meta::is_tampered);
            let before = is_tampered(&state);
            let affected = state.ingest(object, status, since);
            if is_zone {
                if self.replica.stands_by() {
                    // Another process writes it, so what it says last counts.
                    state.zones.remove(&id);
                }
                zone::recall(&mut state, &id, note);
                zone::hold(&state, self, &id);
            }
            let is_news = !before && is_tampered(&state);
            (affected, is_news && !self.replica.stands_by())
        };
        if is_news {
            events::emit_tampered(&id, self);
        }
        self.push_if_open(affected);
    }

    /// Takes in that an object was seen to be deleted.
    pub(crate) fn on_delete(&self, kind: Kind, object: &RawObject) {
        let Some(meta) = self.read_meta(kind, object) else {
            return;
        };
        let mut state = self.state();
        if self.replica.stands_by() {
            state.pass_over(&meta.object);
            return;
        }
        let affected = state.catalog.remove(&meta.object);
        zone::hold(&state, self, &meta.object);
        drop(state);
        self.push_if_open(affected);
    }

    /// Takes in that everything of what is watched but these is gone.
    pub(crate) fn on_relist(&self, watched: &Watched, uids: &BTreeSet<Uid>) {
        let mut state = self.state();
        let affected = state.on_relist(watched, uids);
        if self.replica.stands_by() {
            for id in affected.iter().filter(|id| watched.has(id)) {
                if !uids.contains(&id.uid) {
                    state.pass_over(id);
                }
            }
            return;
        }
        for id in &affected {
            zone::hold(&state, self, id);
        }
        drop(state);
        self.push_if_open(affected);
    }

    /// Takes in that everything of what is watched was read. After the last of it, work begins.
    pub(crate) fn mark_synced(&self, watched: &Watched) {
        self.unread().remove(watched);
        self.begin();
    }

    /// Whether this process has read everything and others work.
    pub(crate) fn is_warm_standby(&self) -> bool {
        self.replica.stands_by() && self.unread().is_empty()
    }

    /// Begins to work, unless something was not read yet, this process was not elected, or it works already:
    /// the engine is given all objects and all zones that it knew before, and then begins.
    pub(crate) fn begin(&self) {
        let unread = self.unread();
        if !unread.is_empty() || self.replica.stands_by() || self.open.swap(true, Ordering::SeqCst)
        {
            return;
        }
        self.state().compact();
        let ids: Vec<Id> = self.state().catalog.ids().cloned().collect();
        for id in &ids {
            match role(id.kind) {
                Role::Zone => {}
                Role::Record | Role::Endpoints => publishing::declare_known(id, self),
            }
        }
        self.push_all(ids);
        zone::declare_recorded(self);
        self.engine.open();
        self.synced.send_replace(true);
    }

    fn unread(&self) -> MutexGuard<'_, BTreeSet<Watched>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the API said something about what is watched, if only that nothing changed.
    pub(crate) fn touch(&self, watched: &Watched) {
        let now = Instant::now();
        let mut heard = self.heard();
        match heard.get_mut(watched) {
            Some(at) => *at = now,
            None => {
                heard.insert(watched.clone(), now);
            }
        }
    }

    /// When something was last heard of what is watched.
    pub(crate) fn heard(&self) -> MutexGuard<'_, BTreeMap<Watched, Instant>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be watched and cannot be.
    pub(crate) fn failing(&self) -> MutexGuard<'_, BTreeSet<Watched>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before everything was read, nothing is reconciled.
    fn push_if_open(&self, ids: BTreeSet<Id>) {
        if self.open.load(Ordering::SeqCst) {
            self.push_all(ids);
        }
    }
}

/// The groups of servers that there are.
fn groups(engine: &Engine) -> Groups {
    let all = engine.groups();
    let here = all.get(&Group::UNNAMED);
    let is_nothing_here = here.is_some_and(Servers::is_empty);
    let groups: Groups = all.into_keys().collect();
    if is_nothing_here {
        groups.with_nothing_here()
    } else {
        groups
    }
}

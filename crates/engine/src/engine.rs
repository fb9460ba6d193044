//! The handle between declarations, groups of name servers and listeners.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bindery_core::{
    Declaration, Fault, FaultKind, Group, GroupDeclaration, Id, Name, ObjectRef, Placements,
    ZoneKey,
    fleet::{Role, ServerInfo},
    zones::{
        ClaimReceipt, ClaimStatus, Going, Limits, Receipt, Withdrawal, ZoneDeclaration, ZoneReceipt,
    },
};
use futures::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    behind::Behind,
    metrics::Metrics,
    ports::{NameServer, ZoneHost},
    queue::KeyedQueue,
    runner::Runner,
};

/// One name server.
#[derive(Clone)]
pub struct ServerHandle {
    /// Its address and what it does.
    pub info: ServerInfo,
    /// Where updates go and answers come from.
    pub server: Arc<dyn NameServer>,
    /// Who creates zones, where Bindery manages the server.
    pub host: Option<Arc<dyn ZoneHost>>,
}

/// The servers of a group, the same for every zone in it.
#[derive(Clone)]
pub struct Servers {
    /// The primary that plans are made against and that changes go to first.
    pub leader: ServerHandle,
    /// All others.
    pub followers: Arc<[ServerHandle]>,
}

impl Servers {
    /// A single primary.
    #[must_use]
    pub fn one(
        address: &str,
        server: Arc<dyn NameServer>,
        host: Option<Arc<dyn ZoneHost>>,
    ) -> Self {
        let info = ServerInfo {
            address: address.into(),
            role: Role::Primary,
        };
        Self {
            leader: ServerHandle { info, server, host },
            followers: Arc::new([]),
        }
    }

    /// As the only group, which every zone is on.
    #[must_use]
    pub fn alone(self) -> BTreeMap<Group, Self> {
        BTreeMap::from([(Group::UNNAMED, self)])
    }
}

/// What a listener is told: level, not edge. A newer event of the same object replaces one that was
/// not taken yet.
pub type Receipts = KeyedQueue<Id, Receipt>;

/// What a listener of zones is told.
pub type ZoneReceipts = KeyedQueue<ZoneKey, ZoneReceipt>;

/// The handle by which objects are declared and listeners registered. Cloning is cheap.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) groups: BTreeMap<Group, GroupHandle>,
    placements: Mutex<Placements>,
    listeners: Mutex<Vec<(Concern, Receipts)>>,
    pub(crate) zone_listeners: Mutex<Vec<ZoneReceipts>>,
    pub(crate) metrics: Metrics,
    /// Zones of which a plan is held.
    pub(crate) held: Mutex<BTreeSet<ZoneKey>>,
    pub(crate) opened: CancellationToken,
}

/// Where one group of servers is spoken to.
pub(crate) struct GroupHandle {
    pub(crate) inbox: KeyedQueue<Subject, Input>,
    pub(crate) behind: Behind,
}

impl GroupHandle {
    fn new(servers: &Servers) -> Self {
        let followers = servers.followers.iter();
        Self {
            inbox: KeyedQueue::default(),
            behind: Behind::new(followers.map(|one| one.info.clone()).collect()),
        }
    }
}

type Concern = Box<dyn Fn(&ObjectRef) -> bool + Send + Sync>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Zone(Name),
    Object(Id),
}

pub(crate) enum Input {
    DeclareZone(ZoneDeclaration),
    UndeclareZone,
    HoldZone,
    AwaitZone,
    Declare(Declaration),
    Forget,
}

impl Engine {
    /// An engine of these groups of servers and the task that runs it, which begins with [`Self::open`] and
    /// ends when `stop` is cancelled and no update is on its way.
    pub fn start(
        groups: BTreeMap<Group, Servers>,
        limits: Limits,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let handles = groups
            .iter()
            .map(|(group, servers)| (group.clone(), GroupHandle::new(servers)));
        let engine = Self(Arc::new(Shared {
            groups: handles.collect(),
            placements: Mutex::default(),
            listeners: Mutex::default(),
            zone_listeners: Mutex::default(),
            metrics: Metrics::default(),
            held: Mutex::default(),
            opened: CancellationToken::new(),
        }));
        let started = Instant::now();
        let runner = |(group, servers)| {
            let runner = Runner::new(Arc::clone(&engine.0), (group, servers), limits, started);
            runner.run(stop.clone())
        };
        let runners: Vec<_> = groups.into_iter().map(runner).collect();
        (engine, async {
            join_all(runners).await;
        })
    }

    /// Lets the engine begin with everything that was declared until now, taken in at once.
    ///
    /// What an object once published is looked for in the zones that are known, and what it asks for
    /// is merged with what others ask for; so nothing may begin before the first picture is whole.
    pub fn open(&self) {
        self.0.opened.cancel();
    }

    /// Declares a zone on a group of servers, or declares it anew. On servers that are not there,
    /// nothing comes of it.
    pub fn declare_zone(&self, group: &Group, declaration: ZoneDeclaration) {
        if let Some(handle) = self.0.groups.get(group) {
            let subject = Subject::Zone(declaration.zone.clone());
            handle.inbox.push(subject, Input::DeclareZone(declaration));
        }
    }

    /// Takes a zone back; its listeners hear [`bindery_core::zones::ZoneState::Gone`] in the end.
    pub fn undeclare_zone(&self, zone: ZoneKey) {
        if let Some(handle) = self.0.groups.get(&zone.group) {
            handle
                .inbox
                .push(Subject::Zone(zone.name), Input::UndeclareZone);
        }
    }

    /// An object has a zone and cannot declare it yet: until it is declared or undeclared, nothing in it is
    /// taken for gone.
    pub fn await_zone(&self, zone: ZoneKey) {
        if let Some(handle) = self.0.groups.get(&zone.group) {
            handle
                .inbox
                .push(Subject::Zone(zone.name), Input::AwaitZone);
        }
    }

    /// Something happened to the object of a zone: until it is declared again, nothing goes from it.
    pub fn hold_zone(&self, zone: ZoneKey) {
        if let Some(handle) = self.0.groups.get(&zone.group) {
            // A declaration that waits is not lost.
            handle
                .inbox
                .merge(Subject::Zone(zone.name), |waiting| match waiting {
                    Some(Input::DeclareZone(mut declaration)) => {
                        declaration.going = Some(Going::Unsaid);
                        Input::DeclareZone(declaration)
                    }
                    Some(Input::UndeclareZone) => Input::UndeclareZone,
                    Some(
                        Input::HoldZone | Input::AwaitZone | Input::Declare(_) | Input::Forget,
                    )
                    | None => Input::HoldZone,
                });
        }
    }

    /// Replaces everything that one object asks for, or still has, in any group of servers.
    pub fn declare(&self, parts: Vec<GroupDeclaration>) {
        // Under the lock, so that declarations of one object reach each group in their order.
        let mut placements = self.0.placements();
        let left = placements.declare(&parts);
        if let Some((_, first)) = parts.first() {
            self.0.forget(&first.owner, &left);
        }
        for (group, declaration) in parts {
            let subject = Subject::Object(Id::clone(&declaration.owner));
            match self.0.groups.get(&group) {
                Some(handle) => handle.inbox.push(subject, Input::Declare(declaration)),
                None => self
                    .0
                    .tell(placements.receive(&group, unserved(&group, declaration))),
            }
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, owner: &Id) {
        let groups = self.0.placements().forget(owner);
        self.0.forget(owner, &groups);
    }

    /// Registers a listener for the objects that concern it. It reads at its own pace; if it hangs,
    /// nobody else notices.
    pub fn listen(&self, concern: impl Fn(&ObjectRef) -> bool + Send + Sync + 'static) -> Receipts {
        let events = Receipts::default();
        let mut listeners = lock(&self.0.listeners);
        listeners.push((Box::new(concern), events.clone()));
        events
    }

    /// Registers a listener for zones.
    #[must_use]
    pub fn listen_zones(&self) -> ZoneReceipts {
        let events = ZoneReceipts::default();
        lock(&self.0.zone_listeners).push(events.clone());
        events
    }

    /// Counters of the engine.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// How many zones and objects wait to be taken in.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0
            .groups
            .values()
            .map(|handle| handle.inbox.len())
            .sum()
    }

    /// In how many zones a plan is held.
    #[must_use]
    pub fn held_plans(&self) -> usize {
        lock(&self.0.held).len()
    }

    /// Every server but the leaders, and in how many zones it does not have the leader's serial.
    #[must_use]
    pub fn behind(&self) -> Vec<(ServerInfo, usize)> {
        let handles = self.0.groups.values();
        handles.flat_map(|handle| handle.behind.counts()).collect()
    }
}

impl Shared {
    pub(crate) fn placements(&self) -> MutexGuard<'_, Placements> {
        lock(&self.placements)
    }

    fn forget(&self, owner: &Id, groups: &[Group]) {
        for handle in groups.iter().filter_map(|group| self.groups.get(group)) {
            let subject = Subject::Object(Id::clone(owner));
            handle.inbox.push(subject, Input::Forget);
        }
    }

    /// Tells everybody whom it concerns.
    pub(crate) fn tell(&self, events: impl IntoIterator<Item = Receipt>) {
        let listeners = lock(&self.listeners);
        for event in events {
            for (concern, queue) in listeners.iter() {
                if concern(&event.owner) {
                    queue.push(Id::clone(&event.owner), event.clone());
                }
            }
        }
    }
}

/// What becomes of an object in a group of servers that is not there: what it has on them cannot be taken
/// away.
fn unserved(group: &Group, declaration: Declaration) -> Receipt {
    let outcomes = declaration.claims.into_iter().map(|claim| ClaimReceipt {
        group: group.clone(),
        ttl: claim.ttl,
        claim,
        status: ClaimStatus::NoZone,
        mended: None,
    });
    let message = format!(
        "it has records on {group}, which Bindery was not started with: start it with them"
    );
    Receipt {
        outcomes: outcomes.collect(),
        withdrawal: if declaration.published.is_empty() {
            Withdrawal::Done
        } else {
            Withdrawal::Failing(Fault::new(FaultKind::Unreachable, message))
        },
        owner: declaration.owner,
        generation: declaration.generation,
        revision: declaration.revision,
    }
}

/// No code that can panic runs under these locks; a poisoned one holds a sound state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

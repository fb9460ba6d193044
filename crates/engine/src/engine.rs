//! The handle between declarations, groups of name servers and listeners.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bindery_core::{
    Declaration, Fault, FaultKind, Group, GroupDeclaration, Id, Name, ObjectRef, Placements,
    ServerInfo, ZoneKey,
    zones::{
        ClaimReceipt, ClaimStatus, Going, Limits, Receipt, Withdrawal, ZoneDeclaration, ZoneReceipt,
    },
};
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    behind::{Behind, ServerState},
    fence::Fence,
    metrics::Metrics,
    queue::KeyedQueue,
    servers::Servers,
    zone_driver::run_group,
};

/// What a listener is told: level, not edge. A newer event of the same object replaces one that was
/// not taken yet.
pub type Receipts = KeyedQueue<Id, Receipt>;

/// What a listener of zones is told.
pub type ZoneReceipts = KeyedQueue<ZoneKey, ZoneReceipt>;

/// The handle by which objects are declared and listeners registered. Cloning is cheap.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

pub(crate) struct Shared {
    groups: Mutex<BTreeMap<Group, Arc<GroupHandle>>>,
    /// Groups that nobody works for yet.
    new_groups: KeyedQueue<Group, ()>,
    placements: Mutex<Placements>,
    listeners: Mutex<Vec<(Concern, Receipts)>>,
    pub(crate) zone_listeners: Mutex<Vec<ZoneReceipts>>,
    pub(crate) metrics: Metrics,
    /// Zones of which a plan is held.
    pub(crate) held: Mutex<BTreeSet<ZoneKey>>,
    pub(crate) opened: CancellationToken,
    /// How often the servers of some group changed.
    changes: watch::Sender<u64>,
    /// What every write to a server passes.
    fence: Fence,
}

/// Where one group of servers is spoken to. What is declared to a group that is not known yet waits here.
pub(crate) struct GroupHandle {
    pub(crate) inbox: KeyedQueue<InputKey, Input>,
    /// Its servers; `None` while nobody said that there is such a group.
    pub(crate) servers: watch::Sender<Option<Servers>>,
    pub(crate) behind: Behind,
}

impl GroupHandle {
    fn new(servers: Option<Servers>) -> Self {
        let behind = Behind::default();
        behind.set_servers(servers.as_ref().map(Servers::infos).unwrap_or_default());
        Self {
            inbox: KeyedQueue::default(),
            behind,
            servers: watch::Sender::new(servers),
        }
    }

    fn tell(&self, input: Input) {
        self.inbox.push(input.key(), input);
    }
}

type Concern = Box<dyn Fn(&ObjectRef) -> bool + Send + Sync>;

/// What an input is about; a newer one about the same replaces one that waits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InputKey {
    Zone(Name),
    Object(Id),
}

/// Something that a group of servers is told. At a start there is one for every object, so it is small.
pub(crate) enum Input {
    DeclareZone(Box<ZoneDeclaration>),
    UndeclareZone(Name),
    HoldZone(Name),
    AwaitZone(Name),
    Declare(Box<Declaration>),
    Forget(Id),
}

impl Input {
    fn key(&self) -> InputKey {
        match self {
            Self::DeclareZone(declaration) => InputKey::Zone(declaration.zone.clone()),
            Self::UndeclareZone(zone) | Self::HoldZone(zone) | Self::AwaitZone(zone) => {
                InputKey::Zone(zone.clone())
            }
            Self::Declare(declaration) => InputKey::Object(Id::clone(&declaration.owner)),
            Self::Forget(owner) => InputKey::Object(Id::clone(owner)),
        }
    }
}

impl Engine {
    /// An engine of these groups of servers and the task that runs it, which begins with [`Self::open`] and
    /// ends when `stop` is cancelled and no update is on its way.
    pub fn start(
        groups: BTreeMap<Group, Servers>,
        limits: Limits,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        Self::start_fenced(groups, limits, Fence::none(), stop)
    }

    /// The same, where nothing is written to a server while the fence is closed.
    pub fn start_fenced(
        groups: BTreeMap<Group, Servers>,
        limits: Limits,
        fence: Fence,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let handle = |(group, servers)| {
            let servers = fence.before(servers);
            (group, Arc::new(GroupHandle::new(Some(servers))))
        };
        let new_groups = KeyedQueue::default();
        for group in groups.keys() {
            new_groups.push(group.clone(), ());
        }
        let groups = groups.into_iter().map(handle).collect();
        let engine = Self(Arc::new(Shared {
            groups: Mutex::new(groups),
            new_groups,
            placements: Mutex::default(),
            listeners: Mutex::default(),
            zone_listeners: Mutex::default(),
            metrics: Metrics::default(),
            held: Mutex::default(),
            opened: CancellationToken::new(),
            changes: watch::Sender::new(0),
            fence,
        }));
        let running = run(Arc::clone(&engine.0), limits, stop.clone());
        (engine, running)
    }

    /// Replaces the servers of a group, while it is worked on. Each is known by its id: one that stays
    /// where it is goes on as before, with another key too; one that moved is taken for a new one.
    ///
    /// A group may have no servers for a while: what is declared to it waits, and is told so.
    pub fn set_servers(&self, group: &Group, servers: Servers) {
        let handle = self.0.group(group);
        // Nobody else sends on this channel, so the runner sees the last of them.
        let servers = self.0.fence.before(servers);
        handle.servers.send_replace(Some(servers));
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Tells when the servers of some group changed.
    #[must_use]
    pub fn server_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The groups that there are, with their servers.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<Group, Servers> {
        let groups = lock(&self.0.groups);
        let known = groups.iter().filter_map(|(group, handle)| {
            let servers = handle.servers.borrow().clone()?;
            Some((group.clone(), servers))
        });
        known.collect()
    }

    /// The servers of a group, if there is such a group; it may have none.
    #[must_use]
    pub fn servers(&self, group: &Group) -> Option<Servers> {
        let groups = lock(&self.0.groups);
        groups.get(group)?.servers.borrow().clone()
    }

    /// How each server of each group is.
    #[must_use]
    pub fn server_states(&self) -> BTreeMap<Group, Vec<ServerState>> {
        let groups = lock(&self.0.groups);
        let known = groups
            .iter()
            .filter(|(_, handle)| handle.servers.borrow().is_some());
        known
            .map(|(group, handle)| (group.clone(), handle.behind.states()))
            .collect()
    }

    /// Lets the engine begin with everything that was declared until now, taken in at once.
    ///
    /// What an object once published is looked for in the zones that are known, and what it asks for
    /// is merged with what others ask for; so nothing may begin before the first picture is whole.
    pub fn open(&self) {
        self.0.opened.cancel();
    }

    /// Declares a zone on a group of servers, or declares it anew. Where no server of the group is known
    /// yet, it waits.
    pub fn declare_zone(&self, group: &Group, declaration: ZoneDeclaration) {
        let declaration = Box::new(declaration);
        self.0.group(group).tell(Input::DeclareZone(declaration));
    }

    /// Takes a zone back; its listeners hear [`bindery_core::zones::ZoneState::Gone`] in the end.
    pub fn undeclare_zone(&self, zone: ZoneKey) {
        let handle = self.0.group(&zone.group);
        handle.tell(Input::UndeclareZone(zone.name));
    }

    /// An object has a zone and cannot declare it yet: until it is declared or undeclared, nothing in it is
    /// taken for gone.
    pub fn await_zone(&self, zone: ZoneKey) {
        self.0.group(&zone.group).tell(Input::AwaitZone(zone.name));
    }

    /// Something happened to the object of a zone: until it is declared again, nothing goes from it.
    pub fn hold_zone(&self, zone: ZoneKey) {
        let handle = self.0.group(&zone.group);
        let key = InputKey::Zone(zone.name.clone());
        // A declaration that waits is not lost.
        handle.inbox.merge(key, |waiting| match waiting {
            Some(Input::DeclareZone(mut declaration)) => {
                declaration.going = Some(Going::Unsaid);
                Input::DeclareZone(declaration)
            }
            Some(Input::UndeclareZone(zone)) => Input::UndeclareZone(zone),
            Some(
                Input::HoldZone(_) | Input::AwaitZone(_) | Input::Declare(_) | Input::Forget(_),
            )
            | None => Input::HoldZone(zone.name),
        });
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
            let handle = self.0.group(&group);
            if handle.servers.borrow().is_none() {
                let receipt = unserved(&group, &declaration);
                self.0.tell(placements.receive(&group, receipt));
            }
            handle.tell(Input::Declare(Box::new(declaration)));
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
        let groups = lock(&self.0.groups);
        groups.values().map(|handle| handle.inbox.len()).sum()
    }

    /// In how many zones a plan is held.
    #[must_use]
    pub fn held_plans(&self) -> usize {
        lock(&self.0.held).len()
    }

    /// Every server but the leaders, and in how many zones it does not have the leader's serial.
    #[must_use]
    pub fn behind(&self) -> Vec<(ServerInfo, usize)> {
        let groups = lock(&self.0.groups);
        let handles = groups.values();
        handles.flat_map(|handle| handle.behind.counts()).collect()
    }
}

impl Shared {
    pub(crate) fn placements(&self) -> MutexGuard<'_, Placements> {
        lock(&self.placements)
    }

    fn forget(&self, owner: &Id, groups: &[Group]) {
        for group in groups {
            self.group(group).tell(Input::Forget(Id::clone(owner)));
        }
    }

    /// Where a group is spoken to; of one that was never spoken of, nothing is known yet.
    pub(crate) fn group(&self, group: &Group) -> Arc<GroupHandle> {
        let mut groups = lock(&self.groups);
        if let Some(handle) = groups.get(group) {
            return Arc::clone(handle);
        }
        let handle = Arc::new(GroupHandle::new(None));
        groups.insert(group.clone(), Arc::clone(&handle));
        self.new_groups.push(group.clone(), ());
        handle
    }

    /// Tells everybody whom it concerns.
    pub(crate) fn tell(&self, events: impl IntoIterator<Item = Receipt>) {
        let listeners = lock(&self.listeners);
        for event in events {
            let mut concerned = listeners
                .iter()
                .filter(|(concern, _)| concern(&event.owner));
            // Nearly always there is one, and it gets the event itself.
            let Some((_, last)) = concerned.next_back() else {
                continue;
            };
            for (_, queue) in concerned {
                queue.push(Id::clone(&event.owner), event.clone());
            }
            last.push(Id::clone(&event.owner), event);
        }
    }
}

/// What becomes of an object in a group of servers that is not there: what it has on them cannot be taken
/// away.
fn unserved(group: &Group, declaration: &Declaration) -> Receipt {
    let outcomes = declaration.claims.iter().map(|claim| ClaimReceipt {
        group: group.clone(),
        ttl: claim.ttl,
        claim: claim.clone(),
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
        owner: declaration.owner.clone(),
        generation: declaration.generation,
        revision: declaration.revision,
    }
}

/// Works for every group until `stop` is cancelled and no update is on its way.
async fn run(shared: Arc<Shared>, limits: Limits, stop: CancellationToken) {
    let started = Instant::now();
    let mut runners = FuturesUnordered::new();
    loop {
        for (group, ()) in shared.new_groups.take(usize::MAX) {
            let running = (started, stop.clone());
            runners.push(run_group(Arc::clone(&shared), group, limits, running));
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = shared.new_groups.arrival() => {}
            Some(()) = runners.next() => {}
        }
    }
    while runners.next().await.is_some() {}
}

/// No code that can panic runs under these locks; a poisoned one holds a sound state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

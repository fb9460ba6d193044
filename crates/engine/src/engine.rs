//! The loop between declarations, name servers and listeners.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use bindery_core::{
    Declaration, Id, Name, ObjectRef,
    fleet::{Errand, Member, Role},
    zones::{Completion, Limits, Step, SyncEvent, ZoneDeclaration, ZoneEvent, Zones},
};
use tokio::{
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    behind::Behind,
    commit::send_changes,
    follow::{close, copy, look, nobody, nudge, open, renewal},
    metrics::Metrics,
    ports::{NameServer, ZoneHost},
    queue::KeyedQueue,
};

/// Steps carried out at the same time, over all zones. Each holds at most one message of 64 KiB, so
/// this bounds memory at 16 MiB and keeps a slow server from being flooded.
const STEPS_MAX: usize = 256;

/// Declarations taken in before the next steps are begun: enough to fill a message, so that in a
/// flood the first leaves while the rest is still being taken in.
const INPUTS_MAX: usize = 512;

/// One name server.
#[derive(Clone)]
pub struct Station {
    /// Its address and what it does.
    pub member: Member,
    /// Where updates go and answers come from.
    pub server: Arc<dyn NameServer>,
    /// Who creates zones, where Bindery manages the server.
    pub host: Option<Arc<dyn ZoneHost>>,
}

/// The servers behind the engine, the same for every zone.
#[derive(Clone)]
pub struct Servers {
    /// The primary that plans are made against and that changes go to first.
    pub lead: Station,
    /// All others.
    pub followers: Arc<[Station]>,
}

impl Servers {
    /// A single primary.
    #[must_use]
    pub fn one(
        address: &str,
        server: Arc<dyn NameServer>,
        host: Option<Arc<dyn ZoneHost>>,
    ) -> Self {
        let member = Member {
            address: address.into(),
            role: Role::Primary,
        };
        Self {
            lead: Station {
                member,
                server,
                host,
            },
            followers: Arc::new([]),
        }
    }
}

/// What a listener is told: level, not edge. A newer event of the same object replaces one that was
/// not taken yet.
pub type SyncEvents = KeyedQueue<Id, SyncEvent>;

/// What a listener of zones is told.
pub type ZoneEvents = KeyedQueue<Name, ZoneEvent>;

/// The handle by which objects are declared and listeners registered. Cloning is cheap.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

struct Shared {
    inbox: KeyedQueue<Subject, Input>,
    listeners: Mutex<Vec<(Concern, SyncEvents)>>,
    zone_listeners: Mutex<Vec<ZoneEvents>>,
    metrics: Metrics,
    behind: Behind,
    /// Zones of which a plan is held.
    held: Mutex<BTreeSet<Name>>,
    opened: CancellationToken,
}

type Concern = Box<dyn Fn(&ObjectRef) -> bool + Send + Sync>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Zone(Name),
    Object(Id),
}

enum Input {
    DeclareZone(ZoneDeclaration),
    RetireZone,
    Declare(Declaration),
    Forget,
}

impl Engine {
    /// An engine and the task that runs it, which begins with [`Self::open`] and ends when `stop` is cancelled and no update is on
    /// its way.
    pub fn start(
        servers: Servers,
        limits: Limits,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let followers = servers.followers.iter();
        let followers: Vec<Member> = followers.map(|one| one.member.clone()).collect();
        let engine = Self(Arc::new(Shared {
            inbox: KeyedQueue::default(),
            listeners: Mutex::default(),
            zone_listeners: Mutex::default(),
            metrics: Metrics::default(),
            behind: Behind::new(followers.as_slice().into()),
            held: Mutex::default(),
            opened: CancellationToken::new(),
        }));
        let runner = Runner {
            shared: Arc::clone(&engine.0),
            servers,
            zones: Zones::new(limits, followers),
            started: Instant::now(),
            ready: BTreeSet::new(),
            running: JoinSet::new(),
        };
        (engine, runner.run(stop))
    }

    /// Lets the engine begin with everything that was declared until now, taken in at once.
    ///
    /// What an object once published is looked for in the zones that are known, and what it asks for
    /// is merged with what others ask for; so nothing may begin before the first picture is whole.
    pub fn open(&self) {
        self.0.opened.cancel();
    }

    /// Declares a zone, or declares it anew.
    pub fn declare_zone(&self, declaration: ZoneDeclaration) {
        let subject = Subject::Zone(declaration.zone.clone());
        self.0.inbox.push(subject, Input::DeclareZone(declaration));
    }

    /// Takes a zone back; its listeners hear [`bindery_core::zones::ZoneState::Gone`] in the end.
    pub fn retire_zone(&self, zone: Name) {
        self.0.inbox.push(Subject::Zone(zone), Input::RetireZone);
    }

    /// Replaces everything that one object asks for.
    pub fn declare(&self, declaration: Declaration) {
        let subject = Subject::Object(declaration.owner.clone());
        self.0.inbox.push(subject, Input::Declare(declaration));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, owner: Id) {
        self.0.inbox.push(Subject::Object(owner), Input::Forget);
    }

    /// Registers a listener for the objects that concern it. It reads at its own pace; if it hangs,
    /// nobody else notices.
    pub fn listen(
        &self,
        concern: impl Fn(&ObjectRef) -> bool + Send + Sync + 'static,
    ) -> SyncEvents {
        let events = SyncEvents::default();
        let mut listeners = self
            .0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push((Box::new(concern), events.clone()));
        events
    }

    /// Registers a listener for zones.
    #[must_use]
    pub fn listen_zones(&self) -> ZoneEvents {
        let events = ZoneEvents::default();
        let mut listeners = self
            .0
            .zone_listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(events.clone());
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
        self.0.inbox.len()
    }

    /// In how many zones a plan is held.
    #[must_use]
    pub fn held_plans(&self) -> usize {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.len()
    }

    /// Every server but the lead, and in how many zones it does not have the lead's serial.
    #[must_use]
    pub fn behind(&self) -> Vec<(Member, usize)> {
        self.0.behind.counts()
    }
}

struct Runner {
    shared: Arc<Shared>,
    servers: Servers,
    zones: Zones,
    started: Instant,
    ready: BTreeSet<Name>,
    running: JoinSet<(Name, Completion)>,
}

impl Runner {
    async fn run(mut self, stop: CancellationToken) {
        let inbox = self.shared.inbox.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.shared.opened.cancelled() => {}
        }
        // The first picture is taken in whole.
        self.take_inputs(usize::MAX);
        loop {
            self.start_steps();
            self.publish();
            let wake = self.zones.next_wake().map(|at| self.started + at);
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.running.join_next() => self.complete(ended),
                () = inbox.arrival() => self.take_inputs(INPUTS_MAX),
                () = sleep => self.zones.wake(self.started.elapsed()),
            }
        }
        // Updates that are on their way are finished; nothing new is begun.
        while let Some(ended) = self.running.join_next().await {
            self.complete(ended);
        }
        self.publish();
    }

    fn take_inputs(&mut self, max: usize) {
        for (subject, input) in self.shared.inbox.take(max) {
            match (subject, input) {
                (_, Input::DeclareZone(declaration)) => self.zones.declare_zone(declaration),
                (_, Input::Declare(declaration)) => self.zones.declare(declaration),
                (Subject::Zone(zone), Input::RetireZone | Input::Forget) => {
                    self.zones.retire_zone(&zone);
                    self.shared.behind.note(&zone, Vec::new());
                }
                (Subject::Object(owner), Input::Forget | Input::RetireZone) => {
                    self.zones.forget(&owner);
                }
            }
        }
    }

    fn start_steps(&mut self) {
        let now = self.started.elapsed();
        self.ready.extend(self.zones.take_work());
        while self.running.len() < STEPS_MAX
            && let Some(zone) = self.ready.pop_first()
        {
            while let Some(step) = self.zones.next_step(&zone, now) {
                let shared = Arc::clone(&self.shared);
                let work = carry_out((shared, self.servers.clone()), zone.clone(), step);
                // A task of its own: a message leaves while the next one is made up.
                self.running.spawn(work);
            }
        }
        self.ready.extend(self.zones.take_work());
    }

    fn complete(&mut self, ended: Result<(Name, Completion), JoinError>) {
        let (zone, completion) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this task with it.
            Err(_) => return,
        };
        self.shared.metrics.count(&completion);
        self.zones
            .complete(&zone, completion, self.started.elapsed());
        if !self.shared.behind.is_idle() {
            let behind = self.zones.behind(&zone);
            self.shared.behind.note(&zone, behind);
        }
    }

    fn publish(&mut self) {
        let events = self.zones.take_events();
        if !events.is_empty() {
            let listeners = self
                .shared
                .listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for event in events {
                for (concern, queue) in listeners.iter() {
                    if concern(&event.owner) {
                        queue.push(event.owner.clone(), event.clone());
                    }
                }
            }
        }
        let events = self.zones.take_zone_events();
        if !events.is_empty() {
            let listeners = self
                .shared
                .zone_listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let mut held = self
                .shared
                .held
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for event in events {
                if event.held.is_some() {
                    held.insert(event.zone.clone());
                } else {
                    held.remove(&event.zone);
                }
                for queue in listeners.iter() {
                    queue.push(event.zone.clone(), event.clone());
                }
            }
        }
    }
}

/// Carries out one step.
///
/// Cancellation: a dropped step leaves the world as it was or as asked; the next run reads it again.
async fn carry_out(
    (shared, servers): (Arc<Shared>, Servers),
    zone: Name,
    step: Step,
) -> (Name, Completion) {
    let server = &*servers.lead.server;
    let completion = match step {
        Step::Open(None) | Step::Read => Completion::Read(server.transfer(&zone).await),
        Step::Open(Some(records)) => Completion::Read(open(&servers, &zone, records).await),
        Step::Catch(serial, keys) => {
            Completion::Caught(keys, server.changes_since(&zone, serial).await)
        }
        Step::Check => Completion::Checked(server.serial(&zone).await),
        Step::Commit(changes) => {
            Completion::Sent(send_changes(server, &zone, changes, &shared.metrics).await)
        }
        Step::Verify(keys) => {
            let read = server.read(&zone, &keys).await;
            Completion::Verified(keys, read)
        }
        Step::Renew(record) => {
            let renewal = [renewal(&record)];
            let result = server.update(&zone, &renewal).await;
            Completion::Renewed(record, result)
        }
        Step::Follow(Errand::Copy(index, known)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => copy(&servers.lead, follower, &zone, known).await,
                None => Err(nobody()),
            };
            Completion::Followed(index, result)
        }
        Step::Follow(Errand::Nudge(index)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => nudge(&servers.lead, follower, &zone).await,
                None => Err(nobody()),
            };
            Completion::Followed(index, result)
        }
        Step::Follow(Errand::Look(index)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => look(&servers.lead, follower, &zone).await,
                None => Err(nobody()),
            };
            Completion::Followed(index, result)
        }
        Step::Close => Completion::Closed(close(&servers, &zone).await),
    };
    (zone, completion)
}

//! The loop of one group of servers: takes in what is declared, carries out steps, tells what came of them.

use std::{collections::BTreeSet, sync::Arc};

use bindery_core::{
    Group, Name,
    zones::{Completion, Limits, Step, Term, Zones},
};
use tokio::{
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{GroupHandle, Input, InputKey, Shared, lock},
    probe::Probes,
    queue::KeyedQueue,
    reach::{Reach, carry_out},
    servers::{ServerHandle, Servers},
    story::{Commit, Stories, tell_held, tell_released},
    terms::Terms,
};

/// Steps carried out at the same time, over all zones of a group. Each holds at most one message of 64 KiB, so
/// this bounds memory at 16 MiB and keeps a slow server from being flooded.
const STEPS_MAX: usize = 256;

/// Declarations taken in before the next steps are begun: enough to fill a message, so that in a
/// flood the first leaves while the rest is still being taken in.
const INPUTS_MAX: usize = 512;

/// What works for one group of servers.
pub(crate) struct Runner {
    shared: Arc<Shared>,
    group: Group,
    handle: Arc<GroupHandle>,
    servers: Servers,
    zones: Zones,
    started: Instant,
    ready: BTreeSet<Name>,
    running: JoinSet<Ended>,
    terms: Terms,
    stories: Stories,
    probes: Probes,
}

/// A step that was carried out, under which term, and what the log is to tell of it.
struct Ended {
    zone: Name,
    term: Term,
    completion: Completion,
    commit: Option<Commit>,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Shared>, group: Group, limits: Limits, started: Instant) -> Self {
        Self {
            zones: Zones::new(limits, Vec::new()).on(group.clone()),
            handle: shared.group(&group),
            shared,
            group,
            probes: Probes::new(),
            servers: Servers::default(),
            started,
            ready: BTreeSet::new(),
            running: JoinSet::new(),
            terms: Terms::default(),
            stories: Stories::default(),
        }
    }

    /// Begins when the engine is opened and some server is known, and ends when `stop` is cancelled and no
    /// update is on its way.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let handle = Arc::clone(&self.handle);
        let mut servers = handle.servers.subscribe();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // The sender is in the handle, so the channel stays open.
            _open = servers.wait_for(|servers| !servers.is_empty()) => {}
        }
        self.set_servers(servers.borrow_and_update().clone());
        if !self.take_first_picture(&stop).await {
            return;
        }
        self.zones.compact();
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
                () = handle.inbox.arrival() => self.take_inputs(&handle.inbox, INPUTS_MAX),
                Ok(()) = servers.changed() => {
                    self.set_servers(servers.borrow_and_update().clone());
                }
                (server, answer) = self.probes.next(&self.zones) => {
                    self.zones.on_answer(&server.id, answer, self.started.elapsed());
                    self.end_terms();
                }
                () = sleep => self.zones.wake(self.started.elapsed()),
            }
        }
        // Updates that are on their way are finished; nothing new is begun.
        while let Some(ended) = self.running.join_next().await {
            self.complete(ended);
        }
        self.publish();
    }

    /// Takes in everything that is declared before the engine is opened, as it comes: all of it at once would
    /// take as much memory again. Nothing is begun before. Returns `false` where `stop` came first.
    async fn take_first_picture(&mut self, stop: &CancellationToken) -> bool {
        let handle = Arc::clone(&self.handle);
        let shared = Arc::clone(&self.shared);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                () = shared.opened.cancelled() => break,
                () = handle.inbox.arrival() => self.take_inputs(&handle.inbox, INPUTS_MAX),
            }
        }
        while !handle.inbox.is_empty() {
            self.take_inputs(&handle.inbox, INPUTS_MAX);
        }
        true
    }

    fn set_servers(&mut self, servers: Servers) {
        let infos = servers.infos();
        self.handle.behind.set_servers(infos.clone());
        self.probes.set_servers(&servers);
        self.zones.set_servers(infos, self.started.elapsed());
        self.servers = servers;
        self.end_terms();
    }

    /// Gives up what was begun with servers that lead no longer.
    fn end_terms(&mut self) {
        let zones = &self.zones;
        self.terms
            .end(|zone, term| zones.term(zone).as_ref() != Some(term));
    }

    fn take_inputs(&mut self, inbox: &KeyedQueue<InputKey, Input>, max: usize) {
        for (_, input) in inbox.take(max) {
            match input {
                Input::DeclareZone(declaration) => self.zones.declare_zone(*declaration),
                Input::Declare(declaration) => self.zones.declare(*declaration),
                Input::HoldZone(zone) => self.zones.hold_zone(&zone),
                Input::AwaitZone(zone) => self.zones.await_zone(&zone),
                Input::UndeclareZone(zone) => {
                    self.zones.undeclare_zone(&zone);
                    self.handle.behind.note(&zone, Vec::new());
                }
                Input::Forget(owner) => self.zones.forget(&owner),
            }
        }
    }

    fn start_steps(&mut self) {
        let now = self.started.elapsed();
        self.ready.extend(self.zones.take_work());
        // A step whose server leads no longer ends when that server answers, and holds up nobody.
        while self.running.len() - self.terms.ended() < STEPS_MAX
            && let Some(zone) = self.ready.pop_first()
        {
            while let Some(step) = self.zones.next_step(&zone, now) {
                self.start_step(&zone, step);
            }
        }
        self.ready.extend(self.zones.take_work());
    }

    fn start_step(&mut self, zone: &Name, step: Step) {
        let Some(term) = self.zones.term(zone) else {
            // Steps are asked for only where somebody leads.
            return;
        };
        let commit = Commit::of(&step, zone, &self.zones);
        let others = match &step {
            Step::Open(_) | Step::Rescue(_) => self.answering(&term),
            Step::Read
            | Step::ReadChanges(..)
            | Step::Check
            | Step::Commit(_)
            | Step::Verify(_)
            | Step::Renew(_)
            | Step::Follow(_)
            | Step::Close => Vec::new(),
        };
        let reach = Reach {
            shared: Arc::clone(&self.shared),
            servers: self.servers.clone(),
            others,
            turn: self.terms.begin(zone, &term),
        };
        let zone = zone.clone();
        // A task of its own: a message leaves while the next one is made up.
        self.running.spawn(async move {
            let completion = carry_out(reach, &term, &zone, step).await;
            Ended {
                zone,
                term,
                completion,
                commit,
            }
        });
    }

    /// The servers beside the leader that answer.
    fn answering(&self, term: &Term) -> Vec<ServerHandle> {
        let others = self
            .servers
            .iter()
            .filter(|one| one.info.id != term.leader && !self.zones.is_silent(&one.info.id));
        others.cloned().collect()
    }

    fn complete(&mut self, ended: Result<Ended, JoinError>) {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this task with it.
            Err(_) => return,
        };
        let Ended {
            zone,
            term,
            completion,
            commit,
        } = ended;
        if !self.terms.complete(&zone, &term) {
            return;
        }
        self.shared.metrics.count(&completion);
        self.stories.take((&self.group, &zone), commit, &completion);
        self.zones
            .complete(&zone, completion, self.started.elapsed());
        if !self.handle.behind.is_idle() {
            let behind = self.zones.behind(&zone);
            self.handle.behind.note(&zone, behind);
        }
    }

    fn publish(&mut self) {
        let events = self.zones.take_events();
        if !events.is_empty() {
            let mut parts = self.shared.placements();
            let events = events.into_iter();
            let whole = events.filter_map(|event| parts.receive(&self.group, event));
            self.shared.tell(whole);
        }
        let events = self.zones.take_zone_events();
        if !events.is_empty() {
            let listeners = lock(&self.shared.zone_listeners);
            let mut held = lock(&self.shared.held);
            for event in events {
                if let Some(plan) = &event.held {
                    if held.insert(event.zone.clone()) {
                        tell_held(&event.zone, plan);
                    }
                } else if held.remove(&event.zone) {
                    tell_released(&event.zone);
                }
                for queue in listeners.iter() {
                    queue.push(event.zone.clone(), event.clone());
                }
            }
        }
    }
}

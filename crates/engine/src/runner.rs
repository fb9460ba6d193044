//! The loop of one group of servers: takes in what is declared, carries out steps, tells what came of them.

use std::{collections::BTreeSet, sync::Arc};

use bindery_core::{
    Group, Name,
    fleet::FollowerTask,
    zones::{Completion, Limits, Step, Zones},
};
use tokio::{
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    commit::send_changes,
    engine::{GroupHandle, Input, Servers, Shared, Subject, lock},
    follow::{
        Synced, close, nobody, open, probe_follower, refresh_follower, renewal, rescue, sync,
    },
    probe::Probes,
    queue::KeyedQueue,
    story::{Commit, Stories, tell_held, tell_released},
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
    servers: Servers,
    zones: Zones,
    started: Instant,
    ready: BTreeSet<Name>,
    running: JoinSet<Ended>,
    stories: Stories,
    probes: Probes,
}

/// A step that was carried out, and what the log is to tell of it.
type Ended = (Name, Completion, Option<Commit>);

impl Runner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (group, servers): (Group, Servers),
        limits: Limits,
        started: Instant,
    ) -> Self {
        let followers = servers.followers.iter();
        let followers = followers.map(|one| one.info.clone()).collect();
        Self {
            shared,
            zones: Zones::new(limits, followers).on(group.clone()),
            group,
            probes: Probes::new(&servers),
            servers,
            started,
            ready: BTreeSet::new(),
            running: JoinSet::new(),
            stories: Stories::default(),
        }
    }

    /// Begins when the engine is opened and ends when `stop` is cancelled and no update is on its way.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let Some(inbox) = self.handle().map(|handle| handle.inbox.clone()) else {
            return;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.shared.opened.cancelled() => {}
        }
        // The first picture is taken in whole.
        self.take_inputs(&inbox, usize::MAX);
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
                () = inbox.arrival() => self.take_inputs(&inbox, INPUTS_MAX),
                (server, answer) = self.probes.next(&self.zones) => {
                    self.zones.hear(server, answer, self.started.elapsed());
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

    fn handle(&self) -> Option<&GroupHandle> {
        self.shared.groups.get(&self.group)
    }

    fn take_inputs(&mut self, inbox: &KeyedQueue<Subject, Input>, max: usize) {
        for (subject, input) in inbox.take(max) {
            match (subject, input) {
                (_, Input::DeclareZone(declaration)) => self.zones.declare_zone(declaration),
                (_, Input::Declare(declaration)) => self.zones.declare(declaration),
                (Subject::Zone(zone), Input::HoldZone) => self.zones.hold_zone(&zone),
                (Subject::Zone(zone), Input::AwaitZone) => self.zones.await_zone(&zone),
                (Subject::Zone(zone), _) => self.take_back(&zone),
                (Subject::Object(owner), _) => self.zones.forget(&owner),
            }
        }
    }

    fn take_back(&mut self, zone: &Name) {
        self.zones.undeclare_zone(zone);
        if let Some(handle) = self.handle() {
            handle.behind.note(zone, Vec::new());
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
                let commit = Commit::of(&step, &zone, &self.zones);
                let work = carry_out((shared, self.servers.clone()), zone.clone(), step);
                // A task of its own: a message leaves while the next one is made up.
                self.running.spawn(async {
                    let (zone, completion) = work.await;
                    (zone, completion, commit)
                });
            }
        }
        self.ready.extend(self.zones.take_work());
    }

    fn complete(&mut self, ended: Result<Ended, JoinError>) {
        let (zone, completion, commit) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is going down, and this task with it.
            Err(_) => return,
        };
        self.shared.metrics.count(&completion);
        self.stories.take((&self.group, &zone), commit, &completion);
        self.zones
            .complete(&zone, completion, self.started.elapsed());
        if let Some(handle) = self.handle().filter(|handle| !handle.behind.is_idle()) {
            handle.behind.note(&zone, self.zones.behind(&zone));
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

/// Carries out one step.
///
/// Cancellation: a dropped step leaves the world as it was or as asked; the next run reads it again.
async fn carry_out(
    (shared, servers): (Arc<Shared>, Servers),
    zone: Name,
    step: Step,
) -> (Name, Completion) {
    let server = &*servers.leader.server;
    let completion = match step {
        Step::Open(None) | Step::Read => Completion::Read(server.transfer(&zone).await),
        Step::Open(Some(records)) => Completion::Read(open(&servers, &zone, records).await),
        Step::ReadChanges(serial, keys) => {
            Completion::ChangesRead(keys, server.changes_since(&zone, serial).await)
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
        Step::Rescue(serial) => Completion::Rescued(rescue(&servers, &zone, serial).await),
        Step::Follow(FollowerTask::Sync(index, known)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => sync(&servers.leader, follower, &zone, known).await,
                None => Err(nobody()),
            };
            match result {
                Ok(Synced::At(serial)) => Completion::Followed(index, Ok(serial)),
                Ok(Synced::Differs(serial, records)) => Completion::Differs(index, serial, records),
                Err(fault) => Completion::Followed(index, Err(fault)),
            }
        }
        Step::Follow(FollowerTask::Refresh(index)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => refresh_follower(&servers.leader, follower, &zone).await,
                None => Err(nobody()),
            };
            Completion::Followed(index, result)
        }
        Step::Follow(FollowerTask::Probe(index)) => {
            let result = match servers.followers.get(index) {
                Some(follower) => probe_follower(&servers.leader, follower, &zone).await,
                None => Err(nobody()),
            };
            Completion::Followed(index, result)
        }
        Step::Close => Completion::Closed(close(&servers, &zone).await),
    };
    (zone, completion)
}

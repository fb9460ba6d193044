//! The hands of the zones of one group of servers: takes in what is declared, carries out steps with the
//! servers, tells what came of them.

use std::{sync::Arc, time::Duration};

use bindery_core::{
    Fault, Group, Name, ServerId, ServerInfo,
    zones::{Completion, Limits, Receipt, Step, Term, ZoneReceipt, Zones},
};
use futures::future::BoxFuture;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{GroupHandle, Input, Shared, lock},
    machine::{Driver, Machine},
    probe::Probes,
    reach::{Reach, carry_out},
    runner::Runner,
    servers::{ServerHandle, Servers},
    story::{Commit, Stories, tell_held, tell_released},
    terms::Terms,
};

/// Declarations taken in before the next steps are begun: enough to fill a message, so that in a
/// flood the first leaves while the rest is still being taken in.
const INPUTS_MAX: usize = 512;

/// What there is to tell of zones and of the objects that ask for something in them.
pub struct ZoneNews {
    receipts: Vec<Receipt>,
    zones: Vec<ZoneReceipt>,
}

impl Machine for Zones {
    type Key = Name;
    type Step = Step;
    type Completion = Completion;
    type News = ZoneNews;

    fn take_work(&mut self) -> Vec<Name> {
        Self::take_work(self)
    }

    fn next_step(&mut self, zone: &Name, now: Duration) -> Option<Step> {
        Self::next_step(self, zone, now)
    }

    fn complete(&mut self, zone: &Name, completion: Completion, now: Duration) {
        Self::complete(self, zone, completion, now);
    }

    fn take_news(&mut self) -> ZoneNews {
        ZoneNews {
            receipts: self.take_events(),
            zones: self.take_zone_events(),
        }
    }

    fn next_wake(&self) -> Option<Duration> {
        Self::next_wake(self)
    }

    fn wake(&mut self, now: Duration) {
        Self::wake(self, now);
    }
}

/// What works for one group of servers.
pub(crate) struct ZoneDriver {
    shared: Arc<Shared>,
    group: Group,
    handle: Arc<GroupHandle>,
    /// Tells when the servers of the group change.
    changes: watch::Receiver<Option<Servers>>,
    servers: Servers,
    terms: Terms,
    stories: Stories,
    probes: Probes,
}

/// Something from outside.
pub(crate) enum ZoneInput {
    /// Something was declared.
    Inbox,
    /// There are other servers.
    Servers,
    /// A server stopped or resumed answering.
    Answer(ServerInfo, Result<(), Fault>),
}

/// The term under which a step was begun, and what the log is to tell of it.
pub(crate) struct StepTicket {
    term: Term,
    commit: Option<Commit>,
}

/// Works for one group of servers: begins when the engine is opened and the group is known, and ends when
/// `stop` is cancelled and no update is on its way.
pub(crate) async fn run_group(
    shared: Arc<Shared>,
    group: Group,
    limits: Limits,
    (started, stop): (Instant, CancellationToken),
) {
    let mut zones = Zones::new(limits, Vec::new()).on(group.clone());
    let handle = shared.group(&group);
    let mut driver = ZoneDriver {
        changes: handle.servers.subscribe(),
        handle,
        shared,
        group,
        servers: Servers::default(),
        terms: Terms::default(),
        stories: Stories::default(),
        probes: Probes::new(),
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        // The sender is in the handle, so the channel stays open.
        _open = driver.changes.wait_for(Option::is_some) => {}
    }
    driver.set_servers(&mut zones, started.elapsed());
    if !driver.take_first_picture(&mut zones, &stop).await {
        return;
    }
    zones.compact();
    Runner::new(zones, driver, started).run(stop).await;
}

impl ZoneDriver {
    /// Takes in everything that is declared before the engine is opened, as it comes: all of it at once would
    /// take as much memory again. Nothing is begun before. Returns `false` where `stop` came first.
    async fn take_first_picture(&mut self, zones: &mut Zones, stop: &CancellationToken) -> bool {
        let handle = Arc::clone(&self.handle);
        let shared = Arc::clone(&self.shared);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                () = shared.opened.cancelled() => break,
                () = handle.inbox.arrival() => self.take_inputs(zones, INPUTS_MAX),
            }
        }
        while !handle.inbox.is_empty() {
            self.take_inputs(zones, INPUTS_MAX);
        }
        true
    }

    fn set_servers(&mut self, zones: &mut Zones, now: Duration) {
        let servers = self.changes.borrow_and_update().clone();
        let servers = servers.unwrap_or_default();
        let infos = servers.infos();
        self.handle.behind.set_servers(infos.clone());
        self.probes.set_servers(&servers);
        zones.set_servers(infos, now);
        self.servers = servers;
        self.end_terms(zones);
    }

    /// Takes in whether a server answers.
    fn hear(
        &mut self,
        zones: &mut Zones,
        (server, answer): (&ServerId, Result<(), Fault>),
        now: Duration,
    ) {
        self.handle.behind.note_answer(server, answer.is_ok());
        zones.on_answer(server, answer, now);
        for zone in zones.names() {
            self.note_behind(zones, zone);
        }
        self.end_terms(zones);
    }

    /// Notes who is behind in a zone, for those who count.
    fn note_behind(&self, zones: &Zones, zone: &Name) {
        if !self.handle.behind.is_idle() {
            let (behind, out) = (zones.behind(zone), zones.out_of_rotation(zone));
            self.handle.behind.note(zone, behind, out);
        }
    }

    /// Gives up what was begun with servers that lead no longer.
    fn end_terms(&mut self, zones: &Zones) {
        self.terms
            .end(|zone, term| zones.term(zone).as_ref() != Some(term));
    }

    fn take_inputs(&mut self, zones: &mut Zones, max: usize) {
        for (_, input) in self.handle.inbox.take(max) {
            match input {
                Input::DeclareZone(declaration) => zones.declare_zone(*declaration),
                Input::Declare(declaration) => zones.declare(*declaration),
                Input::HoldZone(zone) => zones.hold_zone(&zone),
                Input::AwaitZone(zone) => zones.await_zone(&zone),
                Input::UndeclareZone(zone) => {
                    zones.undeclare_zone(&zone);
                    self.handle.behind.note(&zone, Vec::new(), Vec::new());
                }
                Input::Forget(owner) => zones.forget(&owner),
            }
        }
    }

    /// The servers beside the leader that answer.
    fn answering(&self, zones: &Zones, term: &Term) -> Vec<ServerHandle> {
        let others = self
            .servers
            .iter()
            .filter(|one| one.info.id != term.leader && !zones.is_silent(&one.info.id));
        others.cloned().collect()
    }

    fn tell_zones(&self, receipts: Vec<ZoneReceipt>) {
        if receipts.is_empty() {
            return;
        }
        let listeners = lock(&self.shared.zone_listeners);
        let mut held = lock(&self.shared.held);
        for receipt in receipts {
            if let Some(plan) = &receipt.held {
                if held.insert(receipt.zone.clone()) {
                    tell_held(&receipt.zone, plan);
                }
            } else if held.remove(&receipt.zone) {
                tell_released(&receipt.zone);
            }
            for queue in listeners.iter() {
                queue.push(receipt.zone.clone(), receipt.clone());
            }
        }
    }
}

impl Driver<Zones> for ZoneDriver {
    type Input = ZoneInput;
    type Ticket = StepTicket;

    fn begin(
        &mut self,
        zones: &Zones,
        zone: &Name,
        step: Step,
    ) -> Option<(StepTicket, BoxFuture<'static, Completion>)> {
        // Steps are asked for only where somebody leads.
        let term = zones.term(zone)?;
        let commit = Commit::of(&step);
        let others = match &step {
            Step::Open(_) | Step::Rescue(_) | Step::Follow(_) => self.answering(zones, &term),
            Step::Read
            | Step::ReadChanges(..)
            | Step::Check
            | Step::Commit(_)
            | Step::Verify(_)
            | Step::Renew(_)
            | Step::Sign(_)
            | Step::Close => Vec::new(),
        };
        let reach = Reach {
            shared: Arc::clone(&self.shared),
            servers: self.servers.clone(),
            others,
            turn: self.terms.begin(zone, &term),
        };
        let zone = zone.clone();
        let leader = term.clone();
        let work = async move { carry_out(reach, &leader, &zone, step).await };
        Some((StepTicket { term, commit }, Box::pin(work)))
    }

    fn counts(
        &mut self,
        _: &Zones,
        (zone, completion): (&Name, &Completion),
        ticket: StepTicket,
    ) -> bool {
        let StepTicket { term, commit } = ticket;
        if !self.terms.complete(zone, &term) {
            return false;
        }
        self.shared.metrics.count(completion);
        self.stories.take((&self.group, zone), commit, completion);
        true
    }

    /// A step whose server leads no longer ends when that server answers.
    fn abandoned(&self) -> usize {
        self.terms.ended()
    }

    async fn next_input(&mut self, zones: &Zones) -> ZoneInput {
        tokio::select! {
            biased;
            () = self.handle.inbox.arrival() => ZoneInput::Inbox,
            Ok(()) = self.changes.changed() => ZoneInput::Servers,
            (server, answer) = self.probes.next(zones) => ZoneInput::Answer(server, answer),
        }
    }

    fn take(&mut self, zones: &mut Zones, input: ZoneInput, now: Duration) {
        match input {
            ZoneInput::Inbox => self.take_inputs(zones, INPUTS_MAX),
            ZoneInput::Servers => self.set_servers(zones, now),
            ZoneInput::Answer(server, answer) => {
                self.hear(zones, (&server.id, answer), now);
            }
        }
    }

    fn completed(&mut self, zones: &Zones, zone: &Name) {
        self.note_behind(zones, zone);
    }

    fn tell(&mut self, news: ZoneNews) {
        let ZoneNews { receipts, zones } = news;
        if !receipts.is_empty() {
            let mut parts = self.shared.placements();
            let receipts = receipts.into_iter();
            let whole = receipts.filter_map(|receipt| parts.receive(&self.group, receipt));
            self.shared.tell(whole);
        }
        self.tell_zones(zones);
    }
}

//! A toy machine of another kind than zones: services with a configuration of their own, and addresses
//! that each belong to several services. It stands on the same pieces and runs on the same runner.
//!
//! An address waits for its service to be created; a service goes when no address refers to it. One
//! message carries addresses of all services.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bindery_core::{
    Backoff, Fault, FaultKind,
    tracker::{Children, Deletion, Failure, Lifecycle, Phase, References, Schedule},
};

use crate::machine::Machine;

/// Addresses in one message.
pub(super) const ADDRESSES_MAX: usize = 3;

pub(super) const RETRY: Backoff = Backoff {
    first: Duration::from_secs(2),
    max: Duration::from_mins(1),
};

pub(super) type ServiceId = u16;
pub(super) type Address = u16;
pub(super) type Config = u32;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Service(ServiceId),
    /// All addresses: they share one message.
    Addresses,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Create(ServiceId, Config),
    Update(ServiceId, Config),
    Delete(ServiceId),
    Bind(Vec<(Address, BTreeSet<ServiceId>)>),
}

#[derive(Debug)]
pub(super) enum Completion {
    Service(Result<(), Fault>),
    /// Each address with the services that it was to have.
    Bound(Vec<(Address, BTreeSet<ServiceId>, Result<(), Fault>)>),
}

#[derive(Debug, Default)]
struct Service {
    lifecycle: Lifecycle,
    desired: Config,
    /// What is on its way.
    sent: Config,
    applied: Option<Config>,
}

#[derive(Debug, Default)]
pub(super) struct Balancers {
    services: BTreeMap<ServiceId, Service>,
    /// What is asked for, whether the services are there or not: the buffer.
    asked: References<Address, ServiceId>,
    /// What stands or may stand.
    standing: References<Address, ServiceId>,
    addresses: Children<Address, BTreeSet<ServiceId>, Fault>,
    /// Addresses whose answer was lost, so that nobody knows what stands.
    unknown: BTreeSet<Address>,
    is_binding: bool,
    schedule: Schedule<Key>,
    news: Vec<(ServiceId, Phase)>,
}

impl Balancers {
    pub(super) fn declare(&mut self, id: ServiceId, config: Config) {
        let service = self.services.entry(id).or_default();
        service.desired = config;
        service.lifecycle.want();
        self.reconsider(id);
    }

    pub(super) fn undeclare(&mut self, id: ServiceId) {
        if let Some(service) = self.services.get_mut(&id) {
            service.lifecycle.retire();
        }
        self.reconsider(id);
    }

    pub(super) fn place(&mut self, address: Address, services: BTreeSet<ServiceId>) {
        self.asked.set(&address, services);
        self.desire(address);
    }

    /// What is asked of a service changed, so what failed before may work now.
    fn reconsider(&mut self, id: ServiceId) {
        self.schedule.succeed(&Key::Service(id));
        self.touch(id);
    }

    fn touch(&mut self, id: ServiceId) {
        let phase = self
            .services
            .get(&id)
            .map_or(Phase::Gone, |service| service.lifecycle.phase());
        if phase == Phase::Gone {
            self.services.remove(&id);
        }
        self.news.push((id, phase));
        self.schedule.push(Key::Service(id));
        let addresses: Vec<Address> = self.asked.children(&id).copied().collect();
        for address in addresses {
            self.desire(address);
        }
    }

    /// An address is to have those of its services that are there and stay.
    fn desire(&mut self, address: Address) {
        let is_there = |id: &&ServiceId| {
            let phase = self.services.get(*id).map(|one| one.lifecycle.phase());
            matches!(phase, Some(Phase::Created | Phase::UpdateInProgress))
        };
        let services: BTreeSet<ServiceId> = self
            .asked
            .parents(&address)
            .filter(is_there)
            .copied()
            .collect();
        let desired = (!services.is_empty()).then_some(services);
        if self.addresses.desired(&address) != desired.as_ref() {
            self.addresses.desire(address, desired);
            self.schedule.push(Key::Addresses);
        }
    }

    fn service_step(&mut self, id: ServiceId) -> Option<Step> {
        let service = self.services.get_mut(&id)?;
        match service.lifecycle.phase() {
            Phase::NotStarted => {
                service.lifecycle.begin();
                service.sent = service.desired;
                Some(Step::Create(id, service.sent))
            }
            Phase::Created if service.applied != Some(service.desired) => {
                service.lifecycle.begin();
                service.sent = service.desired;
                Some(Step::Update(id, service.sent))
            }
            Phase::DeletionPending => {
                let drained = self.standing.drained(&id)?;
                service.lifecycle.begin_deletion(Deletion::Drained(drained));
                Some(Step::Delete(id))
            }
            Phase::Created
            | Phase::CreationInProgress
            | Phase::UpdateInProgress
            | Phase::DeletionInProgress
            | Phase::Gone => None,
        }
    }

    fn address_step(&mut self, now: Duration) -> Option<Step> {
        if self.is_binding {
            return None;
        }
        self.addresses.retry_due(now);
        let mut batch = Vec::new();
        let pending: Vec<Address> = self.addresses.pending().copied().collect();
        for address in pending {
            let desired = self.addresses.desired(&address).cloned();
            let is_known = !self.unknown.contains(&address);
            if is_known && desired.as_ref() == self.addresses.actual(&address) {
                self.addresses.settle(&address);
                continue;
            }
            let desired = desired.unwrap_or_default();
            let may_stand = self.standing.parents(&address).chain(&desired).copied();
            self.standing.set(&address, may_stand.collect());
            self.addresses.send(&address);
            batch.push((address, desired));
            if batch.len() == ADDRESSES_MAX {
                break;
            }
        }
        self.is_binding = !batch.is_empty();
        self.is_binding.then_some(Step::Bind(batch))
    }

    fn service_ended(&mut self, id: ServiceId, result: Result<(), Fault>, now: Duration) {
        let Some(service) = self.services.get_mut(&id) else {
            return;
        };
        match result {
            Ok(()) if service.lifecycle.phase() == Phase::DeletionInProgress => {
                // It has no children of its own that would have to hear of it.
                let _ended = service.lifecycle.finish_deletion();
                service.applied = None;
            }
            Ok(()) => {
                service.applied = Some(service.sent);
                service.lifecycle.succeed();
            }
            Err(_) => service.lifecycle.fail(),
        }
        self.note(&Key::Service(id), result.err().as_ref(), now);
        self.touch(id);
    }

    fn bound(&mut self, address: Address, services: BTreeSet<ServiceId>, fault: Option<&Fault>) {
        let before: Vec<ServiceId> = self.standing.parents(&address).copied().collect();
        self.addresses.complete(&address);
        match fault.map(|fault| fault.kind) {
            None => {
                self.unknown.remove(&address);
                self.standing.set(&address, services.clone());
                let seen = (!services.is_empty()).then_some(services);
                self.addresses.observe(address, seen);
            }
            Some(kind) if kind.is_terminal() => {
                let why = fault.cloned().expect("it has a kind");
                self.addresses.quarantine(&address, why, |_| Duration::MAX);
                // Nothing of it was applied.
                let stands = self.addresses.actual(&address).cloned();
                self.standing.set(&address, stands.unwrap_or_default());
            }
            Some(FaultKind::Lost) => drop(self.unknown.insert(address)),
            Some(_) => {}
        }
        // Services that wait for it to go.
        for id in before {
            self.schedule.push(Key::Service(id));
        }
    }

    fn note(&mut self, key: &Key, fault: Option<&Fault>, now: Duration) {
        match fault {
            None => self.schedule.succeed(key),
            Some(fault) if fault.kind.is_terminal() => self.schedule.park(key),
            Some(fault) => {
                let failure = Failure {
                    now,
                    random: 0,
                    retry_after: fault.retry_after,
                };
                self.schedule.fail(key, &RETRY, failure);
            }
        }
    }
}

impl Machine for Balancers {
    type Key = Key;
    type Step = Step;
    type Completion = Completion;
    type News = Vec<(ServiceId, Phase)>;

    fn take_work(&mut self) -> Vec<Key> {
        self.schedule.take()
    }

    fn next_step(&mut self, key: &Key, now: Duration) -> Option<Step> {
        let step = self.schedule.is_due(key, now).then(|| match key {
            Key::Service(id) => self.service_step(*id),
            Key::Addresses => self.address_step(now),
        });
        let step = step.flatten();
        if step.is_none() {
            let retry = self.schedule.retry_at(key);
            self.schedule.set_wake(key, retry, [], now);
        }
        step
    }

    fn complete(&mut self, key: &Key, completion: Completion, now: Duration) {
        self.schedule.push(key.clone());
        match (key, completion) {
            (Key::Service(id), Completion::Service(result)) => self.service_ended(*id, result, now),
            (Key::Addresses, Completion::Bound(all)) => {
                self.is_binding = false;
                let retried = |fault: &&Fault| !fault.kind.is_terminal();
                let faults = all
                    .iter()
                    .filter_map(|(_, _, result)| result.as_ref().err());
                let fault = faults.clone().find(retried).cloned();
                self.note(key, fault.as_ref(), now);
                for (address, services, result) in all {
                    self.bound(address, services, result.err().as_ref());
                }
            }
            (key, completion) => unreachable!("{completion:?} is no end of a step of {key:?}"),
        }
    }

    fn take_news(&mut self) -> Vec<(ServiceId, Phase)> {
        std::mem::take(&mut self.news)
    }

    fn next_wake(&self) -> Option<Duration> {
        self.schedule.next_wake()
    }

    fn wake(&mut self, now: Duration) {
        self.schedule.wake(now);
    }
}

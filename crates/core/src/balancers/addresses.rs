//! What happens to addresses: which are sent, in which requests, and what comes back.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{
    AddressChange, AddressOutcome, BalancerKey, BalancerStep, BalancerWork, Balancers, Binding,
    Bindings, balancer::Balancer,
};
use crate::{
    backoff::jitter_seed,
    fault::{Fault, FaultKind},
};

impl Balancers {
    /// Looks again at what addresses are to be bound to.
    pub(super) fn desire_all(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            self.desire(address);
        }
    }

    /// An address is to be bound to those balancers that it is asked for by and that stand and stay. What it
    /// has of balancers that are to stay as they are, it keeps.
    pub(super) fn desire(&mut self, address: IpAddr) {
        let is_open = |key: &BalancerKey| self.parents.get(key).is_some_and(Balancer::is_open);
        let mut wanted = self.book.bindings(address, is_open);
        if self.limits.needs_location {
            wanted.retain(|binding| binding.location.is_some());
        }
        if !self.limits.binds_ports {
            wanted = wanted.iter().map(without_ports).collect();
        }
        for binding in self.addresses.actual(&address).into_iter().flatten() {
            if self.is_kept(&binding.balancer) {
                wanted.insert(binding.clone());
            }
        }
        let desired = (!wanted.is_empty()).then_some(wanted);
        if self.addresses.desired(&address) != desired.as_ref() {
            self.addresses.desire(address, desired);
            self.schedule.push(BalancerWork::Addresses);
            self.note(address);
        }
    }

    fn is_kept(&self, key: &BalancerKey) -> bool {
        match self.parents.get(key) {
            Some(balancer) => balancer.is_kept(),
            None => self.reading.is_orphan(key),
        }
    }

    pub(super) fn address_step(&mut self, is_due: bool, now: Duration) -> Option<BalancerStep> {
        if !is_due || self.chunks_len >= self.limits.chunks_max {
            return None;
        }
        self.addresses.retry_due(now);
        // A request that failed as a whole is made again with half as much, so that what a provider chokes
        // on stands alone in the end.
        let len_max = self.limits.chunk_len_max >> self.chunk_failures.min(16);
        let len_max = len_max.max(1);
        let mut batch = Vec::new();
        let mut are_suspects = None;
        loop {
            let pending: Vec<IpAddr> = self.addresses.pending().copied().take(len_max).collect();
            let batch_len = batch.len();
            let mut settled_len = 0;
            for address in pending {
                let Some(change) = self.change(address) else {
                    self.addresses.settle(&address);
                    self.note(address);
                    settled_len += 1;
                    continue;
                };
                // What was refused before does not hold up others.
                let is_suspect = self.addresses.quarantined(&address).is_some();
                if *are_suspects.get_or_insert(is_suspect) == is_suspect && batch.len() < len_max {
                    self.send(&change);
                    batch.push(change);
                }
            }
            let has_moved = settled_len > 0 || batch.len() > batch_len;
            if !has_moved {
                break;
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.chunks_len += 1;
        Some(BalancerStep::Bind(batch))
    }

    /// What has to change about an address; nothing where it is bound as wanted.
    fn change(&self, address: IpAddr) -> Option<AddressChange> {
        let wanted = self.addresses.desired(&address);
        let actual = self.addresses.actual(&address);
        let unknown = self.unknown.get(&address);
        if unknown.is_none() && wanted == actual {
            return None;
        }
        let stood = actual.into_iter().chain(unknown).flatten().cloned();
        Some(AddressChange {
            address,
            stood: stood.collect(),
            wanted: wanted.cloned().unwrap_or_default(),
        })
    }

    fn send(&mut self, change: &AddressChange) {
        self.addresses.send(&change.address);
        self.reading.disturb_address(change.address);
        self.note(change.address);
    }

    pub(super) fn bound(&mut self, outcomes: Vec<AddressOutcome>, now: Duration) {
        self.chunks_len = self.chunks_len.saturating_sub(1);
        let len = outcomes.len();
        let mut whole: Option<Fault> = None;
        for outcome in outcomes {
            let fault = outcome.result.as_ref().err().cloned();
            let is_refused = fault.as_ref().is_some_and(|one| is_refusal(one, len));
            self.bound_one(outcome, is_refused, now);
            if !is_refused && whole.is_none() {
                whole = fault;
            }
        }
        match &whole {
            None => {
                self.chunk_failures = 0;
                self.schedule.succeed(&BalancerWork::Addresses);
            }
            Some(fault) => {
                if fault.kind == FaultKind::ServerFailed {
                    self.chunk_failures += 1;
                }
                if matches!(fault.kind, FaultKind::Lost | FaultKind::Missing) {
                    self.read_soon();
                }
                self.fail(&BalancerWork::Addresses, fault, now);
            }
        }
    }

    fn bound_one(&mut self, outcome: AddressOutcome, is_refused: bool, now: Duration) {
        let AddressOutcome { address, result } = outcome;
        self.reading.disturb_address(address);
        let Some(sent) = self.addresses.complete(&address) else {
            return;
        };
        match result {
            Ok(()) => {
                self.unknown.remove(&address);
                self.addresses.observe(address, sent.desired);
            }
            Err(fault) if is_refused => {
                let retry = self.times.retry_refused;
                let random = jitter_seed(address.to_string().as_bytes());
                self.addresses.quarantine(&address, fault, |attempts| {
                    now.saturating_add(retry.delay(attempts, random))
                });
            }
            Err(fault) if fault.kind == FaultKind::Lost => {
                let before = self.unknown.remove(&address).unwrap_or_default();
                let may = before.iter().chain(sent.desired.iter().flatten()).cloned();
                let may: Bindings = may.collect();
                self.unknown.insert(address, may);
            }
            Err(_) => {}
        }
        self.note(address);
        self.look_at_leaving(address);
        // What an address is to keep may depend on what it has.
        self.desire(address);
    }

    /// Brings in line what is derived from an address, and tells the balancers that it concerns.
    pub(super) fn note(&mut self, address: IpAddr) {
        let actual = self.addresses.actual(&address);
        let in_flight = self.addresses.in_flight().get(&address);
        let sent = in_flight.and_then(|one| one.desired.as_ref());
        let unknown = self.unknown.get(&address);
        let may_stand = actual.into_iter().chain(unknown).chain(sent).flatten();
        let standing: BTreeSet<BalancerKey> = may_stand.map(|one| one.balancer.clone()).collect();
        let desired = self.addresses.desired(&address);
        let is_settled = desired == actual && unknown.is_none() && in_flight.is_none();
        let mut unsettled = BTreeSet::new();
        if !is_settled {
            let wanted = desired.into_iter().flatten();
            unsettled.extend(wanted.map(|one| one.balancer.clone()));
            unsettled.extend(standing.iter().cloned());
        }
        let mut refused = BTreeSet::new();
        if self.addresses.quarantined(&address).is_some() {
            refused.clone_from(&unsettled);
        }
        let mut concerned: BTreeSet<BalancerKey> = standing.union(&unsettled).cloned().collect();
        for references in [&self.standing, &self.unsettled, &self.refused] {
            concerned.extend(references.parents(&address).cloned());
        }
        self.standing.set(&address, standing);
        self.unsettled.set(&address, unsettled);
        self.refused.set(&address, refused);
        for key in concerned {
            if self.is_leaving(&key) {
                self.schedule.push(BalancerWork::Balancer(key.clone()));
            }
            if self.parents.contains_key(&key) {
                self.changed.insert(key);
            }
        }
    }
}

/// A binding for a provider that knows of no ports.
fn without_ports(binding: &Binding) -> Binding {
    Binding {
        targets: [].into(),
        ..binding.clone()
    }
}

/// Whether an address was refused, rather than the request as a whole. A provider that fails for one
/// address alone refuses it.
fn is_refusal(fault: &Fault, len: usize) -> bool {
    match fault.kind {
        FaultKind::Invalid | FaultKind::Conflict | FaultKind::TooLarge | FaultKind::Refused => true,
        FaultKind::ServerFailed => len == 1,
        FaultKind::Unreachable
        | FaultKind::Lost
        | FaultKind::Throttled
        | FaultKind::Denied
        | FaultKind::Missing
        | FaultKind::Malformed
        | FaultKind::Behind
        | FaultKind::Held => false,
    }
}

//! Reading what the provider has, at the start and again and again: what others changed is put right, what
//! nobody knows of is found.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use super::{BalancerKey, BalancerStep, BalancerWork, Balancers, HeldBalancer, Holdings};
use crate::{fault::Fault, tracker::Phase};

/// What is known of reading.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadState {
    /// Everything was read at least once.
    is_read: bool,
    /// What changed while a read is on its way, so that the read says nothing of it.
    pub(super) running: Option<Disturbed>,
    /// When to read again.
    pub(super) next: Option<Duration>,
    /// Balancers that the provider has and nobody asks for, and since when.
    pub(super) orphans: BTreeMap<BalancerKey, (Duration, HeldBalancer)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disturbed {
    pub(super) balancers: BTreeSet<BalancerKey>,
    pub(super) addresses: BTreeSet<IpAddr>,
}

impl ReadState {
    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.next.filter(|_| self.running.is_none())
    }

    pub(super) fn is_orphan(&self, key: &BalancerKey) -> bool {
        self.orphans.contains_key(key)
    }

    /// Somebody speaks for a balancer; tells how it was seen where nobody did before.
    pub(super) fn forgive(&mut self, key: &BalancerKey) -> Option<HeldBalancer> {
        self.orphans.remove(key).map(|(_, held)| held)
    }

    pub(super) fn disturb_balancer(&mut self, key: &BalancerKey) {
        if let Some(disturbed) = &mut self.running {
            disturbed.balancers.insert(key.clone());
        }
    }

    pub(super) fn disturb_address(&mut self, address: IpAddr) {
        if let Some(disturbed) = &mut self.running {
            disturbed.addresses.insert(address);
        }
    }
}

impl Balancers {
    /// Reads as soon as may be.
    pub(super) fn read_soon(&mut self) {
        self.reading.next = Some(Duration::ZERO);
        self.schedule.push(BalancerWork::Holdings);
    }

    pub(super) fn read_step(&mut self, is_due: bool, now: Duration) -> Option<BalancerStep> {
        let is_time = self.reading.next.is_none_or(|at| at <= now);
        if self.reading.running.is_some() || !is_due || !is_time {
            return None;
        }
        let is_running = |phase| {
            matches!(
                phase,
                Phase::CreationInProgress | Phase::UpdateInProgress | Phase::DeletionInProgress
            )
        };
        let running = self.parents.iter();
        let running = running.filter(|(_, one)| is_running(one.lifecycle.phase()));
        self.reading.running = Some(Disturbed {
            balancers: running.map(|(key, _)| key.clone()).collect(),
            addresses: self.addresses.in_flight().keys().copied().collect(),
        });
        self.reading.next = Some(now.saturating_add(self.limits.read_interval));
        Some(BalancerStep::Read)
    }

    pub(super) fn read(&mut self, result: Result<Holdings, Fault>, now: Duration) {
        let disturbed = self.reading.running.take().unwrap_or_default();
        let holdings = match result {
            Ok(holdings) => holdings,
            Err(fault) => {
                self.reading.next = Some(now);
                self.fail(&BalancerWork::Holdings, &fault, now);
                return;
            }
        };
        self.schedule.succeed(&BalancerWork::Holdings);
        let is_first = !std::mem::replace(&mut self.reading.is_read, true);
        let Holdings {
            balancers,
            addresses,
        } = holdings;
        self.find_orphans(&balancers, &disturbed, now);
        let known: Vec<BalancerKey> = self.parents.keys().cloned().collect();
        for key in known {
            if !disturbed.balancers.contains(&key) {
                self.observe_balancer(&key, balancers.get(&key));
            }
        }
        let known = self.addresses.all_actual().keys().copied();
        let unknown = self.unknown.keys().copied();
        let all: BTreeSet<IpAddr> = known
            .chain(unknown)
            .chain(addresses.keys().copied())
            .collect();
        for address in all {
            if !disturbed.addresses.contains(&address) {
                self.observe_address(address, &addresses);
            }
        }
        if is_first {
            for pod in self.leaving.pods() {
                self.look_at_pod(&pod);
            }
            self.begin_if_ready();
        }
    }

    fn observe_address(&mut self, address: IpAddr, addresses: &BTreeMap<IpAddr, super::Bindings>) {
        let seen = addresses.get(&address);
        let was_unknown = self.unknown.remove(&address).is_some();
        if was_unknown || self.addresses.actual(&address) != seen {
            self.addresses.observe(address, seen.cloned());
            self.addresses.mark(address);
            self.schedule.push(BalancerWork::Addresses);
            self.note(address);
            self.look_at_leaving(address);
        }
        self.desire(address);
    }

    fn observe_balancer(&mut self, key: &BalancerKey, held: Option<&HeldBalancer>) {
        let Some(balancer) = self.parents.get_mut(key) else {
            return;
        };
        let was_open = balancer.is_open();
        let before = (balancer.applied.clone(), balancer.frontage.clone());
        if let Some(held) = held {
            balancer.adopt(held);
        } else {
            balancer.vanish();
            let phase = balancer.lifecycle.phase();
            if matches!(phase, Phase::Created | Phase::DeletionPending) {
                // What was bound to it is seen beside it.
                let _ended = balancer.lifecycle.find_absent();
            }
        }
        if balancer.fault.is_some() && balancer.is_programmed() {
            // What failed is done: there is nothing to wait for, nor to try again.
            let work = BalancerWork::Balancer(key.clone());
            self.schedule.succeed(&work);
            self.schedule.push(work);
        }
        let after = (balancer.applied.clone(), balancer.frontage.clone());
        if before != after || was_open != balancer.is_open() || held.is_none() {
            self.reconsider_addresses(key);
            self.touch(key);
        }
    }

    /// Balancers that nobody asks for are left alone for a while: somebody may still tell of them.
    fn find_orphans(
        &mut self,
        held: &BTreeMap<BalancerKey, HeldBalancer>,
        disturbed: &Disturbed,
        now: Duration,
    ) {
        let is_unclaimed = |key: &&BalancerKey| {
            !self.parents.contains_key(*key) && !disturbed.balancers.contains(*key)
        };
        let found: Vec<BalancerKey> = held.keys().filter(is_unclaimed).cloned().collect();
        let before = std::mem::take(&mut self.reading.orphans);
        for key in found {
            // As long as not everything is told, nobody can be known to be missing.
            let since = before.get(&key).filter(|_| self.is_synced);
            let since = since.map_or(now, |(since, _)| *since);
            if self.is_synced && now.saturating_sub(since) >= self.times.orphan_after {
                let balancer = self.parents.entry(key.clone()).or_default();
                balancer.is_orphan = true;
                balancer.may_stand = true;
                balancer.lifecycle.retire_remnant();
                self.reconsider_addresses(&key);
                self.touch(&key);
            } else {
                let seen = held.get(&key).cloned().unwrap_or_default();
                self.reading.orphans.insert(key, (since, seen));
            }
        }
    }
}

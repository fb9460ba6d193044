//! A provider of load balancers in memory, with faults.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bindery_core::{
    Fault, FaultKind,
    balancers::{
        AddressChange, AddressOutcome, BalancerKey, BalancerSpec, Bindings, Frontage, HeldBalancer,
        Holdings,
    },
};
use bindery_engine::balancing::LoadBalancer;
use futures::future::BoxFuture;

/// A provider in memory. Clones are the same.
#[derive(Clone, Default)]
pub struct FakeLoadBalancer(Arc<Mutex<FakeBalancers>>);

/// What it has, and what is to go wrong.
#[derive(Debug, Default)]
pub struct FakeBalancers {
    /// Everything that it has.
    pub holdings: Holdings,
    /// The answers to the next requests, in place of the real ones. A lost answer is given after the request
    /// was carried out.
    pub faults: VecDeque<Fault>,
    /// Addresses that it never takes: a request with one of them is refused as a whole.
    pub poison: BTreeSet<IpAddr>,
    /// Every request, in words.
    pub log: Vec<String>,
    next: u8,
}

impl FakeLoadBalancer {
    /// What it has, and what is to go wrong.
    pub fn lock(&self) -> MutexGuard<'_, FakeBalancers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests begin like this.
    #[must_use]
    pub fn requests(&self, start: &str) -> usize {
        let state = self.lock();
        let log = state.log.iter();
        log.filter(|line| line.starts_with(start)).count()
    }
}

impl FakeBalancers {
    /// Notes a request; whether it is carried out, and the fault that it ends with.
    fn begin(&mut self, line: String) -> (bool, Option<Fault>) {
        self.log.push(line);
        let fault = self.faults.pop_front();
        let is_done = fault.as_ref().is_none_or(|one| one.kind == FaultKind::Lost);
        (is_done, fault)
    }

    fn ensure(
        &mut self,
        key: &BalancerKey,
        spec: &BalancerSpec,
        previous: &[IpAddr],
    ) -> Result<Frontage, Fault> {
        let (is_done, fault) = self.begin(format!("ensure {key}"));
        let held = self.holdings.balancers.get(key);
        let mut frontage = held.map(|held| held.frontage.clone()).unwrap_or_default();
        if is_done {
            if frontage.addresses.is_empty() {
                frontage.addresses = previous.to_vec();
            }
            if frontage.addresses.is_empty() {
                self.next += 1;
                frontage.addresses.push([203, 0, 113, self.next].into());
            }
            let held = HeldBalancer {
                frontage: frontage.clone(),
                digest: Some(spec.digest()),
            };
            self.holdings.balancers.insert(key.clone(), held);
        }
        fault.map_or(Ok(frontage), Err)
    }

    fn remove(&mut self, key: &BalancerKey) -> Result<(), Fault> {
        let (is_done, fault) = self.begin(format!("remove {key}"));
        if is_done {
            let mut bound = self.holdings.addresses.values().flatten();
            if bound.any(|one| one.balancer == *key) {
                return Err(Fault::new(FaultKind::Conflict, "addresses are bound to it"));
            }
            self.holdings.balancers.remove(key);
        }
        fault.map_or(Ok(()), Err)
    }

    fn bind(&mut self, changes: &[AddressChange]) -> Result<Vec<AddressOutcome>, Fault> {
        let (is_done, fault) = self.begin(format!("bind {}", changes.len()));
        if changes.iter().any(|one| self.poison.contains(&one.address)) {
            return Err(Fault::new(FaultKind::Invalid, "no such address").with_code(422_u16));
        }
        let mut outcomes = Vec::new();
        for change in changes {
            if is_done {
                self.bind_one(change);
            }
            outcomes.push(AddressOutcome {
                address: change.address,
                result: Ok(()),
            });
        }
        fault.map_or(Ok(outcomes), Err)
    }

    /// Only what a change names goes; what nobody knew of stays.
    fn bind_one(&mut self, change: &AddressChange) {
        let stands = self.holdings.addresses.remove(&change.address);
        let named = change.stood.iter().chain(&change.wanted);
        let named: BTreeSet<_> = named.map(|one| (one.location, &one.balancer)).collect();
        let stays = stands.iter().flatten();
        let stays = stays.filter(|one| !named.contains(&(one.location, &one.balancer)));
        let bindings: Bindings = stays.chain(&change.wanted).cloned().collect();
        if !bindings.is_empty() {
            self.holdings.addresses.insert(change.address, bindings);
        }
    }
}

impl LoadBalancer for FakeLoadBalancer {
    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        previous: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        let answer = self.lock().ensure(key, spec, previous);
        Box::pin(std::future::ready(answer))
    }

    fn remove<'a>(&'a self, key: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>> {
        let answer = self.lock().remove(key);
        Box::pin(std::future::ready(answer))
    }

    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>> {
        let answer = self.lock().bind(changes);
        Box::pin(std::future::ready(answer))
    }

    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>> {
        let mut state = self.lock();
        let (_, fault) = state.begin("read".to_owned());
        let answer = fault.map_or_else(|| Ok(state.holdings.clone()), Err);
        Box::pin(std::future::ready(answer))
    }
}

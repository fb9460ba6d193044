//! A provider of load balancers in memory, that takes its time and fails as it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bindery_core::balancers::{
    AddressChange, AddressOutcome, BalancerKey, BalancerLimits, BalancerSpec, Frontage,
    HeldBalancer, Holdings,
};
use bindery_core::{Fault, FaultKind};
use bindery_engine::balancing::LoadBalancer;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Requests in a row that Azure takes for a balancer: its address, itself, its registration.
const REQUESTS_EACH: u32 = 3;

/// See the module. It takes as much at a time as the backend for Azure does.
pub(crate) struct Cloud {
    latency: Duration,
    state: Mutex<CloudState>,
}

/// What it has, what it was asked, and what is to go wrong.
#[derive(Default)]
pub(crate) struct CloudState {
    pub(crate) holdings: Holdings,
    pub(crate) asked: Asked,
    pub(crate) faults: Option<CloudFaults>,
    /// Addresses that it never takes: a request with one of them is refused as a whole.
    pub(crate) poison: BTreeSet<IpAddr>,
    /// It keeps nothing of what it is told.
    pub(crate) is_forgetful: bool,
    /// Is told of each address that was bound.
    pub(crate) seen: Option<mpsc::UnboundedSender<(IpAddr, Instant)>>,
    /// How many addresses are bound to each balancer.
    bound: BTreeMap<BalancerKey, usize>,
    random: u64,
    next_front: u32,
}

/// Which parts of the requests go wrong, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloudFaults {
    /// Not done, and to be tried again after a while.
    pub(crate) throttled: u64,
    pub(crate) retry_after: Duration,
    /// Done, and not answered.
    pub(crate) lost: u64,
}

/// Requests since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) ensure: usize,
    pub(crate) remove: usize,
    pub(crate) bind: usize,
    pub(crate) read: usize,
    pub(crate) throttled: usize,
    pub(crate) lost: usize,
    /// Addresses in the largest request, and its bytes as Azure would get it.
    pub(crate) largest_len: usize,
    pub(crate) largest_bytes: usize,
}

impl Asked {
    /// Requests that change something.
    pub(crate) fn writes(&self) -> usize {
        self.ensure + self.remove + self.bind
    }
}

enum Fate {
    Answered,
    Throttled(Duration),
    Lost,
}

impl Cloud {
    /// An empty one, each of whose requests takes so long.
    pub(crate) fn new(latency: Duration) -> Self {
        Self {
            latency,
            state: Mutex::default(),
        }
    }

    /// Everything of it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CloudState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many balancers and addresses it has.
    pub(crate) fn held(&self) -> (usize, usize) {
        let state = self.lock();
        let Holdings {
            balancers,
            addresses,
        } = &state.holdings;
        (balancers.len(), addresses.len())
    }

    /// Waits as long as so many requests in a row take, and does it then.
    async fn ask<T>(
        &self,
        requests: u32,
        act: impl FnOnce(&mut CloudState) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        if !self.latency.is_zero() {
            sleep(self.latency * requests).await;
        }
        let mut state = self.lock();
        match state.fate() {
            Fate::Answered => act(&mut state),
            Fate::Throttled(wait) => {
                state.asked.throttled += 1;
                let fault = Fault::new(FaultKind::Throttled, "too many requests");
                Err(fault.with_code(429_u16).with_retry_after(wait))
            }
            Fate::Lost => {
                state.asked.lost += 1;
                act(&mut state)?;
                Err(Fault::new(FaultKind::Lost, "no answer"))
            }
        }
    }
}

impl CloudState {
    fn fate(&mut self) -> Fate {
        let Some(faults) = self.faults else {
            return Fate::Answered;
        };
        // The same row of numbers in every run.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = self.random.wrapping_add(1_442_695_040_888_963_407);
        let chance = (self.random >> 33) % 100;
        if chance < faults.throttled {
            Fate::Throttled(faults.retry_after)
        } else if chance < faults.throttled + faults.lost {
            Fate::Lost
        } else {
            Fate::Answered
        }
    }

    /// It has this from now on.
    pub(crate) fn adopt(&mut self, holdings: Holdings) {
        for binding in holdings.addresses.values().flatten() {
            *self.bound.entry(binding.balancer.clone()).or_default() += 1;
        }
        self.holdings = holdings;
    }

    /// A balancer is made or changed.
    pub(crate) fn ensure(&mut self, key: &BalancerKey, spec: &BalancerSpec) -> Frontage {
        self.asked.ensure += 1;
        let held = self.holdings.balancers.get(key);
        let mut frontage = held.map(|held| held.frontage.clone()).unwrap_or_default();
        if frontage.addresses.is_empty() {
            self.next_front += 1;
            let address = Ipv4Addr::from_bits(0x1400_0000 + self.next_front);
            frontage.addresses.push(address.into());
        }
        if !self.is_forgetful {
            let held = HeldBalancer {
                frontage: frontage.clone(),
                digest: Some(spec.digest()),
            };
            self.holdings.balancers.insert(key.clone(), held);
        }
        frontage
    }

    /// A balancer goes.
    pub(crate) fn remove(&mut self, key: &BalancerKey) -> Result<(), Fault> {
        self.asked.remove += 1;
        if self.bound.contains_key(key) {
            return Err(Fault::new(FaultKind::Conflict, "addresses are bound to it"));
        }
        self.holdings.balancers.remove(key);
        Ok(())
    }

    /// Addresses are bound.
    pub(crate) fn bind(&mut self, changes: &[AddressChange]) -> Result<Vec<AddressOutcome>, Fault> {
        self.asked.bind += 1;
        if changes.len() > self.asked.largest_len {
            self.asked.largest_len = changes.len();
            self.asked.largest_bytes = body_len(changes);
        }
        let is_bad =
            |one: &AddressChange| !one.wanted.is_empty() && self.poison.contains(&one.address);
        if changes.iter().any(is_bad) {
            return Err(Fault::new(FaultKind::Invalid, "no such address").with_code(422_u16));
        }
        let now = Instant::now();
        let bound = changes.iter().map(|change| {
            if !self.is_forgetful {
                self.bind_one(change);
            }
            if let Some(seen) = self.seen.as_ref().filter(|_| !change.wanted.is_empty()) {
                // Whoever looked has stopped looking.
                let _stopped = seen.send((change.address, now));
            }
            AddressOutcome {
                address: change.address,
                result: Ok(()),
            }
        });
        Ok(bound.collect())
    }

    fn bind_one(&mut self, change: &AddressChange) {
        let before = self.holdings.addresses.remove(&change.address);
        for binding in before.iter().flatten() {
            if let Some(count) = self.bound.get_mut(&binding.balancer) {
                *count -= 1;
                if *count == 0 {
                    self.bound.remove(&binding.balancer);
                }
            }
        }
        for binding in &change.wanted {
            *self.bound.entry(binding.balancer.clone()).or_default() += 1;
        }
        if !change.wanted.is_empty() {
            let wanted = change.wanted.clone();
            self.holdings.addresses.insert(change.address, wanted);
        }
    }
}

/// Bytes of a request as the Service Gateway of Azure takes it.
fn body_len(changes: &[AddressChange]) -> usize {
    let mut locations: BTreeMap<IpAddr, BTreeMap<IpAddr, Vec<String>>> = BTreeMap::new();
    for change in changes {
        for (binding, stays) in change
            .stood
            .iter()
            .map(|one| (one, false))
            .chain(change.wanted.iter().map(|one| (one, true)))
        {
            let Some(location) = binding.location else {
                continue;
            };
            let addresses = locations.entry(location).or_default();
            let services = addresses.entry(change.address).or_default();
            if stays {
                services.push(binding.balancer.to_string());
            }
        }
    }
    let locations: Vec<_> = locations
        .into_iter()
        .map(|(location, addresses)| {
            let addresses: Vec<_> = addresses
                .into_iter()
                .map(|(address, services)| json!({ "address": address, "services": services }))
                .collect();
            json!({
                "addressLocation": location, "addressUpdateAction": "PartialUpdate",
                "addresses": addresses,
            })
        })
        .collect();
    let body = json!({ "action": "PartialUpdate", "addressLocations": locations });
    body.to_string().len()
}

impl LoadBalancer for Cloud {
    fn limits(&self) -> BalancerLimits {
        limits()
    }

    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        _: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        Box::pin(self.ask(REQUESTS_EACH, |state| Ok(state.ensure(key, spec))))
    }

    fn remove<'a>(&'a self, key: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.ask(REQUESTS_EACH, |state| state.remove(key)))
    }

    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>> {
        Box::pin(self.ask(1, |state| state.bind(changes)))
    }

    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>> {
        Box::pin(self.ask(REQUESTS_EACH, |state| {
            state.asked.read += 1;
            Ok(state.holdings.clone())
        }))
    }
}

/// How much the backend for Azure takes at a time.
pub(crate) fn limits() -> BalancerLimits {
    BalancerLimits {
        chunk_len_max: 1000,
        balancers_max: 20,
        needs_location: true,
        binds_ports: false,
        ..BalancerLimits::default()
    }
}

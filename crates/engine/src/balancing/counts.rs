//! Counters of what was done about load balancers.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{
    Fault,
    balancers::{AddressOutcome, BalancerEnd},
};

use crate::histogram::{Distribution, Histogram};

/// Seconds of one operation: a machine of one's own needs a millisecond, a cloud minutes.
const OPERATION_SECONDS: &[f64] = &[
    0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// What was asked of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BalancerOperation {
    /// A balancer was to be made.
    Create,
    /// A balancer was to be changed.
    Update,
    /// A balancer was to go.
    Delete,
    /// Addresses were to be bound.
    Locations,
    /// Everything was to be read.
    Read,
}

/// What was to become of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressAct {
    /// It was bound to nothing before.
    Add,
    /// It was to be bound to something else.
    Update,
    /// It was to be bound to nothing.
    Remove,
}

impl BalancerOperation {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Locations => "locations",
            Self::Read => "read",
        }
    }
}

impl AddressAct {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Remove => "remove",
        }
    }
}

/// Counters since the start.
#[derive(Debug)]
pub struct BalancerMetrics {
    counts: Mutex<BTreeMap<(BalancerOperation, &'static str), u64>>,
    retries: Mutex<BTreeMap<BalancerOperation, u64>>,
    seconds: Mutex<BTreeMap<BalancerOperation, Histogram>>,
    addresses: Mutex<BTreeMap<AddressAct, u64>>,
    /// How long endpoints waited for their balancer to stand.
    pub buffer_seconds: Histogram,
}

impl Default for BalancerMetrics {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            retries: Mutex::default(),
            seconds: Mutex::default(),
            addresses: Mutex::default(),
            buffer_seconds: Histogram::new(OPERATION_SECONDS),
        }
    }
}

impl BalancerMetrics {
    /// How many operations ended how: with `success`, or with the kind of a fault.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<(BalancerOperation, &'static str), u64> {
        lock(&self.counts).clone()
    }

    /// How many operations failed and are tried again.
    #[must_use]
    pub fn retries(&self) -> BTreeMap<BalancerOperation, u64> {
        lock(&self.retries).clone()
    }

    /// How long operations took.
    #[must_use]
    pub fn durations(&self) -> Vec<(BalancerOperation, Distribution)> {
        let seconds = lock(&self.seconds);
        let all = seconds.iter();
        all.map(|(operation, one)| (*operation, one.distribution()))
            .collect()
    }

    /// How many addresses were bound as wanted.
    #[must_use]
    pub fn addresses(&self) -> BTreeMap<AddressAct, u64> {
        lock(&self.addresses).clone()
    }

    pub(super) fn count(&self, operation: BalancerOperation, end: &BalancerEnd, took: Duration) {
        let fault: Option<&Fault> = match end {
            BalancerEnd::Ensured(result) => result.as_ref().err(),
            BalancerEnd::Removed(result) => result.as_ref().err(),
            BalancerEnd::Read(result) => result.as_ref().err(),
            BalancerEnd::Bound(outcomes) => {
                let mut faults = outcomes.iter();
                faults.find_map(|outcome| outcome.result.as_ref().err())
            }
        };
        let status = fault.map_or("success", |fault| fault.kind.as_str());
        *lock(&self.counts).entry((operation, status)).or_default() += 1;
        if fault.is_some_and(|fault| !fault.kind.is_terminal()) {
            *lock(&self.retries).entry(operation).or_default() += 1;
        }
        let mut seconds = lock(&self.seconds);
        let histogram = seconds.entry(operation);
        histogram
            .or_insert_with(|| Histogram::new(OPERATION_SECONDS))
            .observe_duration(took);
    }

    pub(super) fn count_addresses(
        &self,
        outcomes: &[AddressOutcome],
        acts: &BTreeMap<IpAddr, AddressAct>,
    ) {
        let mut counts = lock(&self.addresses);
        for outcome in outcomes.iter().filter(|one| one.result.is_ok()) {
            if let Some(act) = acts.get(&outcome.address) {
                *counts.entry(*act).or_default() += 1;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

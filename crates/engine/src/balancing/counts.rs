//! Counters of what was done about load balancers.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bindery_core::{
    Fault,
    balancers::{AddressOutcome, BalancerEnd, BalancerKey},
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
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Locations,
        Self::Read,
    ];

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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Add, Self::Update, Self::Remove];

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

/// Counters since the start. Each is counted where it happens; none is made up by looking at everything.
#[derive(Debug)]
pub struct BalancerMetrics {
    counts: Mutex<BTreeMap<(BalancerOperation, &'static str), u64>>,
    retries: Mutex<BTreeMap<BalancerOperation, u64>>,
    seconds: [Histogram; BalancerOperation::ALL.len()],
    queue_seconds: [Histogram; BalancerOperation::ALL.len()],
    addresses: Mutex<BTreeMap<AddressAct, u64>>,
    /// Endpoints of Services that began to wait for their balancer to stand.
    pub buffered_endpoints: AtomicU64,
    /// Pods that began to wait for their gateway to stand.
    pub buffered_pods: AtomicU64,
    /// How long endpoints waited for their balancer to stand.
    pub buffer_seconds: Histogram,
}

impl Default for BalancerMetrics {
    fn default() -> Self {
        let histograms = || BalancerOperation::ALL.map(|_| Histogram::new(OPERATION_SECONDS));
        Self {
            counts: Mutex::default(),
            retries: Mutex::default(),
            seconds: histograms(),
            queue_seconds: histograms(),
            addresses: Mutex::default(),
            buffered_endpoints: AtomicU64::new(0),
            buffered_pods: AtomicU64::new(0),
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

    /// How long operations of a kind took.
    #[must_use]
    pub fn durations(&self, operation: BalancerOperation) -> Distribution {
        self.seconds[operation as usize].distribution()
    }

    /// How long operations of a kind waited for others to end before they began.
    #[must_use]
    pub fn queue_times(&self, operation: BalancerOperation) -> Distribution {
        self.queue_seconds[operation as usize].distribution()
    }

    /// How many addresses were bound as wanted.
    #[must_use]
    pub fn addresses(&self) -> BTreeMap<AddressAct, u64> {
        lock(&self.addresses).clone()
    }

    pub(super) fn count(&self, operation: BalancerOperation, end: &BalancerEnd, took: Duration) {
        let fault = fault(end);
        let status = fault.map_or("success", |fault| fault.kind.as_str());
        *lock(&self.counts).entry((operation, status)).or_default() += 1;
        if fault.is_some_and(|fault| !fault.kind.is_terminal()) {
            *lock(&self.retries).entry(operation).or_default() += 1;
        }
        self.seconds[operation as usize].observe_duration(took);
    }

    pub(super) fn count_begun(&self, operation: BalancerOperation, waited: Duration) {
        self.queue_seconds[operation as usize].observe_duration(waited);
    }

    pub(super) fn count_buffered(&self, key: &BalancerKey, more: usize) {
        let count = match key {
            BalancerKey::Service(_) => &self.buffered_endpoints,
            BalancerKey::Egress(_) => &self.buffered_pods,
        };
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        count.fetch_add(more, Ordering::Relaxed);
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

/// Why a step failed, or a part of it.
pub(super) fn fault(end: &BalancerEnd) -> Option<&Fault> {
    match end {
        BalancerEnd::Ensured(result) => result.as_ref().err(),
        BalancerEnd::Removed(result) => result.as_ref().err(),
        BalancerEnd::Read(result) => result.as_ref().err(),
        BalancerEnd::Bound(outcomes) => {
            let mut faults = outcomes.iter();
            faults.find_map(|outcome| outcome.result.as_ref().err())
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Counters of what was done about load balancers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::balancers::BalancerEnd;

use crate::histogram::{Distribution, Histogram};

/// Seconds of one operation: a machine of one's own needs a millisecond, a cloud minutes.
const OPERATION_SECONDS: &[f64] = &[
    0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// Counters since the start.
#[derive(Debug, Default)]
pub struct BalancerMetrics {
    counts: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    seconds: Mutex<BTreeMap<&'static str, Histogram>>,
    addresses: Mutex<BTreeMap<&'static str, u64>>,
}

impl BalancerMetrics {
    /// How many operations ended how: `ensure`, `delete`, `locations` and `read`, each with `success` or
    /// the kind of the fault.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        lock(&self.counts).clone()
    }

    /// How long operations took.
    #[must_use]
    pub fn durations(&self) -> Vec<(&'static str, Distribution)> {
        let seconds = lock(&self.seconds);
        let all = seconds.iter();
        all.map(|(operation, one)| (*operation, one.distribution()))
            .collect()
    }

    /// How many addresses were bound as wanted, were refused, or are unknown since the answer was lost.
    #[must_use]
    pub fn addresses(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.addresses).clone()
    }

    pub(super) fn count(&self, operation: &'static str, end: &BalancerEnd, duration: Duration) {
        let status = match end {
            BalancerEnd::Ensured(Err(fault))
            | BalancerEnd::Removed(Err(fault))
            | BalancerEnd::Read(Err(fault)) => fault.kind.as_str(),
            BalancerEnd::Bound(outcomes) => {
                let mut counts = lock(&self.addresses);
                let mut status = "success";
                for outcome in outcomes {
                    let word = match &outcome.result {
                        Ok(()) => "synced",
                        Err(fault) => {
                            status = fault.kind.as_str();
                            status
                        }
                    };
                    *counts.entry(word).or_default() += 1;
                }
                status
            }
            BalancerEnd::Ensured(Ok(_))
            | BalancerEnd::Removed(Ok(()))
            | BalancerEnd::Read(Ok(_)) => "success",
        };
        *lock(&self.counts).entry((operation, status)).or_default() += 1;
        let mut seconds = lock(&self.seconds);
        let histogram = seconds.entry(operation);
        histogram
            .or_insert_with(|| Histogram::new(OPERATION_SECONDS))
            .observe_duration(duration);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Counters of what the controllers did.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start; read by whoever serves metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests to the Kubernetes API, of every sort.
    pub requests: AtomicU64,
    /// Finalizers and annotations written.
    pub metadata_writes: AtomicU64,
    /// Statuses of records and endpoints written.
    pub status_writes: AtomicU64,
    /// Statuses of zones written.
    pub zone_status_writes: AtomicU64,
    /// Requests that failed and are tried again.
    pub faults: AtomicU64,
    /// Watches that had to begin again with a list.
    pub watch_restarts: AtomicU64,
    /// Kubernetes Events written, repeats among them.
    pub events_written: AtomicU64,
    /// Kubernetes Events that were not written: too many waited, or the API did not take them.
    pub events_dropped: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

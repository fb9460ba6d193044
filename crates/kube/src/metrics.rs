//! Counters of what the controllers did.

use std::sync::atomic::{AtomicU64, Ordering};

use bindery_engine::Histogram;

/// Seconds from seeing an object to serving it: some milliseconds on one machine, a second where
/// other servers fetch the zone, minutes where a name server was away.
const SERVED_SECONDS: &[f64] = &[
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0,
];

/// Counters since the start; read by whoever serves metrics.
#[derive(Debug)]
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
    /// Sets of ours that others wrote over in DNS and that were put right.
    pub mended: AtomicU64,
    /// Objects of which what they say was compared with what is served, though nothing had happened.
    pub compared: AtomicU64,
    /// How long it took from seeing a new generation of an object until all of it was served.
    pub served_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: AtomicU64::default(),
            metadata_writes: AtomicU64::default(),
            status_writes: AtomicU64::default(),
            zone_status_writes: AtomicU64::default(),
            faults: AtomicU64::default(),
            watch_restarts: AtomicU64::default(),
            events_written: AtomicU64::default(),
            events_dropped: AtomicU64::default(),
            mended: AtomicU64::default(),
            compared: AtomicU64::default(),
            served_seconds: Histogram::new(SERVED_SECONDS),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

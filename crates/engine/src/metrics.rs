//! Counters of what the engine did.

use std::sync::atomic::{AtomicU64, Ordering};

use bindery_core::zones::Completion;

use crate::histogram::Histogram;

/// Seconds for one message to be answered: a server on the same machine needs less than one
/// millisecond, one that waits for its disk some ten, and the client gives up after some seconds.
const ANSWER_SECONDS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Record sets in one message; 500 fill one.
const SETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0];

/// Counters since the start; read by whoever serves metrics.
#[derive(Debug)]
pub struct Metrics {
    /// Update messages and the like that the servers acknowledged or may have applied.
    pub sets_sent: AtomicU64,
    /// Sets that were read back.
    pub sets_verified: AtomicU64,
    /// Batches sent.
    pub batches: AtomicU64,
    /// Sets that a server refused one by one.
    pub sets_refused: AtomicU64,
    /// Steps that failed as a whole and are tried again.
    pub steps_failed: AtomicU64,
    /// Transfers of whole zones.
    pub transfers: AtomicU64,
    /// How long the leader took to answer each update with changes, where it answered.
    pub update_seconds: Histogram,
    /// How many sets each such update had.
    pub update_sets: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            sets_sent: AtomicU64::default(),
            sets_verified: AtomicU64::default(),
            batches: AtomicU64::default(),
            sets_refused: AtomicU64::default(),
            steps_failed: AtomicU64::default(),
            transfers: AtomicU64::default(),
            update_seconds: Histogram::new(ANSWER_SECONDS),
            update_sets: Histogram::new(SETS),
        }
    }
}

impl Metrics {
    pub(crate) fn count(&self, completion: &Completion) {
        match completion {
            Completion::Read(Ok(_)) => add(&self.transfers, 1),
            Completion::Checked(Ok(_))
            | Completion::Closed(Ok(()))
            | Completion::Renewed(_, Ok(()))
            | Completion::Signed(_, Ok(_))
            | Completion::Rescued(_)
            | Completion::Differs(..)
            | Completion::Followed(_, Ok(_)) => {}
            Completion::Sent(sent) => {
                add(&self.batches, 1);
                let lost = sent.lost.as_ref().map_or(0, |(_, keys)| keys.len());
                add(&self.sets_sent, sent.to_verify.len() + lost);
                add(&self.sets_refused, sent.refused.len());
                add(&self.steps_failed, usize::from(sent.unsent.is_some()));
            }
            Completion::Verified(keys, Ok(_)) | Completion::ChangesRead(keys, Ok(_)) => {
                add(&self.sets_verified, keys.len());
            }
            Completion::Read(Err(_))
            | Completion::Checked(Err(_))
            | Completion::ChangesRead(_, Err(_))
            | Completion::Verified(_, Err(_))
            | Completion::Renewed(_, Err(_))
            | Completion::Signed(_, Err(_))
            | Completion::Followed(_, Err(_))
            | Completion::Closed(Err(_)) => add(&self.steps_failed, 1),
        }
    }
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(u64::try_from(amount).unwrap_or(u64::MAX), Ordering::Relaxed);
}

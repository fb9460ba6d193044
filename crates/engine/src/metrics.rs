//! Counters of what the engine did.

use std::sync::atomic::{AtomicU64, Ordering};

use bindery_core::zones::Completion;

/// Counters since the start; read by whoever serves metrics.
#[derive(Debug, Default)]
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
}

impl Metrics {
    pub(crate) fn count(&self, completion: &Completion) {
        match completion {
            Completion::Read(Ok(_)) => add(&self.transfers, 1),
            Completion::Checked(Ok(_))
            | Completion::Caught(Ok(_))
            | Completion::Closed(Ok(()))
            | Completion::Renewed(_, Ok(()))
            | Completion::Followed(_, Ok(_)) => {}
            Completion::Sent(sent) => {
                add(&self.batches, 1);
                let lost = sent.lost.as_ref().map_or(0, |(_, keys)| keys.len());
                add(&self.sets_sent, sent.to_verify.len() + lost);
                add(&self.sets_refused, sent.refused.len());
                add(&self.steps_failed, usize::from(sent.unsent.is_some()));
            }
            Completion::Verified(keys, Ok(_)) => add(&self.sets_verified, keys.len()),
            Completion::Read(Err(_))
            | Completion::Checked(Err(_))
            | Completion::Caught(Err(_))
            | Completion::Verified(_, Err(_))
            | Completion::Renewed(_, Err(_))
            | Completion::Followed(_, Err(_))
            | Completion::Closed(Err(_)) => add(&self.steps_failed, 1),
        }
    }
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(u64::try_from(amount).unwrap_or(u64::MAX), Ordering::Relaxed);
}

//! Zones that wait for somebody to look at them, each once however often it was named.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bindery_core::Name;
use tokio::sync::Notify;

/// See the module.
#[derive(Default)]
pub(super) struct Pending {
    zones: Mutex<BTreeSet<Name>>,
    wake: Notify,
}

impl Pending {
    /// Names a zone and wakes who waits.
    pub(super) fn add(&self, zone: &Name) {
        self.zones
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(zone.clone());
        self.wake.notify_one();
    }

    /// Waits until zones are named, and takes them.
    ///
    /// # Cancellation
    /// If dropped, no zone is lost.
    pub(super) async fn take(&self) -> BTreeSet<Name> {
        loop {
            {
                let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
                if !zones.is_empty() {
                    return std::mem::take(&mut *zones);
                }
            }
            self.wake.notified().await;
        }
    }
}

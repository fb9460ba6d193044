//! What is done to one zone is done in order, and what is done to others beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use bindery_core::Name;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The zones that somebody works on, and who waits for which.
///
/// Limits: one entry for each zone that is worked on or waited for.
#[derive(Default)]
pub struct ZoneLocks(std::sync::Mutex<BTreeMap<Name, Arc<Mutex<()>>>>);

/// A zone that is worked on until this is dropped.
pub struct ZoneLock<'a> {
    locks: &'a ZoneLocks,
    zone: Name,
    held: Option<OwnedMutexGuard<()>>,
}

impl ZoneLocks {
    /// Waits until nobody works on the zone.
    ///
    /// Cancellation: nothing is held.
    pub async fn take(&self, zone: &Name) -> ZoneLock<'_> {
        let lock = Arc::clone(self.lock().entry(zone.clone()).or_default());
        ZoneLock {
            locks: self,
            zone: zone.clone(),
            held: Some(lock.lock_owned().await),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Mutex<()>>>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ZoneLock<'_> {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        self.held = None;
        // Everybody who waits for it holds it too.
        let is_last = |lock: &Arc<Mutex<()>>| Arc::strong_count(lock) == 1;
        if locks.get(&self.zone).is_some_and(is_last) {
            locks.remove(&self.zone);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_zone_waits_for_its_turn_and_others_do_not() {
        let locks = ZoneLocks::default();
        let name = |text: &str| Name::parse(text).expect("the fixture is a name");
        let first = locks.take(&name("a.example")).await;
        assert!(locks.take(&name("b.example")).now_or_never().is_some());
        let same = name("A.example");
        let mut second = Box::pin(locks.take(&same));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        drop(second.await);
        assert!(locks.lock().is_empty());
    }
}

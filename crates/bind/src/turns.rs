//! What is done to one zone is done in order, and what is done to others beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use bindery_core::Name;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The zones that somebody works on, and who waits for which.
///
/// Limits: one entry for each zone that is worked on or waited for.
#[derive(Default)]
pub(super) struct Turns(std::sync::Mutex<BTreeMap<Name, Arc<Mutex<()>>>>);

/// A zone that is worked on until this is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    zone: Name,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody works on the zone.
    ///
    /// Cancellation: nothing is held.
    pub(super) async fn take(&self, zone: &Name) -> Turn<'_> {
        let turn = Arc::clone(self.lock().entry(zone.clone()).or_default());
        Turn {
            turns: self,
            zone: zone.clone(),
            held: Some(turn.lock_owned().await),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Mutex<()>>>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        self.held = None;
        // Everybody who waits for it holds it too.
        let is_last = |turn: &Arc<Mutex<()>>| Arc::strong_count(turn) == 1;
        if turns.get(&self.zone).is_some_and(is_last) {
            turns.remove(&self.zone);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_zone_waits_for_its_turn_and_others_do_not() {
        let turns = Turns::default();
        let name = |text: &str| Name::parse(text).expect("the fixture is a name");
        let first = turns.take(&name("a.example")).await;
        assert!(turns.take(&name("b.example")).now_or_never().is_some());
        let same = name("A.example");
        let mut second = Box::pin(turns.take(&same));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        drop(second.await);
        assert!(turns.lock().is_empty());
    }
}

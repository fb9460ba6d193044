//! State behind a lock, with readers that wait for what others put in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// State behind a lock, and a signal that it changed. Every queue here is one, with its own rule of what
/// comes out next.
///
/// Guarantees: changing it never waits, so a reader that hangs delays nobody. A change that nobody waits for
/// is remembered, so that no reader sleeps through it.
/// Limits: one change is remembered; a reader that leaves something behind for another says so with
/// [`Monitor::wake`].
#[derive(Debug, Default)]
pub(crate) struct Monitor<T> {
    state: Mutex<T>,
    changed: Notify,
}

impl<T> Monitor<T> {
    /// This state, which nobody has seen yet.
    pub(crate) fn new(state: T) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Changes the state and wakes one reader.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.wake();
        result
    }

    /// Wakes one reader.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns after the next change, or at once where one is remembered.
    ///
    /// Cancellation: nothing is lost if it is dropped while waiting.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What can be taken out of the state; waits for changes until there is something.
    ///
    /// Cancellation: nothing is lost if it is dropped while waiting.
    pub(crate) async fn take<R>(&self, take: impl Fn(&mut T) -> Option<R>) -> R {
        loop {
            let taken = take(&mut self.lock());
            if let Some(taken) = taken {
                return taken;
            }
            self.changed().await;
        }
    }

    /// The state. Held for moments only, and never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_slept_through() {
        let monitor = Monitor::new(0);
        monitor.change(|state| *state = 7);
        assert_eq!(
            monitor.take(|state| (*state == 7).then_some(*state)).await,
            7
        );
        // It was noticed by looking; the signal is still there for who waits.
        monitor.changed().await;
    }
}

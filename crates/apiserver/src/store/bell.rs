//! A bell that is heard by all who watch a resource, in the order in which they began to wait: woken in any
//! order, no two runs of a simulation would be the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Rung when a resource has new events.
#[derive(Default)]
pub(crate) struct Bell(Arc<Rope>);

/// Somebody who listens to a bell.
pub(crate) struct Listener {
    rope: Arc<Rope>,
    heard: u64,
}

#[derive(Default)]
struct Rope {
    rings: AtomicU64,
    is_gone: AtomicBool,
    waiting: Notify,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.rings.fetch_add(1, Ordering::SeqCst);
        self.0.waiting.notify_waiters();
    }

    /// A listener that has heard everything so far.
    pub(crate) fn listen(&self) -> Listener {
        let rope = Arc::clone(&self.0);
        let heard = rope.rings.load(Ordering::SeqCst);
        Listener { rope, heard }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.is_gone.store(true, Ordering::SeqCst);
        self.0.waiting.notify_waiters();
    }
}

impl Listener {
    /// What was heard so far needs no answer.
    pub(crate) fn forget(&mut self) {
        self.heard = self.rope.rings.load(Ordering::SeqCst);
    }

    /// Waits until the bell is rung; false where it is gone.
    ///
    /// # Cancellation
    /// Dropped, a ring is heard by the next call.
    pub(crate) async fn heard(&mut self) -> bool {
        loop {
            // Whoever waits is woken by what comes after this line, whether it was polled or not.
            let woken = self.rope.waiting.notified();
            let rings = self.rope.rings.load(Ordering::SeqCst);
            if rings != self.heard {
                self.heard = rings;
                return true;
            }
            if self.rope.is_gone.load(Ordering::SeqCst) {
                return false;
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn all_hear_a_ring_in_the_order_in_which_they_began_to_wait() {
        let bell = Bell::default();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (mut listener, order) = (bell.listen(), Arc::clone(&order));
            tasks.spawn(async move {
                while listener.heard().await {
                    order.lock().expect("nobody panics").push(number);
                }
            });
        }
        tokio::task::yield_now().await;
        for _ in 0..2 {
            bell.ring();
            tokio::task::yield_now().await;
        }
        drop(bell);
        tasks.join_all().await;
        let twice: Vec<i32> = (0..20).chain(0..20).collect();
        assert_eq!(*order.lock().expect("nobody panics"), twice);
    }

    #[tokio::test]
    async fn what_was_forgotten_is_not_heard_and_what_came_meanwhile_is() {
        let bell = Bell::default();
        let mut listener = bell.listen();
        bell.ring();
        assert!(listener.heard().await);
        bell.ring();
        listener.forget();
        bell.ring();
        drop(bell);
        assert!(listener.heard().await);
        assert!(!listener.heard().await);
    }
}

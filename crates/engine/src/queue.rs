//! A queue that holds at most one entry per key.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// A queue in which a newer value replaces the waiting one of the same key.
///
/// Guarantees: pushing never waits, so a reader that hangs delays nobody; keys come out in the
/// order in which they began to wait.
/// Limits: one entry per key, so it never holds more than there are objects.
#[derive(Debug)]
pub struct KeyedQueue<K, V> {
    state: Arc<Mutex<State<K, V>>>,
    arrived: Arc<Notify>,
}

#[derive(Debug)]
struct State<K, V> {
    order: VecDeque<K>,
    values: BTreeMap<K, V>,
}

impl<K, V> Clone for KeyedQueue<K, V> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            arrived: Arc::clone(&self.arrived),
        }
    }
}

impl<K: Ord + Clone, V> Default for KeyedQueue<K, V> {
    fn default() -> Self {
        let state = State {
            order: VecDeque::new(),
            values: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            arrived: Arc::new(Notify::new()),
        }
    }
}

impl<K: Ord + Clone, V> KeyedQueue<K, V> {
    /// Puts a value in, or replaces the one that waits under this key.
    pub fn push(&self, key: K, value: V) {
        let mut state = self.lock();
        if state.values.insert(key.clone(), value).is_none() {
            state.order.push_back(key);
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Puts in what is made of the value that waits under this key.
    pub fn merge(&self, key: K, make: impl FnOnce(Option<V>) -> V) {
        let mut state = self.lock();
        let waiting = state.values.remove(&key);
        if waiting.is_none() {
            state.order.push_back(key.clone());
        }
        state.values.insert(key, make(waiting));
        drop(state);
        self.arrived.notify_one();
    }

    /// The entries that wait longest, in order, `max` at most.
    #[must_use]
    pub fn take(&self, max: usize) -> Vec<(K, V)> {
        let mut state = self.lock();
        let max = max.min(state.order.len());
        let order: Vec<K> = state.order.drain(..max).collect();
        order
            .into_iter()
            .filter_map(|key| state.values.remove_entry(&key))
            .collect()
    }

    /// The next entry; waits until there is one.
    ///
    /// Cancellation: nothing is lost if it is dropped while waiting.
    pub async fn pop(&self) -> (K, V) {
        loop {
            if let Some(entry) = self.try_pop() {
                return entry;
            }
            self.arrived.notified().await;
        }
    }

    /// The next entry, if one waits.
    #[must_use]
    pub fn try_pop(&self) -> Option<(K, V)> {
        let mut state = self.lock();
        let key = state.order.pop_front()?;
        let value = state.values.remove(&key)?;
        if !state.order.is_empty() {
            // One notification is kept at most: pass it on to the next reader.
            self.arrived.notify_one();
        }
        Some((key, value))
    }

    /// Returns when something may have arrived.
    pub async fn arrival(&self) {
        if self.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().order.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_newer_value_replaces_the_waiting_one_and_keeps_its_place() {
        let queue = KeyedQueue::default();
        queue.push("a", 1);
        queue.push("b", 2);
        queue.push("a", 3);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.pop().await, ("a", 3));
        assert_eq!(queue.pop().await, ("b", 2));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_part_is_taken_from_the_front() {
        let queue = KeyedQueue::default();
        for (key, value) in [("b", 1), ("a", 2), ("c", 3)] {
            queue.push(key, value);
        }
        assert_eq!(queue.take(2), [("b", 1), ("a", 2)]);
        assert_eq!(queue.take(usize::MAX), [("c", 3)]);
        assert_eq!(queue.take(1), []);
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let queue = KeyedQueue::default();
        let reader = queue.clone();
        let waiting = tokio::spawn(async move { reader.pop().await });
        tokio::task::yield_now().await;
        queue.push("a", 1);
        assert_eq!(waiting.await.expect("the reader does not panic"), ("a", 1));
    }
}

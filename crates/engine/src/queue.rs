//! Queues: of the newest value of each key, and of the newest values at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::monitor::Monitor;

/// A queue in which a newer value replaces the waiting one of the same key.
///
/// Guarantees: pushing never waits, so a reader that hangs delays nobody; keys come out in the
/// order in which they began to wait.
/// Limits: one entry per key, so it never holds more than there are objects.
#[derive(Debug)]
pub struct KeyedQueue<K, V>(Arc<Monitor<Keyed<K, V>>>);

#[derive(Debug)]
struct Keyed<K, V> {
    order: VecDeque<K>,
    values: BTreeMap<K, V>,
}

/// A queue in which the oldest value makes room for the newest.
///
/// Guarantees: pushing never waits; values come out in the order in which they were pushed.
/// Limits: as many values as it was made for.
#[derive(Debug)]
pub struct BoundedQueue<V> {
    waiting: Monitor<VecDeque<V>>,
    max: usize,
}

impl<K, V> Clone for KeyedQueue<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord + Clone, V> Default for KeyedQueue<K, V> {
    fn default() -> Self {
        Self(Arc::new(Monitor::new(Keyed {
            order: VecDeque::new(),
            values: BTreeMap::new(),
        })))
    }
}

impl<K: Ord + Clone, V> KeyedQueue<K, V> {
    /// Puts a value in, or replaces the one that waits under this key.
    pub fn push(&self, key: K, value: V) {
        self.merge(key, |_| value);
    }

    /// Puts in what is made of the value that waits under this key.
    pub fn merge(&self, key: K, make: impl FnOnce(Option<V>) -> V) {
        self.0.change(|state| {
            let waiting = state.values.remove(&key);
            if waiting.is_none() {
                state.order.push_back(key.clone());
            }
            state.values.insert(key, make(waiting));
        });
    }

    /// The entries that wait longest, in order, `max` at most.
    #[must_use]
    pub fn take(&self, max: usize) -> Vec<(K, V)> {
        let mut state = self.0.lock();
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
            self.0.changed().await;
        }
    }

    /// The next entry, if one waits.
    #[must_use]
    pub fn try_pop(&self) -> Option<(K, V)> {
        let mut state = self.0.lock();
        let key = state.order.pop_front()?;
        let value = state.values.remove(&key)?;
        if !state.order.is_empty() {
            // One notification is kept at most: pass it on to the next reader.
            self.0.wake();
        }
        Some((key, value))
    }

    /// Returns when something may have arrived.
    pub async fn arrival(&self) {
        if self.is_empty() {
            self.0.changed().await;
        }
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().order.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V> BoundedQueue<V> {
    /// A queue of `max` values at most.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            waiting: Monitor::new(VecDeque::new()),
            max,
        }
    }

    /// Puts a value in, and returns the one that had to go for it.
    pub fn push(&self, value: V) -> Option<V> {
        self.waiting.change(|waiting| {
            let oldest = (waiting.len() >= self.max).then(|| waiting.pop_front());
            waiting.push_back(value);
            oldest.flatten()
        })
    }

    /// The value that waits longest; waits until there is one.
    ///
    /// Cancellation: nothing is lost if it is dropped while waiting.
    pub async fn pop(&self) -> V {
        self.waiting.take(VecDeque::pop_front).await
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let queue = BoundedQueue::new(2);
        assert_eq!(queue.push(1), None);
        assert_eq!(queue.push(2), None);
        assert_eq!(queue.push(3), Some(1));
        assert_eq!(queue.len(), 2);
        assert_eq!((queue.pop().await, queue.pop().await), (2, 3));
        assert!(queue.is_empty());
    }
}

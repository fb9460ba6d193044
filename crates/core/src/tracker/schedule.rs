//! When each key has something to do: now, at a time, or after it waited because it failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::backoff::{Backoff, Failures};

/// How a key failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failure {
    /// When.
    pub now: Duration,
    /// A number that spreads keys which failed together.
    pub random: u64,
    /// How long the other side asked to wait at least.
    pub retry_after: Option<Duration>,
}

/// What is kept of a key that failed or that wakes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pause {
    /// Failures in a row.
    failures: Failures,
    /// The key has nothing to do before, because it failed.
    not_before: Duration,
    /// When it wakes, as entered among the timers.
    timer: Option<Duration>,
}

/// The work of many keys.
///
/// Guarantees: a key that was pushed or whose timer came is handed out by the next [`Self::take`]; no key
/// wakes by itself before it waited long enough, but for what was set to come anyway.
#[derive(Clone, Debug)]
pub struct Schedule<K> {
    work: BTreeSet<K>,
    timers: BTreeSet<(Duration, K)>,
    /// Of keys that neither failed nor wake later, nothing is kept.
    pauses: BTreeMap<K, Pause>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            work: BTreeSet::new(),
            timers: BTreeSet::new(),
            pauses: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Schedule<K> {
    /// A key may have something to do now.
    pub fn push(&mut self, key: K) {
        self.work.insert(key);
    }

    /// Keys that may have something to do now, each once.
    pub fn take(&mut self) -> Vec<K> {
        std::mem::take(&mut self.work).into_iter().collect()
    }

    /// Sets when a key wakes by itself, in place of what was set before: at the first of the times in
    /// `after_backoff`, but not while it waits because it failed, or of those in `anyway`, which have nothing
    /// to do with what failed. What is due already waits for something else, whose end pushes the key.
    pub fn set_wake(
        &mut self,
        key: &K,
        after_backoff: impl IntoIterator<Item = Duration>,
        anyway: impl IntoIterator<Item = Duration>,
        now: Duration,
    ) {
        let pause = self.pauses.get(key).copied().unwrap_or_default();
        let after_backoff = after_backoff.into_iter();
        let after_backoff = after_backoff.map(|at| at.max(pause.not_before));
        let all = after_backoff.chain(anyway);
        let timer = all.filter(|at| *at > now && *at < Duration::MAX).min();
        if timer == pause.timer {
            return;
        }
        if let Some(at) = pause.timer {
            self.timers.remove(&(at, key.clone()));
        }
        if let Some(at) = timer {
            self.timers.insert((at, key.clone()));
        }
        self.keep(key, Pause { timer, ..pause });
    }

    /// When the next key wakes by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Pushes every key whose time has come.
    pub fn wake(&mut self, now: Duration) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            let pause = self.pauses.get(&key).copied().unwrap_or_default();
            let timer = None;
            self.keep(&key, Pause { timer, ..pause });
            self.work.insert(key);
        }
    }

    /// A key failed: it waits, longer with each failure in a row, and as long as the other side asked.
    pub fn fail(&mut self, key: &K, policy: &Backoff, failure: Failure) {
        let mut pause = self.pauses.get(key).copied().unwrap_or_default();
        let wait = pause.failures.fail(policy, failure.random);
        let wait = wait.max(failure.retry_after.unwrap_or_default());
        pause.not_before = failure.now.saturating_add(wait);
        self.keep(key, pause);
    }

    /// A key waits until something about it changes, and [`Self::succeed`] or [`Self::hasten`] says so:
    /// trying the same again is in vain.
    pub fn park(&mut self, key: &K) {
        let mut pause = self.pauses.get(key).copied().unwrap_or_default();
        pause.not_before = Duration::MAX;
        self.keep(key, pause);
    }

    /// A key succeeded: it need not wait, and the next failure is the first.
    pub fn succeed(&mut self, key: &K) {
        let Some(pause) = self.pauses.get(key) else {
            return;
        };
        let timer = pause.timer;
        self.keep(
            key,
            Pause {
                timer,
                ..Pause::default()
            },
        );
    }

    /// What a key waits for may have come: it need not wait any longer, and its failures still count.
    pub fn hasten(&mut self, key: &K) {
        if let Some(pause) = self.pauses.get(key) {
            let not_before = Duration::ZERO;
            let pause = Pause {
                not_before,
                ..*pause
            };
            self.keep(key, pause);
        }
    }

    /// Whether a key need not wait because it failed.
    pub fn is_due(&self, key: &K, now: Duration) -> bool {
        self.pauses.get(key).is_none_or(|one| one.not_before <= now)
    }

    /// When a key that failed is tried again.
    pub fn retry_at(&self, key: &K) -> Option<Duration> {
        let pause = self.pauses.get(key)?;
        (pause.failures.count() > 0).then_some(pause.not_before)
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: &K) {
        self.work.remove(key);
        if let Some(Pause {
            timer: Some(at), ..
        }) = self.pauses.remove(key)
        {
            self.timers.remove(&(at, key.clone()));
        }
    }

    fn keep(&mut self, key: &K, pause: Pause) {
        if pause == Pause::default() {
            self.pauses.remove(key);
        } else {
            self.pauses.insert(key.clone(), pause);
        }
    }
}

#[cfg(test)]
mod tests;

//! A queue of keys to work on, of which none is ever worked on twice at the same time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures, Id};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::monitor::Monitor;

/// What can be worked on: an object, a zone, a load balancer.
pub trait WorkKey: Ord + Clone {
    /// A number that differs between keys, so that what failed together does not come back together.
    fn jitter_seed(&self) -> u64;
}

impl WorkKey for Id {
    fn jitter_seed(&self) -> u64 {
        jitter_seed(self.uid.to_string().as_bytes())
    }
}

/// How much is done at the same time, and how long what failed waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// Runs at the same time.
    pub running_max: usize,
    /// How long a key whose run failed waits.
    pub retry: Backoff,
}

/// When a key is to be worked on again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    OnChange,
    /// At this time, or when something changes.
    At(Instant),
    /// After a while that grows with each failure in a row.
    Failed,
}

/// How many keys of one queue are how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLen {
    /// Which queue.
    pub queue: &'static str,
    /// Keys that wait.
    pub waiting: usize,
    /// Runs.
    pub running: usize,
    /// Keys that are worked on at a set time, after a failure mostly.
    pub scheduled: usize,
    /// Runs since the start that failed and were tried again.
    pub retries: u64,
}

/// Keys that wait to be worked on.
///
/// Guarantees: pushing never waits; of one key there is one run at a time; a key that is pushed while it is
/// worked on is worked on again afterwards, once; a run that fails is tried again, later each time.
/// Limits: one entry per key; [`WorkLimits`].
#[derive(Debug)]
pub struct WorkQueue<K> {
    waiting: Monitor<Waiting<K>>,
    limits: WorkLimits,
}

#[derive(Debug)]
struct Waiting<K> {
    order: VecDeque<K>,
    queued: BTreeSet<K>,
    busy: BTreeSet<K>,
    again: BTreeSet<K>,
    later: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    failures: BTreeMap<K, Failures>,
    retries: u64,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            queued: BTreeSet::new(),
            busy: BTreeSet::new(),
            again: BTreeSet::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            retries: 0,
        }
    }
}

impl<K: WorkKey> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: WorkLimits) -> Self {
        Self {
            waiting: Monitor::default(),
            limits,
        }
    }

    /// Queues a key.
    pub fn push(&self, key: K) {
        self.waiting.change(|waiting| waiting.push(key));
    }

    /// How many keys are how far, under the name of the queue.
    #[must_use]
    pub fn len(&self, queue: &'static str) -> QueueLen {
        let waiting = self.waiting.lock();
        QueueLen {
            queue,
            waiting: waiting.order.len(),
            running: waiting.busy.len(),
            scheduled: waiting.later.len(),
            retries: waiting.retries,
        }
    }

    /// Works on keys until `stop`; runs that have begun are finished.
    ///
    /// Cancellation: dropped, runs end at their next await; what they wrote stays.
    pub async fn run<'a>(
        &'a self,
        stop: CancellationToken,
        work: impl Fn(K) -> BoxFuture<'a, Requeue>,
    ) {
        let mut running = FuturesUnordered::new();
        loop {
            // Nothing is locked while a run begins: it may push.
            let next = || self.waiting.lock().take(Instant::now());
            while running.len() < self.limits.running_max
                && let Some(key) = next()
            {
                let run = work(key.clone());
                running.push(async move { (key, run.await) });
            }
            let has_room = running.len() < self.limits.running_max;
            let wake = self.waiting.lock().later.first().map(|(at, _)| *at);
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.waiting.changed(), if has_room => {}
                () = sleep, if has_room => {}
                Some((key, requeue)) = running.next() => {
                    let retry = &self.limits.retry;
                    self.waiting.lock().finish(&key, (requeue, retry), Instant::now());
                }
            }
        }
        while running.next().await.is_some() {}
    }
}

impl<K: WorkKey> Waiting<K> {
    fn push(&mut self, key: K) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.unschedule(&key);
            self.order.push_back(key);
        }
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, key)) = self.later.pop_first()
        {
            self.due.remove(&key);
            self.push(key);
        }
        let key = self.order.pop_front()?;
        self.queued.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    fn finish(&mut self, key: &K, (requeue, retry): (Requeue, &Backoff), now: Instant) {
        self.busy.remove(key);
        let at = match requeue {
            Requeue::OnChange => {
                self.failures.remove(key);
                None
            }
            Requeue::At(at) => {
                self.failures.remove(key);
                Some(at)
            }
            Requeue::Failed => {
                self.retries += 1;
                let failures = self.failures.entry(key.clone()).or_default();
                Some(now + failures.fail(retry, key.jitter_seed()))
            }
        };
        if self.again.remove(key) && requeue != Requeue::Failed {
            self.push(key.clone());
        } else if let Some(at) = at {
            self.unschedule(key);
            self.later.insert((at, key.clone()));
            self.due.insert(key.clone(), at);
        }
    }

    fn unschedule(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.later.remove(&(at, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::*;

    impl WorkKey for &'static str {
        fn jitter_seed(&self) -> u64 {
            jitter_seed(self.as_bytes())
        }
    }

    const RETRY: Backoff = Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_secs(30),
    };

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(WorkLimits {
            running_max: 4,
            retry: RETRY,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_never_reconciled_twice_at_once_and_no_request_is_lost() {
        let queue = queue();
        let (inside, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = CancellationToken::new();
        let reconcile = |one: &'static str| -> BoxFuture<'_, Requeue> {
            let (queue, inside, count, stop) = (&queue, &inside, &count, &stop);
            Box::pin(async move {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                if count.fetch_add(1, Ordering::SeqCst) < 4 {
                    queue.push(one);
                } else {
                    stop.cancel();
                }
                // On virtual time, as long as a reconcile lasts: pause between polls.
                tokio::time::sleep(Duration::from_millis(5)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Requeue::OnChange
            })
        };
        queue.push("a");
        queue.run(stop.clone(), reconcile).await;
        assert_eq!(count.load(Ordering::SeqCst), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets_them() {
        let queue = queue();
        let stop = CancellationToken::new();
        let times = Mutex::new(Vec::new());
        let start = Instant::now();
        let reconcile = |_| -> BoxFuture<'_, Requeue> {
            let (times, stop) = (&times, &stop);
            Box::pin(async move {
                let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                times.push(start.elapsed());
                match times.len() {
                    1..=3 | 5 => Requeue::Failed,
                    4 => Requeue::At(Instant::now() + Duration::from_secs(1)),
                    _ => {
                        stop.cancel();
                        Requeue::OnChange
                    }
                }
            })
        };
        queue.push("a");
        queue.run(stop.clone(), reconcile).await;
        let times = times.lock().unwrap_or_else(PoisonError::into_inner);
        let waits: Vec<Duration> = times
            .windows(2)
            .map(|two| two[1].saturating_sub(two[0]))
            .collect();
        assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
        assert_eq!(waits[4], waits[0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_comes_before_the_appointment() {
        let mut waiting = Waiting::default();
        let now = Instant::now();
        waiting.push("a");
        assert_eq!(waiting.take(now), Some("a"));
        waiting.finish(
            &"a",
            (Requeue::At(now + Duration::from_secs(9)), &RETRY),
            now,
        );
        assert_eq!(waiting.take(now), None);
        waiting.push("a");
        assert_eq!(waiting.take(now), Some("a"));
        assert!(waiting.later.is_empty() && waiting.due.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reconciles_that_run_are_finished_before_it_stops() {
        let queue = queue();
        let stop = CancellationToken::new();
        let done = AtomicUsize::new(0);
        let reconcile = |_| -> BoxFuture<'_, Requeue> {
            let (done, stop) = (&done, &stop);
            Box::pin(async move {
                stop.cancel();
                // On virtual time, as long as a reconcile lasts: pause between polls.
                tokio::time::sleep(Duration::from_secs(1)).await;
                done.fetch_add(1, Ordering::SeqCst);
                Requeue::OnChange
            })
        };
        queue.push("a");
        queue.run(stop.clone(), reconcile).await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

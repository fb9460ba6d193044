//! A queue of objects to look at, on which no object is ever worked on twice at the same time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_core::{Backoff, Failures};
use bindery_sources::Id;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::QueueLen;

/// Reconciles of one controller at the same time. Each waits for one API request, so this is also the
/// number of writes in flight; a real API server takes some hundred of one client.
pub(crate) const RECONCILES_MAX: usize = 128;

/// How long an object whose reconcile failed waits.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    max: Duration::from_secs(30),
};

/// When an object wants to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// When something changes.
    OnChange,
    /// At this time, or when something changes.
    At(Instant),
    /// After a while that grows with each failure in a row.
    Failed,
}

/// Objects that wait to be looked at.
///
/// Guarantees: pushing never waits; an object that changes while it is looked at is looked at again
/// afterwards, once.
/// Limits: one entry per object.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<Id>,
    queued: BTreeSet<Id>,
    busy: BTreeSet<Id>,
    again: BTreeSet<Id>,
    later: BTreeSet<(Instant, Id)>,
    due: BTreeMap<Id, Instant>,
    failures: BTreeMap<Id, Failures>,
    retries: u64,
}

impl WorkQueue {
    /// Queues an object.
    pub(crate) fn push(&self, id: Id) {
        self.lock().push(id);
        self.arrived.notify_one();
    }

    /// How many objects are how far.
    pub(crate) fn len(&self, queue: &'static str) -> QueueLen {
        let waiting = self.lock();
        QueueLen {
            queue,
            waiting: waiting.order.len(),
            running: waiting.busy.len(),
            scheduled: waiting.later.len(),
            retries: waiting.retries,
        }
    }

    /// Reconciles objects until `stop`; reconciles that run are finished.
    ///
    /// Cancellation: dropped, reconciles that run end at their next await; what they wrote stays.
    pub(crate) async fn run<'a>(
        &'a self,
        stop: CancellationToken,
        reconcile: impl Fn(Id) -> BoxFuture<'a, Requeue>,
    ) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < RECONCILES_MAX
                && let Some(id) = self.lock().take(Instant::now())
            {
                let work = reconcile(Id::clone(&id));
                running.push(async move { (id, work.await) });
            }
            let has_room = running.len() < RECONCILES_MAX;
            let wake = self.lock().later.first().map(|(at, _)| *at);
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.arrived.notified(), if has_room => {}
                () = sleep, if has_room => {}
                Some((id, requeue)) = running.next() => self.lock().finish(&id, requeue, Instant::now()),
            }
        }
        while running.next().await.is_some() {}
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, id: Id) {
        if self.busy.contains(&id) {
            self.again.insert(id);
        } else if self.queued.insert(Id::clone(&id)) {
            self.unschedule(&id);
            self.order.push_back(id);
        }
    }

    fn take(&mut self, now: Instant) -> Option<Id> {
        while let Some((at, _)) = self.later.first()
            && *at <= now
            && let Some((_, id)) = self.later.pop_first()
        {
            self.due.remove(&id);
            self.push(id);
        }
        let id = self.order.pop_front()?;
        self.queued.remove(&id);
        self.busy.insert(Id::clone(&id));
        Some(id)
    }

    fn finish(&mut self, id: &Id, requeue: Requeue, now: Instant) {
        self.busy.remove(id);
        let at = match requeue {
            Requeue::OnChange => {
                self.failures.remove(id);
                None
            }
            Requeue::At(at) => {
                self.failures.remove(id);
                Some(at)
            }
            Requeue::Failed => {
                self.retries += 1;
                let failures = self.failures.entry(Id::clone(id)).or_default();
                Some(now + failures.fail(&RETRY, jitter_seed(&id.uid.to_string())))
            }
        };
        if self.again.remove(id) && requeue != Requeue::Failed {
            self.push(Id::clone(id));
        } else if let Some(at) = at {
            self.unschedule(id);
            self.later.insert((at, Id::clone(id)));
            self.due.insert(Id::clone(id), at);
        }
    }

    fn unschedule(&mut self, id: &Id) {
        if let Some(at) = self.due.remove(id) {
            self.later.remove(&(at, Id::clone(id)));
        }
    }
}

/// A number that differs between objects, so that what failed together does not come back together
/// (FNV-1a; nothing here needs it to be unguessable).
pub(crate) fn jitter_seed(salt: &str) -> u64 {
    salt.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bindery_core::{Kind, ObjectRef};

    use super::*;

    fn id(name: &str) -> Id {
        Arc::new(ObjectRef {
            kind: Kind::ARecord,
            namespace: "default".into(),
            name: name.into(),
            uid: name.into(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_never_reconciled_twice_at_once_and_no_request_is_lost() {
        let queue = WorkQueue::default();
        let (inside, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = CancellationToken::new();
        let reconcile = |one: Id| -> BoxFuture<'_, Requeue> {
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
        queue.push(id("a"));
        queue.run(stop.clone(), reconcile).await;
        assert_eq!(count.load(Ordering::SeqCst), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets_them() {
        let queue = WorkQueue::default();
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
        queue.push(id("a"));
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
        waiting.push(id("a"));
        assert_eq!(waiting.take(now), Some(id("a")));
        waiting.finish(&id("a"), Requeue::At(now + Duration::from_secs(9)), now);
        assert_eq!(waiting.take(now), None);
        waiting.push(id("a"));
        assert_eq!(waiting.take(now), Some(id("a")));
        assert!(waiting.later.is_empty() && waiting.due.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn reconciles_that_run_are_finished_before_it_stops() {
        let queue = WorkQueue::default();
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
        queue.push(id("a"));
        queue.run(stop.clone(), reconcile).await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

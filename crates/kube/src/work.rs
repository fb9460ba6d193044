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

/// Visits of one controller at the same time. Each waits for one API request, so this is also the
/// number of writes in flight; a real API server takes some hundred of one client.
pub(crate) const VISITS_MAX: usize = 128;

/// How long an object whose visit failed waits.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(100),
    max: Duration::from_secs(30),
};

/// When an object wants to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
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
    /// Asks for a visit.
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

    /// Visits objects until `stop`; visits under way are finished.
    ///
    /// Cancellation: dropped, visits under way end at their next await; what they wrote stays.
    pub(crate) async fn run<'a>(
        &'a self,
        stop: CancellationToken,
        visit: impl Fn(Id) -> BoxFuture<'a, Visit>,
    ) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < VISITS_MAX
                && let Some(id) = self.lock().take(Instant::now())
            {
                let work = visit(Id::clone(&id));
                running.push(async move { (id, work.await) });
            }
            let has_room = running.len() < VISITS_MAX;
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
                Some((id, visit)) = running.next() => self.lock().finish(&id, visit, Instant::now()),
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

    fn finish(&mut self, id: &Id, visit: Visit, now: Instant) {
        self.busy.remove(id);
        let at = match visit {
            Visit::OnChange => {
                self.failures.remove(id);
                None
            }
            Visit::At(at) => {
                self.failures.remove(id);
                Some(at)
            }
            Visit::Failed => {
                self.retries += 1;
                let failures = self.failures.entry(Id::clone(id)).or_default();
                Some(now + failures.fail(&RETRY, spread(&id.uid.to_string())))
            }
        };
        if self.again.remove(id) && visit != Visit::Failed {
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
pub(crate) fn spread(salt: &str) -> u64 {
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
    async fn an_object_is_never_visited_twice_at_once_and_no_wish_is_lost() {
        let queue = WorkQueue::default();
        let (inside, visits) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = CancellationToken::new();
        let visit = |one: Id| -> BoxFuture<'_, Visit> {
            let (queue, inside, visits, stop) = (&queue, &inside, &visits, &stop);
            Box::pin(async move {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                if visits.fetch_add(1, Ordering::SeqCst) < 4 {
                    queue.push(one);
                } else {
                    stop.cancel();
                }
                // On virtual time, as long as a visit lasts: pause between polls.
                tokio::time::sleep(Duration::from_millis(5)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Visit::OnChange
            })
        };
        queue.push(id("a"));
        queue.run(stop.clone(), visit).await;
        assert_eq!(visits.load(Ordering::SeqCst), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_and_success_forgets_them() {
        let queue = WorkQueue::default();
        let stop = CancellationToken::new();
        let times = Mutex::new(Vec::new());
        let start = Instant::now();
        let visit = |_| -> BoxFuture<'_, Visit> {
            let (times, stop) = (&times, &stop);
            Box::pin(async move {
                let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                times.push(start.elapsed());
                match times.len() {
                    1..=3 | 5 => Visit::Failed,
                    4 => Visit::At(Instant::now() + Duration::from_secs(1)),
                    _ => {
                        stop.cancel();
                        Visit::OnChange
                    }
                }
            })
        };
        queue.push(id("a"));
        queue.run(stop.clone(), visit).await;
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
        waiting.finish(&id("a"), Visit::At(now + Duration::from_secs(9)), now);
        assert_eq!(waiting.take(now), None);
        waiting.push(id("a"));
        assert_eq!(waiting.take(now), Some(id("a")));
        assert!(waiting.later.is_empty() && waiting.due.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn visits_under_way_are_finished_before_it_stops() {
        let queue = WorkQueue::default();
        let stop = CancellationToken::new();
        let done = AtomicUsize::new(0);
        let visit = |_| -> BoxFuture<'_, Visit> {
            let (done, stop) = (&done, &stop);
            Box::pin(async move {
                stop.cancel();
                // On virtual time, as long as a visit lasts: pause between polls.
                tokio::time::sleep(Duration::from_secs(1)).await;
                done.fetch_add(1, Ordering::SeqCst);
                Visit::OnChange
            })
        };
        queue.push(id("a"));
        queue.run(stop.clone(), visit).await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}

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

/// Visits of one controller at the same time. Each waits for one API request, so this is also the
/// number of writes in flight; a real API server takes some hundred of one client.
pub(crate) const VISITS_MAX: usize = 64;

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
}

impl WorkQueue {
    /// Asks for a visit.
    pub(crate) fn push(&self, id: Id) {
        self.lock().push(id);
        self.arrived.notify_one();
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
                let failures = self.failures.entry(Id::clone(id)).or_default();
                Some(now + failures.fail(&RETRY, spread(&id.uid)))
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

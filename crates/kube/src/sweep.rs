//! The slow round over all objects: what they say is compared with what is served, though nothing happened.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bindery_sources::Id;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::metrics::count;
use crate::state::{State, Submission};

/// How often the round goes on.
const TICK: Duration = Duration::from_secs(1);

/// Objects that are compared in a second. Each costs some tens of microseconds and no request, so this is
/// less than a hundredth of one core; a hundred thousand objects take half an hour.
const COMPARED_PER_TICK_MAX: usize = 50;

/// The time that a round takes at least: few objects need not be looked at all the time.
const ROUND_MIN: Duration = Duration::from_secs(30);

/// Goes round until `stop`.
///
/// Cancellation: nothing is lost; the next start begins a new round.
pub(crate) async fn sweep(ctx: Arc<Context>, stop: CancellationToken) {
    let mut last: Option<Id> = None;
    let mut round = Instant::now() + ROUND_MIN;
    loop {
        let pause = if last.is_none() {
            round.saturating_duration_since(Instant::now()).max(TICK)
        } else {
            TICK
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if !*ctx.synced.borrow() {
            continue;
        }
        if last.is_none() {
            round = Instant::now() + ROUND_MIN;
        }
        let next = ctx.state().compare_next(&mut last);
        for id in next {
            count(&ctx.cluster.metrics.compared);
            ctx.push(id);
        }
    }
}

impl State {
    /// The next objects of the round, whose claims are submitted again, so that their status is compared.
    fn compare_next(&mut self, last: &mut Option<Id>) -> Vec<Id> {
        let from = last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut following = self.progress.range_mut((from, Bound::Unbounded));
        let mut next = Vec::new();
        for (id, progress) in following.by_ref().take(COMPARED_PER_TICK_MAX) {
            // What is on its way will be told anyway, and what others wrote over is looked at as such.
            if progress.receipt.is_none() && !progress.status.is_overwritten() {
                progress.submission = Submission::Nothing;
            }
            next.push(Id::clone(id));
        }
        let is_end = following.next().is_none();
        *last = next.last().filter(|_| !is_end).cloned();
        next
    }
}

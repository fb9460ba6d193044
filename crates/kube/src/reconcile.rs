//! What the controllers have in common: how one round of the five calls ends, and what to do after a fault.

use std::time::Duration;

use bindery_core::Backoff;
use bindery_engine::work::{Requeue, WorkLimits};
use bindery_sources::Id;
use tokio::time::Instant;

use crate::cluster::{Class, Error};
use crate::context::Context;
use crate::metrics::count;

/// Rounds of one reconcile: record, submit, report, clean up, and once more after an edit.
pub(crate) const ROUNDS_MAX: usize = 8;

/// The limits of each controller. A reconcile waits for one API request, so they are also the number of writes
/// in flight; a real API server takes some hundred of one client.
pub(crate) const RECONCILES: WorkLimits = WorkLimits {
    running_max: 128,
    retry: Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_secs(30),
    },
};

/// What came of a plan.
pub(crate) enum Applied<R> {
    /// Something was written or submitted: the next round sees what that changed.
    Changed,
    /// Nothing was to be done but to report this.
    ToReport(R),
    /// Nothing was to be done.
    Nothing,
    /// It was done a moment ago already and is done again then.
    Waits(Requeue),
    /// The Kubernetes API did not do what was asked.
    Failed(Error),
}

/// What comes after a round.
pub(crate) enum Next {
    /// Another one.
    Round,
    /// None, until then.
    Requeue(Requeue),
}

/// What to do after a fault.
pub(crate) async fn recover(object: &Id, ctx: &Context, error: Error) -> Requeue {
    count(&ctx.cluster.metrics.faults);
    match error.class() {
        // The watch tells what became of it; absence alone is no deletion.
        Class::Missing => Requeue::OnChange,
        Class::Conflict => match ctx.cluster.fetch(object).await {
            Ok(newest) => {
                let before = ctx.state().catalog.meta(object).map(|meta| meta.version);
                ctx.on_response(object.kind, &newest);
                let after = ctx.state().catalog.meta(object).map(|meta| meta.version);
                if before == after {
                    Requeue::Failed
                } else {
                    Requeue::At(Instant::now())
                }
            }
            Err(error) if error.class() == Class::Missing => Requeue::OnChange,
            Err(_) => Requeue::Failed,
        },
        // Nothing is wrong with the object, and that the lease is not held is told elsewhere.
        Class::Fenced => Requeue::Failed,
        Class::Transient | Class::Expired | Class::Denied => {
            tracing::warn!(%object, error = error.chain(), "a request to the Kubernetes API failed");
            Requeue::Failed
        }
    }
}

//! Writes statuses, and only those that differ from what stands in the object.

use std::time::Duration;

use bindery_core::Moment;
use bindery_engine::work::Requeue;
use bindery_sources::Id;
use serde_json::Value;
use tokio::time::Instant;

use super::{LastWritten, ObservedStatus, body, digest, keep_others};
use crate::cluster::Error;
use crate::context::Context;
use crate::events::LastEvent;

/// How long an object may be without any condition while the outcome is not known: people and programs
/// that wait for one are to see within a second that somebody is at work, whatever the servers do. Nearly
/// every outcome is known much sooner, so that this costs no write.
const FIRST_REPORT_DELAY: Duration = Duration::from_millis(700);

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) enum FirstReport {
    /// It has a condition already.
    Done,
    /// Not before this time.
    NotBefore(Requeue),
    /// Now.
    Due,
}

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) fn first_report(object: &Id, ctx: &Context) -> FirstReport {
    let mut state = ctx.state();
    let Some(progress) = state.progress.get_mut(object) else {
        return FirstReport::Done;
    };
    if progress.status.is_reported() {
        return FirstReport::Done;
    }
    let now = Instant::now();
    let until = progress.grace_until(now + FIRST_REPORT_DELAY);
    if now < until {
        FirstReport::NotBefore(Requeue::At(until))
    } else {
        FirstReport::Due
    }
}

/// Writes a status if it differs from the one that stands.
///
/// Cancellation: the status is written or not; the next reconcile compares again.
pub(crate) async fn write_status(
    object: &Id,
    ctx: &Context,
    status: impl FnOnce(&ObservedStatus, Moment) -> Value,
) -> Result<(), Error> {
    let (mut status, wanted, has_others, mut version) = {
        let mut state = ctx.state();
        let Some(progress) = state.progress.get_mut(object) else {
            return Ok(());
        };
        let cache = &mut progress.status;
        if progress.last_event == LastEvent::Unknown {
            // After a start, what stands in the object is what its author knows.
            progress.last_event = LastEvent::of(cache.observed.main_condition(object.kind));
        }
        let status = status(&cache.observed, ctx.clock.now());
        let wanted = digest(&status);
        if !cache.differs(wanted) {
            let stored = cache.observed.digest;
            cache
                .last_written
                .get_or_insert(LastWritten { wanted, stored });
            return Ok(());
        }
        cache.writing = true;
        let has_others = cache.observed.has_others;
        let version = state.catalog.meta(object).map(|meta| meta.version);
        (status, wanted, has_others, version)
    };
    let written = async {
        if has_others {
            let newest = ctx.cluster.fetch(object).await?;
            keep_others(&mut status, &newest.field("status"));
            let newest = newest.metadata.resource_version;
            version = newest.and_then(|newest| newest.parse().ok());
        }
        // With rivals, a status that was made before another process wrote must not undo what that one said.
        let version = version.filter(|_| ctx.replica.fence.has_rivals());
        let body = body(&object.uid, version, &status);
        ctx.cluster.write_status(object, &body).await
    };
    let written = written.await;
    if let Some(progress) = ctx.state().progress.get_mut(object) {
        progress.status.writing = false;
        progress.status.last_written = written.as_ref().ok().map(|newest| LastWritten {
            wanted,
            stored: digest(&newest.field("status")),
        });
    }
    ctx.on_response(object.kind, &written?);
    if ctx.state().is_overwritten(object) {
        // Others wrote while the answer was on its way.
        ctx.push(Id::clone(object));
    }
    Ok(())
}

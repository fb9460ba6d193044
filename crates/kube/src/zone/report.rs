//! What a zone's status says, and when it is written.

use std::time::Duration;

use bindery_core::ConditionType;
use bindery_engine::work::Requeue;
use bindery_sources::{Cause, Id};
use tokio::time::Instant;

use super::observe::{Observed, OwnedZone, Successor};
use super::{Note, conditions};
use crate::cluster::Error;
use crate::context::Context;
use crate::events::{self, EventType};
use crate::reconcile::{Applied, Next, recover};
use crate::status::{FirstReport, MainCondition, first_report, write_status};

/// The shortest time between two statuses of one zone: ten thousand records that arrive together
/// must not make ten thousand writes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How often to look whether another object has taken over a zone.
const SUCCESSOR_POLL: Duration = Duration::from_millis(100);

/// How often to look whether a permission was given.
const PERMISSION_POLL: Duration = Duration::from_secs(15);

/// Ends a round: writes the status if there is something to tell, and says what comes next.
pub(super) async fn report(object: &Id, ctx: &Context, applied: Applied<Box<Observed>>) -> Next {
    let observed = match applied {
        Applied::Changed => return Next::Round,
        Applied::Nothing => return Next::Requeue(Requeue::OnChange),
        Applied::Waits(requeue) => return Next::Requeue(requeue),
        Applied::Failed(error) => return Next::Requeue(recover(object, ctx, error).await),
        Applied::ToReport(observed) => observed,
    };
    match write(object, ctx, &observed).await {
        Ok(requeue) => Next::Requeue(observed.requeue_at().unwrap_or(requeue)),
        Err(error) => Next::Requeue(recover(object, ctx, error).await),
    }
}

/// Tells the zone's author how it is, not more often than once in a while.
async fn write(object: &Id, ctx: &Context, observed: &Observed) -> Result<Requeue, Error> {
    let now = Instant::now();
    let due = {
        let state = ctx.state();
        let written = state.zones.get(object).and_then(|zone| zone.written);
        written.map(|at| at + STATUS_INTERVAL)
    };
    if let Some(due) = due.filter(|due| *due > now) {
        return Ok(Requeue::At(due));
    }
    let note = observed.note.as_ref();
    let waits = write_report(object, ctx, observed, note).await?;
    Ok(waits.unwrap_or(Requeue::OnChange))
}

/// Writes what there is to tell; where there is nothing yet, returns when to look again.
///
/// Cancellation: the status is written or not; the next reconcile compares again.
pub(super) async fn write_report(
    object: &Id,
    ctx: &Context,
    observed: &Observed,
    note: Option<&Note>,
) -> Result<Option<Requeue>, Error> {
    // Listing the zone's objects is dear, so it is not done for each of them that changes.
    let members = conditions::MemberList::new(&ctx.state(), object);
    let said = match conditions::conditions(observed, &members) {
        Some(said) => said,
        None => match first_report(object, ctx) {
            FirstReport::Done => return Ok(Some(Requeue::OnChange)),
            FirstReport::NotBefore(requeue) => return Ok(Some(requeue)),
            FirstReport::Due => conditions::first_conditions(observed, &members),
        },
    };
    let mut wrote = false;
    let guarded = said.iter().find(|one| one.kind == ConditionType::Guarded);
    let mut is_news = false;
    write_status(object, ctx, |seen, moment| {
        wrote = true;
        is_news = guarded.map(|one| one.reason) != seen.holds(ConditionType::Guarded);
        let said = (said.as_slice(), &members);
        let mut status = conditions::status(observed, said, (seen, moment));
        status["removals"] = note.map(Note::status).unwrap_or_default();
        status
    })
    .await?;
    let ready = &said[0];
    events::emit_change(object, ctx, ready);
    if let Some(guarded) = guarded.filter(|_| is_news) {
        events::push(object, ctx, EventType::Warning, guarded);
    }
    let main = MainCondition::of(ready);
    let mut state = ctx.state();
    if wrote {
        let written = Some(Instant::now());
        state.zones.entry(Id::clone(object)).or_default().written = written;
    }
    if let Some(progress) = state.progress.get_mut(object) {
        progress.reported = Some(main);
    }
    drop(state);
    Ok(None)
}

impl Observed {
    /// When to look again where another object is about to have a zone, or a permission is wanting.
    fn requeue_at(&self) -> Option<Requeue> {
        if self.cause == Some(Cause::Unknown) {
            return Some(Requeue::At(Instant::now() + PERMISSION_POLL));
        }
        let waits = |(_, owned): (_, &OwnedZone)| {
            matches!(
                owned.successor,
                Some(Successor::Pending | Successor::Untold)
            )
        };
        let at = Instant::now() + SUCCESSOR_POLL;
        self.former().any(waits).then_some(Requeue::At(at))
    }
}

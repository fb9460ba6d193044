//! The controller of zones, in the same five calls as that of publishing objects.
//!
//! The order in which a zone object is worked on: it records in its metadata which zones it may have on
//! servers, the zone is declared to the engine, and what it is to have no longer is taken back. Removals
//! that the guard counts are recorded in the status before they happen, so that a restart remembers them.

mod announce;
mod apply;
mod conditions;
mod hosts;
mod observe;
mod plan;
mod removals;
mod report;
mod signing;
mod taken_back;

pub(crate) use announce::{declare_recorded, hold};
pub(crate) use removals::{Note, recall};
pub(crate) use taken_back::TakenBack;

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::ZoneKey;
use bindery_engine::work::Requeue;
use bindery_sources::{Cause, Id};
use tokio::time::Instant;

use crate::context::Context;
use crate::reconcile::{Applied, Next, ROUNDS_MAX};

use self::observe::{ZoneRequest, observe};
use self::plan::{plan, validate};

/// How far one zone object is.
#[derive(Default)]
pub(crate) struct ZoneProgress {
    /// What was declared to the engine and not seen to be gone.
    declared: BTreeMap<ZoneKey, ZoneRequest>,
    /// Zones that the object did not have before this run.
    begun: BTreeSet<ZoneKey>,
    /// What the engine knows only by name, from the start.
    announced: BTreeSet<ZoneKey>,
    written: Option<Instant>,
    /// How its deletion came about, once that was asked.
    cause: Option<Cause>,
    /// The removals that are written down.
    note: Option<Note>,
    /// Whether this run wrote them down.
    is_noted: bool,
}

/// Moves one zone closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Requeue {
    forget_unknown_cause(object, ctx);
    for _ in 0..ROUNDS_MAX {
        let observed = observe(object, &ctx.state(), ctx);
        let Some(observed) = observed else {
            retire(object, ctx);
            return Requeue::OnChange;
        };
        let applied = match validate(observed) {
            Ok(valid) => {
                let plan = plan(&valid);
                apply::apply(object, ctx, valid, plan).await
            }
            // The author's mistake is reported; everything stays as it is.
            Err(rejected) => Applied::ToReport(rejected),
        };
        match report::report(object, ctx, applied).await {
            Next::Round => {}
            Next::Requeue(requeue) => return requeue,
        }
    }
    Requeue::Failed
}

/// Why an object is being deleted is asked again where it could not be seen: somebody may have given the
/// permission meanwhile.
fn forget_unknown_cause(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    let progress = state.zones.get_mut(object);
    if let Some(progress) = progress.filter(|progress| progress.cause == Some(Cause::Unknown)) {
        progress.cause = None;
    }
}

/// An object that vanished before its zones were taken back leaves them as they are, for another object to
/// take over: its finalizer was removed by hand, or its definition by force.
fn retire(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    state.forget(object);
    let progress = state.zones.remove(object).unwrap_or_default();
    for zone in progress.announced {
        if !state.declarers.contains_key(&zone) {
            ctx.engine.undeclare_zone(zone);
        }
    }
    for zone in progress.declared.into_keys() {
        if state.clear_declarer(object, &zone) {
            tracing::warn!(
                %object, %zone,
                "a DNSZone vanished without its finalizer; its zone is kept and served, apply the \
                 object again to take it over"
            );
        }
    }
}

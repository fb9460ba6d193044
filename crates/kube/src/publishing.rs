//! The controller of every kind that publishes records: what its objects ask for goes to the engine, and
//! what became of that into their status.
//!
//! A reconcile is one or more rounds of five calls. Each round does one thing, in this order: the object
//! records in its metadata what it is about to own, its claims are submitted to the engine, the receipt
//! comes and is reported, and what is gone from DNS is taken out of the metadata. Between two rounds the
//! state has changed, so every round begins with a new look at it.

mod apply;
mod endpoints;
mod plan;
mod record;
mod report;

use bindery_core::{Group, Record, RecordKey};
use bindery_engine::work::Requeue;
use bindery_sources::{Decision, Id, Life, Meta, NextAct};

use crate::context::Context;
use crate::reconcile::{Next, ROUNDS_MAX};
use crate::state::{Progress, State};

use self::plan::PublishingPlan;

/// What is known of an object: what the catalog has and how far it is.
struct Observed<'s> {
    object: &'s Id,
    state: &'s State,
    /// `None` where the object vanished.
    meta: Option<&'s Meta>,
    /// `None` where nothing was done for it yet.
    progress: Option<&'s Progress>,
}

impl Observed<'_> {
    /// What the object may have where nobody can tell whether it is gone: its zone's object vanished, and this
    /// process did not see the zone go. It is remembered.
    fn out_of_sight(&self) -> Vec<(Group, Record)> {
        let is_alive = self.meta.is_some_and(|meta| meta.life == Life::Alive);
        let gone = |group: &Group, zone: &[u8]| self.state.taken_back.has(group, zone);
        let lines = || self.state.catalog.out_of_sight(self.object, &gone);
        is_alive.then(lines).unwrap_or_default()
    }
}

/// An object whose spec was checked against the zones that there are: what it claims, and what is wrong.
struct Valid<'s> {
    observed: Observed<'s>,
    decision: Decision,
    /// What it goes on recording, because nobody can tell whether it is gone.
    kept: Vec<(Group, Record)>,
}

/// Moves one object closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Requeue {
    let again_at = apply::resubmit_overwritten(object, ctx);
    for _ in 0..ROUNDS_MAX {
        let plan = {
            let state = ctx.state();
            let observed = observe(object, &state);
            let valid = validate(observed);
            plan::plan(valid)
        };
        let applied = apply::apply(object, ctx, plan).await;
        match report::report(object, ctx, applied).await {
            Next::Round => {}
            Next::Requeue(Requeue::OnChange) => return again_at.unwrap_or(Requeue::OnChange),
            Next::Requeue(requeue) => return requeue,
        }
    }
    Requeue::Failed
}

/// Submits an object whose metadata records already what it is to own. At the start this is done for all
/// objects before the engine begins, so that it begins with the whole picture.
pub(crate) fn declare_known(object: &Id, ctx: &Context) {
    let plan = {
        let state = ctx.state();
        plan::plan(validate(observe(object, &state)))
    };
    // Of one that is being deleted it is not known yet why; until then nothing of it goes.
    if let PublishingPlan::Submit(declarations, content)
    | PublishingPlan::Ask(declarations, content) = plan
    {
        apply::submit(object, ctx, declarations, content);
    }
}

/// Looks at an object.
fn observe<'s>(object: &'s Id, state: &'s State) -> Observed<'s> {
    Observed {
        object,
        state,
        meta: state.catalog.meta(object),
        progress: state.progress.get(object).map(|progress| &**progress),
    }
}

/// Checks what an object asks for; `None` where it is gone and nothing is left of it.
///
/// An object that is being deleted is not checked: a broken spec must not hold its finalizer.
fn validate(observed: Observed<'_>) -> Option<Valid<'_>> {
    let known = observed.progress.map_or(&[][..], Progress::available);
    let is_available = |group: &Group, key: &RecordKey| {
        let found = known.binary_search_by(|(one, known)| (one, known).cmp(&(group, key)));
        found.is_ok()
    };
    let catalog = &observed.state.catalog;
    let mut decision = catalog.decide(observed.object, &is_available)?;
    let is_deleting = observed
        .meta
        .is_some_and(|meta| meta.life == Life::Deleting);
    if let (NextAct::Declare(declarations), true) = (&mut decision.next, is_deleting) {
        let cause = observed.progress.and_then(Progress::cause);
        let going = catalog.going(observed.object, cause);
        for (_, declaration) in declarations {
            declaration.going = going;
        }
    }
    // Where nothing is to be taken out of the metadata, nothing can be lost.
    let kept = match &decision.cleanup {
        Some(_) => observed.out_of_sight(),
        None => Vec::new(),
    };
    let cleanup = decision.cleanup.take().zip(observed.meta);
    decision.cleanup = cleanup.and_then(|(patch, meta)| patch.keeping(meta, &kept));
    Some(Valid {
        observed,
        decision,
        kept,
    })
}

//! Carries out a plan: metadata to the Kubernetes API, claims to the engine.

use bindery_core::{Adoption, GroupDeclaration};
use bindery_engine::work::{Requeue, WorkKey as _};
use bindery_sources::{Id, Meta, MetadataPatch};
use tokio::time::Instant;

use super::plan::PublishingPlan;
use super::report::Report;
use crate::context::Context;
use crate::deletions::note_cause;
use crate::reconcile::Applied;
use crate::state::Submission;

/// Carries out what is to be done.
///
/// Cancellation: a patch on its way is applied or not; the next round sees which.
pub(super) async fn apply(
    object: &Id,
    ctx: &Context,
    plan: PublishingPlan,
) -> Applied<Box<Report>> {
    match plan {
        PublishingPlan::Forget => {
            let zones = ctx.state().forget(object);
            ctx.engine.forget(object);
            ctx.push_all(zones.iter().cloned());
            Applied::Nothing
        }
        PublishingPlan::CleanUp(patch) => {
            if let Some(requeue) = tamper_backoff(object, ctx) {
                return Applied::Waits(requeue);
            }
            // From now on nothing else is ours, whatever becomes of the write.
            if let Some(owned) = patch.owned() {
                ctx.state().catalog.set_owned(object, owned);
            }
            write_metadata(object, ctx, &patch).await
        }
        PublishingPlan::WriteMetadata(patch) => match tamper_backoff(object, ctx) {
            Some(requeue) => Applied::Waits(requeue),
            None => write_metadata(object, ctx, &patch).await,
        },
        PublishingPlan::Ask(..) => match note_cause(object, ctx).await {
            Ok(()) => Applied::Changed,
            Err(error) => Applied::Failed(error),
        },
        PublishingPlan::Submit(declarations, content) => {
            submit(object, ctx, declarations, content);
            Applied::Changed
        }
        PublishingPlan::Report(report) => Applied::ToReport(report),
        PublishingPlan::Rest => Applied::Nothing,
    }
}

async fn write_metadata<R>(object: &Id, ctx: &Context, patch: &MetadataPatch) -> Applied<R> {
    match ctx.cluster.write_metadata(object, &patch.body()).await {
        Ok(newest) => {
            ctx.on_response(object.kind, &newest);
            Applied::Changed
        }
        Err(error) => Applied::Failed(error),
    }
}

/// Submits an object's claims to the engine.
pub(super) fn submit(
    object: &Id,
    ctx: &Context,
    mut declarations: Vec<GroupDeclaration>,
    content: u64,
) {
    let mut state = ctx.state();
    let progress = state.progress.entry(Id::clone(object)).or_default();
    progress.revision += 1;
    progress.submission = Submission::Declared(content);
    progress.receipt = None;
    progress.withdrawn = false;
    for (group, declaration) in &mut declarations {
        declaration.revision = progress.revision;
        if declaration.adoption == Adoption::Refuse {
            let config = ctx.group_config(group);
            declaration.adoption = config.map_or(Adoption::Refuse, |config| config.adoption);
        }
    }
    // Under the lock, so that declarations of one object arrive in their order.
    ctx.engine.declare(declarations);
}

/// Submits an object's claims again where somebody overwrote its status: the engine's answer makes the
/// controller write the status anew. Returns when to try again, where this happened a moment ago.
pub(super) fn resubmit_overwritten(object: &Id, ctx: &Context) -> Option<Requeue> {
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if !progress.is_overwritten() {
        return None;
    }
    match progress.mend(Instant::now(), object.jitter_seed()) {
        Ok(()) => {
            progress.submission = Submission::Nothing;
            None
        }
        Err(until) => Some(Requeue::At(until)),
    }
}

/// When to try again to restore an annotation that somebody else changed, where it was restored a moment
/// ago: two writers must not keep each other busy.
fn tamper_backoff(object: &Id, ctx: &Context) -> Option<Requeue> {
    let mut state = ctx.state();
    if !state.catalog.meta(object).is_some_and(Meta::is_tampered) {
        return None;
    }
    let progress = state.progress.get_mut(object)?;
    let mended = progress.mend(Instant::now(), object.jitter_seed());
    mended.err().map(Requeue::At)
}

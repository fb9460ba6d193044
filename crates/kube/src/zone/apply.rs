//! Carries out a plan for a zone object.

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_core::ZoneKey;
use bindery_core::guard::WritePolicy;
use bindery_core::zones::{Hosting, Noted, Signing, Tenancy, ZoneDeclaration};
use bindery_engine::work::Requeue;
use bindery_sources::{Id, Meta, MetadataPatch};

use super::observe::{Observed, ZoneRequest};
use super::plan::{Valid, ZonePlan};
use super::report::write_report;
use super::{Note, hosts};
use crate::cluster::Error;
use crate::context::{Context, Management};
use crate::deletions::fetch_cause;
use crate::reconcile::Applied;

/// Carries out what is to be done.
///
/// Cancellation: a write on its way is done or not; the next round sees which.
pub(super) async fn apply(
    object: &Id,
    ctx: &Context,
    Valid(observed): Valid,
    plan: ZonePlan,
) -> Applied<Box<Observed>> {
    let done = match plan {
        ZonePlan::Write(zones) => write(object, ctx, &observed.meta, &zones).await,
        ZonePlan::Ask => ask(object, ctx).await,
        ZonePlan::Declare(zone, request) => {
            declare(object, ctx, &observed, (zone, request));
            Ok(())
        }
        ZonePlan::Note(noted) => match note(object, ctx, &observed, noted).await {
            Ok(Some(requeue)) => return Applied::Waits(requeue),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        },
        ZonePlan::Report => return Applied::ToReport(observed),
        ZonePlan::Rest => return Applied::Nothing,
    };
    match done {
        Ok(()) => Applied::Changed,
        Err(error) => Applied::Failed(error),
    }
}

/// Finds out how the deletion of an object came about.
///
/// Cancellation: nothing was written; the next reconcile asks again.
async fn ask(object: &Id, ctx: &Context) -> Result<(), Error> {
    let cause = fetch_cause(object, ctx).await?;
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.cause = Some(cause);
    Ok(())
}

/// Writes removals down, so that a restart does not forget them; then they may happen.
///
/// Cancellation: they are written or not; the engine is told only after they are.
async fn note(
    object: &Id,
    ctx: &Context,
    observed: &Observed,
    noted: Arc<Noted>,
) -> Result<Option<Requeue>, Error> {
    let note = Note {
        at: ctx.clock.now(),
        noted: Arc::new(Noted {
            number: observed.noted.number + 1,
            ..Noted::clone(&noted)
        }),
    };
    let waits = write_report(object, ctx, observed, Some(&note)).await?;
    if waits.is_some() {
        return Ok(waits);
    }
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.note = Some(note);
    progress.is_noted = true;
    drop(state);
    Ok(None)
}

/// Writes down which zones the object may have on servers.
///
/// Cancellation: the patch is applied or not; the next reconcile sees which.
async fn write(
    object: &Id,
    ctx: &Context,
    meta: &Meta,
    zones: &BTreeSet<ZoneKey>,
) -> Result<(), Error> {
    let patch = MetadataPatch::owned_zones(meta, zones);
    let mut known: BTreeSet<ZoneKey> = meta.owned_zones().into_iter().collect();
    // What no annotation names yet was never created for the object: its serials begin here.
    if !known.is_empty() || !meta.has_finalizer {
        let mut state = ctx.state();
        let progress = state.zones.entry(Id::clone(object)).or_default();
        progress.begun.extend(zones.difference(&known).cloned());
    }
    let before = known.len();
    known.retain(|owned| zones.contains(owned));
    if known.len() < before
        && let Some(left) = MetadataPatch::owned_zones(meta, &known).owned()
    {
        ctx.state().catalog.set_owned(object, left);
    }
    let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
    ctx.on_response(object.kind, &newest);
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    let gone: Vec<ZoneKey> = progress
        .declared
        .extract_if(.., |zone, _| !zones.contains(zone))
        .map(|(zone, _)| zone)
        .collect();
    for zone in &gone {
        state.clear_declarer(object, zone);
        state.taken_back.note(zone);
    }
    drop(state);
    Ok(())
}

/// Hands a zone to the engine.
pub(super) fn declare(
    object: &Id,
    ctx: &Context,
    observed: &Observed,
    (zone, what): (ZoneKey, ZoneRequest),
) {
    let config = ctx.group_config(&zone.group);
    let (going, noted) = match &what {
        ZoneRequest::Wanted(_, _, noted, _) => (None, Some(Arc::clone(noted))),
        ZoneRequest::Going(going, ..) => (Some(*going), None),
    };
    // Of a name that is declared no longer, nothing more is known.
    let records = match &config {
        Some(config) if observed.name.as_ref() == Some(&zone.name) => {
            let primary = config.primary.as_deref().unwrap_or_default();
            hosts::with_addresses(&zone.name, &observed.records, primary)
        }
        Some(_) | None => Vec::new(),
    };
    let declaration = ZoneDeclaration {
        zone: zone.name.clone(),
        owner: Id::clone(object),
        generation: observed.meta.generation,
        hosting: match config.map(|config| config.management) {
            Some(Management::Managed) => Hosting::Served(records),
            Some(Management::External) | None => Hosting::Elsewhere,
        },
        tenancy: match going {
            None => observed.tenancy,
            Some(_) => Tenancy::Shared,
        },
        writes: WritePolicy::Sync,
        allowed: observed.meta.allowed_plan().map(Into::into),
        serial_floor: observed.serial_floor,
        going,
        servers: None,
        signing: Signing {
            policy: observed.signing.clone(),
            signer: observed.signer(),
        },
        noted,
    };
    let mut state = ctx.state();
    state.set_declarer(object, &zone);
    // Under the lock, so that what is said of one zone arrives in its order.
    ctx.engine.declare_zone(&zone.group, declaration);
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.declared.insert(zone, what);
}

//! What the engine hears of zones beside their reconciles: at the start, and at once when an object changes.

use bindery_api::{Role, role};
use bindery_core::ObjectRef;
use bindery_sources::{Id, Precedence};

use super::apply::declare;
use super::observe::{Observed, ZoneRequest, observe};
use super::plan::{ZonePlan, plan, validate};
use crate::context::Context;
use crate::state::State;

/// Declares every zone that was declared before, as its object says, and takes back those that its object
/// is to have no longer. Where something has to be written first, or another object is about to have the
/// zone, or the author has to correct it, the engine hears at least that the zone is there: else records in
/// it would pass for gone.
pub(crate) fn declare_recorded(ctx: &Context) {
    let zones: Vec<Id> = {
        let state = ctx.state();
        let ids = state.catalog.ids();
        let zones = ids.filter(|id| role(id.kind) == Role::Zone);
        zones.cloned().collect()
    };
    for object in zones {
        loop {
            let observed = observe(&object, &ctx.state(), ctx);
            let Some(observed) = observed.filter(|observed| observed.meta.has_finalizer) else {
                break;
            };
            // What is to go must be known even where something has to be written down first.
            let valid = match validate(observed) {
                Ok(valid) => valid,
                Err(rejected) => {
                    announce(&object, ctx, &rejected);
                    break;
                }
            };
            match valid.0.leave().unwrap_or_else(|| plan(&valid)) {
                ZonePlan::Declare(zone, what) => declare(&object, ctx, &valid.0, (zone, what)),
                ZonePlan::Write(_)
                | ZonePlan::Ask
                | ZonePlan::Note(_)
                | ZonePlan::Report
                | ZonePlan::Rest => {
                    announce(&object, ctx, &valid.0);
                    break;
                }
            }
        }
    }
}

/// Tells the engine of zones that an object has and that nobody has declared yet.
fn announce(object: &Id, ctx: &Context, observed: &Observed) {
    let mut state = ctx.state();
    for zone in observed.zones.keys() {
        if !state.declarers.contains_key(zone) {
            ctx.engine.await_zone(zone.clone());
            let progress = state.zones.entry(Id::clone(object)).or_default();
            progress.announced.insert(zone.clone());
        }
    }
}

/// Whatever is to become of a zone that its object is to have no longer: before that is known, nothing goes
/// from it. It is said with the lock held, so that the engine hears it before anything of the zone's
/// records.
pub(crate) fn hold(state: &State, ctx: &Context, object: &ObjectRef) {
    let Some(progress) = state.zones.get(object) else {
        return;
    };
    let view = state.catalog.zone(object);
    let wanted = match &view {
        Some(view) if matches!(view.precedence, Precedence::Invalid(_)) => return,
        Some(view) if view.precedence == Precedence::Active => view.key(),
        Some(_) | None => None,
    };
    for (zone, declared) in &progress.declared {
        let is_decided = view.is_some() && matches!(declared, ZoneRequest::Going(..));
        let declarer = state.declarers.get(zone).map(|id| &**id);
        if Some(zone) != wanted.as_ref() && !is_decided && declarer == Some(object) {
            ctx.engine.hold_zone(zone.clone());
        }
    }
}

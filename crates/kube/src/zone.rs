//! The controller of zones.

mod conditions;
mod hosts;

use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{Hosting, Tenancy, ZoneDeclaration, ZoneEvent, ZoneState};
use bindery_core::{FaultKind, Kind, Name, Record};
use bindery_sources::{Id, Life, Meta, MetadataPatch, ZoneStanding};
use tokio::time::Instant;

use crate::cluster::Error;
use crate::context::{Context, Tenure};
use crate::events;
use crate::publishing::{STEPS_MAX, write_status};
use crate::state::Shown;
use crate::work::Visit;

/// The shortest time between two statuses of one zone: ten thousand records that arrive together
/// must not make ten thousand writes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How far one zone object is.
#[derive(Default)]
pub(crate) struct ZoneProgress {
    declared: Option<Declared>,
    retiring: bool,
    written: Option<Instant>,
}

/// What was declared to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    name: Name,
    generation: i64,
    allowed: Option<Arc<str>>,
}

/// What is known of a zone object.
struct Observed {
    meta: Meta,
    name: Option<Name>,
    records: Vec<Record>,
    tenancy: Tenancy,
    standing: ZoneStanding,
    declared: Option<Declared>,
    retiring: bool,
    event: Option<ZoneEvent>,
}

/// What is to be done next.
enum Plan {
    /// Our finalizer has to be on the object before the zone is touched.
    Hold(MetadataPatch),
    /// The zone goes to the engine.
    Declare(ZoneDeclaration),
    /// The engine is to take the zone back.
    Retire(Name),
    /// Nothing of the zone is left, or another object has it: the object may go.
    Release(MetadataPatch),
    /// Its author is to be told.
    Report,
    /// Nothing, until something changes.
    Rest,
}

/// Moves one zone closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Visit, Error> {
    for _ in 0..STEPS_MAX {
        let Some(observed) = observe(object, ctx) else {
            retire(object, ctx);
            return Ok(Visit::OnChange);
        };
        match plan(&observed, ctx.settings.tenure) {
            Plan::Rest => return Ok(Visit::OnChange),
            Plan::Report => return report(object, ctx, &observed).await,
            plan @ (Plan::Hold(_) | Plan::Declare(_) | Plan::Retire(_) | Plan::Release(_)) => {
                apply(object, ctx, plan).await?;
            }
        }
    }
    Ok(Visit::Failed)
}

/// Declares every zone that was declared before, as its finalizer shows.
pub(crate) fn declare_held(ctx: &Context) {
    let zones: Vec<Id> = {
        let state = ctx.state();
        let ids = state.catalog.ids();
        ids.filter(|id| id.kind == Kind::DnsZone).cloned().collect()
    };
    for object in zones {
        if let Some(observed) = observe(&object, ctx)
            && observed.meta.held
            && let Plan::Declare(declaration) = plan(&observed, ctx.settings.tenure)
        {
            declare(&object, ctx, declaration);
        }
    }
}

/// An object that vanished takes its zone along, unless another object has it now.
fn retire(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    state.forget(object);
    let Some(progress) = state.zones.remove(object) else {
        return;
    };
    if let Some(declared) = progress.declared
        && state.declarers.get(&declared.name) == Some(object)
    {
        state.declarers.remove(&declared.name);
        state.zone_events.remove(&declared.name);
        ctx.engine.retire_zone(declared.name);
    }
    drop(state);
}

fn observe(object: &Id, ctx: &Context) -> Option<Observed> {
    let state = ctx.state();
    let view = state.catalog.zone(object)?;
    let unknown = ZoneProgress::default();
    let progress = state.zones.get(object).unwrap_or(&unknown);
    let owns = |name: &Name| state.declarers.get(name) == Some(object);
    // What another object declared since is no longer ours.
    let declared = progress.declared.clone().filter(|one| owns(&one.name));
    Some(Observed {
        meta: view.meta.clone(),
        name: view.name.cloned(),
        records: view.name.map_or_else(Vec::new, |zone| {
            hosts::with_addresses(zone, view.records, &ctx.settings.server.address)
        }),
        tenancy: view.tenancy,
        standing: view.standing.clone(),
        event: declared
            .as_ref()
            .and_then(|one| state.zone_events.get(&one.name).cloned()),
        declared,
        retiring: progress.retiring,
    })
}

fn plan(observed: &Observed, tenure: Tenure) -> Plan {
    let meta = &observed.meta;
    match (&observed.standing, &observed.name) {
        (ZoneStanding::Active, Some(name)) => {
            let wanted = Declared {
                name: name.clone(),
                generation: meta.generation,
                allowed: meta.allowed.as_deref().map(Into::into),
            };
            match &observed.declared {
                Some(before) if before.name != *name => Plan::Retire(before.name.clone()),
                _ if !meta.held => Plan::Hold(MetadataPatch::hold(meta)),
                Some(before) if *before == wanted => Plan::Report,
                Some(_) | None => Plan::Declare(declaration(observed, name, tenure)),
            }
        }
        (ZoneStanding::Duplicate(_), _) if meta.held => Plan::Release(MetadataPatch::release(meta)),
        (ZoneStanding::Active | ZoneStanding::Duplicate(_) | ZoneStanding::Invalid(_), _) => {
            Plan::Report
        }
        (ZoneStanding::Leaving | ZoneStanding::Succeeded(_), _) if !meta.held => Plan::Rest,
        (ZoneStanding::Succeeded(_), _) | (ZoneStanding::Leaving, None) => {
            Plan::Release(MetadataPatch::release(meta))
        }
        // Its author says not to wait for servers; what is left is still tried.
        (ZoneStanding::Leaving, Some(_)) if meta.abandoned => {
            Plan::Release(MetadataPatch::release(meta))
        }
        (ZoneStanding::Leaving, Some(name)) => leave(observed, name, tenure),
    }
}

/// A zone on its way out: the engine must know it, so that what we wrote can be taken away.
fn leave(observed: &Observed, name: &Name, tenure: Tenure) -> Plan {
    if observed.declared.is_none() {
        return Plan::Declare(declaration(observed, name, tenure));
    }
    let state = observed.event.as_ref().map(|event| &event.state);
    match state {
        Some(ZoneState::Gone) if observed.retiring => {
            Plan::Release(MetadataPatch::release(&observed.meta))
        }
        _ if observed.retiring => Plan::Report,
        Some(ZoneState::Ready | ZoneState::Degraded(_) | ZoneState::Gone) => {
            Plan::Retire(name.clone())
        }
        // Nothing of ours can be in a zone that the server does not have.
        Some(ZoneState::Failed(fault)) if fault.kind == FaultKind::NoSuchZone => {
            Plan::Retire(name.clone())
        }
        Some(ZoneState::Failed(_) | ZoneState::Opening) | None => Plan::Report,
    }
}

fn declaration(observed: &Observed, name: &Name, tenure: Tenure) -> ZoneDeclaration {
    ZoneDeclaration {
        zone: name.clone(),
        owner: Id::clone(&observed.meta.object),
        generation: observed.meta.generation,
        hosting: match tenure {
            Tenure::Managed => Hosting::Served(observed.records.clone()),
            Tenure::External => Hosting::Elsewhere,
        },
        tenancy: observed.tenancy,
        allowed: observed.meta.allowed.as_deref().map(Into::into),
    }
}

/// Carries out what is to be done, apart from telling.
///
/// Cancellation: a patch on its way is applied or not; the next visit sees which.
async fn apply(object: &Id, ctx: &Context, plan: Plan) -> Result<(), Error> {
    match plan {
        Plan::Hold(patch) | Plan::Release(patch) => {
            let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
            ctx.see(object.kind, newest);
        }
        Plan::Declare(declaration) => declare(object, ctx, declaration),
        Plan::Retire(name) => {
            let mut state = ctx.state();
            let leaving = state.catalog.meta(object).map(|meta| meta.life);
            let progress = state.zones.entry(Id::clone(object)).or_default();
            if leaving == Some(Life::Deleting) {
                progress.retiring = true;
            } else {
                progress.declared = None;
                state.declarers.remove(&name);
                state.zone_events.remove(&name);
            }
            ctx.engine.retire_zone(name);
        }
        Plan::Report | Plan::Rest => {}
    }
    Ok(())
}

/// Hands a zone to the engine.
fn declare(object: &Id, ctx: &Context, declaration: ZoneDeclaration) {
    let mut state = ctx.state();
    let name = declaration.zone.clone();
    state.declarers.insert(name.clone(), Id::clone(object));
    state.zone_events.remove(&name);
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.retiring = false;
    progress.declared = Some(Declared {
        name,
        generation: declaration.generation,
        allowed: declaration.allowed.clone(),
    });
    ctx.engine.declare_zone(declaration);
}

/// Tells the zone's author how it is, not more often than once in a while.
async fn report(object: &Id, ctx: &Context, observed: &Observed) -> Result<Visit, Error> {
    let now = Instant::now();
    let due = {
        let state = ctx.state();
        let written = state.zones.get(object).and_then(|zone| zone.written);
        written.map(|at| at + STATUS_INTERVAL)
    };
    if let Some(due) = due.filter(|due| *due > now) {
        return Ok(Visit::At(due));
    }
    // Listing the zone's objects is dear, so it is not done for each of them that changes.
    let members = conditions::MemberList::new(&ctx.state(), object);
    let Some(said) = conditions::conditions(observed, &members, &ctx.settings) else {
        return Ok(Visit::OnChange);
    };
    let mut wrote = false;
    write_status(object, ctx, |seen, moment| {
        wrote = true;
        let said = (said.as_slice(), &members);
        conditions::status(observed, said, (seen, moment), &ctx.settings)
    })
    .await?;
    let ready = &said[0];
    events::tell(object, ctx, ready);
    let shown = Shown {
        good: ready.status == bindery_core::ConditionStatus::True,
        reason: ready.reason,
    };
    let mut state = ctx.state();
    if wrote {
        state.zones.entry(Id::clone(object)).or_default().written = Some(now);
    }
    if let Some(progress) = state.progress.get_mut(object) {
        progress.shown = Some(shown);
    }
    drop(state);
    Ok(Visit::OnChange)
}

//! The controller of zones.

mod conditions;
mod hosts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{Hosting, Tenancy, ZoneDeclaration, ZoneEvent, ZoneState};
use bindery_core::{ConditionType, FaultKind, Kind, Record, Serial, ZoneKey};
use bindery_sources::{Id, Life, Meta, MetadataPatch, ZoneStanding};
use tokio::time::Instant;

use crate::cluster::Error;
use crate::context::{Context, Site, Tenure};
use crate::events::{self, Tone};
use crate::publishing::{self, FirstWord, STEPS_MAX, write_status};
use crate::state::{Shown, State};
use crate::work::Visit;

/// The shortest time between two statuses of one zone: ten thousand records that arrive together
/// must not make ten thousand writes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How often to look whether another object has taken over a zone.
const HEIR_POLL: Duration = Duration::from_millis(100);

/// How far one zone object is.
#[derive(Default)]
pub(crate) struct ZoneProgress {
    /// What was declared to the engine and not seen to be gone.
    declared: BTreeMap<ZoneKey, Declared>,
    written: Option<Instant>,
}

/// What was declared to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Declared {
    /// The zone, of this generation and with this plan let through.
    Wanted(i64, Option<Arc<str>>),
    /// That the zone is there, to be read and taken back.
    Leaving,
    /// That it is to be taken back.
    TakenBack,
}

/// What is known of a zone object.
struct Observed {
    meta: Meta,
    /// The zone that it is to have.
    wanted: Option<ZoneKey>,
    records: Vec<Record>,
    tenancy: Tenancy,
    /// Fields that it sets and that this version does not act on.
    ignored: Vec<&'static str>,
    /// Fields that it sets and that are acted on only where Bindery serves the zone.
    hosted_only: Vec<&'static str>,
    standing: ZoneStanding,
    /// The newest serial that its status tells of the one zone that it has.
    serial_floor: Option<Serial>,
    /// The zones that it has or may have on servers.
    places: BTreeMap<ZoneKey, Place>,
}

/// A zone that an object has or may have.
struct Place {
    /// Its servers, where they are there.
    site: Option<Site>,
    /// Whether another object is to have it.
    heir: Option<Heir>,
    declared: Option<Declared>,
    event: Option<ZoneEvent>,
}

/// Another object that is to have a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heir {
    /// It says so itself, so that it will take it back some day.
    Settled,
    /// It does not say so yet, and might go without a trace.
    Coming,
}

/// What is to be done next.
enum Plan {
    /// Before a zone is touched, its object says so, and after it is gone no longer.
    Write(BTreeSet<ZoneKey>),
    /// A zone goes to the engine.
    Declare(ZoneKey, Declared),
    /// The engine is to take a zone back.
    TakeBack(ZoneKey, Tenure),
    /// Its author is to be told.
    Report,
    /// Nothing, until something changes.
    Rest,
}

/// Moves one zone closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Visit, Error> {
    for _ in 0..STEPS_MAX {
        let Some(observed) = observe(object, &ctx.state(), ctx) else {
            retire(object, ctx);
            return Ok(Visit::OnChange);
        };
        match plan(&observed) {
            Plan::Rest => return Ok(Visit::OnChange),
            Plan::Report => {
                let visit = report(object, ctx, &observed).await?;
                return Ok(observed.patience().unwrap_or(visit));
            }
            Plan::Write(places) => write(object, ctx, &observed.meta, &places).await?,
            Plan::Declare(zone, what) => declare(object, ctx, &observed, (zone, what)),
            Plan::TakeBack(zone, tenure) => take_back(object, ctx, zone, tenure),
        }
    }
    Ok(Visit::Failed)
}

/// Declares every zone that was declared before, as its object says, and takes back those that its object
/// is to have no longer.
pub(crate) fn declare_held(ctx: &Context) {
    let zones: Vec<Id> = {
        let state = ctx.state();
        let ids = state.catalog.ids();
        ids.filter(|id| id.kind == Kind::DnsZone).cloned().collect()
    };
    for object in zones {
        loop {
            let observed = observe(&object, &ctx.state(), ctx);
            let Some(observed) = observed.filter(|observed| observed.meta.held) else {
                break;
            };
            // What is to go must be known even where something has to be written down first.
            match observed.leave().unwrap_or_else(|| plan(&observed)) {
                Plan::Declare(zone, what) => declare(&object, ctx, &observed, (zone, what)),
                Plan::TakeBack(zone, tenure) => take_back(&object, ctx, zone, tenure),
                Plan::Write(_) | Plan::Report | Plan::Rest => break,
            }
        }
    }
}

/// An object that vanished takes its zones along, unless another object has them now.
fn retire(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    state.forget(object);
    let progress = state.zones.remove(object).unwrap_or_default();
    for (zone, declared) in progress.declared {
        if !state.disown(object, &zone) || declared == Declared::TakenBack {
            continue;
        }
        match ctx.settings.sites.get(&zone.group).map(|site| site.tenure) {
            Some(Tenure::Managed) => ctx.engine.raze_zone(zone),
            Some(Tenure::External) | None => ctx.engine.retire_zone(zone),
        }
    }
}

fn observe(object: &Id, state: &State, ctx: &Context) -> Option<Observed> {
    let view = state.catalog.zone(object)?;
    let zone = view.key();
    let unknown = ZoneProgress::default();
    let progress = state.zones.get(object).unwrap_or(&unknown);
    let mut places: BTreeSet<ZoneKey> = view.meta.places().into_iter().collect();
    if places.is_empty() && view.meta.held {
        // Objects of earlier versions do not say which zones they have.
        places.extend(zone.clone());
    }
    places.extend(progress.declared.keys().cloned());
    let place = |zone: ZoneKey| {
        let active = state.catalog.active_zone(&zone);
        let mut others = active.into_iter().chain(state.declarers.get(&zone));
        let other = others.find(|other| *other != object);
        let declared = progress.declared.get(&zone);
        let place = Place {
            site: ctx.settings.sites.get(&zone.group).cloned(),
            heir: other.map(|other| heir(state, other, &zone)),
            declared: declared.cloned(),
            event: declared.and_then(|_| state.zone_events.get(&zone).cloned()),
        };
        (zone, place)
    };
    let lead = ctx.settings.sites.get(view.group).map(|site| &*site.lead);
    // While an object has several zones, nobody knows whose serials its status tells.
    let is_only = places.len() == 1 && zone.as_ref().is_some_and(|zone| places.contains(zone));
    let told = state.serials.get(object).copied();
    Some(Observed {
        serial_floor: told.filter(|_| is_only),
        meta: view.meta.clone(),
        records: view.name.map_or_else(Vec::new, |zone| {
            hosts::with_addresses(zone, view.records, lead.unwrap_or_default())
        }),
        tenancy: view.tenancy,
        ignored: view.ignored.to_vec(),
        hosted_only: view.hosted_only.to_vec(),
        wanted: zone.filter(|_| view.standing == ZoneStanding::Active),
        standing: view.standing,
        places: places.into_iter().map(place).collect(),
    })
}

fn heir(state: &State, other: &Id, zone: &ZoneKey) -> Heir {
    let meta = state.catalog.meta(other).filter(|meta| meta.held);
    if meta.is_some_and(|meta| meta.places().contains(zone)) {
        Heir::Settled
    } else {
        Heir::Coming
    }
}

impl Observed {
    /// When to look again where another object is about to have a zone.
    fn patience(&self) -> Option<Visit> {
        let waits = |(_, place): (_, &Place)| place.heir == Some(Heir::Coming);
        let at = Instant::now() + HEIR_POLL;
        self.former().any(waits).then_some(Visit::At(at))
    }

    /// The zones that the object is to have no longer; none while its author has to correct it.
    fn former(&self) -> impl Iterator<Item = (&ZoneKey, &Place)> {
        let is_known = !matches!(self.standing, ZoneStanding::Invalid(_));
        let places = self.places.iter().filter(move |_| is_known);
        places.filter(|(zone, _)| Some(*zone) != self.wanted.as_ref())
    }

    /// What is to be done next about those.
    fn leave(&self) -> Option<Plan> {
        self.former().find_map(|(zone, place)| leave(zone, place))
    }

    /// What the engine is to be told of the zone that is wanted.
    fn wish(&self) -> Declared {
        let allowed = self.meta.allowed().map(Into::into);
        Declared::Wanted(self.meta.generation, allowed)
    }

    /// The place of the zone that is wanted.
    fn place(&self) -> Option<&Place> {
        self.places.get(self.wanted.as_ref()?)
    }
}

impl Place {
    /// Whose servers it is on, where it is still to be taken back.
    fn remaining(&self) -> Option<Tenure> {
        let is_ours = self.heir.is_none() && self.declared != Some(Declared::TakenBack);
        let site = self.site.as_ref().filter(|_| is_ours)?;
        Some(site.tenure)
    }

    /// Whether nothing of it is left, or it is another object's business.
    fn is_done(&self) -> bool {
        let state = self.event.as_ref().map(|event| &event.state);
        let is_gone = self.declared == Some(Declared::TakenBack) && state == Some(&ZoneState::Gone);
        self.heir == Some(Heir::Settled) || is_gone
    }
}

fn plan(observed: &Observed) -> Plan {
    let meta = &observed.meta;
    if matches!(observed.standing, ZoneStanding::Invalid(_)) {
        return Plan::Report;
    }
    let written: BTreeSet<ZoneKey> = meta.places().into_iter().collect();
    if meta.life == Life::Deleting && !meta.held {
        return Plan::Rest;
    }
    if meta.life == Life::Deleting && meta.abandoned {
        // Its author says not to wait for servers; what is left is still tried.
        let left = observed.former().find_map(|(zone, place)| {
            let tenure = place.remaining()?;
            Some(Plan::TakeBack(zone.clone(), tenure))
        });
        return left.unwrap_or_else(|| Plan::Write(BTreeSet::new()));
    }
    if let Some(wanted) = &observed.wanted {
        if !meta.held || !meta.is_noted() || !observed.places.contains_key(wanted) {
            let places = observed.places.keys().chain([wanted]);
            return Plan::Write(places.cloned().collect());
        }
        let declared = observed.place().and_then(|place| place.declared.clone());
        if declared != Some(observed.wish()) {
            return Plan::Declare(wanted.clone(), observed.wish());
        }
    }
    if let Some(plan) = observed.leave() {
        return plan;
    }
    let left = observed.former().filter(|(_, place)| !place.is_done());
    let left = left.map(|(zone, _)| zone).chain(&observed.wanted);
    let left: BTreeSet<ZoneKey> = left.cloned().collect();
    if left != written || left.is_empty() == meta.held || !meta.is_noted() {
        return Plan::Write(left);
    }
    Plan::Report
}

/// A zone that is to go. One that Bindery made is deleted as it is; of others, the engine must know what is
/// in them, so that what we wrote can be taken away.
fn leave(zone: &ZoneKey, place: &Place) -> Option<Plan> {
    let tenure = place.remaining()?;
    let state = place.event.as_ref().map(|event| &event.state);
    match (tenure, &place.declared, state) {
        (Tenure::Managed, ..) => Some(Plan::TakeBack(zone.clone(), tenure)),
        (Tenure::External, None, _) => Some(Plan::Declare(zone.clone(), Declared::Leaving)),
        (_, _, Some(ZoneState::Ready | ZoneState::Degraded(_) | ZoneState::Gone)) => {
            Some(Plan::TakeBack(zone.clone(), tenure))
        }
        // Nothing of ours can be in a zone that the server does not have.
        (_, _, Some(ZoneState::Failed(fault))) if fault.kind == FaultKind::NoSuchZone => {
            Some(Plan::TakeBack(zone.clone(), tenure))
        }
        (_, _, Some(ZoneState::Failed(_) | ZoneState::Opening) | None) => None,
    }
}

/// Writes down which zones the object may have on servers.
///
/// Cancellation: the patch is applied or not; the next visit sees which.
async fn write(
    object: &Id,
    ctx: &Context,
    meta: &Meta,
    places: &BTreeSet<ZoneKey>,
) -> Result<(), Error> {
    let patch = MetadataPatch::places(meta, places);
    let mut known: BTreeSet<ZoneKey> = meta.places().into_iter().collect();
    let before = known.len();
    known.retain(|place| places.contains(place));
    if known.len() < before
        && let Some(left) = MetadataPatch::places(meta, &known).lines()
    {
        ctx.state().catalog.keep(object, left);
    }
    let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
    ctx.see(object.kind, newest);
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    let gone: Vec<ZoneKey> = progress
        .declared
        .extract_if(.., |zone, _| !places.contains(zone))
        .map(|(zone, _)| zone)
        .collect();
    for zone in &gone {
        state.disown(object, zone);
    }
    drop(state);
    Ok(())
}

/// Hands a zone to the engine.
fn declare(object: &Id, ctx: &Context, observed: &Observed, (zone, what): (ZoneKey, Declared)) {
    let site = ctx.settings.sites.get(&zone.group);
    let declaration = ZoneDeclaration {
        zone: zone.name.clone(),
        owner: Id::clone(object),
        generation: observed.meta.generation,
        hosting: match (site.map(|site| site.tenure), &what) {
            (Some(Tenure::Managed), Declared::Wanted(..)) => {
                Hosting::Served(observed.records.clone())
            }
            (Some(Tenure::Managed | Tenure::External) | None, _) => Hosting::Elsewhere,
        },
        tenancy: match what {
            Declared::Wanted(..) => observed.tenancy,
            Declared::Leaving | Declared::TakenBack => Tenancy::Shared,
        },
        allowed: observed.meta.allowed().map(Into::into),
        serial_floor: observed.serial_floor,
    };
    let mut state = ctx.state();
    state.own(object, &zone);
    // Under the lock, so that what is said of one zone arrives in its order.
    ctx.engine.declare_zone(&zone.group, declaration);
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.declared.insert(zone, what);
}

/// Lets the engine take a zone back.
fn take_back(object: &Id, ctx: &Context, zone: ZoneKey, tenure: Tenure) {
    let mut state = ctx.state();
    state.own(object, &zone);
    match tenure {
        Tenure::Managed => ctx.engine.raze_zone(zone.clone()),
        Tenure::External => ctx.engine.retire_zone(zone.clone()),
    }
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.declared.insert(zone, Declared::TakenBack);
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
    let said = match conditions::conditions(observed, &members) {
        Some(said) => said,
        None => match publishing::first_word(object, ctx) {
            FirstWord::Said => return Ok(Visit::OnChange),
            FirstWord::Wait(visit) => return Ok(visit),
            FirstWord::Due => conditions::first_conditions(observed, &members),
        },
    };
    let mut wrote = false;
    let guarded = said.iter().find(|one| one.kind == ConditionType::Guarded);
    let mut is_news = false;
    write_status(object, ctx, |seen, moment| {
        wrote = true;
        is_news = guarded.map(|one| one.reason) != seen.holds(ConditionType::Guarded);
        let said = (said.as_slice(), &members);
        conditions::status(observed, said, (seen, moment))
    })
    .await?;
    let ready = &said[0];
    events::tell(object, ctx, ready);
    if let Some(guarded) = guarded.filter(|_| is_news) {
        events::push(object, ctx, Tone::Warning, guarded);
    }
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

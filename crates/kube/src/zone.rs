//! The controller of zones.

mod conditions;
mod hosts;
mod removals;

pub(crate) use removals::Note;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{
    Going, Hosting, Noted, Tenancy, ZoneDeclaration, ZoneReceipt, ZoneState,
};
use bindery_core::{ConditionType, Kind, Name, ObjectRef, Record, Serial, ZoneKey};
use bindery_sources::{Cause, Id, Life, Meta, MetadataPatch, ZoneStanding};
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

/// How often to look whether a permission was given.
const PERMISSION_POLL: Duration = Duration::from_secs(15);

/// How far one zone object is.
#[derive(Default)]
pub(crate) struct ZoneProgress {
    /// What was declared to the engine and not seen to be gone.
    declared: BTreeMap<ZoneKey, Declared>,
    written: Option<Instant>,
    /// How its deletion came about, once that was asked.
    cause: Option<Cause>,
    /// The removals that are written down.
    note: Option<Note>,
    /// Whether this run wrote them down.
    is_noted: bool,
}

/// What was declared to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Declared {
    /// The zone, of this generation, with this plan let through and these removals written down.
    Wanted(i64, Option<Arc<str>>, Arc<Noted>),
    /// That it is to go, by whose word, and with what let through at which generation.
    Going(Going, Option<Arc<str>>, i64),
}

/// What is known of a zone object.
struct Observed {
    meta: Meta,
    /// The zone that it is to have.
    wanted: Option<ZoneKey>,
    /// The name that it declares, where that can be read.
    name: Option<Name>,
    records: Vec<Record>,
    /// How its deletion came about, once that was asked.
    cause: Option<Cause>,
    /// The removals that are written down.
    note: Option<Note>,
    /// What of them counts.
    noted: Arc<Noted>,
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
    event: Option<ZoneReceipt>,
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
    /// How its deletion came about has to be asked.
    Ask,
    /// A zone goes to the engine.
    Declare(ZoneKey, Declared),
    /// These removals have to be written down before they happen.
    Note(Arc<Noted>),
    /// Its author is to be told.
    Report,
    /// Nothing, until something changes.
    Rest,
}

/// Moves one zone closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Visit, Error> {
    let cause = ctx.state().zones.get(object).and_then(|zone| zone.cause);
    if cause == Some(Cause::Unknown) {
        // Somebody may have given the permission meanwhile.
        ask(object, ctx).await?;
    }
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
            Plan::Ask => ask(object, ctx).await?,
            Plan::Declare(zone, what) => declare(object, ctx, &observed, (zone, what)),
            Plan::Note(noted) => {
                if let Some(visit) = note(object, ctx, &observed, noted).await? {
                    return Ok(visit);
                }
            }
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
                Plan::Write(_) | Plan::Ask | Plan::Note(_) | Plan::Report | Plan::Rest => break,
            }
        }
    }
}

/// What a zone object's status says of removals is recalled at the first sight of it.
pub(crate) fn recall(state: &mut State, object: &Id, note: Option<Note>) {
    let progress = state.zones.entry(Id::clone(object)).or_default();
    if progress.note.is_none() {
        progress.note = note;
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
        Some(view) if matches!(view.standing, ZoneStanding::Invalid(_)) => return,
        Some(view) if view.standing == ZoneStanding::Active => view.key(),
        Some(_) | None => None,
    };
    for (zone, declared) in &progress.declared {
        let is_decided = view.is_some() && matches!(declared, Declared::Going(..));
        let declarer = state.declarers.get(zone).map(|id| &**id);
        if Some(zone) != wanted.as_ref() && !is_decided && declarer == Some(object) {
            ctx.engine.hold_zone(zone.clone());
        }
    }
}

/// An object that vanished before its zones were taken back leaves them as they are, for another object to
/// take over: its finalizer was removed by hand, or its definition by force.
fn retire(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    state.forget(object);
    let progress = state.zones.remove(object).unwrap_or_default();
    for zone in progress.declared.into_keys() {
        if state.disown(object, &zone) {
            tracing::warn!(
                %object, %zone,
                "a DNSZone vanished without its finalizer; its zone is kept and served, apply the \
                 object again to take it over"
            );
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
    // While an object has several zones, nobody knows whose serials its status tells.
    let is_only = places.len() == 1 && zone.as_ref().is_some_and(|zone| places.contains(zone));
    let told = state.serials.get(object).copied();
    let note = progress.note.as_ref();
    let noted = note.map_or_else(Arc::default, |note| {
        if progress.is_noted {
            Arc::clone(&note.noted)
        } else {
            note.recalled(ctx.clock.now())
        }
    });
    Some(Observed {
        serial_floor: told.filter(|_| is_only),
        meta: view.meta.clone(),
        name: view.name.cloned(),
        records: view.records.to_vec(),
        cause: progress.cause,
        note: note.cloned(),
        noted,
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
    /// When to look again where another object is about to have a zone, or a permission is wanting.
    fn patience(&self) -> Option<Visit> {
        if self.cause == Some(Cause::Unknown) {
            return Some(Visit::At(Instant::now() + PERMISSION_POLL));
        }
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

    /// What is to be done next about those: the engine lets them go, or holds them.
    fn leave(&self) -> Option<Plan> {
        self.former().find_map(|(zone, place)| {
            let wish = self.parting(zone);
            let is_ours = place.heir.is_none() && place.site.is_some();
            (is_ours && !place.is_done() && place.declared.as_ref() != Some(&wish))
                .then(|| Plan::Declare(zone.clone(), wish))
        })
    }

    /// What the engine is to be told of the zone that is wanted.
    fn wish(&self) -> Declared {
        let allowed = self.meta.allowed().map(Into::into);
        Declared::Wanted(self.meta.generation, allowed, Arc::clone(&self.noted))
    }

    /// What the engine is to be told of a zone that the object is to have no longer.
    fn parting(&self, zone: &ZoneKey) -> Declared {
        let is_move = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.name == zone.name);
        let going = match (self.meta.life, self.cause) {
            (Life::Alive, _) if is_move => Going::Moved,
            (Life::Deleting, None) => Going::Unsaid,
            (Life::Deleting, Some(Cause::ByName)) => Going::Asked,
            (
                Life::Deleting,
                Some(Cause::WithNamespace | Cause::WithDefinition | Cause::Unknown),
            )
            | (Life::Alive, _) => Going::Along,
        };
        let allowed = self.meta.allowed().map(Into::into);
        Declared::Going(going, allowed, self.meta.generation)
    }

    /// Removals that have to be written down, or leave for some that is worth it.
    fn to_note(&self) -> Option<Arc<Noted>> {
        let event = self.place()?.event.as_ref()?;
        let noted = event.noted.as_ref()?;
        let has_new = |mark: &u64| self.noted.passed.binary_search(mark).is_err();
        (event.waits || noted.passed.iter().any(has_new)).then(|| Arc::clone(noted))
    }

    /// The place of the zone that is wanted.
    fn place(&self) -> Option<&Place> {
        self.places.get(self.wanted.as_ref()?)
    }
}

impl Place {
    /// Whether nothing of it is left, or it is another object's business.
    fn is_done(&self) -> bool {
        let state = self.event.as_ref().map(|event| &event.state);
        let is_going = matches!(self.declared, Some(Declared::Going(..)));
        let is_gone = is_going && state == Some(&ZoneState::Gone);
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
    let has_left = observed.former().any(|(_, place)| place.heir.is_none());
    if meta.life == Life::Deleting && observed.cause.is_none() && has_left {
        return Plan::Ask;
    }
    if meta.life == Life::Deleting && meta.abandoned {
        // Its author says not to wait for servers; what is left is still tried, as far as it may go.
        let left = observed.leave();
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
        if let Some(noted) = observed.to_note() {
            return Plan::Note(noted);
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

/// Finds out how the deletion of an object came about.
///
/// Cancellation: nothing was written; the next visit asks again.
async fn ask(object: &Id, ctx: &Context) -> Result<(), Error> {
    let namespace = ctx.cluster.fetch_namespace(object).await?;
    let definition = ctx.cluster.fetch_definition(object).await?;
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.cause = Some(Cause::of(namespace, definition));
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
) -> Result<Option<Visit>, Error> {
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
    let (going, noted) = match &what {
        Declared::Wanted(_, _, noted) => (None, Some(Arc::clone(noted))),
        Declared::Going(going, ..) => (Some(*going), None),
    };
    // Of a name that is declared no longer, nothing more is known.
    let records = match site {
        Some(site) if observed.name.as_ref() == Some(&zone.name) => {
            hosts::with_addresses(&zone.name, &observed.records, &site.leader)
        }
        Some(_) | None => Vec::new(),
    };
    let declaration = ZoneDeclaration {
        zone: zone.name.clone(),
        owner: Id::clone(object),
        generation: observed.meta.generation,
        hosting: match site.map(|site| site.tenure) {
            Some(Tenure::Managed) => Hosting::Served(records),
            Some(Tenure::External) | None => Hosting::Elsewhere,
        },
        tenancy: match going {
            None => observed.tenancy,
            Some(_) => Tenancy::Shared,
        },
        allowed: observed.meta.allowed().map(Into::into),
        serial_floor: observed.serial_floor,
        going,
        noted,
    };
    let mut state = ctx.state();
    state.own(object, &zone);
    // Under the lock, so that what is said of one zone arrives in its order.
    ctx.engine.declare_zone(&zone.group, declaration);
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.declared.insert(zone, what);
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
    let note = observed.note.as_ref();
    let waits = write_report(object, ctx, observed, note).await?;
    Ok(waits.unwrap_or(Visit::OnChange))
}

/// Writes what there is to tell; where there is nothing yet, returns when to look again.
///
/// Cancellation: the status is written or not; the next visit compares again.
async fn write_report(
    object: &Id,
    ctx: &Context,
    observed: &Observed,
    note: Option<&Note>,
) -> Result<Option<Visit>, Error> {
    // Listing the zone's objects is dear, so it is not done for each of them that changes.
    let members = conditions::MemberList::new(&ctx.state(), object);
    let said = match conditions::conditions(observed, &members) {
        Some(said) => said,
        None => match publishing::first_word(object, ctx) {
            FirstWord::Said => return Ok(Some(Visit::OnChange)),
            FirstWord::Wait(visit) => return Ok(Some(visit)),
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
        let mut status = conditions::status(observed, said, (seen, moment));
        status["removals"] = note.map(Note::status).unwrap_or_default();
        status
    })
    .await?;
    let ready = &said[0];
    events::tell(object, ctx, ready);
    if let Some(guarded) = guarded.filter(|_| is_news) {
        tracing::warn!(%object, reason = %guarded.reason, message = guarded.message, "held");
        events::push(object, ctx, Tone::Warning, guarded);
    }
    let shown = Shown {
        good: ready.status == bindery_core::ConditionStatus::True,
        reason: ready.reason,
    };
    let mut state = ctx.state();
    if wrote {
        let written = Some(Instant::now());
        state.zones.entry(Id::clone(object)).or_default().written = written;
    }
    if let Some(progress) = state.progress.get_mut(object) {
        progress.shown = Some(shown);
    }
    drop(state);
    Ok(None)
}

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
use bindery_sources::{Cause, Id, Life, Meta, MetadataPatch, Precedence};
use tokio::time::Instant;

use crate::cluster::Error;
use crate::context::{Context, GroupConfig, Management};
use crate::events::{self, EventType};
use crate::publishing::{self, FirstReport, STEPS_MAX, write_status};
use crate::state::State;
use crate::status::MainCondition;
use crate::work::Requeue;

/// The shortest time between two statuses of one zone: ten thousand records that arrive together
/// must not make ten thousand writes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How often to look whether another object has taken over a zone.
const SUCCESSOR_POLL: Duration = Duration::from_millis(100);

/// How often to look whether a permission was given.
const PERMISSION_POLL: Duration = Duration::from_secs(15);

/// How far one zone object is.
#[derive(Default)]
pub(crate) struct ZoneProgress {
    /// What was declared to the engine and not seen to be gone.
    declared: BTreeMap<ZoneKey, ZoneRequest>,
    written: Option<Instant>,
    /// How its deletion came about, once that was asked.
    cause: Option<Cause>,
    /// The removals that are written down.
    note: Option<Note>,
    /// Whether this run wrote them down.
    is_noted: bool,
}

/// What the engine was asked to do with a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ZoneRequest {
    /// Serve it: of this generation, with this plan let through and these removals recorded.
    Wanted(i64, Option<Arc<str>>, Arc<Noted>),
    /// Remove it: by whose word, and with which plan let through at which generation.
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
    precedence: Precedence,
    /// The newest serial that its status tells of the one zone that it has.
    serial_floor: Option<Serial>,
    /// The zones that it has or may have on servers.
    zones: BTreeMap<ZoneKey, OwnedZone>,
}

/// A zone that an object has, or may have, on servers.
struct OwnedZone {
    /// Its servers, where they are there.
    config: Option<GroupConfig>,
    /// Whether another object takes it over.
    successor: Option<Successor>,
    declared: Option<ZoneRequest>,
    event: Option<ZoneReceipt>,
}

/// Another object that takes over a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Successor {
    /// It has the zone in its annotation, so that it will remove the zone when it goes.
    Recorded,
    /// It does not have the zone in its annotation yet: if it went now, nobody would remove the zone.
    Pending,
}

/// What is to be done next.
enum Plan {
    /// Before a zone is touched, its object says so, and after it is gone no longer.
    Write(BTreeSet<ZoneKey>),
    /// How its deletion came about has to be asked.
    Ask,
    /// A zone goes to the engine.
    Declare(ZoneKey, ZoneRequest),
    /// These removals have to be written down before they happen.
    Note(Arc<Noted>),
    /// Its author is to be told.
    Report,
    /// Nothing, until something changes.
    Rest,
}

/// Moves one zone closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Requeue, Error> {
    let cause = ctx.state().zones.get(object).and_then(|zone| zone.cause);
    if cause == Some(Cause::Unknown) {
        // Somebody may have given the permission meanwhile.
        ask(object, ctx).await?;
    }
    for _ in 0..STEPS_MAX {
        let Some(observed) = observe(object, &ctx.state(), ctx) else {
            retire(object, ctx);
            return Ok(Requeue::OnChange);
        };
        match plan(&observed) {
            Plan::Rest => return Ok(Requeue::OnChange),
            Plan::Report => {
                let requeue = report(object, ctx, &observed).await?;
                return Ok(observed.requeue_at().unwrap_or(requeue));
            }
            Plan::Write(zones) => write(object, ctx, &observed.meta, &zones).await?,
            Plan::Ask => ask(object, ctx).await?,
            Plan::Declare(zone, what) => declare(object, ctx, &observed, (zone, what)),
            Plan::Note(noted) => {
                if let Some(requeue) = note(object, ctx, &observed, noted).await? {
                    return Ok(requeue);
                }
            }
        }
    }
    Ok(Requeue::Failed)
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
            let Some(observed) = observed.filter(|observed| observed.meta.has_finalizer) else {
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

/// An object that vanished before its zones were taken back leaves them as they are, for another object to
/// take over: its finalizer was removed by hand, or its definition by force.
fn retire(object: &Id, ctx: &Context) {
    let mut state = ctx.state();
    state.forget(object);
    let progress = state.zones.remove(object).unwrap_or_default();
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

fn observe(object: &Id, state: &State, ctx: &Context) -> Option<Observed> {
    let view = state.catalog.zone(object)?;
    let zone = view.key();
    let unknown = ZoneProgress::default();
    let progress = state.zones.get(object).unwrap_or(&unknown);
    let mut zones: BTreeSet<ZoneKey> = view.meta.owned_zones().into_iter().collect();
    if zones.is_empty() && view.meta.has_finalizer {
        // Objects of earlier versions do not say which zones they have.
        zones.extend(zone.clone());
    }
    zones.extend(progress.declared.keys().cloned());
    let owned = |zone: ZoneKey| {
        let active = state.catalog.active_zone(&zone);
        let mut others = active.into_iter().chain(state.declarers.get(&zone));
        let other = others.find(|other| *other != object);
        let declared = progress.declared.get(&zone);
        let owned = OwnedZone {
            config: ctx.settings.groups.get(&zone.group).cloned(),
            successor: other.map(|other| successor(state, other, &zone)),
            declared: declared.cloned(),
            event: declared.and_then(|_| state.zone_events.get(&zone).cloned()),
        };
        (zone, owned)
    };
    // While an object has several zones, nobody knows whose serials its status tells.
    let is_only = zones.len() == 1 && zone.as_ref().is_some_and(|zone| zones.contains(zone));
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
        wanted: zone.filter(|_| view.precedence == Precedence::Active),
        precedence: view.precedence,
        zones: zones.into_iter().map(owned).collect(),
    })
}

fn successor(state: &State, other: &Id, zone: &ZoneKey) -> Successor {
    let meta = state.catalog.meta(other).filter(|meta| meta.has_finalizer);
    if meta.is_some_and(|meta| meta.owned_zones().contains(zone)) {
        Successor::Recorded
    } else {
        Successor::Pending
    }
}

impl Observed {
    /// When to look again where another object is about to have a zone, or a permission is wanting.
    fn requeue_at(&self) -> Option<Requeue> {
        if self.cause == Some(Cause::Unknown) {
            return Some(Requeue::At(Instant::now() + PERMISSION_POLL));
        }
        let waits = |(_, owned): (_, &OwnedZone)| owned.successor == Some(Successor::Pending);
        let at = Instant::now() + SUCCESSOR_POLL;
        self.former().any(waits).then_some(Requeue::At(at))
    }

    /// The zones that the object is to have no longer; none while its author has to correct it.
    fn former(&self) -> impl Iterator<Item = (&ZoneKey, &OwnedZone)> {
        let is_known = !matches!(self.precedence, Precedence::Invalid(_));
        let zones = self.zones.iter().filter(move |_| is_known);
        zones.filter(|(zone, _)| Some(*zone) != self.wanted.as_ref())
    }

    /// What is to be done next about those: the engine lets them go, or holds them.
    fn leave(&self) -> Option<Plan> {
        self.former().find_map(|(zone, owned)| {
            let removal = self.removal(zone);
            let is_ours = owned.successor.is_none() && owned.config.is_some();
            (is_ours && !owned.is_done() && owned.declared.as_ref() != Some(&removal))
                .then(|| Plan::Declare(zone.clone(), removal))
        })
    }

    /// What the engine is to be told of the zone that is wanted.
    fn request(&self) -> ZoneRequest {
        let allowed = self.meta.allowed_plan().map(Into::into);
        ZoneRequest::Wanted(self.meta.generation, allowed, Arc::clone(&self.noted))
    }

    /// What the engine is to be told of a zone that the object is to have no longer.
    fn removal(&self, zone: &ZoneKey) -> ZoneRequest {
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
        let allowed = self.meta.allowed_plan().map(Into::into);
        ZoneRequest::Going(going, allowed, self.meta.generation)
    }

    /// Removals that have to be written down, or leave for some that is worth it.
    fn to_note(&self) -> Option<Arc<Noted>> {
        let event = self.owned()?.event.as_ref()?;
        let noted = event.noted.as_ref()?;
        let has_new = |mark: &u64| self.noted.passed.binary_search(mark).is_err();
        (event.waits || noted.passed.iter().any(has_new)).then(|| Arc::clone(noted))
    }

    /// The wanted zone on its servers.
    fn owned(&self) -> Option<&OwnedZone> {
        self.zones.get(self.wanted.as_ref()?)
    }
}

impl OwnedZone {
    /// Whether nothing of it is left, or it is another object's business.
    fn is_done(&self) -> bool {
        let state = self.event.as_ref().map(|event| &event.state);
        let is_going = matches!(self.declared, Some(ZoneRequest::Going(..)));
        let is_gone = is_going && state == Some(&ZoneState::Gone);
        self.successor == Some(Successor::Recorded) || is_gone
    }
}

fn plan(observed: &Observed) -> Plan {
    let meta = &observed.meta;
    if matches!(observed.precedence, Precedence::Invalid(_)) {
        return Plan::Report;
    }
    let written: BTreeSet<ZoneKey> = meta.owned_zones().into_iter().collect();
    if meta.life == Life::Deleting && !meta.has_finalizer {
        return Plan::Rest;
    }
    let has_left = observed
        .former()
        .any(|(_, owned)| owned.successor.is_none());
    if meta.life == Life::Deleting && observed.cause.is_none() && has_left {
        return Plan::Ask;
    }
    if meta.life == Life::Deleting && meta.abandoned {
        // Its author says not to wait for servers; what is left is still tried, as far as it may go.
        let left = observed.leave();
        return left.unwrap_or_else(|| Plan::Write(BTreeSet::new()));
    }
    if let Some(wanted) = &observed.wanted {
        if !meta.has_finalizer || !meta.is_recorded() || !observed.zones.contains_key(wanted) {
            let zones = observed.zones.keys().chain([wanted]);
            return Plan::Write(zones.cloned().collect());
        }
        let declared = observed.owned().and_then(|owned| owned.declared.clone());
        if declared != Some(observed.request()) {
            return Plan::Declare(wanted.clone(), observed.request());
        }
        if let Some(noted) = observed.to_note() {
            return Plan::Note(noted);
        }
    }
    if let Some(plan) = observed.leave() {
        return plan;
    }
    let left = observed.former().filter(|(_, owned)| !owned.is_done());
    let left = left.map(|(zone, _)| zone).chain(&observed.wanted);
    let left: BTreeSet<ZoneKey> = left.cloned().collect();
    if left != written || left.is_empty() == meta.has_finalizer || !meta.is_recorded() {
        return Plan::Write(left);
    }
    Plan::Report
}

/// Finds out how the deletion of an object came about.
///
/// Cancellation: nothing was written; the next reconcile asks again.
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
    let before = known.len();
    known.retain(|owned| zones.contains(owned));
    if known.len() < before
        && let Some(left) = MetadataPatch::owned_zones(meta, &known).owned()
    {
        ctx.state().catalog.set_owned(object, left);
    }
    let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
    ctx.on_response(object.kind, newest);
    let mut state = ctx.state();
    let progress = state.zones.entry(Id::clone(object)).or_default();
    let gone: Vec<ZoneKey> = progress
        .declared
        .extract_if(.., |zone, _| !zones.contains(zone))
        .map(|(zone, _)| zone)
        .collect();
    for zone in &gone {
        state.clear_declarer(object, zone);
    }
    drop(state);
    Ok(())
}

/// Hands a zone to the engine.
fn declare(object: &Id, ctx: &Context, observed: &Observed, (zone, what): (ZoneKey, ZoneRequest)) {
    let config = ctx.settings.groups.get(&zone.group);
    let (going, noted) = match &what {
        ZoneRequest::Wanted(_, _, noted) => (None, Some(Arc::clone(noted))),
        ZoneRequest::Going(going, ..) => (Some(*going), None),
    };
    // Of a name that is declared no longer, nothing more is known.
    let records = match config {
        Some(config) if observed.name.as_ref() == Some(&zone.name) => {
            hosts::with_addresses(&zone.name, &observed.records, &config.leader)
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
        allowed: observed.meta.allowed_plan().map(Into::into),
        serial_floor: observed.serial_floor,
        going,
        noted,
    };
    let mut state = ctx.state();
    state.set_declarer(object, &zone);
    // Under the lock, so that what is said of one zone arrives in its order.
    ctx.engine.declare_zone(&zone.group, declaration);
    let progress = state.zones.entry(Id::clone(object)).or_default();
    progress.declared.insert(zone, what);
}

/// Tells the zone's author how it is, not more often than once in a while.
async fn report(object: &Id, ctx: &Context, observed: &Observed) -> Result<Requeue, Error> {
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
async fn write_report(
    object: &Id,
    ctx: &Context,
    observed: &Observed,
    note: Option<&Note>,
) -> Result<Option<Requeue>, Error> {
    // Listing the zone's objects is dear, so it is not done for each of them that changes.
    let members = conditions::MemberList::new(&ctx.state(), object);
    let said = match conditions::conditions(observed, &members) {
        Some(said) => said,
        None => match publishing::first_report(object, ctx) {
            FirstReport::Done => return Ok(Some(Requeue::OnChange)),
            FirstReport::Wait(requeue) => return Ok(Some(requeue)),
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
        tracing::warn!(%object, reason = %guarded.reason, message = guarded.message, "held");
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

//! What is known of a zone object and of the zones that it has on servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_core::zones::{
    Going, Noted, SerialFloor, SigningPolicy, Tenancy, ZoneReceipt, ZoneState,
};
use bindery_core::{Name, Record, ServerId, ZoneKey};
use bindery_sources::{Cause, Id, Meta, Precedence};
use serde_json::Value;

use super::{Note, ZoneProgress};
use crate::context::{Context, GroupConfig};
use crate::state::State;

/// What the engine was asked to do with a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ZoneRequest {
    /// Serve it: of this generation, with this plan let through and these removals recorded; on servers that
    /// are declared, with the address of the first primary, which is that of the zone's own name server.
    Wanted(i64, Option<Arc<str>>, Arc<Noted>, Option<Arc<str>>),
    /// Remove it: by whose word, and with which plan let through at which generation.
    Going(Going, Option<Arc<str>>, i64),
}

/// What is known of a zone object.
pub(super) struct Observed {
    pub(super) meta: Meta,
    /// The zone that it is to have.
    pub(super) wanted: Option<ZoneKey>,
    /// The name that it declares, where that can be read.
    pub(super) name: Option<Name>,
    pub(super) records: Vec<Record>,
    /// How its deletion came about, once that was asked.
    pub(super) cause: Option<Cause>,
    /// The removals that are written down.
    pub(super) note: Option<Note>,
    /// What of them counts.
    pub(super) noted: Arc<Noted>,
    pub(super) tenancy: Tenancy,
    /// By which policy it is to be signed.
    pub(super) signing: SigningPolicy,
    /// How it was signed, as its status told before this process.
    pub(super) told_signing: Value,
    /// Fields that it sets and that are acted on only where Bindery serves the zone.
    pub(super) hosted_only: Vec<&'static str>,
    pub(super) precedence: Precedence,
    /// What its status tells of the serials of the one zone that it has.
    pub(super) serial_floor: SerialFloor,
    /// The zones that it has or may have on servers.
    pub(super) zones: BTreeMap<ZoneKey, OwnedZone>,
}

/// A zone that an object has, or may have, on servers.
pub(super) struct OwnedZone {
    /// Its servers, where they are there.
    pub(super) config: Option<GroupConfig>,
    /// Whether another object takes it over.
    pub(super) successor: Option<Successor>,
    pub(super) declared: Option<ZoneRequest>,
    pub(super) event: Option<ZoneReceipt>,
}

/// Another object that takes over a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Successor {
    /// It has the zone in its annotation, so that it will remove the zone when it goes.
    Recorded,
    /// It does not have the zone in its annotation yet: if it went now, nobody would remove the zone.
    Pending,
    /// Its status does not tell the zone's serial yet: if the object went now, a process that begins anew might
    /// take the zone back to an older one.
    Untold,
}

/// What the statuses of other objects, which have the zone or had it last, tell of its serials.
fn told_by_others(object: &Id, zone: &ZoneKey, state: &State) -> Option<SerialFloor> {
    let others = state.catalog.namesakes(&zone.name);
    let others = others.filter(|other| *other != object);
    others
        .filter_map(|other| told_of(other, zone, state))
        .reduce(newer)
}

/// What an object's status tells of a zone's serials, where it can be of no other zone.
fn told_of(object: &Id, zone: &ZoneKey, state: &State) -> Option<SerialFloor> {
    let view = state.catalog.zone(object)?;
    let mut zones = view.key().into_iter().chain(view.meta.owned_zones());
    let has_no_other = zones.all(|one| one == *zone);
    let told = state.serials.get(object).copied();
    told.filter(|_| has_no_other)
}

/// The newer of both; of two that are as new, the one of a leader that was on its way beyond.
fn newer(one: SerialFloor, other: SerialFloor) -> SerialFloor {
    let is_other = match (one.serial(), other.serial()) {
        (Some(one), Some(serial)) if one == serial => matches!(other, SerialFloor::Fallen(_)),
        (Some(one), Some(other)) => other.newer_than(one),
        (None, _) => true,
        (Some(_), None) => false,
    };
    if is_other { other } else { one }
}

/// Looks at a zone object; `None` where it is gone.
pub(super) fn observe(object: &Id, state: &State, ctx: &Context) -> Option<Observed> {
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
            config: ctx.group_config(&zone.group),
            successor: other.map(|other| successor(state, (object, other), &zone)),
            declared: declared.cloned(),
            event: declared.and_then(|_| state.zone_events.get(&zone).cloned()),
        };
        (zone, owned)
    };
    // While an object has several zones, nobody knows whose serials its status tells.
    let is_only = zones.len() == 1 && zone.as_ref().is_some_and(|zone| zones.contains(zone));
    let told = state.serials.get(object).copied();
    let told = told.filter(|_| is_only || zones.is_empty());
    let has_taken_over = view.precedence == Precedence::Active;
    let others = zone.as_ref().filter(|_| has_taken_over || told.is_none());
    let others = others.and_then(|zone| told_by_others(object, zone, state));
    // What it told when it last had the zone itself may be older than what another one told since.
    let told = told.into_iter().chain(others).reduce(newer);
    let is_new = zone
        .as_ref()
        .is_none_or(|zone| progress.begun.contains(zone));
    let note = progress.note.as_ref();
    let noted = note.map_or_else(Arc::default, |note| {
        if progress.is_noted {
            Arc::clone(&note.noted)
        } else {
            note.recalled(ctx.clock.now())
        }
    });
    Some(Observed {
        serial_floor: match told {
            Some(told) => told,
            None if is_new => SerialFloor::New,
            None => SerialFloor::Untold,
        },
        meta: view.meta.clone(),
        name: view.name.cloned(),
        records: view.records.to_vec(),
        cause: progress.cause,
        note: note.cloned(),
        noted,
        tenancy: view.tenancy,
        signing: view.signing.clone(),
        told_signing: state.signed.get(object).cloned().unwrap_or_default(),
        hosted_only: view.hosted_only.to_vec(),
        wanted: zone.filter(|_| view.precedence == Precedence::Active),
        precedence: view.precedence,
        zones: zones.into_iter().map(owned).collect(),
    })
}

fn successor(state: &State, (object, other): (&Id, &Id), zone: &ZoneKey) -> Successor {
    let meta = state.catalog.meta(other).filter(|meta| meta.has_finalizer);
    if !meta.is_some_and(|meta| meta.owned_zones().contains(zone)) {
        Successor::Pending
    } else if has_told(state, (object, other), zone) {
        Successor::Recorded
    } else {
        Successor::Untold
    }
}

/// Whether the object may go as far as the zone's serial is concerned: its own status may be all that tells it
/// to a process that begins anew.
fn has_told(state: &State, (object, other): (&Id, &Id), zone: &ZoneKey) -> bool {
    let serial = |floor: &SerialFloor| floor.serial();
    let Some(needed) = told_of(object, zone, state).as_ref().and_then(serial) else {
        return true;
    };
    // One that does not have the zone now has nothing to tell of it.
    if state.catalog.active_zone(zone) != Some(other) {
        return true;
    }
    let Some(told) = state.serials.get(other).and_then(serial) else {
        return false;
    };
    if !needed.newer_than(told) {
        return true;
    }
    // The engine may have found that the zone stands at an older one for good.
    let declarer = state.declarers.get(zone).filter(|one| *one == other);
    let event = declarer.and_then(|_| state.zone_events.get(zone));
    let event = event.filter(|event| event.state == ZoneState::Ready);
    let event = event.filter(|event| event.fallen_from.is_none());
    let stands = event.and_then(|event| event.serial);
    stands.is_some_and(|stands| !stands.newer_than(told))
}

impl Observed {
    /// The zones that the object is to have no longer; none while its author has to correct it.
    pub(super) fn former(&self) -> impl Iterator<Item = (&ZoneKey, &OwnedZone)> {
        let is_known = !matches!(self.precedence, Precedence::Invalid(_));
        let zones = self.zones.iter().filter(move |_| is_known);
        zones.filter(|(zone, _)| Some(*zone) != self.wanted.as_ref())
    }

    /// The server that signed the zone when its status was last written.
    pub(super) fn signer(&self) -> Option<ServerId> {
        self.told_signing["signer"].as_str().map(ServerId::new)
    }

    /// The wanted zone on its servers.
    pub(super) fn owned(&self) -> Option<&OwnedZone> {
        self.zones.get(self.wanted.as_ref()?)
    }
}

impl OwnedZone {
    /// Whether nothing of it is left, or it is another object's business.
    pub(super) fn is_done(&self) -> bool {
        let state = self.event.as_ref().map(|event| &event.state);
        let is_going = matches!(self.declared, Some(ZoneRequest::Going(..)));
        let is_gone = is_going && state == Some(&ZoneState::Gone);
        self.successor == Some(Successor::Recorded) || is_gone
    }
}

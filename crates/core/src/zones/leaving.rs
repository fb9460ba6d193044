//! Zones that are to go: one with data in it goes only by its author's word.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{
    HeldPlan, HeldScope, Hosting, Zone, Zones,
    guard::{SHOWN_MAX, WINDOW, short},
    protocol::Going,
};
use crate::{
    name::Name,
    record::{Record, RecordData, RecordKey, RecordType},
    tracker::Phase,
};

/// Zones with data in them that may be deleted by name within [`WINDOW`] without a second word.
const ZONES_MAX: usize = 3;

/// Zones that are to go, and when such went.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// Zones that are to go by name.
    asked: BTreeSet<Name>,
    /// When zones with data in them went without a second word.
    recent: VecDeque<Duration>,
}

impl Departures {
    /// Notes whether a zone is to go by name.
    pub(super) fn note(&mut self, name: &Name, going: Option<Going>) {
        if going == Some(Going::Asked) {
            self.asked.insert(name.clone());
        } else {
            self.asked.remove(name);
        }
    }
}

impl Zone {
    /// How many record sets are in the zone beside those that make it one.
    pub(super) fn data(&self, name: &Name) -> usize {
        let bones = self.bones(name);
        let standing = bones
            .iter()
            .filter(|key| self.children.actual(key).is_some());
        self.children.all_actual().len() - standing.count()
    }

    /// The sets that make it a zone: SOA, name servers, and the addresses that it gives to these.
    fn bones(&self, name: &Name) -> BTreeSet<RecordKey> {
        let key = |rtype| RecordKey::new(name.clone(), rtype);
        let servers = self.children.actual(&key(RecordType::Ns));
        let servers = servers.map_or(&[][..], |set| set.data());
        let hosts = servers.iter().filter_map(|data| {
            let RecordData::Ns(host) = data else {
                return None;
            };
            (self.created_by_us && host.is_in(name)).then_some(host)
        });
        let glue = hosts.flat_map(|host| {
            let types = [RecordType::A, RecordType::Aaaa].into_iter();
            types.map(|rtype| RecordKey::new(host.clone(), rtype))
        });
        let apex = [key(RecordType::Soa), key(RecordType::Ns)];
        let own = self.own.keys().cloned();
        glue.chain(apex).chain(own).collect()
    }

    /// Whether the zone is to go, or nobody knows.
    pub(super) fn is_going(&self) -> bool {
        let declared = self.declared.as_ref();
        declared.is_some_and(|declared| declared.going.is_some())
    }

    /// Whether it is known how to make the zone.
    pub(super) fn has_soa(&self) -> bool {
        let declared = self.declared.as_ref();
        let is_soa = |record: &Record| record.data.rtype() == RecordType::Soa;
        declared.is_some_and(|declared| match &declared.hosting {
            Hosting::Served(records) => records.iter().any(is_soa),
            Hosting::Elsewhere => false,
        })
    }

    /// What would be lost with the zone: of one that Bindery serves everything, of others what is ours.
    fn lost(&self, name: &Name) -> Vec<&RecordKey> {
        let bones = self.bones(name);
        let keys = self.children.all_actual().keys();
        keys.filter(|key| !bones.contains(key))
            .filter(|key| self.created_by_us || !self.foreign.contains(key))
            .collect()
    }

    /// The plan to let the zone go, where everything in it is known.
    pub(super) fn departure(&self, name: &Name) -> Option<HeldPlan> {
        let declared = self.declared.as_ref()?;
        if declared.going? == Going::Unsaid || !self.lifecycle.is_open() || self.serial.is_none() {
            return None;
        }
        let mut lost = self.lost(name);
        let mut hasher = Sha256::new();
        hasher.update(name.to_string());
        hasher.update(declared.generation.to_be_bytes());
        for key in &lost {
            hasher.update(key.to_string());
            hasher.update([0]);
        }
        let is_foreign = |key: &RecordKey| self.foreign.contains(key);
        // What others wrote is declared nowhere, so it is shown first.
        lost.sort_by_key(|key| !is_foreign(key));
        Some(HeldPlan {
            scope: HeldScope::Zone,
            digest: short(&hasher.finalize()),
            removals: lost.len(),
            total: self.children.all_actual().len(),
            foreign: lost.iter().filter(|key| is_foreign(key)).count(),
            along: 0,
            shown: lost.into_iter().take(SHOWN_MAX).cloned().collect(),
        })
    }
}

impl Zones {
    /// Something happened to the object of a zone: until its author's will is known, and for ever where it
    /// vanished, nothing goes from the zone.
    pub fn hold_zone(&mut self, name: &Name) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        if let Some(declared) = &mut zone.declared {
            declared.going = Some(Going::Unsaid);
        }
        zone.guard.stays = false;
        self.departures.note(name, None);
        self.zone_news.insert(name.clone());
    }

    /// An object has a zone and cannot declare it yet: nobody can say that a record is gone from it.
    pub fn await_zone(&mut self, name: &Name) {
        let zone = self.known.entry(name.clone()).or_default();
        zone.awaited = zone.declared.is_none();
    }

    /// Lets a zone that is to go, and of which everything is known, go if it may; returns whether.
    pub(super) fn depart(&mut self, name: &Name, now: Duration) -> bool {
        let Some(zone) = self.known.get(name) else {
            return false;
        };
        let (Some(plan), Some(declared)) = (zone.departure(name), &zone.declared) else {
            return false;
        };
        let is_named = declared.allowed.as_deref() == Some(&*plan.digest);
        let is_harmless = match declared.going {
            Some(Going::Asked | Going::Moved) => plan.foreign == 0,
            Some(Going::Along) => plan.removals == 0,
            Some(Going::Unsaid) | None => false,
        };
        // What is in a zone that moves is declared where it moves to.
        let counts =
            declared.going == Some(Going::Asked) && plan.removals > 0 && zone.created_by_us;
        let counts = counts && !is_named;
        let is_one_too_many = counts && self.is_one_too_many(name, now);
        let Some(zone) = self.known.get_mut(name) else {
            return false;
        };
        // It does not go by itself once the minute is over.
        zone.guard.is_one_too_many |= is_one_too_many;
        if !is_named && (!is_harmless || zone.guard.is_one_too_many) {
            if !std::mem::replace(&mut zone.guard.stays, true) {
                self.zone_news.insert(name.clone());
            }
            return false;
        }
        if counts {
            self.departures.recent.push_back(now);
        }
        self.undeclare_zone(name);
        true
    }

    /// Whether too many zones with data in them go at once, or went of late, for this one to go too.
    fn is_one_too_many(&mut self, name: &Name, now: Duration) -> bool {
        let Departures { asked, recent } = &mut self.departures;
        recent.retain(|at| *at + WINDOW >= now);
        let others = asked.iter().filter(|other| *other != name);
        let waiting = others.filter(|other| {
            let zone = self.known.get(*other);
            zone.is_some_and(|zone| zone.data(other) > 0)
        });
        waiting.count() + recent.len() >= ZONES_MAX
    }

    /// A zone that is to go and that its leader does not have: nothing that is known is lost with it.
    pub(super) fn depart_missing(&mut self, name: &Name) -> bool {
        let Some(zone) = self.known.get_mut(name) else {
            return false;
        };
        let going = zone.declared.as_ref().and_then(|declared| declared.going);
        if going.is_none_or(|going| going == Going::Unsaid)
            || zone.lifecycle.phase() != Phase::NotStarted
        {
            return false;
        }
        if zone.created_by_us {
            // Its server may know its name and not be able to load it.
            zone.lifecycle.retire_remnant();
        }
        self.undeclare_zone(name);
        self.touch_all_owners(name);
        true
    }
}

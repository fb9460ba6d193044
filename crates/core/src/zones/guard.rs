//! The guard: a plan that would take too much out of a zone is held and shown, not carried out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{Zone, Zones, all_types};
use crate::{
    fault::{Fault, FaultKind},
    name::Name,
    record::{RecordData, RecordKey, RecordType, Serial},
};

/// Removals up to this number are never held.
const REMOVALS_MIN: usize = 10;
/// The share of a zone's record sets, in percent, that may be removed within [`WINDOW`].
const SHARE_MAX: usize = 30;
/// Removals within this time count as one plan: objects that are deleted together do not arrive
/// together.
const WINDOW: Duration = Duration::from_mins(1);
/// How many of the held sets are shown.
const SHOWN_MAX: usize = 10;
/// Digits of a digest; enough to tell plans apart that people look at.
const DIGEST_LEN: usize = 12;

/// What the guard keeps of a zone.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Sets whose removal is held.
    held: BTreeSet<RecordKey>,
    /// The serial when the first of them was held. It only grows, so no two plans have one digest, and
    /// leave that was given for one is none for a later one.
    since: Option<Serial>,
    /// Sets whose removal was let through.
    passed: BTreeSet<RecordKey>,
    /// Sets that were removed of late and are not wanted again, and when.
    recent: BTreeMap<RecordKey, Duration>,
}

/// A plan that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPlan {
    /// What stands for exactly this plan.
    pub digest: String,
    /// How many record sets it would remove.
    pub removals: usize,
    /// Out of how many.
    pub total: usize,
    /// Some of them.
    pub shown: Vec<RecordKey>,
}

impl Guard {
    /// Notes that a set is wanted again.
    pub(super) fn want(&mut self, key: &RecordKey) {
        self.held.remove(key);
        self.passed.remove(key);
        self.recent.remove(key);
    }

    /// Notes that a set is gone.
    pub(super) fn lose(&mut self, key: &RecordKey, now: Duration) {
        self.held.remove(key);
        if !self.passed.remove(key) {
            self.recent.insert(key.clone(), now);
        }
    }

    /// Lets the removal of a set through that was removed before and came back with an older version.
    pub(super) fn pass(&mut self, key: &RecordKey) {
        self.passed.insert(key.clone());
    }

    fn recent(&mut self, now: Duration) -> usize {
        self.recent.retain(|_, at| *at + WINDOW >= now);
        self.recent.len()
    }

    /// What stands for the plan that is held.
    fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.since.map_or(0, |serial| serial.0).to_be_bytes());
        for key in &self.held {
            hasher.update(key.to_string());
            hasher.update([0]);
        }
        let mut text = String::new();
        for byte in hasher.finalize() {
            use std::fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.truncate(DIGEST_LEN);
        text
    }
}

impl Zone {
    /// The plan that is held, if one is.
    pub(super) fn held_plan(&self) -> Option<HeldPlan> {
        let held = &self.guard.held;
        if held.is_empty() {
            return None;
        }
        Some(HeldPlan {
            digest: self.guard.digest(),
            removals: held.len(),
            total: self.parent.children().len(),
            shown: held.iter().take(SHOWN_MAX).cloned().collect(),
        })
    }

    /// Whether nothing is wanted at this name, so that removing a set takes the name away.
    fn is_unwanted(&self, name: &Name) -> bool {
        self.parent
            .wanted_children()
            .range(all_types(name))
            .next()
            .is_none()
    }

    /// Lets the held plan through that its author named.
    pub(super) fn release(&mut self, allowed: Option<&str>) {
        if allowed.is_some_and(|allowed| allowed == self.guard.digest()) {
            self.let_go();
        }
    }

    /// Lets everything through that is held.
    pub(super) fn let_go(&mut self) {
        for key in std::mem::take(&mut self.guard.held) {
            self.sick.remove(&key);
            self.parent.mark(key.clone());
            self.guard.passed.insert(key);
        }
    }
}

impl Zone {
    /// How many record sets are in the zone beside those that make it one.
    pub(super) fn data(&self, name: &Name) -> usize {
        let bones = self.bones(name);
        let standing = bones.iter().filter(|key| self.parent.actual(key).is_some());
        self.parent.children().len() - standing.count()
    }

    /// The sets that make it a zone: SOA, name servers, and the addresses that it gives to these.
    fn bones(&self, name: &Name) -> BTreeSet<RecordKey> {
        let key = |rtype| RecordKey::new(name.clone(), rtype);
        let servers = self.parent.actual(&key(RecordType::Ns));
        let servers = servers.map_or(&[][..], |set| set.data());
        let hosts = servers.iter().filter_map(|data| {
            let RecordData::Ns(host) = data else {
                return None;
            };
            (self.served && host.is_in(name)).then_some(host)
        });
        let glue = hosts.flat_map(|host| {
            let types = [RecordType::A, RecordType::Aaaa].into_iter();
            types.map(|rtype| RecordKey::new(host.clone(), rtype))
        });
        let apex = [key(RecordType::Soa), key(RecordType::Ns)];
        let own = self.own.keys().cloned();
        glue.chain(apex).chain(own).collect()
    }
}

impl Zones {
    /// Whether the removal of this set is to be held. `too_much` keeps the answer for all sets that are
    /// looked at together: what is held leaves the list of those that wait, so the sum stays.
    pub(super) fn holds(
        &mut self,
        name: &Name,
        key: &RecordKey,
        now: Duration,
        too_much: &mut Option<bool>,
    ) -> bool {
        let Some(zone) = self.known.get_mut(name) else {
            return false;
        };
        // A zone that goes takes everything along, which its author asked for.
        if zone.declared.is_none() || zone.guard.passed.contains(key) {
            return false;
        }
        let is_apex_ns = key.rtype == RecordType::Ns && key.name == *name;
        if !is_apex_ns && !zone.is_unwanted(&key.name) {
            return false;
        }
        let hold = is_apex_ns || *too_much.get_or_insert_with(|| zone.removes_too_much(name, now));
        if hold {
            if zone.guard.held.is_empty() {
                zone.guard.since = zone.serial;
            }
            zone.guard.held.insert(key.clone());
            self.zone_news.insert(name.clone());
        }
        hold
    }
}

impl Zone {
    /// Whether what waits to be removed, is on its way, is held, or went of late, is too much.
    fn removes_too_much(&mut self, name: &Name, now: Duration) -> bool {
        let recent = self.guard.recent(now);
        // What others wrote is looked at too, after a transfer, and stays.
        let stays = |key: &RecordKey| {
            (key.name == *name && matches!(key.rtype, RecordType::Soa | RecordType::Ns))
                || (self.foreign.contains(key) && !self.evicts(key))
        };
        let flying = self.flights.iter();
        let flying = flying
            .filter(|(key, flight)| flight.desired.is_none() && !self.guard.passed.contains(key))
            .map(|(key, _)| key);
        let waiting = self.parent.pending();
        let waiting = waiting.filter(|key| self.parent.desired(key).is_none());
        let doomed = waiting
            .chain(flying)
            .filter(|key| self.parent.actual(key).is_some() && !stays(key));
        let doomed = doomed.count() + self.guard.held.len() + recent;
        let total = self.parent.children().len() + recent;
        doomed >= REMOVALS_MIN && doomed * 100 > total * SHARE_MAX
    }
}

/// What an object is told whose removal is held.
pub(super) fn held_fault(zone: &Name) -> Fault {
    Fault::new(
        FaultKind::Held,
        format!(
            "too much would go from {zone} at once, so it is held: see the condition Guarded of \
             its DNSZone, which says how to let it through"
        ),
    )
}

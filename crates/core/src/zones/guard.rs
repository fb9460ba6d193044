//! The guard: a plan that would take too much out of a zone is held and shown, not carried out.
//!
//! Why a minute counts as one plan: a mistake such as a wrong selector or an emptied folder takes objects
//! away one after the other, and each removal alone looks harmless. Why leave is given to a digest: what
//! somebody looked at and meant must not cover what joined the plan afterwards.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{Going, Zone, noted::Memory};
use crate::{
    fault::{Fault, FaultKind},
    guard::{Excess, Judgement, Policy},
    name::Name,
    plan::{Loss, PlannedChange},
    record::{RecordKey, RecordType, hex},
};

/// Removals up to this number are never held.
const REMOVALS_MIN: usize = 10;
/// The share of a zone's record sets, in percent, that may be removed within [`WINDOW`].
const SHARE_MAX: usize = 30;
/// Removals within this time count as one plan: objects that are deleted together do not arrive
/// together.
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// How many of the held sets are shown.
pub(super) const SHOWN_MAX: usize = 10;
/// Digits of a digest; enough to tell plans apart that people look at.
const DIGEST_LEN: usize = 12;
/// Plans that were shown and can still be named. They are shown once a second at most, so that is
/// more than a minute in which somebody copies a command while more is removed.
const PLANS_MAX: usize = 100;

/// What the guard keeps of a zone.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Sets whose removal is held, and as the how manieth.
    pub(super) held: BTreeMap<RecordKey, u64>,
    /// Those of them that something else takes along.
    along: BTreeSet<RecordKey>,
    /// How many were ever held.
    count: u64,
    /// What stands for all that were ever held, in their order, each with the serial at that time. It
    /// only grows, so no two plans have one digest, and leave that was given for one is none for a later
    /// one.
    chain: [u8; 32],
    /// Plans that were shown: what stands for them, and how many sets had been held by then.
    plans: VecDeque<(String, u64)>,
    /// Sets whose removal was let through.
    pub(super) passed: BTreeSet<RecordKey>,
    /// Sets that were removed of late and are not wanted again, and when.
    pub(super) recent: BTreeMap<RecordKey, Duration>,
    /// What is known beyond a restart.
    pub(super) memory: Memory,
    /// The zone is to go and is held.
    pub(super) stays: bool,
    /// The zone is to go and is held because too many go at once, until it is let through.
    pub(super) is_one_too_many: bool,
}

/// A plan that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPlan {
    /// What it would take away.
    pub scope: HeldScope,
    /// What stands for exactly this plan.
    pub digest: String,
    /// How many record sets it would remove.
    pub removals: usize,
    /// Out of how many.
    pub total: usize,
    /// How many of them others wrote.
    pub foreign: usize,
    /// How many of them nobody asked to remove: something else takes their object along.
    pub along: usize,
    /// Some of them.
    pub shown: Vec<RecordKey>,
}

/// What a plan that is held would take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldScope {
    /// Record sets.
    Sets,
    /// The zone with everything in it.
    Zone,
}

impl Guard {
    /// Notes that a set is wanted again.
    pub(super) fn want(&mut self, key: &RecordKey) {
        self.unhold(key);
        self.passed.remove(key);
        self.recent.remove(key);
        self.memory.want(key);
    }

    /// Notes that a set is gone.
    pub(super) fn lose(&mut self, key: &RecordKey, now: Duration) {
        self.unhold(key);
        if !self.passed.remove(key) {
            self.recent.insert(key.clone(), now);
        }
    }

    /// Lets the removal of a set through that was removed before and came back with an older version.
    pub(super) fn pass(&mut self, key: &RecordKey) {
        self.passed.insert(key.clone());
    }

    /// How many sets went of late.
    fn recent(&mut self, now: Duration) -> usize {
        self.recent.retain(|_, at| *at + WINDOW >= now);
        self.recent.len() + self.memory.count_before(now)
    }

    fn unhold(&mut self, key: &RecordKey) {
        self.held.remove(key);
        self.along.remove(key);
    }

    fn hold(&mut self, key: &RecordKey, serial: u32) {
        if self.held.contains_key(key) {
            return;
        }
        self.count += 1;
        self.held.insert(key.clone(), self.count);
        let mut hasher = Sha256::new();
        hasher.update(self.chain);
        hasher.update(serial.to_be_bytes());
        hasher.update(key.to_string());
        self.chain = hasher.finalize().into();
    }

    fn digest(&self) -> String {
        short(&self.chain)
    }

    /// Notes that the plan as it is now is shown, so that it can be named although more joins it.
    pub(super) fn show(&mut self) {
        let digest = self.digest();
        if self.held.is_empty() || self.plans.back().is_some_and(|(last, _)| *last == digest) {
            return;
        }
        if self.plans.len() >= PLANS_MAX {
            self.plans.pop_front();
        }
        self.plans.push_back((digest, self.count));
    }
}

/// The first digits of a digest.
pub(super) fn short(digest: &[u8]) -> String {
    hex(digest, DIGEST_LEN)
}

impl Zone {
    /// The plan that is held, if one is.
    pub(super) fn held_plan(&self, name: &Name) -> Option<HeldPlan> {
        if self.is_going() {
            return self.departure(name).filter(|_| self.guard.stays);
        }
        let held = &self.guard.held;
        if held.is_empty() {
            return None;
        }
        Some(HeldPlan {
            scope: HeldScope::Sets,
            digest: self.guard.digest(),
            removals: held.len(),
            total: self.children.all_actual().len(),
            foreign: held.keys().filter(|key| self.foreign.contains(key)).count(),
            along: self.guard.along.len(),
            shown: held.keys().take(SHOWN_MAX).cloned().collect(),
        })
    }

    /// Notes that the removal of a set is held, and why.
    pub(super) fn hold(&mut self, key: &RecordKey, excess: Excess) {
        let serial = self.serial.map_or(0, |serial| serial.0);
        self.guard.hold(key, serial);
        match excess {
            Excess::TooMuch => {}
            Excess::Along => {
                self.guard.along.insert(key.clone());
            }
        }
    }

    /// Whether the removal of a set needs no leave: its author gave it, or wants the whole zone gone.
    fn is_let_through(&self, key: &RecordKey) -> bool {
        self.declared.is_none() || self.guard.passed.contains(key)
    }

    /// Whether a change takes the zone's own name servers away.
    fn takes_servers(&self, planned: &PlannedChange) -> bool {
        self.is_apex_ns(&planned.change.key) && planned.loss >= Loss::Set
    }

    /// Whether a change takes some of the zone's own name servers away, and leaves others.
    fn keeps_servers(&self, planned: &PlannedChange) -> bool {
        self.is_apex_ns(&planned.change.key) && planned.loss < Loss::Set
    }

    fn is_apex_ns(&self, key: &RecordKey) -> bool {
        let declared = self.declared.as_ref();
        let is_apex = declared.is_some_and(|declared| declared.zone == key.name);
        is_apex && key.rtype == RecordType::Ns
    }

    /// Lets the plan through that its author named: what it was when it was shown, and nothing that
    /// joined it since.
    pub(super) fn release(&mut self) {
        let declared = self.declared.as_ref();
        let Some(allowed) = declared.and_then(|declared| declared.allowed.as_deref()) else {
            return;
        };
        let mut plans = self.guard.plans.iter();
        let shown = plans.find(|(digest, _)| digest == allowed);
        let count = match shown {
            Some((_, count)) => *count,
            None if allowed == self.guard.digest() => self.guard.count,
            None => return,
        };
        self.let_go(count);
    }

    /// Lets everything through that was held up to this count.
    pub(super) fn let_go(&mut self, count: u64) {
        let released = self.guard.held.extract_if(.., |_, at| *at <= count);
        let released: Vec<RecordKey> = released.map(|(key, _)| key).collect();
        for key in released {
            self.guard.along.remove(&key);
            self.children.reconsider(key.clone());
            self.guard.passed.insert(key);
        }
    }

    /// Looks anew at everything that is held.
    pub(super) fn reconsider(&mut self) {
        self.guard.along.clear();
        for (key, _) in std::mem::take(&mut self.guard.held) {
            self.children.reconsider(key);
        }
    }
}

/// What nobody asked to remove, because something else takes its object along, is held; and it waits while
/// nobody knows.
pub(super) struct AskedFor<'a> {
    pub(super) zone: &'a Zone,
}

impl Policy for AskedFor<'_> {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let Self { zone } = self;
        let key = &planned.change.key;
        if planned.loss == Loss::Nothing || zone.is_let_through(key) {
            return Judgement::Pass;
        }
        match planned.word {
            Going::Unsaid => Judgement::Wait,
            Going::Along if zone.keeps_servers(planned) || zone.guard.memory.has_passed(key) => {
                Judgement::Pass
            }
            Going::Along => Judgement::Hold(Excess::Along),
            Going::Asked | Going::Moved => Judgement::Pass,
        }
    }
}

/// A zone keeps its name servers: to take them away is held.
pub(super) struct ApexServers<'a> {
    pub(super) zone: &'a Zone,
}

impl Policy for ApexServers<'_> {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let key = &planned.change.key;
        if !self.zone.takes_servers(planned)
            || self.zone.is_let_through(key)
            || self.zone.guard.memory.has_passed(key)
        {
            return Judgement::Pass;
        }
        Judgement::Hold(Excess::TooMuch)
    }
}

/// Too many names that go together are held, and so is every one from a zone that is to go itself.
pub(super) struct BlastRadius<'a> {
    zone: &'a mut Zone,
    now: Duration,
    /// The answer for all sets of a plan: what is held leaves the list of those that wait, so the sum stays.
    is_too_much: Option<bool>,
}

impl<'a> BlastRadius<'a> {
    /// The policy for a plan of this zone.
    pub(super) fn of(zone: &'a mut Zone, now: Duration) -> Self {
        Self {
            zone,
            now,
            is_too_much: None,
        }
    }
}

impl Policy for BlastRadius<'_> {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let Self { zone, now, .. } = self;
        let key = &planned.change.key;
        if planned.loss < Loss::Name || zone.is_let_through(key) {
            return Judgement::Pass;
        }
        let is_too_much = &mut self.is_too_much;
        let holds =
            zone.is_going() || *is_too_much.get_or_insert_with(|| zone.removes_too_much(*now));
        if holds && !zone.guard.memory.has_passed(key) {
            Judgement::Hold(Excess::TooMuch)
        } else {
            Judgement::Pass
        }
    }
}

/// A removal is written down where a restart finds it before it happens.
pub(super) struct Recorded<'a> {
    pub(super) zone: &'a mut Zone,
    pub(super) now: Duration,
}

impl Policy for Recorded<'_> {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let Self { zone, now } = self;
        let key = &planned.change.key;
        let is_along = planned.word == Going::Along && !zone.keeps_servers(planned);
        let counts = planned.loss == Loss::Name
            || zone.takes_servers(planned)
            || (is_along && planned.loss > Loss::Nothing);
        if !counts || zone.is_let_through(key) || zone.guard.memory.permits(key, *now) {
            Judgement::Pass
        } else {
            Judgement::Wait
        }
    }
}

impl Zone {
    /// Whether what waits to be removed, is on its way, is held, or went of late, is too much.
    fn removes_too_much(&mut self, now: Duration) -> bool {
        let name = self.declared.as_ref().map(|declared| &declared.zone);
        let recent = self.guard.recent(now);
        // What others wrote is looked at too, after a transfer, and stays.
        let stays = |key: &RecordKey| {
            (Some(&key.name) == name && matches!(key.rtype, RecordType::Soa | RecordType::Ns))
                || (self.foreign.contains(key) && !self.removes_foreign(key))
        };
        let in_flight = self.children.in_flight().iter();
        let in_flight = in_flight
            .filter(|(key, flight)| flight.desired.is_none() && !self.guard.passed.contains(key))
            .map(|(key, _)| key);
        let waiting = self.children.pending();
        let waiting = waiting
            .filter(|key| self.children.desired(key).is_none() && !self.guard.passed.contains(key));
        let doomed = waiting
            .chain(in_flight)
            .chain(self.guard.memory.waiting())
            .filter(|key| self.children.actual(key).is_some() && !stays(key));
        let doomed = doomed.collect::<BTreeSet<_>>().len() + self.guard.held.len() + recent;
        let total = self.children.all_actual().len() + recent;
        doomed >= REMOVALS_MIN && doomed * 100 > total * SHARE_MAX
    }
}

/// What an object is told whose removal is held.
pub(super) fn held_fault(zone: &Name, excess: Excess) -> Fault {
    let why = match excess {
        Excess::TooMuch => format!("too much would go from {zone} at once"),
        Excess::Along => {
            "its namespace, or the definition of its kind, is being deleted, which nobody's word on \
             its records is"
                .to_owned()
        }
    };
    let message = format!(
        "{why}, so it is held: see the condition Guarded of the DNSZone of {zone}, which says how \
         to let it through"
    );
    Fault::new(FaultKind::Held, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_remembered_once_and_the_oldest_makes_room() {
        let key = |number: usize| {
            let name = format!("h{number}.example.com.");
            RecordKey::new(Name::parse(&name).expect("a name"), RecordType::A)
        };
        let mut guard = Guard::default();
        guard.show();
        assert!(guard.plans.is_empty(), "nothing is held");
        guard.hold(&key(0), 1);
        guard.show();
        guard.show();
        assert_eq!(guard.plans.len(), 1);
        for number in 1..=PLANS_MAX {
            guard.hold(&key(number), 1);
            guard.show();
        }
        assert_eq!(guard.plans.len(), PLANS_MAX);
        let counts = guard.plans.iter().map(|(_, count)| *count);
        assert!(counts.eq(2..=101), "{:?}", guard.plans);
    }
}

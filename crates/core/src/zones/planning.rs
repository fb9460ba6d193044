//! From what is desired to a commit: plan, guard, commit.
//!
//! Planning looks at the sets that wait and touches nothing. The guard's policies take out what is not to
//! happen now. Committing marks what is left as on its way.

use std::{sync::Arc, time::Duration};

use super::{
    ClaimStatus, Going, Limits, Step, Zone, Zones, all_types,
    guard::{ApexServers, AskedFor, BlastRadius, Recorded, held_fault},
    mending::{Mending, excludes},
};
use crate::{
    fault::{Fault, FaultKind},
    guard::{HeldBack, Judgement, OwnedOnly, WritePolicy},
    name::Name,
    plan::{Change, Expect, Holder, Loss, NotOwned, Plan, PlannedChange, change},
    record::{RecordData, RecordKey, RecordSet},
};

/// What looking at the sets that wait found.
#[derive(Default)]
struct Findings {
    changes: Vec<PlannedChange>,
    /// The room that the changes need in a message, names uncompressed.
    len: usize,
    /// Sets that need nothing.
    settled: Vec<RecordKey>,
    /// Sets that were sent as they are desired and stand as they stood, and why.
    ineffective: Vec<(RecordKey, Fault)>,
}

/// What looking at one set found.
enum SetDiff {
    Settled,
    NoEffect(Fault),
    Change(PlannedChange),
}

impl Zones {
    /// The next commit of a zone: a plan of what waits, without what its policies hold back.
    pub(super) fn commit_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        loop {
            let Findings {
                changes,
                settled,
                ineffective,
                ..
            } = self.look(name);
            if changes.is_empty() && settled.is_empty() && ineffective.is_empty() {
                return None;
            }
            self.note_settled(name, settled, ineffective, now);
            let plan = Plan::new(name.clone(), changes);
            let (passed, held_back) = self.guard(plan, now);
            let step = self.commit(passed);
            self.hold_back(name, held_back, now);
            // What was held back waits no longer, so the next round looks at something else.
            if step.is_some() {
                return step;
            }
        }
    }

    /// Looks at the sets that wait, in order, until the changes of one message are found. The sets of one name
    /// stay together.
    ///
    /// Guarantees: it touches nothing, and costs what it looks at.
    fn look(&self, name: &Name) -> Findings {
        let mut findings = Findings::default();
        let Some(zone) = self.known.get(name) else {
            return findings;
        };
        let mut pending = zone.children.pending().peekable();
        while let Some(first) = pending.next() {
            let mut keys = vec![first.clone()];
            while let Some(next) = pending.next_if(|next| next.name == first.name) {
                keys.push(next.clone());
            }
            let more = self.look_at_name(zone, keys);
            if !findings.take(more, &self.limits) {
                break;
            }
        }
        findings
    }

    /// Looks at sets of one name, and at what stands in the way of those that are to be written: it goes in
    /// the same message.
    fn look_at_name(&self, zone: &Zone, mut keys: Vec<RecordKey>) -> Findings {
        let mut findings = Findings::default();
        let mut index = 0;
        while let Some(key) = keys.get(index).cloned() {
            index += 1;
            match self.diff(zone, &key) {
                SetDiff::Settled => findings.settled.push(key),
                SetDiff::NoEffect(fault) => findings.ineffective.push((key, fault)),
                SetDiff::Change(planned) => {
                    if planned.holder == Holder::Ours {
                        let usurpers = self.usurpers(zone, &key);
                        let new = usurpers.filter(|usurper| !keys.contains(usurper));
                        let new: Vec<RecordKey> = new.cloned().collect();
                        keys.extend(new);
                    }
                    findings.len += planned.wire_len_max();
                    findings.changes.push(planned);
                }
            }
        }
        findings
    }

    /// What has to be done about one set.
    fn diff(&self, zone: &Zone, key: &RecordKey) -> SetDiff {
        let desired = zone.children.desired(key).map(Arc::as_ref);
        let actual = zone.children.actual(key).map(Arc::as_ref);
        if desired.is_some() && self.is_barred(zone, key) {
            return SetDiff::Change(self.foreign_change(zone, key));
        }
        let standing = actual.map_or(&[][..], RecordSet::data);
        let is_owned = |data: &RecordData| self.is_owned(zone, key, data);
        let restored = zone.restoration(key).filter(|_| desired.is_none());
        let is_given = self.owners.may_take(zone.claims_at(&key.name), key)
            || zone.removes_foreign(key)
            || restored.is_some();
        // A set in which something is ours, or was, is ours as a whole.
        let is_ours = match desired {
            Some(desired) if Some(desired) == actual => false,
            Some(_) => standing.iter().any(is_owned) || self.is_had(zone, key),
            None => !standing.is_empty() && self.is_usurper(zone, key),
        };
        let wanted = desired.or(restored.as_ref());
        let change = match change(key, wanted, actual, |data| {
            is_given || is_ours || is_owned(data) || zone.losses.is_returned(key, data)
        }) {
            Ok(None) => return SetDiff::Settled,
            Err(NotOwned) => return SetDiff::Change(self.foreign_change(zone, key)),
            Ok(Some(change)) => change,
        };
        if let Some(fault) = zone.children.no_effect(key) {
            return SetDiff::NoEffect(fault.clone());
        }
        let askers = self.askers(zone, key);
        let companions = match self.owners.companions(&askers, &change) {
            Ok(companions) => companions,
            Err(fault) => return SetDiff::NoEffect(fault),
        };
        let is_strange = |data: &&RecordData| is_ours && !is_given && !is_owned(data);
        let intruders = change.remove.iter().filter(is_strange).cloned().collect();
        SetDiff::Change(PlannedChange {
            askers,
            companions,
            holder: Holder::Ours,
            loss: zone.loss(&change),
            word: self.owners.word(key),
            intruders,
            change,
        })
    }

    /// What would be written if the set were ours.
    fn foreign_change(&self, zone: &Zone, key: &RecordKey) -> PlannedChange {
        let desired = zone.children.desired(key).map(Arc::as_ref);
        let actual = zone.children.actual(key).map(Arc::as_ref);
        let nothing = || Change {
            key: key.clone(),
            expect: Expect::Anything,
            remove: Vec::new(),
            add: Vec::new(),
            ttl: 0,
        };
        let made = change(key, desired, actual, |_| true);
        PlannedChange {
            change: made.ok().flatten().unwrap_or_else(nothing),
            askers: self.askers(zone, key),
            companions: Vec::new(),
            holder: Holder::Foreign,
            loss: Loss::Nothing,
            word: Going::Asked,
            intruders: Vec::new(),
        }
    }

    /// Whether a foreign set stands at this name that cannot live beside the desired one: a server
    /// would ignore the update without a word (RFC 2136 section 3.4.2.2).
    pub(super) fn is_barred(&self, zone: &Zone, key: &RecordKey) -> bool {
        let others = zone.children.all_actual().range(all_types(&key.name));
        let mut others = others.filter(|(other, _)| excludes(key, other));
        others.any(|(other, set)| {
            let mut data = set.data().iter();
            data.any(|data| !self.is_owned(zone, other, data)) && !self.is_usurper(zone, other)
        })
    }

    /// Takes note of what needs nothing, and of what cannot be brought to its desired state.
    fn note_settled(
        &mut self,
        name: &Name,
        settled: Vec<RecordKey>,
        ineffective: Vec<(RecordKey, Fault)>,
        now: Duration,
    ) {
        for key in settled {
            self.settle(name, &key);
        }
        for (key, fault) in ineffective {
            let status = ClaimStatus::Failing(fault);
            self.quarantine(name, &key, &status, Some(now));
        }
    }

    /// Filters a plan by all policies of its zone. Nothing but what the policies themselves count changes.
    fn guard(&mut self, plan: Plan, now: Duration) -> (Plan, Vec<HeldBack>) {
        let name = plan.zone().clone();
        let mut held = Vec::new();
        let Some(zone) = self.known.get_mut(&name) else {
            return (plan, held);
        };
        let mut writes = zone.write_policy();
        let plan = plan
            .filter(&mut OwnedOnly, &mut held)
            .filter(&mut writes, &mut held)
            .filter(&mut AskedFor { zone }, &mut held)
            .filter(&mut ApexServers { zone }, &mut held)
            .filter(&mut BlastRadius::of(zone, now), &mut held)
            .filter(&mut Recorded { zone, now }, &mut held)
            .filter(&mut Mending { zone, now }, &mut held);
        (plan, held)
    }

    /// What is in the plan is on its way.
    fn commit(&mut self, plan: Plan) -> Option<Step> {
        let zone = self.known.get_mut(plan.zone())?;
        if plan.is_empty() {
            return None;
        }
        for key in plan.keys() {
            zone.children.send(key);
        }
        zone.commits += 1;
        Some(Step::Commit(plan))
    }

    /// What policies took out of a plan waits as they say, and whoever asks for it is told.
    fn hold_back(&mut self, name: &Name, held: Vec<HeldBack>, now: Duration) {
        for HeldBack { planned, judgement } in held {
            let key = planned.change.key;
            match judgement {
                Judgement::Pass => {}
                Judgement::Refuse => self.quarantine(name, &key, &ClaimStatus::NotOwned, None),
                Judgement::Hold(excess) => {
                    if let Some(zone) = self.known.get_mut(name) {
                        zone.hold(&key, excess);
                    }
                    let status = ClaimStatus::Failing(held_fault(name, excess));
                    self.quarantine(name, &key, &status, None);
                    self.zone_news.insert(name.clone());
                }
                Judgement::Wait => {
                    if let Some(zone) = self.known.get_mut(name) {
                        // Whoever writes it down marks it again.
                        zone.children.defer(&key);
                    }
                    self.zone_news.insert(name.clone());
                }
                Judgement::Defer(until) => self.contest(name, &key, &planned.intruders, until),
                Judgement::Leave => {
                    let status = ClaimStatus::Failing(left_fault(name));
                    self.quarantine(name, &key, &status, Some(now));
                }
            }
        }
    }
}

impl Findings {
    /// Takes in what was found at one name, unless the message is full.
    fn take(&mut self, more: Self, limits: &Limits) -> bool {
        let is_full = self.changes.len() >= limits.sets_per_message_max
            || self.len + more.len > limits.message_len_max;
        if is_full && !self.changes.is_empty() && !more.changes.is_empty() {
            return false;
        }
        self.changes.extend(more.changes);
        self.len += more.len;
        self.settled.extend(more.settled);
        self.ineffective.extend(more.ineffective);
        true
    }
}

impl Zone {
    /// Which changes its author wants at all.
    fn write_policy(&self) -> WritePolicy {
        let declared = self.declared.as_ref();
        declared.map_or_else(WritePolicy::default, |declared| declared.writes)
    }

    /// How much a change takes away for good.
    fn loss(&self, change: &Change) -> Loss {
        let name = &change.key.name;
        let mut wanted = self.children.all_desired().range(all_types(name));
        if !change.is_removal() {
            Loss::Nothing
        } else if self.children.desired(&change.key).is_some() {
            Loss::Values
        } else if wanted.next().is_some() {
            Loss::Set
        } else {
            Loss::Name
        }
    }
}

/// What an object is told whose change the zone's policy does not have.
fn left_fault(zone: &Name) -> Fault {
    Fault::new(
        FaultKind::Held,
        format!("the policy of {zone} does not have such changes"),
    )
}

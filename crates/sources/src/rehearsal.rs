//! The rehearsal: what publishing would do now, played through in memory.
//!
//! The decisions and the state machine of zones are the controllers' own. Only the name servers and the
//! API are pretended: a server is the content of its zones, and a write into an object is supposed to have
//! happened.

mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_api::{Role, role};
use bindery_core::delta::Delta;
use bindery_core::guard::WritePolicy;
use bindery_core::zones::{
    ClaimReceipt, ClaimStatus, Completion, Hosting, Limits, ReadBack, Sent, SerialFloor, Signing,
    Step, Tenancy, ZoneContent, ZoneDeclaration, Zones,
};
use bindery_core::{
    Change, Claim, Fault, FaultKind, Group, Id, Problem, Reason, Record, RecordKey, RecordSet,
    ServerInfo, ZoneKey,
};

pub use self::outcome::{Obstacle, RecordChange, Recording, Rehearsed, ZoneRehearsal};
use crate::{Catalog, Decision, Meta, NextAct, Precedence};

/// How often objects are decided again: first seen, found available, recorded, and once more.
const ROUNDS_MAX: usize = 4;

/// Steps of one zone in one round: at 500 sets a message, more than a million sets.
const STEPS_MAX: usize = 5_000;

/// The time of the rehearsal, which does not pass: nothing is tried twice.
const NOW: Duration = Duration::ZERO;

/// The content of zones as they were transferred, or why they were not.
pub type Transferred = BTreeMap<ZoneKey, Result<ZoneContent, Fault>>;

/// Whether the catalog has every object that could have something in the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// It has.
    Whole,
    /// It lacks some, so what nobody in it declares is not taken for a stranger's.
    Partial,
}

/// Plays through what would be written into these zones for the objects of a catalog. Nothing is written.
#[must_use]
pub fn rehearse(catalog: Catalog, transferred: Transferred, coverage: Coverage) -> Rehearsed {
    let ids = catalog.ids().filter(|id| role(id.kind) != Role::Zone);
    let ids: Vec<Id> = ids.cloned().collect();
    let mut rehearsal = Rehearsal {
        catalog,
        contents: transferred,
        groups: BTreeMap::new(),
        available: BTreeMap::new(),
        coverage,
        end: Rehearsed::default(),
    };
    for id in &ids {
        rehearsal.declare(id);
    }
    let leaving = rehearsal.declare_zones();
    rehearsal.run();
    for _ in 0..ROUNDS_MAX {
        let found = rehearsal.find_available(&ids);
        if found.is_empty() {
            break;
        }
        for id in &found {
            rehearsal.declare(id);
        }
        rehearsal.run();
    }
    for zone in &leaving {
        rehearsal.zones(&zone.group).undeclare_zone(&zone.name);
    }
    rehearsal.run();
    for id in &ids {
        rehearsal.tell(id);
    }
    rehearsal.end
}

struct Rehearsal {
    catalog: Catalog,
    contents: Transferred,
    groups: BTreeMap<Group, Zones>,
    /// Sets that were found to be available, by object.
    available: BTreeMap<Id, BTreeSet<(Group, RecordKey)>>,
    coverage: Coverage,
    end: Rehearsed,
}

impl Rehearsal {
    fn decide(&self, id: &Id) -> Option<Decision> {
        let available = self.available.get(id);
        let is_available = |group: &Group, key: &RecordKey| {
            available.is_some_and(|sets| sets.contains(&(group.clone(), key.clone())))
        };
        self.catalog.decide(id, &is_available)
    }

    /// Declares an object, after what it has to record.
    fn declare(&mut self, id: &Id) {
        let recorded = self.catalog.meta(id);
        let recorded = recorded.map_or_else(Vec::new, Meta::owned_records);
        let mut next = self.decide(id).map(|decision| decision.next);
        let mut is_new = false;
        if let Some(NextAct::WriteMetadata(patch)) = &next {
            self.catalog.suppose(id, patch);
            is_new = true;
            next = self.decide(id).map(|decision| decision.next);
        }
        let Some(NextAct::Declare(parts)) = next else {
            return;
        };
        for (group, declaration) in parts {
            let mut new: BTreeMap<ZoneKey, Vec<Record>> = BTreeMap::new();
            for claim in declaration.claims.iter().filter(|_| is_new) {
                let records = claim.records().filter(|record| {
                    declaration.published.contains(record)
                        && !recorded.contains(&(group.clone(), record.clone()))
                });
                new.entry(zone_of(claim, &group))
                    .or_default()
                    .extend(records);
            }
            new.retain(|_, records| !records.is_empty());
            for (zone, records) in new {
                let object = Id::clone(id);
                let recording = Recording { object, records };
                self.outcome(&zone).recordings.push(recording);
            }
            self.zones(&group).declare(declaration);
        }
    }

    fn zones(&mut self, group: &Group) -> &mut Zones {
        let new = || Zones::new(Limits::default(), vec![server()]).on(group.clone());
        self.groups.entry(group.clone()).or_insert_with(new)
    }

    /// What became of an object's claims, wherever they are.
    fn receipts(&self, id: &Id) -> Vec<ClaimReceipt> {
        let receipts = self.groups.values().filter_map(|zones| zones.event(id));
        receipts.flat_map(|receipt| receipt.outcomes).collect()
    }

    /// Declares all zones, none of them as ours to create, and returns those that go.
    fn declare_zones(&mut self) -> Vec<ZoneKey> {
        let mut leaving = Vec::new();
        let mut declarations = Vec::new();
        let ids = self.catalog.ids().filter(|id| role(id.kind) == Role::Zone);
        for view in ids.filter_map(|id| self.catalog.zone(id)) {
            let id = &view.meta.object;
            let zone = view.key();
            match (view.precedence, &zone) {
                (Precedence::Active, Some(_)) => {}
                (Precedence::Deleting, Some(zone)) => leaving.push(zone.clone()),
                (Precedence::Duplicate(winner), _) => {
                    let message = format!("the older {winner} declares the same zone");
                    self.end.no_zone.push(refusal(id, message));
                    continue;
                }
                (Precedence::Invalid(problems), _) => {
                    let message = Problem::summary(&problems);
                    self.end.no_zone.push(refusal(id, message));
                    continue;
                }
                (Precedence::Active | Precedence::Deleting, None)
                | (Precedence::Superseded(_), _) => continue,
            }
            declarations.extend(zone.map(|zone| {
                let declaration = ZoneDeclaration {
                    zone: zone.name.clone(),
                    owner: Id::clone(id),
                    generation: view.meta.generation,
                    hosting: Hosting::Elsewhere,
                    tenancy: match self.coverage {
                        Coverage::Whole => view.tenancy,
                        Coverage::Partial => Tenancy::Shared,
                    },
                    writes: WritePolicy::Sync,
                    allowed: view.meta.allowed_plan().map(Into::into),
                    serial_floor: SerialFloor::New,
                    going: None,
                    servers: None,
                    signing: Signing::default(),
                    noted: None,
                };
                (zone, declaration)
            }));
        }
        for (zone, declaration) in declarations {
            self.outcome(&zone);
            self.zones(&zone.group).declare_zone(declaration);
        }
        leaving
    }

    /// Carries out steps, in memory, until no zone has one.
    fn run(&mut self) {
        let zones: Vec<ZoneKey> = self.end.zones.keys().cloned().collect();
        for zone in zones {
            for _ in 0..STEPS_MAX {
                let step = self.zones(&zone.group).next_step(&zone.name, NOW);
                let Some(completion) = step.and_then(|step| self.carry_out(&zone, step)) else {
                    break;
                };
                let zones = self.zones(&zone.group);
                zones.complete(&zone.name, completion, NOW);
            }
        }
    }

    /// What a step does to the pretended zone; `None` for what cannot come up where zones are not
    /// ours to create and have one server.
    fn carry_out(&mut self, zone: &ZoneKey, step: Step) -> Option<Completion> {
        let unread = || Fault::new(FaultKind::Unreachable, "the zone was not transferred");
        let content = match self.contents.get_mut(zone) {
            Some(Ok(content)) => Ok(content),
            Some(Err(fault)) => Err(fault.clone()),
            None => Err(unread()),
        };
        match step {
            Step::Open(_) | Step::Read => Some(Completion::Read(content.cloned())),
            Step::ReadChanges(_, keys) => {
                let delta = content.cloned().map(Delta::Whole);
                Some(Completion::ChangesRead(keys, delta))
            }
            Step::Check => Some(Completion::Checked(content.map(|content| content.serial))),
            Step::Commit(plan) => {
                if let Ok(content) = content {
                    let diff = plan.changes().flat_map(|change| applied(content, change));
                    let diff: Vec<RecordChange> = diff.collect();
                    self.outcome(zone).changes.extend(diff);
                }
                Some(Completion::Sent(Sent {
                    to_verify: plan.keys().cloned().collect(),
                    ..Sent::default()
                }))
            }
            Step::Verify(keys) => {
                let read = content.map(|content| ReadBack {
                    serial: content.serial,
                    sets: keys
                        .iter()
                        .map(|key| content.sets.get(key).cloned())
                        .collect(),
                });
                Some(Completion::Verified(keys, read))
            }
            Step::Renew(_) | Step::Sign(_) | Step::Rescue(_) | Step::Follow(_) | Step::Close => {
                None
            }
        }
    }

    /// The objects of which something was found available that was not known to be.
    fn find_available(&mut self, ids: &[Id]) -> Vec<Id> {
        let mut found = Vec::new();
        for id in ids {
            let receipts = self.receipts(id).into_iter();
            let available = receipts
                .filter(|receipt| receipt.status == ClaimStatus::Admissible)
                .map(|receipt| (receipt.group, receipt.claim.key));
            let known = self.available.entry(Id::clone(id)).or_default();
            let before = known.len();
            known.extend(available);
            if known.len() > before {
                found.push(Id::clone(id));
            }
        }
        found
    }

    /// Notes what would not be written of an object, and why.
    fn tell(&mut self, id: &Id) {
        let Some(decision) = self.decide(id) else {
            return;
        };
        for problem in &decision.problems {
            let message = if problem.reason == Reason::Invalid {
                problem.to_string()
            } else {
                problem.message.clone()
            };
            let refusal = refusal(id, message);
            let zone = decision.zones.first();
            let zone = zone.and_then(|zone| self.catalog.zone(zone)?.key());
            match zone {
                Some(zone) => self.outcome(&zone).refusals.push(refusal),
                None => self.end.no_zone.push(refusal),
            }
        }
        for receipt in self.receipts(id) {
            if let Some(message) = obstacle(&receipt.claim, &receipt.status) {
                let zone = zone_of(&receipt.claim, &receipt.group);
                self.outcome(&zone).refusals.push(refusal(id, message));
            }
        }
    }

    fn outcome(&mut self, zone: &ZoneKey) -> &mut ZoneRehearsal {
        self.end.zones.entry(zone.clone()).or_default()
    }
}

/// Applies a change, and tells which records go and come.
fn applied(content: &mut ZoneContent, change: &Change) -> Vec<RecordChange> {
    let records = |set: Option<&RecordSet>| -> Vec<Record> {
        set.into_iter()
            .flat_map(|set| set.records(&change.key))
            .collect()
    };
    let before = records(content.sets.get(&change.key));
    content.apply(change);
    let after = records(content.sets.get(&change.key));
    let gone = before.iter().filter(|record| !after.contains(record));
    let come = after.iter().filter(|record| !before.contains(record));
    gone.cloned()
        .map(RecordChange::Remove)
        .chain(come.cloned().map(RecordChange::Add))
        .collect()
}

fn zone_of(claim: &Claim, group: &Group) -> ZoneKey {
    ZoneKey {
        name: claim.zone.clone(),
        group: group.clone(),
    }
}

fn refusal(object: &Id, message: String) -> Obstacle {
    Obstacle {
        object: Id::clone(object),
        message,
    }
}

/// The server that everything is rehearsed on.
fn server() -> ServerInfo {
    ServerInfo::at("rehearsal", bindery_core::ServerRole::Primary)
}

/// Why a claim would not be served; `None` where it would be, or where its zone was not read.
fn obstacle(claim: &Claim, verdict: &ClaimStatus) -> Option<String> {
    let key = &claim.key;
    match verdict {
        ClaimStatus::Queued
        | ClaimStatus::Admissible
        | ClaimStatus::Programmed(_)
        | ClaimStatus::ZoneNotReady(_) => None,
        ClaimStatus::NoZone => Some(format!("zone {} is on its way out", claim.zone)),
        ClaimStatus::Conflict { winner, held } => Some(format!(
            "{} has a {held} record of {winner}, which came first",
            key.name
        )),
        ClaimStatus::NotOwned => Some(format!(
            "{key} is in DNS already and Bindery did not write it"
        )),
        ClaimStatus::Occluded(cut) => Some(format!("{key} would stand there, but {cut}")),
        ClaimStatus::Rejected(fault)
        | ClaimStatus::Failing(fault)
        | ClaimStatus::Lagging(fault) => Some(fault.to_string()),
    }
}

//! What publishing would do, played through in memory: the decisions and the state machine are the
//! controllers' own, and only the name server and the API are pretended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_core::delta::Delta;
use bindery_core::zones::{
    ClaimReceipt, ClaimStatus, Completion, Hosting, Limits, ReadBack, Sent, SerialFloor, Step,
    Tenancy, ZoneContent, ZoneDeclaration, Zones,
};
use bindery_core::{
    Change, Claim, Fault, FaultKind, Group, ObjectRef, Problem, Reason, Record, RecordKey,
    RecordSet, Role, ServerInfo, ZoneKey,
};
use bindery_sources::{self as sources, Id, Meta, Precedence};
use serde::Serialize;

use crate::ask::inventory::Inventory;
use crate::ask::listing::Sight;

/// How often objects are decided again: first seen, found free, written down, and once more.
const ROUNDS_MAX: usize = 4;

/// Steps of one zone in one round: at 500 sets a message, more than a million sets.
const STEPS_MAX: usize = 5_000;

/// The time of the rehearsal, which does not pass: nothing is tried twice.
const NOW: Duration = Duration::ZERO;

/// What would become of one zone.
#[derive(Clone, Debug, Default)]
pub(super) struct ZoneRehearsal {
    pub(super) changes: Vec<Line>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) refused: Vec<Refused>,
}

/// A record that would come or go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) action: Action,
    pub(super) record: String,
}

/// What would happen to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Action {
    Add,
    Remove,
}

/// An object into which lines have to be written down first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Waiting {
    pub(super) object: String,
    pub(super) lines: Vec<String>,
}

/// An object of which something would not be written, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Refused {
    pub(super) object: String,
    pub(super) message: String,
    #[serde(skip)]
    pub(super) namespace: String,
}

/// Zones as they were transferred, or why not.
pub(super) type Worlds = BTreeMap<ZoneKey, Result<ZoneContent, Fault>>;

/// A rehearsal that has ended.
#[derive(Debug, Default)]
pub(super) struct Rehearsed {
    pub(super) zones: BTreeMap<ZoneKey, ZoneRehearsal>,
    /// Objects that are in no zone, and zones that cannot be served.
    pub(super) no_zone: Vec<Refused>,
}

/// Plays through what would be written into these zones for the objects of the inventory.
pub(super) fn rehearse(inventory: Inventory, worlds: Worlds, sight: Sight) -> Rehearsed {
    let ids: Vec<Id> = inventory.claimants().map(|(id, _)| Id::clone(id)).collect();
    let mut play = Rehearsal {
        inventory,
        worlds,
        groups: BTreeMap::new(),
        free: BTreeMap::new(),
        sight,
        end: Rehearsed::default(),
    };
    for id in &ids {
        play.declare(id);
    }
    let leaving = play.declare_zones();
    play.run();
    for _ in 0..ROUNDS_MAX {
        let found = play.find_free(&ids);
        if found.is_empty() {
            break;
        }
        for id in &found {
            play.declare(id);
        }
        play.run();
    }
    for zone in &leaving {
        play.zones(&zone.group).undeclare_zone(&zone.name);
    }
    play.run();
    for id in &ids {
        play.tell(id);
    }
    play.end
}

struct Rehearsal {
    inventory: Inventory,
    worlds: Worlds,
    groups: BTreeMap<Group, Zones>,
    /// Sets that were found to be free, by object.
    free: BTreeMap<Id, BTreeSet<(Group, RecordKey)>>,
    sight: Sight,
    end: Rehearsed,
}

impl Rehearsal {
    fn decide(&self, id: &Id) -> Option<sources::Decision> {
        let free = self.free.get(id);
        let is_free = |group: &Group, key: &RecordKey| {
            free.is_some_and(|free| free.contains(&(group.clone(), key.clone())))
        };
        self.inventory.decide(id, &is_free)
    }

    /// Declares an object, after what has to be written down in it.
    fn declare(&mut self, id: &Id) {
        let recorded = self
            .inventory
            .meta(id)
            .map_or_else(Vec::new, Meta::owned_records);
        let mut next = self.decide(id).map(|decision| decision.next);
        let mut is_new = false;
        if let Some(sources::NextAct::WriteMetadata(patch)) = &next {
            self.inventory.pretend(id, patch);
            is_new = true;
            next = self.decide(id).map(|decision| decision.next);
        }
        let Some(sources::NextAct::Declare(parts)) = next else {
            return;
        };
        for (group, declaration) in parts {
            let mut lines: BTreeMap<ZoneKey, Vec<String>> = BTreeMap::new();
            for claim in declaration.claims.iter().filter(|_| is_new) {
                let new = claim.records().filter(|record| {
                    declaration.published.contains(record)
                        && !recorded.contains(&(group.clone(), record.clone()))
                });
                let entry = lines.entry(zone_of(claim, &group)).or_default();
                entry.extend(new.map(|record| record.to_string()));
            }
            for (zone, lines) in lines.into_iter().filter(|(_, lines)| !lines.is_empty()) {
                let object = id.to_string();
                self.outcome(&zone).waiting.push(Waiting { object, lines });
            }
            self.zones(&group).declare(declaration);
        }
    }

    fn zones(&mut self, group: &Group) -> &mut Zones {
        let new = || Zones::new(Limits::default(), vec![server()]).on(group.clone());
        self.groups.entry(group.clone()).or_insert_with(new)
    }

    /// What became of an object's claims, wherever they are.
    fn outcomes(&self, id: &Id) -> Vec<ClaimReceipt> {
        let events = self.groups.values().filter_map(|zones| zones.event(id));
        events.flat_map(|event| event.outcomes).collect()
    }

    /// Declares all zones, none of them as ours to create, and returns those that go.
    fn declare_zones(&mut self) -> Vec<ZoneKey> {
        let mut leaving = Vec::new();
        let mut declarations = Vec::new();
        for (id, listed) in self.inventory.zones() {
            let Some(view) = self.inventory.zone(id) else {
                continue;
            };
            let refused = |message| Refused {
                object: id.to_string(),
                message,
                namespace: listed.namespace().to_owned(),
            };
            let zone = view.key();
            match (view.precedence, &zone) {
                (Precedence::Active, Some(_)) => {}
                (Precedence::Deleting, Some(zone)) => leaving.push(zone.clone()),
                (Precedence::Duplicate(winner), _) => {
                    let message = format!("the older {winner} declares the same zone");
                    self.end.no_zone.push(refused(message));
                    continue;
                }
                (Precedence::Invalid(problems), _) => {
                    let message = Problem::summary(&problems);
                    self.end.no_zone.push(refused(message));
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
                    // What was not looked at is not to be taken for a stranger's.
                    tenancy: match self.sight {
                        Sight::Whole => view.tenancy,
                        Sight::OneNamespace => Tenancy::Shared,
                    },
                    allowed: view.meta.allowed_plan().map(Into::into),
                    serial_floor: SerialFloor::New,
                    going: None,
                    servers: None,
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
        let world = self.worlds.get(zone).cloned();
        let world = world.unwrap_or_else(|| Err(unread()));
        match step {
            Step::Open(_) | Step::Read => Some(Completion::Read(world)),
            Step::ReadChanges(_, keys) => {
                Some(Completion::ChangesRead(keys, world.map(Delta::Whole)))
            }
            Step::Check => Some(Completion::Checked(world.map(|content| content.serial))),
            Step::Commit(changes) => {
                let keys = changes.iter().map(|change| change.key.clone()).collect();
                for change in changes {
                    self.change(zone, change);
                }
                Some(Completion::Sent(Sent {
                    to_verify: keys,
                    ..Sent::default()
                }))
            }
            Step::Verify(keys) => {
                let read = world.map(|content| ReadBack {
                    serial: content.serial,
                    sets: keys
                        .iter()
                        .map(|key| content.sets.get(key).cloned())
                        .collect(),
                });
                Some(Completion::Verified(keys, read))
            }
            Step::Renew(_) | Step::Rescue(_) | Step::Follow(_) | Step::Close => None,
        }
    }

    /// Changes a set of the pretended zone, and notes which records come and go.
    fn change(&mut self, zone: &ZoneKey, change: Change) {
        let Some(Ok(content)) = self.worlds.get_mut(zone) else {
            return;
        };
        let Change {
            key,
            remove,
            add,
            ttl,
            ..
        } = change;
        let before = content.sets.remove(&key);
        let stays = before.iter().flat_map(RecordSet::data).cloned();
        let stays = stays.filter(|data| !remove.contains(data));
        let ttl = match &before {
            Some(before) if add.is_empty() => before.ttl,
            Some(_) | None => ttl,
        };
        let after = RecordSet::new(ttl, stays.chain(add));
        let (old, new) = (records(&key, before.as_ref()), records(&key, Some(&after)));
        if !after.is_empty() {
            content.sets.insert(key, after);
        }
        let line = |action, record: &Record| Line {
            action,
            record: record.to_string(),
        };
        let gone = old.iter().filter(|record| !new.contains(record));
        let come = new.iter().filter(|record| !old.contains(record));
        let lines: Vec<Line> = gone
            .map(|record| line(Action::Remove, record))
            .chain(come.map(|record| line(Action::Add, record)))
            .collect();
        self.outcome(zone).changes.extend(lines);
    }

    /// The objects of which something was found free that was not known to be.
    fn find_free(&mut self, ids: &[Id]) -> Vec<Id> {
        let mut found = Vec::new();
        for id in ids {
            let outcomes = self.outcomes(id).into_iter();
            let free = outcomes
                .filter(|outcome| outcome.status == ClaimStatus::Admissible)
                .map(|outcome| (outcome.group, outcome.claim.key));
            let known = self.free.entry(Id::clone(id)).or_default();
            let before = known.len();
            known.extend(free);
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
            let refused = refused(id, message);
            let zone = decision.zones.first();
            let zone = zone.and_then(|zone| self.inventory.zone(zone)?.key());
            match zone {
                Some(zone) => self.outcome(&zone).refused.push(refused),
                None => self.end.no_zone.push(refused),
            }
        }
        for outcome in self.outcomes(id) {
            if let Some(message) = obstacle(&outcome.claim, &outcome.status) {
                let zone = zone_of(&outcome.claim, &outcome.group);
                self.outcome(&zone).refused.push(refused(id, message));
            }
        }
    }

    fn outcome(&mut self, zone: &ZoneKey) -> &mut ZoneRehearsal {
        self.end.zones.entry(zone.clone()).or_default()
    }
}

fn zone_of(claim: &Claim, group: &Group) -> ZoneKey {
    ZoneKey {
        name: claim.zone.clone(),
        group: group.clone(),
    }
}

fn refused(object: &ObjectRef, message: String) -> Refused {
    Refused {
        object: object.to_string(),
        message,
        namespace: object.namespace.to_string(),
    }
}

fn records(key: &RecordKey, set: Option<&RecordSet>) -> Vec<Record> {
    let records = set.into_iter().flat_map(|set| {
        set.data().iter().map(|data| Record {
            name: key.name.clone(),
            ttl: set.ttl,
            data: data.clone(),
        })
    });
    records.collect()
}

/// Why a claim would not be served; `None` where it would be, or where its zone was not read.
/// The server that everything is rehearsed on.
fn server() -> ServerInfo {
    ServerInfo::at("rehearsal", Role::Primary)
}

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

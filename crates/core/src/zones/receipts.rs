//! What became of claims and zones, as it is told to listeners.

use std::sync::Arc;

use super::{Cut, HeldPlan, Mended, Noted, SigningReport, Zone, Zones, ancestry};
use crate::{
    claim::{Adoption, Claim},
    fault::{Fault, FaultKind},
    fleet::FollowerState,
    group::{Group, ZoneKey},
    name::Name,
    object::{Id, ObjectRef},
    ownership::Kept,
    record::{Record, RecordKey, RecordType, Serial},
    server::{ServerId, ServerInfo},
    tracker::Phase,
};

/// What became of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStatus {
    /// On its way; nothing to tell yet.
    Queued,
    /// Nothing stands in its way; it is written once its object carries it.
    Admissible,
    /// Served and read back; the zone's serial at that time.
    Programmed(Serial),
    /// The zone is not there or cannot be reached.
    ZoneNotReady(Fault),
    /// Nobody declares the zone any more.
    NoZone,
    /// Another object holds the name.
    Conflict {
        /// The object that holds it.
        winner: Id,
        /// The type it holds.
        held: RecordType,
    },
    /// A set stands in the zone that Bindery did not write.
    NotOwned,
    /// The server refused this set.
    Rejected(Fault),
    /// It did not work and is tried again.
    Failing(Fault),
    /// Served by the leader and verified there, and some other server is late.
    Lagging(Fault),
    /// It stands in the zone, but whoever asks for it is answered from elsewhere.
    Occluded(Cut),
}

impl ClaimStatus {
    /// The fault behind it, if there is one.
    pub(super) fn fault(&self) -> Option<&Fault> {
        match self {
            Self::ZoneNotReady(fault)
            | Self::Rejected(fault)
            | Self::Failing(fault)
            | Self::Lagging(fault) => Some(fault),
            Self::Queued
            | Self::Admissible
            | Self::Programmed(_)
            | Self::NoZone
            | Self::Conflict { .. }
            | Self::NotOwned
            | Self::Occluded(_) => None,
        }
    }
}

/// What became of one claim of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReceipt {
    /// The servers on which it is claimed.
    pub group: Group,
    /// The claim.
    pub claim: Claim,
    /// What became of it.
    pub status: ClaimStatus,
    /// The TTL of the set, which is the lowest that is asked for.
    pub ttl: u32,
    /// What others did to it and was put right, if anything lately.
    pub mended: Option<Mended>,
}

/// Whether what an object no longer asks for is gone from DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// Nothing of it is left.
    Done,
    /// It is on its way.
    Pending,
    /// No server in rotation has it. One that is out of rotation may, so that the object keeps its lines.
    Lingering(Fault),
    /// It did not work and is tried again.
    Failing(Fault),
}

/// The receipt of one object: what became of each of its claims, at which generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The object.
    pub owner: Id,
    /// The generation that was declared.
    pub generation: i64,
    /// The revision that was declared.
    pub revision: u64,
    /// Claim by claim, in the order of the declaration.
    pub outcomes: Vec<ClaimReceipt>,
    /// What is left of earlier wishes.
    pub withdrawal: Withdrawal,
}

/// How a zone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Being created or transferred for the first time.
    Opening,
    /// Served; every committed change was read back.
    Ready,
    /// Served, but the last attempt to write or read failed.
    Degraded(Fault),
    /// Not served, and why.
    Failed(Fault),
    /// Taken back and gone, as far as Bindery is concerned.
    Gone,
}

/// The receipt of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReceipt {
    /// Which zone.
    pub zone: ZoneKey,
    /// How it is.
    pub state: ZoneState,
    /// The last serial seen.
    pub serial: Option<Serial>,
    /// How many record sets in it are foreign, by the last transfer.
    pub foreign: usize,
    /// How many record sets are served for objects.
    pub sets: usize,
    /// How many record sets are in it beside those that make it a zone: its SOA, its name servers and
    /// their addresses.
    pub data: usize,
    /// The plan that is held, if one is.
    pub held: Option<HeldPlan>,
    /// The removals that are, or are to be, written down.
    pub noted: Option<Arc<Noted>>,
    /// Whether removals wait for being written down.
    pub waits: bool,
    /// The server that leads.
    pub leader: Option<ServerInfo>,
    /// The other servers.
    pub followers: Vec<FollowerState>,
    /// The serial at which the leader lost data in this process's time that it has again.
    pub mended: Option<Serial>,
    /// The newest serial that was seen of the leader, while it has an older one. Whoever starts anew has to
    /// know it.
    pub fallen_from: Option<Serial>,
    /// How it is signed.
    pub signing: SigningReport,
}

impl Zones {
    /// What changed for objects since the last call; an object whose claims are still on their way
    /// is told of later.
    pub fn take_events(&mut self) -> Vec<Receipt> {
        self.tell_cuts();
        let owners = std::mem::take(&mut self.owner_news);
        owners
            .iter()
            .filter_map(|owner| self.event(owner))
            .collect()
    }

    /// What changed for zones since the last call.
    pub fn take_zone_events(&mut self) -> Vec<ZoneReceipt> {
        let names = std::mem::take(&mut self.zone_news);
        for name in &names {
            if let Some(zone) = self.known.get_mut(name) {
                zone.guard.show();
            }
        }
        let events = names
            .iter()
            .filter_map(|name| self.zone_event(name))
            .collect();
        for name in names {
            if self
                .known
                .get(&name)
                .is_some_and(|zone| zone.lifecycle.phase() == Phase::Gone && zone.nodes.is_empty())
            {
                self.known.remove(&name);
                self.schedule.forget(&name);
            }
        }
        events
    }

    /// The followers that do not have the serial that the leader has of a zone; none
    /// of a zone that is retired.
    #[must_use]
    pub fn behind(&self, name: &Name) -> Vec<ServerId> {
        let zone = self.known.get(name);
        let zone = zone.filter(|zone| zone.declared.is_some());
        zone.map_or_else(Vec::new, |zone| zone.fleet.behind().cloned().collect())
    }

    /// The followers that nobody waits for in a zone; none of a zone that is retired.
    #[must_use]
    pub fn out_of_rotation(&self, name: &Name) -> Vec<ServerId> {
        let zone = self.known.get(name);
        let zone = zone.filter(|zone| zone.declared.is_some());
        zone.map_or_else(Vec::new, |zone| {
            zone.fleet.out_of_rotation().cloned().collect()
        })
    }

    /// How one zone is now.
    #[must_use]
    pub fn zone_event(&self, name: &Name) -> Option<ZoneReceipt> {
        let zone = self.known.get(name)?;
        let state = match (zone.lifecycle.phase(), self.fault_of(zone)) {
            (Phase::Gone, _) => ZoneState::Gone,
            (Phase::NotStarted | Phase::CreationInProgress, Some(fault)) => {
                ZoneState::Failed(fault)
            }
            (Phase::NotStarted | Phase::CreationInProgress, None) => ZoneState::Opening,
            (
                Phase::Created
                | Phase::UpdateInProgress
                | Phase::DeletionPending
                | Phase::DeletionInProgress,
                Some(fault),
            ) => ZoneState::Degraded(fault),
            (
                Phase::Created
                | Phase::UpdateInProgress
                | Phase::DeletionPending
                | Phase::DeletionInProgress,
                None,
            ) => match Self::lateness_of(zone) {
                Some(late) => ZoneState::Degraded(late),
                None if zone.propagation.is_opening() => ZoneState::Opening,
                None => ZoneState::Ready,
            },
        };
        Some(ZoneReceipt {
            zone: ZoneKey {
                name: name.clone(),
                group: self.group.clone(),
            },
            state,
            // A zone that cannot be read now was told of before.
            serial: zone.serial.or_else(|| zone.losses.floor()),
            foreign: zone.foreign.len(),
            held: zone.held_plan(name),
            waits: zone.guard.memory.is_waiting(),
            noted: zone.to_note(),
            sets: zone.children.all_desired().len(),
            data: zone.data(name),
            leader: zone.leader.clone(),
            followers: zone.fleet.states().collect(),
            mended: zone.losses.mended(),
            fallen_from: zone.losses.floor().filter(|floor| {
                // A change that was read back may tell before the whole zone was read.
                let is_older = zone.serial.is_some_and(|serial| floor.newer_than(serial));
                is_older || zone.losses.is_fallen()
            }),
            signing: self.signing_report(name, zone),
        })
    }

    /// What became of one object's claims, or `None` while something is still on its way.
    #[must_use]
    pub fn event(&self, owner: &ObjectRef) -> Option<Receipt> {
        let declaration = self.owners.get(owner)?;
        let mut outcomes = Vec::with_capacity(declaration.claims.len());
        for (index, claim) in (0..).zip(&declaration.claims) {
            let status = self.status(&declaration.owner, index, claim);
            if status == ClaimStatus::Queued {
                return None;
            }
            let zone = self.known.get(&claim.zone);
            let desired = zone.and_then(|zone| zone.children.desired(&claim.key));
            outcomes.push(ClaimReceipt {
                group: self.group.clone(),
                ttl: desired.map_or(claim.ttl, |set| set.ttl),
                claim: claim.clone(),
                status,
                mended: zone.and_then(|zone| zone.mended(&claim.key)),
            });
        }
        let withdrawal = self.withdrawal(declaration);
        if withdrawal == Withdrawal::Pending {
            return None;
        }
        Some(Receipt {
            owner: Id::clone(&declaration.owner),
            generation: declaration.generation,
            revision: declaration.revision,
            outcomes,
            withdrawal,
        })
    }

    fn status(&self, owner: &Id, index: u32, claim: &Claim) -> ClaimStatus {
        let Some(zone) = self
            .known
            .get(&claim.zone)
            .filter(|zone| zone.declared.is_some())
        else {
            return ClaimStatus::NoZone;
        };
        if let Some(declared) = self.owners.get(owner)
            && !self.owners.may_write(owner, index)
        {
            return self.admission(zone, claim, declared);
        }
        let losers = zone.losers.get(&claim.key.name);
        let lost = losers.and_then(|losers| {
            losers
                .iter()
                .find(|loser| loser.owner == *owner && loser.index == index)
        });
        if let Some(loser) = lost {
            return ClaimStatus::Conflict {
                winner: loser.winner.clone(),
                held: loser.held,
            };
        }
        let cut = self.cut_over(zone, &claim.zone, &claim.key);
        // A server that answers from elsewhere shows nothing of what was written here.
        if let Some(cut @ Cut::Zone(_)) = cut {
            return ClaimStatus::Occluded(cut);
        }
        if let Some(quarantined) = zone.children.quarantined(&claim.key) {
            return quarantined.why.clone();
        }
        let settled = zone.lifecycle.is_open() && !zone.children.is_unsettled(&claim.key);
        if settled && zone.propagation.holds(&claim.key) {
            let late = zone.propagation.late.clone();
            let late = late.or_else(|| Self::lateness_of(zone));
            return late.map_or(ClaimStatus::Queued, ClaimStatus::Lagging);
        }
        match (self.fault_of(zone), settled, zone.serial) {
            (Some(fault), true, Some(_)) if !self.is_answered(zone) => ClaimStatus::Failing(fault),
            (_, true, Some(serial)) => {
                cut.map_or(ClaimStatus::Programmed(serial), ClaimStatus::Occluded)
            }
            (Some(fault), _, _) if zone.lifecycle.is_open() => ClaimStatus::Failing(fault),
            (Some(fault), _, _) => ClaimStatus::ZoneNotReady(fault),
            (None, _, _) => ClaimStatus::Queued,
        }
    }

    /// Whether a claim that is not recorded yet may be: not where a record stands
    /// that somebody else wrote, be it the same, or it would be taken for ours ever after.
    fn admission(&self, zone: &Zone, claim: &Claim, declared: &Kept) -> ClaimStatus {
        if let Some(fault) = declared.ownership.refusal() {
            return ClaimStatus::Rejected(fault);
        }
        if zone.missing_since.is_some() {
            return ClaimStatus::Admissible;
        }
        if !zone.lifecycle.is_open() {
            let fault = self.fault_of(zone);
            return fault.map_or(ClaimStatus::Queued, ClaimStatus::ZoneNotReady);
        }
        let standing = zone
            .children
            .actual(&claim.key)
            .map_or(&[][..], |set| set.data());
        let is_foreign = |data| !self.is_owned(zone, &claim.key, data);
        let taken = !standing.is_empty() && standing.iter().all(is_foreign)
            || standing
                .iter()
                .any(|data| claim.data.contains(data) && is_foreign(data));
        // Our sets are whole: where a line stands that nobody asks for, the set may be another's.
        let claims = zone.claims_at(&claim.key.name);
        let is_asked = |data| self.owners.asks(claims, &claim.key, data) || !is_foreign(data);
        let known = declared.adoption == Adoption::Known
            && claim.data.iter().all(|data| standing.contains(data))
            && standing.iter().all(is_asked);
        let adopted = known || self.owners.may_take(claims, &claim.key);
        if self.is_barred(zone, &claim.key) || (taken && !adopted) {
            return ClaimStatus::NotOwned;
        }
        ClaimStatus::Admissible
    }

    /// Whether lines that the object owns but no longer claims are gone.
    fn withdrawal(&self, declaration: &Kept) -> Withdrawal {
        let mut result = Withdrawal::Done;
        for record in declaration.stale_records() {
            let key = record.key();
            for name in ancestry(&record.name) {
                let Some(zone) = self.known.get(&name) else {
                    continue;
                };
                match self.remains(zone, &key, record) {
                    Withdrawal::Done => {}
                    Withdrawal::Pending => return Withdrawal::Pending,
                    Withdrawal::Lingering(_) if matches!(result, Withdrawal::Failing(_)) => {}
                    left @ (Withdrawal::Lingering(_) | Withdrawal::Failing(_)) => result = left,
                }
            }
        }
        result
    }

    /// Whether a line that nobody of this object asks for any more is still in one zone.
    fn remains(&self, zone: &Zone, key: &RecordKey, record: &Record) -> Withdrawal {
        if zone.awaited {
            return Withdrawal::Pending;
        }
        // Of a zone that nobody has, and that was never opened, only claims are known that wait for it.
        let is_nobodys = zone.lifecycle.phase() == Phase::NotStarted && zone.declared.is_none();
        if zone.lifecycle.phase() == Phase::Gone || is_nobodys {
            return Withdrawal::Done;
        }
        if let Some(fault) = zone.fault.as_ref().filter(|_| zone.is_deleted) {
            return Withdrawal::Lingering(fault.clone());
        }
        // What was written and could not be read back may stand.
        let unknown = !zone.lifecycle.is_open() || zone.serial.is_none() || zone.stale;
        let standing = zone
            .children
            .actual(key)
            .is_some_and(|set| set.data().contains(&record.data));
        // Another object may ask for the same value; then it rightly stays.
        let shared = zone
            .children
            .desired(key)
            .is_some_and(|set| set.data().contains(&record.data));
        let in_flight = zone.children.in_flight().contains_key(key);
        if !(unknown || in_flight || (standing && !shared)) {
            return Self::still_on_followers(zone, key);
        }
        if let Some(quarantined) = zone.children.quarantined(key)
            && let ClaimStatus::Rejected(fault) | ClaimStatus::Failing(fault) = &quarantined.why
        {
            return Withdrawal::Failing(fault.clone());
        }
        // That a server is silent says nothing of what was gone before; it is looked at again when it answers.
        let nobody = zone.leader.is_none().then(|| self.fault_of(zone)).flatten();
        match zone.fault.clone().or(nobody) {
            // A zone that the server does not have holds nothing. One that is ours is about to be made again,
            // with what other servers still have.
            Some(fault) if unknown && fault.kind == FaultKind::Missing && !zone.created_by_us => {
                Withdrawal::Done
            }
            Some(fault) => Withdrawal::Failing(fault),
            None => Withdrawal::Pending,
        }
    }
}

//! All zones with what is asked of them: the state machine between declarations and name servers.
//!
//! Inputs are declarations and completions of steps, outputs are steps to carry out and events to
//! tell. Nothing here waits, writes or looks at a clock: `now` is given, as time since any start.

mod activity;
mod belated;
mod completions;
mod cuts;
mod drift;
mod followers;
mod guard;
mod leaving;
mod losses;
mod mending;
mod noted;
mod own;
mod planning;
mod protocol;
mod receipts;
mod servers;
mod signing;
mod steps;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use crate::{
    claim::{Claim, Declaration},
    compact::compact,
    fault::Fault,
    fleet::Fleet,
    group::Group,
    merge::{Contender, Loser, merge},
    name::Name,
    object::{Id, ObjectRef},
    ownership::{ClaimRef, Exchange, Kept, Owners},
    record::{RecordData, RecordKey, RecordSet, RecordType, Serial},
    server::{ServerId, ServerInfo},
    signatures::Signatures,
    small_set::SmallSet,
    tracker::{Children, Lifecycle, Schedule},
};

pub use crate::content::ZoneContent;

pub use self::{
    cuts::Cut,
    guard::{HeldPlan, HeldScope},
    mending::Mended,
    noted::Noted,
    own::restored,
    protocol::{
        Completion, Going, Hosting, Limits, ReadBack, Sent, SerialFloor, Step, Tenancy,
        ZoneDeclaration,
    },
    receipts::{ClaimReceipt, ClaimStatus, Receipt, Withdrawal, ZoneReceipt, ZoneState},
    servers::Term,
    signing::{Signing, SigningAnswer, SigningPolicy, SigningReport, SigningTrouble},
};

/// The zones of one group of servers and everything that objects ask of them.
#[derive(Debug, Default)]
pub struct Zones {
    limits: Limits,
    /// Which servers these are.
    group: Group,
    /// The servers of every zone, in the order in which they are named.
    servers: Vec<ServerInfo>,
    known: BTreeMap<Name, Zone>,
    /// What objects ask for and own.
    owners: Owners,
    /// Objects and zones whose receipt may differ from what was told.
    owner_news: BTreeSet<Id>,
    zone_news: BTreeSet<Name>,
    /// Zones that have work, wake later or wait because they failed.
    schedule: Schedule<Name>,
    /// Servers that do not answer.
    silent: BTreeMap<ServerId, Fault>,
    departures: leaving::Departures,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that any other may go with"
)]
#[derive(Debug, Default)]
struct Zone {
    declared: Option<ZoneDeclaration>,
    /// An object has the zone and has not declared it yet, so what stands in it is not known.
    awaited: bool,
    /// Whether the zone is there, wanted, or on its way out.
    lifecycle: Lifecycle,
    /// The record sets, and what is told of those that are quarantined.
    children: Children<RecordKey, Arc<RecordSet>, ClaimStatus>,
    /// The claims on each name: whose, and their position.
    nodes: BTreeMap<Name, SmallSet<ClaimRef>>,
    /// The claims that cannot stand beside others at a name.
    losers: BTreeMap<Name, Vec<Loser>>,
    /// Objects that ask for something here which is not recorded yet.
    asking: BTreeSet<Id>,
    /// The serial that the leader was last seen to have; some of what led to it may be unknown.
    serial: Option<Serial>,
    /// The serial at which everything in the zone is known.
    known_serial: Option<Serial>,
    /// Messages that were acknowledged since, each of which made one serial; below zero where one was
    /// seen before its answer came.
    acknowledged: i32,
    /// Updates on their way.
    commits: usize,
    /// Questions on their way that read sets back.
    questions: usize,
    /// Changes are asked for, to read sets back.
    reading_changes: bool,
    /// The server answers with the whole zone where changes were asked for.
    no_ixfr: bool,
    /// Others wrote into the zone; what they wrote is asked for.
    drifted: bool,
    /// Lines that an earlier process may have sent.
    belated: belated::Belated,
    /// Sets in which nothing is ours.
    foreign: BTreeSet<RecordKey>,
    /// Names in it that are answered from elsewhere.
    cuts: cuts::Cuts,
    /// What keeps a mistake from emptying the zone.
    guard: guard::Guard,
    /// Why the zone as a whole could not be read or written, while it waits to be tried again.
    fault: Option<Fault>,
    /// When the serial is looked at, if nothing else happens.
    next_check: Duration,
    /// When all of it is read though its serial says that nothing happened.
    next_audit: Duration,
    /// The zone has to be transferred again before anything is written.
    stale: bool,
    /// The zone, its serial or what changed is being read, so nothing is written meanwhile.
    reading: bool,
    /// Bindery created the zone on the server, so the zone goes when nobody declares it.
    created_by_us: bool,
    /// A server joined while the zone was being deleted from the others.
    is_outrun: bool,
    /// Every server that answers has deleted the zone.
    is_deleted: bool,
    /// Sets that others wrote over and that were put right.
    mends: BTreeMap<RecordKey, mending::Mend>,
    /// Since when it is known that no server has the zone, while it is ours to create.
    missing_since: Option<Duration>,
    /// What the zone object itself puts into the zone.
    own: own::Own,
    /// The server that plans are made against and that changes go to first.
    leader: Option<ServerInfo>,
    /// The server that led last, while there is none.
    led: Option<ServerInfo>,
    /// How often another server began to lead.
    term: u32,
    /// The other servers.
    fleet: Fleet,
    /// What waits for them.
    propagation: followers::Propagation,
    /// What the leader lost.
    losses: losses::Losses,
    /// How the leader signs the zone, by the last transfer.
    signatures: Signatures,
    /// The server that signs it, as far as this process has seen.
    signer: Option<ServerId>,
    /// What the leader was told about signing it.
    signing: signing::SigningState,
}

impl Zones {
    /// An empty state with its limits, for zones on these servers.
    #[must_use]
    pub fn new(limits: Limits, servers: Vec<ServerInfo>) -> Self {
        Self {
            limits,
            servers,
            ..Self::default()
        }
    }

    /// The same for this group of servers.
    #[must_use]
    pub fn on(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Declares a zone, or declares it anew.
    pub fn declare_zone(&mut self, mut declaration: ZoneDeclaration) {
        let name = declaration.zone.clone();
        let zone = self.known.entry(name.clone()).or_default();
        let reopened = zone.declared.is_none();
        if reopened {
            zone.guard = guard::Guard::default();
            zone.fleet = Fleet::default();
        }
        let going = declaration.going;
        if let (Some(before), Some(_)) = (&zone.declared, going) {
            // Who lets a zone go may no longer know what it was like.
            declaration.hosting = before.hosting.clone();
        }
        if zone.serial.is_none() {
            zone.losses.suppose(declaration.serial_floor);
        }
        let renamed = zone.own.replace(&declaration);
        let exclusive = declaration.tenancy == Tenancy::Exclusive;
        let noted = declaration.noted.clone();
        let was_going = zone.is_going();
        zone.declared = Some(declaration);
        zone.is_deleted = false;
        zone.awaited = false;
        for key in zone.guard.memory.take_in(noted, reopened) {
            zone.children.mark(key);
        }
        zone.guard.stays = false;
        // What others wrote a moment ago counts too.
        zone.stale |= going.is_some_and(|going| going != Going::Unsaid) && zone.lifecycle.is_open();
        if was_going && going.is_none() {
            zone.guard.is_one_too_many = false;
            zone.reconsider();
        }
        zone.release();
        zone.lifecycle.want();
        if exclusive {
            zone.children.mark_all(zone.foreign.iter().cloned());
        }
        if reopened {
            self.claim_again(&name);
        }
        for own in renamed {
            self.remerge(&name, &own);
        }
        self.seat(&name, Duration::ZERO);
        self.departures.note(&name, going);
        self.zone_news.insert(name.clone());
        self.schedule.push(name);
    }

    /// Takes a zone back. What we wrote into it goes first; then it is deleted where it is ours.
    pub fn undeclare_zone(&mut self, name: &Name) {
        self.departures.note(name, None);
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.declared = None;
        zone.awaited = false;
        zone.let_go(u64::MAX);
        zone.lifecycle.retire();
        zone.losses.let_go();
        if zone.created_by_us {
            zone.propagation = followers::Propagation::default();
        }
        zone.mends.clear();
        self.claim_again(name);
        self.zone_news.insert(name.clone());
        self.schedule.push(name.clone());
    }

    /// Replaces everything that one object asks for.
    pub fn declare(&mut self, mut declaration: Declaration) {
        for claim in &mut declaration.claims {
            self.share_name(claim);
        }
        let owner = declaration.owner.clone();
        self.owner_news.insert(owner.clone());
        let asked = self.unrecorded_zones(&owner);
        let Some(Exchange { before, touched }) = self.owners.declare(declaration) else {
            return;
        };
        self.exchange_asking(&owner, asked);
        let mut names = BTreeSet::new();
        if let Some(before) = &before {
            self.forget_claims(before, &mut names);
        }
        let claims = self.owners.get(&owner).map_or(&[][..], |one| &one.claims);
        for (index, claim) in (0..).zip(claims) {
            let zone = self.known.entry(claim.zone.clone()).or_default();
            let node = zone.nodes.entry(claim.key.name.clone()).or_default();
            node.insert((Id::clone(&owner), index));
            names.insert((claim.zone.clone(), claim.key.name.clone()));
        }
        for key in touched {
            self.mark_everywhere(&key);
        }
        for (zone, name) in names {
            self.remerge(&zone, &name);
        }
    }

    /// Whoever decides anew reads a name anew; one that is asked for already stays one copy.
    fn share_name(&self, claim: &mut Claim) {
        let zone = self.known.get(&claim.zone);
        let known = zone.and_then(|zone| zone.nodes.get_key_value(&claim.key.name));
        if let Some((name, _)) = known {
            claim.key.name = name.clone();
        }
    }

    /// Puts what was declared so far into little room.
    pub fn compact(&mut self) {
        self.owners.compact();
        for zone in self.known.values_mut() {
            compact(&mut zone.nodes);
            zone.children.compact();
        }
    }

    /// The zones in which an object asks for something that is not recorded yet.
    fn unrecorded_zones(&self, owner: &ObjectRef) -> Vec<Name> {
        let claims = self.owners.unrecorded(owner);
        claims.map(|claim| claim.zone.clone()).collect()
    }

    /// Notes in which zones an object asks for something that is not recorded yet, and no longer in which.
    fn exchange_asking(&mut self, owner: &Id, before: Vec<Name>) {
        for zone in before {
            if let Some(zone) = self.known.get_mut(&zone) {
                zone.asking.remove(owner);
            }
        }
        for claim in self.owners.unrecorded(owner) {
            let zone = self.known.entry(claim.zone.clone()).or_default();
            zone.asking.insert(Id::clone(owner));
        }
    }

    /// Forgets an object that is gone. What it published and did not withdraw becomes foreign.
    pub fn forget(&mut self, owner: &ObjectRef) {
        let asked = self.unrecorded_zones(owner);
        let Some(before) = self.owners.forget(owner) else {
            return;
        };
        self.exchange_asking(&before.owner, asked);
        let mut names = BTreeSet::new();
        self.forget_claims(&before, &mut names);
        for (zone, name) in names {
            self.remerge(&zone, &name);
        }
        self.owner_news.remove(owner);
    }

    fn forget_claims(&mut self, before: &Kept, names: &mut BTreeSet<(Name, Name)>) {
        for claim in &before.claims {
            let Some(zone) = self.known.get_mut(&claim.zone) else {
                continue;
            };
            if let Some(node) = zone.nodes.get_mut(&claim.key.name) {
                node.retain(|(owner, _)| *owner != before.owner);
            }
            names.insert((claim.zone.clone(), claim.key.name.clone()));
        }
    }

    /// Looks at a set again in every zone that could hold it.
    fn mark_everywhere(&mut self, key: &RecordKey) {
        for name in ancestry(&key.name) {
            self.recount_foreign(&name, key);
            let Some(zone) = self.known.get_mut(&name) else {
                continue;
            };
            if zone.children.actual(key).is_some() || zone.children.desired(key).is_some() {
                zone.children.reconsider(key.clone());
                self.schedule.push(name);
            }
        }
    }

    fn claim_again(&mut self, zone: &Name) {
        let names: Vec<Name> = self.known.get(zone).map_or_else(Vec::new, |zone| {
            zone.nodes.keys().chain(zone.own.names()).cloned().collect()
        });
        for name in names {
            self.remerge(zone, &name);
        }
    }

    /// Computes one name's desired sets anew and marks what differs.
    fn remerge(&mut self, zone_name: &Name, name: &Name) {
        let Some(zone) = self.known.get_mut(zone_name) else {
            return;
        };
        let claims = zone.nodes.get(name).map_or(&[][..], SmallSet::as_slice);
        let writable = claims
            .iter()
            .filter(|(owner, index)| self.owners.may_write(owner, *index));
        let contenders = writable.filter_map(|(owner, index)| {
            let declaration = self.owners.get(owner)?;
            Some(Contender {
                owner,
                since: declaration.since,
                index: *index,
                claim: declaration.claim(*index)?,
            })
        });
        let own = zone.declared.iter().flat_map(|declared| {
            let claims = (0..).zip(zone.own.claims(name));
            claims.map(|(index, claim)| Contender {
                owner: &declared.owner,
                since: i64::MIN,
                index,
                claim,
            })
        });
        let merged = merge(contenders.chain(own).collect());
        self.owner_news
            .extend(claims.iter().map(|(owner, _)| Id::clone(owner)));
        if claims.is_empty() {
            zone.nodes.remove(name);
        }
        if merged.losers.is_empty() {
            zone.losers.remove(name);
        } else {
            zone.losers.insert(name.clone(), merged.losers);
        }
        // A zone that is on its way out is to hold nothing of ours.
        let mut sets = if zone.declared.is_some() {
            merged.sets
        } else {
            BTreeMap::new()
        };

        let types: BTreeSet<RecordType> = zone
            .children
            .all_desired()
            .range(all_types(name))
            .map(|(key, _)| key.rtype)
            .chain(sets.keys().copied())
            .collect();
        for rtype in types {
            let key = RecordKey {
                name: name.clone(),
                rtype,
            };
            let desired = sets.remove(&rtype);
            if zone.children.desired(&key).map(Arc::as_ref) != desired.as_ref() {
                if desired.is_some() {
                    zone.guard.want(&key);
                }
                zone.children.desire(key, desired.map(Arc::new));
            }
        }
        self.schedule.push(zone_name.clone());
    }

    /// Marks every object that has to do with a set, since its status may have changed.
    fn touch_owners(&mut self, key: &RecordKey) {
        let owners = self.owners.owners(self.claims_at(&key.name), key);
        let owners: Vec<Id> = owners.cloned().collect();
        self.owner_news.extend(owners);
    }

    /// Whether a record in a set is ours: the zone has it of itself, or some object owns it.
    fn is_owned(&self, zone: &Zone, key: &RecordKey, data: &RecordData) -> bool {
        zone.own.covers(key)
            || self.owners.owns(self.claims_at(&key.name), key, data)
            || zone.belated.has(key, data)
    }

    /// The objects that ask for something at the name of a set, or own something there that is to go, each
    /// once.
    fn askers(&self, zone: &Zone, key: &RecordKey) -> Vec<Id> {
        let claims = zone.claims_at(&key.name).iter();
        let mut askers: Vec<Id> = self.owners.owners(claims, key).cloned().collect();
        askers.sort_unstable();
        askers.dedup();
        askers
    }

    /// The claims on a name, in whichever zone.
    fn claims_at(&self, name: &Name) -> impl Iterator<Item = &ClaimRef> {
        let zones = name.suffixes().filter_map(|apex| self.known.get(apex));
        zones.flat_map(|zone| zone.claims_at(name))
    }
}

impl Zone {
    /// The claims on a name in this zone.
    fn claims_at(&self, name: &Name) -> &[ClaimRef] {
        self.nodes.get(name).map_or(&[], SmallSet::as_slice)
    }
}

/// A name and all its ancestors, closest first.
fn ancestry(name: &Name) -> impl Iterator<Item = Name> {
    std::iter::successors(Some(name.clone()), Name::parent)
}

/// The keys of every type at one name, in the order of [`RecordKey`].
fn all_types(name: &Name) -> RangeInclusive<RecordKey> {
    let key = |rtype| RecordKey {
        name: name.clone(),
        rtype,
    };
    key(RecordType::A)..=key(RecordType::Other(u16::MAX))
}

//! All zones with what is asked of them: the state machine between declarations and name servers.
//!
//! Inputs are declarations and completions of steps, outputs are steps to carry out and events to
//! tell. Nothing here waits, writes or looks at a clock: `now` is given, as time since any start.

mod completions;
mod drift;
mod followers;
mod guard;
mod own;
mod protocol;
mod steps;
mod verdict;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use crate::{
    claim::{Adoption, Claim, Declaration},
    fault::Fault,
    fleet::{Fleet, Member},
    merge::{Contender, Loser, merge},
    name::Name,
    object::ObjectRef,
    record::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial},
    tracker::Parent,
};

pub use self::{
    guard::HeldPlan,
    own::restored,
    protocol::{
        Completion, Hosting, Limits, ReadBack, Sent, Step, Tenancy, ZoneContent, ZoneDeclaration,
    },
    verdict::{ClaimOutcome, SyncEvent, Verdict, Withdrawal, ZoneEvent, ZoneState},
};

/// The zones and everything that objects ask of them.
#[derive(Debug, Default)]
pub struct Zones {
    limits: Limits,
    /// The servers beside the lead, the same for every zone.
    followers: Vec<Member>,
    known: BTreeMap<Name, Zone>,
    owners: BTreeMap<ObjectRef, Declaration>,
    /// Claims that their objects do not carry yet, by position; nothing of them is written.
    unadmitted: BTreeMap<ObjectRef, BTreeSet<usize>>,
    /// Which records are ours, by the lines that objects carry.
    evidence: BTreeMap<RecordKey, Vec<(ObjectRef, RecordData)>>,
    /// Objects that carry lines which they no longer ask for.
    leaving: BTreeSet<ObjectRef>,
    owner_news: BTreeSet<ObjectRef>,
    zone_news: BTreeSet<Name>,
    work: BTreeSet<Name>,
    timers: BTreeSet<(Duration, Name)>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that any other may go with"
)]
#[derive(Debug, Default)]
struct Zone {
    declared: Option<ZoneDeclaration>,
    parent: Parent<RecordKey, Arc<RecordSet>>,
    nodes: BTreeMap<Name, Node>,
    /// Objects that ask for something here which they do not carry yet.
    asking: BTreeSet<ObjectRef>,
    serial: Option<Serial>,
    /// The serial at which everything in the zone is known.
    base: Option<Serial>,
    /// Messages that were acknowledged since, each of which made one serial; below zero where one was
    /// seen before its answer came.
    steps: i32,
    /// Updates on their way.
    commits: usize,
    /// Questions on their way that read sets back.
    questions: usize,
    /// Changes are asked for, to read sets back.
    catching: bool,
    /// The server answers with the whole zone where changes were asked for.
    incapable: bool,
    /// Others wrote into the zone; what they wrote is asked for.
    drifted: bool,
    /// Sets in which nothing is ours.
    foreign: BTreeSet<RecordKey>,
    guard: guard::Guard,
    fault: Option<Fault>,
    attempts: u32,
    not_before: Duration,
    next_check: Duration,
    /// The zone has to be transferred again before anything is written.
    stale: bool,
    reading: bool,
    /// Bindery created the zone on the server, so the zone goes when nobody declares it.
    served: bool,
    verify_queue: Vec<RecordKey>,
    /// The sets that were sent and not yet read back.
    flights: BTreeMap<RecordKey, Flight>,
    sick: BTreeMap<RecordKey, Sick>,
    /// Sets that were sent and stand as they stood, and why.
    unmoved: BTreeMap<RecordKey, Fault>,
    /// When the zone wakes by itself, as entered in the list of timers.
    timer: Option<Duration>,
    /// Since when it is known that no server has the zone, while it is ours to create.
    vacant: Option<Duration>,
    /// What the zone object itself puts into the zone.
    own: own::Own,
    /// The other servers.
    fleet: Fleet,
    /// What waits for them.
    spreading: followers::Spreading,
}

/// The claims on one name.
#[derive(Debug, Default)]
struct Node {
    /// Sorted; nearly always one, for which a tree would take ten times the memory.
    claims: Vec<(ObjectRef, usize)>,
    losers: Vec<Loser>,
}

impl Node {
    fn claim(&mut self, owner: &ObjectRef, index: usize) {
        if let Err(place) = self.place(owner, index) {
            self.claims.reserve_exact(1);
            self.claims.insert(place, (owner.clone(), index));
        }
    }

    fn release(&mut self, owner: &ObjectRef, index: usize) {
        if let Ok(place) = self.place(owner, index) {
            self.claims.remove(place);
        }
    }

    fn place(&self, owner: &ObjectRef, index: usize) -> Result<usize, usize> {
        self.claims
            .binary_search_by(|(whose, at)| (whose, at).cmp(&(owner, &index)))
    }
}

/// A set on its way.
#[derive(Clone, Debug)]
struct Flight {
    /// What was desired of it when it was sent.
    desired: Option<Arc<RecordSet>>,
    /// The answer was lost, so it may or may not have been applied.
    lost: Option<Fault>,
}

/// A set that could not be brought to its desired state.
#[derive(Clone, Debug)]
struct Sick {
    attempts: u32,
    not_before: Duration,
    verdict: Verdict,
}

impl Zones {
    /// An empty state with its limits, for zones on one server and these others.
    #[must_use]
    pub fn new(limits: Limits, followers: Vec<Member>) -> Self {
        Self {
            limits,
            followers,
            ..Self::default()
        }
    }

    /// Declares a zone, or declares it anew.
    pub fn declare_zone(&mut self, declaration: ZoneDeclaration) {
        let name = declaration.zone.clone();
        let zone = self.known.entry(name.clone()).or_default();
        let reopened = zone.declared.is_none();
        if reopened {
            zone.fleet = Fleet::new(&self.followers);
        }
        let renamed = zone.own.replace(&declaration);
        let exclusive = declaration.tenancy == Tenancy::Exclusive;
        let allowed = declaration.allowed.clone();
        zone.declared = Some(declaration);
        zone.release(allowed.as_deref());
        zone.parent.want();
        if exclusive {
            zone.parent.mark_all(zone.foreign.iter().cloned());
        }
        if reopened {
            self.claim_again(&name);
        }
        for own in renamed {
            self.remerge(&name, &own);
        }
        self.zone_news.insert(name.clone());
        self.work.insert(name);
    }

    /// Takes a zone back. What we wrote into it goes first; then it is deleted where it is ours.
    pub fn retire_zone(&mut self, name: &Name) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.declared = None;
        zone.parent.retire();
        zone.spreading = followers::Spreading::default();
        self.claim_again(name);
        self.zone_news.insert(name.clone());
        self.work.insert(name.clone());
    }

    /// Replaces everything that one object asks for.
    pub fn declare(&mut self, declaration: Declaration) {
        let owner = declaration.owner.clone();
        self.owner_news.insert(owner.clone());
        let before = self.owners.get(&owner);
        if let Some(before) = before
            && (
                &before.claims,
                &before.published,
                before.adoption,
                before.since,
            ) == (
                &declaration.claims,
                &declaration.published,
                declaration.adoption,
                declaration.since,
            )
        {
            self.owners.insert(owner, declaration);
            return;
        }
        self.admit(&owner);
        self.keep_out(&declaration, uncarried(&declaration));
        if withdraws(&declaration) {
            self.leaving.insert(owner.clone());
        } else {
            self.leaving.remove(&owner);
        }
        let before = self.owners.insert(owner.clone(), declaration.clone());
        let mut names = BTreeSet::new();
        if let Some(before) = &before {
            self.forget_claims(before, &mut names);
        }
        for (index, claim) in declaration.claims.iter().enumerate() {
            let zone = self.known.entry(claim.zone.clone()).or_default();
            let node = zone.nodes.entry(claim.key.name.clone()).or_default();
            node.claim(&owner, index);
            names.insert((claim.zone.clone(), claim.key.name.clone()));
        }
        self.exchange_evidence(before.as_ref(), &declaration);
        for (zone, name) in names {
            self.remerge(&zone, &name);
        }
    }

    /// Nothing of these claims is written before their object carries them.
    fn keep_out(&mut self, declaration: &Declaration, claims: BTreeSet<usize>) {
        if claims.is_empty() {
            return;
        }
        for claim in claims
            .iter()
            .filter_map(|index| declaration.claims.get(*index))
        {
            let zone = self.known.entry(claim.zone.clone()).or_default();
            zone.asking.insert(declaration.owner.clone());
        }
        self.unadmitted.insert(declaration.owner.clone(), claims);
    }

    /// Forgets which claims of an object's last declaration were kept out.
    fn admit(&mut self, owner: &ObjectRef) {
        let claims = self.unadmitted.remove(owner).unwrap_or_default();
        let declaration = self.owners.get(owner);
        let declared = |index: &usize| declaration?.claims.get(*index);
        for claim in claims.iter().filter_map(declared) {
            if let Some(zone) = self.known.get_mut(&claim.zone) {
                zone.asking.remove(owner);
            }
        }
    }

    /// Forgets an object that is gone. What it published and did not withdraw becomes foreign.
    pub fn forget(&mut self, owner: &ObjectRef) {
        self.admit(owner);
        let Some(before) = self.owners.remove(owner) else {
            return;
        };
        let mut names = BTreeSet::new();
        self.forget_claims(&before, &mut names);
        for record in &before.published {
            self.drop_evidence(owner, record);
        }
        for (zone, name) in names {
            self.remerge(&zone, &name);
        }
        self.leaving.remove(owner);
        self.owner_news.remove(owner);
    }

    fn forget_claims(&mut self, before: &Declaration, names: &mut BTreeSet<(Name, Name)>) {
        for (index, claim) in before.claims.iter().enumerate() {
            let Some(zone) = self.known.get_mut(&claim.zone) else {
                continue;
            };
            if let Some(node) = zone.nodes.get_mut(&claim.key.name) {
                node.release(&before.owner, index);
            }
            names.insert((claim.zone.clone(), claim.key.name.clone()));
        }
    }

    fn exchange_evidence(&mut self, before: Option<&Declaration>, after: &Declaration) {
        let mut touched: BTreeSet<RecordKey> = BTreeSet::new();
        for record in before.map_or(&[][..], |before| &before.published) {
            touched.insert(key_of(record));
            self.drop_evidence(&after.owner, record);
        }
        for record in &after.published {
            let key = key_of(record);
            let entry = (after.owner.clone(), record.data.clone());
            let entries = self.evidence.entry(key.clone()).or_default();
            // Nearly always one; a vector that grows by itself would hold room for four.
            entries.reserve_exact(1);
            entries.push(entry);
            touched.insert(key);
        }
        for key in touched {
            self.mark_everywhere(&key);
        }
    }

    fn drop_evidence(&mut self, owner: &ObjectRef, record: &Record) {
        let key = key_of(record);
        if let Some(entries) = self.evidence.get_mut(&key) {
            entries.retain(|(whose, data)| whose != owner || *data != record.data);
            if entries.is_empty() {
                self.evidence.remove(&key);
            }
        }
    }

    /// Looks at a set again in every zone that could hold it.
    fn mark_everywhere(&mut self, key: &RecordKey) {
        for name in ancestry(&key.name) {
            self.weigh(&name, key);
            let Some(zone) = self.known.get_mut(&name) else {
                continue;
            };
            if zone.parent.actual(key).is_some() || zone.parent.desired(key).is_some() {
                zone.parent.mark(key.clone());
                zone.sick.remove(key);
                zone.unmoved.remove(key);
                self.work.insert(name);
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
        let unclaimed = Node::default();
        let node = zone.nodes.get(name).unwrap_or(&unclaimed);
        let unadmitted = &self.unadmitted;
        let carried = node.claims.iter().filter(|(owner, index)| {
            !unadmitted
                .get(owner)
                .is_some_and(|claims| claims.contains(index))
        });
        let contenders = carried.filter_map(|(owner, index)| {
            let declaration = self.owners.get(owner)?;
            let claim = declaration.claims.get(*index)?;
            Some(Contender {
                owner,
                since: declaration.since,
                index: *index,
                claim,
            })
        });
        let own = zone.declared.iter().flat_map(|declared| {
            let claims = zone.own.claims(name).iter().enumerate();
            claims.map(|(index, claim)| Contender {
                owner: &declared.owner,
                since: i64::MIN,
                index,
                claim,
            })
        });
        let merged = merge(contenders.chain(own).collect());
        self.owner_news
            .extend(node.claims.iter().map(|(owner, _)| owner.clone()));
        let is_claimed = !node.claims.is_empty();
        if let Some(node) = zone.nodes.get_mut(name) {
            node.losers = merged.losers;
        }
        // A zone that is on its way out is to hold nothing of ours.
        let mut sets = if zone.declared.is_some() {
            merged.sets
        } else {
            BTreeMap::new()
        };

        let types: BTreeSet<RecordType> = zone
            .parent
            .wanted_children()
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
            if zone.parent.desired(&key).map(Arc::as_ref) != desired.as_ref() {
                if desired.is_some() {
                    zone.guard.want(&key);
                }
                zone.parent.desire(key.clone(), desired.map(Arc::new));
                zone.sick.remove(&key);
                zone.unmoved.remove(&key);
            }
        }
        if !is_claimed {
            zone.nodes.remove(name);
        }
        self.work.insert(zone_name.clone());
    }

    /// Marks every object that has to do with a set, since its verdict may have changed.
    fn touch_owners(&mut self, zone: &Name, key: &RecordKey) {
        if let Some(node) = self
            .known
            .get(zone)
            .and_then(|zone| zone.nodes.get(&key.name))
        {
            self.owner_news
                .extend(node.claims.iter().map(|(owner, _)| owner.clone()));
        }
        if let Some(entries) = self.evidence.get(key) {
            self.owner_news
                .extend(entries.iter().map(|(owner, _)| owner.clone()));
        }
    }

    /// Whether a record in a set is ours.
    fn is_owned(&self, zone: &Zone, key: &RecordKey, data: &RecordData) -> bool {
        zone.own.covers(key)
            || self
                .evidence
                .get(key)
                .is_some_and(|entries| entries.iter().any(|(_, ours)| ours == data))
    }

    /// Whether an object that claims this set may take it over.
    fn is_adopted(&self, zone: &Zone, key: &RecordKey) -> bool {
        zone.nodes.get(&key.name).is_some_and(|node| {
            node.claims.iter().any(|(owner, index)| {
                self.owners.get(owner).is_some_and(|declaration| {
                    declaration.adoption == Adoption::Take
                        && declaration
                            .claims
                            .get(*index)
                            .is_some_and(|claim| claim.key == *key)
                })
            })
        })
    }
}

impl Claim {
    /// The zone-file lines that this claim puts into DNS.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.data.iter().map(|data| Record {
            name: self.key.name.clone(),
            ttl: self.ttl,
            data: data.clone(),
        })
    }
}

/// The claims of which the object does not carry every line.
fn uncarried(declaration: &Declaration) -> BTreeSet<usize> {
    let carried: BTreeSet<(&Name, &RecordData)> = declaration
        .published
        .iter()
        .map(|record| (&record.name, &record.data))
        .collect();
    let claims = declaration.claims.iter().enumerate();
    claims
        .filter(|(_, claim)| {
            claim
                .data
                .iter()
                .any(|data| !carried.contains(&(&claim.key.name, data)))
        })
        .map(|(index, _)| index)
        .collect()
}

/// Whether the object carries a line that it does not ask for.
fn withdraws(declaration: &Declaration) -> bool {
    let asked: BTreeSet<(&Name, &RecordData)> = declaration
        .claims
        .iter()
        .flat_map(|claim| claim.data.iter().map(|data| (&claim.key.name, data)))
        .collect();
    let mut carried = declaration.published.iter();
    carried.any(|record| !asked.contains(&(&record.name, &record.data)))
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

fn key_of(record: &Record) -> RecordKey {
    RecordKey {
        name: record.name.clone(),
        rtype: record.data.rtype(),
    }
}

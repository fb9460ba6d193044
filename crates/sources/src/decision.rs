//! What one object asks of DNS, and what has to happen next for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bindery_api::{DeclaredEndpoint, DesiredRecord, DesiredZone};
use bindery_core::{
    Claim, Declaration, Group, GroupDeclaration, Id, Name, ObjectRef, Problem, Record, RecordData,
    RecordKey, RecordType, ZoneKey, reason::Reason, zones::Going,
};

use crate::catalog::{Catalog, EndpointEntry, RecordEntry};
use crate::groups::GroupChoice;
use crate::meta::{CLUSTER, Life, Meta, text};
use crate::recording::{self, MetadataPatch};
use crate::zones::{Precedence, ZoneEntry};

/// What has to happen next for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAct {
    /// Wait until the author corrects the object: its claims are not submitted and nothing is taken away.
    AwaitAuthor,
    /// Write this into the object's metadata first: the record of what it owns before its claims reach DNS,
    /// or the removal of our finalizer.
    WriteMetadata(MetadataPatch),
    /// Submit its claims, in one part for each group of servers that it concerns; there is at least one.
    /// The caller chooses the revision.
    Declare(Vec<GroupDeclaration>),
}

/// What was decided for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The zone objects that it belongs to.
    pub zones: Vec<Id>,
    /// What its author, or the author of a zone, has to correct.
    pub problems: Vec<Problem>,
    /// What it asks for and does not get, without harm to the rest.
    pub notes: Vec<Problem>,
    /// How many record sets it asks for: one for a record, one for each endpoint.
    pub desired_count: usize,
    /// What has to happen next.
    pub next: NextAct,
    /// The patch to write once everything that the object no longer asks for is gone from DNS.
    pub cleanup: Option<MetadataPatch>,
}

impl Catalog {
    /// What an object asks of DNS now. `None` for zones and for objects that are not known.
    ///
    /// An object may record a claim as its own only where it has recorded the record set already, or where
    /// the zone was looked at and the set is `available`: else it would take over what somebody else wrote.
    #[must_use]
    pub fn decide(&self, object: &ObjectRef, available: IsAvailable<'_>) -> Option<Decision> {
        if let Some(entry) = self.records.get(object) {
            let decision = self.decide_record(entry, available);
            return Some(decision.after_tampering(&entry.meta));
        }
        if let Some(entry) = self.endpoints.get(object) {
            let decision = self.decide_endpoints(entry, available);
            return Some(decision.after_tampering(&entry.meta));
        }
        self.tombstones.get(object).map(|meta| self.withdraw(meta))
    }

    fn decide_record(&self, entry: &RecordEntry, available: IsAvailable<'_>) -> Decision {
        let RecordEntry { meta, desired, .. } = entry;
        if meta.life == Life::Deleting {
            return self.withdraw(meta);
        }
        let mut problems = match &desired.data {
            Ok(_) => Vec::new(),
            Err(problems) => problems.to_vec(),
        };
        let zone = match self.zone_of(entry) {
            Ok(zone) => Some(zone),
            Err((problem, zone)) => {
                problems.push(problem);
                zone
            }
        };
        let Some((zone, desired_zone)) = zone else {
            // A zone that is broken for a moment must not take its records out of DNS.
            if self.may_be_broken(meta) {
                return await_author(Vec::new(), problems);
            }
            return self.withdraw_with(meta, problems);
        };
        let zones = vec![Id::clone(&zone.meta.object)];
        let Ok(data) = &desired.data else {
            return await_author(zones, problems);
        };
        match claim(&desired_zone.name, desired_zone.ttl, desired, data) {
            Ok(claim) => {
                let zone_annotation = desired_zone.name.to_string();
                let zone_annotation = Some(zone_annotation.trim_end_matches('.'));
                let claims = vec![(zone.group.clone(), claim)];
                let decision = self.decision(meta, claims, zone_annotation, available);
                decision.within(zones, problems)
            }
            Err(problem) => {
                problems.push(problem);
                await_author(zones, problems)
            }
        }
    }

    fn decide_endpoints(&self, entry: &EndpointEntry, available: IsAvailable<'_>) -> Decision {
        let EndpointEntry { meta, desired } = entry;
        if meta.life == Life::Deleting {
            return self.withdraw(meta);
        }
        let on_hold = |zones, problems| Decision {
            desired_count: desired.len(),
            ..await_author(zones, problems)
        };
        let cluster = meta.cluster();
        let group = match cluster.map(|name| {
            self.groups.place(&GroupChoice {
                namespace: &meta.object.namespace,
                clusters: &[(NAMES_CLUSTER, name.to_owned())],
                ..GroupChoice::default()
            })
        }) {
            // As with a zone: where it is meant to be is not guessed at, and nothing is taken away.
            Some(Err(problem)) => return on_hold(Vec::new(), vec![problem]),
            Some(Ok(group)) => Some(group),
            None => None,
        };
        let (mut problems, mut notes) = (Vec::new(), Vec::new());
        let mut claims = Vec::new();
        let mut zones: Vec<Id> = Vec::new();
        for endpoint in desired {
            match endpoint {
                Err(wrong) => problems.extend(wrong.iter().cloned()),
                Ok(wanted) => match self.endpoint_claim(wanted, group.as_ref()) {
                    Ok((claim, zone)) => {
                        notes.extend(ignored(wanted));
                        claims.push(claim);
                        zones.push(zone);
                    }
                    Err(problem) => problems.push(problem),
                },
            }
        }
        zones.sort();
        zones.dedup();
        let namespace = &meta.object.namespace;
        if !problems.is_empty() && !meta.published.is_empty() && self.zones.is_unknown_in(namespace)
        {
            return on_hold(zones, problems);
        }
        self.keep_broken(meta, &mut claims);
        let mut decision = self.decision(meta, claims, None, available);
        decision = decision.within(zones, problems);
        decision.desired_count = desired.len();
        decision.notes = notes;
        decision
    }

    /// Whether something of an object is in a zone that its author has to correct: a zone that is broken for
    /// a moment must not take its records out of DNS.
    fn may_be_broken(&self, meta: &Meta) -> bool {
        let is_broken = |(group, line): &(Group, Record)| {
            self.zones.broken_zone(Some(group), &line.name).is_some()
        };
        !meta.published.is_empty()
            && (self.zones.is_unknown_in(&meta.object.namespace)
                || meta.owned_records().iter().any(is_broken))
    }

    /// Adds what the object has in zones that their authors have to correct, as it is.
    fn keep_broken(&self, meta: &Meta, claims: &mut Vec<(Group, Claim)>) {
        if !self.zones.has_broken() {
            return;
        }
        let mut kept: BTreeMap<(ZoneKey, RecordKey), Vec<Record>> = BTreeMap::new();
        for (group, line) in meta.owned_records() {
            let asked = claims
                .iter()
                .any(|(on, claim)| *on == group && claim.key == line.key());
            if !asked && let Some(place) = self.zones.broken_zone(Some(&group), &line.name) {
                let lines = kept.entry((place.clone(), line.key())).or_default();
                lines.push(line);
            }
        }
        claims.extend(kept.into_iter().map(|((zone, key), lines)| {
            let claim = Claim {
                zone: zone.name,
                key,
                ttl: lines.iter().map(|line| line.ttl).min().unwrap_or_default(),
                data: lines.into_iter().map(|line| line.data).collect(),
                field: KEPT.into(),
            };
            (zone.group, claim)
        }));
    }

    fn endpoint_claim(
        &self,
        wanted: &DeclaredEndpoint,
        group: Option<&Group>,
    ) -> Result<((Group, Claim), Id), Problem> {
        let field = format!("spec.endpoints[{}]", wanted.index);
        let name = &wanted.key.name;
        let zone = name
            .suffixes()
            .find_map(|suffix| self.zones.serving(suffix, group))
            .and_then(|zone| Some((zone, zone.desired.as_ref().ok()?)));
        let Some((zone, desired)) = zone else {
            return Err(Problem {
                field: format!("{field}.dnsName"),
                reason: Reason::NoMatchingZone,
                message: match group.filter(|group| **group != Group::UNNAMED) {
                    Some(group) => format!(
                        "no DNSZone on {group} has a name that {name} ends in: create one, or change \
                         the annotation {CLUSTER}"
                    ),
                    None => format!("no DNSZone has a name that {name} ends in: create one"),
                },
            });
        };
        let len = desired.name.as_wire().len();
        let broken = self.zones.broken_zone(Some(&zone.group), name);
        if let Some(place) = broken.filter(|place| place.name.as_wire().len() > len) {
            return Err(Problem {
                field: format!("{field}.dnsName"),
                reason: Reason::ZoneNotReady,
                message: format!("DNSZone of {} is not valid, see its status", place.name),
            });
        }
        refuse_apex_alias(&wanted.key, &desired.name, &format!("{field}.recordType"))?;
        let claim = Claim {
            zone: desired.name.clone(),
            key: wanted.key.clone(),
            ttl: wanted.ttl.unwrap_or(desired.ttl),
            data: Arc::clone(&wanted.data),
            field: field.into(),
        };
        Ok(((zone.group.clone(), claim), Id::clone(&zone.meta.object)))
    }

    fn decision(
        &self,
        meta: &Meta,
        claims: Vec<(Group, Claim)>,
        zone_annotation: Option<&str>,
        available: IsAvailable<'_>,
    ) -> Decision {
        let mut lines = meta.owned_records();
        let asked = recording::records(&claims);
        if meta.is_wiped() && meta.recognises(&text(asked.clone())) {
            lines = asked;
        }
        // What is on servers that are gone for good may be given up.
        lines.retain(|(group, _)| !meta.abandoned || self.groups.has(group));
        let recorded: BTreeSet<(&Group, RecordKey)> = lines
            .iter()
            .map(|(group, line)| (group, line.key()))
            .collect();
        let granted: Vec<(Group, Claim)> = claims
            .iter()
            .filter(|(group, claim)| {
                recorded.contains(&(group, claim.key.clone())) || available(group, &claim.key)
            })
            .cloned()
            .collect();
        let next = match recording::before_publishing(meta, &lines, &granted, zone_annotation) {
            Ok(Some(patch)) => NextAct::WriteMetadata(patch),
            Ok(None) => NextAct::Declare(parts(meta, claims, lines)),
            Err(problem) => return await_author(Vec::new(), vec![problem]),
        };
        Decision {
            zones: Vec::new(),
            problems: Vec::new(),
            notes: Vec::new(),
            desired_count: 1,
            next,
            // As long as nothing tells what was written, what may recognise it stays.
            cleanup: recording::after_withdrawal(meta, &granted, zone_annotation)
                .filter(|_| !meta.is_wiped() || meta.life == Life::Deleting),
        }
    }

    /// An object that goes takes along what it has in DNS, however broken its spec is.
    fn withdraw(&self, meta: &Meta) -> Decision {
        if meta.abandoned && meta.has_finalizer && meta.life == Life::Deleting {
            return Decision {
                next: NextAct::WriteMetadata(MetadataPatch::release(meta)),
                ..await_author(Vec::new(), Vec::new())
            };
        }
        self.withdraw_with(meta, Vec::new())
    }

    fn withdraw_with(&self, meta: &Meta, problems: Vec<Problem>) -> Decision {
        let decision = self.decision(meta, Vec::new(), None, &|_, _| false);
        decision.within(Vec::new(), problems)
    }

    /// The zone that a record belongs to; where there is a problem, perhaps the one that it is
    /// published in and stays in until the problem is solved.
    fn zone_of(&self, entry: &RecordEntry) -> Result<Active<'_>, (Problem, Option<Active<'_>>)> {
        let namespace = &entry.meta.object.namespace;
        if let Some(name) = &entry.desired.zone_ref {
            let Some(zone) = self.zones.named(namespace, name) else {
                let message = format!("DNSZone {namespace}/{name} does not exist: create it");
                let field = "spec.zoneRef".to_owned();
                let reason = Reason::ZoneNotFound;
                return Err((
                    Problem {
                        field,
                        reason,
                        message,
                    },
                    None,
                ));
            };
            return self.usable(zone).map_err(|problem| (problem, None));
        }
        let selecting: Vec<&ZoneEntry> = entry
            .selected_by
            .iter()
            .filter_map(|id| self.zones.get(id))
            .collect();
        // A zone that goes is left for one that stays; else what is in it stays as long as it does.
        let is_left = |zone: &&ZoneEntry| {
            let stays = |other: &&ZoneEntry| other.meta.life == Life::Alive;
            zone.meta.life == Life::Deleting
                && selecting
                    .iter()
                    .copied()
                    .filter(stays)
                    .any(|other| self.usable(other).is_ok())
        };
        let selecting: Vec<&ZoneEntry> = selecting
            .iter()
            .copied()
            .filter(|zone| !is_left(zone))
            .collect();
        let mut active = selecting.iter().filter_map(|zone| self.usable(zone).ok());
        match (active.next(), active.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                let names: Vec<String> = selecting.iter().map(|zone| show(&zone.meta)).collect();
                let message = format!(
                    "selected by zones {}: let one of them select it, or set spec.zoneRef",
                    names.join(" and ")
                );
                // Two zones that overlap must not take a record out of DNS.
                let lines = entry.meta.owned_records();
                let stays = selecting
                    .iter()
                    .filter_map(|zone| self.usable(zone).ok())
                    .find(|(zone, desired)| {
                        let zone_annotation = entry.meta.zone.as_deref();
                        zone_annotation == Some(desired.name.to_string().trim_end_matches('.'))
                            && lines.iter().any(|(group, _)| *group == zone.group)
                    });
                Err((zone_problem(Reason::Conflict, message), stays))
            }
            (None, _) => {
                let problem = match selecting.first() {
                    Some(zone) => self.usable(zone).err(),
                    None => None,
                };
                Err((problem.unwrap_or_else(|| not_selected(namespace)), None))
            }
        }
    }

    fn usable<'a>(&self, zone: &'a ZoneEntry) -> Result<Active<'a>, Problem> {
        let reason = match (self.zones.precedence(zone), &zone.desired) {
            (Precedence::Active, Ok(desired)) => return Ok((zone, desired)),
            // One that is being deleted may be held, and its records with it.
            (Precedence::Deleting, Ok(desired)) if self.zones.is_serving(zone, desired) => {
                return Ok((zone, desired));
            }
            (Precedence::Duplicate(winner), _) => {
                format!("declares the same name as the older {}", winner.name)
            }
            (Precedence::Deleting | Precedence::Superseded(_), _) => "is being deleted".into(),
            (Precedence::Invalid(_) | Precedence::Active, _) => {
                "is not valid, see its status".into()
            }
        };
        let message = format!("DNSZone {} {reason}", show(&zone.meta));
        Err(zone_problem(Reason::ZoneNotReady, message))
    }
}

/// The field of what stays as it is, because its zone has to be corrected first.
pub const KEPT: &str = "metadata.annotations[bindery.dev/published]";

/// The field in which endpoints name a cluster.
const NAMES_CLUSTER: &str = "metadata.annotations[bindery.dev/cluster]";

/// The field of every record, in one place.
static SPEC: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("spec"));

/// The fields of an endpoint that are not acted on.
fn ignored(wanted: &DeclaredEndpoint) -> impl Iterator<Item = Problem> {
    wanted.ignored.fields().map(|field| Problem {
        field: format!("spec.endpoints[{}].{field}", wanted.index),
        reason: Reason::Unsupported,
        message: "is not acted on: the endpoint is published without it".to_owned(),
    })
}

type Active<'a> = (&'a ZoneEntry, &'a DesiredZone);

fn claim(
    zone: &Name,
    zone_ttl: u32,
    desired: &DesiredRecord,
    data: &Arc<[RecordData]>,
) -> Result<Claim, Problem> {
    let name = Name::parse_in(&desired.name, zone)
        .map_err(|problem| Problem::invalid("spec.name", problem))?;
    let Some(first) = data.first() else {
        return Err(Problem::invalid("spec", "has no value to publish"));
    };
    let key = RecordKey::new(name, first.rtype());
    refuse_apex_alias(&key, zone, "spec.name")?;
    Ok(Claim {
        zone: zone.clone(),
        key,
        ttl: desired.ttl.unwrap_or(zone_ttl),
        data: Arc::clone(data),
        field: Arc::clone(&SPEC),
    })
}

/// The apex has a SOA and NS records, beside which a CNAME cannot stand (RFC 1034 section 3.6.2).
fn refuse_apex_alias(key: &RecordKey, zone: &Name, field: &str) -> Result<(), Problem> {
    if key.rtype == RecordType::Cname && key.name == *zone {
        let message = format!("{zone} is a zone's own name, which cannot be a CNAME");
        return Err(Problem::invalid(field, message));
    }
    Ok(())
}

/// Tells whether a record set on these servers is available: nobody else has it in DNS.
pub type IsAvailable<'a> = &'a dyn Fn(&Group, &RecordKey) -> bool;

impl Decision {
    /// An annotation that somebody else changed is written back before anything else: until then only memory
    /// may know what the object has.
    fn after_tampering(mut self, meta: &Meta) -> Self {
        if !matches!(self.next, NextAct::WriteMetadata(_))
            && let Some(patch) = MetadataPatch::written_back(meta)
        {
            self.next = NextAct::WriteMetadata(patch);
        }
        self
    }

    fn within(mut self, zones: Vec<Id>, mut problems: Vec<Problem>) -> Self {
        problems.append(&mut self.problems);
        Self {
            zones,
            problems,
            ..self
        }
    }
}

fn await_author(zones: Vec<Id>, problems: Vec<Problem>) -> Decision {
    Decision {
        zones,
        problems,
        notes: Vec::new(),
        desired_count: 1,
        next: NextAct::AwaitAuthor,
        cleanup: None,
    }
}

/// An object's claims and lines, group by group.
fn parts(
    meta: &Meta,
    claims: Vec<(Group, Claim)>,
    lines: Vec<(Group, Record)>,
) -> Vec<GroupDeclaration> {
    let mut parts: BTreeMap<Group, Declaration> = BTreeMap::new();
    let part = || Declaration {
        owner: Id::clone(&meta.object),
        generation: meta.generation,
        revision: 0,
        since: meta.created,
        claims: Vec::new(),
        published: Vec::new(),
        had: Vec::new(),
        adoption: meta.adoption,
        ownership: meta.ownership(),
        going: Going::Asked,
    };
    let had = meta.confirmed(&lines);
    for (group, claim) in claims {
        let was_had = had.contains(&(group.clone(), claim.key.clone()));
        let part = parts.entry(group).or_insert_with(part);
        part.had.extend(was_had.then(|| claim.key.clone()));
        part.claims.push(claim);
    }
    for (group, line) in lines {
        let part = parts.entry(group).or_insert_with(part);
        part.published.push(line);
    }
    if parts.is_empty() {
        parts.insert(Group::UNNAMED, part());
    }
    parts.into_iter().collect()
}

fn not_selected(namespace: &str) -> Problem {
    let message = format!(
        "no DNSZone in namespace {namespace} selects its labels: label it as a zone's recordsFrom \
         asks, or set spec.zoneRef"
    );
    zone_problem(Reason::NotSelected, message)
}

fn zone_problem(reason: Reason, message: String) -> Problem {
    Problem {
        field: "metadata.labels".to_owned(),
        reason,
        message,
    }
}

fn show(meta: &Meta) -> String {
    format!("{}/{}", meta.object.namespace, meta.object.name)
}

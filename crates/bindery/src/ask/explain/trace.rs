//! The stages of the way, each told from the listed objects alone.

use std::collections::BTreeSet;

use bindery_api::{Role, role};
use bindery_core::selector::{Labels, Selector, Test};
use bindery_core::{Claim, Name, Problem, Reason, Record, RecordData, Stage};
use bindery_sources::meta::{FINALIZER, PUBLISHED};
use bindery_sources::{Decision, Id, Life, Meta, NextAct, Precedence, Spec};
use serde_json::Value;

use super::{StepResult, Trace};
use crate::ask::inventory::Inventory;
use crate::ask::listed_object::{ListedObject, ListedServer};
use crate::live::Health;

/// The way of an object.
pub(super) fn trace(mut inventory: Inventory, id: &Id) -> Trace {
    let mut way = Trace::new(id.to_string());
    let (Some(listed), Some(meta)) = (inventory.listed(id).cloned(), inventory.meta(id).cloned())
    else {
        return way;
    };
    way.step(Stage::Object, object(&meta, &listed));
    let (claim, recorded, zones) = if let Some(view) = inventory.zone(id) {
        let claim = zone_claim(&view.precedence, view.name);
        let claim = claim.and(zone_standing(&view.precedence, &listed));
        (claim, zone_written(&meta), vec![Id::clone(id)])
    } else {
        let (decision, claims) = decide(&mut inventory, id);
        let claim = claim(&listed, &decision, &claims);
        let claim = claim.and(zone(&inventory, &listed, &decision));
        let recorded = written(&meta, &claims, &listed);
        (claim, recorded, decision.zones)
    };
    let told = Told::of(&listed);
    way.step(Stage::Claim, claim);
    let waits = zone_waits(&inventory, &zones);
    way.step(
        Stage::Tracker,
        recorded.and(waits).and(told.at(Stage::Tracker)),
    );
    for stage in [Stage::Plan, Stage::Guard, Stage::Commit] {
        way.step(stage, done(stage).and(told.at(stage)));
    }
    let servers = servers(&inventory, &zones);
    way.step(Stage::Verify, servers.and(told.at(Stage::Verify)));
    way.step(
        Stage::Receipt,
        done(Stage::Receipt).and(told.at(Stage::Receipt)),
    );
    way.step(Stage::Status, served(&listed));
    way
}

/// What an object's status says of where it stops.
struct Told {
    stage: Option<Stage>,
    lines: Vec<String>,
}

impl Told {
    fn of(listed: &ListedObject) -> Self {
        let reason = Reason::from_word(&listed.row.word);
        let stage = reason.filter(|_| listed.row.health != Health::Ready);
        Self {
            stage: stage.map(Reason::stage),
            lines: told(listed).collect(),
        }
    }

    fn at(&self, stage: Stage) -> StepResult {
        if self.stage == Some(stage) {
            StepResult::Stopped(self.lines.clone())
        } else {
            StepResult::Done(Vec::new())
        }
    }
}

/// A stage of which objects say nothing while nothing is wrong.
fn done(stage: Stage) -> StepResult {
    StepResult::Done(vec![stage.done_when().to_owned()])
}

/// Whether the leaders of the zones serve them; until then everything waits.
fn zone_waits(inventory: &Inventory, zones: &[Id]) -> StepResult {
    let zones = zones
        .iter()
        .filter_map(|id| Some((id, inventory.listed(id)?)));
    let closed = zones.filter(|(_, zone)| !zone.servers().first().is_some_and(|lead| lead.ready));
    let lines: Vec<String> = closed
        .map(|(id, _)| format!("{id} is not served by its leader yet"))
        .collect();
    if lines.is_empty() {
        StepResult::Done(lines)
    } else {
        StepResult::Stopped(lines)
    }
}

fn object(meta: &Meta, listed: &ListedObject) -> StepResult {
    let finalizer = if meta.has_finalizer {
        FINALIZER
    } else {
        "not set yet"
    };
    let line = format!("generation {}, finalizer {finalizer}", meta.generation);
    match meta.life {
        Life::Alive => StepResult::Done(vec![line]),
        Life::Deleting => {
            let gone = "it is being deleted, and goes when its records are gone from DNS";
            let lines = [line, gone.to_owned()].into_iter();
            StepResult::Stopped(lines.chain(told(listed)).collect())
        }
    }
}

/// What is decided for an object, and what it would claim once nothing stands in its way.
fn decide(inventory: &mut Inventory, id: &Id) -> (Decision, Vec<Claim>) {
    let everything_is_free = |_: &_, _: &_| true;
    let nothing = || Decision {
        zones: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
        desired_count: 0,
        next: NextAct::AwaitAuthor,
        cleanup: None,
    };
    let decision = inventory
        .decide(id, &everything_is_free)
        .unwrap_or_else(nothing);
    let next = match &decision.next {
        NextAct::WriteMetadata(patch) => {
            inventory.suppose(id, patch);
            let after = inventory.decide(id, &everything_is_free);
            after.map_or(NextAct::AwaitAuthor, |decision| decision.next)
        }
        NextAct::AwaitAuthor | NextAct::Declare(_) => decision.next.clone(),
    };
    let claims = match next {
        NextAct::Declare(parts) => parts
            .into_iter()
            .flat_map(|(_, part)| part.claims)
            .collect(),
        NextAct::AwaitAuthor | NextAct::WriteMetadata(_) => Vec::new(),
    };
    (decision, claims)
}

fn claim(listed: &ListedObject, decision: &Decision, claims: &[Claim]) -> StepResult {
    let (mistakes, _) = sorted(&decision.problems);
    let mut lines: Vec<String> = claims
        .iter()
        .flat_map(Claim::records)
        .map(|record| record.to_string())
        .collect();
    if lines.is_empty() && mistakes.is_empty() {
        // Without a zone the name is not complete, and is shown as its author wrote it.
        lines = wishes(listed);
    }
    let (is_empty, is_whole) = (lines.is_empty(), mistakes.is_empty());
    lines.extend(mistakes);
    match (is_empty, is_whole) {
        (true, _) => StepResult::Stopped(lines),
        (false, false) => StepResult::Partly(lines),
        (false, true) => StepResult::Done(lines),
    }
}

/// Mistakes in the object itself, and what lies outside of it.
fn sorted(problems: &[Problem]) -> (Vec<String>, Vec<String>) {
    let (inside, outside): (Vec<&Problem>, Vec<&Problem>) = problems
        .iter()
        .partition(|problem| matches!(problem.reason, Reason::Invalid | Reason::Unsupported));
    let inside = inside.iter().map(ToString::to_string).collect();
    let outside = outside
        .iter()
        .map(|problem| format!("{}: {}", problem.reason.as_str(), problem.message));
    (inside, outside.collect())
}

fn wishes(listed: &ListedObject) -> Vec<String> {
    let line = |name: &str, ttl: Option<u32>, data: &RecordData| {
        let ttl = ttl.map_or_else(|| "(the zone's TTL)".to_owned(), |ttl| ttl.to_string());
        format!("{name} {ttl} IN {} {data}", data.rtype())
    };
    match listed.read().map(|object| object.spec) {
        Some(Spec::Record(wish)) => {
            let lines = wish.data.iter().flat_map(|data| data.iter());
            lines.map(|data| line(&wish.name, wish.ttl, data)).collect()
        }
        Some(Spec::Endpoints(wishes)) => wishes
            .iter()
            .flatten()
            .flat_map(|wish| {
                let name = wish.key.name.to_string();
                let lines = wish.data.iter();
                lines.map(move |data| line(&name, wish.ttl, data))
            })
            .collect(),
        Some(Spec::Zone(_)) | None => Vec::new(),
    }
}

fn zone(inventory: &Inventory, listed: &ListedObject, decision: &Decision) -> StepResult {
    let (_, mut lines) = sorted(&decision.problems);
    let is_whole = lines.is_empty();
    let labels = listed.metadata.labels.clone().unwrap_or_default();
    if decision.zones.is_empty() {
        if role(listed.kind) == Role::Record {
            lines.push(format!("its labels: {}", show_labels(&labels)));
            let here = inventory
                .zones()
                .filter(|(_, zone)| zone.namespace() == listed.namespace());
            lines.extend(here.map(|(id, zone)| format!("{id} selects {}", selects(zone))));
        }
        return StepResult::Stopped(lines);
    }
    for id in &decision.zones {
        let zone = inventory.zone(id).and_then(|view| view.key());
        let zone = zone.map_or_else(String::new, |zone| zone.to_string());
        lines.push(format!("{zone} of {id}"));
        if let Some(zone) = inventory.listed(id) {
            lines.push(why(listed, zone, &labels));
        }
    }
    if is_whole {
        StepResult::Done(lines)
    } else {
        StepResult::Partly(lines)
    }
}

/// Why an object is in a zone.
fn why(listed: &ListedObject, zone: &ListedObject, labels: &Labels) -> String {
    if role(listed.kind) == Role::Endpoints {
        return "by name: the longest one that the endpoint's ends in".to_owned();
    }
    if let Some(name) = ListedObject::text(&listed.spec, "zoneRef") {
        return format!("by spec.zoneRef: {name}");
    }
    let selectors = selectors(zone);
    let matching = selectors
        .iter()
        .enumerate()
        .find(|(_, one)| one.matches(labels));
    match matching {
        Some((at, selector)) => {
            let text = show_selector(selector);
            format!("by its labels: the zone's spec.recordsFrom[{at}] selects {text}")
        }
        None => "by its labels".to_owned(),
    }
}

fn selectors(zone: &ListedObject) -> Box<[Selector]> {
    match zone.read().map(|object| object.spec) {
        Some(Spec::Zone(Ok(wish))) => wish.selectors,
        Some(Spec::Zone(Err(_)) | Spec::Record(_) | Spec::Endpoints(_)) | None => Box::default(),
    }
}

fn selects(zone: &ListedObject) -> String {
    let shown: Vec<String> = selectors(zone).iter().map(show_selector).collect();
    if shown.is_empty() {
        return "nothing: it has no valid spec.recordsFrom".to_owned();
    }
    shown.join(", or ")
}

fn show_selector(selector: &Selector) -> String {
    let shown: Vec<String> = selector
        .requirements()
        .iter()
        .map(|one| match &one.test {
            Test::In(values) if values.len() == 1 => format!("{}={}", one.key, values[0]),
            Test::In(values) => format!("{} in ({})", one.key, values.join(", ")),
            Test::NotIn(values) => format!("{} not in ({})", one.key, values.join(", ")),
            Test::Exists => format!("{} (any value)", one.key),
            Test::DoesNotExist => format!("no label {}", one.key),
        })
        .collect();
    if shown.is_empty() {
        return "every record".to_owned();
    }
    shown.join(" and ")
}

fn show_labels(labels: &Labels) -> String {
    let shown: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if shown.is_empty() {
        return "none".to_owned();
    }
    shown.join(", ")
}

fn written(meta: &Meta, claims: &[Claim], listed: &ListedObject) -> StepResult {
    let lines = meta.owned_records();
    let carried: BTreeSet<(&Name, &RecordData)> = lines
        .iter()
        .map(|(_, record)| (&record.name, &record.data))
        .collect();
    let wanted: Vec<Record> = claims.iter().flat_map(Claim::records).collect();
    let missing: Vec<&Record> = wanted
        .iter()
        .filter(|record| !carried.contains(&(&record.name, &record.data)))
        .collect();
    if missing.is_empty() && meta.has_finalizer {
        let s = if lines.len() == 1 { "" } else { "s" };
        let line = format!("{} line{s} in the annotation {PUBLISHED}", lines.len());
        return StepResult::Done(vec![line]);
    }
    let line = format!("the annotation {PUBLISHED} does not have:");
    let missing = missing.iter().map(ToString::to_string);
    let lines = [line].into_iter().chain(missing);
    StepResult::Stopped(lines.chain(told(listed)).collect())
}

fn zone_claim(standing: &Precedence, name: Option<&Name>) -> StepResult {
    match (standing, name) {
        (Precedence::Invalid(problems), _) => {
            StepResult::Stopped(problems.iter().map(Problem::to_string).collect())
        }
        (_, Some(name)) => StepResult::Done(vec![format!("the zone {name}")]),
        (_, None) => StepResult::Stopped(vec!["it has no valid name".to_owned()]),
    }
}

fn zone_standing(standing: &Precedence, zone: &ListedObject) -> StepResult {
    match standing {
        Precedence::Active => StepResult::Done(vec![format!(
            "it is the one of its name; it selects {}",
            selects(zone)
        )]),
        Precedence::Duplicate(winner) => StepResult::Stopped(vec![format!(
            "the older {winner} declares the same name: delete one of the two, or change its name"
        )]),
        Precedence::Invalid(_) => StepResult::Stopped(Vec::new()),
        Precedence::Deleting | Precedence::Superseded(_) => {
            StepResult::Stopped(vec!["it is being deleted".to_owned()])
        }
    }
}

fn zone_written(meta: &Meta) -> StepResult {
    if meta.has_finalizer {
        return StepResult::Done(vec![
            "its finalizer; a zone has no lines of its own".to_owned(),
        ]);
    }
    StepResult::Stopped(vec![format!("its finalizer {FINALIZER} is not set yet")])
}

/// The servers of the zones.
fn servers(inventory: &Inventory, zones: &[Id]) -> StepResult {
    let mut lines = Vec::new();
    let mut is_whole = true;
    for zone in zones.iter().filter_map(|id| inventory.listed(id)) {
        let listed = zone.servers();
        is_whole &= listed.iter().all(|server| server.ready) && zone.row.health == Health::Ready;
        lines.extend(listed.iter().map(show_server));
        if zone.row.health != Health::Ready {
            lines.extend(told(zone));
        }
    }
    if is_whole {
        StepResult::Done(lines)
    } else {
        StepResult::Partly(lines)
    }
}

fn show_server(server: &ListedServer) -> String {
    let serial = server.serial.map_or_else(
        || "no serial".to_owned(),
        |serial| format!("serial {serial}"),
    );
    let ready = if server.ready { "ready" } else { "not ready" };
    format!("{} {} {serial} {ready}", server.address, server.role)
}

fn served(listed: &ListedObject) -> StepResult {
    if listed.row.health != Health::Ready {
        return StepResult::Stopped(told(listed).collect());
    }
    let conditions = listed.status.get("conditions").and_then(Value::as_array);
    let text = |part, field| ListedObject::text(part, field).unwrap_or_default();
    let mut lines: Vec<String> = conditions
        .into_iter()
        .flatten()
        .filter(|one| ["Ready", "Accepted", "Programmed"].contains(&text(one, "type")))
        .map(|one| {
            let (kind, status) = (text(one, "type"), text(one, "status"));
            let (reason, message) = (text(one, "reason"), text(one, "message"));
            format!("{kind}={status} {reason}: {message}")
        })
        .collect();
    let facts = [("hash", "recordHash"), ("last updated", "lastUpdated")];
    for (word, field) in facts {
        let fact = ListedObject::text(&listed.status, field);
        lines.extend(fact.map(|fact| format!("{word} {fact}")));
    }
    StepResult::Done(lines)
}

/// What its status says of why it is not ready.
fn told(listed: &ListedObject) -> impl Iterator<Item = String> {
    let row = &listed.row;
    let line = format!("{}: {}", row.word, row.detail);
    let line = line.trim_end_matches([' ', ':']).to_owned();
    std::iter::once(line)
}

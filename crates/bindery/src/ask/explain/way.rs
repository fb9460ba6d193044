//! The steps of the way, each told from the listed objects alone.

use std::collections::BTreeSet;

use bindery_api::{Role, role};
use bindery_core::selector::{Labels, Selector, Test};
use bindery_core::{Claim, Name, Problem, Reason, Record, RecordData};
use bindery_sources::meta::{FINALIZER, PUBLISHED};
use bindery_sources::{Decision, Id, Life, Meta, NextAct, Precedence, Spec};
use serde_json::Value;

use super::{Said, Way};
use crate::ask::book::Book;
use crate::ask::thing::{Server, Thing};
use crate::live::Mood;

const OBJECT: &str = "object";
const CLAIM: &str = "claim";
const ZONE: &str = "zone";
const WRITTEN: &str = "written down";
const SERVERS: &str = "servers";
const SERVED: &str = "served";

/// The way of an object.
pub(super) fn way(mut book: Book, id: &Id) -> Way {
    let mut way = Way::new(id.to_string());
    let (Some(thing), Some(meta)) = (book.thing(id).cloned(), book.meta(id).cloned()) else {
        return way;
    };
    way.step(OBJECT, object(&meta, &thing));
    let zones = if let Some(view) = book.zone(id) {
        way.step(CLAIM, zone_claim(&view.precedence, view.name));
        way.step(ZONE, zone_standing(&view.precedence, &thing));
        way.step(WRITTEN, zone_written(&meta));
        vec![Id::clone(id)]
    } else {
        let (decision, claims) = decide(&mut book, id);
        way.step(CLAIM, claim(&thing, &decision, &claims));
        way.step(ZONE, zone(&book, &thing, &decision));
        way.step(WRITTEN, written(&meta, &claims, &thing));
        decision.zones
    };
    way.step(SERVERS, servers(&book, &zones));
    way.step(SERVED, served(&thing));
    way
}

fn object(meta: &Meta, thing: &Thing) -> Said {
    let finalizer = if meta.has_finalizer {
        FINALIZER
    } else {
        "not set yet"
    };
    let line = format!("generation {}, finalizer {finalizer}", meta.generation);
    match meta.life {
        Life::Alive => Said::Done(vec![line]),
        Life::Deleting => {
            let gone = "it is being deleted, and goes when its records are gone from DNS";
            let lines = [line, gone.to_owned()].into_iter();
            Said::Stopped(lines.chain(told(thing)).collect())
        }
    }
}

/// What is decided for an object, and what it would claim once nothing stands in its way.
fn decide(book: &mut Book, id: &Id) -> (Decision, Vec<Claim>) {
    let everything_is_free = |_: &_, _: &_| true;
    let nothing = || Decision {
        zones: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
        desired_count: 0,
        next: NextAct::AwaitAuthor,
        cleanup: None,
    };
    let decision = book.decide(id, &everything_is_free).unwrap_or_else(nothing);
    let next = match &decision.next {
        NextAct::WriteMetadata(patch) => {
            book.pretend(id, patch);
            let after = book.decide(id, &everything_is_free);
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

fn claim(thing: &Thing, decision: &Decision, claims: &[Claim]) -> Said {
    let (mistakes, _) = sorted(&decision.problems);
    let mut lines: Vec<String> = claims
        .iter()
        .flat_map(Claim::records)
        .map(|record| record.to_string())
        .collect();
    if lines.is_empty() && mistakes.is_empty() {
        // Without a zone the name is not complete, and is shown as its author wrote it.
        lines = wishes(thing);
    }
    let (is_empty, is_whole) = (lines.is_empty(), mistakes.is_empty());
    lines.extend(mistakes);
    match (is_empty, is_whole) {
        (true, _) => Said::Stopped(lines),
        (false, false) => Said::Partly(lines),
        (false, true) => Said::Done(lines),
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

fn wishes(thing: &Thing) -> Vec<String> {
    let line = |name: &str, ttl: Option<u32>, data: &RecordData| {
        let ttl = ttl.map_or_else(|| "(the zone's TTL)".to_owned(), |ttl| ttl.to_string());
        format!("{name} {ttl} IN {} {data}", data.rtype())
    };
    match thing.read().map(|object| object.spec) {
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

fn zone(book: &Book, thing: &Thing, decision: &Decision) -> Said {
    let (_, mut lines) = sorted(&decision.problems);
    let is_whole = lines.is_empty();
    let labels = thing.metadata.labels.clone().unwrap_or_default();
    if decision.zones.is_empty() {
        if role(thing.kind) == Role::Record {
            lines.push(format!("its labels: {}", show_labels(&labels)));
            let here = book
                .zones()
                .filter(|(_, zone)| zone.namespace() == thing.namespace());
            lines.extend(here.map(|(id, zone)| format!("{id} selects {}", selects(zone))));
        }
        return Said::Stopped(lines);
    }
    for id in &decision.zones {
        let zone = book.zone(id).and_then(|view| view.key());
        let zone = zone.map_or_else(String::new, |zone| zone.to_string());
        lines.push(format!("{zone} of {id}"));
        if let Some(zone) = book.thing(id) {
            lines.push(why(thing, zone, &labels));
        }
    }
    if is_whole {
        Said::Done(lines)
    } else {
        Said::Partly(lines)
    }
}

/// Why an object is in a zone.
fn why(thing: &Thing, zone: &Thing, labels: &Labels) -> String {
    if role(thing.kind) == Role::Endpoints {
        return "by name: the longest one that the endpoint's ends in".to_owned();
    }
    if let Some(name) = Thing::text(&thing.spec, "zoneRef") {
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

fn selectors(zone: &Thing) -> Box<[Selector]> {
    match zone.read().map(|object| object.spec) {
        Some(Spec::Zone(Ok(wish))) => wish.selectors,
        Some(Spec::Zone(Err(_)) | Spec::Record(_) | Spec::Endpoints(_)) | None => Box::default(),
    }
}

fn selects(zone: &Thing) -> String {
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

fn written(meta: &Meta, claims: &[Claim], thing: &Thing) -> Said {
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
        return Said::Done(vec![line]);
    }
    let line = format!("the annotation {PUBLISHED} does not have:");
    let missing = missing.iter().map(ToString::to_string);
    let lines = [line].into_iter().chain(missing);
    Said::Stopped(lines.chain(told(thing)).collect())
}

fn zone_claim(standing: &Precedence, name: Option<&Name>) -> Said {
    match (standing, name) {
        (Precedence::Invalid(problems), _) => {
            Said::Stopped(problems.iter().map(Problem::to_string).collect())
        }
        (_, Some(name)) => Said::Done(vec![format!("the zone {name}")]),
        (_, None) => Said::Stopped(vec!["it has no valid name".to_owned()]),
    }
}

fn zone_standing(standing: &Precedence, zone: &Thing) -> Said {
    match standing {
        Precedence::Active => Said::Done(vec![format!(
            "it is the one of its name; it selects {}",
            selects(zone)
        )]),
        Precedence::Duplicate(winner) => Said::Stopped(vec![format!(
            "the older {winner} declares the same name: delete one of the two, or change its name"
        )]),
        Precedence::Invalid(_) => Said::Stopped(Vec::new()),
        Precedence::Deleting | Precedence::Superseded(_) => {
            Said::Stopped(vec!["it is being deleted".to_owned()])
        }
    }
}

fn zone_written(meta: &Meta) -> Said {
    if meta.has_finalizer {
        return Said::Done(vec![
            "its finalizer; a zone has no lines of its own".to_owned(),
        ]);
    }
    Said::Stopped(vec![format!("its finalizer {FINALIZER} is not set yet")])
}

/// The servers of the zones; the first of each has to serve.
fn servers(book: &Book, zones: &[Id]) -> Said {
    let mut lines = Vec::new();
    let (mut serves, mut is_whole) = (true, true);
    for zone in zones.iter().filter_map(|id| book.thing(id)) {
        let listed = zone.servers();
        serves &= listed.first().is_some_and(|lead| lead.ready);
        is_whole &= listed.iter().all(|server| server.ready) && zone.row.mood == Mood::Good;
        lines.extend(listed.iter().map(show_server));
        if listed.is_empty() {
            lines.push("the zone's status names no server yet".to_owned());
        }
        if zone.row.mood != Mood::Good {
            lines.extend(told(zone));
        }
    }
    match (serves, is_whole) {
        (true, true) => Said::Done(lines),
        (true, false) => Said::Partly(lines),
        (false, _) => Said::Stopped(lines),
    }
}

fn show_server(server: &Server) -> String {
    let serial = server.serial.map_or_else(
        || "no serial".to_owned(),
        |serial| format!("serial {serial}"),
    );
    let ready = if server.ready { "ready" } else { "not ready" };
    format!("{} {} {serial} {ready}", server.address, server.role)
}

fn served(thing: &Thing) -> Said {
    if thing.row.mood != Mood::Good {
        return Said::Stopped(told(thing).collect());
    }
    let conditions = thing.status.get("conditions").and_then(Value::as_array);
    let text = |part, field| Thing::text(part, field).unwrap_or_default();
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
        let fact = Thing::text(&thing.status, field);
        lines.extend(fact.map(|fact| format!("{word} {fact}")));
    }
    Said::Done(lines)
}

/// What its status says of why it is not ready.
fn told(thing: &Thing) -> impl Iterator<Item = String> {
    let row = &thing.row;
    let line = format!("{}: {}", row.word, row.detail);
    let line = line.trim_end_matches([' ', ':']).to_owned();
    std::iter::once(line)
}

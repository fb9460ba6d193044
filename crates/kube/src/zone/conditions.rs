//! What a zone's status says.

use bindery_api::info;
use bindery_core::zones::{HeldPlan, HeldScope, SerialFloor, ZoneState};
use bindery_core::{
    Condition, ConditionStatus, ConditionType, Fault, FaultKind, Moment, ObjectRef, Problem,
    Reason, ZoneKey,
};
use bindery_sources::meta::{ABANDON, ALLOW_PLAN};
use bindery_sources::{Cause, Life, Precedence};
use serde_json::{Value, json};

use super::observe::Observed;
use super::signing;
use crate::cluster::definition;
use crate::context::{GroupConfig, Management};
use crate::state::State;
use crate::status::{self, ObservedStatus};

/// How many objects a zone's status lists. At about 120 bytes each that is 60 KiB, far below what an
/// object may have; the count beside the list is exact.
const LISTED_MAX: usize = 500;

/// How many objects that are not published a message names.
const NAMED_MAX: usize = 5;

/// The objects in a zone, as far as its status tells of them.
pub(super) struct MemberList {
    ready: usize,
    waiting: usize,
    listed: Vec<Value>,
    named: Vec<String>,
}

impl MemberList {
    pub(super) fn new(state: &State, zone: &ObjectRef) -> Self {
        let Some(members) = state.members.get(zone) else {
            return Self {
                ready: 0,
                waiting: 0,
                listed: Vec::new(),
                named: Vec::new(),
            };
        };
        let listed = members.ready.iter().take(LISTED_MAX).map(|id| {
            let mut entry = json!({
                "apiVersion": id.kind.api_version(),
                "kind": id.kind.as_str(),
                "name": &*id.name,
                "namespace": &*id.namespace,
            });
            if let Some(name) = state.catalog.record_name(id) {
                entry["recordName"] = name.into();
            }
            entry
        });
        let named = members.waiting.iter().take(NAMED_MAX);
        Self {
            ready: members.ready.len(),
            waiting: members.waiting.len(),
            listed: listed.collect(),
            named: named.map(ToString::to_string).collect(),
        }
    }
}

/// Ready, Progressing and Degraded; `None` while there is nothing to tell yet.
pub(super) fn conditions(observed: &Observed, members: &MemberList) -> Option<Vec<Condition>> {
    Some(all_conditions(ready(observed)?, observed, members))
}

/// The same while its servers have not answered yet.
pub(super) fn first_conditions(observed: &Observed, members: &MemberList) -> Vec<Condition> {
    let message = "its servers have not confirmed it yet".to_owned();
    let ready = (ConditionStatus::False, Reason::Progressing, message);
    all_conditions(ready, observed, members)
}

fn all_conditions(ready: Statement, observed: &Observed, members: &MemberList) -> Vec<Condition> {
    let degraded = with_ignored_fields(degraded(&ready, members, observed), observed);
    let progressing = progressing(&ready, observed);
    let condition = |kind, (status, reason, message)| Condition {
        kind,
        status,
        reason,
        message,
        observed_generation: observed.meta.generation,
    };
    let mut conditions = vec![
        condition(ConditionType::Ready, ready),
        condition(ConditionType::Progressing, progressing),
        condition(ConditionType::Degraded, degraded),
    ];
    let guarded = guarded(observed).or_else(|| undeclared(observed));
    let signed = signing::signed(observed);
    conditions.extend(signed.map(|said| condition(ConditionType::Signed, said)));
    conditions.extend(guarded.map(|said| condition(ConditionType::Guarded, said)));
    conditions
}

/// What is held in any zone that the object has, and how to let it through.
fn guarded(observed: &Observed) -> Option<Statement> {
    let wanted = observed.wanted.as_ref().zip(observed.owned());
    let zones = wanted.into_iter().chain(observed.former());
    let messages = zones.filter_map(|(zone, owned)| {
        let plan = owned.event.as_ref()?.held.as_ref()?;
        Some(held(zone, plan, observed))
    });
    let messages: Vec<String> = messages.collect();
    let message = messages.join("; ");
    (!messages.is_empty()).then_some((ConditionStatus::True, Reason::Held, message))
}

/// A zone that no file declares any longer is kept, and its author is told how to let it go.
fn undeclared(observed: &Observed) -> Option<Statement> {
    let file = observed.meta.undeclared()?;
    let event = observed.owned()?.event.as_ref()?;
    let object = &observed.meta.object;
    let message = format!(
        "{file} no longer declares this zone; it has {} record sets, so it is kept and served: put \
         it back, or run: kubectl delete dnszone {} -n {}",
        event.data, object.name, object.namespace
    );
    Some((ConditionStatus::True, Reason::NoLongerDeclared, message))
}

/// What is held in a zone and how to let it through.
fn held(zone: &ZoneKey, plan: &HeldPlan, observed: &Observed) -> String {
    let sets: Vec<String> = plan.shown.iter().map(ToString::to_string).collect();
    let more = match plan.removals - sets.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let sets = format!("{}{more}", sets.join(", "));
    let what = match plan.scope {
        HeldScope::Sets => format!(
            "removing {} of {} record sets is held{}: {sets}",
            plan.removals,
            plan.total,
            along(plan)
        ),
        HeldScope::Zone => format!(
            "{}, so {zone} is kept and served with its {} record sets, {} of which Bindery did not \
             write: {sets}",
            why(zone, plan, observed),
            plan.removals,
            plan.foreign
        ),
    };
    let object = &observed.meta.object;
    format!(
        "{what}; if that is meant, kubectl annotate -n {} dnszone {} {ALLOW_PLAN}={} --overwrite",
        object.namespace, object.name, plan.digest
    )
}

/// Of what is held, how much goes along with something else.
fn along(plan: &HeldPlan) -> String {
    if plan.along == 0 {
        return String::new();
    }
    format!(
        ", {} of which go with a namespace, or the definition of a kind, that is being deleted",
        plan.along
    )
}

/// Why a zone that is to go is held.
fn why(zone: &ZoneKey, plan: &HeldPlan, observed: &Observed) -> String {
    let object = &observed.meta.object;
    match (observed.meta.life, observed.cause) {
        (Life::Alive, _) => match &observed.wanted {
            Some(wanted) if wanted.name == zone.name => {
                format!(
                    "it moved to {}, and others wrote into {}",
                    wanted.group, zone.group
                )
            }
            Some(wanted) => format!("it declares {wanted} now"),
            None => "it does not have the zone any longer".to_owned(),
        },
        (Life::Deleting, Some(Cause::WithNamespace)) => {
            format!("namespace {} is being deleted", object.namespace)
        }
        (Life::Deleting, Some(Cause::WithDefinition)) => format!(
            "CustomResourceDefinition {} is being deleted",
            definition(info(object.kind))
        ),
        (Life::Deleting, Some(Cause::Unknown) | None) => format!(
            "whether it was deleted by name is not known, for want of permission to get namespace {} \
             and customresourcedefinition {}",
            object.namespace,
            definition(info(object.kind))
        ),
        (Life::Deleting, Some(Cause::ByName)) if plan.foreign > 0 => {
            "it was deleted, and others wrote into the zone".to_owned()
        }
        (Life::Deleting, Some(Cause::ByName)) => {
            "it was deleted with many other zones that have records".to_owned()
        }
    }
}

pub(super) type Statement = (ConditionStatus, Reason, String);

fn progressing((ready, ..): &Statement, observed: &Observed) -> Statement {
    let waits_for_author = matches!(
        observed.precedence,
        Precedence::Duplicate(_) | Precedence::Invalid(_)
    );
    let (status, reason, message) = match (ready, waits_for_author) {
        (ConditionStatus::True, _) => (
            ConditionStatus::False,
            Reason::ReconcileComplete,
            "nothing is left to do",
        ),
        (_, true) => (
            ConditionStatus::False,
            Reason::ReconcileComplete,
            "its author has to act first",
        ),
        (_, false) => (
            ConditionStatus::True,
            Reason::Progressing,
            "it is tried again",
        ),
    };
    (status, reason, message.to_owned())
}

/// Why a zone that the object is to have no longer is still there, if that is known.
fn left_behind(observed: &Observed) -> Option<(Reason, String)> {
    observed.former().find_map(|(zone, owned)| {
        if owned.is_done() {
            return None;
        }
        if owned.config.is_none() {
            let message = format!(
                "{zone} may still be served, by servers that Bindery was not started with: start it with \
                 them; where they are gone for good, the annotation {ABANDON}=true lets a deleted \
                 object go"
            );
            return Some((Reason::ClusterNotFound, message));
        }
        let event = owned.event.as_ref()?;
        if let Some(plan) = &event.held {
            return Some((Reason::Held, held(zone, plan, observed)));
        }
        match &event.state {
            ZoneState::Degraded(fault) | ZoneState::Failed(fault) => {
                Some((reason(fault), format!("{zone} cannot be taken back yet: {fault}")))
            }
            ZoneState::Opening | ZoneState::Ready | ZoneState::Gone => None,
        }
    })
}

fn degraded(ready: &Statement, members: &MemberList, observed: &Observed) -> Statement {
    let (status, reason, message) = ready;
    if *reason == Reason::ServerBehind {
        return (ConditionStatus::True, *reason, message.clone());
    }
    if members.waiting > 0 {
        let total = members.ready + members.waiting;
        let more = match members.waiting - members.named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{} of {total} objects are not published, see their status: {}{more}",
            members.waiting,
            members.named.join(", ")
        );
        return (
            ConditionStatus::True,
            Reason::PartialReconciliation,
            message,
        );
    }
    if let Some((reason, message)) = left_behind(observed) {
        return (ConditionStatus::True, reason, message);
    }
    if *status == ConditionStatus::True {
        let message = "everything declared is served".to_owned();
        return (ConditionStatus::False, Reason::ReconcileSucceeded, message);
    }
    (ConditionStatus::True, *reason, message.clone())
}

/// What is said of a zone, with the fields that are not acted on.
fn with_ignored_fields((status, reason, message): Statement, observed: &Observed) -> Statement {
    let config = observed.owned().and_then(|owned| owned.config.as_ref());
    let is_theirs = config.is_some_and(|config| config.management == Management::External);
    let mut notes = Vec::new();
    let trouble = signing::trouble(observed);
    notes.extend(trouble.as_ref().map(|(_, message)| message.clone()));
    if is_theirs && !observed.hosted_only.is_empty() {
        let fields = observed.hosted_only.join(", ");
        notes.push(format!(
            "{fields}: not acted on, since SOA and name servers are up to the server, which Bindery does not \
             manage"
        ));
    }
    if notes.is_empty() {
        return (status, reason, message);
    }
    let message = format!("{message}; {}", notes.join("; "));
    match (status, trouble) {
        // Other fields are only not needed here.
        (ConditionStatus::False, None) => (status, Reason::Unsupported, message),
        (ConditionStatus::False, Some((reason, _))) => (ConditionStatus::True, reason, message),
        (ConditionStatus::True | ConditionStatus::Unknown, _) => (status, reason, message),
    }
}

/// The whole status.
pub(super) fn status(
    observed: &Observed,
    (conditions, members): (&[Condition], &MemberList),
    (seen, now): (&ObservedStatus, Moment),
) -> Value {
    let owned = observed.owned();
    let event = owned.and_then(|owned| owned.event.as_ref());
    let serial = event.and_then(|event| event.serial).map(|serial| serial.0);
    let is_served = event.is_some_and(|event| match &event.state {
        ZoneState::Ready => true,
        ZoneState::Degraded(fault) => fault.kind == FaultKind::Behind,
        ZoneState::Opening | ZoneState::Failed(_) | ZoneState::Gone => false,
    });
    let declared = owned.filter(|owned| owned.declared.is_some());
    let servers = declared
        .and_then(|owned| owned.config.as_ref())
        .map(|config| {
            let leader = event.and_then(|event| event.leader.as_ref());
            let leader = leader.map(|leader| &leader.address);
            let leader = leader.or(config.primary.as_ref());
            let leader = leader.map(|leader| server(leader, "primary", is_served, serial));
            let followers = event.map_or(&[][..], |event| &event.followers);
            let others = followers.iter().map(|one| {
                let serial = one.serial.map(|serial| serial.0);
                let role = one.info.role.as_str();
                server(&one.info.address, role, one.current, serial)
            });
            Value::Array(leader.into_iter().chain(others).collect())
        });
    // Before a zone was read, and without servers, what was told before is all that the next process has.
    let (told, fallen_from) = match observed.serial_floor {
        SerialFloor::New | SerialFloor::Untold => (None, None),
        SerialFloor::Told(told) => (Some(told.0), None),
        SerialFloor::Fallen(told) => (None, Some(told)),
    };
    let fallen_from = event.map_or(fallen_from, |event| event.fallen_from);
    let listed_servers = servers.as_ref().and_then(Value::as_array);
    let is_told = listed_servers
        .is_some_and(|servers| servers.iter().any(|server| !server["serial"].is_null()));
    let listed = &members.listed;
    json!({
        "conditions": status::conditions(conditions, seen, now),
        "observedGeneration": observed.meta.generation,
        "recordsCount": members.ready,
        "foreignCount": event.map(|event| event.foreign),
        "records": if listed.is_empty() { Value::Null } else { Value::Array(listed.clone()) },
        "servers": servers,
        "dnssec": signing::status(observed),
        "newestSerial": fallen_from.map(|serial| serial.0),
        "lastSerial": serial.or(told).filter(|_| !is_told),
        "published": observed.meta.sealed(),
    })
}

fn server(address: &str, role: &str, ready: bool, serial: Option<u32>) -> Value {
    let mut server = json!({ "address": address, "role": role, "ready": ready });
    if let Some(serial) = serial {
        server["serial"] = serial.into();
    }
    server
}

fn ready(observed: &Observed) -> Option<Statement> {
    let no = |reason, message: String| Some((ConditionStatus::False, reason, message));
    match &observed.precedence {
        Precedence::Duplicate(winner) => {
            let message = format!(
                "the older {winner} declares the same zone on the same servers: delete one of the \
                 two, or change its name"
            );
            return no(Reason::DuplicateZone, message);
        }
        Precedence::Invalid(problems) => {
            let reason = problems.iter().map(|problem| problem.reason);
            let elsewhere = reason.eq([Reason::ClusterNotFound]);
            let reason = if elsewhere {
                Reason::ClusterNotFound
            } else {
                Reason::Invalid
            };
            return no(reason, Problem::summary(problems));
        }
        Precedence::Deleting | Precedence::Superseded(_) => {
            let (reason, message) = left_behind(observed)?;
            let is_held = reason == Reason::Held;
            let reason = if is_held { reason } else { Reason::Deleting };
            return no(reason, message);
        }
        Precedence::Active => {}
    }
    let owned = observed.owned()?;
    let event = owned.event.as_ref()?;
    match &event.state {
        ZoneState::Opening | ZoneState::Gone => None,
        ZoneState::Ready => {
            let mended = event.mended.map_or_else(String::new, |serial| {
                format!("; its first server lost data at serial {serial}, which was put back")
            });
            let message = format!("{} is served{mended}", event.zone);
            Some((ConditionStatus::True, Reason::ReconcileSucceeded, message))
        }
        ZoneState::Degraded(fault) | ZoneState::Failed(fault) => {
            no(reason(fault), advice(fault, owned.config.as_ref()))
        }
    }
}

pub(super) fn reason(fault: &Fault) -> Reason {
    match fault.kind {
        FaultKind::Missing => Reason::ZoneNotFound,
        FaultKind::Unreachable | FaultKind::Lost => Reason::ServerUnreachable,
        FaultKind::Refused | FaultKind::ServerFailed | FaultKind::Denied | FaultKind::Throttled => {
            Reason::ServerRefused
        }
        FaultKind::Behind => Reason::ServerBehind,
        FaultKind::Held => Reason::Held,
        FaultKind::Conflict | FaultKind::Invalid | FaultKind::TooLarge | FaultKind::Malformed => {
            Reason::ReconcileFailed
        }
    }
}

fn advice(fault: &Fault, config: Option<&GroupConfig>) -> String {
    match config {
        Some(GroupConfig {
            management: Management::External,
            primary: Some(primary),
            adoption: bindery_core::Adoption::Refuse,
        }) if fault.kind == FaultKind::Missing => format!(
            "the server {primary} does not have the zone: create it there, open to updates and transfers \
             with Bindery's key; it becomes ready by itself ({fault})"
        ),
        Some(_) | None => fault.message.clone(),
    }
}

//! What a record's status says, from what became of its claim.

use bindery_api::time_text;
use bindery_core::zones::{ClaimReceipt, ClaimStatus, Withdrawal};
use bindery_core::{
    Condition, ConditionStatus, ConditionType, FaultKind, Moment, ObjectRef, Problem, Reason,
    RecordData, RecordSet,
};
use bindery_sources::{Life, meta::ADOPT};
use serde_json::{Value, json};

use super::report::Report;
use crate::status::{ObservedStatus, conditions, short};

/// Whether the record is served as declared, and why not.
pub(super) fn ready(report: &Report) -> Condition {
    let (status, reason, message) = verdict(report);
    Condition {
        kind: ConditionType::Ready,
        status,
        reason,
        message,
        observed_generation: report.generation,
    }
}

/// The whole status.
pub(super) fn status(
    object: &ObjectRef,
    report: &Report,
    ready: &Condition,
    (seen, now): (&ObservedStatus, Moment),
) -> Value {
    let served = outcome(report).filter(|_| ready.status == ConditionStatus::True);
    let hash = served.map(|outcome| {
        let claim = &outcome.claim;
        RecordSet::new(claim.ttl, claim.data.iter().cloned()).hash(&claim.key)
    });
    let updated = match (&hash, seen.hash, seen.updated) {
        (Some(hash), Some(before), Some(since)) if short(hash) == before => Some(since),
        (Some(_), ..) => Some(now),
        (None, ..) => None,
    };
    let zone = report.zones.first().map(|(id, name)| {
        let name = name.to_string();
        (id, name.trim_end_matches('.').to_owned())
    });
    json!({
        "conditions": conditions(std::slice::from_ref(ready), seen, now),
        "observedGeneration": report.generation,
        "zone": zone.as_ref().map(|(_, name)| name),
        "zoneRef": zone.as_ref().map(|(id, name)| json!({
            "apiVersion": id.kind.api_version(),
            "kind": id.kind.as_str(),
            "name": &*id.name,
            "namespace": &*id.namespace,
            "zoneName": name,
        })),
        "recordHash": hash,
        "lastUpdated": updated.map(time_text),
        "addresses": served.and_then(|outcome| addresses(&outcome.claim.data)),
        "published": report.published(object),
        "publishedName": served.map(|outcome| outcome.claim.key.name.to_string()),
    })
}

fn outcome(report: &Report) -> Option<&ClaimReceipt> {
    report.receipt.as_ref()?.outcomes.first()
}

fn verdict(report: &Report) -> (ConditionStatus, Reason, String) {
    let no = |reason, message| (ConditionStatus::False, reason, message);
    let withdrawal = report.receipt.as_ref().map(|receipt| &receipt.withdrawal);
    if report.life == Life::Deleting {
        let message = match withdrawal {
            Some(Withdrawal::Failing(fault)) if fault.kind == FaultKind::Held => {
                return no(Reason::Held, fault.message.clone());
            }
            Some(Withdrawal::Failing(fault) | Withdrawal::Lingering(fault)) => {
                format!("its records cannot be removed from DNS yet: {fault}")
            }
            Some(Withdrawal::Done | Withdrawal::Pending) | None => {
                "its records are being removed from DNS".to_owned()
            }
        };
        return no(Reason::Deleting, message);
    }
    if let Some((reason, message)) = problem(&report.problems) {
        return no(reason, message);
    }
    let Some(outcome) = outcome(report) else {
        let message = "no server of its zone has confirmed it yet".to_owned();
        return no(Reason::Progressing, message);
    };
    match (refusal(outcome), withdrawal) {
        (Ok(()), Some(Withdrawal::Failing(fault))) => {
            let message = format!("published, but what it had before is still in DNS: {fault}");
            let is_held = fault.kind == FaultKind::Held;
            let reason = if is_held {
                Reason::Held
            } else {
                Reason::ReconcileFailed
            };
            no(reason, message)
        }
        (Ok(()), _) => {
            let ClaimReceipt { claim, ttl, .. } = outcome;
            let mut message = if claim.ttl == *ttl {
                format!("{} is served", claim.key)
            } else {
                format!(
                    "{} is served with TTL {ttl}, the lowest that is asked for; this object asks for {}",
                    claim.key, claim.ttl
                )
            };
            if claim.key.name.repeats(&claim.zone) {
                message += "; it has the zone's name twice: if that is not meant, write spec.name \
                            without the zone, or end it with a dot";
            }
            (ConditionStatus::True, Reason::ReconcileSucceeded, message)
        }
        (Err((reason, message)), _) => no(reason, message),
    }
}

/// The reason and message of problems: mistakes in the object before what lies outside it.
fn problem(problems: &[Problem]) -> Option<(Reason, String)> {
    let invalid = problems
        .iter()
        .any(|problem| problem.reason == Reason::Invalid);
    if invalid {
        return Some((Reason::Invalid, Problem::summary(problems)));
    }
    let first = problems.first()?;
    let messages: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    Some((first.reason, messages.join("; ")))
}

/// What became of one claim, in words: nothing to say, or why it is not served.
pub(crate) fn refusal(outcome: &ClaimReceipt) -> Result<(), (Reason, String)> {
    let claim = &outcome.claim;
    let (key, zone) = (&claim.key, &claim.zone);
    match &outcome.status {
        ClaimStatus::Programmed(_) => Ok(()),
        ClaimStatus::Queued | ClaimStatus::Admissible => {
            Err((Reason::Progressing, format!("{key} is on its way")))
        }
        ClaimStatus::NoZone => Err((
            Reason::ZoneNotReady,
            format!("zone {zone} is not served yet, or no longer"),
        )),
        ClaimStatus::ZoneNotReady(fault) => {
            let reason = if fault.kind == FaultKind::Missing {
                Reason::ZoneNotFound
            } else {
                Reason::ZoneNotReady
            };
            Err((reason, format!("zone {zone} cannot be written to: {fault}")))
        }
        ClaimStatus::Conflict { winner, held } => Err((
            Reason::Conflict,
            format!(
                "{} has a {held} record of {winner}, which came first; a CNAME cannot stand beside \
                 other data: change one of the two",
                key.name
            ),
        )),
        ClaimStatus::NotOwned => Err((
            Reason::NotOwned,
            format!(
                "{key} is in DNS already and Bindery did not write it: remove it there, or set the \
                 annotation {ADOPT}: \"true\" on this object to let Bindery take it over"
            ),
        )),
        ClaimStatus::Rejected(fault) => Err((
            Reason::ReconcileFailed,
            format!("the server refused {key}: {fault}"),
        )),
        ClaimStatus::Occluded(cut) => Err((
            Reason::Delegated,
            format!("{key} is in zone {zone}, but nobody gets it from there: {cut}"),
        )),
        ClaimStatus::Lagging(fault) => Err((
            Reason::ServerBehind,
            format!("{key} is not served by every server of {zone} yet: {fault}"),
        )),
        ClaimStatus::Failing(fault) => Err((
            Reason::ReconcileFailed,
            format!("{key} could not be written and is tried again: {fault}"),
        )),
    }
}

/// The addresses that are served, where the record has some.
fn addresses(data: &[RecordData]) -> Option<String> {
    let is_address = |data: &RecordData| matches!(data, RecordData::A(_) | RecordData::Aaaa(_));
    let addresses: Vec<String> = data.iter().map(ToString::to_string).collect();
    data.iter().all(is_address).then(|| addresses.join(","))
}

//! What the status of a `DNSEndpoint` says, endpoint by endpoint.

use bindery_core::zones::{ClaimReceipt, Receipt, Withdrawal};
use bindery_core::{
    Condition, ConditionStatus, ConditionType, Fault, FaultKind, Moment, ObjectRef, Problem, Reason,
};
use bindery_sources::{KEPT, Life};
use serde_json::{Value, json};

use super::record::refusal;
use super::report::Report;
use crate::status::{self, ObservedStatus};

/// Accepted and Programmed.
pub(super) fn conditions(report: &Report) -> [Condition; 2] {
    let condition = |kind, (status, reason, message)| Condition {
        kind,
        status,
        reason,
        message,
        observed_generation: report.generation,
    };
    [
        condition(ConditionType::Accepted, accepted(report)),
        condition(ConditionType::Programmed, programmed(report)),
    ]
}

/// The one of the two that says how the object is: what is not accepted cannot be programmed.
pub(super) fn main(conditions: &[Condition; 2]) -> &Condition {
    let [accepted, programmed] = conditions;
    if accepted.status == ConditionStatus::True {
        programmed
    } else {
        accepted
    }
}

/// The whole status.
pub(super) fn status(
    object: &ObjectRef,
    report: &Report,
    conditions: &[Condition; 2],
    (seen, now): (&ObservedStatus, Moment),
) -> Value {
    json!({
        "conditions": status::conditions(conditions, seen, now),
        "observedGeneration": report.generation,
        "endpoints": report.desired_count,
        "published": report.published(object),
    })
}

type Statement = (ConditionStatus, Reason, String);

fn accepted(report: &Report) -> Statement {
    let total = report.desired_count;
    let Some(first) = report.problems.first() else {
        let message = format!("all {total} endpoints are valid and have a zone");
        if report.notes.is_empty() {
            return (ConditionStatus::True, Reason::Accepted, message);
        }
        let message = format!("{message}; {}", Problem::summary(&report.notes));
        return (ConditionStatus::True, Reason::Unsupported, message);
    };
    let accepted = claims(report);
    let reason = if accepted > 0 {
        Reason::PartiallyAccepted
    } else if report
        .problems
        .iter()
        .any(|one| one.reason == Reason::Invalid)
    {
        Reason::Invalid
    } else {
        first.reason
    };
    let message = format!(
        "{accepted} of {total} endpoints accepted: {}",
        Problem::summary(&[&report.problems[..], &report.notes].concat())
    );
    (ConditionStatus::False, reason, message)
}

/// What is to be said while something of it still has to go.
fn leaving(life: Life, leftover: Option<&Fault>) -> Option<Statement> {
    let no = |reason, message| Some((ConditionStatus::False, reason, message));
    match (life, leftover) {
        (Life::Deleting, Some(fault)) if fault.kind == FaultKind::Held => {
            no(Reason::Held, fault.message.clone())
        }
        (Life::Deleting, Some(fault)) => {
            let message = format!("its records cannot be removed from DNS yet: {fault}");
            no(Reason::Deleting, message)
        }
        (Life::Deleting, None) => no(Reason::Deleting, "its records are being removed".to_owned()),
        (Life::Alive, Some(fault)) => {
            let message = format!("what it had before is still in DNS: {fault}");
            let is_held = fault.kind == FaultKind::Held;
            let reason = if is_held {
                Reason::Held
            } else {
                Reason::Failed
            };
            no(reason, message)
        }
        (Life::Alive, None) => None,
    }
}

fn programmed(report: &Report) -> Statement {
    let no = |reason, message| (ConditionStatus::False, reason, message);
    let withdrawal = report.receipt.as_ref().map(|receipt| &receipt.withdrawal);
    let leftover = match withdrawal {
        Some(Withdrawal::Failing(fault)) => Some(fault),
        // A server that is out of rotation is told of by the zone.
        Some(Withdrawal::Lingering(fault)) if report.life == Life::Deleting => Some(fault),
        Some(Withdrawal::Lingering(_) | Withdrawal::Done | Withdrawal::Pending) | None => None,
    };
    if let Some(said) = leaving(report.life, leftover) {
        return said;
    }
    let Some(receipt) = &report.receipt else {
        return no(
            Reason::Pending,
            "nothing is published while it is not valid".to_owned(),
        );
    };
    let faults: Vec<(Reason, Problem)> = endpoint_outcomes(receipt)
        .filter_map(|outcome| {
            let (reason, message) = refusal(outcome).err()?;
            let field = outcome.claim.field.to_string();
            Some((
                reason,
                Problem {
                    field,
                    reason,
                    message,
                },
            ))
        })
        .collect();
    let total = report.desired_count;
    let served = endpoint_outcomes(receipt).count() - faults.len();
    let problems: Vec<Problem> = faults.iter().map(|(_, problem)| problem.clone()).collect();
    match (served, faults.first()) {
        _ if served == total => {
            let message = format!("all {total} endpoints are served");
            (ConditionStatus::True, Reason::Programmed, message)
        }
        (0, Some((reason, _))) => no(*reason, Problem::summary(&problems)),
        (0, None) => no(Reason::Pending, "no endpoint was accepted".to_owned()),
        (_, Some(_)) => {
            let faults = Problem::summary(&problems);
            let message = format!("{served} of {total} endpoints are served: {faults}");
            no(Reason::PartiallyProgrammed, message)
        }
        (_, None) => {
            let message =
                format!("{served} of {total} endpoints are served; the others were not accepted");
            no(Reason::PartiallyProgrammed, message)
        }
    }
}

/// How many endpoints became claims.
fn claims(report: &Report) -> usize {
    report
        .receipt
        .as_ref()
        .map_or(0, |receipt| endpoint_outcomes(receipt).count())
}

/// What became of the endpoints, without what stays because its zone has to be corrected.
fn endpoint_outcomes(receipt: &Receipt) -> impl Iterator<Item = &ClaimReceipt> {
    let outcomes = receipt.outcomes.iter();
    outcomes.filter(|outcome| *outcome.claim.field != *KEPT)
}

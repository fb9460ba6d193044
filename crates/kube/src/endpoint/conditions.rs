//! What the status of a `DNSEndpoint` says, endpoint by endpoint.

use bindery_core::zones::{ClaimReceipt, Receipt, Withdrawal};
use bindery_core::{
    Condition, ConditionStatus, ConditionType, Fault, FaultKind, Moment, ObjectRef, Problem, Reason,
};
use bindery_sources::{KEPT, Life};
use serde_json::{Value, json};

use crate::publishing::News;
use crate::record::told;
use crate::state::Shown;
use crate::status::{self, Seen};

/// Accepted and Programmed.
pub(super) fn conditions(news: &News) -> [Condition; 2] {
    let condition = |kind, (status, reason, message)| Condition {
        kind,
        status,
        reason,
        message,
        observed_generation: news.generation,
    };
    [
        condition(ConditionType::Accepted, accepted(news)),
        condition(ConditionType::Programmed, programmed(news)),
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

/// What people see of it.
pub(super) fn shown(conditions: &[Condition; 2]) -> Shown {
    let main = main(conditions);
    Shown {
        good: main.status == ConditionStatus::True,
        reason: main.reason,
    }
}

/// The whole status.
pub(super) fn status(
    object: &ObjectRef,
    news: &News,
    conditions: &[Condition; 2],
    (seen, now): (&Seen, Moment),
) -> Value {
    json!({
        "conditions": status::conditions(conditions, seen, now),
        "observedGeneration": news.generation,
        "endpoints": news.wishes,
        "published": news.published(object),
    })
}

type Said = (ConditionStatus, Reason, String);

fn accepted(news: &News) -> Said {
    let total = news.wishes;
    let Some(first) = news.problems.first() else {
        let message = format!("all {total} endpoints are valid and have a zone");
        if news.notes.is_empty() {
            return (ConditionStatus::True, Reason::Accepted, message);
        }
        let message = format!("{message}; {}", Problem::summary(&news.notes));
        return (ConditionStatus::True, Reason::Unsupported, message);
    };
    let accepted = claims(news);
    let reason = if accepted > 0 {
        Reason::PartiallyAccepted
    } else if news
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
        Problem::summary(&[&news.problems[..], &news.notes].concat())
    );
    (ConditionStatus::False, reason, message)
}

/// What is to be said while something of it still has to go.
fn leaving(life: Life, leftover: Option<&Fault>) -> Option<Said> {
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

fn programmed(news: &News) -> Said {
    let no = |reason, message| (ConditionStatus::False, reason, message);
    let withdrawal = news.receipt.as_ref().map(|receipt| &receipt.withdrawal);
    let leftover = match withdrawal {
        Some(Withdrawal::Failing(fault)) => Some(fault),
        Some(Withdrawal::Done | Withdrawal::Pending) | None => None,
    };
    if let Some(said) = leaving(news.life, leftover) {
        return said;
    }
    let Some(receipt) = &news.receipt else {
        return no(
            Reason::Pending,
            "nothing is published while it is not valid".to_owned(),
        );
    };
    let faults: Vec<(Reason, Problem)> = wishes(receipt)
        .filter_map(|outcome| {
            let (reason, message) = told(outcome).err()?;
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
    let total = news.wishes;
    let served = wishes(receipt).count() - faults.len();
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
fn claims(news: &News) -> usize {
    news.receipt
        .as_ref()
        .map_or(0, |receipt| wishes(receipt).count())
}

/// What became of the endpoints, without what stays because its zone has to be corrected.
fn wishes(receipt: &Receipt) -> impl Iterator<Item = &ClaimReceipt> {
    let outcomes = receipt.outcomes.iter();
    outcomes.filter(|outcome| *outcome.claim.field != *KEPT)
}

//! What is said of a pool.

use bindery_api::{AddressPool, AddressPoolStatus, address_count};
use bindery_core::pools::PoolReport;
use bindery_core::{ConditionStatus, ConditionType, Moment, Problem, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The status of a pool; the same as before where nothing changed.
pub(super) fn status(
    pool: &AddressPool,
    problems: &[Problem],
    report: &PoolReport,
    now: Moment,
) -> AddressPoolStatus {
    let (status, reason, message) = verdict(problems, report);
    let before = pool.status.as_ref();
    let before = before.and_then(|status| status.conditions.iter().find(|one| is_ready(one)));
    let since = before.filter(|one| one.status == status.as_str());
    let since = since.map_or_else(
        || Time(Timestamp::from_second(now.0).unwrap_or(Timestamp::UNIX_EPOCH)),
        |one| one.last_transition_time.clone(),
    );
    let ready = Condition {
        type_: ConditionType::Ready.as_str().to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.as_str().to_owned(),
        message,
        observed_generation: pool.metadata.generation,
        last_transition_time: since,
    };
    let usage = report.usage;
    AddressPoolStatus {
        conditions: vec![ready],
        observed_generation: pool.metadata.generation,
        total: Some(address_count(usage.total)),
        used: Some(address_count(usage.used)),
        free: Some(address_count(usage.free())),
    }
}

fn is_ready(condition: &Condition) -> bool {
    condition.type_ == ConditionType::Ready.as_str()
}

fn verdict(problems: &[Problem], report: &PoolReport) -> (ConditionStatus, Reason, String) {
    if !problems.is_empty() {
        let message = Problem::summary(problems);
        return (ConditionStatus::False, Reason::Invalid, message);
    }
    let shared = report.overlap.as_ref().map(|overlap| {
        let (range, older) = (&overlap.range, &overlap.older);
        format!("the older pool {older} has {range}: take it out of one of the two")
    });
    let has_free = report.usage.free() > 0;
    let status = if has_free {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    match (shared, has_free) {
        (Some(message), _) => (status, Reason::PoolsOverlap, message),
        (None, true) => {
            let message = "Services get addresses of it".to_owned();
            (status, Reason::ReconcileSucceeded, message)
        }
        (None, false) => {
            let message = "every address is used: add some, or delete Services that have them";
            (status, Reason::AddressPoolUsedUp, message.to_owned())
        }
    }
}

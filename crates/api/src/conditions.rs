//! Conditions between the API's form and the core's.

use bindery_core::condition::{Conditions, Moment, Stored};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// The conditions of a status as the core handles them.
#[must_use]
pub fn read(conditions: &[Condition]) -> Conditions {
    let stored = conditions.iter().map(|condition| Stored {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        observed_generation: condition.observed_generation,
        last_transition: Moment(condition.last_transition_time.0.as_second()),
    });
    Conditions(stored.collect())
}

/// The conditions as a status holds them.
#[must_use]
pub fn written(conditions: &Conditions) -> Vec<Condition> {
    let written = conditions.0.iter().map(|stored| Condition {
        type_: stored.kind.clone(),
        status: stored.status.clone(),
        reason: stored.reason.clone(),
        message: stored.message.clone(),
        observed_generation: stored.observed_generation,
        last_transition_time: Time(timestamp(stored.last_transition)),
    });
    written.collect()
}

/// A moment as Kubernetes writes times: RFC 3339, whole seconds.
#[must_use]
pub fn time_text(moment: Moment) -> String {
    timestamp(moment).to_string()
}

/// A moment outside what a calendar can show becomes the beginning of 1970.
fn timestamp(moment: Moment) -> Timestamp {
    Timestamp::from_second(moment.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_survive_the_way_there_and_back() {
        let stored = Stored {
            kind: "Ready".into(),
            status: "True".into(),
            reason: "ReconcileSucceeded".into(),
            message: "A record added".into(),
            observed_generation: Some(3),
            last_transition: Moment(1_700_000_000),
        };
        let conditions = Conditions(vec![stored]);
        assert_eq!(read(&written(&conditions)), conditions);
        assert_eq!(time_text(Moment(1_700_000_000)), "2023-11-14T22:13:20Z");
    }
}

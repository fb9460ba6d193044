//! Conditions of clusters and instances: one that encompasses all children, and one for each child.

use bindery_core::{Moment, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// What is said in one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What it speaks of: `Ready`, `Bind9Instance-0`, `Pod-0`.
    pub kind: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why, as one word.
    pub reason: Reason,
    /// Why, as a sentence.
    pub message: String,
}

impl Said {
    pub(crate) fn new(
        kind: impl Into<String>,
        holds: bool,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            holds,
            reason,
            message: message.into(),
        }
    }
}

/// What is said of an object with children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// `Ready`, then further conditions of the object itself, then its children in the order of their numbers.
    pub conditions: Vec<Said>,
    /// How many children are ready.
    pub ready: usize,
    /// How many there are to be.
    pub total: usize,
}

/// The words of the seed for the condition that encompasses all children: `All 3 pods are ready`.
pub(crate) fn encompassing(ready: usize, total: usize, children: &str) -> Said {
    let (holds, reason, message) = match (ready, total) {
        (_, 0) => (
            false,
            Reason::NoChildren,
            format!("No {children} are declared"),
        ),
        (ready, total) if ready == total => (
            true,
            Reason::AllReady,
            format!("All {total} {children} are ready"),
        ),
        (0, _) => (false, Reason::NotReady, format!("No {children} are ready")),
        (ready, total) => (
            false,
            Reason::PartiallyReady,
            format!("{ready}/{total} {children} are ready"),
        ),
    };
    Said::new("Ready", holds, reason, message)
}

/// Conditions as they are to stand in a status: since when each has its status is kept.
#[must_use]
pub fn merge_conditions(
    before: &[Condition],
    said: &[Said],
    generation: i64,
    now: Moment,
) -> Vec<Condition> {
    let merged = said.iter().map(|one| {
        let status = if one.holds { "True" } else { "False" };
        let known = before.iter().find(|known| known.type_ == one.kind);
        let since = known.filter(|known| known.status == status);
        Condition {
            type_: one.kind.clone(),
            status: status.to_owned(),
            reason: one.reason.as_str().to_owned(),
            message: one.message.clone(),
            observed_generation: Some(generation),
            last_transition_time: since
                .map_or_else(|| time(now), |known| known.last_transition_time.clone()),
        }
    });
    merged.collect()
}

fn time(now: Moment) -> Time {
    Time(Timestamp::from_second(now.0).unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_alone() {
        let say = |ready, message: &str| Said::new("Ready", ready, Reason::Ready, message);
        let first = merge_conditions(&[], &[say(false, "a")], 1, Moment(10));
        let same = merge_conditions(&first, &[say(false, "b")], 2, Moment(20));
        assert_eq!(same[0].last_transition_time, first[0].last_transition_time);
        assert_eq!(same[0].message, "b");
        assert_eq!(same[0].observed_generation, Some(2));
        let other = merge_conditions(&same, &[say(true, "b")], 2, Moment(30));
        assert_ne!(other[0].last_transition_time, first[0].last_transition_time);
    }

    #[test]
    fn one_child_that_changes_leaves_the_times_of_its_siblings() {
        let say = |kind: &str, ready| Said::new(kind, ready, Reason::Ready, "");
        let first = merge_conditions(
            &[],
            &[say("Pod-0", true), say("Pod-1", true)],
            1,
            Moment(10),
        );
        let then = merge_conditions(
            &first,
            &[say("Pod-0", true), say("Pod-1", false)],
            1,
            Moment(20),
        );
        assert_eq!(then[0].last_transition_time, first[0].last_transition_time);
        assert_ne!(then[1].last_transition_time, first[1].last_transition_time);
    }

    #[test]
    fn the_forms_of_the_condition_over_all_children() {
        let check = |ready, total| {
            let said = encompassing(ready, total, "pods");
            (said.holds, said.reason, said.message)
        };
        assert_eq!(
            check(3, 3),
            (true, Reason::AllReady, "All 3 pods are ready".to_owned())
        );
        assert_eq!(
            check(1, 2),
            (
                false,
                Reason::PartiallyReady,
                "1/2 pods are ready".to_owned()
            )
        );
        assert_eq!(
            check(0, 2),
            (false, Reason::NotReady, "No pods are ready".to_owned())
        );
        assert_eq!(check(0, 0).1, Reason::NoChildren);
    }
}

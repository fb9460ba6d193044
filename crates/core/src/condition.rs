//! Conditions in the shape of `metav1.Condition`, with transition times that tell the truth.

use std::fmt;

use crate::reason::{ConditionType, Reason};

/// A moment, in whole seconds since 1970, which is the precision of Kubernetes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub i64);

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl ConditionStatus {
    /// The word as it stands in a status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is to be said about one condition now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it speaks about.
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as a word.
    pub reason: Reason,
    /// Why, as a sentence for people.
    pub message: String,
    /// The generation of the object that this was decided for.
    pub observed_generation: i64,
}

/// One condition as it stands in a status, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The condition type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as a word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
    /// The generation of the object that this was decided for.
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    pub last_transition: Moment,
}

/// The conditions of one object; conditions of other writers are kept as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions(pub Vec<Stored>);

impl Conditions {
    /// Puts `condition` in place of the one of its type.
    ///
    /// The transition time moves only when the status does, so it tells how long it has been so.
    pub fn set(&mut self, condition: Condition, now: Moment) -> Changed {
        let Condition {
            kind,
            status,
            reason,
            message,
            observed_generation,
        } = condition;
        let mut wanted = Stored {
            kind: kind.as_str().to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.as_str().to_owned(),
            message,
            observed_generation: Some(observed_generation),
            last_transition: now,
        };
        let Some(stored) = self.0.iter_mut().find(|stored| stored.kind == wanted.kind) else {
            self.0.push(wanted);
            return Changed::Yes;
        };
        if stored.status == wanted.status {
            wanted.last_transition = stored.last_transition;
        }
        if *stored == wanted {
            return Changed::No;
        }
        *stored = wanted;
        Changed::Yes
    }

    /// The condition of this type.
    #[must_use]
    pub fn get(&self, kind: ConditionType) -> Option<&Stored> {
        self.0.iter().find(|stored| stored.kind == kind.as_str())
    }

    /// Whether the condition of this type is `True`.
    #[must_use]
    pub fn is_true(&self, kind: ConditionType) -> bool {
        self.get(kind)
            .is_some_and(|stored| stored.status == ConditionStatus::True.as_str())
    }
}

/// Whether something differs from before, so that it has to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    /// It differs.
    Yes,
    /// It is as it was.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: ConditionStatus, reason: Reason, generation: i64) -> Condition {
        let message = reason.to_string();
        let kind = ConditionType::Ready;
        Condition {
            kind,
            status,
            reason,
            message,
            observed_generation: generation,
        }
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut conditions = Conditions::default();
        let pending = ready(ConditionStatus::False, Reason::Progressing, 1);
        assert_eq!(conditions.set(pending.clone(), Moment(10)), Changed::Yes);
        assert_eq!(conditions.set(pending, Moment(20)), Changed::No);
        let failed = ready(ConditionStatus::False, Reason::ReconcileFailed, 1);
        assert_eq!(conditions.set(failed, Moment(30)), Changed::Yes);
        assert_eq!(conditions.0[0].last_transition, Moment(10));
        let done = ready(ConditionStatus::True, Reason::ReconcileSucceeded, 1);
        assert_eq!(conditions.set(done, Moment(40)), Changed::Yes);
        assert_eq!(conditions.0[0].last_transition, Moment(40));
        let again = ready(ConditionStatus::True, Reason::ReconcileSucceeded, 2);
        assert_eq!(conditions.set(again, Moment(50)), Changed::Yes);
        assert_eq!(conditions.0[0].last_transition, Moment(40));
        assert_eq!(conditions.0[0].observed_generation, Some(2));
        assert_eq!(conditions.0.len(), 1);
        assert!(conditions.is_true(ConditionType::Ready));
    }

    #[test]
    fn conditions_of_others_are_kept() {
        let others = Stored {
            kind: "Audited".into(),
            status: "True".into(),
            reason: "ByHand".into(),
            message: String::new(),
            observed_generation: None,
            last_transition: Moment(1),
        };
        let mut conditions = Conditions(vec![others.clone()]);
        let changed = conditions.set(ready(ConditionStatus::True, Reason::Accepted, 1), Moment(2));
        assert_eq!(changed, Changed::Yes);
        assert_eq!(conditions.0[0], others);
        assert_eq!(conditions.get(ConditionType::Accepted), None);
    }
}

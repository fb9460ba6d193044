//! Conditions in the shape of `metav1.Condition`.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_kubernetes_writes_it() {
        let all = [
            ConditionStatus::True,
            ConditionStatus::False,
            ConditionStatus::Unknown,
        ];
        assert_eq!(
            all.map(ConditionStatus::as_str),
            ["True", "False", "Unknown"]
        );
        assert_eq!(ConditionStatus::Unknown.to_string(), "Unknown");
    }
}

//! An author's mistake: which field, what is wrong, what to do.

use std::fmt;

use crate::reason::Reason;

/// The longest summary in characters. A condition's message may have 32,768, other sentences included.
const SUMMARY_LEN_MAX: usize = 8192;

/// One thing that is wrong with an object, found without asking the world.
///
/// Problems are collected, shown in the object's status and not retried: only an edit cures them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where, as a path from the object's root: `spec.endpoints[3].targets[0]`.
    pub field: String,
    /// The condition reason it leads to.
    pub reason: Reason,
    /// What is wrong and what to do, without the field.
    pub message: String,
}

impl Problem {
    /// A field whose value is not valid.
    pub fn invalid(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: Reason::Invalid,
            message: message.to_string(),
        }
    }

    /// Several problems as one message for a condition.
    #[must_use]
    pub fn summary(problems: &[Self]) -> String {
        /// More would make a status hard to read; the rest is counted.
        const SHOWN_MAX: usize = 5;
        let mut shown: Vec<String> = problems
            .iter()
            .take(SHOWN_MAX)
            .map(ToString::to_string)
            .collect();
        if problems.len() > SHOWN_MAX {
            shown.push(format!("and {} more", problems.len() - SHOWN_MAX));
        }
        let mut summary = shown.join("; ");
        if let Some((end, _)) = summary.char_indices().nth(SUMMARY_LEN_MAX) {
            summary.truncate(end);
            summary.push('…');
        }
        summary
    }
}

/// A text that somebody typed, quoted, escaped and cut where it gets too long to read.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_LEN_MAX: usize = 80;
        match self.0.char_indices().nth(SHOWN_LEN_MAX) {
            Some((end, _)) => write!(f, "{:?}", format!("{}…", &self.0[..end])),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_fields_and_counts_the_rest() {
        let problem = |at| Problem::invalid(format!("spec.endpoints[{at}].dnsName"), "is empty");
        let one = Problem::summary(&[problem(0)]);
        assert_eq!(one, "spec.endpoints[0].dnsName: is empty");
        let five = Problem::summary(&(0..5).map(problem).collect::<Vec<_>>());
        assert!(five.ends_with("[4].dnsName: is empty"), "{five}");
        let many = Problem::summary(&(0..7).map(problem).collect::<Vec<_>>());
        assert!(
            many.ends_with("spec.endpoints[4].dnsName: is empty; and 2 more"),
            "{many}"
        );
    }

    #[test]
    fn no_author_can_make_a_message_too_long_for_a_condition() {
        let long = "é".repeat(100_000);
        assert!(Shown(&long).to_string().ends_with("é…\""));
        let summary = Problem::summary(&[Problem::invalid(long.clone(), Shown(&long))]);
        assert_eq!(summary.chars().count(), SUMMARY_LEN_MAX + 1);
    }
}

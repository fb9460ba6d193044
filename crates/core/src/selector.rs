//! Label selectors, and two indexes that answer both ways without looking at everything.

use std::collections::BTreeMap;

use crate::problem::{Problem, Shown};

mod index;
mod objects;
#[cfg(test)]
mod tests;

pub use index::Index;
pub use objects::LabelIndex;

/// Labels as Kubernetes has them.
pub type Labels = BTreeMap<String, String>;

/// A label selector; an empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Selector(Box<[Requirement]>);

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: Box<str>,
    /// What must hold for the label.
    pub test: Test,
}

/// What must hold for a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// It has one of these values.
    In(Box<[Box<str>]>),
    /// It is absent or has none of these values.
    NotIn(Box<[Box<str>]>),
    /// It is present.
    Exists,
    /// It is absent.
    DoesNotExist,
}

/// One entry of `matchExpressions` as its author wrote it.
#[derive(Debug, Clone, Copy)]
pub struct Expression<'a> {
    /// The label's key.
    pub key: &'a str,
    /// The operator's name.
    pub operator: &'a str,
    /// The values.
    pub values: &'a [String],
}

impl Selector {
    /// The selector of `matchLabels` and `matchExpressions`, written at `field`.
    ///
    /// # Errors
    /// Every expression that means nothing, by its path.
    pub fn new(
        match_labels: &Labels,
        match_expressions: &[Expression<'_>],
        field: &str,
    ) -> Result<Self, Vec<Problem>> {
        let mut requirements: Vec<Requirement> = match_labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.as_str().into(),
                test: Test::In([value.as_str().into()].into()),
            })
            .collect();
        let mut problems = Vec::new();
        for (position, expression) in match_expressions.iter().enumerate() {
            match requirement(expression, &format!("{field}.matchExpressions[{position}]")) {
                Ok(requirement) => requirements.push(requirement),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            Ok(Self(requirements.into()))
        } else {
            Err(problems)
        }
    }

    /// Whether labels meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// The requirements, of which all must hold.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.test.holds(label(&requirement.key)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_among = |values: &[Box<str>]| {
            value.is_some_and(|value| values.iter().any(|one| &**one == value))
        };
        match self {
            Self::In(values) => is_among(values),
            Self::NotIn(values) => !is_among(values),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}

fn requirement(expression: &Expression<'_>, field: &str) -> Result<Requirement, Problem> {
    let Expression {
        key,
        operator,
        values,
    } = *expression;
    if key.is_empty() {
        return Err(Problem::invalid(
            format!("{field}.key"),
            "is empty: write a label's key",
        ));
    }
    let listed = || {
        if values.is_empty() {
            let message = format!("is empty: operator {operator} needs at least one value");
            return Err(Problem::invalid(format!("{field}.values"), message));
        }
        Ok(values.iter().map(|value| value.as_str().into()).collect())
    };
    let bare = |test| {
        if values.is_empty() {
            return Ok(test);
        }
        let message = format!("operator {operator} takes no values: remove them");
        Err(Problem::invalid(format!("{field}.values"), message))
    };
    let test = match operator {
        "In" => Test::In(listed()?),
        "NotIn" => Test::NotIn(listed()?),
        "Exists" => bare(Test::Exists)?,
        "DoesNotExist" => bare(Test::DoesNotExist)?,
        _ => {
            let message = format!(
                "unknown operator {}: write In, NotIn, Exists or DoesNotExist",
                Shown(operator)
            );
            return Err(Problem::invalid(format!("{field}.operator"), message));
        }
    };
    Ok(Requirement {
        key: key.into(),
        test,
    })
}

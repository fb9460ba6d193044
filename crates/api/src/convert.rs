//! Specs to core values, with problems that name fields.

use bindery_core::record::TTL_MAX;
use bindery_core::{Name, Problem, RecordData, Shown};

mod endpoint;
mod record;
#[cfg(test)]
pub(crate) mod tests;
mod zone;

pub use endpoint::{DeclaredEndpoint, Ignored};
pub use record::{DeclaredRecord, RecordSpec};
pub(crate) use record::{ipv4, ipv6};
pub use zone::{DeclaredNameServer, DeclaredZone, ZONE_TTL_DEFAULT, read_selector};

/// Collects problems while values are read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) problems: Vec<Problem>,
}

impl Reading {
    /// Keeps the value, or notes the problem at `field`.
    pub(crate) fn take<T, E: std::fmt::Display>(
        &mut self,
        field: impl Into<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(Problem::invalid(field, problem));
                None
            }
        }
    }

    /// A full name that something points at.
    pub(crate) fn target(&mut self, field: impl Into<String>, text: &str) -> Option<Name> {
        let field = field.into();
        let name = self.take(field.clone(), Name::parse(text))?;
        // Relative to the zone, or a top-level name? Guessing would point at the wrong host.
        if name.labels().count() == 1 && !text.ends_with('.') {
            let message = format!(
                "{} is a single label: write the full name, or end it with a dot if you mean \
                 the top-level name",
                Shown(text)
            );
            self.problems.push(Problem::invalid(field, message));
            return None;
        }
        Some(name)
    }

    /// A TTL within its range.
    fn ttl(&mut self, field: impl Into<String>, ttl: Option<i64>) -> Option<u32> {
        self.number(field, ttl?, TTL_MAX)
    }

    /// A number from 0 to `max`.
    pub(crate) fn number<T: TryFrom<i64> + Into<u32> + Copy>(
        &mut self,
        field: impl Into<String>,
        number: i64,
        max: T,
    ) -> Option<T> {
        let limit: u32 = max.into();
        let value = T::try_from(number)
            .ok()
            .filter(|value| (*value).into() <= limit);
        self.take(field, value.ok_or_else(|| out_of_range(number, limit)))
    }

    /// A number from 1 to `max`, where 0 is reserved.
    pub(crate) fn nonzero<T: TryFrom<i64> + Into<u32> + Copy>(
        &mut self,
        field: impl Into<String>,
        number: i64,
        max: T,
    ) -> Option<T> {
        let limit: u32 = max.into();
        let value = T::try_from(number).ok();
        let value = value.filter(|value| (1..=limit).contains(&(*value).into()));
        let wrong = || format!("is {number}: write a whole number from 1 to {limit}");
        self.take(field, value.ok_or_else(wrong))
    }

    /// Data that a message can carry.
    pub(crate) fn data(
        &mut self,
        field: impl Into<String>,
        data: RecordData,
    ) -> Option<RecordData> {
        self.take(field, data.checked_len())
    }

    pub(crate) fn end<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            Some(_) | None => Err(self.problems),
        }
    }
}

fn out_of_range(number: i64, max: u32) -> String {
    format!("is {number}: write a whole number from 0 to {max}")
}

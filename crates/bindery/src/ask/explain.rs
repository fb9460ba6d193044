//! `bindery explain`: the way of one object from its spec to DNS, and where it stops.

mod way;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bindery_core::Kind;
use serde::Serialize;

use self::way::way;
use super::book::Book;
use super::listing::Listing;
use super::table::{Cell, aligned};
use super::thing::wanted;
use crate::cli::ask::Explain;
use crate::live::{Mood, Paint};

/// The way of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    object: String,
    /// The step that is not done; none where the object is served.
    stops_at: Option<&'static str>,
    steps: Vec<Step>,
}

/// One step of the way.
#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    mark: Mark,
    /// What there is to say, line by line.
    lines: Vec<String>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Mark {
    Done,
    Stopped,
    NotReached,
}

impl Way {
    fn new(object: String) -> Self {
        Self {
            object,
            stops_at: None,
            steps: Vec::new(),
        }
    }

    /// Adds a step: what was done, or why it is not. After a step that is not done none is reached.
    fn step(&mut self, step: &'static str, found: Result<Vec<String>, Vec<String>>) {
        let (mark, lines) = match (self.stops_at, found) {
            (Some(_), _) => (Mark::NotReached, vec!["not reached".to_owned()]),
            (None, Ok(lines)) => (Mark::Done, lines),
            (None, Err(lines)) => {
                self.stops_at = Some(step);
                (Mark::Stopped, lines)
            }
        };
        self.steps.push(Step {
            name: step,
            mark,
            lines,
        });
    }
}

/// Shows the way of the object that was asked for.
pub(crate) async fn explain(flags: Explain) -> Result<ExitCode> {
    let wanted = wanted(&flags.object)?;
    let listing = Listing::open(&flags.asking).await?;
    let named = wanted.namespace.or(flags.asking.namespace);
    let namespace = named.unwrap_or_else(|| listing.default_namespace().to_owned());
    let mut things = listing.fetch(Kind::DnsZone, None).await?;
    if wanted.kind != Kind::DnsZone {
        things.extend(listing.fetch(wanted.kind, Some(&namespace)).await?);
    }
    let book = Book::new(things);
    let found = book.named(wanted.kind, &namespace, &wanted.name);
    let id = found.with_context(|| {
        format!(
            "there is no {} {} in namespace {namespace}; say where it is with -n, or look with \
             `bindery status -A`",
            wanted.kind.as_str(),
            wanted.name
        )
    })?;
    super::answer(flags.asking.output, &way(book, &id), lines)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(way: &Way, paint: Paint) -> Vec<String> {
    let mut rows = Vec::new();
    for step in &way.steps {
        let mark = match step.mark {
            Mark::Done => Cell::tinted("✓", Mood::Good),
            Mark::Stopped => Cell::tinted("✗", Mood::Bad),
            Mark::NotReached => Cell::plain("-"),
        };
        let mut first = vec![mark, Cell::plain(step.name)];
        let mut said = step.lines.iter();
        first.extend(said.next().map(Cell::plain));
        rows.push(first);
        rows.extend(said.map(|line| vec![Cell::plain(""), Cell::plain(""), Cell::plain(line)]));
    }
    let mut lines = vec![way.object.clone()];
    lines.extend(aligned(&rows, paint));
    lines.push(match way.stops_at {
        None => "it is served as declared".to_owned(),
        Some(step) => format!("it stops at: {step}"),
    });
    lines
}

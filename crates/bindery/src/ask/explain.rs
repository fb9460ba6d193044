//! `bindery explain`: the way of one object from its spec to DNS, and where it stops.

mod service;
mod trace;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bindery_api::{Role, role};
use bindery_core::{Kind, Stage};
use serde::Serialize;

use self::service::{Surroundings, name_kinds, service_trace};
use self::trace::trace;
use super::inventory::Inventory;
use super::listed_object::wanted;
use super::listing::{Listing, Sight};
use super::table::{Cell, aligned};
use crate::cli::ask::ExplainFlags;
use crate::live::{Health, Paint};

/// The way of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    object: String,
    /// The first stage that is not done, or not for all of it; none where the object is served.
    stops_at: Option<&'static str>,
    steps: Vec<TraceStep>,
    /// Which part of what there is was looked at.
    sight: Sight,
}

/// What a step says.
#[derive(Debug)]
enum StepResult {
    /// It is done.
    Done(Vec<String>),
    /// It is done for a part of the object, and why not for the rest.
    Partly(Vec<String>),
    /// It is not done, and why.
    Stopped(Vec<String>),
}

/// One step of the way.
#[derive(Debug, Serialize)]
struct TraceStep {
    name: &'static str,
    mark: StepMark,
    /// What there is to say, line by line.
    lines: Vec<String>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum StepMark {
    Done,
    Partly,
    Stopped,
    NotReached,
}

impl Trace {
    fn new(object: String) -> Self {
        Self {
            object,
            stops_at: None,
            steps: Vec::new(),
            sight: Sight::Whole,
        }
    }

    /// Adds a stage of the one path.
    fn step(&mut self, stage: Stage, said: StepResult) {
        self.named_step(stage.as_str(), said);
    }

    /// Adds a step. After one that is not done none is reached.
    fn named_step(&mut self, step: &'static str, said: StepResult) {
        let is_reached = self.steps.last().is_none_or(|last| last.mark.goes_on());
        let (mark, lines) = match said {
            _ if !is_reached => (StepMark::NotReached, vec!["not reached".to_owned()]),
            StepResult::Done(lines) => (StepMark::Done, lines),
            StepResult::Partly(lines) => (StepMark::Partly, lines),
            StepResult::Stopped(lines) => (StepMark::Stopped, lines),
        };
        if mark != StepMark::Done {
            self.stops_at.get_or_insert(step);
        }
        self.steps.push(TraceStep {
            name: step,
            mark,
            lines,
        });
    }
}

impl StepResult {
    /// What both say together: it is as far as the one that is less far.
    fn and(self, other: Self) -> Self {
        let (one, mut lines) = self.into_parts();
        let (other, more) = other.into_parts();
        lines.extend(more);
        match one.max(other) {
            Extent::Whole => Self::Done(lines),
            Extent::Part => Self::Partly(lines),
            Extent::None => Self::Stopped(lines),
        }
    }

    fn into_parts(self) -> (Extent, Vec<String>) {
        match self {
            Self::Done(lines) => (Extent::Whole, lines),
            Self::Partly(lines) => (Extent::Part, lines),
            Self::Stopped(lines) => (Extent::None, lines),
        }
    }
}

/// For how much of an object a stage is done, the most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    Whole,
    Part,
    None,
}

impl StepMark {
    /// Whether something of the object reaches the next step.
    fn goes_on(self) -> bool {
        match self {
            Self::Done | Self::Partly => true,
            Self::Stopped | Self::NotReached => false,
        }
    }
}

/// Shows the way of the object that was asked for.
pub(crate) async fn explain(flags: ExplainFlags) -> Result<ExitCode> {
    let wanted = wanted(&flags.object)?;
    let listing = Listing::open(&flags.asking).await?;
    let named = wanted.namespace.or(flags.asking.namespace);
    let namespace = named.unwrap_or_else(|| listing.default_namespace().to_owned());
    let way = match wanted.kind {
        Some(kind) => object_way(&listing, kind, &namespace, &wanted.name).await?,
        None => service_way(&listing, &namespace, &wanted.name).await?,
    };
    super::answer(flags.asking.output, &way, lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn object_way(listing: &Listing, kind: Kind, namespace: &str, name: &str) -> Result<Trace> {
    let (mut objects, sight) = listing.fetch_zones(Some(namespace)).await?;
    if role(kind) != Role::Zone {
        objects.extend(listing.fetch(kind, Some(namespace)).await?);
    }
    let inventory = Inventory::new(objects);
    let found = inventory.named(kind, namespace, name);
    let id = found.with_context(|| nowhere(kind.as_str(), namespace, name))?;
    Ok(Trace {
        sight,
        ..trace(inventory, &id)
    })
}

/// Nothing is listed but what is of the Service's namespace, and pools and zones, where that is allowed.
async fn service_way(listing: &Listing, namespace: &str, name: &str) -> Result<Trace> {
    let services = listing.fetch_services(Some(namespace), Some(name)).await?;
    let services = services.with_context(|| {
        format!("Services of namespace {namespace} cannot be listed; may you list them?")
    })?;
    let found = services.into_iter().find(|one| one.place().1 == name);
    let service = found.with_context(|| nowhere("Service", namespace, name))?;
    let (mut objects, sight) = listing.fetch_zones(Some(namespace)).await?;
    for kind in name_kinds() {
        objects.extend(listing.fetch(kind, Some(namespace)).await?);
    }
    let way = service_trace(Surroundings {
        service,
        slices: listing.fetch_slices(namespace, name).await?,
        pools: listing.fetch_pools().await?,
        inventory: Inventory::new(objects),
    });
    Ok(Trace { sight, ..way })
}

fn nowhere(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        "there is no {kind} {name} in namespace {namespace}; say where it is with -n, or look with \
         `bindery status -A`"
    )
}

fn lines(way: &Trace, paint: Paint) -> Vec<String> {
    let mut rows = Vec::new();
    for step in &way.steps {
        let mark = match step.mark {
            StepMark::Done => Cell::tinted("✓", Health::Ready),
            StepMark::Partly => Cell::tinted("!", Health::Failing),
            StepMark::Stopped => Cell::tinted("✗", Health::Failing),
            StepMark::NotReached => Cell::plain("-"),
        };
        let mut first = vec![mark, Cell::plain(step.name)];
        let mut said = step.lines.iter();
        first.extend(said.next().map(Cell::plain));
        rows.push(first);
        rows.extend(said.map(|line| vec![Cell::plain(""), Cell::plain(""), Cell::plain(line)]));
    }
    let mut lines = vec![way.object.clone()];
    lines.extend(aligned(&rows, paint));
    lines.extend(way.sight.note().map(str::to_owned));
    lines.push(match way.stops_at {
        None => "it is served as declared".to_owned(),
        Some(step) => format!("it stops at: {step}"),
    });
    lines
}

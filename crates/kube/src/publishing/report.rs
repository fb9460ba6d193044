//! What a publishing object's status says, and when it is written.

use std::sync::Arc;
use std::time::Duration;

use bindery_api::{Role, role};
use bindery_core::zones::{ClaimStatus, Receipt, Withdrawal};
use bindery_core::{Group, Name, ObjectRef, Problem, Reason, Record};
use bindery_engine::work::Requeue;
use bindery_sources::{Id, Life};
use tokio::time::Instant;

use super::{Valid, endpoints, record};
use crate::cluster::Error;
use crate::context::Context;
use crate::events;
use crate::reconcile::{Applied, Next, recover};
use crate::state::{State, Submission};
use crate::status::{FirstReport, MainCondition, first_report, write_status};

/// How long an object may be without a zone before its author is told for the first time.
const GRACE_PERIOD: Duration = Duration::from_millis(250);

/// Problems that go away when a zone arrives.
const WITHOUT_ZONE: [Reason; 3] = [
    Reason::NotSelected,
    Reason::ZoneNotFound,
    Reason::NoMatchingZone,
];

/// What there is to tell the author of an object.
pub(super) struct Report {
    pub(super) generation: i64,
    pub(super) life: Life,
    /// The zones that it is in, with their names.
    pub(super) zones: Vec<(Id, Name)>,
    pub(super) problems: Vec<Problem>,
    /// What it asks for and does not get, without harm to the rest.
    pub(super) notes: Vec<Problem>,
    pub(super) desired_count: usize,
    /// What became of its claims; `None` where they were withheld or the receipt is still to come.
    pub(super) receipt: Option<Arc<Receipt>>,
    confirmed: Box<str>,
    content: u64,
    /// The receipt is still to come.
    is_early: bool,
    /// What it had where nobody can tell whether it is gone.
    kept: Vec<(Group, Record)>,
}

impl Report {
    /// The claims were withheld: the author has to correct the object.
    pub(super) fn withheld(valid: Valid<'_>, content: u64) -> Self {
        Self::new(valid, content)
    }

    /// The claims were submitted and the engine said what became of them.
    pub(super) fn received(valid: Valid<'_>, content: u64, receipt: Arc<Receipt>) -> Self {
        Self {
            receipt: Some(receipt),
            ..Self::new(valid, content)
        }
    }

    /// The claims were submitted and the receipt is still to come.
    pub(super) fn early(valid: Valid<'_>, content: u64) -> Self {
        Self {
            is_early: true,
            ..Self::new(valid, content)
        }
    }

    fn new(valid: Valid<'_>, content: u64) -> Self {
        let Valid {
            observed,
            decision,
            kept,
        } = valid;
        let meta = observed.meta;
        let catalog = &observed.state.catalog;
        let zones = decision.zones.into_iter().filter_map(|id| {
            let name = catalog.zone(&id)?.name.cloned()?;
            Some((id, name))
        });
        Self {
            generation: meta.map_or(0, |meta| meta.generation),
            life: meta.map_or(Life::Deleting, |meta| meta.life),
            zones: zones.collect(),
            problems: decision.problems,
            notes: decision.notes,
            desired_count: decision.desired_count,
            receipt: None,
            confirmed: meta.map_or_else(Box::default, |meta| meta.confirmed_text().into()),
            content,
            is_early: false,
            kept,
        }
    }

    /// The lines that the status is to say were seen in DNS: what is served, what was before and may be
    /// still, and of what is not served now what was.
    pub(super) fn published(&self, object: &ObjectRef) -> Option<String> {
        let mut lines: Vec<(Group, Record)> = Vec::new();
        let confirmed = bindery_sources::meta::parse_records(&self.confirmed);
        let receipt = self.receipt.as_deref();
        let is_over = receipt.is_some_and(|receipt| receipt.withdrawal == Withdrawal::Done);
        let is_kept = |line: &&(Group, Record)| {
            let mut kept = self.kept.iter();
            let is_same = |(group, record): &(Group, Record)| {
                *group == line.0 && record.name == line.1.name && record.data == line.1.data
            };
            !is_over || kept.any(is_same)
        };
        lines.extend(confirmed.iter().filter(is_kept).cloned());
        for outcome in receipt.iter().flat_map(|receipt| &receipt.outcomes) {
            let (group, key) = (&outcome.group, &outcome.claim.key);
            if matches!(
                outcome.status,
                ClaimStatus::Programmed(_) | ClaimStatus::Lagging(_) | ClaimStatus::Occluded(_)
            ) {
                let records = outcome.claim.records();
                lines.extend(records.map(|record| (group.clone(), record)));
            } else {
                let before = confirmed.iter();
                let before = before.filter(|(on, record)| on == group && record.key() == *key);
                lines.extend(before.cloned());
            }
        }
        (!lines.is_empty()).then(|| bindery_sources::sealed(object, lines))
    }

    /// An object that goes without trouble needs no status any more.
    fn needs_status(&self) -> bool {
        let withdrawal = self.receipt.as_ref().map(|receipt| &receipt.withdrawal);
        self.life == Life::Alive
            || matches!(
                withdrawal,
                Some(Withdrawal::Failing(_) | Withdrawal::Lingering(_))
            )
    }
}

/// Ends a round: writes the status if there is something to tell, and says what comes next.
pub(super) async fn report(object: &Id, ctx: &Context, applied: Applied<Box<Report>>) -> Next {
    match applied {
        Applied::Changed => Next::Round,
        Applied::Nothing => Next::Requeue(Requeue::OnChange),
        Applied::Waits(requeue) => Next::Requeue(requeue),
        Applied::Failed(error) => Next::Requeue(recover(object, ctx, error).await),
        Applied::ToReport(report) => match wait(object, ctx, &report) {
            Some(requeue) => Next::Requeue(requeue),
            None => match write(object, ctx, &report).await {
                Ok(()) => Next::Round,
                Err(error) => Next::Requeue(recover(object, ctx, error).await),
            },
        },
    }
}

/// When to report, where that is not now.
fn wait(object: &Id, ctx: &Context, report: &Report) -> Option<Requeue> {
    if !report.is_early {
        return grace_period(object, ctx, report);
    }
    match first_report(object, ctx) {
        FirstReport::Done => Some(Requeue::OnChange),
        FirstReport::NotBefore(requeue) => Some(requeue),
        FirstReport::Due => None,
    }
}

/// When the grace period of an object without a zone ends, if it has not yet: a zone that is applied
/// together with its records may arrive a moment later than they do.
fn grace_period(object: &Id, ctx: &Context, report: &Report) -> Option<Requeue> {
    let is_without = |problem: &Problem| WITHOUT_ZONE.contains(&problem.reason);
    if !report.problems.iter().any(is_without) {
        return None;
    }
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if progress.status.is_reported() {
        return None;
    }
    let now = Instant::now();
    let until = progress.grace_until(now + GRACE_PERIOD);
    (now < until).then_some(Requeue::At(until))
}

/// Tells the author what became of the object.
///
/// Cancellation: the status is written or not; the next round compares again.
async fn write(object: &Id, ctx: &Context, report: &Report) -> Result<(), Error> {
    let main = match role(object.kind) {
        // Zones have a controller of their own, and no reports of this sort.
        Role::Zone | Role::Record => {
            let ready = record::ready(report);
            if report.needs_status() {
                let status = |seen: &_, now| record::status(object, report, &ready, (seen, now));
                write_status(object, ctx, status).await?;
                events::emit_change(object, ctx, &ready);
            }
            MainCondition::of(&ready)
        }
        Role::Endpoints => {
            let conditions = endpoints::conditions(report);
            let main = endpoints::main(&conditions);
            if report.needs_status() {
                let status =
                    |seen: &_, now| endpoints::status(object, report, &conditions, (seen, now));
                write_status(object, ctx, status).await?;
                events::emit_change(object, ctx, main);
            }
            MainCondition::of(main)
        }
    };
    if let Some(receipt) = &report.receipt {
        events::emit_mended(object, ctx, &receipt.outcomes);
    }
    mark_reported(object, ctx, report, main);
    Ok(())
}

/// Notes that an object's status was written, and what its main condition is.
fn mark_reported(object: &Id, ctx: &Context, report: &Report, main: MainCondition) {
    if report.is_early {
        return;
    }
    let mut state = ctx.state();
    forget_receipt(&mut state, object, report);
    let ids = report.zones.iter().map(|(id, _)| Id::clone(id)).collect();
    let zones = state.set_reported(object, &ids, main);
    drop(state);
    ctx.push_all(zones);
}

fn forget_receipt(state: &mut State, object: &Id, report: &Report) {
    let Some(progress) = state.progress.get_mut(object) else {
        return;
    };
    match (&report.receipt, &progress.receipt) {
        (None, _) => progress.submission = Submission::Withheld(report.content),
        (Some(reported), Some(newest)) if Arc::ptr_eq(reported, newest) => progress.receipt = None,
        (Some(_), _) => {}
    }
}

//! The way of an object's claims from its spec to its status, the same for every kind that makes
//! claims: write down, declare, wait for the receipt, tell, tidy up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::Receipt;
use bindery_core::zones::{ClaimStatus, Withdrawal};
use bindery_core::{
    Adoption, Group, GroupDeclaration, Moment, Name, ObjectRef, Problem, Reason, Record, RecordKey,
};
use bindery_sources::{Decision, Id, Life, Meta, MetadataPatch, NextAct};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Class, Error};
use crate::context::Context;
use crate::events::LastEvent;
use crate::metrics::count;
use crate::state::{State, Submission};
use crate::status::{LastWritten, MainCondition, ObservedStatus, body, digest, keep_others};
use crate::work::{Requeue, jitter_seed};

/// Steps of one reconcile: record, submit, report, clean up, and once more after an edit.
pub(crate) const STEPS_MAX: usize = 8;

/// How long an object may be without a zone before its author is told for the first time.
const GRACE_PERIOD: Duration = Duration::from_millis(250);

/// How long an object may be without any condition while the outcome is not known: people and programs
/// that wait for one are to see within a second that somebody is at work, whatever the servers do. Nearly
/// every outcome is known much sooner, so that this costs no write.
const FIRST_REPORT_DELAY: Duration = Duration::from_millis(700);

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) enum FirstReport {
    /// It has a condition already.
    Done,
    /// Not before this time.
    Wait(Requeue),
    /// Now.
    Due,
}

/// What is known of an object.
pub(crate) struct Observed {
    decision: Decision,
    generation: i64,
    life: Option<Life>,
    submission: Submission,
    receipt: Option<Arc<Receipt>>,
    withdrawn: bool,
    zone_names: Vec<Name>,
    had: Box<str>,
}

/// What is to be done next.
pub(crate) enum Plan {
    /// It is gone, and nothing is left of it.
    Forget,
    /// Finalizer and annotations have to be written before anything else.
    Write(MetadataPatch),
    /// Nothing else is left in DNS, which the object is to say.
    Trim(MetadataPatch),
    /// Its claims go to the engine; the number stands for them.
    Declare(Vec<GroupDeclaration>, u64),
    /// Its author is to be told.
    Report(Box<Report>),
    /// The outcome is not known yet; its author is to be told that, if nothing else was said.
    Await(Box<Report>),
    /// Nothing, until something changes.
    Rest,
}

/// What there is to tell.
pub(crate) struct Report {
    pub(crate) generation: i64,
    pub(crate) life: Life,
    /// The zones that it is in, with their names.
    pub(crate) zones: Vec<(Id, Name)>,
    pub(crate) problems: Vec<Problem>,
    /// What it asks for and does not get, without harm to the rest.
    pub(crate) notes: Vec<Problem>,
    pub(crate) desired_count: usize,
    /// What became of its claims; `None` where they were held back.
    pub(crate) receipt: Option<Arc<Receipt>>,
    had: Box<str>,
    content: u64,
    /// The outcome is still to come.
    is_early: bool,
}

impl Report {
    /// The lines that the status is to say were seen in DNS: what is served, what was before and may be
    /// still, and of what is not served now what was.
    pub(crate) fn published(&self, object: &ObjectRef) -> Option<String> {
        let mut lines: Vec<(Group, Record)> = Vec::new();
        let had = bindery_sources::meta::parse_records(&self.had);
        let receipt = self.receipt.as_deref();
        let is_over = receipt.is_some_and(|receipt| receipt.withdrawal == Withdrawal::Done);
        if !is_over {
            lines.extend(had.iter().cloned());
        }
        for outcome in receipt.iter().flat_map(|receipt| &receipt.outcomes) {
            let (group, key) = (&outcome.group, &outcome.claim.key);
            if matches!(
                outcome.status,
                ClaimStatus::Programmed(_) | ClaimStatus::Lagging(_) | ClaimStatus::Occluded(_)
            ) {
                let records = outcome.claim.records();
                lines.extend(records.map(|record| (group.clone(), record)));
            } else {
                let had = had.iter();
                let had = had.filter(|(on, record)| on == group && record.key() == *key);
                lines.extend(had.cloned());
            }
        }
        (!lines.is_empty()).then(|| bindery_sources::sealed(object, lines))
    }
}

/// Looks at an object; `None` where it is gone.
pub(crate) fn observe(object: &Id, ctx: &Context) -> Option<Observed> {
    let state = ctx.state();
    let unknown = Box::default();
    let progress = state.progress.get(object).unwrap_or(&unknown);
    let available = |group: &Group, key: &RecordKey| {
        let known = progress.available();
        let found = known.binary_search_by(|(one, known)| (one, known).cmp(&(group, key)));
        found.is_ok()
    };
    let decision = state.catalog.decide(object, &available)?;
    let meta = state.catalog.meta(object);
    let zone_names = decision
        .zones
        .iter()
        .filter_map(|zone| state.catalog.zone(zone)?.name.cloned())
        .collect();
    Some(Observed {
        generation: meta.map_or(0, |meta| meta.generation),
        life: meta.map(|meta| meta.life),
        submission: progress.submission,
        receipt: progress.receipt.clone(),
        withdrawn: progress.withdrawn,
        had: meta.map_or_else(Box::default, |meta| meta.confirmed_text().into()),
        decision,
        zone_names,
    })
}

/// What is to be done next for an object.
pub(crate) fn plan(observed: Option<Observed>) -> Plan {
    let Some(observed) = observed else {
        return Plan::Forget;
    };
    let Observed {
        decision,
        generation,
        life,
        submission,
        receipt,
        withdrawn,
        zone_names,
        had,
    } = observed;
    let content = content(&decision, generation);
    let report = |receipt, is_early| {
        Box::new(Report {
            generation,
            life: life.unwrap_or(Life::Deleting),
            zones: decision.zones.iter().cloned().zip(zone_names).collect(),
            problems: decision.problems.clone(),
            notes: decision.notes.clone(),
            desired_count: decision.desired_count,
            receipt,
            had,
            content,
            is_early,
        })
    };
    match (decision.next, submission) {
        (NextAct::WriteMetadata(patch), _) => Plan::Write(patch),
        (NextAct::AwaitAuthor, Submission::Withheld(told)) if told == content => Plan::Rest,
        (NextAct::AwaitAuthor, _) => Plan::Report(report(None, false)),
        (NextAct::Declare(_), Submission::Declared(declared)) if declared == content => {
            match (receipt, life) {
                // What vanished has no status; it is only waited for.
                (_, None) if withdrawn => Plan::Forget,
                (_, None) => Plan::Rest,
                (Some(receipt), Some(_)) => Plan::Report(report(Some(receipt), false)),
                (None, Some(life)) => match &decision.cleanup {
                    Some(patch) if withdrawn => Plan::Trim(patch.clone()),
                    Some(_) | None if life == Life::Deleting => Plan::Rest,
                    Some(_) | None => Plan::Await(report(None, true)),
                },
            }
        }
        (NextAct::Declare(parts), _) => Plan::Declare(parts, content),
    }
}

/// Carries out what is to be done, apart from telling.
///
/// Cancellation: a patch on its way is applied or not; the next reconcile sees which.
pub(crate) async fn apply(object: &Id, ctx: &Context, plan: Plan) -> Result<(), Error> {
    match plan {
        Plan::Forget => {
            let zones = ctx.state().forget(object);
            ctx.engine.forget(object);
            ctx.push_all(zones.iter().cloned());
        }
        Plan::Trim(patch) => {
            if let Some(lines) = patch.owned() {
                ctx.state().catalog.set_owned(object, lines);
            }
            let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
            ctx.on_response(object.kind, newest);
        }
        Plan::Write(patch) => {
            let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
            ctx.on_response(object.kind, newest);
        }
        Plan::Declare(parts, content) => declare(object, ctx, parts, content),
        Plan::Report(_) | Plan::Await(_) | Plan::Rest => {}
    }
    Ok(())
}

/// Declares an object whose metadata says already what it has to say.
pub(crate) fn declare_known(object: &Id, ctx: &Context) {
    if let Plan::Declare(parts, content) = plan(observe(object, ctx)) {
        declare(object, ctx, parts, content);
    }
}

fn declare(object: &Id, ctx: &Context, mut parts: Vec<GroupDeclaration>, content: u64) {
    let mut state = ctx.state();
    let progress = state.progress.entry(Id::clone(object)).or_default();
    progress.revision += 1;
    progress.submission = Submission::Declared(content);
    progress.receipt = None;
    progress.withdrawn = false;
    for (group, declaration) in &mut parts {
        declaration.revision = progress.revision;
        if declaration.adoption == Adoption::Refuse {
            let config = ctx.settings.groups.get(group);
            declaration.adoption = config.map_or(Adoption::Refuse, |config| config.adoption);
        }
    }
    // Under the lock, so that declarations of one object arrive in their order.
    ctx.engine.declare(parts);
}

/// When the grace period of an object without a zone ends, if it has not yet: a zone that is applied
/// together with its records may arrive a moment later than they do.
pub(crate) fn in_grace_period(object: &Id, ctx: &Context, report: &Report) -> Option<Requeue> {
    const HOMELESS: [Reason; 3] = [
        Reason::NotSelected,
        Reason::ZoneNotFound,
        Reason::NoMatchingZone,
    ];
    let homeless = |problem: &Problem| HOMELESS.contains(&problem.reason);
    if !report.problems.iter().any(homeless) {
        return None;
    }
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if progress.status.last_written.is_some() || !progress.status.observed.is_blank() {
        return None;
    }
    let now = Instant::now();
    let until = progress.grace_until(now + GRACE_PERIOD);
    (now < until).then_some(Requeue::At(until))
}

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) fn first_report(object: &Id, ctx: &Context) -> FirstReport {
    let mut state = ctx.state();
    let Some(progress) = state.progress.get_mut(object) else {
        return FirstReport::Done;
    };
    if progress.status.last_written.is_some() || !progress.status.observed.is_blank() {
        return FirstReport::Done;
    }
    let now = Instant::now();
    let until = progress.grace_until(now + FIRST_REPORT_DELAY);
    if now < until {
        FirstReport::Wait(Requeue::At(until))
    } else {
        FirstReport::Due
    }
}

/// Writes a status if it differs from the one that stands.
///
/// Cancellation: the status is written or not; the next reconcile compares again.
pub(crate) async fn write_status(
    object: &Id,
    ctx: &Context,
    status: impl FnOnce(&ObservedStatus, Moment) -> Value,
) -> Result<(), Error> {
    let (mut status, wanted, has_others) = {
        let mut state = ctx.state();
        let Some(progress) = state.progress.get_mut(object) else {
            return Ok(());
        };
        let memory = &mut progress.status;
        if progress.last_event == LastEvent::Unknown {
            // After a start, what stands in the object is what its author knows.
            progress.last_event = LastEvent::of(memory.observed.main_condition(object.kind));
        }
        let status = status(&memory.observed, ctx.clock.now());
        let wanted = digest(&status);
        if !memory.differs(wanted) {
            let stored = memory.observed.digest;
            memory
                .last_written
                .get_or_insert(LastWritten { wanted, stored });
            return Ok(());
        }
        memory.writing = true;
        (status, wanted, memory.observed.has_others)
    };
    let written = async {
        if has_others {
            keep_others(&mut status, &ctx.cluster.fetch(object).await?.status());
        }
        let body = body(&object.uid, &status);
        ctx.cluster.write_status(object, &body).await
    };
    let written = written.await;
    if let Some(progress) = ctx.state().progress.get_mut(object) {
        progress.status.writing = false;
        progress.status.last_written = written.as_ref().ok().map(|newest| LastWritten {
            wanted,
            stored: digest(&newest.status()),
        });
    }
    ctx.on_response(object.kind, written?);
    if ctx.state().is_overwritten(object) {
        // Others wrote while the answer was on its way.
        ctx.push(Id::clone(object));
    }
    Ok(())
}

/// When to try again to restore an annotation that somebody else changed, where it was restored a moment
/// ago: two writers must not keep each other busy.
pub(crate) fn tamper_backoff(object: &Id, ctx: &Context) -> Option<Requeue> {
    let mut state = ctx.state();
    if !state.catalog.meta(object).is_some_and(Meta::is_tampered) {
        return None;
    }
    let progress = state.progress.get_mut(object)?;
    let mended = progress.mend(Instant::now(), jitter_seed(&object.uid.to_string()));
    mended.err().map(Requeue::At)
}

/// Submits an object's claims again where somebody overwrote its status: the engine's answer makes the
/// controller write the status anew. Returns when to try again, where this happened a moment ago.
pub(crate) fn resubmit_overwritten(object: &Id, ctx: &Context) -> Option<Requeue> {
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if !progress.is_overwritten() {
        return None;
    }
    match progress.mend(Instant::now(), jitter_seed(&object.uid.to_string())) {
        Ok(()) => {
            progress.submission = Submission::Nothing;
            None
        }
        Err(until) => Some(Requeue::At(until)),
    }
}

/// Notes that an object's status was written, and what its main condition is.
pub(crate) fn mark_reported(object: &Id, ctx: &Context, report: &Report, main: MainCondition) {
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
        (Some(told), Some(newest)) if Arc::ptr_eq(told, newest) => progress.receipt = None,
        (Some(_), _) => {}
    }
}

/// What to do after a fault.
pub(crate) async fn recover(object: &Id, ctx: &Context, error: Error) -> Requeue {
    count(&ctx.cluster.metrics.faults);
    match error.class() {
        // The watch tells what became of it; absence alone is no deletion.
        Class::Missing => Requeue::OnChange,
        Class::Conflict => match ctx.cluster.fetch(object).await {
            Ok(newest) => {
                let before = ctx.state().catalog.meta(object).map(|meta| meta.version);
                ctx.on_response(object.kind, newest);
                let after = ctx.state().catalog.meta(object).map(|meta| meta.version);
                if before == after {
                    Requeue::Failed
                } else {
                    Requeue::At(Instant::now())
                }
            }
            Err(error) if error.class() == Class::Missing => Requeue::OnChange,
            Err(_) => Requeue::Failed,
        },
        Class::Transient | Class::Expired | Class::Denied => {
            tracing::warn!(%object, error = error.chain(), "a request to the Kubernetes API failed");
            Requeue::Failed
        }
    }
}

/// A number for what an object claims and what is reported about it.
fn content(decision: &Decision, generation: i64) -> u64 {
    let mut hasher = DefaultHasher::new();
    generation.hash(&mut hasher);
    for zone in &decision.zones {
        zone.hash(&mut hasher);
    }
    for problem in &decision.problems {
        problem.to_string().hash(&mut hasher);
        problem.reason.hash(&mut hasher);
    }
    let parts = match &decision.next {
        NextAct::Declare(parts) => &parts[..],
        NextAct::AwaitAuthor | NextAct::WriteMetadata(_) => &[],
    };
    for (group, declaration) in parts {
        group.hash(&mut hasher);
        for claim in &declaration.claims {
            claim.zone.hash(&mut hasher);
            claim.key.hash(&mut hasher);
            claim.ttl.hash(&mut hasher);
            claim.data.hash(&mut hasher);
            claim.field.hash(&mut hasher);
        }
        "published".hash(&mut hasher);
        declaration.published.hash(&mut hasher);
        declaration.since.hash(&mut hasher);
        (declaration.adoption == Adoption::Take).hash(&mut hasher);
    }
    hasher.finish()
}

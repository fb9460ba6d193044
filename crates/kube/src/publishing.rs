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
use bindery_sources::{Decision, Id, Life, Meta, MetadataPatch, Step};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{Class, Error};
use crate::context::Context;
use crate::events::Voice;
use crate::metrics::count;
use crate::state::{Asked, Shown, State};
use crate::status::{Seen, Told, body, digest, keep_others};
use crate::work::{Visit, spread};

/// Steps of one visit: write down, declare, tell, tidy up, and once more after an edit.
pub(crate) const STEPS_MAX: usize = 8;

/// How long an object may be without a zone before its author is told for the first time.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long an object may be without any condition while the outcome is not known: people and programs
/// that wait for one are to see within a second that somebody is at work, whatever the servers do. Nearly
/// every outcome is known much sooner, so that this costs no write.
const FIRST_WORD: Duration = Duration::from_millis(700);

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) enum FirstWord {
    /// It has a condition already.
    Said,
    /// Not before this visit.
    Wait(Visit),
    /// Now.
    Due,
}

/// What is known of an object.
pub(crate) struct Observed {
    decision: Decision,
    generation: i64,
    life: Option<Life>,
    asked: Asked,
    receipt: Option<Arc<Receipt>>,
    settled: bool,
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
    Report(Box<News>),
    /// The outcome is not known yet; its author is to be told that, if nothing else was said.
    Await(Box<News>),
    /// Nothing, until something changes.
    Rest,
}

/// What there is to tell.
pub(crate) struct News {
    pub(crate) generation: i64,
    pub(crate) life: Life,
    /// The zones that it is in, with their names.
    pub(crate) zones: Vec<(Id, Name)>,
    pub(crate) problems: Vec<Problem>,
    /// What it asks for and does not get, without harm to the rest.
    pub(crate) notes: Vec<Problem>,
    pub(crate) wishes: usize,
    /// What became of its claims; `None` where they were held back.
    pub(crate) receipt: Option<Arc<Receipt>>,
    had: Box<str>,
    content: u64,
    /// The outcome is still to come.
    is_early: bool,
}

impl News {
    /// The lines that the status is to say were seen in DNS: what is served, what was before and may be
    /// still, and of what is not served now what was.
    pub(crate) fn published(&self, object: &ObjectRef) -> Option<String> {
        let mut lines: Vec<(Group, Record)> = Vec::new();
        let had = bindery_sources::meta::lines(&self.had);
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
    let free = |group: &Group, key: &RecordKey| {
        let known = progress.free();
        let found = known.binary_search_by(|(one, known)| (one, known).cmp(&(group, key)));
        found.is_ok()
    };
    let decision = state.catalog.decide(object, &free)?;
    let meta = state.catalog.meta(object);
    let zone_names = decision
        .zones
        .iter()
        .filter_map(|zone| state.catalog.zone(zone)?.name.cloned())
        .collect();
    Some(Observed {
        generation: meta.map_or(0, |meta| meta.generation),
        life: meta.map(|meta| meta.life),
        asked: progress.asked,
        receipt: progress.receipt.clone(),
        settled: progress.settled,
        had: meta.map_or_else(Box::default, |meta| meta.had_text().into()),
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
        asked,
        receipt,
        settled,
        zone_names,
        had,
    } = observed;
    let content = content(&decision, generation);
    let news = |receipt, is_early| {
        Box::new(News {
            generation,
            life: life.unwrap_or(Life::Deleting),
            zones: decision.zones.iter().cloned().zip(zone_names).collect(),
            problems: decision.problems.clone(),
            notes: decision.notes.clone(),
            wishes: decision.wishes,
            receipt,
            had,
            content,
            is_early,
        })
    };
    match (decision.step, asked) {
        (Step::Admit(patch), _) => Plan::Write(patch),
        (Step::Hold, Asked::Held(told)) if told == content => Plan::Rest,
        (Step::Hold, _) => Plan::Report(news(None, false)),
        (Step::Declare(_), Asked::Declared(declared)) if declared == content => {
            match (receipt, life) {
                // What vanished has no status; it is only waited for.
                (_, None) if settled => Plan::Forget,
                (_, None) => Plan::Rest,
                (Some(receipt), Some(_)) => Plan::Report(news(Some(receipt), false)),
                (None, Some(life)) => match &decision.settled {
                    Some(patch) if settled => Plan::Trim(patch.clone()),
                    Some(_) | None if life == Life::Deleting => Plan::Rest,
                    Some(_) | None => Plan::Await(news(None, true)),
                },
            }
        }
        (Step::Declare(parts), _) => Plan::Declare(parts, content),
    }
}

/// Carries out what is to be done, apart from telling.
///
/// Cancellation: a patch on its way is applied or not; the next visit sees which.
pub(crate) async fn apply(object: &Id, ctx: &Context, plan: Plan) -> Result<(), Error> {
    match plan {
        Plan::Forget => {
            let zones = ctx.state().forget(object);
            ctx.engine.forget(object);
            ctx.push_all(zones.iter().cloned());
        }
        Plan::Trim(patch) => {
            if let Some(lines) = patch.lines() {
                ctx.state().catalog.keep(object, lines);
            }
            let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
            ctx.see(object.kind, newest);
        }
        Plan::Write(patch) => {
            let newest = ctx.cluster.write_metadata(object, &patch.body()).await?;
            ctx.see(object.kind, newest);
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
    progress.asked = Asked::Declared(content);
    progress.receipt = None;
    progress.settled = false;
    for (group, declaration) in &mut parts {
        declaration.revision = progress.revision;
        if declaration.adoption == Adoption::Refuse {
            let site = ctx.settings.sites.get(group);
            declaration.adoption = site.map_or(Adoption::Refuse, |site| site.adoption);
        }
    }
    // Under the lock, so that declarations of one object arrive in their order.
    ctx.engine.declare(parts);
}

/// When to look again at an object that has no zone yet and was never told so: a zone that is
/// applied together with its records may arrive a moment later than they do.
pub(crate) fn patience(object: &Id, ctx: &Context, news: &News) -> Option<Visit> {
    const HOMELESS: [Reason; 3] = [
        Reason::NotSelected,
        Reason::ZoneNotFound,
        Reason::NoMatchingZone,
    ];
    let homeless = |problem: &Problem| HOMELESS.contains(&problem.reason);
    if !news.problems.iter().any(homeless) {
        return None;
    }
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if progress.memory.told.is_some() || !progress.memory.seen.is_blank() {
        return None;
    }
    let now = Instant::now();
    let until = progress.patience(now + PATIENCE);
    (now < until).then_some(Visit::At(until))
}

/// Whether an object whose outcome is not known yet is to be told so.
pub(crate) fn first_word(object: &Id, ctx: &Context) -> FirstWord {
    let mut state = ctx.state();
    let Some(progress) = state.progress.get_mut(object) else {
        return FirstWord::Said;
    };
    if progress.memory.told.is_some() || !progress.memory.seen.is_blank() {
        return FirstWord::Said;
    }
    let now = Instant::now();
    let until = progress.patience(now + FIRST_WORD);
    if now < until {
        FirstWord::Wait(Visit::At(until))
    } else {
        FirstWord::Due
    }
}

/// Writes a status if it differs from the one that stands.
///
/// Cancellation: the status is written or not; the next visit compares again.
pub(crate) async fn write_status(
    object: &Id,
    ctx: &Context,
    status: impl FnOnce(&Seen, Moment) -> Value,
) -> Result<(), Error> {
    let (mut status, wanted, has_others) = {
        let mut state = ctx.state();
        let Some(progress) = state.progress.get_mut(object) else {
            return Ok(());
        };
        let memory = &mut progress.memory;
        if progress.voice == Voice::Unknown {
            // After a start, what stands in the object is what its author knows.
            progress.voice = Voice::of(memory.seen.said(object.kind));
        }
        let status = status(&memory.seen, ctx.clock.now());
        let wanted = digest(&status);
        if !memory.differs(wanted) {
            let stored = memory.seen.digest;
            memory.told.get_or_insert(Told { wanted, stored });
            return Ok(());
        }
        memory.writing = true;
        (status, wanted, memory.seen.has_others)
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
        progress.memory.writing = false;
        progress.memory.told = written.as_ref().ok().map(|newest| Told {
            wanted,
            stored: digest(&newest.status()),
        });
    }
    ctx.see(object.kind, written?);
    if ctx.state().is_overwritten(object) {
        // Others wrote while the answer was on its way.
        ctx.push(Id::clone(object));
    }
    Ok(())
}

/// When to look again at an object whose annotation somebody else changed and that was written back a moment
/// ago.
pub(crate) fn hold_back(object: &Id, ctx: &Context) -> Option<Visit> {
    let mut state = ctx.state();
    if !state.catalog.meta(object).is_some_and(Meta::is_tampered) {
        return None;
    }
    let progress = state.progress.get_mut(object)?;
    let mended = progress.mend(Instant::now(), spread(&object.uid.to_string()));
    mended.err().map(Visit::At)
}

/// Compares what stands in the object with what was told: where others wrote over it, the engine is asked
/// again what became of the object, so that it is told anew. Returns when to look again, where that was done
/// a moment ago.
pub(crate) fn compare(object: &Id, ctx: &Context) -> Option<Visit> {
    let mut state = ctx.state();
    let progress = state.progress.get_mut(object)?;
    if !progress.is_overwritten() {
        return None;
    }
    match progress.mend(Instant::now(), spread(&object.uid.to_string())) {
        Ok(()) => {
            progress.asked = Asked::Nothing;
            None
        }
        Err(until) => Some(Visit::At(until)),
    }
}

/// Notes that an author was told, and how it looks.
pub(crate) fn told(object: &Id, ctx: &Context, news: &News, shown: Shown) {
    if news.is_early {
        return;
    }
    let mut state = ctx.state();
    forget_receipt(&mut state, object, news);
    let ids = news.zones.iter().map(|(id, _)| Id::clone(id)).collect();
    let zones = state.show(object, &ids, shown);
    drop(state);
    ctx.push_all(zones);
}

fn forget_receipt(state: &mut State, object: &Id, news: &News) {
    let Some(progress) = state.progress.get_mut(object) else {
        return;
    };
    match (&news.receipt, &progress.receipt) {
        (None, _) => progress.asked = Asked::Held(news.content),
        (Some(told), Some(newest)) if Arc::ptr_eq(told, newest) => progress.receipt = None,
        (Some(_), _) => {}
    }
}

/// What to do after a fault.
pub(crate) async fn recover(object: &Id, ctx: &Context, error: Error) -> Visit {
    count(&ctx.cluster.metrics.faults);
    match error.class() {
        // The watch tells what became of it; absence alone is no deletion.
        Class::Missing => Visit::OnChange,
        Class::Conflict => match ctx.cluster.fetch(object).await {
            Ok(newest) => {
                let before = ctx.state().catalog.meta(object).map(|meta| meta.version);
                ctx.see(object.kind, newest);
                let after = ctx.state().catalog.meta(object).map(|meta| meta.version);
                if before == after {
                    Visit::Failed
                } else {
                    Visit::At(Instant::now())
                }
            }
            Err(error) if error.class() == Class::Missing => Visit::OnChange,
            Err(_) => Visit::Failed,
        },
        Class::Transient | Class::Expired | Class::Denied => {
            tracing::warn!(%object, error = error.told(), "a request to the Kubernetes API failed");
            Visit::Failed
        }
    }
}

/// A number for what is asked and what is told about it.
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
    let parts = match &decision.step {
        Step::Declare(parts) => &parts[..],
        Step::Hold | Step::Admit(_) => &[],
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

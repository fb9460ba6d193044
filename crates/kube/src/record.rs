//! The controller of records: one for all nine kinds.

mod conditions;

pub(crate) use conditions::refusal;

use bindery_core::zones::Withdrawal;
use bindery_sources::{Id, Life};

use crate::cluster::Error;
use crate::context::Context;
use crate::events;
use crate::publishing::{self, FirstReport, Plan, Report, STEPS_MAX};
use crate::status::MainCondition;
use crate::work::Requeue;

/// Moves one record closer to its declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Requeue, Error> {
    let later = publishing::resubmit_overwritten(object, ctx);
    for _ in 0..STEPS_MAX {
        let observed = publishing::observe(object, ctx);
        match publishing::plan(observed) {
            Plan::Rest => return Ok(later.unwrap_or(Requeue::OnChange)),
            Plan::Await(news) => match publishing::first_report(object, ctx) {
                FirstReport::Done => return Ok(later.unwrap_or(Requeue::OnChange)),
                FirstReport::Wait(requeue) => return Ok(requeue),
                FirstReport::Due => report(object, ctx, &news).await?,
            },
            Plan::Report(news) => {
                if let Some(requeue) = publishing::in_grace_period(object, ctx, &news) {
                    return Ok(requeue);
                }
                report(object, ctx, &news).await?;
            }
            Plan::Forget => {
                publishing::apply(object, ctx, Plan::Forget).await?;
                return Ok(Requeue::OnChange);
            }
            plan @ (Plan::Write(_) | Plan::Trim(_)) => {
                if let Some(requeue) = publishing::tamper_backoff(object, ctx) {
                    return Ok(requeue);
                }
                publishing::apply(object, ctx, plan).await?;
            }
            plan @ Plan::Declare(..) => {
                publishing::apply(object, ctx, plan).await?;
            }
        }
    }
    Ok(Requeue::Failed)
}

/// Tells the record's author what became of it.
async fn report(object: &Id, ctx: &Context, news: &Report) -> Result<(), Error> {
    let leaving = news.life == Life::Deleting;
    let stuck = news
        .receipt
        .as_ref()
        .is_some_and(|receipt| matches!(receipt.withdrawal, Withdrawal::Failing(_)));
    let ready = conditions::ready(news);
    let main = MainCondition::of(&ready);
    // A record that goes without trouble needs no status any more.
    if !leaving || stuck {
        publishing::write_status(object, ctx, |seen, now| {
            conditions::status(object, news, &ready, (seen, now))
        })
        .await?;
        events::emit_change(object, ctx, &ready);
    }
    if let Some(receipt) = &news.receipt {
        events::emit_mended(object, ctx, &receipt.outcomes);
    }
    publishing::mark_reported(object, ctx, news, main);
    Ok(())
}

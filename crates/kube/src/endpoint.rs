//! The controller of `DNSEndpoint` objects.

mod conditions;

use bindery_core::zones::Withdrawal;
use bindery_sources::{Id, Life};

use crate::cluster::Error;
use crate::context::Context;
use crate::events;
use crate::publishing::{self, FirstWord, News, Plan, STEPS_MAX};
use crate::work::Visit;

/// Moves the endpoints of one object closer to their declaration. Safe to call at any time.
pub(crate) async fn reconcile(object: &Id, ctx: &Context) -> Result<Visit, Error> {
    let later = publishing::compare(object, ctx);
    for _ in 0..STEPS_MAX {
        let observed = publishing::observe(object, ctx);
        match publishing::plan(observed) {
            Plan::Rest => return Ok(later.unwrap_or(Visit::OnChange)),
            Plan::Await(news) => match publishing::first_word(object, ctx) {
                FirstWord::Said => return Ok(later.unwrap_or(Visit::OnChange)),
                FirstWord::Wait(visit) => return Ok(visit),
                FirstWord::Due => report(object, ctx, &news).await?,
            },
            Plan::Report(news) => {
                if let Some(visit) = publishing::patience(object, ctx, &news) {
                    return Ok(visit);
                }
                report(object, ctx, &news).await?;
            }
            Plan::Forget => {
                publishing::apply(object, ctx, Plan::Forget).await?;
                return Ok(Visit::OnChange);
            }
            plan @ (Plan::Write(_) | Plan::Trim(_)) => {
                if let Some(visit) = publishing::hold_back(object, ctx) {
                    return Ok(visit);
                }
                publishing::apply(object, ctx, plan).await?;
            }
            plan @ Plan::Declare(..) => {
                publishing::apply(object, ctx, plan).await?;
            }
        }
    }
    Ok(Visit::Failed)
}

/// Tells the author of the object what became of each endpoint.
async fn report(object: &Id, ctx: &Context, news: &News) -> Result<(), Error> {
    let leaving = news.life == Life::Deleting;
    let stuck = news
        .receipt
        .as_ref()
        .is_some_and(|receipt| matches!(receipt.withdrawal, Withdrawal::Failing(_)));
    let said = conditions::conditions(news);
    let shown = conditions::shown(&said);
    // An object that goes without trouble needs no status any more.
    if !leaving || stuck {
        publishing::write_status(object, ctx, |seen, now| {
            conditions::status(object, news, &said, (seen, now))
        })
        .await?;
        events::tell(object, ctx, conditions::main(&said));
    }
    if let Some(receipt) = &news.receipt {
        events::tell_mended(object, ctx, &receipt.outcomes);
    }
    publishing::told(object, ctx, news, shown);
    Ok(())
}

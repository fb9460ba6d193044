//! Lists and watches: every kind is read once in full and then followed.

use std::collections::BTreeSet;
use std::time::Duration;

use bindery_core::{Backoff, Failures, Kind, Uid};
use futures::StreamExt;
use kube::api::WatchEvent;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Class, Error, SILENCE_MAX, Sighted};
use crate::context::Context;
use crate::metrics::count;
use crate::work::spread;

/// How long a watch that failed waits.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(15),
};

/// How one round of following ended.
enum Round {
    /// The server ended it after some events, as servers do.
    Ended,
    /// The server ended it at once.
    Idle,
}

/// Follows one kind until `stop`.
///
/// Cancellation: nothing is lost; the next start lists again.
pub(crate) async fn watch_kind(ctx: &Context, kind: Kind, stop: &CancellationToken) {
    let mut failures = Failures::default();
    let mut version = None;
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            round = follow(ctx, kind, &mut version) => round,
        };
        let salt = spread(kind.as_str());
        let delay = match round {
            Ok(Round::Ended) => {
                failures.reset();
                continue;
            }
            Ok(Round::Idle) => failures.fail(&RETRY, salt),
            Err(error) => {
                ctx.failing().insert(kind);
                count(&ctx.cluster.metrics.faults);
                recover(ctx, kind, &error, &mut version);
                failures.fail(&RETRY, salt)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(delay) => {}
        }
    }
}

fn recover(ctx: &Context, kind: Kind, error: &Error, version: &mut Option<String>) {
    match error.class() {
        Class::Expired => {
            count(&ctx.cluster.metrics.watch_restarts);
            *version = None;
        }
        // The kind is not installed (yet), so nobody can have declared anything of it.
        Class::Missing if version.is_none() => ctx.mark_synced(kind),
        Class::Missing | Class::Transient | Class::Conflict | Class::Denied => {
            let error: &dyn std::error::Error = error;
            tracing::warn!(
                kind = kind.as_str(),
                error,
                "a watch failed and begins again"
            );
        }
    }
}

async fn follow(ctx: &Context, kind: Kind, version: &mut Option<String>) -> Result<Round, Error> {
    let from = if let Some(from) = version {
        from.clone()
    } else {
        let listed = list(ctx, kind).await?;
        *version = Some(listed.clone());
        ctx.hear(kind);
        ctx.mark_synced(kind);
        listed
    };
    let mut events = ctx.cluster.watch_from(kind, &from).await?;
    ctx.failing().remove(&kind);
    let mut round = Round::Idle;
    loop {
        // A connection that died without a word is as good as ended.
        let event = match tokio::time::timeout(SILENCE_MAX, events.next()).await {
            Ok(Some(event)) => event?,
            Ok(None) | Err(_) => return Ok(round),
        };
        if !matches!(event, WatchEvent::Error(_)) {
            ctx.hear(kind);
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                note(version, &object);
                ctx.discover(kind, object);
            }
            WatchEvent::Deleted(object) => {
                note(version, &object);
                ctx.lose(kind, &object);
            }
            WatchEvent::Bookmark(bookmark) => {
                *version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => {
                let source = kube::Error::Api(status);
                return Err(Error::Watch { kind, source });
            }
        }
        round = Round::Ended;
    }
}

/// Reads everything of a kind; what is not there any more is gone.
async fn list(ctx: &Context, kind: Kind) -> Result<String, Error> {
    let mut uids: BTreeSet<Uid> = BTreeSet::new();
    let mut token: Option<String> = None;
    loop {
        let page = ctx.cluster.fetch_page(kind, token.as_deref()).await?;
        for object in page.items {
            uids.extend(object.metadata.uid.as_deref().map(Uid::from));
            ctx.discover(kind, object);
        }
        token = page.next;
        if token.is_none() {
            ctx.keep_only(kind, &uids);
            return Ok(page.version);
        }
    }
}

fn note(version: &mut Option<String>, object: &Sighted) {
    if let Some(seen) = &object.metadata.resource_version {
        *version = Some(seen.clone());
    }
}

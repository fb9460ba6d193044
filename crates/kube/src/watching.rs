//! Lists and watches: every kind is read once in full and then followed.

use std::collections::BTreeSet;
use std::time::Duration;

use bindery_api::RawObject;
use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures, Uid};
use futures::StreamExt;
use kube::api::WatchEvent;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Class, Error, SILENCE_MAX, Watched};
use crate::context::Context;
use crate::metrics::count;

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

/// How far what is watched was followed.
#[derive(Default)]
struct Position {
    /// From where to go on; none before everything was read.
    version: Option<String>,
    /// What was last said of why it cannot be followed.
    warned: Option<Class>,
}

/// Follows all objects of a kind, or those of a namespace, until `stop`.
///
/// Cancellation: nothing is lost; the next start lists again.
pub(crate) async fn watch(ctx: &Context, watched: &Watched, stop: &CancellationToken) {
    let mut failures = Failures::default();
    let mut position = Position::default();
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            round = follow(ctx, watched, &mut position) => round,
        };
        let salt = jitter_seed(watched.kind.as_str().as_bytes());
        let delay = match round {
            Ok(Round::Ended) => {
                failures.reset();
                continue;
            }
            Ok(Round::Idle) => failures.fail(&RETRY, salt),
            Err(error) => {
                ctx.failing().insert(watched.clone());
                count(&ctx.cluster.metrics.faults);
                recover(ctx, watched, &error, &mut position);
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

fn recover(ctx: &Context, watched: &Watched, error: &Error, position: &mut Position) {
    let class = error.class();
    match class {
        Class::Expired => {
            count(&ctx.cluster.metrics.watch_restarts);
            position.version = None;
        }
        // The kind is not installed (yet), so nobody can have declared anything of it.
        Class::Missing if position.version.is_none() => ctx.mark_synced(watched),
        Class::Missing | Class::Transient | Class::Conflict | Class::Denied | Class::Fenced => {
            // A fault that stays is told once.
            if position.warned.replace(class) != Some(class) {
                tracing::warn!(
                    kind = watched.kind.as_str(),
                    namespace = watched.namespace.as_deref(),
                    error = error.chain(),
                    "objects cannot be watched; it is tried again"
                );
            }
        }
    }
}

async fn follow(ctx: &Context, watched: &Watched, position: &mut Position) -> Result<Round, Error> {
    let from = if let Some(from) = &position.version {
        from.clone()
    } else {
        let listed = list(ctx, watched).await?;
        position.version = Some(listed.clone());
        ctx.touch(watched);
        ctx.mark_synced(watched);
        listed
    };
    let kind = watched.kind;
    let mut events = ctx.cluster.watch_from(watched, &from).await?;
    ctx.failing().remove(watched);
    if position.warned.take().is_some() {
        let namespace = watched.namespace.as_deref();
        tracing::info!(kind = kind.as_str(), namespace, "objects are watched again");
    }
    let mut round = Round::Idle;
    loop {
        // A connection that died without a word is as good as ended.
        let event = match tokio::time::timeout(SILENCE_MAX, events.next()).await {
            Ok(Some(event)) => event?,
            Ok(None) | Err(_) => return Ok(round),
        };
        if !matches!(event, WatchEvent::Error(_)) {
            ctx.touch(watched);
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                note(&mut position.version, &object);
                ctx.on_event(kind, &object);
            }
            WatchEvent::Deleted(object) => {
                note(&mut position.version, &object);
                ctx.on_delete(kind, &object);
            }
            WatchEvent::Bookmark(bookmark) => {
                position.version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => {
                let source = kube::Error::Api(status);
                return Err(Error::Watch { kind, source });
            }
        }
        round = Round::Ended;
    }
}

/// Reads everything of what is watched; what is not there any more is gone.
async fn list(ctx: &Context, watched: &Watched) -> Result<String, Error> {
    let mut uids: BTreeSet<Uid> = BTreeSet::new();
    let mut token: Option<String> = None;
    loop {
        let page = ctx.cluster.fetch_page(watched, token.as_deref()).await?;
        for object in page.items {
            uids.extend(object.metadata.uid.as_deref().map(Uid::from));
            ctx.on_event(watched.kind, &object);
        }
        token = page.next;
        if token.is_none() {
            ctx.on_relist(watched, &uids);
            return Ok(page.version);
        }
    }
}

fn note(version: &mut Option<String>, object: &RawObject) {
    if let Some(seen) = &object.metadata.resource_version {
        *version = Some(seen.clone());
    }
}

//! Lists and watches of the objects of clusters.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use tokio_util::sync::CancellationToken;

use super::store::{ObjectPlace, Sort};
use super::{ServerContext, fleet};

const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(15),
};
/// How long the server is asked to keep a watch, in seconds.
const WATCH_SECONDS: u32 = 290;
/// A connection that died without a word is as good as ended.
const SILENCE_MAX: Duration = Duration::from_secs(330);
const PAGE_LEN: u32 = 500;

/// Follows everything until `stop`.
///
/// Cancellation: nothing is lost; the next start lists again.
pub(super) async fn watch_all(shared: Arc<ServerContext>, stop: CancellationToken) {
    let namespaces: Vec<Option<Arc<str>>> = if shared.settings.namespaces.is_empty() {
        vec![None]
    } else {
        shared
            .settings
            .namespaces
            .iter()
            .cloned()
            .map(Some)
            .collect()
    };
    // Where only some namespaces are looked at, nothing outside of them is asked for.
    let is_wide = shared.settings.namespaces.is_empty();
    let watched: BTreeSet<(Sort, Option<Arc<str>>)> = Sort::ALL
        .into_iter()
        .filter(|sort| is_wide || !sort.is_cluster_wide())
        .flat_map(|sort| {
            let namespaces = namespaces.clone().into_iter();
            namespaces.map(move |namespace| (sort, namespace.filter(|_| !sort.is_cluster_wide())))
        })
        .collect();
    let unread = Mutex::new(watched.clone());
    let all: FuturesUnordered<_> = watched
        .iter()
        .map(|(sort, namespace)| {
            let (shared, unread, stop) = (&shared, &unread, &stop);
            let read = move || {
                let mut unread = unread.lock().unwrap_or_else(PoisonError::into_inner);
                unread.remove(&(*sort, namespace.clone()));
                if unread.is_empty() {
                    shared.synced.send_replace(true);
                }
            };
            watch(shared, *sort, namespace.as_deref(), read, stop)
        })
        .collect();
    all.collect::<()>().await;
}

async fn watch(
    shared: &ServerContext,
    sort: Sort,
    namespace: Option<&str>,
    read: impl Fn(),
    stop: &CancellationToken,
) {
    let mut failures = Failures::default();
    let mut version: Option<String> = None;
    let mut told = false;
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            round = follow(shared, (sort, namespace), &mut version, &read) => round,
        };
        let salt = jitter_seed(sort.kind().0.as_bytes());
        let delay = match round {
            Ok(()) => {
                failures.reset();
                told = false;
                Duration::from_millis(50)
            }
            Err(error) => {
                let code = if let kube::Error::Api(status) = &error {
                    status.code
                } else {
                    0
                };
                if code == 410 {
                    version = None;
                }
                if matches!(code, 403 | 404) && version.is_none() {
                    // The kind is not there, so nobody can have declared any; or it is not ours to see.
                    read();
                }
                if code != 404 && code != 410 && !told {
                    told = true;
                    let kind = sort.kind().0;
                    tracing::warn!(kind, %error, "objects cannot be watched; it is tried again");
                }
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

/// Reads everything of a sort; what is not there any more is gone.
async fn list(
    shared: &ServerContext,
    (sort, namespace): (Sort, Option<&str>),
) -> Result<Option<String>, kube::Error> {
    let api = shared.api.of(sort, namespace);
    let mut params = ListParams::default().limit(PAGE_LEN);
    params.label_selector = sort.selector();
    let mut places = BTreeSet::new();
    loop {
        let page = api.list(&params).await?;
        for object in page.items {
            places.insert(ObjectPlace::of(&object));
            take(shared, sort, object);
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            let gone = shared.store().keep(sort, namespace, &places);
            shared.touch(gone);
            return Ok(page.metadata.resource_version);
        }
    }
}

async fn follow(
    shared: &ServerContext,
    (sort, namespace): (Sort, Option<&str>),
    version: &mut Option<String>,
    read: impl Fn(),
) -> Result<(), kube::Error> {
    let api = shared.api.of(sort, namespace);
    let from = if let Some(from) = version {
        from.clone()
    } else {
        let listed = list(shared, (sort, namespace)).await?;
        version.clone_from(&listed);
        read();
        listed.unwrap_or_default()
    };
    let params = WatchParams {
        label_selector: sort.selector(),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let mut events = api.watch(&params, &from).await?.boxed();
    while let Ok(Some(event)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version.clone_from(&object.metadata.resource_version);
                take(shared, sort, object);
            }
            WatchEvent::Deleted(object) => {
                version.clone_from(&object.metadata.resource_version);
                let keys = shared.store().drop_object(sort, &object);
                shared.touch(keys);
            }
            WatchEvent::Bookmark(bookmark) => {
                *version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

/// Takes in an object, from a watch or as the answer to a write.
pub(super) fn take(shared: &ServerContext, sort: Sort, mut object: DynamicObject) {
    if sort == Sort::Zone {
        fleet::select(shared, &object);
        return;
    }
    object.metadata.managed_fields = None;
    let keys = shared.store().put(sort, object);
    shared.touch(keys);
}

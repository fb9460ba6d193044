//! Objects of one kind, read once in full and then followed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures};
use futures::StreamExt;
use kube::Resource;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::request::{FaultClass, RequestFault, in_time};

/// How long a watch that failed waits.
const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(15),
};

/// Seconds after which the server ends a watch, so that a connection that died is noticed.
const WATCH_SECONDS: u32 = 290;

/// How long a watch may be silent: a little longer than the server lets it live.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// Objects in one page of a list.
const PAGE_LEN: u32 = 500;

/// Namespace and name.
pub(crate) type NamespacedName = (String, String);

/// What a kind must be to be followed.
pub(crate) trait Follow:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Follow for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The objects of a kind as the API last told them.
pub(crate) struct Followed<K> {
    kind: &'static str,
    objects: Mutex<BTreeMap<NamespacedName, Arc<K>>>,
    /// Counts changes; before the first whole list nothing is known.
    changes: watch::Sender<FollowedState>,
}

/// How often objects changed, and whether all of them are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FollowedState {
    count: u64,
    pub(crate) is_synced: bool,
}

impl<K: Follow> Followed<K> {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            objects: Mutex::default(),
            changes: watch::Sender::new(FollowedState::default()),
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lock().get(&key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().values().cloned().collect()
    }

    /// Tells of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<FollowedState> {
        self.changes.subscribe()
    }

    /// Those of a namespace whose names begin so; only they are looked at.
    pub(crate) fn beginning_with(&self, namespace: &str, prefix: &str) -> Vec<Arc<K>> {
        let from = (namespace.to_owned(), prefix.to_owned());
        let held = self.lock();
        held.range(from..)
            .take_while(|((held, name), _)| held == namespace && name.starts_with(prefix))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.changes.borrow().is_synced
    }

    /// Follows the objects until `stop`; `seen` hears of each that came, changed or went.
    ///
    /// Cancellation: nothing is lost; the next call lists again.
    pub(crate) async fn follow(
        &self,
        api: Api<K>,
        selector: Option<&str>,
        stop: &CancellationToken,
        seen: impl Fn(&K),
    ) {
        let mut failures = Failures::default();
        let mut version = None;
        let mut warned = None;
        loop {
            let round = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                round = self.round(&api, selector, &mut version, &seen) => round,
            };
            let salt = jitter_seed(self.kind.as_bytes());
            let delay = match round {
                Ok(()) => {
                    failures.reset();
                    warned = None;
                    RETRY.first
                }
                Err(error) => {
                    let class = error.class();
                    if class == FaultClass::Expired {
                        version = None;
                    } else if warned.replace(class) != Some(class) {
                        let error = error.chain();
                        tracing::warn!(kind = self.kind, error, "objects cannot be watched");
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

    async fn round(
        &self,
        api: &Api<K>,
        selector: Option<&str>,
        version: &mut Option<String>,
        seen: &impl Fn(&K),
    ) -> Result<(), RequestFault> {
        let from = match version.clone() {
            Some(from) => from,
            None => self.list(api, selector, seen).await?,
        };
        *version = Some(from.clone());
        let params = WatchParams {
            label_selector: selector.map(str::to_owned),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let kind = self.kind;
        let wrap = |source| RequestFault::Watch { kind, source };
        let events = in_time(kind, api.watch(&params, &from), wrap).await?;
        let mut events = std::pin::pin!(events);
        loop {
            let event = match tokio::time::timeout(SILENCE_MAX, events.next()).await {
                Ok(Some(event)) => event.map_err(|source| wrap(Box::new(source)))?,
                // A connection that died without a word is as good as ended.
                Ok(None) | Err(_) => return Ok(()),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *version = object
                        .meta()
                        .resource_version
                        .clone()
                        .or_else(|| version.take());
                    seen(&self.put(object));
                }
                WatchEvent::Deleted(object) => {
                    *version = object
                        .meta()
                        .resource_version
                        .clone()
                        .or_else(|| version.take());
                    self.lock().remove(&key(&object));
                    self.count();
                    seen(&object);
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = Some(bookmark.metadata.resource_version);
                }
                WatchEvent::Error(status) => return Err(wrap(Box::new(kube::Error::Api(status)))),
            }
        }
    }

    async fn list(
        &self,
        api: &Api<K>,
        selector: Option<&str>,
        seen: &impl Fn(&K),
    ) -> Result<String, RequestFault> {
        let kind = self.kind;
        let mut listed = BTreeMap::new();
        let mut params = ListParams::default().limit(PAGE_LEN);
        params.label_selector = selector.map(str::to_owned);
        let version = loop {
            let wrap = |source| RequestFault::List { kind, source };
            let page = in_time(kind, api.list(&params), wrap).await?;
            listed.extend(page.items.into_iter().map(|one| (key(&one), Arc::new(one))));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break page.metadata.resource_version.unwrap_or_default();
            }
        };
        let before = std::mem::replace(&mut *self.lock(), listed.clone());
        self.changes.send_modify(|changes| {
            changes.count += 1;
            changes.is_synced = true;
        });
        for (key, gone) in before {
            if !listed.contains_key(&key) {
                seen(&gone);
            }
        }
        for object in listed.values() {
            seen(object);
        }
        Ok(version)
    }

    fn put(&self, object: K) -> Arc<K> {
        let object = Arc::new(object);
        self.lock().insert(key(&*object), Arc::clone(&object));
        self.count();
        object
    }

    fn count(&self) {
        self.changes.send_modify(|changes| changes.count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Arc<K>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespace and name of an object.
pub(crate) fn key<K: Resource>(object: &K) -> NamespacedName {
    let meta = object.meta();
    let namespace = meta.namespace.clone().unwrap_or_default();
    (namespace, meta.name.clone().unwrap_or_default())
}

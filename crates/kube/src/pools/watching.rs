//! Lists and watches address pools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bindery_api::AddressPool;
use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures};
use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use super::Declared;

const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(15),
};
/// How long the server is asked to keep a watch, in seconds.
const WATCH_SECONDS: u32 = 290;
/// A connection that died without a word is as good as ended.
const SILENCE_MAX: Duration = Duration::from_secs(330);

/// Follows all pools for ever. Nothing is said before they were listed, and a list that fails takes nothing away.
///
/// Cancellation: nothing is lost; the next start lists again.
pub(super) async fn watch_pools(client: &Client, declared: &watch::Sender<Declared>) {
    let api: Api<AddressPool> = Api::all(client.clone());
    let mut failures = Failures::default();
    let mut told = false;
    loop {
        let delay = match follow(&api, declared).await {
            Ok(()) => {
                failures.reset();
                told = false;
                Duration::from_millis(50)
            }
            Err(error) => {
                let is_outdated = matches!(&error, kube::Error::Api(status) if status.code == 410);
                if !is_outdated && !told {
                    told = true;
                    tracing::warn!(kind = "AddressPool", %error, "objects cannot be watched; it is tried again");
                }
                failures.fail(&RETRY, jitter_seed(b"AddressPool"))
            }
        };
        tokio::time::sleep(delay).await;
    }
}

async fn follow(
    api: &Api<AddressPool>,
    declared: &watch::Sender<Declared>,
) -> Result<(), kube::Error> {
    let listed = api.list(&ListParams::default()).await?;
    let mut version = listed.metadata.resource_version.unwrap_or_default();
    let pools: BTreeMap<String, Arc<AddressPool>> = listed
        .items
        .into_iter()
        .map(|pool| (pool.name_any(), Arc::new(pool)))
        .collect();
    declared.send_if_modified(|known| {
        let is_new = known.as_ref() != Some(&pools);
        *known = Some(pools);
        is_new
    });
    let params = WatchParams {
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let mut events = api.watch(&params, &version).await?.boxed();
    while let Ok(Some(event)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
        let change = |put: Option<AddressPool>, name: String| {
            declared.send_modify(|known| {
                let known = known.get_or_insert_default();
                match put {
                    Some(pool) => known.insert(name, Arc::new(pool)),
                    None => known.remove(&name),
                };
            });
        };
        match event? {
            WatchEvent::Added(pool) | WatchEvent::Modified(pool) => {
                version = pool.resource_version().unwrap_or(version);
                let name = pool.name_any();
                change(Some(pool), name);
            }
            WatchEvent::Deleted(pool) => change(None, pool.name_any()),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

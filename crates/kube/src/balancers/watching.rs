//! Lists and watches of what load balancers are made of.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bindery_api::DnsEndpoint;
use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Failures};
use bindery_sources::balancers::{EGRESS_LABEL, EgressPod, node_addresses, slice_group, slice_key};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{BalancerContext, BalancerObject, names, pod, service};

const RETRY: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(15),
};
/// How long the server is asked to keep a watch, in seconds.
const WATCH_SECONDS: u32 = 290;
/// A connection that died without a word is as good as ended.
const SILENCE_MAX: Duration = Duration::from_secs(330);
const PAGE_LEN: u32 = 500;

/// Namespace and name.
type Place = (Arc<str>, Arc<str>);

/// A kind that is followed.
trait Source:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
    const KIND: &'static str;
    /// Which of its objects are looked at.
    const SELECTOR: Option<&'static str> = None;

    /// An object is there, or changed.
    fn take(shared: &BalancerContext, place: &Place, object: Self);

    /// An object is gone, or does not match any more; with the version at which it was so.
    fn lose(shared: &BalancerContext, place: &Place, version: Option<String>);

    /// Everything that is looked at was listed: takes in what else concerns us.
    fn complete(_shared: &BalancerContext) -> impl Future<Output = Result<(), kube::Error>> + Send {
        std::future::ready(Ok(()))
    }
}

impl Source for Service {
    const KIND: &'static str = "Service";

    fn take(shared: &BalancerContext, (namespace, name): &Place, object: Self) {
        let place = BalancerObject::Service(Arc::clone(namespace), Arc::clone(name));
        service::take(shared, &place, object);
    }

    fn lose(shared: &BalancerContext, (namespace, name): &Place, _: Option<String>) {
        let place = BalancerObject::Service(Arc::clone(namespace), Arc::clone(name));
        service::lose(shared, &place);
    }
}

impl Source for EndpointSlice {
    const KIND: &'static str = "EndpointSlice";

    fn take(shared: &BalancerContext, _: &Place, object: Self) {
        let (key, group) = (slice_key(&object), slice_group(&object));
        shared.engine.set_endpoints(key, group);
    }

    fn lose(shared: &BalancerContext, (namespace, name): &Place, _: Option<String>) {
        let key =
            bindery_core::balancers::EndpointsKey::Slice(Arc::clone(namespace), Arc::clone(name));
        shared.engine.set_endpoints(key, None);
    }
}

impl Source for Node {
    const KIND: &'static str = "Node";

    fn take(shared: &BalancerContext, (_, name): &Place, object: Self) {
        let addresses = node_addresses(&object);
        shared.engine.set_node(Arc::clone(name), addresses);
    }

    fn lose(shared: &BalancerContext, (_, name): &Place, _: Option<String>) {
        shared.engine.set_node(Arc::clone(name), Vec::new());
    }
}

impl Source for Pod {
    const KIND: &'static str = "Pod";
    const SELECTOR: Option<&'static str> = Some(EGRESS_LABEL);

    fn take(shared: &BalancerContext, (namespace, name): &Place, object: Self) {
        let place = BalancerObject::Pod(Arc::clone(namespace), Arc::clone(name));
        pod::take(shared, &place, object);
    }

    fn lose(shared: &BalancerContext, (namespace, name): &Place, version: Option<String>) {
        let place = BalancerObject::Pod(Arc::clone(namespace), Arc::clone(name));
        pod::lose(shared, &place, version);
    }

    /// Pods that lost their label while nobody looked still have our finalizer.
    async fn complete(shared: &BalancerContext) -> Result<(), kube::Error> {
        let api = shared.api.all::<Self>();
        let without = format!("!{EGRESS_LABEL}");
        let mut params = ListParams::default().limit(PAGE_LEN).labels(&without);
        loop {
            let page = api.list_metadata(&params).await?;
            for one in page.items {
                let finalizers = one.metadata.finalizers.iter().flatten();
                let is_kept = finalizers
                    .into_iter()
                    .any(|one| one == EgressPod::FINALIZER);
                let (Some(namespace), true) = (&one.metadata.namespace, is_kept) else {
                    continue;
                };
                let name = one.name_any();
                let place = BalancerObject::Pod(namespace.as_str().into(), name.as_str().into());
                if let Some(object) = shared.api.pods(namespace).get_opt(&name).await? {
                    pod::take_stray(shared, &place, object);
                }
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(());
            }
        }
    }
}

/// Names of Services: what others do to them is put right.
impl Source for DnsEndpoint {
    const KIND: &'static str = "DNSEndpoint";
    const SELECTOR: Option<&'static str> = Some(names::SELECTOR);

    fn take(shared: &BalancerContext, (namespace, _): &Place, object: Self) {
        let owners = object.metadata.owner_references.unwrap_or_default();
        for owner in owners.iter().filter(|owner| owner.kind == "Service") {
            let name = owner.name.as_str().into();
            let place = BalancerObject::Service(Arc::clone(namespace), name);
            shared.queue.push(place);
        }
    }

    fn lose(shared: &BalancerContext, (namespace, name): &Place, _: Option<String>) {
        if let Some(service) = names::service_name(name) {
            let place = BalancerObject::Service(Arc::clone(namespace), service.into());
            shared.queue.push(place);
        }
    }
}

/// Follows everything until `stop`. Names are not waited for: their definition may be missing.
///
/// Cancellation: nothing is lost; the next start lists again.
pub(super) async fn watch_all(shared: Arc<BalancerContext>, stop: CancellationToken) {
    let kinds = [Service::KIND, EndpointSlice::KIND, Node::KIND, Pod::KIND];
    let unread = Mutex::new(BTreeSet::from(kinds));
    let read = |kind: &'static str| {
        let mut unread = unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.remove(kind);
        if unread.is_empty() {
            shared.synced.send_replace(true);
        }
    };
    tokio::join!(
        watch::<Service>(&shared, &read, &stop),
        watch::<EndpointSlice>(&shared, &read, &stop),
        watch::<Node>(&shared, &read, &stop),
        watch::<Pod>(&shared, &read, &stop),
        watch::<DnsEndpoint>(&shared, &read, &stop),
    );
}

/// What one watch remembers from one connection to the next.
#[derive(Default)]
struct Followed {
    version: Option<String>,
    places: BTreeSet<Place>,
}

async fn watch<K: Source>(
    shared: &BalancerContext,
    read: &impl Fn(&'static str),
    stop: &CancellationToken,
) {
    let mut failures = Failures::default();
    let mut followed = Followed::default();
    let mut told = false;
    loop {
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            round = follow::<K>(shared, &mut followed, read) => round,
        };
        let delay = match round {
            Ok(()) => {
                failures.reset();
                told = false;
                Duration::from_millis(50)
            }
            Err(error) => {
                if matches!(&error, kube::Error::Api(status) if status.code == 410) {
                    followed.version = None;
                } else if !told {
                    told = true;
                    tracing::warn!(kind = K::KIND, %error, "objects cannot be watched; it is tried again");
                }
                failures.fail(&RETRY, jitter_seed(K::KIND.as_bytes()))
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Reads everything of a kind; what is not there any more is gone.
async fn list<K: Source>(
    shared: &BalancerContext,
    followed: &mut Followed,
) -> Result<(), kube::Error> {
    let api = shared.api.all::<K>();
    let mut params = ListParams::default().limit(PAGE_LEN);
    params.label_selector = K::SELECTOR.map(str::to_owned);
    let mut places = BTreeSet::new();
    loop {
        let page = api.list(&params).await?;
        for object in page.items {
            let place = place(&object);
            K::take(shared, &place, object);
            places.insert(place);
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            for gone in followed.places.difference(&places) {
                K::lose(shared, gone, None);
            }
            followed.places = places;
            let version = page.metadata.resource_version;
            K::complete(shared).await?;
            followed.version = version;
            return Ok(());
        }
    }
}

async fn follow<K: Source>(
    shared: &BalancerContext,
    followed: &mut Followed,
    read: &impl Fn(&'static str),
) -> Result<(), kube::Error> {
    if followed.version.is_none() {
        list::<K>(shared, followed).await?;
        read(K::KIND);
    }
    let from = followed.version.clone().unwrap_or_default();
    let params = WatchParams {
        label_selector: K::SELECTOR.map(str::to_owned),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let mut events = shared.api.all::<K>().watch(&params, &from).await?.boxed();
    while let Ok(Some(event)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                followed.version = object.resource_version();
                let place = place(&object);
                K::take(shared, &place, object);
                followed.places.insert(place);
            }
            WatchEvent::Deleted(object) => {
                followed.version = object.resource_version();
                let place = place(&object);
                K::lose(shared, &place, object.resource_version());
                followed.places.remove(&place);
            }
            WatchEvent::Bookmark(bookmark) => {
                followed.version = Some(bookmark.metadata.resource_version);
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(())
}

fn place<K: Source>(object: &K) -> Place {
    let namespace = object.namespace().unwrap_or_default();
    (namespace.into(), object.name_any().into())
}

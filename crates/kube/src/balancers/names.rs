//! The names of a Service and its address as one transaction: a name is published when the address carries
//! traffic, and is gone from DNS, and from caches, before the address is.
//!
//! The names are an object of their own, a `DNSEndpoint` beside the Service, which takes the one path that
//! everything takes to a name server. Before it is made, the Service's annotation [`PUBLISHED`] has the TTL;
//! after it is gone, [`WITHDRAWN`] has since when. Both are on the Service, so that a crash at any
//! point loses neither.

use std::time::Duration;

use bindery_engine::work::Requeue;
use bindery_sources::balancers::{NAMES_ANNOTATION as PUBLISHED, ServiceNames, service_names};
use k8s_openapi::api::core::v1::Service;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::{BalancerApiError, parts};
use super::service::ObservedService;
use super::{BalancerContext, BalancerObject};

/// The annotation of a Service whose names left DNS: when, in seconds since 1970.
const WITHDRAWN: &str = "bindery.dev/names-withdrawn";

/// The objects that have names of Services.
pub(super) const SELECTOR: &str = "app.kubernetes.io/managed-by=bindery";

const OBJECT_PREFIX: &str = "service-";

/// How long caches are waited for at most, whatever the TTL is.
const CACHED_MAX: Duration = Duration::from_mins(5);

/// How soon it is looked again whether names are gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How soon it is looked again whether somebody else gave up the name of the object.
const LOOK_LATER: Duration = Duration::from_secs(30);

/// How far names are from being gone.
pub(super) enum NamesLeft {
    /// None is in DNS, nor in a cache that keeps to its TTL.
    Done,
    /// Some may be.
    Waits(Requeue),
}

/// Publishes the names of a Service whose address carries traffic, keeps them true, and takes them back where
/// its author does.
///
/// Cancellation: each write is done or not; the next round finds out.
pub(super) async fn publish(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<Requeue, BalancerApiError> {
    let object = &*observed.object;
    let is_published = annotation(object, PUBLISHED).is_some();
    let Some(names) = service_names(object) else {
        if is_published {
            return take_back(shared, place, observed).await;
        }
        return Ok(Requeue::OnChange);
    };
    let Some(report) = &observed.report else {
        return Ok(Requeue::OnChange);
    };
    let has_front = !report.frontage.addresses.is_empty() || report.frontage.hostname.is_some();
    // What was published once stays while its endpoints come and go.
    if !(report.carries_traffic() || is_published && has_front) {
        return Ok(Requeue::OnChange);
    }
    let ttl = names.ttl.to_string();
    if annotation(object, PUBLISHED) != Some(&ttl) || annotation(object, WITHDRAWN).is_some() {
        let annotations = json!({PUBLISHED: ttl, WITHDRAWN: null});
        write_annotations(shared, place, object, &annotations).await?;
        // The watch tells when it stands.
        return Ok(Requeue::OnChange);
    }
    let frontage = &report.frontage;
    let mut targets: Vec<String> = frontage.addresses.iter().map(ToString::to_string).collect();
    targets.extend(frontage.hostname.as_ref().map(ToString::to_string));
    let wanted = spec(&names, targets);
    let name = object_name(place);
    let stands = shared.api.fetch_names(place, &name).await?;
    let uid = object.metadata.uid.as_deref();
    let is_going = |one: &DynamicObject| one.metadata.deletion_timestamp.is_some();
    if let Some(taken) = stands.as_ref().filter(|one| !is_of(one, uid)) {
        let wait = if is_going(taken) {
            LOOK_AGAIN
        } else {
            tracing::warn!(
                ?place,
                name,
                "a DNSEndpoint of others has the name for that of a Service"
            );
            LOOK_LATER
        };
        return Ok(Requeue::At(Instant::now() + wait));
    }
    if stands.as_ref().is_some_and(is_going) {
        return Ok(Requeue::At(Instant::now() + LOOK_AGAIN));
    }
    if stands.is_none_or(|one| one.data["spec"] != wanted) {
        let body = dns_endpoint(place, object, &wanted);
        shared.api.write_names(place, &name, &body).await?;
    }
    Ok(Requeue::OnChange)
}

/// Takes the names of a Service back that is about to lose its address.
///
/// Cancellation: each write is done or not; the next round finds out.
pub(super) async fn withdraw(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<NamesLeft, BalancerApiError> {
    let object = &*observed.object;
    let Some(ttl) = annotation(object, PUBLISHED) else {
        return Ok(NamesLeft::Done);
    };
    if !remove(shared, place, object.metadata.uid.as_deref()).await? {
        let again = Requeue::At(Instant::now() + LOOK_AGAIN);
        return Ok(NamesLeft::Waits(again));
    }
    let now = shared.clock.now().0;
    let since = annotation(object, WITHDRAWN).and_then(|text| text.parse::<i64>().ok());
    let Some(since) = since else {
        let annotations = json!({WITHDRAWN: now.to_string()});
        write_annotations(shared, place, object, &annotations).await?;
        return Ok(NamesLeft::Waits(Requeue::OnChange));
    };
    let cached = Duration::from_secs(ttl.parse().unwrap_or_default()).min(CACHED_MAX);
    let passed = u64::try_from(now.saturating_sub(since)).unwrap_or_default();
    let left = cached.saturating_sub(Duration::from_secs(passed));
    if left.is_zero() {
        return Ok(NamesLeft::Done);
    }
    let again = Requeue::At(Instant::now() + left);
    Ok(NamesLeft::Waits(again))
}

/// Takes back the names of a Service that somebody took away past our finalizer.
///
/// Cancellation: it is done or not; the next round finds out.
pub(super) async fn sweep(
    shared: &BalancerContext,
    place: &BalancerObject,
    uid: &str,
) -> Result<Requeue, BalancerApiError> {
    if !remove(shared, place, Some(uid)).await? {
        return Ok(Requeue::At(Instant::now() + LOOK_AGAIN));
    }
    shared.seen().forget_left(place);
    // Another Service of the name may wait.
    shared.queue.push(place.clone());
    Ok(Requeue::OnChange)
}

/// Whether names of a Service are, or may be, in DNS.
pub(super) fn is_published(object: &Service) -> bool {
    annotation(object, PUBLISHED).is_some()
}

/// Deletes the object that has a Service's names, if it is that Service's; says whether it is gone.
async fn remove(
    shared: &BalancerContext,
    place: &BalancerObject,
    uid: Option<&str>,
) -> Result<bool, BalancerApiError> {
    let name = object_name(place);
    let stands = shared.api.fetch_names(place, &name).await?;
    let Some(stands) = stands.filter(|one| is_of(one, uid)) else {
        return Ok(true);
    };
    if stands.metadata.deletion_timestamp.is_none() {
        shared.api.write_names_away(place, &name).await?;
    }
    Ok(false)
}

/// Whether an object has the names of the Service with this UID.
fn is_of(names: &DynamicObject, uid: Option<&str>) -> bool {
    let mut owners = names.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Service" && Some(owner.uid.as_str()) == uid)
}

/// What is forgotten with the balancer.
pub(super) fn forgotten() -> Value {
    json!({PUBLISHED: null, WITHDRAWN: null})
}

/// The author takes the names back and keeps the address: nobody has to wait for caches.
async fn take_back(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<Requeue, BalancerApiError> {
    let uid = observed.object.metadata.uid.as_deref();
    if !remove(shared, place, uid).await? {
        return Ok(Requeue::At(Instant::now() + LOOK_AGAIN));
    }
    write_annotations(shared, place, &observed.object, &forgotten()).await?;
    Ok(Requeue::OnChange)
}

async fn write_annotations(
    shared: &BalancerContext,
    place: &BalancerObject,
    object: &Service,
    annotations: &Value,
) -> Result<(), BalancerApiError> {
    let body = json!({"metadata": {"uid": object.metadata.uid, "annotations": annotations}});
    shared.api.write_metadata::<Service>(place, &body).await
}

fn annotation<'a>(object: &'a Service, key: &str) -> Option<&'a String> {
    object.metadata.annotations.as_ref()?.get(key)
}

/// The name of the object that has a Service's names.
fn object_name(place: &BalancerObject) -> String {
    format!("{OBJECT_PREFIX}{}", parts(place).1)
}

/// The Service whose names an object with this name has.
pub(super) fn service_name(object: &str) -> Option<&str> {
    object.strip_prefix(OBJECT_PREFIX)
}

fn spec(names: &ServiceNames, found: Vec<String>) -> Value {
    let targets = if names.targets.is_empty() {
        found
    } else {
        names.targets.clone()
    };
    let of_type = |record_type: &str| -> Vec<&String> {
        let is_of_type = |target: &&String| record_type_of(target) == record_type;
        targets.iter().filter(is_of_type).collect()
    };
    let mut endpoints = Vec::new();
    for hostname in &names.hostnames {
        for record_type in ["A", "AAAA", "CNAME"] {
            let targets = of_type(record_type);
            if !targets.is_empty() {
                endpoints.push(json!({
                    "dnsName": hostname,
                    "recordType": record_type,
                    "recordTTL": names.ttl,
                    "targets": targets,
                }));
            }
        }
    }
    json!({"endpoints": endpoints})
}

fn record_type_of(target: &str) -> &'static str {
    match target.parse() {
        Ok(std::net::IpAddr::V4(_)) => "A",
        Ok(std::net::IpAddr::V6(_)) => "AAAA",
        Err(_) => "CNAME",
    }
}

fn dns_endpoint(place: &BalancerObject, object: &Service, spec: &Value) -> Value {
    let (namespace, name) = parts(place);
    json!({
        "apiVersion": "externaldns.k8s.io/v1alpha1",
        "kind": "DNSEndpoint",
        "metadata": {
            "name": object_name(place),
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "bindery"},
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": name,
                "uid": object.metadata.uid,
            }],
        },
        "spec": spec,
    })
}

//! Pods that ask for a gateway.

use std::sync::Arc;

use bindery_engine::work::Requeue;
use bindery_sources::balancers::{EGRESS_LABEL, EgressPod, egress_pod};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::api::BalancerApiError;
use super::{BalancerContext, BalancerObject};

/// Takes in a pod. One that is not kept by our finalizer yet is told to nobody before it is.
pub(super) fn take(shared: &BalancerContext, place: &BalancerObject, object: Pod) {
    let Some(egress) = egress_pod(&object) else {
        lose(shared, place, object.metadata.resource_version);
        return;
    };
    let key = egress.key.clone();
    match (&egress.group, egress.is_kept) {
        (Some(group), true) => {
            shared.seen().unrelease(&key);
            shared.engine.set_endpoints(key, Some(group.clone()));
        }
        (None, true) => {
            let (label, addresses) = (Arc::clone(&egress.label), egress.addresses.clone());
            shared.engine.release(key, label, addresses);
        }
        (_, false) => {}
    }
    shared.seen().put_pod(place, Arc::new(object), egress);
    shared.queue.push(place.clone());
}

/// A pod is gone, or has lost its label, which a watch of labelled pods tells in the same words. Where our
/// finalizer kept it, it is let go.
pub(super) fn lose(shared: &BalancerContext, place: &BalancerObject, version: Option<String>) {
    let mut seen = shared.seen();
    let Some(left) = seen.lose_pod(place, version) else {
        return;
    };
    if left.is_kept {
        let (label, addresses) = (Arc::clone(&left.label), left.addresses.clone());
        shared.engine.release(left.key, label, addresses);
        shared.queue.push(place.clone());
    } else {
        seen.drop_pod(place);
        shared.engine.set_endpoints(left.key, None);
    }
}

/// Takes in a pod without the label that our finalizer keeps: it lost its label while nobody looked.
pub(super) fn take_stray(shared: &BalancerContext, place: &BalancerObject, object: Pod) {
    let is_stray = egress_pod(&object).is_some_and(|pod| pod.is_kept && pod.label.is_empty());
    // Of one that is known its label is known too.
    if is_stray && shared.seen().pod(place).is_none() {
        take(shared, place, object);
    }
}

/// Gives a pod its finalizer, or takes it away.
///
/// Cancellation: the write is done or not; the next round finds out.
pub(super) async fn reconcile(
    shared: &BalancerContext,
    place: &BalancerObject,
) -> Result<Requeue, BalancerApiError> {
    let plan = {
        let seen = shared.seen();
        let Some(pod) = seen.pod(place) else {
            return Ok(Requeue::OnChange);
        };
        let meta = &pod.object.metadata;
        let finalizers = meta.finalizers.clone().unwrap_or_default();
        let finalizers = match (&pod.egress.group, pod.egress.is_kept) {
            (Some(_), false) => {
                let ours = EgressPod::FINALIZER.to_owned();
                Some(finalizers.into_iter().chain([ours]).collect::<Vec<_>>())
            }
            (None, true) if seen.is_released(&pod.egress.key) => {
                let others = finalizers.into_iter();
                let others = others.filter(|one| one != EgressPod::FINALIZER);
                Some(others.collect())
            }
            _ => None,
        };
        finalizers.map(|finalizers| {
            json!({"metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "finalizers": finalizers,
            }})
        })
    };
    let Some(body) = plan else {
        return Ok(Requeue::OnChange);
    };
    let done = shared.api.write_metadata::<Pod>(place, &body).await;
    let is_watched = shared.seen().pod(place).is_some_and(|pod| pod.is_watched);
    match done {
        Ok(()) if is_watched => Ok(Requeue::OnChange),
        Err(error) if !error.is_missing() => {
            if error.is_conflict() && !is_watched {
                refresh(shared, place).await?;
            }
            Err(error)
        }
        // Nobody tells of it any more.
        Ok(()) | Err(_) => {
            shared.seen().drop_pod(place);
            Ok(Requeue::OnChange)
        }
    }
}

/// Looks at a pod of which no watch tells, since it has no label any more.
async fn refresh(shared: &BalancerContext, place: &BalancerObject) -> Result<(), BalancerApiError> {
    let found = shared.api.fetch_pod(place).await?;
    let mut seen = shared.seen();
    match found {
        // One that has the label again is told of again.
        Some(object) if object.labels().contains_key(EGRESS_LABEL) => {}
        Some(object) => seen.refresh_pod(place, object),
        None => {
            seen.drop_pod(place);
        }
    }
    Ok(())
}

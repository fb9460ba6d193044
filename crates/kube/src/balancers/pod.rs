//! Pods that ask for a gateway.

use std::sync::Arc;

use bindery_engine::work::Requeue;
use bindery_sources::balancers::{EgressPod, egress_pod};
use k8s_openapi::api::core::v1::Pod;
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
    match shared.api.write_metadata::<Pod>(place, &body).await {
        Err(error) if error.is_missing() => {
            shared.seen().drop_pod(place);
            Ok(Requeue::OnChange)
        }
        done => done.map(|()| Requeue::OnChange),
    }
}

//! One Service on its way to an address, and back.

use std::sync::Arc;

use bindery_core::Reason;
use bindery_core::balancers::{BalancerDeclaration, BalancerReport};
use bindery_core::tracker::Phase;
use bindery_engine::work::Requeue;
use bindery_sources::balancers::{
    SERVICE_FINALIZER, ServiceProblem, ServiceView, ServiceWish, service_view,
};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::api::BalancerApiError;
use super::names::{self, NamesLeft};
use super::{BalancerContext, BalancerObject, status};

/// What a round works with.
pub(super) struct ObservedService {
    pub(super) object: Arc<Service>,
    pub(super) view: ServiceView,
    pub(super) problems: Vec<ServiceProblem>,
    pub(super) report: Option<BalancerReport>,
    /// What the provider says about its addresses.
    pub(super) notice: Option<(Reason, String)>,
    is_retired: bool,
}

/// Takes in a Service. One that our finalizer keeps is told to the engine at once, so that nobody takes what
/// it has for an orphan; any other waits for its finalizer.
pub(super) fn take(shared: &BalancerContext, place: &BalancerObject, object: Service) {
    let Some(view) = service_view(&object, &shared.class) else {
        return;
    };
    if view.wish == ServiceWish::Nothing {
        lose(shared, place);
        return;
    }
    let replaced = shared
        .seen()
        .put_service(place, &view.key, Arc::new(object));
    if let Some(before) = replaced {
        shared.engine.retire(before);
    }
    if view.is_kept || view.wish == ServiceWish::Leave {
        declare(shared, place, view);
    }
    shared.queue.push(place.clone());
}

/// A Service is gone, or is none of ours any more without having been kept.
pub(super) fn lose(shared: &BalancerContext, place: &BalancerObject) {
    let key = shared.seen().drop_service(place);
    if let Some(key) = key {
        shared.engine.retire(key);
        shared.queue.push(place.clone());
    }
}

fn declare(shared: &BalancerContext, place: &BalancerObject, view: ServiceView) {
    let declaration = {
        let mut seen = shared.seen();
        let Some(service) = seen.service_mut(place) else {
            return;
        };
        match view.wish {
            ServiceWish::Have(declaration, problems) => {
                service.is_retired = false;
                let (spec, _) = judged(shared, declaration.spec, problems);
                BalancerDeclaration {
                    spec,
                    ..*declaration
                }
            }
            // As long as its names may be in DNS, its balancer stays as it is.
            ServiceWish::Leave if !service.is_retired => BalancerDeclaration {
                owner: view.owner,
                spec: None,
                previous: Vec::new(),
            },
            ServiceWish::Leave | ServiceWish::Nothing => return,
        }
    };
    shared.engine.declare(view.key, declaration);
}

/// A spec that the provider can do, and everything that is wrong.
fn judged(
    shared: &BalancerContext,
    spec: Option<bindery_core::balancers::BalancerSpec>,
    mut problems: Vec<ServiceProblem>,
) -> (
    Option<bindery_core::balancers::BalancerSpec>,
    Vec<ServiceProblem>,
) {
    if let Some(spec) = &spec {
        let found = shared.provider.problems(spec).into_iter();
        problems.extend(found.map(|problem| ServiceProblem {
            reason: problem.reason.as_str(),
            field: problem.field,
            message: problem.message,
        }));
    }
    (spec.filter(|_| problems.is_empty()), problems)
}

/// Moves a Service one step closer to what it asks for. Safe to call at any time.
///
/// Cancellation: each write is done or not; the next round finds out.
pub(super) async fn reconcile(
    shared: &BalancerContext,
    place: &BalancerObject,
) -> Result<Requeue, BalancerApiError> {
    let left = shared.seen().left(place);
    if let Some(uid) = left {
        return names::sweep(shared, place, &uid).await;
    }
    let Some(observed) = observe(shared, place) else {
        return Ok(Requeue::OnChange);
    };
    let done = match &observed.view.wish {
        ServiceWish::Nothing => Ok(Requeue::OnChange),
        ServiceWish::Leave => leave(shared, place, &observed).await,
        ServiceWish::Have(..) if !observed.view.is_kept => {
            let body = finalizers(&observed.object, true);
            let done = shared.api.write_metadata::<Service>(place, &body).await;
            // The watch tells when it stands.
            done.map(|()| Requeue::OnChange)
        }
        ServiceWish::Have(..) => have(shared, place, &observed).await,
    };
    match done {
        Err(error) if error.is_missing() => Ok(Requeue::OnChange),
        done => done,
    }
}

fn observe(shared: &BalancerContext, place: &BalancerObject) -> Option<ObservedService> {
    let seen = shared.seen();
    let service = seen.service(place)?;
    let view = service_view(&service.object, &shared.class)?;
    let problems = match &view.wish {
        ServiceWish::Have(declaration, problems) => {
            judged(shared, declaration.spec.clone(), problems.clone()).1
        }
        ServiceWish::Leave | ServiceWish::Nothing => Vec::new(),
    };
    let report = service.report.clone();
    let notice = shared.provider.notice(&view.key);
    Some(ObservedService {
        object: Arc::clone(&service.object),
        view,
        problems,
        // What nobody told of since it was declared again is no news.
        report: report.filter(|one| one.phase != Phase::Gone || service.is_retired),
        notice,
        is_retired: service.is_retired,
    })
}

/// A Service that asks for a balancer: its status says what it has, its names lead there.
async fn have(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<Requeue, BalancerApiError> {
    status::report(shared, place, observed).await?;
    names::publish(shared, place, observed).await
}

/// A Service that is to lose its balancer: first its names, then the balancer, then the finalizer.
async fn leave(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<Requeue, BalancerApiError> {
    if !observed.is_retired {
        match names::withdraw(shared, place, observed).await? {
            NamesLeft::Waits(requeue) => return Ok(requeue),
            NamesLeft::Done => {}
        }
        if let Some(service) = shared.seen().service_mut(place) {
            service.is_retired = true;
            service.report = None;
        }
        shared.engine.retire(observed.view.key.clone());
        return Ok(Requeue::OnChange);
    }
    let phase = observed.report.as_ref().map(|report| report.phase);
    if phase != Some(Phase::Gone) {
        return Ok(Requeue::OnChange);
    }
    if status::clear(shared, place, observed).await? {
        // The watch tells when it stands, and the next round sees the version.
        return Ok(Requeue::OnChange);
    }
    let mut body = finalizers(&observed.object, false);
    body["metadata"]["annotations"] = names::forgotten();
    shared.api.write_metadata::<Service>(place, &body).await?;
    Ok(Requeue::OnChange)
}

/// The metadata of a Service with or without our finalizer. The list is written whole, so that it must be the
/// one that was seen.
fn finalizers(object: &Service, is_kept: bool) -> Value {
    let meta = &object.metadata;
    let others = meta.finalizers.clone().unwrap_or_default().into_iter();
    let others = others.filter(|one| one != SERVICE_FINALIZER);
    let ours = is_kept.then(|| SERVICE_FINALIZER.to_owned());
    let finalizers: Vec<String> = others.chain(ours).collect();
    let finalizers = (!finalizers.is_empty()).then_some(finalizers);
    json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }})
}

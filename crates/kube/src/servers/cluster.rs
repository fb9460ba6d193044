//! The controller of clusters: each has its instances.

use std::sync::Arc;

use bindery_api::{ClusterConfig, ClusterStatus};
use bindery_core::Reason;
use bindery_engine::work::Requeue;
use bindery_sources::clusters::{
    CLUSTER_FINALIZER, ClusterView, INDEX_ANNOTATION, InstancePlan, InstanceView,
    PARENT_GENERATION_ANNOTATION, cluster_rollup, merge_conditions, not_acted_on_by_any,
    plan_instances,
};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::api::ApiError;
use super::fleet;
use super::store::{ObjectPlace, Sort, whole};
use super::{ServerContext, watching};

/// What is known of a cluster and its instances.
struct Observed {
    object: Arc<DynamicObject>,
    config: ClusterConfig,
    /// Those that it made.
    instances: Vec<InstanceView>,
    /// Those that others made for it.
    joined: Vec<InstanceView>,
}

/// One round: observe, plan, apply, report.
pub(super) async fn reconcile(
    shared: &ServerContext,
    place: &ObjectPlace,
) -> Result<Requeue, ApiError> {
    let Some(observed) = observe(shared, place) else {
        return Ok(Requeue::OnChange);
    };
    if observed.object.metadata.deletion_timestamp.is_some() {
        drop_finalizer(shared, Sort::Cluster, &observed.object, CLUSTER_FINALIZER).await?;
        return Ok(Requeue::OnChange);
    }
    fleet::ensure_group(shared, &fleet::cluster_group(place));
    let plan = plan(&observed);
    let applied = apply(shared, place, &plan).await;
    // What was just made is counted.
    let Some(observed) = observe(shared, place) else {
        return Ok(Requeue::OnChange);
    };
    report(shared, &observed, &plan).await?;
    applied.map(|()| Requeue::OnChange)
}

fn observe(shared: &ServerContext, place: &ObjectPlace) -> Option<Observed> {
    let store = shared.store();
    let object = store.get(Sort::Cluster, place)?;
    let uid = object.metadata.uid.clone();
    let (mut instances, mut joined) = (Vec::new(), Vec::new());
    for instance in store.in_namespace(Sort::Instance, &place.namespace) {
        if instance.data["spec"]["clusterRef"] != *place.name {
            continue;
        }
        let mut owners = instance.metadata.owner_references.iter().flatten();
        if owners.any(|owner| Some(&owner.uid) == uid.as_ref()) {
            instances.push(view(instance));
        } else {
            joined.push(view(instance));
        }
    }
    let config = serde_json::from_value(object.data["spec"].clone()).unwrap_or_default();
    Some(Observed {
        object,
        config,
        instances,
        joined,
    })
}

/// An instance as its cluster sees it.
fn view(instance: &DynamicObject) -> InstanceView {
    let metadata = &instance.metadata;
    let annotations = metadata.annotations.clone().unwrap_or_default();
    let status = &instance.data["status"];
    let conditions = status["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Ready");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ready = ready.map(|one| {
        let reason = Reason::from_word(one["reason"].as_str().unwrap_or_default());
        (
            one["status"] == "True",
            reason.unwrap_or(Reason::NotReady),
            text(&one["message"]),
        )
    });
    let parent = annotations.get(PARENT_GENERATION_ANNOTATION);
    let parent = parent.and_then(|parent| parent.parse::<i64>().ok());
    let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
    InstanceView {
        name: metadata.name.clone().unwrap_or_default(),
        index: annotations
            .get(INDEX_ANNOTATION)
            .and_then(|index| index.parse().ok()),
        is_leaving: metadata.deletion_timestamp.is_some(),
        is_settled: status["observedGeneration"].as_i64() == metadata.generation
            && status["observedParentGeneration"].as_i64() == parent,
        ready,
        pods: (
            count(&status["readyReplicas"]).unwrap_or_default(),
            count(&instance.data["spec"]["replicas"]).unwrap_or(1),
        ),
        object: whole(instance),
    }
}

fn plan(observed: &Observed) -> InstancePlan {
    let metadata = &observed.object.metadata;
    let cluster = ClusterView {
        name: metadata.name.as_deref().unwrap_or_default(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        config: &observed.config,
    };
    plan_instances(&cluster, &observed.instances)
}

async fn apply(
    shared: &ServerContext,
    place: &ObjectPlace,
    plan: &InstancePlan,
) -> Result<(), ApiError> {
    for instance in &plan.apply {
        let name = instance["metadata"]["name"].as_str().unwrap_or_default();
        let place = ObjectPlace::new(&place.namespace, name);
        let written = shared.api.apply(Sort::Instance, &place, instance).await?;
        watching::take(shared, Sort::Instance, written);
    }
    for name in &plan.remove {
        let place = ObjectPlace::new(&place.namespace, name);
        let known = shared.store().get(Sort::Instance, &place);
        let uid = known.and_then(|known| known.metadata.uid.clone());
        shared.api.delete(Sort::Instance, &place, uid).await?;
    }
    Ok(())
}

async fn report(
    shared: &ServerContext,
    observed: &Observed,
    plan: &InstancePlan,
) -> Result<(), ApiError> {
    let mut all = observed.instances.clone();
    all.extend(observed.joined.iter().cloned());
    number_all(&mut all);
    let namespace = observed.object.metadata.namespace.as_deref();
    let global = observed.config.global.clone().unwrap_or_default();
    let not_acted_on = not_acted_on_by_any(namespace.unwrap_or_default(), &global);
    let rollup = cluster_rollup(plan.total + observed.joined.len(), &all, &not_acted_on);
    let generation = observed.object.metadata.generation.unwrap_or_default();
    let before: ClusterStatus =
        serde_json::from_value(observed.object.data["status"].clone()).unwrap_or_default();
    let now = shared.clock.now();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let status = ClusterStatus {
        conditions: merge_conditions(&before.conditions, &rollup.conditions, generation, now),
        observed_generation: Some(generation),
        instance_count: Some(count(all.len())),
        ready_instances: Some(count(rollup.ready)),
        instances: all.iter().map(|one| one.name.clone()).collect(),
    };
    write_status(shared, Sort::Cluster, &observed.object, json!(status)).await
}

/// Gives numbers to instances that others made, behind those of its own.
fn number_all(all: &mut [InstanceView]) {
    let mut taken: Vec<usize> = Vec::new();
    for one in all {
        let free = |index: &usize| !taken.contains(index);
        let index = one.index.filter(free);
        let index = index
            .or_else(|| (0..=taken.len()).find(free))
            .unwrap_or_default();
        taken.push(index);
        one.index = Some(index);
    }
}

/// Whether a status has this condition with the status True.
pub(super) fn condition_holds(status: &Value, kind: &str) -> bool {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == kind && one["status"] == "True")
}

/// Writes a status if it differs from the one that stands.
pub(super) async fn write_status(
    shared: &ServerContext,
    sort: Sort,
    object: &DynamicObject,
    status: Value,
) -> Result<(), ApiError> {
    let before = &object.data["status"];
    if *before == status {
        return Ok(());
    }
    // What is not said any more goes.
    let mut status = status;
    if let (Some(before), Value::Object(status)) = (before.as_object(), &mut status) {
        for name in before.keys() {
            status.entry(name.clone()).or_insert(Value::Null);
        }
    }
    let place = ObjectPlace::of(object);
    let body = json!({ "status": status });
    match shared.api.write_status(sort, &place, &body).await {
        Ok(written) => {
            watching::take(shared, sort, written);
            Ok(())
        }
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes a finalizer off an object that goes.
pub(super) async fn drop_finalizer(
    shared: &ServerContext,
    sort: Sort,
    object: &DynamicObject,
    finalizer: &str,
) -> Result<(), ApiError> {
    let finalizers = object.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|one| one == finalizer) {
        return Ok(());
    }
    let rest: Vec<String> = finalizers
        .into_iter()
        .filter(|one| one != finalizer)
        .collect();
    let body = json!({ "metadata": {
        "finalizers": rest,
        "resourceVersion": object.metadata.resource_version,
    }});
    match shared
        .api
        .merge(sort, &ObjectPlace::of(object), &body)
        .await
    {
        Ok(written) => {
            watching::take(shared, sort, written);
            Ok(())
        }
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

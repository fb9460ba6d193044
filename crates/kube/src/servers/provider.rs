//! The controller of cluster-wide declarations, of either name: each has a cluster in its namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_api::{ClusterConfig, ClusterStatus};
use bindery_core::Reason;
use bindery_engine::work::Requeue;
use bindery_sources::clusters::{
    CLUSTER_FINALIZER, Rollup, Said, cluster_of_provider, covers, merge_conditions, provider_rollup,
};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::api::ApiError;
use super::cluster::{condition_holds, drop_finalizer, write_status};
use super::fleet;
use super::store::{ObjectPlace, Sort, whole};
use super::{ServerContext, watching};

/// What is known of a declaration and its clusters.
struct Observed {
    object: Arc<DynamicObject>,
    clusters: Vec<Arc<DynamicObject>>,
    /// Namespaces with instances that name it, beside its own.
    namespaces: BTreeSet<String>,
}

/// One round: observe, plan, apply, report.
pub(super) async fn reconcile(
    shared: &ServerContext,
    sort: Sort,
    name: &Arc<str>,
) -> Result<Requeue, ApiError> {
    let place = ObjectPlace::new("", name);
    let Some(observed) = observe(shared, sort, &place) else {
        return Ok(Requeue::OnChange);
    };
    if observed.object.metadata.deletion_timestamp.is_some() {
        drop_finalizer(shared, sort, &observed.object, CLUSTER_FINALIZER).await?;
        return Ok(Requeue::OnChange);
    }
    fleet::ensure_group(shared, &fleet::provider_group(name));
    let (wanted, former) = plan(shared, sort, &observed);
    let applied = apply(shared, &wanted, &former).await;
    report(shared, sort, &observed, applied.as_ref().err()).await?;
    applied.map(|()| Requeue::OnChange)
}

fn observe(shared: &ServerContext, sort: Sort, place: &ObjectPlace) -> Option<Observed> {
    let store = shared.store();
    let object = store.get(sort, place)?;
    let uid = object.metadata.uid.clone();
    let is_ours = |cluster: &&Arc<DynamicObject>| {
        let mut owners = cluster.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let names_it = |instance: &&Arc<DynamicObject>| {
        instance.data["spec"]["clusterRef"] == *place.name
            && instance.metadata.owner_references.is_none()
    };
    let instances = store.all(Sort::Instance).filter(names_it);
    Some(Observed {
        clusters: store.all(Sort::Cluster).filter(is_ours).cloned().collect(),
        namespaces: instances
            .filter_map(|one| one.metadata.namespace.clone())
            .collect(),
        object,
    })
}

/// The clusters that there are to be, where they are not there as they should; and those that are not to be.
fn plan(
    shared: &ServerContext,
    sort: Sort,
    observed: &Observed,
) -> (Vec<Value>, Vec<Arc<DynamicObject>>) {
    let object = &observed.object;
    let spec = &object.data["spec"];
    let config: ClusterConfig = serde_json::from_value(spec.clone()).unwrap_or_default();
    let own = spec["namespace"]
        .as_str()
        .unwrap_or(&shared.settings.namespace);
    let mut namespaces = observed.namespaces.clone();
    namespaces.insert(own.to_owned());
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let wanted = namespaces
        .iter()
        .map(|namespace| cluster_of_provider((sort.kind().0, name, uid), namespace, &config));
    let is_missing = |wanted: &Value| {
        let known = observed.clusters.iter();
        !known.into_iter().any(|known| covers(&whole(known), wanted))
    };
    let wanted = wanted.filter(is_missing).collect();
    let is_former = |cluster: &&Arc<DynamicObject>| {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        !namespaces.contains(namespace)
    };
    let former = observed
        .clusters
        .iter()
        .filter(is_former)
        .cloned()
        .collect();
    (wanted, former)
}

async fn apply(
    shared: &ServerContext,
    wanted: &[Value],
    former: &[Arc<DynamicObject>],
) -> Result<(), ApiError> {
    for cluster in wanted {
        let field = |name: &str| cluster["metadata"][name].as_str().unwrap_or_default();
        let place = ObjectPlace::new(field("namespace"), field("name"));
        let written = shared.api.apply(Sort::Cluster, &place, cluster).await?;
        watching::take(shared, Sort::Cluster, written);
    }
    for cluster in former {
        let uid = cluster.metadata.uid.clone();
        shared
            .api
            .delete(Sort::Cluster, &ObjectPlace::of(cluster), uid)
            .await?;
    }
    Ok(())
}

async fn report(
    shared: &ServerContext,
    sort: Sort,
    observed: &Observed,
    error: Option<&ApiError>,
) -> Result<(), ApiError> {
    let mut ready = Vec::new();
    let mut status = ClusterStatus::default();
    let (mut count, mut count_ready) = (0, 0);
    for cluster in &observed.clusters {
        let place = ObjectPlace::of(cluster);
        let told = &cluster.data["status"];
        let is_current = told["observedGeneration"].as_i64() == cluster.metadata.generation;
        let name = format!("{}/{}", place.namespace, place.name);
        ready.push((name, is_current && condition_holds(told, "Ready")));
        count += told["instanceCount"].as_i64().unwrap_or_default();
        count_ready += told["readyInstances"].as_i64().unwrap_or_default();
        let names = told["instances"].as_array().cloned().unwrap_or_default();
        let names = names.iter().filter_map(Value::as_str);
        status
            .instances
            .extend(names.map(|name| format!("{}/{name}", place.namespace)));
    }
    let mut rollup: Rollup = provider_rollup(&ready);
    if let Some(error) = error {
        rollup.conditions[0] = Said {
            kind: "Ready".to_owned(),
            holds: false,
            reason: Reason::ClustersProgressing,
            message: error.to_string(),
        };
    }
    let generation = observed.object.metadata.generation.unwrap_or_default();
    let before: ClusterStatus =
        serde_json::from_value(observed.object.data["status"].clone()).unwrap_or_default();
    let now = shared.clock.now();
    status.conditions = merge_conditions(&before.conditions, &rollup.conditions, generation, now);
    status.observed_generation = Some(generation);
    status.instance_count = Some(count);
    status.ready_instances = Some(count_ready);
    write_status(shared, sort, &observed.object, json!(status)).await
}

//! Whose turn it is: of the servers of one cluster, one at a time is replaced by another version of itself,
//! whatever changed: the cluster, the instance, or Bindery, which has other pods made after an update.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bindery_sources::clusters::covers;
use serde_json::Value;
use tokio::time::Instant;

use super::super::ServerContext;
use super::super::cluster::condition_holds;
use super::super::store::{ObjectPlace, Sort, Store, whole};
use super::{Observed, Wanted, target};

/// An instance that is ready for so long after its pods were to be replaced was replaced between two looks.
const REPLACED_AFTER: Duration = Duration::from_secs(30);

/// Whose turn it is, by cluster.
///
/// It is remembered in memory only: after a restart an instance that is being replaced is not ready, and the others
/// wait for that.
#[derive(Default)]
pub(in super::super) struct Rollouts(Mutex<BTreeMap<ObjectPlace, Rollout>>);

/// The instance that is being replaced.
struct Rollout {
    instance: ObjectPlace,
    since: Instant,
    /// Whether it was seen not ready since.
    fell: bool,
}

impl Rollouts {
    /// Whether the pods of an instance may be replaced now. Nobody waits for what has gone.
    fn take(&self, cluster: &ObjectPlace, instance: &ObjectPlace, facts: &Facts) -> bool {
        let mut rollouts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rollout) = rollouts.get(cluster) {
            if rollout.instance == *instance {
                return true;
            }
            if facts.others.contains_key(&rollout.instance) {
                return false;
            }
        }
        if !facts.others.values().all(|is_ready| *is_ready) {
            return false;
        }
        let rollout = Rollout {
            instance: instance.clone(),
            since: Instant::now(),
            fell: false,
        };
        rollouts.insert(cluster.clone(), rollout);
        true
    }

    /// Notes how an instance is that has nothing left to be replaced; its turn ends once it is back.
    fn look(&self, cluster: &ObjectPlace, instance: &ObjectPlace, is_ready: bool) {
        let mut rollouts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rollout) = rollouts
            .get_mut(cluster)
            .filter(|rollout| rollout.instance == *instance)
        else {
            return;
        };
        rollout.fell |= !is_ready;
        if is_ready && (rollout.fell || rollout.since.elapsed() >= REPLACED_AFTER) {
            rollouts.remove(cluster);
        }
    }
}

/// How an instance and the others of its cluster are.
struct Facts {
    is_ready: bool,
    /// Whether each of the others is ready.
    others: BTreeMap<ObjectPlace, bool>,
}

/// Leaves out of what is wanted what would replace the pods of an instance before it is its rollout. One that does not
/// serve anyway waits for nobody.
pub(super) fn hold_back(shared: &ServerContext, observed: &Observed, wanted: &mut Wanted) {
    let Some(parent) = &observed.cluster else {
        return;
    };
    let cluster = ObjectPlace::of(&parent.object);
    let store = shared.store();
    let facts = Facts {
        is_ready: condition_holds(&observed.object.data["status"], "Ready"),
        others: others(&store, observed),
    };
    if !wanted.objects.iter().any(|object| replaces(&store, object)) {
        shared
            .rollouts
            .look(&cluster, &observed.place, facts.is_ready);
        return;
    }
    if !facts.is_ready || shared.rollouts.take(&cluster, &observed.place, &facts) {
        return;
    }
    wanted.objects.retain(|object| {
        let (sort, place) = target(object);
        let is_of_pods = matches!(sort, Sort::StatefulSet | Sort::ConfigMap);
        !is_of_pods || store.get(sort, &place).is_none()
    });
}

/// Whether pods that there are would be replaced.
fn replaces(store: &Store, object: &Value) -> bool {
    let (sort, place) = target(object);
    let known = (sort == Sort::StatefulSet).then(|| store.get(sort, &place));
    known.flatten().is_some_and(|known| {
        let template = &whole(&known)["spec"]["template"];
        !covers(template, &object["spec"]["template"])
    })
}

/// The other instances of the same cluster that are to stay.
fn others(store: &Store, observed: &Observed) -> BTreeMap<ObjectPlace, bool> {
    let all = store.in_namespace(Sort::Instance, &observed.place.namespace);
    let others = all.filter(|one| {
        one.data["spec"]["clusterRef"] == observed.spec.cluster_ref
            && one.metadata.deletion_timestamp.is_none()
            && one.metadata.name.as_deref() != Some(&*observed.place.name)
    });
    let is_ready = |one: &kube::api::DynamicObject| condition_holds(&one.data["status"], "Ready");
    others
        .map(|one| (ObjectPlace::of(one), is_ready(one)))
        .collect()
}

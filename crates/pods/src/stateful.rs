//! StatefulSets on an API that has no controller for them.

mod make;
mod plan;
mod revision;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bindery_core::Backoff;
use bindery_core::backoff::jitter_seed;
use bindery_engine::work::{Requeue, WorkKey, WorkLimits, WorkQueue};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, Preconditions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::PART_OF;
use crate::following::{Followed, NamespacedName, key};
use crate::request::{self, FaultClass, RequestFault, in_time};
use plan::{Act, SetObserved, SetPlan};

/// Sets that are worked on at the same time, and how long one whose work failed waits.
const LIMITS: WorkLimits = WorkLimits {
    running_max: 8,
    retry: Backoff {
        first: Duration::from_millis(100),
        max: Duration::from_secs(10),
    },
};

/// The controller of StatefulSets. Where Kubernetes has its own, this one must not run.
pub struct StatefulSets {
    client: Client,
    sets: Followed<StatefulSet>,
    pods: Followed<Pod>,
    claims: Followed<PersistentVolumeClaim>,
    revisions: Followed<ControllerRevision>,
    queue: WorkQueue<SetKey>,
}

/// Namespace and name of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey(NamespacedName);

impl WorkKey for SetKey {
    fn jitter_seed(&self) -> u64 {
        jitter_seed(format!("{}/{}", self.0.0, self.0.1).as_bytes())
    }
}

impl StatefulSets {
    /// A controller of the sets that have the label [`PART_OF`].
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            sets: Followed::new("StatefulSet"),
            pods: Followed::new("Pod"),
            claims: Followed::new("PersistentVolumeClaim"),
            revisions: Followed::new("ControllerRevision"),
            queue: WorkQueue::new(LIMITS),
        }
    }

    /// Works until `stop`.
    ///
    /// Cancellation: what was written stays; the next start goes on from what it finds.
    pub async fn run(self, stop: CancellationToken) {
        let push = |key: NamespacedName| self.queue.push(SetKey(key));
        let of_owner = |meta: &ObjectMeta| {
            let mut owners = meta.owner_references.iter().flatten();
            if let Some(owner) = owners.find(|owner| owner.kind == "StatefulSet") {
                let namespace = meta.namespace.clone().unwrap_or_default();
                push((namespace, owner.name.clone()));
            }
        };
        let client = || self.client.clone();
        let sets = self
            .sets
            .follow(Api::all(client()), Some(PART_OF), &stop, |set| {
                push(key(set));
            });
        let pods = self
            .pods
            .follow(Api::all(client()), Some(PART_OF), &stop, |pod| {
                of_owner(&pod.metadata);
            });
        let claims = self.claims.follow(Api::all(client()), None, &stop, |_| ());
        let seen = |one: &ControllerRevision| of_owner(&one.metadata);
        let revisions = self.revisions.follow(Api::all(client()), None, &stop, seen);
        let work = self
            .queue
            .run(stop.clone(), |key| Box::pin(self.work(key.0)));
        tokio::join!(sets, pods, claims, revisions, work);
    }

    async fn work(&self, (namespace, name): NamespacedName) -> Requeue {
        let is_known =
            self.pods.is_synced() && self.claims.is_synced() && self.revisions.is_synced();
        if !is_known {
            // What is not known must not be taken for missing.
            return Requeue::Failed;
        }
        let Some(set) = self.sets.get(&namespace, &name) else {
            return Requeue::OnChange;
        };
        match self.reconcile(&set).await {
            Ok(()) => Requeue::OnChange,
            Err(error) => {
                // Somebody else was quicker; what they wrote is on its way here.
                if !matches!(error.class(), FaultClass::Conflict | FaultClass::Missing) {
                    let error = error.chain();
                    tracing::warn!(namespace, name, error, "a StatefulSet waits");
                }
                Requeue::Failed
            }
        }
    }

    /// Moves one set a step closer to its declaration.
    ///
    /// Cancellation: each write stands for itself; the next round plans from what is there.
    async fn reconcile(&self, set: &Arc<StatefulSet>) -> Result<(), RequestFault> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let kept = of_set(&self.revisions, set);
        let history = revision::history(set, &kept);
        if let Some(missing) = &history.missing {
            self.create(namespace, missing).await?;
        }
        let pods = of_set(&self.pods, set);
        let claims: BTreeSet<String> = self
            .claims
            .beginning_with(namespace, "")
            .iter()
            .filter_map(|claim| claim.metadata.name.clone())
            .collect();
        let SetPlan { acts, status } = plan::plan(&SetObserved {
            set,
            pods: &pods,
            claims: &claims,
            revisions: &history.revisions,
        });
        for act in acts {
            self.apply(namespace, act).await?;
        }
        self.report(set, &status).await?;
        for surplus in &history.surplus {
            let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), namespace);
            delete(&api, surplus, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    async fn apply(&self, namespace: &str, act: Act) -> Result<(), RequestFault> {
        match act {
            Act::CreateClaim(claim) => self.create(namespace, &*claim).await,
            Act::CreatePod(pod) => self.create(namespace, &*pod).await,
            Act::DeletePod { name, uid } => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(uid),
                        resource_version: None,
                    }),
                    ..DeleteParams::default()
                };
                delete(&api, &name, &params).await
            }
            Act::DeleteClaim { name } => {
                let api: Api<PersistentVolumeClaim> =
                    Api::namespaced(self.client.clone(), namespace);
                delete(&api, &name, &DeleteParams::default()).await
            }
        }
    }

    async fn report(
        &self,
        set: &StatefulSet,
        status: &StatefulSetStatus,
    ) -> Result<(), RequestFault> {
        if set.status.as_ref() == Some(status) {
            return Ok(());
        }
        let (namespace, name) = key(set);
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), &namespace);
        let body = json!({
            "metadata": {"uid": set.metadata.uid},
            "status": status,
        });
        let object = format!("StatefulSet {namespace}/{name}");
        let (params, patch) = (request::patch(), Patch::Merge(&body));
        let writing = api.patch_status(&name, &params, &patch);
        in_time(&object, writing, |source| RequestFault::Write {
            object: object.clone(),
            source,
        })
        .await?;
        Ok(())
    }

    async fn create<K>(&self, namespace: &str, object: &K) -> Result<(), RequestFault>
    where
        K: crate::following::Follow
            + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + serde::Serialize,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let name = object.meta().name.clone().unwrap_or_default();
        let what = format!("{} {namespace}/{name}", K::kind(&()));
        let params = request::post();
        let made = in_time(&what, api.create(&params, object), |source| {
            RequestFault::Create {
                object: what.clone(),
                source,
            }
        })
        .await;
        match made {
            // It is there; the watch has not told yet.
            Err(error) if error.class() == FaultClass::Conflict => Ok(()),
            made => made.map(|_| ()),
        }
    }
}

async fn delete<K: crate::following::Follow>(
    api: &Api<K>,
    name: &str,
    params: &DeleteParams,
) -> Result<(), RequestFault> {
    let what = format!("{} {name}", K::kind(&()));
    let deleted = in_time(&what, api.delete(name, params), |source| {
        RequestFault::Delete {
            object: what.clone(),
            source,
        }
    })
    .await;
    match deleted {
        // It is gone, or another one has its name.
        Err(error) if matches!(error.class(), FaultClass::Missing | FaultClass::Conflict) => Ok(()),
        deleted => deleted.map(|_| ()),
    }
}

/// What a set controls of a kind.
fn of_set<K: crate::following::Follow>(followed: &Followed<K>, set: &StatefulSet) -> Vec<Arc<K>> {
    let (namespace, name) = key(set);
    let mut found = followed.beginning_with(&namespace, &format!("{name}-"));
    found.retain(|object| {
        let mut owners = object.meta().owner_references.iter().flatten();
        let uid = set.metadata.uid.as_deref();
        owners.any(|owner| owner.controller == Some(true) && Some(&*owner.uid) == uid)
    });
    found
}

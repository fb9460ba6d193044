//! One pod: scheduled, prepared, run, and finished when it is deleted.

mod report;
mod storage;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Binding, Container, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{Api, DeleteParams, Patch, Preconditions};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::container::{ContainerRole, ContainerRun};
use crate::following::{NamespacedName, key};
use crate::interface;
use crate::launch::{self, Launch, StartRefusal};
use crate::node::NodeContext;
use crate::pid_file;
use crate::request::{self, FaultClass, RequestFault, in_time};
use crate::rewrite::Mounts;
use crate::status::PodFacts;
use crate::volumes::{VolumeSources, disk};
use report::Notices;
use storage::PodStorage;

/// How long a pod waits that could not be scheduled or prepared, unless something changes.
const RETRY: Duration = Duration::from_secs(1);

/// How long a container may take to end where its pod does not say.
const GRACE: Duration = Duration::from_secs(30);

/// A pod that is on this node, or is to be.
pub(crate) struct PodRun {
    pub(crate) ctx: Arc<NodeContext>,
    pub(crate) key: NamespacedName,
    pub(crate) uid: String,
    first: Arc<Pod>,
    folder: PathBuf,
    facts: Mutex<PodFacts>,
    storage: Mutex<PodStorage>,
    notices: Mutex<Notices>,
    /// Counts what changed and is to be reported.
    news: watch::Sender<u64>,
    /// Counts changes of objects that volumes and variables may be made of.
    pub(crate) sources: watch::Sender<u64>,
    /// Counts volumes that were lost.
    pub(crate) lost: watch::Sender<u64>,
    stop: CancellationToken,
    is_deleted: AtomicBool,
}

impl PodRun {
    pub(crate) fn new(ctx: Arc<NodeContext>, pod: Arc<Pod>) -> Self {
        let key = key(&*pod);
        Self {
            folder: ctx.options.folder.join(&key.0).join(&key.1),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            facts: Mutex::new(PodFacts::of(&pod)),
            storage: Mutex::default(),
            notices: Mutex::default(),
            news: watch::Sender::new(0),
            sources: watch::Sender::new(0),
            lost: watch::Sender::new(0),
            stop: CancellationToken::new(),
            is_deleted: AtomicBool::new(false),
            first: pod,
            key,
            ctx,
        }
    }

    /// Runs the pod until it is deleted or everything stops.
    ///
    /// Cancellation: its processes are killed; the next start goes on from its folder and its status.
    pub(crate) async fn run(&self) {
        tokio::select! {
            biased;
            () = self.work() => {}
            never = self.report() => match never {},
        }
        let address = self.facts().address;
        if let Some(address) = address {
            interface::remove(address).await;
        }
        self.ctx.addresses.release(&self.key);
        if self.is_deleted.load(Ordering::Relaxed) {
            self.finish().await;
        }
    }

    /// Ends the pod because it is deleted.
    pub(crate) fn delete(&self) {
        self.is_deleted.store(true, Ordering::Relaxed);
        self.stop.cancel();
    }

    /// Ends the processes of the pod, which goes on when Bindery does.
    pub(crate) fn halt(&self) {
        self.stop.cancel();
    }

    /// Something about the pod changed in the API.
    pub(crate) fn touch(&self) {
        self.news.send_modify(|count| *count += 1);
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, PodFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of the pod and has it reported.
    pub(crate) fn change(&self, change: impl FnOnce(&mut PodFacts)) {
        change(&mut self.facts());
        self.touch();
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.facts().address.unwrap_or(Ipv4Addr::LOCALHOST)
    }

    /// Waits for a change of what the pod is made of, but not longer than this.
    pub(crate) async fn changed(&self, longest: Duration) {
        let mut sources = self.sources.subscribe();
        sources.mark_unchanged();
        // That it was silent is as good a reason to look again.
        let _ = tokio::time::timeout(longest, sources.changed()).await;
    }

    pub(crate) fn container_folder(&self, container: &str) -> PathBuf {
        self.folder.join("containers").join(container)
    }

    /// How long its containers may take to end.
    pub(crate) fn grace(&self) -> Duration {
        let pod = self.pod();
        let spec = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = pod.metadata.deletion_grace_period_seconds.or(spec);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let grace = seconds.map_or(GRACE, Duration::from_secs);
        if self.is_deleted.load(Ordering::Relaxed) {
            grace
        } else {
            grace.min(self.ctx.options.stop_grace)
        }
    }

    /// What a container is started with.
    pub(crate) fn launch(&self, container: &Container) -> Result<Launch, StartRefusal> {
        let pod = self.pod();
        let mounts = self.mounts(container);
        launch::launch(
            container,
            &self.ctx.options.programs,
            &self.sources_of(&pod),
            &mounts,
        )
    }

    /// The pod as the API last told it, on this node.
    fn pod(&self) -> Pod {
        let told = self.ctx.pods.get(&self.key.0, &self.key.1);
        let told = told.filter(|told| told.metadata.uid.as_ref() == Some(&self.uid));
        let mut pod = Pod::clone(told.as_ref().unwrap_or(&self.first));
        let spec = pod.spec.get_or_insert_default();
        spec.node_name
            .get_or_insert_with(|| self.ctx.options.node.clone());
        pod
    }

    fn sources_of<'a>(&'a self, pod: &'a Pod) -> VolumeSources<'a> {
        VolumeSources {
            pod,
            address: self.address(),
            config_maps: &self.ctx.config_maps,
            secrets: &self.ctx.secrets,
        }
    }

    async fn work(&self) {
        let is_ready = tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = self.schedule() => true,
        };
        if !is_ready {
            return;
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = self.prepare() => {}
        }
        let spec = self.pod().spec.unwrap_or_default();
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let run = ContainerRun {
                pod: self,
                container,
                index,
                role: ContainerRole::Init,
            };
            run.run(&self.stop).await;
            if self.stop.is_cancelled() {
                return;
            }
        }
        let runs: Vec<ContainerRun<'_>> = spec
            .containers
            .iter()
            .enumerate()
            .map(|(index, container)| ContainerRun {
                pod: self,
                container,
                index,
                role: ContainerRole::Main,
            })
            .collect();
        tokio::select! {
            biased;
            _ = join_all(runs.iter().map(|run| run.run(&self.stop))) => {}
            never = self.keep_volumes() => match never {},
        }
    }

    /// Has the pod on this node.
    async fn schedule(&self) {
        let node = self
            .first
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.as_ref());
        if node.is_some() {
            return;
        }
        loop {
            let refused = self.ctx.refusal(&self.first, &self.key);
            let is_refused = refused.is_some();
            self.change(|facts| facts.unschedulable = refused);
            if !is_refused {
                match self.bind().await {
                    Ok(()) => return,
                    Err(fault) => self.tell("Warning", "FailedScheduling", &fault.chain()),
                }
            }
            self.changed(RETRY).await;
        }
    }

    async fn bind(&self) -> Result<(), RequestFault> {
        let ctx = &self.ctx;
        ctx.ensure_node().await?;
        let name = &self.key.1;
        let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &self.key.0);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                uid: Some(self.uid.clone()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(ctx.options.node.clone()),
                ..ObjectReference::default()
            },
        };
        let object = format!("Pod {}/{name}", self.key.0);
        let wrap = |source| RequestFault::Write {
            object: object.clone(),
            source,
        };
        let params = request::post();
        let binding = api.create_subresource("binding", name, &params, &binding);
        let bound: Result<Status, RequestFault> = in_time(&object, binding, wrap).await;
        match bound.map_err(|fault| (fault.class(), fault)) {
            Ok(_) => Ok(()),
            // An API without that subresource takes the name of the node as it is.
            Err((FaultClass::Missing | FaultClass::Denied, _)) => {
                let body = json!({
                    "metadata": {"uid": self.uid}, "spec": {"nodeName": ctx.options.node},
                });
                let (params, patch) = (request::patch(), Patch::Merge(&body));
                in_time(&object, api.patch(name, &params, &patch), wrap).await?;
                Ok(())
            }
            Err((_, fault)) => Err(fault),
        }
    }

    /// Makes what the containers need; tried until it is there.
    async fn prepare(&self) {
        // What is not known yet must not be told as missing.
        self.ctx.until_synced().await;
        loop {
            match Box::pin(self.try_prepare()).await {
                Ok(()) => {
                    self.change(|facts| facts.message = None);
                    return;
                }
                Err(why) => {
                    self.tell("Warning", "FailedMount", &why);
                    self.change(|facts| facts.wait(&why));
                }
            }
            self.changed(RETRY).await;
        }
    }

    async fn try_prepare(&self) -> Result<(), String> {
        end_leftovers(&self.folder).await;
        let folder = &self.folder;
        let owned = own_folder(folder, &self.uid);
        owned.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let pod = self.pod();
        let had = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        let ports = address::ports(&pod);
        let address = self.ctx.addresses.take(&self.key, had, &ports);
        let address = address.map_err(|error| format!("no address is free: {error}"))?;
        let added = interface::add(address).await;
        added.map_err(|error| error.to_string())?;
        let now = self.ctx.now();
        self.change(|facts| {
            facts.address = Some(address);
            facts.started.get_or_insert(now);
        });
        self.fill_volumes().await
    }

    /// Removes what is left of a deleted pod, and lets its object go.
    async fn finish(&self) {
        if let Err(error) = disk::remove(&self.folder) {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "the folder of a pod cannot be removed");
        }
        let api: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &self.key.0);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let object = format!("Pod {}/{}", self.key.0, self.key.1);
        loop {
            let deleting = api.delete(&self.key.1, &params);
            let deleted = in_time(&object, deleting, |source| RequestFault::Delete {
                object: object.clone(),
                source,
            });
            match deleted.await.map_err(|fault| fault.class()) {
                Ok(_) | Err(FaultClass::Missing | FaultClass::Conflict) => return,
                Err(FaultClass::Transient | FaultClass::Expired | FaultClass::Denied) => {
                    if self.ctx.is_stopping() {
                        return;
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// The folders of its volumes.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.storage().folders.values().cloned().collect()
    }

    /// What a container sees of the volumes.
    fn mounts(&self, container: &Container) -> Mounts {
        let folders = self.storage().folders.clone();
        Mounts::new(storage::mounted(container, &folders).chain(self.image_folders()))
    }

    fn storage(&self) -> MutexGuard<'_, PodStorage> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends what an earlier run left behind of a pod.
pub(crate) async fn end_leftovers(folder: &Path) {
    let Ok(containers) = fs::read_dir(folder.join("containers")) else {
        return;
    };
    for container in containers.flatten() {
        let pid = container.path().join("pid");
        if pid.exists() {
            pid_file::end(&pid).await;
        }
    }
}

/// Makes the folder of a pod; what another pod of this name had in it goes.
fn own_folder(folder: &Path, uid: &str) -> io::Result<()> {
    let owner = folder.join("uid");
    if fs::read_to_string(&owner).is_ok_and(|held| held == uid) {
        return Ok(());
    }
    disk::remove(folder)?;
    disk::make_folder(folder)?;
    disk::write_file(&owner, uid.as_bytes())
}

/// Which nodes a pod may be on, compared with what this one is.
pub(crate) fn is_selected(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let selector = pod
        .spec
        .iter()
        .flat_map(|spec| spec.node_selector.iter().flatten());
    selector
        .into_iter()
        .all(|(name, value)| labels.get(name) == Some(value))
}

/// The node as an object.
pub(crate) fn node(name: &str, labels: BTreeMap<String, String>) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

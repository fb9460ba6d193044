//! The node: which pods are on it, and all that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_core::Backoff;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret};
use kube::Client;
use kube::api::{Api, Patch};
use serde_json::json;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::PART_OF;
use crate::address::Addresses;
use crate::claims;
use crate::following::{Follow, Followed, NamespacedName, key};
use crate::launch::Programs;
use crate::pod::{self, PodRun, end_leftovers};
use crate::request::{self, FaultClass, RequestFault, in_time};
use crate::volumes::disk;

/// Containers that are started at the same time.
const STARTS_MAX: usize = 4;

/// How pods are run on this machine.
#[derive(Clone)]
pub struct PodOptions {
    /// The name of the node.
    pub node: String,
    /// Where pods and claims have their folders.
    pub folder: PathBuf,
    /// The programs that may be run.
    pub programs: Programs,
    /// Where the tokens of service accounts come from.
    pub tokens: Tokens,
    /// What time it is.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Secure random bytes.
    pub random: Arc<dyn Fn() -> [u8; 32] + Send + Sync>,
    /// Pods on the node; further ones are not scheduled. Each has two processes and their threads.
    pub pods_max: usize,
    /// How long a container waits that ended more than once.
    pub restart: Backoff,
    /// After how long a container is well, so that its next end counts as the first.
    pub well_after: Duration,
    /// How long a container may take to end that its probe gave up.
    pub unhealthy_grace: Duration,
    /// How long containers may take to end when everything stops.
    pub stop_grace: Duration,
}

/// Where the tokens of service accounts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// The API gives and checks them.
    Requested,
    /// The API does not check them: any will do.
    Random,
}

impl PodOptions {
    /// Options of the node `bindery` with what is usual.
    #[must_use]
    pub fn new(
        folder: PathBuf,
        programs: Programs,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
        random: Arc<dyn Fn() -> [u8; 32] + Send + Sync>,
    ) -> Self {
        Self {
            node: "bindery".to_owned(),
            folder,
            programs,
            tokens: Tokens::Random,
            clock,
            random,
            pods_max: 200,
            restart: Backoff {
                first: Duration::from_secs(1),
                max: Duration::from_secs(30),
            },
            well_after: Duration::from_secs(30),
            unhealthy_grace: Duration::from_secs(2),
            stop_grace: Duration::from_secs(8),
        }
    }
}

/// The scheduler and kubelet of one node: runs pods that have the label [`PART_OF`] as processes.
pub struct Pods {
    ctx: Arc<NodeContext>,
}

/// What the pods of a node share.
pub(crate) struct NodeContext {
    pub(crate) client: Client,
    pub(crate) options: PodOptions,
    pub(crate) pods: Followed<Pod>,
    pub(crate) config_maps: Followed<ConfigMap>,
    pub(crate) secrets: Followed<Secret>,
    pub(crate) claims: Followed<PersistentVolumeClaim>,
    pub(crate) addresses: Addresses,
    pub(crate) starts: Semaphore,
    running: Mutex<BTreeMap<NamespacedName, Arc<PodRun>>>,
    node: OnceCell<()>,
    stop: CancellationToken,
}

type Runs = FuturesUnordered<BoxFuture<'static, NamespacedName>>;

impl Pods {
    /// A node for the pods of an API, with options.
    #[must_use]
    pub fn new(client: Client, options: PodOptions) -> Self {
        let ctx = NodeContext {
            client,
            addresses: Addresses::of(&options.folder),
            options,
            pods: Followed::new("Pod"),
            config_maps: Followed::new("ConfigMap"),
            secrets: Followed::new("Secret"),
            claims: Followed::new("PersistentVolumeClaim"),
            starts: Semaphore::new(STARTS_MAX),
            running: Mutex::default(),
            node: OnceCell::new(),
            stop: CancellationToken::new(),
        };
        Self { ctx: Arc::new(ctx) }
    }

    /// Works until `stop`; then the processes of all pods are ended, and their objects stay.
    ///
    /// Cancellation: the processes are killed; the next start goes on.
    pub async fn run(self, stop: CancellationToken) {
        let ctx = &self.ctx;
        let all = || Api::all(ctx.client.clone());
        let pods = ctx.pods.follow(all(), Some(PART_OF), &stop, |pod: &Pod| {
            if let Some(run) = ctx.running().get(&key(pod)) {
                run.touch();
            }
        });
        let others = async {
            let mut known = ctx.pods.changes();
            // Where there are no pods, nothing else is looked at.
            while ctx.pods.all().is_empty() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    changed = known.changed() => drop(changed),
                }
            }
            let config_maps = ctx.follow(&ctx.config_maps, &stop);
            let secrets = ctx.follow(&ctx.secrets, &stop);
            let claims = ctx.follow(&ctx.claims, &stop);
            tokio::join!(config_maps, secrets, claims);
        };
        tokio::join!(pods, others, self.manage(&stop));
    }

    /// Starts pods that come and ends those that go.
    async fn manage(&self, stop: &CancellationToken) {
        let ctx = &self.ctx;
        let mut pods = ctx.pods.changes();
        let mut claims = ctx.claims.changes();
        let mut runs = Runs::new();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // The sender is ours, so it is there.
            _ = pods.wait_for(|state| state.is_synced) => {}
        }
        self.end_orphans().await;
        loop {
            self.align(&mut runs);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = runs.next() => {
                    ctx.running().remove(&ended);
                    self.sweep().await;
                }
                changed = pods.changed() => drop(changed),
                changed = claims.changed() => {
                    drop(changed);
                    self.sweep().await;
                }
            }
        }
        ctx.stop.cancel();
        for run in ctx.running().values() {
            run.halt();
        }
        while runs.next().await.is_some() {}
    }

    fn align(&self, runs: &mut Runs) {
        let ctx = &self.ctx;
        let told = ctx.pods.all();
        let mut running = ctx.running();
        let mut live = BTreeSet::new();
        for pod in told.iter().filter(|pod| ctx.is_ours(pod)) {
            let key = key(&**pod);
            let is_leaving = pod.metadata.deletion_timestamp.is_some();
            match running.get(&key) {
                Some(run) if Some(&run.uid) == pod.metadata.uid.as_ref() => {
                    if is_leaving {
                        run.delete();
                    }
                    live.insert(key);
                }
                // Another pod had the name; this one begins when that has ended.
                Some(_) => {}
                None => {
                    let run = Arc::new(PodRun::new(Arc::clone(ctx), Arc::clone(pod)));
                    if is_leaving {
                        run.delete();
                    }
                    running.insert(key.clone(), Arc::clone(&run));
                    live.insert(key.clone());
                    runs.push(Box::pin(async move {
                        Box::pin(run.run()).await;
                        key
                    }));
                }
            }
        }
        for (key, run) in running.iter() {
            if !live.contains(key) {
                run.delete();
            }
        }
    }

    async fn sweep(&self) {
        let ctx = &self.ctx;
        let runs: Vec<Arc<PodRun>> = ctx.running().values().cloned().collect();
        let used = runs.iter().flat_map(|run| run.folders()).collect();
        claims::sweep(&ctx.client, &ctx.options.folder, &ctx.claims, &used).await;
    }

    /// Ends and removes what is left of pods that went while nobody looked.
    async fn end_orphans(&self) {
        let ctx = &self.ctx;
        let Ok(namespaces) = fs::read_dir(&ctx.options.folder) else {
            return;
        };
        for namespace in namespaces.flatten() {
            let name = namespace.file_name().to_string_lossy().into_owned();
            let Ok(pods) = fs::read_dir(namespace.path()) else {
                continue;
            };
            for pod in pods.flatten().filter(|_| !name.starts_with('.')) {
                let known = ctx.pods.get(&name, &pod.file_name().to_string_lossy());
                if known.is_none_or(|known| !ctx.is_ours(&known)) {
                    end_leftovers(&pod.path()).await;
                    if let Err(error) = disk::remove(&pod.path()) {
                        tracing::warn!(folder = %pod.path().display(), %error, "it cannot be removed");
                    }
                }
            }
        }
    }
}

impl NodeContext {
    pub(crate) fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits until all that pods are made of is known.
    pub(crate) async fn until_synced(&self) {
        // The senders are ours, so they are there.
        let _ = self
            .config_maps
            .changes()
            .wait_for(|state| state.is_synced)
            .await;
        let _ = self
            .secrets
            .changes()
            .wait_for(|state| state.is_synced)
            .await;
        let _ = self
            .claims
            .changes()
            .wait_for(|state| state.is_synced)
            .await;
    }

    /// Why a pod cannot be on this node, in the scheduler's words.
    pub(crate) fn refusal(&self, pod: &Pod, key: &NamespacedName) -> Option<String> {
        if !pod::is_selected(pod, &self.labels()) {
            let why =
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
            return Some(why.to_owned());
        }
        let before = self
            .running()
            .keys()
            .take_while(|other| *other != key)
            .count();
        let is_full = before >= self.options.pods_max;
        is_full.then(|| "0/1 nodes are available: 1 Too many pods.".to_owned())
    }

    /// Has the node as an object.
    ///
    /// Cancellation: the next call goes on.
    pub(crate) async fn ensure_node(&self) -> Result<(), RequestFault> {
        let made = self.node.get_or_try_init(|| self.write_node()).await;
        made.copied()
    }

    async fn write_node(&self) -> Result<(), RequestFault> {
        let api: Api<Node> = Api::all(self.client.clone());
        let name = &self.options.node;
        let object = format!("Node {name}");
        let node = pod::node(name, self.labels());
        let params = request::post();
        let made = in_time(&object, api.create(&params, &node), |source| {
            RequestFault::Create {
                object: object.clone(),
                source,
            }
        })
        .await;
        match made {
            Err(fault) if fault.class() != FaultClass::Conflict => return Err(fault),
            Ok(_) | Err(_) => {}
        }
        let now = Timestamp::from_second(self.now().as_second()).unwrap_or_default();
        let pods = self.options.pods_max.to_string();
        let body = json!({"status": {
            "capacity": {"pods": pods}, "allocatable": {"pods": pods},
            "addresses": [{"type": "InternalIP", "address": crate::HOST_ADDRESS}],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "pods are processes of bindery", "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
        }});
        let (params, patch) = (request::patch(), Patch::Merge(&body));
        let writing = api.patch_status(name, &params, &patch);
        in_time(&object, writing, |source| RequestFault::Write {
            object: object.clone(),
            source,
        })
        .await?;
        Ok(())
    }

    /// Whether a pod is on this node, or on none.
    fn is_ours(&self, pod: &Pod) -> bool {
        let spec = pod.spec.as_ref();
        let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
        match spec.and_then(|spec| spec.node_name.as_ref()) {
            Some(node) => *node == self.options.node,
            // One that asks for another scheduler is left to it.
            None => scheduler.is_none_or(|one| ["", "default-scheduler"].contains(&one)),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let labels = [
            ("kubernetes.io/hostname", self.options.node.as_str()),
            ("kubernetes.io/os", std::env::consts::OS),
            ("kubernetes.io/arch", arch()),
        ];
        labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Arc<PodRun>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows objects that pods are made of.
    async fn follow<K>(&self, followed: &Followed<K>, stop: &CancellationToken)
    where
        K: Follow + kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let api = Api::all(self.client.clone());
        let seen = |object: &K| {
            let (namespace, _) = key(object);
            let running = self.running();
            let from = (namespace.clone(), String::new());
            let near = running
                .range(from..)
                .take_while(|((held, _), _)| *held == namespace);
            for run in near.map(|(_, run)| run) {
                run.sources.send_modify(|count| *count += 1);
            }
        };
        followed.follow(api, None, stop, seen).await;
    }
}

/// The processor, as Kubernetes calls it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

//! The controllers of name servers: cluster-wide declarations, clusters and instances become pods, and ready
//! pods become the servers of zones.
//!
//! They know Kubernetes objects alone. What reaches a pod (DNS, its sidecar), checks a configuration or makes
//! a key comes through [`PodPorts`].

mod api;
mod cluster;
mod fleet;
mod instance;
mod keys;
mod probes;
mod provider;
mod signing_keys;
mod store;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bindery_core::backoff::jitter_seed;
use bindery_core::{Backoff, Name, Serial};
use bindery_engine::Engine;
use bindery_engine::ports::{NameServer, ZoneHost};
use bindery_engine::work::{Requeue, WorkKey, WorkLimits, WorkQueue};
use bindery_sources::clusters::{ConfigFiles, SidecarView};
use futures::future::BoxFuture;
use kube::Client;
use kube::api::DynamicObject;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Clock;
use crate::controllers::{Handle, Task};
use crate::replica::Replica;

use api::ObjectApi;
use fleet::Fleets;
use probes::SidecarProbes;
use store::{ObjectPlace, Sort, Store};

/// The limits of these controllers: there are few objects, and each waits for one request.
const RECONCILES: WorkLimits = WorkLimits {
    running_max: 16,
    retry: Backoff {
        first: Duration::from_millis(200),
        max: Duration::from_secs(30),
    },
};

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Hides a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whom it is meant.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// A TSIG key as a Secret has it.
#[derive(Clone, PartialEq, Eq)]
pub struct PodKey {
    /// Its name.
    pub name: String,
    /// Its algorithm: `hmac-sha256`.
    pub algorithm: String,
    /// The key in base64.
    pub secret: SecretText,
}

/// A key as servers have it.
pub struct KeyText {
    /// As a statement of named.conf.
    pub file: SecretText,
    /// By which a sidecar tells that its server has it.
    pub fingerprint: String,
}

/// A pod that is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub struct PodPlace {
    /// Namespace and name.
    pub pod: String,
    /// Its address.
    pub ip: String,
    /// Where its sidecar listens.
    pub sidecar_port: u16,
    /// Whether it copies, and from whom: address, port and the name of the key.
    pub primaries: Option<Vec<String>>,
    /// Who is to be told of changes: address, port and the name of the key.
    pub notify: Vec<String>,
    /// The key of updates and transfers.
    pub key: PodKey,
    /// The key that its zones name, where the configuration of the server does not say who may update.
    pub zone_key: Option<String>,
    /// Whether its sidecar takes addresses of peers without keys.
    pub takes_addresses: bool,
    /// The policy by which it signs zones that say `default`, where that is not the one that named has itself.
    pub default_policy: Option<&'static str>,
    /// The token of its sidecar.
    pub token: SecretText,
}

/// What a pod is spoken to through.
#[derive(Clone)]
pub struct PodAccess {
    /// Updates and questions.
    pub server: Arc<dyn NameServer>,
    /// Its zones.
    pub host: Arc<dyn ZoneHost>,
    /// How its sidecar is.
    pub sidecar: Arc<dyn Sidecar>,
}

/// The zones that a pod shall have, with their newest serials; nothing while that is not known.
pub type AwaitedZones<'a> = &'a (dyn Fn() -> Option<BTreeMap<Name, Serial>> + Send + Sync);

/// A sidecar that can be asked how it is.
pub trait Sidecar: Send + Sync + 'static {
    /// Asks it, for two seconds at most. What its server shall have, it is told where it does not know.
    fn ask<'a>(&'a self, awaited: AwaitedZones<'a>) -> BoxFuture<'a, SidecarAnswer>;

    /// The keys that its server signs zones with: files, by the names that they have in a Secret.
    ///
    /// # Errors
    /// Why they cannot be had.
    fn signing_keys(&self) -> BoxFuture<'_, Result<BTreeMap<String, SecretText>, String>>;
}

/// What a sidecar answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarAnswer {
    /// How it is.
    pub view: SidecarView,
    /// The fingerprints of the keys that its server has; nothing where it does not tell.
    pub keys: Option<Vec<String>>,
    /// By which the keys that its server signs zones with are told from others; nothing where there are none.
    pub signing_keys: Option<String>,
}

/// What named-checkconf says of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `named` would start with it.
    Accepted,
    /// It would not: the words of named-checkconf.
    Refused(String),
}

/// What these controllers need of the world beside the Kubernetes API.
pub trait PodPorts: Send + Sync + 'static {
    /// Has named-checkconf look at a configuration. Where there is no such program it is accepted: the pod will
    /// tell.
    ///
    /// # Errors
    /// Why that cannot be known now; it is tried again.
    fn check<'a>(&'a self, files: &'a ConfigFiles) -> BoxFuture<'a, Result<Verdict, String>>;

    /// Makes a key of this name, for this algorithm.
    ///
    /// # Errors
    /// Why there is no such key.
    fn make_key(&self, name: &str, algorithm: &str) -> Result<PodKey, String>;

    /// A key as servers have it.
    ///
    /// # Errors
    /// Why it is none.
    fn key_file(&self, key: &PodKey) -> Result<KeyText, String>;

    /// Makes a token.
    fn make_token(&self) -> SecretText;

    /// Opens what a pod is spoken to through.
    ///
    /// # Errors
    /// Why that cannot be, such as a key that is none.
    fn open(&self, place: &PodPlace) -> Result<PodAccess, String>;
}

/// How these controllers are to behave.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The image of the sidecar, and of `named` where nobody names one.
    pub image: String,
    /// The namespace of clusters whose cluster-wide declaration names none.
    pub namespace: String,
    /// The namespaces that are looked at; none stands for all.
    pub namespaces: BTreeSet<Arc<str>>,
    /// How long pods may take to become ready before that is told.
    pub progress_deadline: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            image: "bindery:latest".to_owned(),
            namespace: "bindy-system".to_owned(),
            namespaces: BTreeSet::new(),
            progress_deadline: Duration::from_mins(10),
        }
    }
}

/// Everything that these controllers need.
pub struct ServerControllers {
    /// The Kubernetes API.
    pub client: Client,
    /// Whose servers they are.
    pub engine: Engine,
    /// How to behave.
    pub settings: ServerSettings,
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// This process among others.
    pub replica: Replica,
    /// What reaches pods.
    pub ports: Arc<dyn PodPorts>,
}

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerWork {
    /// A cluster-wide declaration, of either kind.
    Provider(Sort, Arc<str>),
    /// A cluster.
    Cluster(ObjectPlace),
    /// An instance.
    Instance(ObjectPlace),
}

impl WorkKey for ServerWork {
    fn jitter_seed(&self) -> u64 {
        let (Self::Provider(_, name)
        | Self::Cluster(ObjectPlace { name, .. })
        | Self::Instance(ObjectPlace { name, .. })) = self;
        jitter_seed(name.as_bytes())
    }
}

/// A configuration and what named-checkconf said of it.
type Checked = (ConfigFiles, Verdict);

/// What they share.
pub(crate) struct ServerContext {
    api: ObjectApi,
    /// Cancelled once this process may work.
    elected: CancellationToken,
    engine: Engine,
    settings: ServerSettings,
    clock: Arc<dyn Clock>,
    ports: Arc<dyn PodPorts>,
    queue: WorkQueue<ServerWork>,
    store: Mutex<Store>,
    fleets: Mutex<Fleets>,
    probes: SidecarProbes,
    /// Which instance of each cluster is being replaced.
    rollouts: instance::Rollouts,
    /// Keys in Secrets of others.
    given: keys::GivenKeys,
    /// Files in ConfigMaps of others.
    given_files: instance::GivenFiles,
    /// Secrets of ours as they were last seen, for when somebody deletes one.
    secrets: Mutex<BTreeMap<ObjectPlace, Arc<DynamicObject>>>,
    /// What named-checkconf said of the configuration of each instance: it is asked once for each.
    checked: Mutex<BTreeMap<ObjectPlace, Checked>>,
    /// Who knows which zones there are.
    zones: OnceLock<Handle>,
    /// Whether everything was read.
    synced: watch::Sender<bool>,
    /// Whether the groups of everything that was read are there.
    known: watch::Sender<bool>,
}

/// What can be asked of running controllers of name servers.
#[derive(Clone)]
pub struct ServersHandle(Arc<ServerContext>);

impl ServersHandle {
    /// Waits until every declared cluster is known. Before that a zone's cluster would pass for missing.
    pub async fn known(&self) {
        let mut known = self.0.known.subscribe();
        // The sender lives as long as this handle.
        let _ = known.wait_for(|known| *known).await;
    }

    /// Tells who knows which zones there are; once.
    pub fn set_zones(&self, zones: Handle) {
        let _ = self.0.zones.set(zones);
    }
}

impl ServerControllers {
    /// The tasks, which end when `stop` is cancelled and their writes are done, and a handle.
    #[must_use]
    pub fn start(self, stop: &CancellationToken) -> (ServersHandle, Vec<Task>) {
        let shared = Arc::new(ServerContext {
            api: ObjectApi::new(self.client, self.replica.fence.clone()),
            elected: self.replica.elected.clone(),
            engine: self.engine,
            settings: self.settings,
            clock: self.clock,
            ports: self.ports,
            queue: WorkQueue::new(RECONCILES),
            store: Mutex::default(),
            fleets: Mutex::default(),
            probes: SidecarProbes::default(),
            rollouts: instance::Rollouts::default(),
            given: keys::GivenKeys::default(),
            given_files: instance::GivenFiles::default(),
            secrets: Mutex::default(),
            checked: Mutex::default(),
            zones: OnceLock::new(),
            synced: watch::Sender::new(false),
            known: watch::Sender::new(false),
        });
        let handle = ServersHandle(Arc::clone(&shared));
        let tasks: Vec<Task> = vec![
            (
                "name server watches",
                Box::pin(watching::watch_all(Arc::clone(&shared), stop.clone())),
            ),
            (
                "name servers",
                Box::pin(run(Arc::clone(&shared), stop.clone())),
            ),
            (
                "sidecar probes",
                Box::pin(probes::run(shared, stop.clone())),
            ),
        ];
        (handle, tasks)
    }
}

impl ServerContext {
    fn store(&self) -> MutexGuard<'_, Store> {
        // A panic under the lock is our bug and ends the process; until then the store is read on.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fleets(&self) -> MutexGuard<'_, Fleets> {
        self.fleets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secrets(&self) -> MutexGuard<'_, BTreeMap<ObjectPlace, Arc<DynamicObject>>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a Secret of ours in mind.
    fn remember(&self, place: &ObjectPlace, secret: &DynamicObject) {
        let mut secrets = self.secrets();
        let version = &secret.metadata.resource_version;
        let is_known = secrets
            .get(place)
            .is_some_and(|known| known.metadata.resource_version == *version);
        if !is_known {
            secrets.insert(place.clone(), Arc::new(secret.clone()));
        }
    }

    /// Its instance goes, and its keys with it.
    fn forget(&self, place: &ObjectPlace) {
        self.secrets().remove(place);
    }

    /// A Secret of ours as it was last seen.
    fn remembered(&self, place: &ObjectPlace) -> Option<Arc<DynamicObject>> {
        self.secrets().get(place).cloned()
    }

    /// Has named-checkconf look at the configuration of an instance, unless it has.
    async fn check(&self, instance: &ObjectPlace, files: &ConfigFiles) -> Result<Verdict, String> {
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, said)) = checked().get(instance)
            && known == files
        {
            return Ok(said.clone());
        }
        let said = self.ports.check(files).await?;
        checked().insert(instance.clone(), (files.clone(), said.clone()));
        Ok(said)
    }

    /// Queues what an object concerns.
    fn touch(&self, keys: impl IntoIterator<Item = ServerWork>) {
        for key in keys {
            self.queue.push(key);
        }
    }
}

/// Works on what changed, once everything was read: what is not seen yet must not be made again.
async fn run(shared: Arc<ServerContext>, stop: CancellationToken) {
    let mut synced = shared.synced.subscribe();
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        _ = synced.wait_for(|synced| *synced) => {}
    }
    fleet::ensure_declared(&shared);
    shared.known.send_replace(true);
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = shared.elected.cancelled() => {}
    }
    let reconcile = |key: ServerWork| -> BoxFuture<'_, Requeue> {
        let shared = &shared;
        Box::pin(async move {
            let done = match &key {
                ServerWork::Provider(sort, name) => provider::reconcile(shared, *sort, name).await,
                ServerWork::Cluster(place) => cluster::reconcile(shared, place).await,
                ServerWork::Instance(place) => Box::pin(instance::reconcile(shared, place)).await,
            };
            match done {
                Ok(requeue) => requeue,
                Err(error) => {
                    if !error.is_conflict() {
                        let error = error.to_string();
                        tracing::warn!(?key, error, "a request to the Kubernetes API failed");
                    }
                    Requeue::Failed
                }
            }
        })
    };
    shared.queue.run(stop, reconcile).await;
}

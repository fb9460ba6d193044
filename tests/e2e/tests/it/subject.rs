//! The API servers that a suite can be run on, each started when its first case runs.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use anyhow::{Context, Result};
use bindery_apiserver::{EmbeddedApi, Options, ServeOptions, System};
use bindery_e2e::http::{Call, Http, PATIENCE};
use bindery_e2e::kubernetes::Kubernetes;
use bindery_pods::{PodOptions, Pods, Programs, StatefulSets, Tokens};
use http::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// What a case is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// kube-apiserver with etcd and controllers: the truth.
    Real,
    /// The API inside Bindery, over HTTP.
    Embedded,
}

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().expect("a runtime needs only threads"));
static REAL: OnceLock<Result<Http, ()>> = OnceLock::new();
static EMBEDDED: OnceLock<Result<Http, ()>> = OnceLock::new();
static KUBERNETES: Mutex<Option<Kubernetes>> = Mutex::new(None);

struct Local {
    url: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    _folder: TempDir,
}

static LOCAL: Mutex<Option<Local>> = Mutex::new(None);

impl Subject {
    /// The first part of the names of its cases.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Embedded => "embedded",
        }
    }

    /// A client of the running server, which is started if this is the first call.
    pub(crate) fn http(self) -> Result<Http, String> {
        let (cell, start): (_, fn() -> Result<Http>) = match self {
            Self::Real => (&REAL, || block_on(start_real())),
            Self::Embedded => (&EMBEDDED, || block_on(start_embedded())),
        };
        let mut report = format!(
            "the {} API did not start, another case says why",
            self.as_str()
        );
        let outcome = cell.get_or_init(|| {
            start().map_err(|fault| {
                report = format!("the {} API did not start: {fault:#}", self.as_str());
            })
        });
        outcome.clone().map_err(|()| report)
    }
}

/// A node of a subject, whose pods are processes.
struct LocalNode {
    subject: Subject,
    folder: TempDir,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

static NODES: Mutex<Vec<LocalNode>> = Mutex::new(Vec::new());

impl LocalNode {
    fn start(subject: Subject, http: &Http) -> Result<()> {
        let folder = tempfile::tempdir().context("cannot create a scratch folder")?;
        let programs = Programs {
            named: bindery_bind::find_named(),
            bindery: None,
        };
        let clock = || bindery_apiserver::Environment::now(&System);
        let path = folder.path().join("pods");
        let mut options =
            PodOptions::new(path, programs, Arc::new(clock), Arc::new(System::secret));
        if subject == Subject::Real {
            options.tokens = Tokens::Requested;
        }
        let stop = CancellationToken::new();
        let running = RUNTIME.spawn(Pods::new(http.client(), options).run(stop.clone()));
        let node = Self {
            subject,
            folder,
            stop,
            running,
        };
        NODES.lock().map(|mut nodes| nodes.push(node)).ok();
        Ok(())
    }
}

/// Where the node of a subject has the files of its pods.
pub(crate) fn node_folder(subject: Subject) -> PathBuf {
    let nodes = NODES.lock().expect("nobody panics with it");
    let mut nodes = nodes.iter().filter(|node| node.subject == subject);
    let node = nodes.next().expect("the subject was started");
    node.folder.path().join("pods")
}

fn stop_nodes() {
    let nodes = NODES.lock().map(|mut nodes| std::mem::take(&mut *nodes));
    for node in nodes.unwrap_or_default() {
        node.stop.cancel();
        block_on(node.running).ok();
    }
}

impl Subject {
    /// How kubectl reaches the server that [`Self::http`] started.
    pub(crate) fn kubectl_arguments(self) -> Vec<String> {
        match self {
            Self::Real => {
                let kubernetes = KUBERNETES.lock().ok();
                let file = kubernetes.and_then(|held| held.as_ref().map(Kubernetes::kubeconfig));
                let file = file.expect("the real server was started");
                vec![format!("--kubeconfig={}", file.display())]
            }
            Self::Embedded => {
                fs::remove_dir_all(kubectl_cache()).ok();
                let local = LOCAL.lock().ok();
                let url = local.and_then(|held| held.as_ref().map(|local| local.url.clone()));
                vec![
                    "--kubeconfig=".to_owned(),
                    format!("--server={}", url.expect("it was started")),
                ]
            }
        }
    }
}

/// Runs a case to its end on the runtime of all cases.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// Stops the servers also when this process is told to end; otherwise they would stay behind.
pub(crate) fn stop_when_told() {
    RUNTIME.spawn(async {
        let Ok(mut told) = signal(SignalKind::terminate()) else {
            return;
        };
        told.recv().await;
        if let Ok(mut kubernetes) = KUBERNETES.lock() {
            kubernetes.take();
        }
        std::process::exit(143);
    });
}

/// Where kubectl keeps what it discovered during this run.
pub(crate) fn kubectl_cache() -> PathBuf {
    std::env::temp_dir().join(format!("kubectl-{}", std::process::id()))
}

/// Stops every server that was started.
pub(crate) fn stop_all() {
    stop_nodes();
    if let Ok(mut kubernetes) = KUBERNETES.lock() {
        kubernetes.take();
    }
    let local = LOCAL.lock().ok().and_then(|mut local| local.take());
    if let Some(local) = local {
        local.stop.cancel();
        block_on(local.serving).ok();
    }
}

/// The documents of a fixture file.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a fixture is valid YAML")
}

async fn start_real() -> Result<Http> {
    let mut kubernetes = Kubernetes::start().await?;
    let http = kubernetes.http();
    install_kinds(&http).await?;
    kubernetes.start_controllers()?;
    LocalNode::start(Subject::Real, &http)?;
    if let Ok(mut slot) = KUBERNETES.lock() {
        *slot = Some(kubernetes);
    }
    Ok(http)
}

async fn start_embedded() -> Result<Http> {
    let folder = tempfile::tempdir().context("cannot create a scratch folder")?;
    let api = EmbeddedApi::open(Options::on_disk(folder.path().join("data")))?;
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("no free loopback port")?;
    let url = format!("http://{}", listener.local_addr().context("it is bound")?);
    let stop = CancellationToken::new();
    // The real server has a controller of its own for them.
    RUNTIME.spawn(StatefulSets::new(api.client()).run(stop.clone()));
    let serving = RUNTIME.spawn(api.serve(listener, ServeOptions::default(), stop.clone()));
    if let Ok(mut slot) = LOCAL.lock() {
        *slot = Some(Local {
            url: url.clone(),
            stop,
            serving,
            _folder: folder,
        });
    }
    let http = Http::connect(&url, None)?;
    install_kinds(&http).await?;
    LocalNode::start(Subject::Embedded, &http)?;
    Ok(http)
}

/// The definitions that `cargo xtask crd` wrote.
pub(crate) fn own_definitions() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let entries = fs::read_dir(&folder).expect("deploy/crds is part of the checkout");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    let read = |file| yaml(&fs::read_to_string(file).expect("a definition can be read"));
    files.into_iter().map(read).collect()
}

/// Installs the kinds of the battery and Bindery's own, and waits until they are served.
async fn install_kinds(http: &Http) -> Result<()> {
    let target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definitions = own_definitions();
    definitions.push(yaml(include_str!("../../fixtures/widgets.yaml")));
    definitions.push(yaml(include_str!("../../fixtures/gadgets.yaml")));
    for definition in &definitions {
        let answer = http
            .send(Call::new(Method::POST, target).json(definition))
            .await?;
        anyhow::ensure!(answer.code == 201, "a kind is refused: {}", answer.text);
    }
    let deadline = Instant::now() + PATIENCE;
    for definition in &definitions {
        let spec = &definition["spec"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (word(&spec["group"]), word(&spec["names"]["plural"]));
        let list = format!(
            "/apis/{group}/{}/{plural}",
            word(&spec["versions"][0]["name"])
        );
        while http.send(Call::new(Method::GET, &list)).await?.code != 200 {
            anyhow::ensure!(Instant::now() < deadline, "{plural} are not served");
            sleep(crate::scene::POLL_INTERVAL).await;
        }
    }
    Ok(())
}

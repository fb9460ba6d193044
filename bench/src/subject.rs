//! The Bindery that is measured: a real `bindery up`, a child process of ours.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bindery_dns::{Key, Server};
use bindery_engine::ports::NameServer as _;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::arguments::Which;
use crate::http::Http;
use crate::{machine, objects, ports};

/// How long a start, a stop or a new zone may take before the run is given up. Half a million objects take
/// minutes to read.
const PATIENCE: Duration = Duration::from_mins(15);
/// How often to look whether it is there.
const POLL: Duration = Duration::from_millis(2);

/// A running `bindery up` on a folder of its own.
pub(crate) struct Subject {
    places: Places,
    child: Child,
    started: Instant,
    cluster: Option<Cluster>,
}

/// Name servers of a cluster that was declared to it.
struct Cluster {
    name: String,
    addresses: Vec<SocketAddr>,
    keys: Vec<Key>,
}

/// The name servers that it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    /// Which.
    pub(crate) which: Which,
    /// How many take updates; at least one.
    pub(crate) primaries: u16,
    /// How many fetch from those.
    pub(crate) secondaries: u16,
}

impl Fleet {
    /// A single one.
    pub(crate) const fn one(which: Which) -> Self {
        Self {
            which,
            primaries: 1,
            secondaries: 0,
        }
    }
}

/// What stays the same over restarts.
struct Places {
    fleet: Fleet,
    api: SocketAddr,
    metrics: SocketAddr,
    /// The name servers, the first primary first.
    dns: Vec<SocketAddr>,
    binary: PathBuf,
    scratch: TempDir,
}

/// Builds the release binary and says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = std::process::Command::new(cargo)
        .args(["build", "--release", "--package", "bindery"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .status()
        .context("cannot run cargo")?;
    if !built.success() {
        bail!("bindery does not build");
    }
    let ours = std::env::current_exe().context("cannot tell where this program lies")?;
    let target = ours
        .ancestors()
        .nth(2)
        .context("this program has no folder")?;
    Ok(target.join("release/bindery"))
}

/// What is lost while Bindery does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing.
    Nothing,
    /// Everything that the name server had; the objects stay.
    NameServer,
}

impl Subject {
    /// Starts it on an empty folder under `folder` and waits until it is ready.
    pub(crate) async fn start(binary: &Path, fleet: Fleet, folder: &Path) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("bindery-bench-")
            .tempdir_in(folder)
            .context("cannot make a folder")?;
        std::fs::create_dir(scratch.path().join("objects")).context("cannot make a folder")?;
        let mut free = ports::free_addresses(2 + fleet.primaries + fleet.secondaries)?;
        let dns = free.split_off(2);
        let places = Places {
            fleet,
            api: free[0],
            metrics: free[1],
            dns,
            binary: binary.to_owned(),
            scratch,
        };
        let started = Instant::now();
        let child = places.spawn()?;
        let mut subject = Self {
            places,
            child,
            started,
            cluster: None,
        };
        subject.wait_until_ready().await?;
        Ok(subject)
    }

    /// Stops it and starts it again on the same data; returns when the new process was started.
    pub(crate) async fn restart(&mut self, loss: Loss) -> Result<Instant> {
        self.stop().await?;
        match loss {
            Loss::Nothing => {}
            Loss::NameServer => {
                let zones = self.server_folder(0);
                std::fs::remove_dir_all(&zones)
                    .with_context(|| format!("cannot remove {}", zones.display()))?;
            }
        }
        self.started = Instant::now();
        self.child = self.places.spawn()?;
        Ok(self.started)
    }

    /// Has it drain and end, as Ctrl-C would.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let pid = self.pid()?;
        let told = Command::new("kill").arg(pid.to_string()).status().await;
        told.context("cannot run kill")?;
        let ended = timeout(PATIENCE, self.child.wait()).await;
        let status = ended.context("it does not end")?.context("it has no end")?;
        if !status.success() {
            bail!("it ended with {status}:\n{}", self.places.log());
        }
        Ok(())
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(mut http) = Http::connect(self.places.metrics).await
                && http.get("/readyz").await.is_ok()
            {
                return self.check_that_it_is_ours().await;
            }
            if let Some(status) = self.child.try_wait().context("it cannot be asked")? {
                bail!("it ended with {status}:\n{}", self.places.log());
            }
            sleep(POLL).await;
        }
        bail!("it is not ready after {PATIENCE:?}:\n{}", self.places.log())
    }

    /// Between our looking for a free port and its listening, another process may have taken the
    /// port. What answers there must not be older than what we started.
    async fn check_that_it_is_ours(&self) -> Result<()> {
        let uptime = self.counter("bindery_uptime_seconds").await?;
        let age = self.started.elapsed().as_secs_f64();
        ensure!(
            uptime > 0.0 && uptime <= age,
            "another server took the port; run it again"
        );
        Ok(())
    }

    /// Declares zones and waits until its name server has them.
    pub(crate) async fn add_zones(&self, labels: &[String]) -> Result<()> {
        let mut http = self.connect().await?;
        for label in labels {
            let zone = objects::zone_on(label, self.cluster());
            http.create(objects::ZONES, &zone).await?;
        }
        for label in labels {
            self.wait_until_served(label).await?;
        }
        Ok(())
    }

    /// From now on its name servers are those of a cluster, the first primary first, each with its key.
    pub(crate) fn adopt(&mut self, name: &str, servers: Vec<(SocketAddr, Key)>) {
        let (addresses, keys) = servers.into_iter().unzip();
        self.cluster = Some(Cluster {
            name: name.to_owned(),
            addresses,
            keys,
        });
    }

    /// The cluster that its zones belong to.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_ref().map(|cluster| &*cluster.name)
    }

    /// Waits until its name servers have a zone.
    pub(crate) async fn wait_until_served(&self, label: &str) -> Result<()> {
        let apex = objects::apex(label)?;
        for server in self.servers()? {
            let deadline = Instant::now() + PATIENCE;
            while server.serial(&apex).await.is_err() {
                if Instant::now() > deadline {
                    bail!("zone {apex} is not served after {PATIENCE:?}");
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Where its API listens.
    pub(crate) fn api(&self) -> SocketAddr {
        self.places.api
    }

    /// A connection to its API.
    pub(crate) async fn connect(&self) -> Result<Http> {
        Http::connect(self.places.api).await
    }

    /// A signing client of its first name server.
    pub(crate) fn server(&self) -> Result<Server> {
        let first = self.servers()?.into_iter().next();
        first.context("it has no name server")
    }

    /// Signing clients of all its name servers, the first primary first.
    pub(crate) fn servers(&self) -> Result<Vec<Server>> {
        let keys = match &self.cluster {
            Some(cluster) => cluster.keys.clone(),
            None => vec![self.key()?; self.places.dns.len()],
        };
        let client =
            |(address, key): (&SocketAddr, Key)| Server::new(address.to_string(), Some(key));
        Ok(self.addresses().iter().zip(keys).map(client).collect())
    }

    /// A counter of its metrics page; 0 where there is none of that name.
    pub(crate) async fn counter(&self, name: &str) -> Result<f64> {
        let mut http = Http::connect(self.places.metrics).await?;
        let page = http.get("/metrics").await?;
        let page = String::from_utf8_lossy(&page);
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0.0))
    }

    /// Where its first name server listens.
    pub(crate) fn dns(&self) -> SocketAddr {
        self.addresses()[0]
    }

    /// Where its name servers listen, the first primary first.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        let cluster = self.cluster.as_ref();
        cluster.map_or(&self.places.dns, |cluster| &cluster.addresses)
    }

    /// The folder of one of its name servers, by its number.
    pub(crate) fn server_folder(&self, number: usize) -> PathBuf {
        let name = self.places.fleet.which.as_str();
        self.data().join(match number {
            0 => name.to_owned(),
            number => format!("{name}-{number}"),
        })
    }

    /// Bytes that its store takes on disk.
    pub(crate) fn store_bytes(&self) -> Result<f64> {
        let file = self.data().join("objects.redb");
        let held = std::fs::metadata(&file).context("there is no store")?;
        // As the disk counts, in blocks of 512 bytes: the file may have holes.
        let blocks = u32::try_from(held.blocks()).context("the store is beyond measure")?;
        Ok(f64::from(blocks) * 512.0)
    }

    /// The key of its name server, in BIND's format.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.data().join("tsig.key")
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("it does not run")
    }

    /// The process of its `named`, where it has one.
    pub(crate) fn named_pid(&self) -> Option<u32> {
        machine::child_of(self.pid().ok()?, "named")
    }

    fn key(&self) -> Result<Key> {
        let text = std::fs::read_to_string(self.key_file()).context("there is no key")?;
        Key::from_key_file(&text).context("the key cannot be read")
    }

    /// Where its data are.
    pub(crate) fn data(&self) -> PathBuf {
        self.places.scratch.path().join("data")
    }
}

impl Places {
    fn spawn(&self) -> Result<Child> {
        let folder = self.scratch.path();
        let log = File::options()
            .append(true)
            .create(true)
            .open(folder.join("log"))
            .context("cannot make a log")?;
        Command::new(&self.binary)
            .arg("up")
            .arg(folder.join("objects"))
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args(["--api-address", &self.api.to_string()])
            .args(["--dns-address", &self.dns[0].to_string()])
            .args(["--metrics-address", &self.metrics.to_string()])
            .args(["--server", self.fleet.which.as_str()])
            .args(["--primaries", &self.fleet.primaries.to_string()])
            .args(["--secondaries", &self.fleet.secondaries.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))
    }

    /// What it complained of, for messages.
    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }
}

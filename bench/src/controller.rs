//! The controllers alone: `bindery run` with an API and a name server that are not in its process.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use bindery_apiserver::{EmbeddedApi, Options, ServeOptions, System};
use bindery_bind::{self as bind, Named};
use bindery_core::record::{Record, Soa};
use bindery_core::{Name, RecordData};
use bindery_dns::Key;
use bindery_dns::local::Replication;
use bindery_engine::ports::ZoneHost as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::bulk::WRITERS;
use crate::external_dns::Peer;
use crate::http::Http;
use crate::many_zones::labels;
use crate::objects::{self, ENDPOINTS, RECORDS};
use crate::ready::{Awaited, wait_until_ready};
use crate::table::Row;
use crate::{machine, ports, writes};

/// The title of its table.
pub(crate) const TITLE: &str = "bindery run, API and named elsewhere";

/// The zones that the records are spread over.
const ZONES: usize = 10;
/// The budget for 100,000 records, in MB.
const RESIDENT_MB_MAX: f64 = 130.0;
/// Bytes in a MiB, in MB.
const MB_PER_MIB: f64 = 1.048_576;
/// The metric of external-dns with the time at which it last compared everything.
const PEER_SYNCED: &str = "external_dns_controller_last_sync_timestamp_seconds ";
/// After this a process that is told nothing has put its memory in order.
const REST: Duration = Duration::from_secs(10);
/// How long a start or a stop may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);

/// What `bindery run` is pointed at.
struct World {
    scratch: TempDir,
    named: Named,
    api: SocketAddr,
    metrics: SocketAddr,
    serving: JoinHandle<()>,
    stop: CancellationToken,
}

/// Memory of `bindery run` in MB.
struct Memory {
    resident: f64,
    highest: f64,
}

/// What is declared.
#[derive(Clone, Copy)]
enum Sort {
    Records,
    Endpoints,
}

/// Makes the object for a zone, a name in it, the part of the measurement and an address.
type Wish = fn(&str, &str, &str, Ipv4Addr) -> Value;

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path) -> Result<Vec<Row>> {
    let count = arguments.memory_records;
    let mut rows = record_rows(arguments, binary, count).await?;
    rows.push(endpoint_row(arguments, binary, count).await?);
    Ok(rows)
}

async fn record_rows(arguments: &Arguments, binary: &Path, count: usize) -> Result<Vec<Row>> {
    let world = World::start(arguments).await?;
    let mut child = world.spawn(binary)?;
    world.wait_until_up(&mut child).await?;
    let begin = Instant::now();
    let records = world.declare(count, Sort::Records).await?;
    let declared = begin.elapsed();
    let settled = memory(&child).await?;
    stop(&mut child).await?;

    // The same objects read at one go, as after an update of Bindery itself.
    let mut child = world.spawn(binary)?;
    world.wait_until_up(&mut child).await?;
    wait_until_ready(world.api, &records).await?;
    let restarted = memory(&child).await?;
    stop(&mut child).await?;
    let named = machine::resident_mib(world.named.pid())? * MB_PER_MIB;
    world.end().await;
    Ok(lines(count, declared, (&settled, &restarted), named))
}

/// Endpoints that stand, read after a start: first by us and then by external-dns.
async fn endpoint_row(arguments: &Arguments, binary: &Path, count: usize) -> Result<Row> {
    let world = World::start(arguments).await?;
    let mut child = world.spawn(binary)?;
    world.wait_until_up(&mut child).await?;
    let endpoints = world.declare(count, Sort::Endpoints).await?;
    stop(&mut child).await?;
    let mut child = world.spawn(binary)?;
    world.wait_until_up(&mut child).await?;
    wait_until_ready(world.api, &endpoints).await?;
    let ours = memory(&child).await?.resident;
    stop(&mut child).await?;
    let what = format!("resident memory, {count} DNSEndpoints in {ZONES} zones, after a restart");
    let row = Row::new(what, megabytes(ours));
    if !arguments.has_peer {
        world.end().await;
        return Ok(row);
    }
    let mut child = world.spawn_peer()?;
    world.wait_until_synced(&mut child).await?;
    let theirs = memory(&child).await?.resident;
    stop(&mut child).await?;
    world.end().await;
    Ok(row.beside(
        format!("external-dns {}", megabytes(theirs)),
        format!("{:.2}", ours / theirs),
    ))
}

fn megabytes(amount: f64) -> String {
    format!("{amount:.0} MB")
}

impl World {
    async fn start(arguments: &Arguments) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("bindery-bench-")
            .tempdir_in(&arguments.folder)
            .context("cannot make a folder")?;
        let addresses = ports::free_addresses(3)?;
        let named = start_named(scratch.path(), addresses[0]).await?;
        for label in labels("zone", ZONES) {
            let apex = objects::apex(&label)?;
            let made = named.host().create(&apex, &first_records(&apex)?).await;
            made.with_context(|| format!("zone {apex} cannot be made"))?;
        }
        // Whether objects outlive this process makes no difference to the controllers.
        let api = EmbeddedApi::open(Options::in_memory()).context("the API does not start")?;
        let listener = TcpListener::bind(addresses[1])
            .await
            .context("the API's port is taken")?;
        let stop = CancellationToken::new();
        let serving = api.serve(listener, ServeOptions::default(), stop.clone());
        let world = Self {
            scratch,
            named,
            api: addresses[1],
            metrics: addresses[2],
            serving: tokio::spawn(serving),
            stop,
        };
        std::fs::write(world.kubeconfig(), kubeconfig_text(world.api))
            .context("cannot write a kubeconfig")?;
        world.install_kinds().await?;
        Ok(world)
    }

    async fn install_kinds(&self) -> Result<()> {
        let mut http = Http::connect(self.api).await?;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for crd in bindery_api::crds() {
            let crd = serde_json::to_value(crd).context("a kind is no JSON")?;
            http.create(path, &crd).await?;
        }
        Ok(())
    }

    fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("kubeconfig")
    }

    fn spawn(&self, binary: &Path) -> Result<Child> {
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(["--nameserver", &self.named.address().to_string()])
            .arg("--tsig-key-file")
            .arg(self.key_file())
            .args(["--metrics-address", &self.metrics.to_string()])
            .args(["--log", "warn"]);
        spawn_logged(command, self.scratch.path())
    }

    fn spawn_peer(&self) -> Result<Child> {
        let zones: Result<Vec<Name>> = labels("zone", ZONES)
            .iter()
            .map(|label| objects::apex(label))
            .collect();
        let peer = Peer {
            kubeconfig: &self.kubeconfig(),
            server: self.named.address(),
            key_file: &self.key_file(),
            zones: &zones?,
            metrics: self.metrics,
        };
        spawn_logged(peer.command()?, self.scratch.path())
    }

    fn key_file(&self) -> PathBuf {
        self.scratch.path().join("tsig.key")
    }

    async fn wait_until_up(&self, child: &mut Child) -> Result<()> {
        self.wait_until(child, "/readyz", |_| true).await
    }

    /// Waits until the peer has compared everything once.
    async fn wait_until_synced(&self, child: &mut Child) -> Result<()> {
        let is_synced = |text: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(PEER_SYNCED));
            value.is_some_and(|value| value.trim() != "0")
        };
        self.wait_until(child, "/metrics", is_synced).await
    }

    async fn wait_until(
        &self,
        child: &mut Child,
        path: &str,
        is_so: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(mut http) = Http::connect(self.metrics).await
                && let Ok(answer) = http.get(path).await
                && is_so(&String::from_utf8_lossy(&answer))
            {
                return Ok(());
            }
            if let Some(status) = child.try_wait().context("it cannot be asked")? {
                bail!("it ended with {status}:\n{}", self.log());
            }
            sleep(POLL).await;
        }
        bail!("it is not ready after {PATIENCE:?}:\n{}", self.log())
    }

    /// Declares the zones and their records and waits until all are Ready.
    async fn declare(&self, count: usize, sort: Sort) -> Result<Awaited<'static>> {
        let labels = labels("zone", ZONES);
        let zones = labels.iter().map(|label| objects::zone(label)).collect();
        writes::create(self.api, 1, objects::ZONES, zones).await?;
        let zone = |number: usize| labels[number % ZONES].as_str();
        let name = |number: usize| format!("r-{number}");
        let (path, object): (_, Wish) = match sort {
            Sort::Records => (RECORDS, objects::record),
            Sort::Endpoints => (ENDPOINTS, objects::endpoint),
        };
        let wishes = (0..count)
            .map(|number| {
                let address = objects::address(number);
                object(zone(number), &name(number), "standing", address)
            })
            .collect();
        writes::create(self.api, WRITERS, path, wishes).await?;
        let awaited = Awaited {
            path,
            selector: "part=standing",
            names: (0..count)
                .map(|number| objects::object(zone(number), &name(number)))
                .collect(),
        };
        wait_until_ready(self.api, &awaited).await?;
        Ok(awaited)
    }

    async fn end(self) {
        self.stop.cancel();
        drop(self.serving.await);
        self.named.stop().await;
    }

    /// What it complained of, for messages.
    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }
}

/// Starts a process that complains into the file `log` of a folder.
pub(crate) fn spawn_logged(mut command: Command, folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("log")).context("cannot make a log")?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("it cannot be started")
}

/// Starts a `named` of its own, with a key in the folder.
pub(crate) async fn start_named(folder: &Path, address: SocketAddr) -> Result<Named> {
    let program =
        bind::find_named().context("named is not installed (Debian: apt install bind9)")?;
    let key = Key::generate("bindery", System::secret()).context("cannot make a key")?;
    std::fs::write(folder.join("tsig.key"), key.to_key_file().as_bytes())
        .context("cannot write the key")?;
    let options = bind::Options {
        program,
        folder: folder.join("named"),
        address,
        key,
        role: Replication::default(),
        clock: Arc::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| since.as_secs())
        }),
        random: Arc::new(System::secret),
    };
    Named::start(options).await.context("named does not start")
}

/// What a zone has that nobody wrote anything into.
pub(crate) fn first_records(apex: &Name) -> Result<[Record; 2]> {
    let server = Name::parse("ns.test").context("not a name")?;
    let soa = Soa {
        mname: server.clone(),
        rname: server.clone(),
        serial: 1,
        refresh: 7200,
        retry: 900,
        expire: 1_209_600,
        minimum: objects::TTL,
    };
    let record = |data: RecordData| Record {
        name: apex.clone(),
        ttl: objects::TTL,
        data,
    };
    Ok([
        record(RecordData::Soa(Box::new(soa))),
        record(RecordData::Ns(server)),
    ])
}

fn kubeconfig_text(api: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
         clusters:\n- name: bench\n  cluster: {{server: \"http://{api}\"}}\n\
         users:\n- name: bench\n  user: {{}}\n\
         contexts:\n- name: bench\n  context: {{cluster: bench, user: bench}}\n"
    )
}

async fn memory(child: &Child) -> Result<Memory> {
    sleep(REST).await;
    let pid = child.id().context("it does not run")?;
    Ok(Memory {
        resident: machine::resident_mib(pid)? * MB_PER_MIB,
        highest: machine::highest_mib(pid)? * MB_PER_MIB,
    })
}

/// Tells a process to stop and waits until it has.
pub(crate) async fn stop(child: &mut Child) -> Result<()> {
    let pid = child.id().context("it does not run")?;
    let told = Command::new("kill").arg(pid.to_string()).status().await;
    told.context("cannot run kill")?;
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
    ended.context("it does not end")?.context("it has no end")?;
    Ok(())
}

fn lines(
    count: usize,
    declared: Duration,
    (settled, restarted): (&Memory, &Memory),
    named: f64,
) -> Vec<Row> {
    let beside = |row: Row, ours: f64| {
        row.beside(
            format!("named {}", megabytes(named)),
            format!("{:.2}", ours / named),
        )
    };
    let budget = |row: Row, ours: f64| row.budget("≤ 130 MB", ours / RESIDENT_MB_MAX);
    let what = format!("resident memory, {count} records in {ZONES} zones Ready");
    vec![
        budget(
            beside(
                Row::new(what, megabytes(settled.resident)),
                settled.resident,
            ),
            settled.resident,
        ),
        Row::new("at its highest until then", megabytes(settled.highest)),
        budget(
            beside(
                Row::new("the same after a restart", megabytes(restarted.resident)),
                restarted.resident,
            ),
            restarted.resident,
        ),
        Row::new(
            "at its highest after a restart",
            megabytes(restarted.highest),
        ),
        Row::new(
            format!("{count} objects from nothing → all Ready"),
            crate::figures::seconds(declared),
        ),
    ]
}

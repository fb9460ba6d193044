//! Bindery and external-dns on a real kube-apiserver, one after the other, on the same name server: how
//! long from a write until it resolves.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bindery_bind::Named;
use bindery_core::Name;
use bindery_e2e::http::{Call, Http};
use bindery_e2e::kubernetes::Kubernetes;
use bindery_engine::ports::ZoneHost as _;
use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::controller::{first_records, spawn_logged, start_named, stop};
use crate::external_dns::Peer;
use crate::figures::{Times, milliseconds, ratio, spent};
use crate::objects::{self, ENDPOINTS, RECORDS, ZONES};
use crate::ports;
use crate::resolver::{Resolvers, Seen};
use crate::table::Row;

/// The title of its table.
pub(crate) const TITLE: &str = "bindery run, a real kube-apiserver with etcd, and named";

/// The zone of our records, and that of the peer's.
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

/// Writes that are timed of the peer, each of which takes it some seconds.
const PEER_EVENTS: usize = 5;
/// Connections that create what stands.
const WRITERS: usize = 8;
/// Budgets of half of the writes, and of all but one in a hundred.
const HALF_MAX: Duration = Duration::from_millis(10);
const MOST_MAX: Duration = Duration::from_millis(50);
/// How long something may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(200);

/// A control plane and a name server that both have to do with.
struct World {
    scratch: TempDir,
    named: Named,
    kubernetes: Kubernetes,
    http: Http,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path) -> Result<Vec<Row>> {
    let world = World::start(arguments, binary).await?;
    let mut child = world.spawn_ours(binary)?;
    let standing = world.stand(arguments.records).await?;
    let (writes, ours) = world.time_records(arguments.events).await?;
    stop(&mut child).await?;
    let mut child = world.spawn_peer()?;
    let theirs = world.time_endpoints().await?;
    stop(&mut child).await?;
    world.named.stop().await;
    Ok(lines(
        arguments.records,
        standing,
        (&writes, &ours),
        &theirs,
    ))
}

impl World {
    async fn start(arguments: &Arguments, binary: &Path) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("bindery-bench-")
            .tempdir_in(&arguments.folder)
            .context("cannot make a folder")?;
        let address = ports::free_addresses(1)?[0];
        let named = start_named(scratch.path(), address).await?;
        for label in [OURS, THEIRS] {
            let apex = objects::apex(label)?;
            let made = named.host().create(&apex, &first_records(&apex)?).await;
            made.with_context(|| format!("zone {apex} cannot be made"))?;
        }
        let kubernetes = Kubernetes::start().await?;
        let world = Self {
            scratch,
            named,
            http: kubernetes.http(),
            kubernetes,
        };
        world.install_kinds(binary).await?;
        Ok(world)
    }

    async fn install_kinds(&self, binary: &Path) -> Result<()> {
        let kubectl = bindery_e2e::program::kubectl()?;
        let line = "\"$0\" crds | \"$1\" --kubeconfig=\"$2\" apply -f - && \"$1\" --kubeconfig=\"$2\" wait \
                    --for=condition=Established crd --all --timeout=60s";
        let done = Command::new("sh")
            .args(["-c", line])
            .arg(binary)
            .arg(kubectl)
            .arg(self.kubernetes.kubeconfig())
            .stdout(Stdio::null())
            .status()
            .await
            .context("cannot run sh")?;
        ensure!(done.success(), "the kinds cannot be installed: {done}");
        Ok(())
    }

    fn spawn_ours(&self, binary: &Path) -> Result<Child> {
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--kubeconfig")
            .arg(self.kubernetes.kubeconfig())
            .args(["--nameserver", &self.named.address().to_string()])
            .arg("--tsig-key-file")
            .arg(self.key_file())
            .args(["--metrics-address", "127.0.0.1:0", "--log", "warn"]);
        spawn_logged(command, self.scratch.path())
    }

    fn spawn_peer(&self) -> Result<Child> {
        let peer = Peer {
            kubeconfig: &self.kubernetes.kubeconfig(),
            server: self.named.address(),
            key_file: &self.key_file(),
            zones: &[objects::apex(THEIRS)?],
            metrics: (Ipv4Addr::LOCALHOST, 0).into(),
        };
        spawn_logged(peer.command()?, self.scratch.path())
    }

    fn key_file(&self) -> PathBuf {
        self.scratch.path().join("tsig.key")
    }

    /// What it complained of, for messages.
    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.join("\n")
    }

    async fn send(&self, call: Call) -> Result<Value> {
        let answer = self.http.send(call).await?;
        ensure!(answer.code < 300, "{}: {}", answer.code, answer.text);
        Ok(answer.json)
    }

    async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Call::new(Method::POST, path).json(object)).await
    }

    /// Declares the zone and so many records, and waits until all are Ready.
    async fn stand(&self, count: usize) -> Result<Duration> {
        self.create(ZONES, &objects::zone(OURS)).await?;
        let begin = Instant::now();
        let records = (0..count).map(|number| {
            let name = format!("r-{number}");
            objects::record(OURS, &name, "standing", objects::address(number))
        });
        futures::stream::iter(records)
            .map(|record| async move { self.create(RECORDS, &record).await })
            .buffer_unordered(WRITERS)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        let zone = format!("{ZONES}/{OURS}");
        loop {
            let object = self.send(Call::new(Method::GET, &zone)).await?;
            if object["status"]["recordsCount"] == json!(count) {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > PATIENCE {
                bail!("not all are Ready after {PATIENCE:?}:\n{}", self.log());
            }
            sleep(POLL).await;
        }
    }

    /// Creates and edits records one at a time, in turns: how long each write took, and how long from its
    /// acknowledgement until it resolved.
    async fn time_records(&self, count: usize) -> Result<(Times, Times)> {
        let (mut writes, mut times) = (Times::default(), Times::default());
        let mut resolver = Resolvers::new(&[self.named.address()])?;
        for number in 0..count {
            let name = format!("e-{}", number / 2);
            let address = objects::address(number);
            let begin = Instant::now();
            if number % 2 == 0 {
                let record = objects::record(OURS, &name, "events", address);
                self.create(RECORDS, &record).await?;
            } else {
                let record = format!("{RECORDS}/{}", objects::object(OURS, &name));
                let change = json!({ "spec": { "ipv4Addresses": [address.to_string()] } });
                let call = Call::new(Method::PATCH, record);
                let call = call.body("application/merge-patch+json", change.to_string());
                self.send(call).await?;
            }
            let acknowledged = Instant::now();
            writes.push(acknowledged - begin);
            let host = objects::host(OURS, &name)?;
            let seen;
            (resolver, seen) = resolve(resolver, host, address).await?;
            times.push(seen?.all.saturating_duration_since(acknowledged));
        }
        Ok((writes, times))
    }

    /// The same with endpoints of the peer, after one that waits for its start.
    async fn time_endpoints(&self) -> Result<Times> {
        let mut times = Times::default();
        let mut resolver = Resolvers::new(&[self.named.address()])?;
        for number in 0..=PEER_EVENTS {
            let name = format!("p-{number}");
            let (host, address) = (objects::host(THEIRS, &name)?, objects::address(number));
            let endpoint = objects::endpoint(THEIRS, &name, "events", address);
            self.create(ENDPOINTS, &endpoint).await?;
            let acknowledged = Instant::now();
            let seen;
            (resolver, seen) = resolve(resolver, host, address).await?;
            let seen = seen.with_context(|| format!("external-dns says:\n{}", self.log()))?;
            if number > 0 {
                times.push(seen.all.saturating_duration_since(acknowledged));
            }
        }
        Ok(times)
    }
}

/// Asks until the name has the address; asking keeps a thread busy, so it gets one of its own.
async fn resolve(
    mut resolver: Resolvers,
    host: Name,
    address: Ipv4Addr,
) -> Result<(Resolvers, Result<Seen>)> {
    let asking = spawn_blocking(move || {
        let seen = resolver.wait_for(&host, address);
        (resolver, seen)
    });
    asking.await.context("the resolver fell")
}

fn lines(
    count: usize,
    standing: Duration,
    (writes, ours): (&Times, &Times),
    theirs: &Times,
) -> Vec<Row> {
    let peer = |time| format!("external-dns {}, nothing standing", milliseconds(time));
    let row = |what: &str, time, peers, budget| {
        let row = Row::new(what, milliseconds(time)).beside(peer(peers), ratio(time, peers));
        row.budget(format!("≤ {}", milliseconds(budget)), spent(time, budget))
    };
    vec![
        Row::new(
            format!("{count} objects from nothing → all Ready"),
            crate::figures::seconds(standing),
        ),
        Row::new("a write to the API, p50", milliseconds(writes.p50())),
        row(
            "write acknowledged → resolvable, p50",
            ours.p50(),
            theirs.p50(),
            HALF_MAX,
        ),
        row(
            "write acknowledged → resolvable, p99",
            ours.p99(),
            theirs.p99(),
            MOST_MAX,
        ),
    ]
}

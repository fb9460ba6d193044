//! `bindery run` on a real kube-apiserver, with a real `named` that Bindery does not manage.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use bindery_core::{Name, Record};
use bindery_dns::Key;
use bindery_e2e::kubernetes::Kubernetes;
use bindery_e2e::process::free_port;
use bindery_embedded::Role;
use bindery_embedded::bind::{Named, Options, find_named};
use bindery_engine::ports::ZoneHost as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::machine::{Process, Server, fetch, program, run, text, until};

crate::cases!(controllers_run_on_a_real_cluster);

const ZONE: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: example-com}
spec:
  zoneName: example.com
  recordsFrom: [{selector: {matchLabels: {zone: example-com}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, labels: {zone: example-com}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop}
spec:
  endpoints:
  - {dnsName: shop.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.10]}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: taken, labels: {zone: example-com}}
spec: {name: taken, ipv4Addresses: [192.0.2.66]}
";

/// What somebody else has in the zone.
const FOREIGN: &str = "\
example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
example.com. 300 IN NS ns.example.net.
taken.example.com. 300 IN A 192.0.2.99
other.example.com. 300 IN TXT \"not yours\"";

/// A cluster, a name server, and `bindery run` between them.
struct Stage {
    process: Process,
    named: Named,
    kubernetes: Kubernetes,
    scratch: TempDir,
    runtime: Runtime,
    metrics: u16,
}

fn controllers_run_on_a_real_cluster(_: Server) -> Result<()> {
    let stage = Stage::new()?;
    stage.kubectl_apply(ZONE)?;
    // The server does not have the zone: it is said, with what to do.
    until("ZoneNotFound", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}";
        let reason = stage.kubectl(&["get", "dnszone/example-com", "-o", path])?;
        Ok((reason == "ZoneNotFound").then_some(()))
    })?;
    until("ready as far as it can be", || {
        Ok(fetch(stage.metrics, "/readyz")
            .ok()
            .filter(|(code, _)| *code == 200))
    })?;
    // Somebody makes the zone, with records of their own: it becomes ready by itself.
    stage.create_zone()?;
    stage.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "arecord/www",
        "--timeout=120s",
    ])?;
    stage.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "dnszone/example-com",
        "--timeout=60s",
    ])?;
    let wait = [
        "wait",
        "--for=condition=Programmed",
        "dnsendpoint/shop",
        "--timeout=60s",
    ];
    stage.kubectl(&wait)?;
    stage.resolves("www.example.com", "A", "192.0.2.1")?;
    stage.resolves("shop.example.com", "A", "192.0.2.10")?;
    // What is theirs stays theirs, and the object that wants it is told.
    until("NotOwned", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}";
        let reason = stage.kubectl(&["get", "arecord/taken", "-o", path])?;
        Ok((reason == "NotOwned").then_some(()))
    })?;
    stage.resolves("taken.example.com", "A", "192.0.2.99")?;
    stage.resolves("other.example.com", "TXT", "\"not yours\"")?;
    // Deleting takes only ours away.
    let gone = [
        "arecord/www",
        "arecord/taken",
        "dnsendpoint/shop",
        "dnszone/example-com",
    ];
    stage.kubectl(&[&["delete", "--timeout=60s"], &gone[..]].concat())?;
    stage.resolves("www.example.com", "A", "")?;
    stage.resolves("taken.example.com", "A", "192.0.2.99")?;
    stage.resolves("other.example.com", "TXT", "\"not yours\"")?;
    let Stage {
        mut process,
        named,
        runtime,
        kubernetes,
        scratch,
        ..
    } = stage;
    process.signal("TERM")?;
    let ended = process.wait()?;
    ensure!(ended.code() == Some(0), "{ended}: {}", process.err());
    let kubeconfig = kubernetes.kubeconfig().display().to_string();
    plan_without_controllers(&kubeconfig, &named, scratch.path())?;
    runtime.block_on(named.stop());
    drop(kubernetes);
    Ok(())
}

/// Where no controllers run, nobody but the plan has seen the objects.
fn plan_without_controllers(kubeconfig: &str, named: &Named, scratch: &Path) -> Result<()> {
    let file = scratch.join("apply.yaml");
    fs::write(&file, ZONE)?;
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(bindery_e2e::program::kubectl()?);
        command.arg(format!("--kubeconfig={kubeconfig}"));
        text(&command.args(arguments).stdin(Stdio::null()).output()?)
    };
    kubectl(&["apply", "-f", &file.display().to_string()])?;
    let key = scratch.join("tsig.key").display().to_string();
    let address = named.address().to_string();
    let versions = ["get", "arecords,dnszones,dnsendpoints", "-o"];
    let versions = [
        &versions[..],
        &["jsonpath={.items[*].metadata.resourceVersion}"],
    ]
    .concat();
    let before = kubectl(&versions)?;
    let output = Command::new(program()?)
        .args(["plan", "--kubeconfig", kubeconfig, "--nameserver", &address])
        .args(["--tsig-key-file", &key])
        .output()?;
    let plan = text(&output)?;
    let wanted = [
        "  ~ arecord/default/www waits to be written down: www.example.com. 3600 IN A 192.0.2.1",
        "  + www.example.com. 3600 IN A 192.0.2.1",
        "  ~ dnsendpoint/default/shop waits to be written down: shop.example.com. 60 IN A ",
        "  ! arecord/default/taken: taken.example.com. A is in DNS already",
    ];
    for line in wanted {
        ensure!(plan.contains(line), "{line:?} is not in\n{plan}");
    }
    ensure!(kubectl(&versions)? == before, "the plan wrote into objects");
    let output = Command::new(program()?)
        .args(["status", "--kubeconfig", kubeconfig])
        .output()?;
    let status = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(1), "{status}");
    ensure!(status.contains("0 of 4 objects are ready"), "{status}");
    Ok(())
}

impl Stage {
    fn new() -> Result<Self> {
        let runtime = Runtime::new().context("a runtime needs only threads")?;
        let scratch = tempfile::tempdir()?;
        let kubernetes = runtime.block_on(Kubernetes::start())?;
        let key = Key::generate("bindery-e2e", random())?;
        let key_file = scratch.path().join("tsig.key");
        fs::write(&key_file, key.to_key_file().as_bytes())?;
        let named = runtime.block_on(Named::start(Options {
            program: find_named().context("named is not installed")?,
            folder: scratch.path().join("named"),
            address: ([127, 0, 0, 1], 0).into(),
            key,
            role: Role::default(),
            clock: Arc::new(now),
            random: Arc::new(random),
        }))?;
        let kubeconfig = kubernetes.kubeconfig().display().to_string();
        install_kinds(&kubeconfig)?;
        let metrics = free_port()?;
        let line = [
            "run".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--nameserver={}", named.address()),
            format!("--tsig-key-file={}", key_file.display()),
            format!("--metrics-address=127.0.0.1:{metrics}"),
        ];
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let process = Process::start(&line, scratch.path(), 0)?;
        Ok(Self {
            process,
            named,
            kubernetes,
            scratch,
            runtime,
            metrics,
        })
    }

    fn create_zone(&self) -> Result<()> {
        let zone = Name::parse("example.com")?;
        let records: Vec<Record> = FOREIGN
            .lines()
            .map(|line| line.parse().map_err(|problem| anyhow::anyhow!("{problem}")))
            .collect::<Result<_>>()?;
        let host = self.named.host();
        let made = self.runtime.block_on(host.create(&zone, &records));
        made.map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = format!("--kubeconfig={}", self.kubernetes.kubeconfig().display());
        let output = Command::new(bindery_e2e::program::kubectl()?)
            .arg(kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("cannot run kubectl")?;
        text(&output)
            .with_context(|| format!("kubectl {}\n{}", arguments.join(" "), self.process.err()))
    }

    fn kubectl_apply(&self, yaml: &str) -> Result<()> {
        let file = self.scratch.path().join("apply.yaml");
        fs::write(&file, yaml)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])
            .map(drop)
    }

    fn resolves(&self, name: &str, rtype: &str, wanted: &str) -> Result<()> {
        let port = self.named.address().port().to_string();
        let mut last = String::new();
        until("an answer", || {
            last = text(&run(
                "dig",
                &["@127.0.0.1", "-p", &port, "+short", name, rtype],
            )?)?;
            Ok((last.trim() == wanted).then_some(()))
        })
        .with_context(|| format!("{name} {rtype} is {last:?}, not {wanted:?}"))
    }
}

/// As the README says: `bindery crds | kubectl apply -f -`.
fn install_kinds(kubeconfig: &str) -> Result<()> {
    let (bindery, kubectl) = (program()?, bindery_e2e::program::kubectl()?);
    let line = format!(
        "{} crds | {} --kubeconfig={kubeconfig} apply -f - && {} --kubeconfig={kubeconfig} wait \
         --for=condition=Established crd --all --timeout=60s",
        bindery.display(),
        kubectl.display(),
        kubectl.display()
    );
    text(&run("sh", &["-c", &line])?).map(drop)
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn random() -> [u8; 32] {
    use bindery_embedded::{Environment as _, System};
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&System.random().to_ne_bytes());
    bytes[16..].copy_from_slice(&System.random().to_ne_bytes());
    bytes
}

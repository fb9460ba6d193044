//! Clusters of name servers on a real kube-apiserver with the controllers of Kubernetes: `bindery run` has the rights of
//! `deploy/rbac.yaml` and no more, and our runtime is the scheduler and the kubelet.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bindery_apiserver::{Environment as _, System};
use bindery_e2e::program;
use bindery_pods::{PodOptions, Pods, Programs, Tokens};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::machine::{Server, until};
use crate::production::signal;
use crate::stage::{Stage, resolves_at};

crate::cases!(
    a_cluster_lives_on_a_real_cluster_with_the_rights_of_deploy,
    real_bindcar_is_driven_by_our_controllers,
);

const READY: &str = ".status.conditions[?(@.type=='Ready')].reason";
const DNS_PORT: u16 = 5353;

/// See the module; dropping it ends the pods, then the rest.
struct RealCluster {
    stage: Stage,
    pods: PathBuf,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl RealCluster {
    /// With this program in the place of `bindery` where a pod names it.
    fn start(sidecar: PathBuf) -> Result<Self> {
        let mut stage = Stage::new(&[])?;
        stage.kubernetes.start_controllers()?;
        let pods = stage.scratch.path().join("pods");
        let programs = Programs {
            named: bindery_bind::find_named(),
            bindery: Some(sidecar),
        };
        let clock = Arc::new(|| System.now());
        let mut options = PodOptions::new(pods.clone(), programs, clock, Arc::new(System::secret));
        options.tokens = Tokens::Requested;
        let stop = CancellationToken::new();
        let client = stage.kubernetes.http().client();
        let node = Pods::new(client, options).run(stop.clone());
        let running = Some(stage.runtime.spawn(node));
        Ok(Self {
            stage,
            pods,
            stop,
            running,
        })
    }

    fn says(&self, object: &str, path: &str, wanted: &str) -> Result<()> {
        let path = format!("jsonpath={{{path}}}");
        let mut last = String::new();
        let said = until(object, || {
            let told = self.stage.kubectl(&["get", object, "-o", &path]);
            last = told.unwrap_or_default();
            Ok((last.trim() == wanted).then_some(()))
        });
        said.with_context(|| format!("{object} says {last:?}\n{}", self.stage.process.err()))
    }

    /// The addresses of all pods.
    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let path = "jsonpath={.items[*].status.podIP}";
        let told = self.stage.kubectl(&["get", "pods", "-o", path])?;
        let read = |ip: &str| Ok(SocketAddr::new(ip.parse()?, DNS_PORT));
        told.split_whitespace().map(read).collect()
    }

    /// How often the `named` of a pod was started again.
    fn restarts(&self, pod: &str) -> Result<u32> {
        let path = "jsonpath={.status.containerStatuses[?(@.name=='bind9')].restartCount}";
        let told = self.stage.kubectl(&["get", "pod", pod, "-o", path])?;
        told.trim().parse().with_context(|| format!("{told:?}"))
    }

    /// Waits until so many pods answer this.
    fn served(&self, count: usize, name: &str, wanted: &str) -> Result<()> {
        until("the pods", || {
            Ok((self.addresses()?.len() == count).then_some(()))
        })?;
        let addresses = self.addresses()?;
        addresses
            .into_iter()
            .try_for_each(|address| resolves_at(address, name, "A", wanted))
    }
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            self.stage.runtime.block_on(running).ok();
        }
    }
}

fn record(address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\nmetadata: {{name: www, labels: {{zone: wide}}}}\n\
         spec: {{name: www, ipv4Addresses: [{address}]}}\n"
    )
}

const WIDE: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: ClusterBind9Provider
metadata: {name: wide}
spec:
  namespace: default
  primary: {replicas: 2}
  secondary: {replicas: 1}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: wide}
spec:
  zoneName: wide.example
  clusterProviderRef: wide
  recordsFrom: [{selector: {matchLabels: {zone: wide}}}]
---
";

fn a_cluster_lives_on_a_real_cluster_with_the_rights_of_deploy(_: Server) -> Result<()> {
    let cluster = RealCluster::start(program::bindery()?.to_owned())?;
    let all_ready = |count: usize| -> Result<()> {
        let message = ".status.conditions[?(@.type=='Ready')].message";
        let all = format!("All {count} instances are ready");
        cluster.says("b9c/wide", message, &all)?;
        cluster.says("cb9p/wide", READY, "ClustersReady")?;
        cluster.says("dnszone/wide", READY, "ReconcileSucceeded")?;
        cluster.says("arecord/www", READY, "ReconcileSucceeded")
    };
    cluster
        .stage
        .kubectl_apply(&(WIDE.to_owned() + &record("192.0.2.1")))?;
    all_ready(3)?;
    cluster.served(3, "www.wide.example", "192.0.2.1")?;

    // A killed named is told of and healed; what changes meanwhile reaches it.
    let before = cluster.restarts("wide-primary-0-0")?;
    signal(
        &cluster.pods.join("default/wide-primary-0-0"),
        "bind9",
        "KILL",
    )?;
    cluster.stage.kubectl_apply(&record("192.0.2.2"))?;
    until("it is started again", || {
        Ok((cluster.restarts("wide-primary-0-0")? > before).then_some(()))
    })?;
    all_ready(3)?;
    cluster.served(3, "www.wide.example", "192.0.2.2")?;

    for (primaries, count) in [(3, 4), (1, 2)] {
        let patch = format!(r#"{{"spec":{{"primary":{{"replicas":{primaries}}}}}}}"#);
        let patch = ["patch", "cb9p/wide", "--type=merge", "-p", &patch];
        cluster.stage.kubectl(&patch)?;
        all_ready(count)?;
        cluster.served(count, "www.wide.example", "192.0.2.2")?;
    }
    // What Bindery may not do it would have told.
    let log = cluster.stage.process.err();
    ensure!(!log.contains("forbidden"), "{log}");
    Ok(())
}

const BINDCAR: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: wide}
spec:
  primary: {replicas: 1}
  secondary: {replicas: 1}
  global:
    bindcarConfig:
      image: ghcr.io/firestoned/bindcar:v0.9.0
      envVars: [{name: RATE_LIMIT_ENABLED, value: 'false'}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: wide}
spec:
  zoneName: wide.example
  clusterRef: wide
  recordsFrom: [{selector: {matchLabels: {zone: wide}}}]
---
";

fn real_bindcar_is_driven_by_our_controllers(_: Server) -> Result<()> {
    // The runtime starts our sidecar for the image of bindcar; here it is bindcar itself.
    let scratch = tempfile::tempdir()?;
    let script = scratch.path().join("bindcar");
    let bindcar = program::bindcar()?;
    fs::write(&script, format!("#!/bin/sh\nexec {}\n", bindcar.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let cluster = RealCluster::start(script)?;
    cluster
        .stage
        .kubectl_apply(&(BINDCAR.to_owned() + &record("192.0.2.1")))?;
    let all_ready = || -> Result<()> {
        cluster.says("b9c/wide", READY, "AllReady")?;
        cluster.says("dnszone/wide", READY, "ReconcileSucceeded")?;
        cluster.says("arecord/www", READY, "ReconcileSucceeded")
    };
    all_ready()?;
    cluster.served(2, "www.wide.example", "192.0.2.1")?;
    cluster.stage.kubectl_apply(&record("192.0.2.2"))?;
    cluster.served(2, "www.wide.example", "192.0.2.2")?;

    // What fails is told, and heals, as with ours.
    let pod = cluster.pods.join("default/wide-primary-0-0");
    signal(&pod, "api", "STOP")?;
    let condition = ".status.conditions[?(@.type=='Pod-0')].reason";
    cluster.says("b9/wide-primary-0", condition, "BindcarUnreachable")?;
    all_ready()?;
    let log = fs::read_to_string(pod.join("containers/api/log")).unwrap_or_default();
    ensure!(log.contains("bindcar"), "it is bindcar that runs: {log}");
    cluster
        .stage
        .kubectl(&["delete", "dnszone/wide", "arecord/www", "--timeout=60s"])?;
    cluster.served(2, "www.wide.example", "")
}

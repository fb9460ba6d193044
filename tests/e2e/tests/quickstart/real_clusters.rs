//! Clusters of name servers on a real kube-apiserver with the controllers of Kubernetes: `bindery run` has the rights of
//! `deploy/rbac.yaml` and no more, and our runtime is the scheduler and the kubelet.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::program;
use bindery_pods::Programs;

use crate::machine::{Server, until};
use crate::plane::{Plane, no_failures};
use crate::production::signal;

crate::cases!(
    a_cluster_lives_on_a_real_cluster_with_the_rights_of_deploy,
    real_bindcar_is_driven_by_our_controllers,
);

const READY: &str = ".status.conditions[?(@.type=='Ready')].reason";
const HERE: &str = "default";

fn says(plane: &Plane, object: &str, path: &str, wanted: &str) -> Result<()> {
    plane.says((HERE, object), path, wanted)
}

/// How often the `named` of a pod was started again.
fn restarts(plane: &Plane, pod: &str) -> Result<u32> {
    let path = ".status.containerStatuses[?(@.name=='bind9')].restartCount";
    let told = plane.get((HERE, &format!("pod/{pod}")), path);
    told.parse().with_context(|| format!("{told:?}"))
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
    let plane = Plane::start(&[], Plane::programs()?)?;
    let all_ready = |count: usize| -> Result<()> {
        let message = ".status.conditions[?(@.type=='Ready')].message";
        let all = format!("All {count} instances are ready");
        says(&plane, "b9c/wide", message, &all)?;
        says(&plane, "cb9p/wide", READY, "ClustersReady")?;
        says(&plane, "dnszone/wide", READY, "ReconcileSucceeded")?;
        says(&plane, "arecord/www", READY, "ReconcileSucceeded")
    };
    plane.apply(&(WIDE.to_owned() + &record("192.0.2.1")))?;
    all_ready(3)?;
    plane.served((HERE, 3), "www.wide.example", "192.0.2.1")?;

    // A killed named is told of and healed; what changes meanwhile reaches it.
    let pod = "wide-primary-0-0";
    let before = restarts(&plane, pod)?;
    signal(&plane.pods(HERE).join(pod), "bind9", "KILL")?;
    plane.apply(&record("192.0.2.2"))?;
    until("it is started again", || {
        Ok((restarts(&plane, pod)? > before).then_some(()))
    })?;
    all_ready(3)?;
    plane.served((HERE, 3), "www.wide.example", "192.0.2.2")?;

    for (primaries, count) in [(3, 4), (1, 2)] {
        let patch = format!(r#"{{"spec":{{"primary":{{"replicas":{primaries}}}}}}}"#);
        plane.kubectl(&["patch", "cb9p/wide", "--type=merge", "-p", &patch])?;
        all_ready(count)?;
        plane.served((HERE, count), "www.wide.example", "192.0.2.2")?;
    }
    no_failures(&plane)
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
    let plane = Plane::start(
        &[],
        Programs {
            bindery: Some(script),
            ..Plane::programs()?
        },
    )?;
    plane.apply(&(BINDCAR.to_owned() + &record("192.0.2.1")))?;
    let all_ready = || -> Result<()> {
        says(&plane, "b9c/wide", READY, "AllReady")?;
        says(&plane, "dnszone/wide", READY, "ReconcileSucceeded")?;
        says(&plane, "arecord/www", READY, "ReconcileSucceeded")
    };
    all_ready()?;
    plane.served((HERE, 2), "www.wide.example", "192.0.2.1")?;
    plane.apply(&record("192.0.2.2"))?;
    plane.served((HERE, 2), "www.wide.example", "192.0.2.2")?;

    // What fails is told, and heals, as with ours.
    let pod = plane.pods(HERE).join("wide-primary-0-0");
    signal(&pod, "api", "STOP")?;
    let condition = ".status.conditions[?(@.type=='Pod-0')].reason";
    says(&plane, "b9/wide-primary-0", condition, "BindcarUnreachable")?;
    all_ready()?;
    let log = fs::read_to_string(pod.join("containers/api/log")).unwrap_or_default();
    ensure!(log.contains("bindcar"), "it is bindcar that runs: {log}");
    let zone = ["delete", "dnszone/wide", "arecord/www", "--timeout=60s"];
    plane.kubectl(&zone).with_context(|| plane.process.err())?;
    plane.served((HERE, 2), "www.wide.example", "")
}

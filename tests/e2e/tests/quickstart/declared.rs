//! Name servers that are declared as objects, on the real thing: kube-apiserver takes them, kube-controller-manager
//! makes their pods and takes away what nobody owns any more.

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Server, until};
use crate::plane::{Plane, no_failures};
use crate::production::ask;

crate::cases!(
    a_declared_cluster_lives_and_goes_on_kubernetes,
    a_cluster_wide_declaration_lives_and_goes_on_kubernetes,
);

const SITE: &str = "site";
const MANIFESTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: site}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: site, namespace: site}
spec:
  primary: {replicas: 2}
  secondary: {replicas: 1}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: site, namespace: site}
spec:
  zoneName: site.example
  clusterRef: site
  recordsFrom: [{selector: {matchLabels: {zone: site}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, namespace: site, labels: {zone: site}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: TXTRecord
metadata: {name: note, namespace: site, labels: {zone: site}}
spec: {name: note, text: [\"on the real thing\"]}
";
/// What a cluster is made of, and what that is made into.
const MADE: &str =
    "b9c,b9,statefulsets,pods,services,secrets,endpointslices,controllerrevisions,pvc";

fn cluster(plane: &Plane, reason: &str) -> Result<()> {
    plane.reason((SITE, "b9c/site"), "Ready", reason).map(drop)
}

fn scale(plane: &Plane, primaries: u8, secondaries: u8) -> Result<()> {
    let patch = format!(
        r#"{{"spec":{{"primary":{{"replicas":{primaries}}},"secondary":{{"replicas":{secondaries}}}}}}}"#
    );
    let line = [
        "patch",
        "b9c/site",
        "-n",
        SITE,
        "--type=merge",
        "-p",
        &patch,
    ];
    plane.kubectl(&line).map(drop)
}

/// Every level tells of its children, by number and by name.
fn every_level_is_ready(plane: &Plane, instances: &[&str]) -> Result<()> {
    cluster(plane, "AllReady")?;
    for (index, instance) in instances.iter().enumerate() {
        let kind = format!("Bind9Instance-{index}");
        let message = plane.reason((SITE, "b9c/site"), &kind, "Ready")?;
        ensure!(
            message == format!("Instance {instance} is ready (1/1 pods)"),
            "{kind}: {message}"
        );
        let object = format!("b9/{instance}");
        plane.reason((SITE, &object), "Ready", "AllReady")?;
        let message = plane.reason((SITE, &object), "Pod-0", "Ready")?;
        ensure!(message == format!("Pod {instance}-0 is ready"), "{message}");
        plane.says(
            (SITE, &format!("sts/{instance}")),
            ".status.readyReplicas",
            "1",
        )?;
    }
    let all = plane.get((SITE, "b9c/site"), ".status.conditions[*].type");
    let told = all
        .split(' ')
        .filter(|kind| kind.starts_with("Bind9Instance-"));
    ensure!(told.count() == instances.len(), "{all}");
    for object in ["zone/site", "arecord/www", "txtrecord/note"] {
        let line = [
            "wait",
            "--for=condition=Ready",
            object,
            "-n",
            SITE,
            "--timeout=60s",
        ];
        plane.kubectl(&line)?;
    }
    plane.served((SITE, instances.len()), "www.site.example", "192.0.2.1")?;
    plane.served(
        (SITE, instances.len()),
        "note.site.example TXT",
        "\"on the real thing\"",
    )
}

fn a_declared_cluster_lives_and_goes_on_kubernetes(_: Server) -> Result<()> {
    let plane = Plane::start(&[], Plane::programs()?)?;
    plane.apply(MANIFESTS)?;
    let three = ["site-primary-0", "site-primary-1", "site-secondary-0"];
    every_level_is_ready(&plane, &three)?;

    scale(&plane, 3, 2)?;
    let five = [
        "site-primary-0",
        "site-primary-1",
        "site-secondary-0",
        "site-primary-2",
        "site-secondary-1",
    ];
    plane.says((SITE, "b9c/site"), ".status.readyInstances", "5")?;
    every_level_is_ready(&plane, &five)?;

    scale(&plane, 1, 1)?;
    until("two instances", || {
        let left = plane.get((SITE, "b9"), ".items[*].metadata.name");
        Ok((left == "site-primary-0 site-secondary-0").then_some(()))
    })?;
    plane.says((SITE, "b9c/site"), ".status.instanceCount", "2")?;
    cluster(&plane, "AllReady")?;
    plane.served((SITE, 2), "www.site.example", "192.0.2.1")?;
    plane.says(
        (SITE, "zone/site"),
        ".status.conditions[?(@.type=='Ready')].status",
        "True",
    )?;

    // What comes back under its names is served anew, and nothing that was owned before takes it along.
    go(&plane)?;
    plane.apply(MANIFESTS)?;
    every_level_is_ready(&plane, &three)?;
    go(&plane)?;
    plane.is_empty(SITE, MADE)?;
    let maps = plane.get((SITE, "configmaps"), ".items[*].metadata.name");
    ensure!(maps == "kube-root-ca.crt", "{maps}");
    no_failures(&plane)
}

/// Deletes what was declared.
fn go(plane: &Plane) -> Result<()> {
    let zone = ["arecord/www", "txtrecord/note", "zone/site"];
    for objects in [&zone[..], &["b9c/site"]] {
        let deleted = plane.kubectl(&[&["delete", "-n", SITE, "--timeout=60s"], objects].concat());
        deleted.with_context(|| plane.process.err())?;
    }
    Ok(())
}

const WIDE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: wide}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ClusterBind9Provider
metadata: {name: wide}
spec:
  namespace: wide
  primary: {replicas: 1}
  secondary: {replicas: 1}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: wide, namespace: default}
spec: {zoneName: wide.example, clusterProviderRef: wide}
";

fn a_cluster_wide_declaration_lives_and_goes_on_kubernetes(_: Server) -> Result<()> {
    let plane = Plane::start(&[], Plane::programs()?)?;
    plane.apply(WIDE)?;
    plane.reason(("", "cb9p/wide"), "Ready", "ClustersReady")?;
    plane.reason(("wide", "b9c/wide"), "Ready", "AllReady")?;
    plane.says(
        ("default", "zone/wide"),
        ".status.conditions[?(@.type=='Ready')].status",
        "True",
    )?;
    let host = plane.get(("default", "zone/wide"), ".status.servers[0].address");
    ensure!(!host.is_empty(), "the zone tells its servers");
    for address in plane.addresses("wide") {
        let soa = ask(&address, "wide.example SOA")?;
        ensure!(soa.contains("wide.example."), "{address}: {soa:?}");
    }
    plane.kubectl(&["delete", "-n", "default", "--timeout=60s", "zone/wide"])?;
    plane.kubectl(&["delete", "--timeout=60s", "cb9p/wide"])?;
    plane.is_empty("wide", MADE)?;
    no_failures(&plane)
}

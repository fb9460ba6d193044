//! `bindery run` on a real kube-apiserver, with a real `named` that Bindery does not manage.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use bindery_bind::Named;

use crate::machine::{Server, fetch, program, run, text, until};
use crate::stage::{Stage, resolves_at};

crate::cases!(
    controllers_run_on_a_real_cluster,
    what_is_abandoned_does_not_wait_for_its_server,
    zones_of_one_name_on_servers_of_two_clusters,
);

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

const LATER: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: later, labels: {zone: example-com}}
spec: {name: later, ipv4Addresses: [192.0.2.5]}
";

const SPLIT: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: outside}
spec:
  zoneName: example.com
  clusterRef: external
  recordsFrom: [{selector: {matchLabels: {zone: outside}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: inside}
spec:
  zoneName: example.com
  clusterRef: internal
  recordsFrom: [{selector: {matchLabels: {zone: inside}}}]
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: outside, labels: {zone: outside}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: inside, labels: {zone: inside}}
spec: {name: www, ipv4Addresses: [10.0.0.1]}
";

const REASON: &str = ".status.conditions[?(@.type=='Ready')].reason";

/// What somebody else has in the zone.
const FOREIGN: &str = "\
example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
example.com. 300 IN NS ns.example.net.
taken.example.com. 300 IN A 192.0.2.99
other.example.com. 300 IN TXT \"not yours\"";

fn controllers_run_on_a_real_cluster(_: Server) -> Result<()> {
    let stage = Stage::new(&[])?;
    stage.kubectl_apply(ZONE)?;
    // The server does not have the zone: it is said, with what to do.
    stage.says(&["dnszone/example-com"], REASON, |reason| {
        reason == "ZoneNotFound"
    })?;
    until("ready as far as it can be", || {
        Ok(fetch(stage.metrics, "/readyz")
            .ok()
            .filter(|(code, _)| *code == 200))
    })?;
    // Somebody makes the zone, with records of their own: it becomes ready by itself.
    stage.create_zone("example.com", FOREIGN)?;
    stage.wait("Ready", "arecord/www")?;
    stage.wait("Ready", "dnszone/example-com")?;
    stage.wait("Programmed", "dnsendpoint/shop")?;
    stage.resolves("www.example.com", "A", "192.0.2.1")?;
    stage.resolves("shop.example.com", "A", "192.0.2.10")?;
    // What is theirs stays theirs, and the object that wants it is told.
    stage.says(&["arecord/taken"], REASON, |reason| reason == "NotOwned")?;
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
        primary,
        runtime,
        kubernetes,
        scratch,
        ..
    } = stage;
    process.signal("TERM")?;
    let ended = process.wait()?;
    ensure!(ended.code() == Some(0), "{ended}: {}", process.err());
    let kubeconfig = kubernetes.kubeconfig().display().to_string();
    plan_without_controllers(&kubeconfig, &primary, scratch.path())?;
    runtime.block_on(primary.stop());
    drop(kubernetes);
    Ok(())
}

/// A primary that is gone for good holds what is deleted, until its author says not to wait.
fn what_is_abandoned_does_not_wait_for_its_server(_: Server) -> Result<()> {
    let stage = Stage::new(&[])?;
    stage.create_zone("example.com", FOREIGN)?;
    stage.kubectl_apply(ZONE)?;
    stage.wait("Ready", "arecord/www")?;
    stage.wait("Ready", "dnszone/example-com")?;
    let pid = stage.primary.pid().to_string();
    text(&run("kill", &["-s", "KILL", &pid])?)?;
    stage.says(&["dnszone/example-com"], REASON, |reason| {
        reason == "ServerUnreachable"
    })?;
    let deleted = ["arecord/www", "dnszone/example-com"];
    stage.kubectl(&[&["delete", "--wait=false"], &deleted[..]].concat())?;
    // What came later has been looked at, so what was deleted has been too, and waits.
    stage.kubectl_apply(LATER)?;
    stage.says(&["arecord/later"], REASON, |reason| !reason.is_empty())?;
    for object in deleted {
        stage.says(&[object], ".metadata.deletionTimestamp", |at| {
            !at.is_empty()
        })?;
    }
    for object in deleted {
        stage.kubectl(&["annotate", object, "bindery.dev/abandon=true"])?;
        stage.kubectl(&["wait", "--for=delete", object, "--timeout=60s"])?;
    }
    Ok(())
}

/// The same name on servers of others, each with a key of its own; a zone that moves takes along only what
/// is ours.
fn zones_of_one_name_on_servers_of_two_clusters(_: Server) -> Result<()> {
    let stage = Stage::of_two_clusters()?;
    let internal = stage.other.as_ref().context("there are two")?;
    stage.create_zone("example.com", FOREIGN)?;
    let theirs = FOREIGN.replace("192.0.2.99", "10.0.0.99");
    stage.create_zone_at(internal, "example.com", &theirs)?;
    stage.kubectl_apply(SPLIT)?;
    for object in [
        "dnszone/outside",
        "dnszone/inside",
        "arecord/outside",
        "arecord/inside",
    ] {
        stage.wait("Ready", object)?;
    }
    stage.resolves("www.example.com", "A", "192.0.2.1")?;
    resolves_at(internal.address(), "www.example.com", "A", "10.0.0.1")?;
    // The plan looks at each where it is.
    let kubeconfig = stage.kubernetes.kubeconfig().display().to_string();
    let keys = ["external=tsig.key", "internal=other.key"].map(|key| {
        let (cluster, file) = key.split_once('=').unwrap_or_default();
        format!("{cluster}={}", stage.scratch.path().join(file).display())
    });
    let output = Command::new(program()?)
        .args([
            "plan",
            "--kubeconfig",
            &kubeconfig,
            "--tsig-key-file",
            &keys.join(","),
        ])
        .output()?;
    let plan = text(&output)?;
    ensure!(plan.matches("nothing to do").count() == 2, "{plan}");
    // One leaves, and takes what is its own.
    stage.kubectl(&[
        "delete",
        "--timeout=60s",
        "dnszone/inside",
        "arecord/inside",
    ])?;
    resolves_at(internal.address(), "www.example.com", "A", "")?;
    let moved = r#"{"spec":{"clusterRef":"internal"}}"#;
    stage.kubectl(&["patch", "dnszone/outside", "--type=merge", "-p", moved])?;
    resolves_at(internal.address(), "www.example.com", "A", "192.0.2.1")?;
    stage.resolves("www.example.com", "A", "")?;
    stage.resolves("taken.example.com", "A", "192.0.2.99")?;
    resolves_at(internal.address(), "taken.example.com", "A", "10.0.0.99")?;
    stage.wait("Ready", "arecord/outside")
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

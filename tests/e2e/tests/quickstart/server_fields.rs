//! Fields of clusters and instances on real servers: keys that sign zones are kept and given, the sidecar has a Service
//! of its own, and what is not acted on says so.

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};
use crate::production::ask;

crate::cases!(keys_that_sign_zones_outlive_their_server_and_can_be_given);

const CLUSTERS: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: first}
spec:
  primary: {replicas: 1}
  global:
    dnssec: {signing: {enabled: true, policy: strict}}
    bindcarConfig: {serviceSpec: {type: ClusterIP, ports: [{port: 8081}]}}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: first}
spec: {zoneName: signed.example, clusterRef: first, dnssecPolicy: strict}
";
const GIVEN: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: given}
spec:
  primary: {replicas: 1}
  global:
    dnssec:
      signing:
        enabled: true
        policy: strict
        autoGenerate: false
        keysFrom: {secretRef: {name: mine}, persistentVolume: {accessModes: [ReadWriteOnce]}}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: given}
spec: {zoneName: signed.example, clusterRef: given, dnssecPolicy: strict}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: keyless}
spec: {zoneName: keyless.example, clusterRef: given, dnssecPolicy: strict}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Instance
metadata: {name: follower}
spec: {clusterRef: given, role: secondary, primaryServers: [192.0.2.53]}
";
const SIGNED: &str = ".status.conditions[?(@.type=='Signed')].reason";
const READY: &str = ".status.conditions[?(@.type=='Ready')].reason";
const DEGRADED: &str = ".status.conditions[?(@.type=='Degraded')].reason";

fn get(machine: &Machine, object: &str, path: &str) -> Result<String> {
    let output = format!("jsonpath={{{path}}}");
    let told = machine.kubectl(&["get", object, "-o", &output])?;
    Ok(told.trim().to_owned())
}

/// What the zone above is to have, once the zone is signed.
fn ds(machine: &Machine, zone: &str) -> Result<String> {
    machine.says(zone, SIGNED, "Signed")?;
    let ds = get(machine, zone, ".status.dnssec.dsRecords[*]")?;
    ensure!(ds.contains(" DS "), "{ds}");
    Ok(ds)
}

fn keys_that_sign_zones_outlive_their_server_and_can_be_given(_: Server) -> Result<()> {
    let mut machine = Machine::idle(Server::Builtin)?;
    machine.write("first.yaml", CLUSTERS)?;
    machine.start()?;
    let first = ds(&machine, "zone/first")?;
    let kept = "secret/first-primary-0-dnssec-keys";
    let data = until("the keys are kept", || {
        let data = get(&machine, kept, ".data").unwrap_or_default();
        // One key: what is public, what is secret, and how far it is.
        Ok((data.matches("Ksigned.example._013_").count() == 3).then_some(data))
    })?;

    // The storage of a pod goes with it; its keys do not.
    let address = get(&machine, "pod/first-primary-0-0", ".status.podIP")?;
    machine.kubectl(&["delete", "pod/first-primary-0-0"])?;
    until("the zone is served and signed again", || {
        let key = ask(&address, "signed.example DNSKEY").unwrap_or_default();
        Ok((!key.is_empty()).then_some(()))
    })?;
    machine.says("b9/first-primary-0", READY, "AllReady")?;
    ensure!(
        ds(&machine, "zone/first")? == first,
        "the keys are the same"
    );

    // Another cluster is given them, and makes none of its own.
    machine.apply(GIVEN, &[])?;
    machine.says("pod/given-primary-0-0", ".status.phase", "Pending")?;
    let secret = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: mine}}\ndata: {data}\n");
    machine.apply(&secret, &[])?;
    ensure!(
        ds(&machine, "zone/given")? == first,
        "the keys are the same"
    );
    machine.says("zone/keyless", SIGNED, "PolicyNotFound")?;
    let message = get(
        &machine,
        "zone/keyless",
        ".status.conditions[?(@.type=='Signed')].message",
    )?;
    ensure!(message.contains("autoGenerate"), "{message}");
    let address = get(&machine, "pod/given-primary-0-0", ".status.podIP")?;
    ensure!(
        ask(&address, "keyless.example DNSKEY")?.is_empty(),
        "no key was made"
    );

    // What is not acted on says so, and the rest goes on.
    for (object, field) in [
        ("b9c/given", "keysFrom.persistentVolume"),
        ("b9/given-primary-0", "keysFrom.persistentVolume"),
        ("b9/follower", "primaryServers"),
    ] {
        machine.says(object, DEGRADED, "Unsupported")?;
        let message = get(
            &machine,
            object,
            ".status.conditions[?(@.type=='Degraded')].message",
        )?;
        ensure!(message.contains(field), "{object}: {message}");
    }
    machine.says("b9/follower", READY, "AllReady")?;
    machine.says("b9/first-primary-0", DEGRADED, "")?;
    service(&machine)
}

/// The Service of the sidecars, while it is asked for.
fn service(machine: &Machine) -> Result<()> {
    let service = "service/first-primary-0-api";
    let port = ".spec.ports[0].port} {.spec.ports[0].targetPort";
    let port = get(machine, service, port).context("it is there")?;
    ensure!(port == "8081 8080", "{port}");
    let selector = get(machine, service, ".spec.selector.instance")?;
    ensure!(selector == "first-primary-0", "{selector}");
    let patch = r#"{"spec":{"global":{"bindcarConfig":null}}}"#;
    machine.kubectl(&["patch", "b9c/first", "--type=merge", "-p", patch])?;
    until("it goes when nobody asks for it", || {
        Ok(machine.kubectl(&["get", service]).is_err().then_some(()))
    })?;
    machine.says("b9c/first", READY, "AllReady")
}

//! The key of a server is replaced while records are written: no update fails, no process is restarted, and the old
//! key is refused afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;

use crate::machine::{Machine, Server, fetch, run, text, until};

crate::cases!(
    a_key_is_replaced_while_records_are_written,
    a_key_of_its_author_is_followed,
);

const NAMESPACE: &str = "ring";
const SECRET: &str = "ring-primary-0-rndc-key";
const MANIFESTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: ring}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: ring, namespace: ring}
spec:
  primary: {replicas: 1}
  secondary: {replicas: 1}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: ring, namespace: ring}
spec:
  zoneName: ring.example
  clusterRef: ring
  recordsFrom: [{selector: {matchLabels: {zone: ring}}}]
";

/// A key as a Secret has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GivenKey {
    name: String,
    secret: String,
}

fn start(manifests: &str) -> Result<Machine> {
    let mut machine = Machine::idle(Server::Builtin)?;
    machine.write("ring.yaml", manifests)?;
    machine.start()?;
    says(&machine, "b9c/ring", "AllReady")?;
    says(&machine, "zone/ring", "ReconcileSucceeded")?;
    Ok(machine)
}

fn get(machine: &Machine, object: &str, path: &str) -> Result<String> {
    let output = format!("jsonpath={{{path}}}");
    machine.kubectl(&["get", object, "-n", NAMESPACE, "-o", &output])
}

fn says(machine: &Machine, object: &str, reason: &str) -> Result<()> {
    let path = ".status.conditions[?(@.type=='Ready')].reason";
    let mut last = String::new();
    let found = until(object, || {
        last = get(machine, object, path).unwrap_or_default();
        Ok((last == reason).then_some(()))
    });
    found.with_context(|| format!("{object}: {last:?} is not {reason:?}"))
}

fn field(machine: &Machine, name: &str) -> Result<String> {
    let path = format!(".data.{}", name.replace('.', "\\."));
    let text = get(machine, &format!("secret/{SECRET}"), &path)?;
    Ok(String::from_utf8(BASE64.decode(text.trim())?)?)
}

fn key(machine: &Machine) -> Result<GivenKey> {
    // Both fields of one version.
    let secret = format!("secret/{SECRET}");
    let both = get(machine, &secret, ".data.key-name} {.data.secret")?;
    let (name, secret) = both.split_once(' ').context("two fields")?;
    let decoded = |text: &str| -> Result<String> { Ok(String::from_utf8(BASE64.decode(text)?)?) };
    Ok(GivenKey {
        name: decoded(name)?,
        secret: decoded(secret)?,
    })
}

/// The processes of every pod.
fn pids(machine: &Machine) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for pod in ["ring-primary-0-0", "ring-secondary-0-0"] {
        for container in ["bind9", "api"] {
            let folder = machine.data().join("pods").join(NAMESPACE).join(pod);
            let file = folder.join("containers").join(container).join("pid");
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            found.push(text);
        }
    }
    Ok(found)
}

/// One update, signed with a key.
fn update(folder: &Path, address: &str, key: &GivenKey, number: usize) -> Result<()> {
    let script = folder.join(format!("update-{}", key.name));
    let commands = format!(
        "server {address} 5353\nzone ring.example\nupdate add w{number}.ring.example 60 TXT {number}\nsend\n"
    );
    fs::write(&script, commands)?;
    let file = folder.join(format!("key-{}", key.name));
    let (name, secret) = (&key.name, &key.secret);
    let statement = format!("key \"{name}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n");
    fs::write(&file, statement)?;
    let output = Command::new("nsupdate")
        .arg("-k")
        .arg(&file)
        .arg(&script)
        .output()?;
    text(&output).map(drop)
}

/// How many steps of the engine failed so far.
fn failed_steps(machine: &Machine) -> Result<String> {
    let (_, page) = fetch(machine.metrics, "/metrics")?;
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("bindery_engine_steps_failed_total"));
    Ok(line.context("the page has the series")?.to_owned())
}

/// Declares records and sends updates of its own with the key that the Secret has, until it is told to stop.
fn write_on(machine: &Machine, address: &str, stop: &AtomicBool) -> Result<usize> {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let record = format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\nmetadata: {{name: r{number}, namespace: ring, \
             labels: {{zone: ring}}}}\nspec: {{name: r{number}, ipv4Addresses: [192.0.2.{}]}}\n",
            number % 250
        );
        machine.apply(&record, &[])?;
        let used = key(machine)?;
        update(machine.scratch.path(), address, &used, number)
            .with_context(|| format!("update {number} with {}", used.name))?;
    }
    Ok(number)
}

fn a_key_is_replaced_while_records_are_written(_: Server) -> Result<()> {
    let machine = start(MANIFESTS)?;
    let before = key(&machine)?;
    let address = get(&machine, "pod/ring-primary-0-0", ".status.podIP")?;
    let (processes, failed) = (pids(&machine)?, failed_steps(&machine)?);
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_on(&machine, &address, &stop));
        let replaced = (|| {
            let secret = format!("secret/{SECRET}");
            let annotate = [
                "annotate",
                &secret,
                "-n",
                NAMESPACE,
                "bindery.dev/rotate-key=now",
            ];
            machine.kubectl(&annotate)?;
            until("another key is used", || {
                Ok((key(&machine)? != before).then_some(()))
            })?;
            until("the old key goes", || {
                Ok(field(&machine, "previous.key")?.is_empty().then_some(()))
            })
        })();
        stop.store(true, Ordering::Relaxed);
        let written = writer
            .join()
            .map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        replaced.and(written)
    })?;
    ensure!(written > 5, "records were written all the time: {written}");
    let after = key(&machine)?;
    ensure!(after.name == "bindy-operator-2", "{}", after.name);
    until("the old key is refused", || {
        Ok(update(machine.scratch.path(), &address, &before, 0)
            .is_err()
            .then_some(()))
    })?;
    update(machine.scratch.path(), &address, &after, 0)?;
    says(&machine, "b9c/ring", "AllReady")?;
    for number in 1..=written {
        says(
            &machine,
            &format!("arecord/r{number}"),
            "ReconcileSucceeded",
        )?;
    }
    ensure!(pids(&machine)? == processes, "a process was restarted");
    ensure!(
        failed_steps(&machine)? == failed,
        "an update of ours failed"
    );
    let server = format!("@{address}");
    let last = format!("w{written}.ring.example");
    let asked = ["+short", &server, "-p", "5353", &last, "TXT"];
    ensure!(
        !text(&run("dig", &asked)?)?.is_empty(),
        "what was written stands"
    );
    let count = get(
        &machine,
        "b9/ring-primary-0",
        ".status.rndcKeyRotation.rotationCount",
    )?;
    ensure!(count == "1", "{count}");
    let events = machine.kubectl(&["get", "events", "-n", NAMESPACE])?;
    ensure!(events.contains("KeyRotated"), "{events}");
    Ok(())
}

fn a_key_of_its_author_is_followed(_: Server) -> Result<()> {
    let mine = |secret: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: mine, namespace: ring}}\n\
             stringData: {{key-name: mine, secret: {secret}}}\n"
        )
    };
    let named = "primary: {replicas: 1, rndcKey: {secretRef: {name: mine}}}";
    let manifests = MANIFESTS.replace("primary: {replicas: 1}", named);
    let first = "Zmlyc3RmaXJzdGZpcnN0Zmlyc3RmaXJzdGZpcnN0MTI=";
    let second = "c2Vjb25kc2Vjb25kc2Vjb25kc2Vjb25kc2Vjb25kMTI=";
    let machine = start(&format!("{manifests}---\n{}", mine(first)))?;
    let address = get(&machine, "pod/ring-primary-0-0", ".status.podIP")?;
    let processes = pids(&machine)?;
    let given = |secret: &str| GivenKey {
        name: "mine".to_owned(),
        secret: secret.to_owned(),
    };
    update(machine.scratch.path(), &address, &given(first), 1)?;
    // The same name with another secret, which a server cannot have both.
    machine.write("ring.yaml", &format!("{manifests}---\n{}", mine(second)))?;
    until("the key of the author works", || {
        let done = update(machine.scratch.path(), &address, &given(second), 2);
        Ok(done.is_ok().then_some(()))
    })?;
    until("only the key of the author is left", || {
        let is_alone = field(&machine, "previous.key")?.is_empty();
        Ok((is_alone && key(&machine)? == given(second)).then_some(()))
    })?;
    ensure!(
        update(machine.scratch.path(), &address, &given(first), 3).is_err(),
        "the key before is refused"
    );
    says(&machine, "b9c/ring", "AllReady")?;
    ensure!(pids(&machine)? == processes, "a process was restarted");
    Ok(())
}

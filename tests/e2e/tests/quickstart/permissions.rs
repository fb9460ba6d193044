//! `bindery run` with exactly the rights that the page gives it, on a real kube-apiserver with RBAC.

use std::fs;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::docs::blocks;
use crate::machine::{Process, Server, code, program, text};
use crate::stage::{RULES, Stage};

crate::cases!(run_needs_no_more_than_the_page_says);

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/running-on-kubernetes.md"
);

const OBJECTS: &str = "\
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
kind: CNAMERecord
metadata: {name: taken, labels: {zone: example-com}}
spec: {name: www, target: x.example.com.}
";

const ZONE: &str = "\
example.com. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 604800 300
example.com. 300 IN NS ns.example.net.";

fn run_needs_no_more_than_the_page_says(_: Server) -> Result<()> {
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let blocks: Vec<String> = blocks(&page).into_iter().map(|block| block.yaml).collect();
    let [rules, binding, servers_file] = &blocks[..] else {
        anyhow::bail!("the page has {} manifests", blocks.len());
    };
    let file = fs::read_to_string(RULES).context(RULES)?;
    ensure!(file == *rules, "deploy/rbac.yaml is not what the page says");
    let (role, everywhere) = rules
        .rsplit_once("---\n")
        .context("the last document binds the role")?;

    // In one namespace.
    let mut stage = Stage::limited(&["--namespace=web"], |kubectl| {
        kubectl(role)?;
        kubectl("apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n")?;
        kubectl(binding)
    })?;
    stage.create_zone("example.com", ZONE)?;
    in_namespace(&stage, "web", OBJECTS)?;
    stage.resolves("www.example.com", "A", "192.0.2.1")?;
    stage.resolves("shop.example.com", "A", "192.0.2.10")?;
    stage.says(&["-n", "web", "events"], ".items[*].reason", |all| {
        all.contains("Conflict")
    })?;
    it_can_be_asked(&stage)?;
    stage.process.signal("TERM")?;
    let ended = stage.process.wait()?;
    ensure!(ended.code() == Some(0), "{ended}");
    let log = stage.process.err();
    ensure!(!log.contains("cannot be watched"), "{log}");
    ensure!(log.contains("committed"), "{log}");
    ensure!(
        !log.contains('\u{1b}') && !log.contains("Status {"),
        "{log}"
    );

    // In all namespaces it is not allowed, which is said.
    let all: Vec<&str> = stage.line.iter().map(String::as_str).collect();
    let all: Vec<&str> = all
        .into_iter()
        .filter(|word| *word != "--namespace=web")
        .collect();
    let refused = Command::new(program()?)
        .args(&all)
        .stdin(Stdio::null())
        .output()?;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(refused.status.code() == Some(1), "{message}");
    ensure!(
        message.contains("--namespace") && message.contains("rbac.yaml"),
        "{message}"
    );

    // Until the rest of the page is applied.
    stage.kubectl_apply(everywhere)?;
    stage.kubectl_apply(servers_file)?;
    stage.process = Process::start(&all, stage.scratch.path(), 1)?;
    let later = OBJECTS.replace("{name: www, ipv4", "{name: later, ipv4");
    in_namespace(&stage, "web", &later)?;
    stage.resolves("later.example.com", "A", "192.0.2.1")?;
    let log = stage.process.err();
    ensure!(
        !log.contains("failed") && !log.contains("cannot be"),
        "{log}"
    );
    Ok(())
}

fn it_can_be_asked(stage: &Stage) -> Result<()> {
    let status = ask(stage, &["status", "-n", "web"])?;
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(status.status.code() == Some(1), "{}", code(status.status));
    ensure!(shown.contains("3 of 4 objects are ready"), "{shown}");
    ensure!(shown.contains("you may not list them"), "{shown}");
    let shown = text(&ask(stage, &["explain", "arecord/web/www"])?)?;
    ensure!(shown.contains("it is served as declared"), "{shown}");
    let key = stage.scratch.path().join("tsig.key").display().to_string();
    let shown = text(&ask(
        stage,
        &["plan", "-n", "web", "--tsig-key-file", &key],
    )?)?;
    ensure!(shown.contains("nothing to do"), "{shown}");
    Ok(())
}

/// What `bindery` answers to those who have the rights of the page and no others.
fn ask(stage: &Stage, arguments: &[&str]) -> Result<Output> {
    let (command, rest) = arguments.split_first().context("there is a command")?;
    Command::new(program()?)
        .arg(command)
        .args(rest)
        .env("KUBECONFIG", stage.scratch.path().join("limited"))
        .env("HOME", stage.scratch.path())
        .stdin(Stdio::null())
        .output()
        .context("cannot run bindery")
}

fn in_namespace(stage: &Stage, namespace: &str, yaml: &str) -> Result<()> {
    let file = stage.scratch.path().join("objects.yaml");
    fs::write(&file, yaml)?;
    stage.kubectl(&["apply", "-n", namespace, "-f", &file.display().to_string()])?;
    Ok(())
}

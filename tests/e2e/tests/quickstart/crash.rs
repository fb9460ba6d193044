//! `kill -9` while clients write: what was acknowledged is there afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use bindery_e2e::http::{Call, Http};
use http::Method;
use serde_json::json;

use crate::machine::{Machine, Server, until};

crate::cases!(
    kill_under_load_loses_nothing_acknowledged,
    objects_that_were_lost_get_their_records_back,
);

/// Writers at a time, so that many writes share a commit when the end comes.
const WRITERS: usize = 16;
/// Writes that must have been acknowledged before the end comes.
const WRITES_MIN: usize = 150;
const RECORDS: &str = "/apis/bindy.firestoned.io/v1beta1/namespaces/default/arecords";

fn kill_under_load_loses_nothing_acknowledged(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let runtime = tokio::runtime::Runtime::new().context("a runtime needs only threads")?;
    let _entered = runtime.enter();
    for round in 0..2 {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let next = Arc::new(AtomicUsize::new(0));
        // A writer ends by itself when the server is gone.
        for _ in 0..WRITERS {
            let http = Http::connect(&format!("http://127.0.0.1:{}", machine.api), None)?;
            runtime.spawn(write(
                http,
                round,
                Arc::clone(&next),
                Arc::clone(&acknowledged),
            ));
        }
        let count = || {
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len()
        };
        until(
            "enough writes",
            || Ok((count() >= WRITES_MIN).then_some(())),
        )?;
        machine.stop("KILL")?;
        machine.start()?;
        let names = acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let stored = machine.kubectl(&["get", "arecords", "-o", "name"])?;
        for name in &names {
            let object = format!("arecord.bindy.firestoned.io/{name}");
            ensure!(stored.lines().any(|line| line == object), "{name} is lost");
        }
        let last = names.last().context("there are some")?;
        machine.kubectl(&[
            "wait",
            "--for=condition=Ready",
            &format!("arecord/{last}"),
            "--timeout=60s",
        ])?;
        machine.resolves(&[&format!("{last}.example.com")], &["192.0.2.200"])?;
    }
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    let path = "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[*].status}\n{end}";
    until("all are ready", || {
        let all = machine.kubectl(&["get", "arecords", "-o", path])?;
        Ok(all
            .lines()
            .all(|line| line.ends_with("=True"))
            .then_some(()))
    })
}

fn objects_that_were_lost_get_their_records_back(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let extra = "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
                 metadata: {name: extra, labels: {zone: example-com}}\n\
                 spec: {name: extra, ipv4Address: 192.0.2.77}\n";
    let file = machine.scratch.path().join("extra.yaml");
    std::fs::write(&file, extra)?;
    let file = file.display().to_string();
    let ready = ["wait", "--for=condition=Ready", "arecords", "--all"];
    machine.kubectl(&["apply", "-f", &file])?;
    machine.kubectl(&ready)?;
    machine.stop("TERM")?;
    std::fs::remove_file(machine.data().join("objects.redb"))?;
    machine.start()?;
    let told = machine.process()?.err();
    ensure!(
        told.contains("its zones (1) stand and go on being served"),
        "{told}"
    );
    machine.resolves(&["extra.example.com"], &["192.0.2.77"])?;
    machine
        .kubectl(&ready)
        .context("the folder's records are theirs again")?;
    machine.kubectl(&["apply", "-f", &file])?;
    machine.kubectl(&ready).context("so is that of kubectl")?;
    machine.kubectl(&["delete", "-f", &file])?;
    machine.resolves(&["extra.example.com"], &[])?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])
}

async fn write(
    http: Http,
    round: usize,
    next: Arc<AtomicUsize>,
    acknowledged: Arc<Mutex<Vec<String>>>,
) {
    loop {
        let name = format!("load-{round}-{}", next.fetch_add(1, Ordering::Relaxed));
        let body = json!({
            "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "ARecord",
            "metadata": {"name": name, "labels": {"zone": "example-com"}},
            "spec": {"name": name, "ipv4Address": "192.0.2.200"},
        });
        match http
            .send(Call::new(Method::POST, RECORDS).json(&body))
            .await
        {
            Ok(answer) if answer.code == 201 => {
                acknowledged
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(name);
            }
            Ok(_) | Err(_) => return,
        }
    }
}

//! What Bindery wrote is Bindery's until its object lets it go, whatever people edit.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::machine::{Machine, Server, text, until};

crate::cases!(
    no_edit_of_metadata_orphans_a_record,
    what_others_write_into_our_set_is_taken_out
);

fn record(address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: one, labels: {{zone: example-com}}}}\n\
         spec: {{name: one, ipv4Addresses: [{address}]}}\n"
    )
}

fn no_edit_of_metadata_orphans_a_record(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let resolves = |address: &str| machine.resolves(&["one.example.com"], &[address]);
    machine.apply(&record("192.0.2.60"), &[])?;
    resolves("192.0.2.60")?;
    machine.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "arecord/one",
        "--timeout=60s",
    ])?;

    // An editor that changes the address wherever it stands, in the annotation too.
    let edited = Command::new(bindery_e2e::program::kubectl()?)
        .arg(format!("--server=http://127.0.0.1:{}", machine.api))
        .args(["edit", "arecord/one"])
        .env("KUBE_EDITOR", "sed -i s/192.0.2.60/192.0.2.61/")
        .output()?;
    ensure!(text(&edited)?.contains("edited"), "kubectl edit");
    resolves("192.0.2.61")?;

    // An older export is put back.
    let export = machine.kubectl(&["get", "arecord/one", "-o", "yaml"])?;
    let export: Vec<&str> = export
        .lines()
        .filter(|line| !line.trim_start().starts_with("resourceVersion:"))
        .collect();
    let file = machine.scratch.path().join("export.yaml");
    fs::write(&file, export.join("\n"))?;
    let edit = r#"{"spec":{"ipv4Addresses":["192.0.2.62"]}}"#;
    machine.kubectl(&["patch", "arecord/one", "--type=merge", "-p", edit])?;
    resolves("192.0.2.62")?;
    machine.kubectl(&["replace", "-f", &file.display().to_string()])?;
    resolves("192.0.2.61")?;

    // The annotation is removed, and the address changes.
    machine.kubectl(&["annotate", "arecord/one", "bindery.dev/published-"])?;
    let edit = r#"{"spec":{"ipv4Addresses":["192.0.2.63"]}}"#;
    machine.kubectl(&["patch", "arecord/one", "--type=merge", "-p", edit])?;
    resolves("192.0.2.63")?;
    until("an Event about the annotation", || {
        let events = machine.kubectl(&["events", "--for", "arecord/one"])?;
        Ok(events.contains("Overwritten").then_some(()))
    })?;
    machine.kubectl(&["delete", "arecord/one"])?;
    machine.resolves(&["one.example.com"], &[])
}

fn what_others_write_into_our_set_is_taken_out(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.apply(&record("192.0.2.60"), &[])?;
    machine.resolves(&["one.example.com"], &["192.0.2.60"])?;
    machine.nsupdate("update add one.example.com. 60 A 198.51.100.9")?;
    machine.resolves(&["one.example.com"], &["192.0.2.60"])?;
    machine.nsupdate(
        "update delete one.example.com. A\nsend\nupdate add one.example.com. 60 CNAME other.example.com.",
    )?;
    machine.resolves(&["one.example.com"], &["192.0.2.60"])?;
    until("an Event about the value", || {
        let events = machine.kubectl(&["events", "--for", "arecord/one"])?;
        Ok(events.contains("198.51.100.9").then_some(()))
    })
}

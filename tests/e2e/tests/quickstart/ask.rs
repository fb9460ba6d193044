//! Looking without touching: `status`, `explain` and `plan`.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use bindery_core::Stage;
use serde_json::Value;

use crate::machine::{Machine, Process, Server, code, program, run, text, until};

crate::cases!(
    status_of_a_healthy_machine,
    status_names_what_is_not_ready,
    explain_goes_all_the_way_or_stops,
    plan_of_a_settled_machine_is_empty,
    plan_shows_what_went_behind_its_back,
    the_token_of_the_api_is_sent,
    without_an_api_it_says_what_to_do,
);

/// A record of the zone of the quickstart, or of none.
fn record(kind: &str, name: &str, label: &str, spec: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: {kind}\n\
         metadata: {{name: {name}, labels: {{zone: {label}}}}}\nspec: {{{spec}}}\n"
    )
}

/// What `bindery` answers about this machine.
pub(crate) fn ask(machine: &Machine, arguments: &[&str]) -> Result<Output> {
    Command::new(program()?)
        .args(arguments)
        .arg(format!("--server=http://127.0.0.1:{}", machine.api))
        .env("HOME", machine.scratch.path())
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .context("cannot run bindery")
}

/// What `bindery plan` answers, with the key of the machine.
fn plan(machine: &Machine, arguments: &[&str]) -> Result<Output> {
    let key = machine.data().join("tsig.key").display().to_string();
    ask(
        machine,
        &[&["plan", "--tsig-key-file", &key], arguments].concat(),
    )
}

pub(crate) fn has(text: &str, wanted: &[&str]) -> Result<()> {
    for word in wanted {
        ensure!(text.contains(word), "{word:?} is not in\n{text}");
    }
    Ok(())
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Result<Value> {
    serde_json::from_slice(&output.stdout).with_context(|| printed(output))
}

/// Waits until an object's status gives this reason.
fn wait_for(machine: &Machine, object: &str, reason: &str) -> Result<()> {
    until(reason, || {
        let status = machine.kubectl(&["get", object, "-o", "jsonpath={.status.conditions}"])?;
        Ok(status.contains(reason).then_some(()))
    })
}

/// Waits until everything is ready.
fn settle(machine: &Machine) -> Result<()> {
    until("everything is ready", || {
        let output = ask(machine, &["status"])?;
        Ok(output.status.success().then_some(()))
    })
}

fn status_of_a_healthy_machine(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    settle(&machine)?;
    let shown = text(&ask(&machine, &["status"])?)?;
    let address = format!("server 127.0.0.1:{}", machine.dns);
    has(
        &shown,
        &[
            "example.com  Ready  dnszone/default/example-com  5/5 ready",
            &address,
            "primary",
            "serial ",
            "6 of 6 objects are ready",
        ],
    )?;
    ensure!(!shown.contains('\u{1b}'), "colours in a pipe:\n{shown}");
    let shown = ask(&machine, &["status", "-A", "-o", "json"])?;
    let answer = json(&shown)?;
    ensure!(answer["zones"][0]["zoneName"] == "example.com", "{answer}");
    ensure!(
        answer["zones"][0]["servers"][0]["ready"] == true,
        "{answer}"
    );
    ensure!(answer["total"] == 6, "{answer}");
    let elsewhere = ask(&machine, &["status", "-n", "web"])?;
    ensure!(
        elsewhere.status.code() == Some(1),
        "{}",
        code(elsewhere.status)
    );
    has(
        &printed(&elsewhere),
        &["nothing is declared in namespace web; there are zones in default"],
    )
}

fn status_names_what_is_not_ready(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let alias = record(
        "CNAMERecord",
        "taken",
        "example-com",
        "name: www, target: x.example.com.",
    );
    machine.apply(&alias, &[])?;
    let lost = record(
        "ARecord",
        "lost",
        "nowhere",
        "name: lost, ipv4Addresses: [192.0.2.9]",
    );
    machine.apply(&lost, &[])?;
    wait_for(&machine, "cnamerecord/taken", "Conflict")?;
    wait_for(&machine, "arecord/lost", "NotSelected")?;
    let output = ask(&machine, &["status"])?;
    ensure!(output.status.code() == Some(1), "{}", code(output.status));
    let shown = printed(&output);
    has(
        &shown,
        &[
            "5/6 ready",
            "└─ Conflict  cnamerecord/default/taken  ",
            "in no zone\n└─ NotSelected  arecord/default/lost  ",
            "6 of 8 objects are ready",
        ],
    )
}

fn explain_goes_all_the_way_or_stops(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    settle(&machine)?;
    for object in [
        "arecord/www",
        "a/default/www",
        "dnsendpoint/shop",
        "zone/example-com",
    ] {
        let shown = text(&ask(&machine, &["explain", object])?)?;
        let steps = Stage::ALL.map(|stage| format!("✓  {stage}"));
        has(&shown, &steps.each_ref().map(String::as_str))?;
        has(&shown, &["it is served as declared"])?;
    }
    let shown = text(&ask(&machine, &["explain", "arecord/www"])?)?;
    has(
        &shown,
        &[
            "www.example.com. 300 IN A 192.0.2.2",
            "the zone's spec.recordsFrom[0] selects zone=example-com",
            "2 lines in the annotation bindery.dev/published",
            "hash ",
        ],
    )?;
    let lost = record(
        "ARecord",
        "lost",
        "nowhere",
        "name: lost, ipv4Addresses: [192.0.2.9]",
    );
    machine.apply(&lost, &[])?;
    let shown = text(&ask(&machine, &["explain", "arecords/lost"])?)?;
    has(
        &shown,
        &["✗  claim", "NotSelected", "-  status", "it stops at: claim"],
    )?;
    let answer = json(&ask(&machine, &["explain", "arecords/lost", "-o", "json"])?)?;
    ensure!(answer["stopsAt"] == "claim", "{answer}");
    let missing = ask(&machine, &["explain", "arecord/nobody"])?;
    ensure!(missing.status.code() == Some(1), "{}", code(missing.status));
    let message = String::from_utf8_lossy(&missing.stderr).into_owned();
    has(&message, &["nobody", "-n"])
}

fn plan_of_a_settled_machine_is_empty(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    settle(&machine)?;
    let before = machine.dig(&["+short", "example.com", "SOA"])?;
    let shown = text(&plan(&machine, &[])?)?;
    has(
        &shown,
        &[
            "example.com. dnszone/default/example-com",
            "  nothing to do",
        ],
    )?;
    let answer = json(&plan(&machine, &["-o", "json"])?)?;
    let zone = &answer["zones"][0];
    ensure!(
        zone["changes"].as_array().is_some_and(Vec::is_empty),
        "{answer}"
    );
    ensure!(zone["fault"].is_null(), "{answer}");
    ensure!(
        machine.dig(&["+short", "example.com", "SOA"])? == before,
        "it wrote"
    );
    let unsigned = ask(&machine, &["plan"])?;
    ensure!(
        unsigned.status.code() == Some(1),
        "{}",
        code(unsigned.status)
    );
    has(&printed(&unsigned), &["cannot be read", "--tsig-key-file"])
}

fn plan_shows_what_went_behind_its_back(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    settle(&machine)?;
    let key = machine.data().join("tsig.key").display().to_string();
    let script = machine.scratch.path().join("nsupdate");
    let lines = format!(
        "server 127.0.0.1 {}\nzone example.com\nupdate delete www.example.com. A 192.0.2.1\n\
         update add foreign.example.com. 60 A 192.0.2.99\nsend\n",
        machine.dns
    );
    std::fs::write(&script, lines)?;
    let script = script.display().to_string();
    // Bindery looks at the serial every 30 seconds and may be faster once; then it is tried again.
    until("a plan that puts the record back", || {
        text(&run("nsupdate", &["-k", &key, &script])?)?;
        let shown = text(&plan(&machine, &[])?)?;
        let wanted = "  + www.example.com. 300 IN A 192.0.2.1";
        ensure!(!shown.contains("foreign"), "{shown}");
        Ok(shown.contains(wanted).then_some(()))
    })
}

fn the_token_of_the_api_is_sent(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    machine.stop("TERM")?;
    let token = machine.scratch.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n")?;
    let token = token.display().to_string();
    let arguments = [
        machine.arguments(),
        vec!["--token-file".to_owned(), token.clone()],
    ];
    let arguments = arguments.concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _running = Process::start(&arguments, machine.scratch.path(), 9)?;
    until("it answers those who have the token", || {
        let output = ask(&machine, &["status", "--token-file", &token])?;
        Ok(output.status.success().then_some(()))
    })?;
    let output = ask(&machine, &["status"])?;
    ensure!(output.status.code() == Some(1), "{}", code(output.status));
    has(&String::from_utf8_lossy(&output.stderr), &["--token-file"])
}

fn without_an_api_it_says_what_to_do(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let output = ask(&machine, &["status"])?;
    ensure!(output.status.code() == Some(1), "{}", code(output.status));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    has(&message, &["bindery up", "--kubeconfig"])
}

//! Logs tell the story: one line for what happened, and none at rest.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::machine::{Machine, Process, Server, program, until};

crate::cases!(
    each_commit_is_one_line_of_json,
    the_last_words_are_json_too,
    no_colours_go_into_a_pipe,
);

const RECORD: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: story, labels: {zone: example-com}}
spec: {name: story, ipv4Addresses: [192.0.2.77]}
";

const CONFLICT: &str = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: CNAMERecord
metadata: {name: taken, labels: {zone: example-com}}
spec: {name: story, target: x.example.com.}
";

fn lines(process: &Process) -> Result<Vec<Value>> {
    let text = process.err();
    let lines = text.lines().map(|line| {
        serde_json::from_str(line).with_context(|| format!("{line:?} is no JSON, in\n{text}"))
    });
    lines.collect()
}

fn said<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    let fields = lines.iter().map(|line| &line["fields"]);
    fields
        .filter(|fields| fields["message"] == message)
        .collect()
}

fn each_commit_is_one_line_of_json(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    machine.stop("TERM")?;
    let arguments = [machine.arguments(), vec!["--log-format=json".to_owned()]].concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut process = Process::start(&arguments, machine.scratch.path(), 9)?;
    let looked_at = "all that was declared was looked at";
    until(looked_at, || {
        Ok((!said(&lines(&process)?, looked_at).is_empty()).then_some(()))
    })?;
    let before = said(&lines(&process)?, "committed").len();
    machine.apply(RECORD, &[])?;
    machine.resolves(&["story.example.com"], &["192.0.2.77"])?;
    let commit = until("a commit", || {
        let lines = lines(&process)?;
        let commits = said(&lines, "committed");
        Ok(commits.get(before).map(|&commit| commit.clone()))
    })?;
    ensure!(commit["zone"] == "example.com.", "{commit}");
    ensure!(commit["object"] == "arecord/default/story", "{commit}");
    ensure!(commit["sets"] == 1 && commit["objects"] == 1, "{commit}");
    ensure!(commit["added"] == 1 && commit["removed"] == 0, "{commit}");
    ensure!(
        commit["serial"].is_u64() && commit["took_ms"].is_u64(),
        "{commit}"
    );
    machine.apply(CONFLICT, &[])?;
    let refusal = until("a refusal", || {
        let lines = lines(&process)?;
        let refusals = said(&lines, "an object is not as declared");
        Ok(refusals.first().map(|&refusal| refusal.clone()))
    })?;
    ensure!(
        refusal["object"] == "cnamerecord/default/taken",
        "{refusal}"
    );
    ensure!(refusal["reason"] == "Conflict", "{refusal}");
    machine.kubectl(&[
        "delete",
        "cnamerecord/taken",
        "arecord/story",
        "--timeout=60s",
    ])?;
    process.signal("TERM")?;
    process.wait()?;
    let lines = lines(&process)?;
    let commits = said(&lines, "committed").len() - before;
    ensure!(
        commits == 2,
        "{commits} lines for an addition and a removal: {lines:?}"
    );
    ensure!(
        said(&lines, "an object is not as declared").len() == 1,
        "{lines:?}"
    );
    Ok(())
}

fn the_last_words_are_json_too(server: Server) -> Result<()> {
    let machine = Machine::idle(server)?;
    let _taken = std::net::TcpListener::bind(("127.0.0.1", machine.api))?;
    let output = Command::new(program()?)
        .args(machine.arguments())
        .arg("--log-format=json")
        .output()?;
    ensure!(output.status.code() == Some(1), "{}", output.status);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .with_context(|| text.clone())?;
    let error = last["fields"]["error"].as_str().unwrap_or_default();
    ensure!(error.contains("in use"), "{text}");
    Ok(())
}

fn no_colours_go_into_a_pipe(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let err = machine.process()?.err();
    ensure!(
        err.contains("committed") || err.contains("as declared"),
        "{err}"
    );
    ensure!(!err.contains('\u{1b}'), "{err}");
    Ok(())
}

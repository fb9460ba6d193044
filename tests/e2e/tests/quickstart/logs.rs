//! Logs tell the story: one line for what happened, and none at rest.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::losses::signal;
use crate::machine::{Machine, PATIENCE, Process, Server, program, until};

crate::cases!(
    each_commit_is_one_line_of_json,
    the_last_words_are_json_too,
    no_colours_go_into_a_pipe,
);

/// Cases with a server that is a process of its own.
pub(crate) fn named_cases() -> Vec<crate::Case> {
    vec![(
        "quickstart::logs::silent_servers_and_held_plans_are_one_line_each",
        silent_servers_and_held_plans_are_one_line_each,
    )]
}

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/running-on-kubernetes.md"
);

/// What is said once of a plan that is held.
const HELD: &str = "a plan that removes too much is held; the zone's condition Guarded says how to let \
                    it through";

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

/// A zone with so many records.
fn crowd(count: usize) -> String {
    let zone = "\
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: many}
spec: {zoneName: many.example, recordsFrom: [{selector: {matchLabels: {zone: many}}}]}
";
    let record = RECORD.replace("example-com", "many");
    let records = (0..count).map(|number| record.replace("story", &format!("h{number}")));
    let records: Vec<String> = records.collect();
    format!("{zone}---\n{}", records.join("---\n"))
}

fn log(machine: &mut Machine) -> Result<Vec<Value>> {
    lines(machine.process()?)
}

/// Waits for a line and returns its fields.
fn told(machine: &mut Machine, message: &str) -> Result<Value> {
    until(message, || {
        let lines = log(machine)?;
        let line = said(&lines, message).first().map(|&line| line.clone());
        Ok(line)
    })
}

fn silent_servers_and_held_plans_are_one_line_each(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?;
    machine.extra.push("--log-format=json".to_owned());
    machine.start()?;
    machine.apply(&crowd(12), &[])?;
    let patience = format!("--timeout={}s", PATIENCE.as_secs());
    machine.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "arecords",
        "--all",
        &patience,
    ])?;
    machine.kubectl(&["delete", "arecords", "--all", "--wait=false"])?;
    until("what is left is held", || {
        let reasons = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].reason}";
        let reasons = machine.kubectl(&["get", "arecords", "-o", reasons])?;
        Ok(reasons
            .split(' ')
            .all(|reason| reason == "Held")
            .then_some(()))
    })?;
    let held = told(&mut machine, HELD)?;
    ensure!(
        held["zone"] == "many.example." && held["removals"].is_u64(),
        "{held}"
    );
    until("it is let through", || {
        let guarded = "jsonpath={.status.conditions[?(@.type=='Guarded')].message}";
        let said = machine.kubectl(&["get", "dnszone/many", "-o", guarded])?;
        if let Some(leave) = said
            .split(' ')
            .find(|word| word.starts_with("bindery.dev/"))
        {
            machine.kubectl(&["annotate", "--overwrite", "dnszone/many", leave])?;
        }
        let left = machine.kubectl(&["get", "arecords", "-o", "name"])?;
        Ok(left.is_empty().then_some(()))
    })?;
    told(&mut machine, "no plan is held any longer")?;
    signal(&machine, "named", "STOP")?;
    let silent = told(&mut machine, "the name server does not answer");
    signal(&machine, "named", "CONT")?;
    let silent = silent?;
    let address = format!("127.0.0.1:{}", machine.dns);
    ensure!(
        silent["server"] == address && silent["fault"].is_string(),
        "{silent}"
    );
    told(&mut machine, "the name server answers again")?;
    let lines = log(&mut machine)?;
    let once = [
        HELD,
        "no plan is held any longer",
        "the name server does not answer",
    ];
    for message in once {
        let count = said(&lines, message).len();
        ensure!(count == 1, "{count} lines say {message:?}: {lines:?}");
    }
    let is_told_again = |line: &&Value| line["fields"]["reason"] == "Held";
    let again = lines.iter().find(is_told_again);
    ensure!(again.is_none(), "what is held is told twice: {again:?}");
    every_line_is_on_the_page(&lines)
}

/// The page lists what is said while Bindery works; what it says of its own start is not among that.
fn every_line_is_on_the_page(lines: &[Value]) -> Result<()> {
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: Vec<&str> = rows.map(|row| row.trim_end_matches('…')).collect();
    for line in lines {
        let message = line["fields"]["message"].as_str().unwrap_or_default();
        let target = line["target"].as_str().unwrap_or_default();
        let is_work = ["bindery_engine", "bindery_kube"]
            .iter()
            .any(|one| target.starts_with(one));
        let is_listed = rows.iter().any(|row| message.starts_with(row));
        ensure!(!is_work || is_listed, "{message:?} is not in {PAGE}");
    }
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

//! A stock `kubectl`, verb by verb.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};

crate::cases!(
    get_shows_objects_in_every_form,
    get_watch_shows_changes,
    wait_returns_when_it_is_so,
    describe_and_explain_teach,
    events_tell_what_is_wrong_and_when_it_is_well_again,
    apply_works_client_side_and_server_side,
    diff_and_dry_run_change_nothing,
    create_edit_patch_label_annotate_delete,
    builtin_kinds_are_there,
    a_bad_field_is_refused_with_its_path,
);

/// A record in the zone of the quickstart.
fn record(name: &str, address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: {name}, labels: {{zone: example-com}}}}\n\
         spec: {{name: {name}, ipv4Addresses: [{address}]}}\n"
    )
}

fn has(text: &str, wanted: &[&str]) -> Result<()> {
    for word in wanted {
        ensure!(text.contains(word), "{word:?} is not in\n{text}");
    }
    Ok(())
}

fn get_shows_objects_in_every_form(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "arecord/www",
        "--timeout=60s",
    ])?;
    has(
        &machine.kubectl(&["get", "arecords"])?,
        &["NAME", "READY", "www", "True"],
    )?;
    let wide = machine.kubectl(&["get", "arecords", "-o", "wide"])?;
    has(&wide, &["REASON", "ReconcileSucceeded"])?;
    let yaml = machine.kubectl(&["get", "arecord", "www", "-o", "yaml"])?;
    has(&yaml, &["kind: ARecord", "ipv4Addresses:", "type: Ready"])?;
    let json = machine.kubectl(&["get", "arecord", "www", "-o", "json"])?;
    has(&json, &["\"kind\": \"ARecord\""])?;
    let all = machine.kubectl(&["get", "arecords", "-A"])?;
    has(&all, &["NAMESPACE", "default"])?;
    let labelled = machine.kubectl(&["get", "arecords", "-l", "zone=example-com", "-o", "name"])?;
    ensure!(
        labelled == "arecord.bindy.firestoned.io/www\n",
        "{labelled}"
    );
    let others = machine.kubectl(&["get", "arecords", "-l", "zone!=example-com", "-o", "name"])?;
    ensure!(others.is_empty(), "{others}");
    let field = [
        "get",
        "arecords",
        "--field-selector",
        "metadata.name=www",
        "-o",
        "name",
    ];
    ensure!(
        machine.kubectl(&field)? == labelled,
        "a field selector finds it"
    );
    let both = machine.kubectl(&["get", "dnszones,arecords,dnsendpoints"])?;
    has(&both, &["example-com", "www", "shop"])
}

fn get_watch_shows_changes(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let file = machine.scratch.path().join("watch");
    let kubectl = bindery_e2e::program::kubectl()?;
    let mut child = Command::new(kubectl)
        .arg(format!("--server=http://127.0.0.1:{}", machine.api))
        .args(["get", "arecords", "-w"])
        .stdin(Stdio::null())
        .stdout(fs::File::create(&file)?)
        .spawn()
        .context("cannot run kubectl")?;
    let seen = (|| {
        let shows = |word: &str| {
            let text = || fs::read_to_string(&file).unwrap_or_default();
            until(word, || Ok(text().contains(word).then_some(())))
        };
        shows("www")?;
        machine.apply(&record("late", "192.0.2.44"), &[])?;
        shows("192.0.2.44")
    })();
    child.kill()?;
    child.wait()?;
    seen
}

fn wait_returns_when_it_is_so(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "arecord/www",
        "--timeout=60s",
    ])?;
    machine.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "dnszone/example-com",
        "--timeout=60s",
    ])?;
    let programmed = [
        "wait",
        "--for=condition=Programmed",
        "dnsendpoint/shop",
        "--timeout=60s",
    ];
    machine.kubectl(&programmed)?;
    machine.kubectl(&["delete", "arecord/www", "--wait=false"])?;
    machine.kubectl(&["wait", "--for=delete", "arecord/www", "--timeout=60s"])?;
    machine.resolves(&["www.example.com"], &[])
}

fn describe_and_explain_teach(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let told = machine.kubectl(&["describe", "arecord/www"])?;
    has(
        &told,
        &["Name:", "www", "Conditions:", "ipv4Addresses", "192.0.2.1"],
    )?;
    let told = machine.kubectl(&["explain", "arecord.spec"])?;
    has(&told, &["ARecord", "ipv4Addresses", "ttl"])?;
    let told = machine.kubectl(&["explain", "dnszone", "--recursive"])?;
    has(&told, &["zoneName", "recordsFrom"])?;
    let kinds = machine.kubectl(&["api-resources"])?;
    has(
        &kinds,
        &[
            "arecords",
            "dnszones",
            "dnsendpoints",
            "configmaps",
            "namespaces",
        ],
    )?;
    has(
        &machine.kubectl(&["api-versions"])?,
        &["bindy.firestoned.io/v1beta1"],
    )?;
    machine.kubectl(&["events"])?;
    machine.kubectl(&["get", "events", "-A"])?;
    has(&machine.kubectl(&["version"])?, &["Server Version"])
}

fn events_tell_what_is_wrong_and_when_it_is_well_again(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])?;
    let told = |object: &str, kind: &str, reason: &str| {
        let mut last = String::new();
        until("an Event", || {
            last = machine.kubectl(&["get", "events"])?;
            let words = |line: &str| {
                [object, kind, reason]
                    .iter()
                    .all(|word| line.contains(word))
            };
            Ok(last.lines().any(words).then_some(()))
        })
        .with_context(|| format!("no {kind} {reason} of {object} in\n{last}"))
    };
    // A record that cannot stand beside others, until those go.
    machine.apply(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: CNAMERecord\n\
         metadata: {name: clash, labels: {zone: example-com}}\n\
         spec: {name: www, target: elsewhere.example.}\n",
        &[],
    )?;
    told("cnamerecord/clash", "Warning", "Conflict")?;
    let described = machine.kubectl(&["describe", "cnamerecord/clash"])?;
    has(&described, &["Events:", "Warning", "Conflict"])?;
    machine.kubectl(&["delete", "arecord/www", "aaaarecord/www"])?;
    told("cnamerecord/clash", "Normal", "ReconcileSucceeded")?;
    // A zone that another one has already, until it has a name of its own.
    let zone = |apex: &str| {
        format!(
            "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\n\
             metadata: {{name: second}}\nspec: {{zoneName: {apex}}}\n"
        )
    };
    machine.apply(&zone("example.com"), &[])?;
    told("dnszone/second", "Warning", "Duplicate")?;
    machine.apply(&zone("example.org"), &[])?;
    told("dnszone/second", "Normal", "ReconcileSucceeded")
}

fn apply_works_client_side_and_server_side(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    has(
        &machine.apply(&record("one", "192.0.2.51"), &[])?,
        &["created"],
    )?;
    has(
        &machine.apply(&record("one", "192.0.2.51"), &[])?,
        &["unchanged"],
    )?;
    has(
        &machine.apply(&record("one", "192.0.2.52"), &[])?,
        &["configured"],
    )?;
    machine.resolves(&["one.example.com"], &["192.0.2.52"])?;
    let applied = machine.apply(&record("two", "192.0.2.53"), &["--server-side"])?;
    has(&applied, &["serverside-applied"])?;
    machine.apply(&record("two", "192.0.2.54"), &["--server-side"])?;
    machine.resolves(&["two.example.com"], &["192.0.2.54"])
}

fn diff_and_dry_run_change_nothing(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.apply(&record("one", "192.0.2.51"), &[])?;
    let dry = machine.apply(&record("one", "192.0.2.99"), &["--dry-run=server"])?;
    has(&dry, &["configured (server dry run)"])?;
    let file = machine
        .scratch
        .path()
        .join("apply.yaml")
        .display()
        .to_string();
    let diff = machine.try_kubectl(&["diff", "-f", &file])?;
    ensure!(
        diff.status.code() == Some(1),
        "diff says that something differs"
    );
    has(
        &String::from_utf8_lossy(&diff.stdout),
        &["192.0.2.51", "192.0.2.99"],
    )?;
    machine.resolves(&["one.example.com"], &["192.0.2.51"])?;
    let path = "jsonpath={.spec.ipv4Addresses[0]}";
    let kept = machine.kubectl(&["get", "arecord/one", "-o", path])?;
    ensure!(kept == "192.0.2.51", "{kept}");
    Ok(())
}

fn create_edit_patch_label_annotate_delete(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let file = machine.scratch.path().join("one.yaml");
    fs::write(&file, record("one", "192.0.2.61"))?;
    let file = file.display().to_string();
    has(&machine.kubectl(&["create", "-f", &file])?, &["created"])?;
    let again = machine.try_kubectl(&["create", "-f", &file])?;
    has(&String::from_utf8_lossy(&again.stderr), &["AlreadyExists"])?;
    machine.resolves(&["one.example.com"], &["192.0.2.61"])?;

    let editor = machine.scratch.path().join("editor");
    fs::write(
        &editor,
        "#!/bin/sh\nsed -i '/^spec:/,/^status:/s/2.61/2.62/' \"$1\"\n",
    )?;
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755))?;
    let edited = Command::new(bindery_e2e::program::kubectl()?)
        .arg(format!("--server=http://127.0.0.1:{}", machine.api))
        .args(["edit", "arecord/one"])
        .env("EDITOR", &editor)
        .output()?;
    has(&crate::machine::text(&edited)?, &["edited"])?;
    machine.resolves(&["one.example.com"], &["192.0.2.62"])?;

    let patch = |kind: &str, body: &str| {
        machine.kubectl(&[
            "patch",
            "arecord/one",
            &format!("--type={kind}"),
            "-p",
            body,
        ])
    };
    patch("merge", r#"{"spec":{"ipv4Addresses":["192.0.2.63"]}}"#)?;
    machine.resolves(&["one.example.com"], &["192.0.2.63"])?;
    patch(
        "json",
        r#"[{"op":"add","path":"/spec/ipv4Addresses/-","value":"192.0.2.64"}]"#,
    )?;
    machine.resolves(&["one.example.com"], &["192.0.2.63", "192.0.2.64"])?;
    machine.kubectl(&["create", "configmap", "notes", "--from-literal=a=1"])?;
    machine.kubectl(&["patch", "configmap/notes", "-p", r#"{"data":{"b":"2"}}"#])?;
    let notes = machine.kubectl(&["get", "configmap/notes", "-o", "jsonpath={.data}"])?;
    has(&notes, &["\"a\":\"1\"", "\"b\":\"2\""])?;

    machine.kubectl(&["label", "arecord/one", "team=a"])?;
    machine.kubectl(&["annotate", "arecord/one", "why=test"])?;
    let found = machine.kubectl(&["get", "arecords", "-l", "team=a", "-o", "name"])?;
    has(&found, &["arecord.bindy.firestoned.io/one"])?;
    machine.kubectl(&["label", "arecord/one", "zone-"])?;
    machine.resolves(&["one.example.com"], &[])?;
    machine.kubectl(&["label", "arecord/one", "zone=example-com"])?;
    machine.resolves(&["one.example.com"], &["192.0.2.63", "192.0.2.64"])?;
    has(&machine.kubectl(&["delete", "arecord/one"])?, &["deleted"])?;
    machine.resolves(&["one.example.com"], &[])
}

fn builtin_kinds_are_there(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.kubectl(&["create", "namespace", "team"])?;
    machine.kubectl(&[
        "create",
        "secret",
        "generic",
        "s",
        "--from-literal=a=b",
        "-n",
        "team",
    ])?;
    machine.kubectl(&[
        "get",
        "namespaces,secrets,configmaps,services,pods,nodes",
        "-A",
    ])?;
    machine.kubectl(&["delete", "namespace", "team"])?;
    let left = machine.try_kubectl(&["get", "secret", "s", "-n", "team"])?;
    ensure!(
        !left.status.success(),
        "a namespace goes with all that is in it"
    );
    Ok(())
}

fn a_bad_field_is_refused_with_its_path(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let file = machine.scratch.path().join("bad.yaml");
    for (find, put, wanted) in [
        ("192.0.2.1", "not-an-address", "spec.ipv4Addresses"),
        ("spec: {", "spec: {ttl: -1, ", "spec.ttl"),
        ("spec: {", "spec: {nonsense: 1, ", "nonsense"),
    ] {
        fs::write(&file, record("bad", "192.0.2.1").replacen(find, put, 1))?;
        let refused = machine.try_kubectl(&["apply", "-f", &file.display().to_string()])?;
        ensure!(!refused.status.success(), "{put} was accepted");
        has(&String::from_utf8_lossy(&refused.stderr), &[wanted])?;
    }
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])
}

//! Files that come and go: a passing state takes nothing away, and a zone never goes with a file.

use std::fs::{self, File};

use anyhow::{Context as _, Result, ensure};

use crate::ask::{ask, has, printed};
use crate::files::{record, told, uid};
use crate::machine::{Machine, Server, run, text, until};

crate::cases!(
    a_passing_state_of_a_file_takes_nothing_away,
    a_file_that_is_written_slowly_is_read_when_it_is_whole,
    a_zone_that_no_file_declares_is_kept_and_says_so,
    a_zone_that_is_let_go_takes_its_records_along,
    a_folder_replaced_while_it_was_down_takes_no_zone_away,
    a_namespace_that_leaves_the_folder_keeps_its_zones,
    of_two_files_the_one_that_has_an_object_keeps_it,
    what_is_no_file_hangs_nothing,
);

const ZONE: &str = "dnszone/example-com";

/// A zone with one record, as one file.
fn example(address: &str) -> String {
    format!("{}---\n{}", zone("example-com"), record("www", address))
}

fn zone(name: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: DNSZone\n\
         metadata: {{name: {name}, namespace: default}}\nspec:\n  zoneName: example.com\n  \
         recordsFrom: [{{selector: {{matchLabels: {{zone: example-com}}}}}}]\n"
    )
}

/// A machine with a zone in one file and something else in another, which serves a record of ours and
/// one of others.
fn machine(server: Server) -> Result<Machine> {
    let mut machine = Machine::idle(server)?;
    machine.write("example.yaml", &example("192.0.2.1"))?;
    let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {a: b}}";
    machine.write("other.yaml", other)?;
    machine.start()?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])?;
    machine.nsupdate("zone example.com\nupdate add foreign.example.com 60 A 192.0.2.200")?;
    Ok(machine)
}

/// What must be the same after anything that passes: the zone object; and its serial as a number.
fn standing(machine: &Machine) -> Result<(String, u32)> {
    let soa = machine.dig(&["+short", "example.com", "SOA"])?;
    let serial = soa.first().and_then(|soa| soa.split(' ').nth(2));
    let serial = serial.with_context(|| format!("the zone is not served: {soa:?}"))?;
    Ok((uid(machine, ZONE)?, serial.parse()?))
}

/// The zone was not deleted in between: it is the same object, its serial did not go back, and what others
/// wrote is there.
fn still_stands(machine: &Machine, before: &(String, u32)) -> Result<()> {
    let (uid, serial) = standing(machine)?;
    ensure!(uid == before.0, "the zone object is another one");
    ensure!(serial >= before.1, "serial {} → {serial}", before.1);
    let foreign = machine.dig(&["+short", "foreign.example.com"])?;
    ensure!(foreign == ["192.0.2.200"], "foreign records: {foreign:?}");
    Ok(())
}

fn guarded(machine: &Machine) -> Result<()> {
    let path = ".status.conditions[?(@.type==\"Guarded\")].reason";
    machine.says(ZONE, path, "NoLongerDeclared")
}

fn not_guarded(machine: &Machine) -> Result<()> {
    machine.says(
        ZONE,
        ".status.conditions[?(@.type==\"Guarded\")].reason",
        "",
    )?;
    let path = ".metadata.annotations.bindery\\.dev/no-longer-declared";
    machine.says(ZONE, path, "")
}

fn a_passing_state_of_a_file_takes_nothing_away(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    let before = standing(&machine)?;
    let www = uid(&machine, "arecord/www")?;
    let whole = example("192.0.2.1");
    let states = [
        (String::new(), "example.yaml: declares nothing"),
        ("# soon\n".to_owned(), "example.yaml: declares nothing"),
        (whole.replace("DNSZone", "DNSZoen"), "no kind DNSZoen"),
        (
            whole.replace("namespace: default", "namespace: defualt"),
            "namespaces \"defualt\" not found",
        ),
        (whole.replace("spec:", "spec: ["), "not YAML"),
        (whole.replace("zoneName", "zoneNam"), "zoneNam"),
    ];
    for (state, message) in states {
        machine.write("example.yaml", &state)?;
        told(&mut machine, message)?;
        // Something else happens in the folder, and is seen, while the state lasts.
        machine.write("next.yaml", &record("next", "192.0.2.2"))?;
        machine.resolves(&["next.example.com"], &["192.0.2.2"])?;
        fs::remove_file(machine.folder().join("next.yaml"))?;
        machine.resolves(&["next.example.com"], &[])?;
        still_stands(&machine, &before).context(message)?;
        ensure!(uid(&machine, "arecord/www")? == www, "{message}");
        machine.write("example.yaml", &whole)?;
        until("it is fine again", || {
            let tree = printed(&ask(&machine, &["status"])?);
            Ok((!tree.contains("in the folder")).then_some(()))
        })?;
    }
    // Rewritten from nothing, and gone for a moment.
    let file = machine.folder().join("example.yaml");
    for address in ["192.0.2.3", "192.0.2.4"] {
        fs::remove_file(&file)?;
        machine.write("example.yaml", &example(address))?;
        machine.resolves(&["www.example.com"], &[address])?;
    }
    still_stands(&machine, &before)?;
    ensure!(
        uid(&machine, "arecord/www")? == www,
        "the record was deleted"
    );
    not_guarded(&machine)
}

fn a_file_that_is_written_slowly_is_read_when_it_is_whole(server: Server) -> Result<()> {
    let machine = machine(server)?;
    let before = standing(&machine)?;
    let www = uid(&machine, "arecord/www")?;
    // A generator that thinks before, and in the middle.
    let scratch = machine.scratch.path();
    let first = "{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}\n---\n";
    fs::write(scratch.join("first"), first)?;
    fs::write(scratch.join("rest"), example("192.0.2.5"))?;
    let line = format!(
        "cd {}; (sleep 1; cat first; sleep 2; cat rest) > zones/example.yaml",
        scratch.display()
    );
    text(&run("sh", &["-c", &line])?)?;
    machine.resolves(&["www.example.com"], &["192.0.2.5"])?;
    still_stands(&machine, &before)?;
    ensure!(
        uid(&machine, "arecord/www")? == www,
        "the record was deleted"
    );
    not_guarded(&machine)
}

fn a_zone_that_no_file_declares_is_kept_and_says_so(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    let before = standing(&machine)?;
    let command = "kubectl delete dnszone example-com -n default";
    for signal in ["KILL", "TERM"] {
        fs::remove_file(machine.folder().join("example.yaml"))?;
        guarded(&machine)?;
        let path = ".metadata.annotations.bindery\\.dev/no-longer-declared";
        machine.says(ZONE, path, "example.yaml")?;
        until("the view", || {
            let view = machine.process()?.out();
            Ok(view.contains(command).then_some(()))
        })?;
        let status = ask(&machine, &["status"])?;
        ensure!(
            !status.status.success(),
            "a zone that is held is not in order"
        );
        has(
            &printed(&status),
            &["NoLongerDeclared", "example.yaml", command],
        )?;
        let events = machine.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"])?;
        has(&events, &[command])?;
        machine.stop(signal)?;
        machine.start()?;
        guarded(&machine)?;
        still_stands(&machine, &before)?;
        machine.resolves(&["www.example.com"], &["192.0.2.1"])?;
        machine.write("example.yaml", &example("192.0.2.1"))?;
        not_guarded(&machine)?;
    }
    // Under another name it is another object, which waits for the first to be let go.
    let renamed = example("192.0.2.1").replace("name: example-com,", "name: renamed,");
    machine.write("example.yaml", &renamed)?;
    guarded(&machine)?;
    still_stands(&machine, &before)?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])
}

fn a_zone_that_is_let_go_takes_its_records_along(server: Server) -> Result<()> {
    let machine = machine(server)?;
    machine.nsupdate("zone example.com\nupdate delete foreign.example.com A")?;
    machine.write("new.yaml", &record("new", "192.0.2.7"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.7"])?;
    fs::remove_file(machine.folder().join("example.yaml"))?;
    guarded(&machine)?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])?;
    let foreign = ".status.foreignCount";
    machine
        .says(ZONE, foreign, "0")
        .or_else(|_| machine.says(ZONE, foreign, ""))?;
    machine.kubectl(&["delete", ZONE, "--timeout=60s"])?;
    machine.kubectl(&["wait", "--for=delete", "arecord/www", "--timeout=60s"])?;
    let left = machine.kubectl(&["get", "arecords", "-o", "name"])?;
    ensure!(left.trim() == "arecord.bindy.firestoned.io/new", "{left}");
    Ok(())
}

fn a_folder_replaced_while_it_was_down_takes_no_zone_away(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    let before = standing(&machine)?;
    for is_down in [true, false] {
        let away = machine.scratch.path().join("away");
        if is_down {
            machine.stop("TERM")?;
        }
        fs::rename(machine.folder(), &away)?;
        fs::create_dir(machine.folder())?;
        let single = "{apiVersion: v1, kind: ConfigMap, metadata: {name: single}}";
        machine.write("single.yaml", single)?;
        if is_down {
            machine.start()?;
        }
        guarded(&machine)?;
        still_stands(&machine, &before)?;
        machine.resolves(&["www.example.com"], &["192.0.2.1"])?;
        fs::remove_dir_all(machine.folder())?;
        fs::rename(&away, machine.folder())?;
        not_guarded(&machine)?;
        still_stands(&machine, &before)?;
    }
    Ok(())
}

fn a_namespace_that_leaves_the_folder_keeps_its_zones(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: lab}}\n";
    let lab = zone("lab-test")
        .replace("namespace: default", "namespace: lab")
        .replace("zoneName: example.com", "zoneName: lab.test");
    machine.write("lab.yaml", &format!("{namespace}---\n{lab}"))?;
    until("the zone", || {
        Ok((!machine.dig(&["+short", "lab.test", "SOA"])?.is_empty()).then_some(()))
    })?;
    fs::remove_file(machine.folder().join("lab.yaml"))?;
    told(
        &mut machine,
        "Namespace default/lab: no file declares it any longer; it is kept",
    )?;
    let phase = ["get", "namespace", "lab", "-o", "jsonpath={.status.phase}"];
    ensure!(machine.kubectl(&phase)? == "Active", "it is being deleted");
    ensure!(
        !machine.dig(&["+short", "lab.test", "SOA"])?.is_empty(),
        "the zone is gone"
    );
    machine.kubectl(&[
        "delete",
        "dnszone",
        "lab-test",
        "-n",
        "lab",
        "--timeout=60s",
    ])?;
    machine
        .kubectl(&["wait", "--for=delete", "namespace/lab", "--timeout=60s"])
        .map(drop)
}

fn of_two_files_the_one_that_has_an_object_keeps_it(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    machine.write("b.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.write("a.yaml", &record("new", "192.0.2.72"))?;
    let message = "a.yaml:1: ARecord default/new is declared in b.yaml:1 already";
    told(&mut machine, message)?;
    machine.stop("KILL")?;
    machine.start()?;
    told(&mut machine, message)?;
    has(
        &printed(&ask(&machine, &["status"])?),
        &["in the folder", message],
    )?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    fs::remove_file(machine.folder().join("b.yaml"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.72"])
}

fn what_is_no_file_hangs_nothing(server: Server) -> Result<()> {
    let mut machine = machine(server)?;
    let pipe = machine.folder().join("pipe.yaml").display().to_string();
    text(&run("mkfifo", &[&pipe])?)?;
    File::create(machine.folder().join("huge.yaml"))?.set_len(5 << 30)?;
    told(&mut machine, "pipe.yaml: is no file but a pipe")?;
    told(&mut machine, "huge.yaml: has 5368709120 bytes")?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.stop("TERM")?;
    machine.start()?;
    machine.resolves(&["www.example.com"], &["192.0.2.1"])
}

//! The folder: what happens to files happens to objects.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, until};

crate::cases!(
    a_file_is_added_edited_and_deleted,
    a_file_that_is_moved_or_replaced_keeps_its_objects,
    an_emptied_or_missing_folder_deletes_nothing,
    a_broken_file_is_told_and_the_others_work,
    what_was_deleted_while_it_was_down_is_gone,
    what_users_do_with_kubectl_is_left_alone,
    a_definition_and_a_namespace_come_before_what_needs_them,
);

pub(crate) fn record(name: &str, address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\n\
         metadata: {{name: {name}, labels: {{zone: example-com}}}}\n\
         spec: {{name: {name}, ipv4Address: {address}}}\n"
    )
}

/// Waits for a line on stderr.
pub(crate) fn told(machine: &mut Machine, wanted: &str) -> Result<()> {
    let process = machine.process()?;
    until("a message", || {
        Ok(process.err().contains(wanted).then_some(()))
    })
    .with_context(|| format!("{wanted:?} is not in\n{}", process.err()))
}

pub(crate) fn uid(machine: &Machine, object: &str) -> Result<String> {
    machine.kubectl(&["get", object, "-o", "jsonpath={.metadata.uid}"])
}

fn a_file_is_added_edited_and_deleted(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.write("new.yaml", &record("new", "192.0.2.72"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.72"])?;
    let two = format!(
        "{}---\n{}",
        record("new", "192.0.2.72"),
        record("other", "192.0.2.73")
    );
    machine.write("new.yaml", &two)?;
    machine.resolves(&["other.example.com"], &["192.0.2.73"])?;
    machine.write("new.yaml", &record("new", "192.0.2.72"))?;
    machine.resolves(&["other.example.com"], &[])?;
    fs::remove_file(machine.folder().join("new.yaml"))?;
    machine.resolves(&["new.example.com"], &[])?;
    machine.kubectl(&["wait", "--for=delete", "arecord/new", "--timeout=60s"])?;
    let json = r#"{"apiVersion": "bindy.firestoned.io/v1beta1", "kind": "ARecord",
        "metadata": {"name": "json", "labels": {"zone": "example-com"}},
        "spec": {"name": "json", "ipv4Address": "192.0.2.74"}}"#;
    fs::create_dir(machine.folder().join("below"))?;
    machine.write("below/json.json", json)?;
    machine.resolves(&["json.example.com"], &["192.0.2.74"])
}

fn a_file_that_is_moved_or_replaced_keeps_its_objects(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    let before = uid(&machine, "arecord/new")?;
    // As editors do it: another file takes the name.
    let scratch = machine.folder().join(".new.yaml.swp");
    fs::write(&scratch, record("new", "192.0.2.72"))?;
    fs::rename(&scratch, machine.folder().join("new.yaml"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.72"])?;
    fs::rename(
        machine.folder().join("new.yaml"),
        machine.folder().join("moved.yaml"),
    )?;
    let path = "jsonpath={.metadata.annotations.bindery\\.dev/file}";
    until("the new name", || {
        let file = machine.kubectl(&["get", "arecord/new", "-o", path])?;
        Ok((file == "moved.yaml").then_some(()))
    })?;
    ensure!(
        uid(&machine, "arecord/new")? == before,
        "it was deleted and made again"
    );
    Ok(())
}

fn an_emptied_or_missing_folder_deletes_nothing(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    let before = uid(&machine, "arecord/www")?;
    let away = machine.scratch.path().join("away");
    fs::create_dir(&away)?;
    let files: Vec<_> = fs::read_dir(machine.folder())?.collect::<Result<_, _>>()?;
    for file in &files {
        fs::rename(file.path(), away.join(file.file_name()))?;
    }
    told(&mut machine, "the folder declares nothing")?;
    fs::remove_dir(machine.folder())?;
    told(&mut machine, "there is no such file or folder")?;
    machine.stop("TERM")?;
    fs::create_dir(machine.folder())?;
    machine.start()?;
    told(&mut machine, "the folder declares nothing")?;
    ensure!(uid(&machine, "arecord/www")? == before, "it was deleted");
    for file in &files {
        fs::rename(
            away.join(file.file_name()),
            machine.folder().join(file.file_name()),
        )?;
    }
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    ensure!(uid(&machine, "arecord/www")? == before, "it was deleted");
    machine.resolves(&["www.example.com"], &["192.0.2.1", "192.0.2.2"])
}

fn a_broken_file_is_told_and_the_others_work(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.write("new.yaml", "apiVersion: v1\nkind: [\n")?;
    told(&mut machine, "new.yaml:2: not YAML")?;
    machine.write("refused.yaml", &record("refused", "not-an-address"))?;
    told(&mut machine, "refused.yaml:1: ARecord default/refused: ")?;
    told(&mut machine, "ipv4Address")?;
    machine.write("large.yaml", &"#".repeat(10 << 20))?;
    told(&mut machine, "large.yaml: has 10485760 bytes")?;
    let aliases = |of: &str| vec![format!("*{of}"); 9].join(",");
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for pair in "abcdefghij".as_bytes().windows(2) {
        let (from, to) = (char::from(pair[0]), char::from(pair[1]));
        bomb = format!("{bomb}{to}: &{to} [{}]\n", aliases(&from.to_string()));
    }
    machine.write("bomb.yaml", &bomb)?;
    told(&mut machine, "bomb.yaml:")?;
    machine.write("good.yaml", &record("good", "192.0.2.72"))?;
    machine.resolves(&["good.example.com"], &["192.0.2.72"])?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.write("new.yaml", &record("new", "192.0.2.73"))?;
    told(&mut machine, "new.yaml is fine now")?;
    machine.resolves(&["new.example.com"], &["192.0.2.73"])?;
    let times = machine.process()?.err().matches("new.yaml:2:").count();
    ensure!(times == 1, "it was told {times} times");
    Ok(())
}

fn what_was_deleted_while_it_was_down_is_gone(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    machine.stop("TERM")?;
    fs::remove_file(machine.folder().join("new.yaml"))?;
    machine.write("other.yaml", &record("other", "192.0.2.72"))?;
    machine.start()?;
    machine.resolves(&["new.example.com"], &[])?;
    machine.resolves(&["other.example.com"], &["192.0.2.72"])
}

fn what_users_do_with_kubectl_is_left_alone(server: Server) -> Result<()> {
    let mut machine = Machine::quickstart(server)?;
    machine.apply(&record("mine", "192.0.2.81"), &[])?;
    machine.write("new.yaml", &record("new", "192.0.2.71"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.71"])?;
    let change = r#"{"spec":{"ipv4Address":"192.0.2.99"}}"#;
    machine.kubectl(&["patch", "arecord/new", "--type=merge", "-p", change])?;
    machine.resolves(&["new.example.com"], &["192.0.2.99"])?;
    machine.stop("TERM")?;
    machine.start()?;
    machine.write("next.yaml", &record("next", "192.0.2.72"))?;
    machine.resolves(&["next.example.com"], &["192.0.2.72"])?;
    machine.resolves(&["new.example.com"], &["192.0.2.99"])?;
    machine.resolves(&["mine.example.com"], &["192.0.2.81"])?;
    machine.write("new.yaml", &record("new", "192.0.2.73"))?;
    machine.resolves(&["new.example.com"], &["192.0.2.73"])
}

fn a_definition_and_a_namespace_come_before_what_needs_them(server: Server) -> Result<()> {
    let machine = Machine::quickstart(server)?;
    let manifests = "\
apiVersion: lab.test/v1
kind: Probe
metadata: {name: p, namespace: lab}
spec: {depth: 3}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: lab}, data: {a: b}}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: probes.lab.test}
spec:
  group: lab.test
  scope: Namespaced
  names: {kind: Probe, plural: probes, singular: probe}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {depth: {type: integer}}}}
";
    machine.write("lab.yaml", manifests)?;
    until("the objects", || {
        let found = machine.try_kubectl(&["get", "probe/p", "configmap/c", "-n", "lab"])?;
        Ok(found.status.success().then_some(()))
    })
}

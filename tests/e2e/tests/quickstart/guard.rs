//! The guard on a real kube-apiserver, with its own namespace controller.

use anyhow::{Context as _, Result, ensure};

use crate::docs::{UNINSTALL, run_script, scripts};
use crate::machine::{Process, Server, until};
use crate::stage::{Stage, dig_at};

crate::cases!(what_is_held_is_held_on_a_real_cluster);

const SOA: &str = "ns.example.net. hostmaster.example.net. 1 3600 600 604800 300";

/// A zone, and a record in it that another namespace has.
const TEAM: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Namespace
metadata: {name: branch}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: team, namespace: team}
spec: {zoneName: team.example, recordsFrom: [{selector: {matchLabels: {zone: team}}}]}
---
apiVersion: bindy.firestoned.io/v1beta1
kind: ARecord
metadata: {name: www, namespace: team, labels: {zone: team}}
spec: {name: www, ipv4Addresses: [192.0.2.1]}
---
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: branch, namespace: branch}
spec:
  endpoints:
  - {dnsName: branch.team.example, recordType: A, recordTTL: 60, targets: [192.0.2.10]}
";

const REASON: &str = ".status.conditions[?(@.type=='Ready')].reason";
const GUARDED: &str = ".status.conditions[?(@.type=='Guarded')].message";

/// How many records the crowd has, how many of them are deleted, and how many after a restart.
const CROWD: usize = 20;
const DELETED: usize = 12;
const LATER: usize = 14;

/// One control plane for all of it: to start one takes longer than everything else.
fn what_is_held_is_held_on_a_real_cluster(_: Server) -> Result<()> {
    let mut stage = Stage::new(&[])?;
    stage.kubernetes.start_controllers()?;
    too_much_is_held_beyond_a_restart(&mut stage)?;
    a_namespace_takes_no_zone_along(&stage)?;
    names_stay_when_bindery_is_uninstalled(stage)
}

fn too_much_is_held_beyond_a_restart(stage: &mut Stage) -> Result<()> {
    create_zone(stage, "many.example")?;
    let zone = TEAM.split("---\n").nth(2).context("it is the third")?;
    let record = TEAM.split("---\n").nth(3).context("it is the fourth")?;
    let here = |yaml: &str| {
        yaml.replace("namespace: team", "namespace: default")
            .replace("team", "many")
    };
    let records = (0..CROWD).map(|number| here(record).replace("www", &host(number)));
    let all: Vec<String> = [here(zone)].into_iter().chain(records).collect();
    stage.kubectl_apply(&all.join("---\n"))?;
    let ready = [
        "wait",
        "--for=condition=Ready",
        "arecords",
        "--all",
        "--timeout=120s",
    ];
    stage.kubectl(&ready)?;
    delete(stage, 0..DELETED)?;
    is_held(stage, DELETED - 1)?;
    // The guard counts from ten on, so up to nine are gone.
    let before = served(stage)?;
    ensure!(before >= CROWD - 9, "{before} are served");
    stage.process.signal("KILL")?;
    stage.process.wait()?;
    let words: Vec<&str> = stage.line.iter().map(String::as_str).collect();
    stage.process = Process::start(&words, stage.scratch.path(), 1)?;
    delete(stage, DELETED..LATER)?;
    is_held(stage, LATER - 1)?;
    is_held(stage, LATER - 2)?;
    ensure!(served(stage)? == before, "a restart lets more go");
    let_through(stage, "default", "many", || {
        let left = stage.kubectl(&["get", "arecords", "-o", "name"])?;
        Ok(left.lines().count() == CROWD - LATER)
    })?;
    ensure!(
        served(stage)? == CROWD - LATER,
        "what was not deleted stays"
    );
    Ok(())
}

/// A real cluster deletes the objects of a namespace kind by kind, records before zones.
fn a_namespace_takes_no_zone_along(stage: &Stage) -> Result<()> {
    create_zone(stage, "team.example")?;
    stage.kubectl_apply(TEAM)?;
    stage.resolves("www.team.example", "A", "192.0.2.1")?;
    stage.resolves("branch.team.example", "A", "192.0.2.10")?;
    stage.says(
        &["dnsendpoint/branch", "-n", "branch"],
        ".status.published",
        |lines| !lines.is_empty(),
    )?;
    // What has its zone elsewhere goes without a second word.
    stage.kubectl(&["delete", "namespace", "branch", "--timeout=120s"])?;
    stage.resolves("branch.team.example", "A", "")?;
    stage.kubectl(&["delete", "namespace", "team", "--wait=false"])?;
    stage.says(&["arecord/www", "-n", "team"], REASON, |reason| {
        reason == "Held"
    })?;
    stage.says(&["dnszone/team", "-n", "team"], GUARDED, |said| {
        said.contains("namespace team is being deleted")
    })?;
    let answer = dig_at(stage.primary.address(), "www.team.example", "A")?;
    ensure!(answer == "192.0.2.1", "{answer}");
    let_through(stage, "team", "team", || {
        let left = stage.kubectl(&["get", "namespace", "team", "--ignore-not-found"])?;
        Ok(left.is_empty())
    })?;
    stage.resolves("www.team.example", "A", "")
}

fn names_stay_when_bindery_is_uninstalled(stage: Stage) -> Result<()> {
    let Stage {
        mut process,
        primary,
        kubernetes,
        scratch,
        ..
    } = stage;
    process.signal("TERM")?;
    process.wait()?;
    let scripts = scripts(UNINSTALL)?;
    let stay = scripts.first().context("the page has none")?;
    run_script(stay, &kubernetes.kubeconfig(), scratch.path())?;
    let name = format!("{}.many.example", host(CROWD - 1));
    let answer = dig_at(primary.address(), &name, "A")?;
    ensure!(answer == "192.0.2.1", "{answer}");
    run_script(
        "test -z \"$(kubectl get crd -o name)\"",
        &kubernetes.kubeconfig(),
        scratch.path(),
    )
}

fn create_zone(stage: &Stage, zone: &str) -> Result<()> {
    let lines = format!("{zone}. 300 IN SOA {SOA}\n{zone}. 300 IN NS ns.example.net.");
    stage.create_zone(zone, &lines)
}

fn host(number: usize) -> String {
    format!("h{number:02}")
}

fn delete(stage: &Stage, numbers: std::ops::Range<usize>) -> Result<()> {
    let objects: Vec<String> = numbers
        .map(|number| format!("arecord/{}", host(number)))
        .collect();
    let objects = objects.iter().map(String::as_str);
    let line: Vec<&str> = ["delete", "--wait=false"]
        .into_iter()
        .chain(objects)
        .collect();
    stage.kubectl(&line).map(drop)
}

fn is_held(stage: &Stage, number: usize) -> Result<()> {
    let object = format!("arecord/{}", host(number));
    stage.says(&[&object], REASON, |reason| reason == "Held")
}

/// How many of the crowd are answered.
fn served(stage: &Stage) -> Result<usize> {
    let mut count = 0;
    for number in 0..CROWD {
        let name = format!("{}.many.example", host(number));
        count += usize::from(!dig_at(stage.primary.address(), &name, "A")?.is_empty());
    }
    Ok(count)
}

/// Pastes the command of a zone's condition until it is done.
fn let_through(
    stage: &Stage,
    namespace: &str,
    zone: &str,
    is_done: impl Fn() -> Result<bool>,
) -> Result<()> {
    let path = format!("jsonpath={{{GUARDED}}}");
    until("it is let through", || {
        let get = [
            "get",
            "dnszone",
            zone,
            "-n",
            namespace,
            "--ignore-not-found",
            "-o",
            &path,
        ];
        let said = stage.kubectl(&get)?;
        if let Some((_, command)) = said.rsplit_once("if that is meant, kubectl ") {
            // The zone may be gone by now.
            stage.kubectl(&command.split(' ').collect::<Vec<_>>()).ok();
        }
        Ok(is_done()?.then_some(()))
    })
}

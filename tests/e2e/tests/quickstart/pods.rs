//! Pods of `bindery up`: processes that die and come back with it.

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, run, text, until};

crate::cases!(pods_are_where_they_were_after_a_kill_and_leave_with_bindery);

const PODS: [&str; 2] = ["web-0", "web-1"];

/// Two servers of a zone, each with a second `named` beside it.
const SET: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data:
  named.conf: |
    options { directory "/var/cache/bind"; recursion no; listen-on port 8153 { any; }; };
    zone "example.test" { type primary; file "/etc/bind/zone.db"; };
  beside.conf: |
    options { directory "/tmp"; recursion no; listen-on port 8154 { any; }; };
  zone.db: |
    $TTL 60
    @ SOA ns hostmaster 1 60 60 60 60
    @ NS ns
    ns A 192.0.2.1
    www A 192.0.2.1
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, labels: {app: web, app.kubernetes.io/part-of: bindy}}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, app.kubernetes.io/part-of: bindy}}
    spec:
      containers:
      - name: bind9
        image: example.com/bind9:1
        command: [named, -g, -c, /etc/bind/named.conf]
        ports: [{name: dns, containerPort: 8153}]
        readinessProbe: {tcpSocket: {port: dns}, periodSeconds: 1}
        volumeMounts: [{name: conf, mountPath: /etc/bind}, {name: cache, mountPath: /var/cache/bind}]
      - name: beside
        image: example.com/bind9:1
        command: [named, -g, -c, /etc/bind/beside.conf]
        ports: [{name: dns, containerPort: 8154}]
        readinessProbe: {tcpSocket: {port: dns}, periodSeconds: 1}
        volumeMounts: [{name: conf, mountPath: /etc/bind}]
      volumes: [{name: conf, configMap: {name: conf}}, {name: cache, emptyDir: {}}]
"#;

/// What a pod that is ready says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    address: String,
    restarts: Vec<u32>,
    pids: Vec<String>,
}

fn told(machine: &Machine, pod: &str) -> Result<Option<Told>> {
    let path = "jsonpath={.status.conditions[?(@.type=='Ready')].status},{.status.podIP},\
                {.status.containerStatuses[*].restartCount},{.status.containerStatuses[*].containerID}";
    let output = machine.try_kubectl(&["get", "pod", pod, "-o", path])?;
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let parts: Vec<&str> = line.split(',').collect();
    let ["True", address, restarts, pids] = parts[..] else {
        return Ok(None);
    };
    let restarts: Result<Vec<u32>, _> = restarts.split(' ').map(str::parse).collect();
    let pids = pids
        .split(' ')
        .map(|pid| pid.trim_start_matches("process://").to_owned());
    Ok(Some(Told {
        address: address.to_owned(),
        restarts: restarts.context("restarts are numbers")?,
        pids: pids.collect(),
    }))
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn answers(pod: &Told) -> Result<()> {
    let server = format!("@{}", pod.address);
    until("the pod answers", || {
        let output = run(
            "dig",
            &[&server, "-p", "8153", "+short", "www.example.test"],
        )?;
        Ok((text(&output)?.trim() == "192.0.2.1").then_some(()))
    })
}

fn pods_are_where_they_were_after_a_kill_and_leave_with_bindery(server: Server) -> Result<()> {
    let mut machine = Machine::idle(server)?;
    machine.start()?;
    machine.apply(SET, &[])?;
    let mut before = Vec::new();
    for pod in PODS {
        let found = until(pod, || told(&machine, pod))?;
        answers(&found)?;
        before.push(found);
    }
    machine.stop("KILL")?;
    machine.start()?;
    let mut after = Vec::new();
    for (pod, before) in PODS.iter().zip(&before) {
        let found = until(pod, || {
            let found = told(&machine, pod)?;
            Ok(found.filter(|found| found.pids != before.pids))
        })?;
        ensure!(found.address == before.address, "{before:?} {found:?}");
        ensure!(found.restarts == [1, 1], "{found:?}");
        for pid in &before.pids {
            ensure!(!is_running(pid), "{pid} of {pod} is left behind");
        }
        answers(&found)?;
        after.push(found);
    }
    machine.stop("TERM")?;
    for pid in after.iter().flat_map(|pod| &pod.pids) {
        ensure!(!is_running(pid), "{pid} stays though Bindery is gone");
    }
    Ok(())
}

//! Pods as processes: the same node on the embedded API with our StatefulSets, and on the real server with its own.

mod life;
mod volumes;

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene};
use crate::subject::{Subject, block_on, node_folder};

/// Where every `named` of these cases answers, each on the address of its pod.
const DNS_PORT: u16 = 8053;
/// Where it tells that it is alive.
const STATUS_PORT: u16 = 8054;

/// A server of one zone. It says nothing of the address that it listens on.
const NAMED_CONF: &str = r#"
options { directory "/var/cache/bind"; recursion no; listen-on port 8053 { any; }; };
statistics-channels { inet 127.0.0.1 port 8054 allow { any; }; };
zone "example.test" { type primary; file "/etc/bind/zone.db"; };
"#;

/// Each case on each subject, named `subject::pods::topic::case`.
pub(crate) fn trials() -> Vec<Trial> {
    let subjects = [Subject::Embedded, Subject::Real];
    let cases = || life::cases().into_iter().chain(volumes::cases());
    let trials = subjects.into_iter().flat_map(|subject| {
        cases().map(move |case| {
            Trial::test(format!("{}::{}", subject.as_str(), case.name), move || {
                let http = subject.http().map_err(Failed::from)?;
                block_on(async move { (case.run)(Scene::new(http, subject).await).await });
                Ok(())
            })
        })
    });
    trials.collect()
}

fn zone(address: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns hostmaster 1 60 60 60 60\n@ NS ns\nns A {address}\nwww A {address}\n"
    )
}

/// The ConfigMap of a server whose `www` has this address.
fn conf(address: &str) -> Value {
    json!({"named.conf": NAMED_CONF, "zone.db": zone(address)})
}

fn set_target(t: &Scene) -> String {
    format!("/apis/apps/v1/namespaces/{}/statefulsets/web", t.ns)
}

/// The container of a server, probed fast.
fn bind9() -> Value {
    let alive = json!({"path": "/json/v1/status", "port": "status"});
    json!({
        "name": "bind9", "image": "example.com/bind9:1",
        "command": ["named", "-g", "-c", "/etc/bind/named.conf"],
        "ports": [
            {"name": "dns", "containerPort": DNS_PORT, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": DNS_PORT},
            {"name": "status", "containerPort": STATUS_PORT},
        ],
        "volumeMounts": [
            {"name": "conf", "mountPath": "/etc/bind"},
            {"name": "cache", "mountPath": "/var/cache/bind"},
        ],
        "readinessProbe": {"tcpSocket": {"port": "dns-tcp"}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": alive, "periodSeconds": 1, "failureThreshold": 2},
    })
}

/// Creates the set `web` of servers with the ConfigMap `conf`; the case may change it before.
async fn make(t: &Scene, replicas: u32, change: impl FnOnce(&mut Value)) {
    if t.known_difference("service-accounts") == Subject::Real {
        let account = t.core("serviceaccounts/default");
        t.until(&account, |answer| answer.code == 200).await;
    }
    let labels = json!({"app": "web", "app.kubernetes.io/part-of": "bindy"});
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [bind9()],
                    "volumes": [
                        {"name": "conf", "configMap": {"name": "conf"}},
                        {"name": "cache", "emptyDir": {}},
                    ],
                },
            },
        },
    });
    change(&mut body["spec"]);
    let target = format!("/apis/apps/v1/namespaces/{}/statefulsets", t.ns);
    t.post(&target, &body).await.is(201);
}

async fn scale(t: &Scene, replicas: u32) {
    let body = json!({"spec": {"replicas": replicas}});
    t.patch(&set_target(t), Patch::Merge, &body).await.is(200);
}

/// Waits until a pod is as wanted; gives it.
async fn pod(t: &Scene, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let target = t.core(&format!("pods/{name}"));
    t.until(&target, |answer| {
        answer.code == 200 && is_wanted(&answer.json)
    })
    .await
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|one| one["type"] == "Ready");
    ready.any(|one| one["status"] == "True")
}

/// What is told of the first container.
fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn restarts(pod: &Value) -> u64 {
    container(pod)["restartCount"].as_u64().unwrap_or_default()
}

fn address(pod: &Value) -> Ipv4Addr {
    let address = pod["status"]["podIP"].as_str().unwrap_or_default();
    address.parse().expect("a ready pod has an address")
}

/// The process of the first container.
fn pid(pod: &Value) -> String {
    let id = container(pod)["containerID"].as_str().unwrap_or_default();
    id.trim_start_matches("process://").to_owned()
}

fn send_signal(signal: &str, pid: &str) {
    let sent = Command::new("kill").args([signal, pid]).status();
    assert!(
        sent.is_ok_and(|status| status.success()),
        "kill {signal} {pid}"
    );
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Where a pod has its files.
fn folder(t: &Scene, pod: &str) -> PathBuf {
    node_folder(t.subject()).join(&t.ns).join(pod)
}

/// Asks a server for the address of `www.example.test`.
fn ask(server: Ipv4Addr) -> Option<Ipv4Addr> {
    const ID: [u8; 2] = [0x5a, 0x12];
    let mut query = Vec::from(ID);
    query.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in ["www", "example", "test"] {
        query.push(u8::try_from(label.len()).unwrap_or_default());
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.send_to(&query, (server, DNS_PORT)).ok()?;
    let mut answer = [0; 512];
    let (len, from) = socket.recv_from(&mut answer).ok()?;
    assert_eq!(from.ip(), server, "it answers from where it was asked");
    // The first answer follows the question: two bytes of name, ten of head, four of address.
    let data = answer.get(query.len() + 12..query.len() + 16)?;
    let [a, b, c, d] = *data.first_chunk::<4>()?;
    (len >= query.len() + 16 && answer[..2] == ID).then(|| Ipv4Addr::new(a, b, c, d))
}

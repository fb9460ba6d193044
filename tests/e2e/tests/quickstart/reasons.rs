//! The reasons of conditions, brought about with a real `named` and a real sidecar for each pod: told of the pod, then
//! of its instance and its cluster, and gone when it heals. `docs/conditions.md` has which case shows which.

mod history;
mod stand_in;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Machine, Server, run, text, until};
use crate::production::{ask, signal};
use history::History;
use stand_in::{Answer, StandIn};

crate::cases!(
    every_answer_of_a_sidecar_is_told_up_to_the_cluster,
    a_named_that_hangs_is_a_gateway_error_of_its_pod,
    keys_that_named_does_not_have_are_told_and_put_right,
    a_secondary_that_cannot_copy_says_so_and_why,
    pods_that_wait_or_crash_are_told_until_they_run,
    zones_of_others_are_awaited_checked_and_served,
    a_cluster_says_that_it_comes_grows_and_shrinks,
);

const READY: &str = ".status.conditions[?(@.type=='Ready')].reason";
/// How often what is to hang is stopped again.
const HOLD: Duration = Duration::from_millis(50);

/// What comes of the question how a server is, and what its pod says then.
const ANSWERS: [(Answer, &str); 12] = [
    (Answer::Code(400), "BindcarBadRequest"),
    (Answer::Code(401), "BindcarAuthFailed"),
    (Answer::Code(403), "BindcarAuthFailed"),
    (Answer::Code(404), "ZoneNotFound"),
    (Answer::Code(500), "BindcarInternalError"),
    (Answer::Code(501), "BindcarNotImplemented"),
    (Answer::Code(502), "GatewayError"),
    (Answer::Code(503), "GatewayError"),
    (Answer::Code(504), "GatewayError"),
    (Answer::Code(418), "BindcarUnreachable"),
    (Answer::Silence, "BindcarUnreachable"),
    (Answer::Refusal, "BindcarUnreachable"),
];

/// A machine with clusters, and what they have said.
struct Scene {
    machine: Machine,
    clusters: History,
    instances: History,
}

impl Scene {
    fn start(manifests: &str) -> Result<Self> {
        let mut machine = Machine::idle(Server::Builtin)?;
        machine.start()?;
        let clusters = History::of(&machine, "bind9clusters")?;
        let instances = History::of(&machine, "bind9instances")?;
        machine.apply(manifests, &[])?;
        Ok(Self {
            machine,
            clusters,
            instances,
        })
    }

    /// Waits until a cluster is as it should be.
    fn ready(&self, cluster: &str) -> Result<()> {
        self.machine
            .says(&format!("b9c/{cluster}"), READY, "AllReady")
    }

    fn pod(&self, pod: &str) -> PathBuf {
        self.machine.data().join("pods/default").join(pod)
    }

    fn address(&self, pod: &str) -> Result<Ipv4Addr> {
        let get = ["get", "pod", pod, "-o", "jsonpath={.status.podIP}"];
        until("the pod has an address", || {
            let told = self.machine.kubectl(&get).unwrap_or_default();
            Ok(told.trim().parse().ok())
        })
    }

    fn patch(&self, object: &str, patch: &str) -> Result<()> {
        let patch = ["patch", object, "--type=merge", "-p", patch];
        self.machine.kubectl(&patch).map(drop)
    }

    /// Waits until the message of a condition has these words.
    fn tells(&self, object: &str, condition: &str, words: &str) -> Result<()> {
        let path = format!("jsonpath={{.status.conditions[?(@.type=='{condition}')].message}}");
        let get = ["get", object, "-o", &path];
        let mut last = String::new();
        let told = until(words, || {
            last = self.machine.kubectl(&get)?;
            Ok(last.contains(words).then_some(()))
        });
        told.with_context(|| format!("{object} says {last:?}"))
    }

    /// Looks for something while the `named` of a pod hangs, however often it is started again.
    fn while_it_hangs<T>(&self, pod: &str, look: impl FnOnce() -> Result<T>) -> Result<T> {
        let (pod, is_over) = (self.pod(pod), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // It may be away for a moment.
                    let _ = signal(&pod, "bind9", "STOP");
                    thread::sleep(HOLD); // pause between polls
                }
            });
            let found = look();
            is_over.store(true, Ordering::Relaxed);
            found
        })
    }

    /// Has the control channel of a pod do something.
    fn rndc(&self, pod: &str, words: &[&str]) -> Result<String> {
        let address = self.address(pod)?.to_string();
        let key = self.pod(pod).join("volumes/keys/rndc.key");
        let key = key.display().to_string();
        let line = [&["-k", &key, "-s", &address, "-p", "9530"], words].concat();
        text(&run("rndc", &line)?)
    }
}

fn cluster(spec: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: Bind9Cluster\nmetadata: {{name: pool}}\nspec:\n{spec}\n---\n"
    )
}

fn config_map(name: &str, file: &str, content: &str) -> String {
    let lines: Vec<String> = content.lines().map(|line| format!("    {line}")).collect();
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  {file}: |\n{}\n---\n",
        lines.join("\n")
    )
}

const WIDE: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9GlobalCluster
metadata: {name: wide}
spec:
  namespace: default
  primary: {replicas: 1}
  global:
    bindcarConfig: {envVars: [{name: API_PORT, value: '8090'}]}
";

fn every_answer_of_a_sidecar_is_told_up_to_the_cluster(_: Server) -> Result<()> {
    let scene = Scene::start(WIDE)?;
    let address = scene.address("wide-primary-0-0")?;
    let at = |port: u16| SocketAddr::from((address, port));
    let stand_in = StandIn::start(at(8080), at(8090))?;
    let all_ready = || scene.machine.says("b9gc/wide", READY, "ClustersReady");
    all_ready()?;
    for (answer, reason) in ANSWERS {
        let instance = scene.instances.mark("wide-primary-0");
        let cluster = scene.clusters.mark("wide");
        stand_in.set(answer);
        let of_instance = |words: &str| scene.instances.saw("wide-primary-0", instance, words);
        let message = of_instance(&format!("Pod-0 False {reason} "))?;
        ensure!(message.starts_with("Pod wide-primary-0-0 "), "{message}");
        if let Answer::Code(code) = answer {
            ensure!(message.contains(&format!("({code})")), "{code}: {message}");
        } else {
            ensure!(
                message.contains("cannot connect to Bindcar API"),
                "{message}"
            );
        }
        of_instance(&format!("Ready False {reason} No pods are ready"))?;
        let child = format!("Bind9Instance-0 False {reason} Instance wide-primary-0 is not ready");
        scene.clusters.saw("wide", cluster, &child)?;
        let whole = "Ready False NotReady No instances are ready";
        scene.clusters.saw("wide", cluster, whole)?;
        scene
            .machine
            .says("b9gc/wide", READY, "ClustersProgressing")?;
        stand_in.set(Answer::Real);
        all_ready().with_context(|| format!("after {answer:?}"))?;
    }
    Ok(())
}

fn a_named_that_hangs_is_a_gateway_error_of_its_pod(_: Server) -> Result<()> {
    let scene = Scene::start(&cluster("  primary: {replicas: 2}"))?;
    scene.ready("pool")?;
    let (instance, whole) = (
        scene.instances.mark("pool-primary-1"),
        scene.clusters.mark("pool"),
    );
    scene.while_it_hangs("pool-primary-1-0", || {
        let pod = "Pod-0 False GatewayError Pod pool-primary-1-0 ";
        scene.instances.saw("pool-primary-1", instance, pod)?;
        let child = "Bind9Instance-1 False GatewayError ";
        scene.clusters.saw("pool", whole, child)?;
        let partial = "Ready False PartiallyReady 1/2 instances are ready";
        scene.clusters.saw("pool", whole, partial)
    })?;
    scene.ready("pool")
}

/// A configuration with keys of its own, and one with those of the Secret.
const OTHER_KEYS: &str = "\
key \"bindy-operator\" { algorithm hmac-sha256; secret \"b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgMTI=\"; };
acl \"bindery-keys\" { key \"bindy-operator\"; };
controls { inet * port 9530 allow { localhost; } keys { \"bindy-operator\"; }; };
";
const RIGHT_KEYS: &str = "include \"/etc/bind/keys/keys.conf\";\n";
const REST: &str = "\
include \"/etc/bind/keys/transfer.key\";
include \"/etc/bind/named.conf.options\";
";

fn keys_that_named_does_not_have_are_told_and_put_right(_: Server) -> Result<()> {
    let mine = |keys: &str| config_map("mine", "named.conf", &format!("{keys}{REST}"));
    let spec = "  primary: {replicas: 1}\n  configMapRefs: {namedConf: mine}";
    let scene = Scene::start(&(mine(OTHER_KEYS) + &cluster(spec)))?;
    let reason = "RNDCAuthenticationFailed";
    let of_instance = |words: &str| scene.instances.saw("pool-primary-0", 0, words);
    of_instance(&format!("Pod-0 False {reason} Pod pool-primary-0-0 "))?;
    of_instance(&format!("Ready False {reason} "))?;
    let child = format!("Bind9Instance-0 False {reason} ");
    scene.clusters.saw("pool", 0, &child)?;
    // Nobody ends named: it reads the right keys by itself.
    let started = ["get", "pod/pool-primary-0-0", "-o"];
    let started = [
        &started[..],
        &["jsonpath={.status.containerStatuses[0].containerID}"],
    ]
    .concat();
    let before = scene.machine.kubectl(&started)?;
    scene.machine.apply(&mine(RIGHT_KEYS), &[])?;
    scene.ready("pool")?;
    ensure!(
        scene.machine.kubectl(&started)? == before,
        "it was restarted"
    );
    Ok(())
}

const ZONE: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {name: forward}
spec:
  zoneName: forward.example
  clusterRef: pool
  recordsFrom: [{selector: {matchLabels: {zone: forward}}}]
---
";

fn record(address: &str) -> String {
    format!(
        "apiVersion: bindy.firestoned.io/v1beta1\nkind: ARecord\nmetadata: {{name: www, labels: {{zone: forward}}}}\n\
         spec: {{name: www, ipv4Addresses: [{address}]}}\n"
    )
}

fn a_secondary_that_cannot_copy_says_so_and_why(_: Server) -> Result<()> {
    let spec = "  primary: {replicas: 1}\n  secondary: {replicas: 1}";
    let scene = Scene::start(&(cluster(spec) + ZONE + &record("192.0.2.1")))?;
    scene
        .machine
        .says("arecord/www", READY, "ReconcileSucceeded")?;
    let secondary = "pool-secondary-0";
    let complete = || {
        let reason = ".status.conditions[?(@.type=='ZonesTransferred')].reason";
        let object = format!("b9/{secondary}");
        scene
            .machine
            .says(&object, reason, "ZoneTransferComplete")?;
        scene.ready("pool")
    };
    complete()?;

    // Its primary does not let it copy any more.
    let primary = "pool-primary-0-0";
    let shown = scene.rndc(primary, &["showzone", "forward.example"])?;
    let statement = shown.trim().split_once('{').context("it is a zone")?.1;
    ensure!(!statement.contains("allow-transfer"), "{statement}");
    let refusing = format!("{{ allow-transfer {{ none; }}; {statement}");
    scene.rndc(primary, &["modzone", "forward.example", &refusing])?;
    let mark = scene.instances.mark(secondary);
    scene.machine.apply(&record("192.0.2.2"), &[])?;
    let failed = "ZonesTransferred False ZoneTransferFailed ";
    scene.instances.saw(secondary, mark, failed)?;
    let own = ask(
        &scene.address("pool-secondary-0-0")?.to_string(),
        "www.forward.example",
    )?;
    ensure!(own == "192.0.2.1", "it answers what it has: {own}");
    let restored = format!("{{ {statement}");
    scene.rndc(primary, &["modzone", "forward.example", &restored])?;
    complete()?;
    scene
        .machine
        .says("arecord/www", READY, "ReconcileSucceeded")?;

    // Its primary is away.
    let mark = scene.instances.mark(secondary);
    scene.while_it_hangs(primary, || {
        let away = "ZonesTransferred False UpstreamUnreachable no primary answers";
        scene.instances.saw(secondary, mark, away)
    })?;
    complete()
}

fn pods_that_wait_or_crash_are_told_until_they_run(_: Server) -> Result<()> {
    let spec = "  primary: {replicas: 1}\n  volumes: [{name: extra, configMap: {name: later}}]";
    let scene = Scene::start(&cluster(spec))?;
    let instance = "pool-primary-0";
    scene
        .instances
        .saw(instance, 0, "Pod-0 False PodsPending ")?;
    scene.tells(
        "b9/pool-primary-0",
        "Pod-0",
        "configmap \"later\" not found",
    )?;
    scene
        .clusters
        .saw("pool", 0, "Bind9Instance-0 False PodsPending ")?;
    scene
        .clusters
        .saw("pool", 0, "Ready False InstancesPending ")?;
    scene
        .machine
        .apply(&config_map("later", "file", "text"), &[])?;
    scene.ready("pool")?;

    let mark = (scene.instances.mark(instance), scene.clusters.mark("pool"));
    let broken =
        r#"{"spec":{"global":{"bindcarConfig":{"envVars":[{"name":"API_PORT","value":"none"}]}}}}"#;
    scene.patch("b9c/pool", broken)?;
    let message = scene
        .instances
        .saw(instance, mark.0, "Pod-0 False PodsCrashing ")?;
    ensure!(
        message.contains("container api ended with exit code"),
        "{message}"
    );
    scene
        .clusters
        .saw("pool", mark.1, "Bind9Instance-0 False PodsCrashing ")?;
    scene.patch("b9c/pool", r#"{"spec":{"global":null}}"#)?;
    scene.ready("pool")
}

fn zones_of_others_are_awaited_checked_and_served(_: Server) -> Result<()> {
    let spec = "  primary: {replicas: 1}\n  configMapRefs: {namedConfZones: theirs}\n  \
                volumes: [{name: zones, configMap: {name: zones}}]\n  \
                volumeMounts: [{name: zones, mountPath: /zones}]";
    let db =
        "$TTL 60\n@ SOA ns hostmaster 1 60 60 60 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.77";
    let scene = Scene::start(&(config_map("zones", "theirs.db", db) + &cluster(spec)))?;
    let instance = "pool-primary-0";
    let missing = "Configuration False ConfigurationInvalid spec.configMapRefs.namedConfZones: there is no ConfigMap \
                   theirs yet";
    scene.instances.saw(instance, 0, missing)?;
    scene
        .clusters
        .saw("pool", 0, "Bind9Instance-0 False ConfigurationInvalid ")?;
    let theirs = |more: &str| {
        let zone = format!(
            "zone \"theirs.example\" {{ type primary; file \"/zones/theirs.db\"; {more}}};"
        );
        config_map("theirs", "named.conf.zones", &zone)
    };
    scene.machine.apply(&theirs("nonsense yes; "), &[])?;
    scene.tells("b9/pool-primary-0", "Ready", "unknown option 'nonsense'")?;
    scene.machine.apply(&theirs(""), &[])?;
    scene.ready("pool")?;
    scene
        .instances
        .saw(instance, 0, "Configuration True ConfigurationValid ")?;
    let address = scene.address("pool-primary-0-0")?.to_string();
    let answer = ask(&address, "www.theirs.example")?;
    ensure!(answer == "192.0.2.77", "{answer}");
    Ok(())
}

fn a_cluster_says_that_it_comes_grows_and_shrinks(_: Server) -> Result<()> {
    let scene = Scene::start(&WIDE.replace("8090", "8080"))?;
    let whole = |from: usize, words: &str| scene.clusters.saw("wide", from, words);
    whole(
        0,
        "Ready False InstancesCreated 1 instances are created: wide-primary-0",
    )?;
    whole(0, "Ready False InstancesPending ")?;
    whole(0, "Ready True AllReady All 1 instances are ready")?;
    for words in [
        "Progressing True Progressing ",
        "Configuration True ConfigurationValid ",
        "Pod-0 True Ready Pod wide-primary-0-0 is ready",
        "Available True MinimumReplicasAvailable 1 of 1 pods answer",
        "Ready True AllReady All 1 pods are ready",
    ] {
        scene.instances.saw("wide-primary-0", 0, words)?;
    }
    scene.machine.says("b9gc/wide", READY, "ClustersReady")?;
    for (replicas, wanted) in [
        (2, "Ready True AllReady All 2 instances are ready"),
        (1, "Ready True AllReady All 1 instances are ready"),
        (0, "Ready False NoChildren "),
    ] {
        let mark = scene.clusters.mark("wide");
        let patch = format!(r#"{{"spec":{{"primary":{{"replicas":{replicas}}}}}}}"#);
        scene.patch("b9gc/wide", &patch)?;
        // One that goes may be gone before anybody can say so.
        if replicas == 2 {
            whole(mark, "Ready False InstancesScaling ")?;
        }
        whole(mark, wanted)?;
    }
    scene
        .machine
        .says("b9gc/wide", READY, "ClustersProgressing")
}

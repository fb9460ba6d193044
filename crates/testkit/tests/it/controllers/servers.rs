//! Clusters of name servers as objects: from a cluster-wide declaration down to pods, and back up in conditions.

mod fake_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_core::Reason;
use bindery_kube::Management;
use bindery_sources::clusters::SidecarView;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use fake_pods::api;

use super::bench::{Bench, name, poll};

pub(super) use fake_pods::FakePods;

const WIDE: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9GlobalCluster
metadata: {name: prod}
spec:
  namespace: default
  primary: {replicas: 2}
  secondary: {replicas: 1}
";

pub(super) const CLUSTER: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Cluster
metadata: {name: prod, namespace: default}
spec:
  primary: {replicas: 1}
";

fn zone(more: &str) -> String {
    format!(
        "
apiVersion: bindy.firestoned.io/v1beta1
kind: DNSZone
metadata: {{name: example, namespace: default}}
spec:
  zoneName: example.com
  recordsFrom: [{{selector: {{matchLabels: {{zone: example}}}}}}]
  {more}
"
    )
}

pub(super) async fn bench() -> (Bench, FakePods) {
    let mut bench = Bench::stopped(Management::Managed).await;
    let pods = FakePods::default();
    bench.pods = Some(pods.clone());
    bench.start();
    (bench, pods)
}

pub(super) const CLUSTER_TARGET: &str = "Bind9Cluster/prod";

#[tokio::test(start_paused = true)]
async fn a_cluster_wide_declaration_becomes_pods_that_serve_a_zone() {
    let (bench, pods) = bench().await;
    bench.create(WIDE).await;
    bench.create(&zone("globalClusterRef: prod")).await;
    bench.create(super::bench::WWW).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let message = bench
        .until("Bind9GlobalCluster/prod", "Ready", "+ClustersReady")
        .await;
    assert_eq!(message, "All 1 clusters are ready: default/prod");
    let message = bench.condition(CLUSTER_TARGET, "Bind9Instance-2").await.1;
    assert_eq!(message, "Instance prod-secondary-0 is ready (1/1 pods)");
    bench.until_ready("DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
    for pod in ["prod-primary-0-0", "prod-primary-1-0", "prod-secondary-0-0"] {
        let lines = pods
            .server(&format!("default/{pod}"))
            .lines(&name("example.com"));
        let has = lines
            .iter()
            .any(|line| line.starts_with("www.example.com."));
        assert!(has, "{pod}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_waits_for_its_cluster_and_is_served_as_soon_as_it_is_there() {
    let (bench, _) = bench().await;
    bench
        .create(&CLUSTER.replace("name: prod", "name: other"))
        .await;
    bench
        .until("Bind9Cluster/other", "Ready", "+AllReady")
        .await;
    bench.create(&zone("clusterRef: prod")).await;
    let message = bench
        .until("DNSZone/example", "Ready", "-ClusterNotFound")
        .await;
    assert!(message.contains("prod"), "{message}");
    bench.create(CLUSTER).await;
    bench.until_ready("DNSZone/example").await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_comes_before_the_only_cluster_is_put_nowhere_else_and_goes() {
    let (bench, _) = bench().await;
    bench.pass(Duration::from_secs(1)).await;
    bench.take_servers_out();
    bench.pass(Duration::from_secs(1)).await;
    bench.create(&zone("clusterRef: prod")).await;
    bench
        .until("DNSZone/example", "Ready", "-ClusterNotFound")
        .await;
    bench.create(CLUSTER).await;
    bench.until_ready("DNSZone/example").await;
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_is_served_by_the_instances_that_it_selects() {
    let (bench, pods) = bench().await;
    bench
        .create(&CLUSTER.replace("replicas: 1", "replicas: 2"))
        .await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench
        .patch(
            "Bind9Instance/prod-primary-1",
            json!({"metadata": {"labels": {"tier": "b"}}}),
        )
        .await;
    let selects = "bind9InstancesFrom: [{selector: {matchLabels: {tier: b}}}]";
    bench.create(&zone(selects)).await;
    bench.until_ready("DNSZone/example").await;
    let content = |pod: &str| pods.server(pod).content(&name("example.com"));
    assert!(content("default/prod-primary-1-0").is_some());
    assert!(content("default/prod-primary-0-0").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_pod_lacks_is_told_all_the_way_up_and_clears_when_it_heals() {
    let (bench, pods) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let pod = "default/prod-primary-0-0".to_owned();
    for reason in [
        Reason::BindcarUnreachable,
        Reason::BindcarBadRequest,
        Reason::BindcarAuthFailed,
        Reason::ZoneNotFound,
        Reason::BindcarInternalError,
        Reason::BindcarNotImplemented,
        Reason::GatewayError,
        Reason::RNDCAuthenticationFailed,
    ] {
        let fails = SidecarView::Fails(reason, "cannot connect to Bindcar API".to_owned());
        pods.lock().sidecars.insert(pod.clone(), fails);
        let word = format!("-{reason}");
        let message = bench
            .until("Bind9Instance/prod-primary-0", "Pod-0", &word)
            .await;
        assert_eq!(
            message,
            "Pod prod-primary-0-0 cannot connect to Bindcar API"
        );
        bench
            .until("Bind9Instance/prod-primary-0", "Ready", &word)
            .await;
        bench.until(CLUSTER_TARGET, "Bind9Instance-0", &word).await;
        bench.until(CLUSTER_TARGET, "Ready", "-NotReady").await;
        pods.lock().sidecars.clear();
        bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_grows_and_shrinks_from_its_highest_number() {
    let (bench, _) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench
        .patch(
            CLUSTER_TARGET,
            json!({"spec": {"primary": {"replicas": 3}}}),
        )
        .await;
    bench
        .until(CLUSTER_TARGET, "Bind9Instance-2", "+Ready")
        .await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench
        .patch(
            CLUSTER_TARGET,
            json!({"spec": {"primary": {"replicas": 1}}}),
        )
        .await;
    bench.until_gone("Bind9Instance/prod-primary-2").await;
    bench.until_gone("Bind9Instance/prod-primary-1").await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert_eq!(
        bench.condition(CLUSTER_TARGET, "Bind9Instance-1").await.0,
        ""
    );
    bench
        .patch(
            CLUSTER_TARGET,
            json!({"spec": {"primary": {"replicas": 0}}}),
        )
        .await;
    bench.until_gone("Bind9Instance/prod-primary-0").await;
    bench.until(CLUSTER_TARGET, "Ready", "-NoChildren").await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_does_not_check_changes_nothing_that_runs() {
    let (bench, pods) = bench().await;
    bench.create(CLUSTER).await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let config = bench.get("ConfigMap/prod-primary-0-config").await;
    pods.lock().refusal = Some("named.conf:7: unknown option 'nonsense'".to_owned());
    bench
        .patch(
            CLUSTER_TARGET,
            json!({"spec": {"global": {"recursion": true}}}),
        )
        .await;
    let target = "Bind9Instance/prod-primary-0";
    let message = bench.until(target, "Ready", "-ConfigurationInvalid").await;
    assert_eq!(message, "named.conf:7: unknown option 'nonsense'");
    let after = bench.get("ConfigMap/prod-primary-0-config").await;
    let data = |object: Option<DynamicObject>| object.map(|object| object.data["data"].clone());
    assert_eq!(data(config), data(after));
    pods.lock().refusal = None;
    bench
        .patch(
            CLUSTER_TARGET,
            json!({"spec": {"global": {"recursion": false}}}),
        )
        .await;
    bench.until(target, "Ready", "+AllReady").await;
    bench
        .until(target, "Configuration", "+ConfigurationValid")
        .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_happens() {
    let (bench, _) = bench().await;
    bench.create(WIDE).await;
    bench
        .until("Bind9GlobalCluster/prod", "Ready", "+ClustersReady")
        .await;
    bench.settle().await;
    let targets = [
        "Bind9GlobalCluster/prod",
        CLUSTER_TARGET,
        "Bind9Instance/prod-primary-0",
    ];
    let mut before = Vec::new();
    for target in targets {
        before.push(
            bench
                .get(target)
                .await
                .map(|one| one.metadata.resource_version),
        );
    }
    bench.settle().await;
    for (target, before) in targets.into_iter().zip(before) {
        let after = bench
            .get(target)
            .await
            .map(|one| one.metadata.resource_version);
        assert_eq!(after, before, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_no_zone_wants_says_how_its_pod_is() {
    let (bench, pods) = bench().await;
    let alone = "
apiVersion: bindy.firestoned.io/v1beta1
kind: Bind9Instance
metadata: {name: alone, namespace: default, labels: {of: alone}}
spec: {clusterRef: '', role: primary}
";
    bench.create(alone).await;
    let target = "Bind9Instance/alone";
    bench.until(target, "Ready", "+AllReady").await;
    let pod = "default/alone-0".to_owned();
    let fails = SidecarView::Fails(Reason::GatewayError, "reports a gateway error".to_owned());
    pods.lock().sidecars.insert(pod.clone(), fails);
    let message = bench.until(target, "Pod-0", "-GatewayError").await;
    assert_eq!(message, "Pod alone-0 reports a gateway error");
    pods.lock().sidecars.clear();
    bench.until(target, "Ready", "+AllReady").await;
    // It is the server of the first zone that selects it.
    let selects = "bind9InstancesFrom: [{selector: {matchLabels: {of: alone}}}]";
    bench.create(&zone(selects)).await;
    bench.until_ready("DNSZone/example").await;
    let content = pods.server(&pod).content(&name("example.com"));
    assert!(content.is_some(), "it has the zone");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_others_is_awaited_by_name() {
    let (bench, _) = bench().await;
    let refs = "configMapRefs: {namedConfZones: theirs}\n  primary:";
    bench.create(&CLUSTER.replace("primary:", refs)).await;
    let target = "Bind9Instance/prod-primary-0";
    let message = bench.until(target, "Ready", "-ConfigurationInvalid").await;
    assert_eq!(
        message,
        "spec.configMapRefs.namedConfZones: there is no ConfigMap theirs yet; the server waits for it"
    );
    let config_map = |data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: theirs, namespace: default}}\n{data}\n"
        )
    };
    bench.create(&config_map("data: {other: x}")).await;
    let lacks = "spec.configMapRefs.namedConfZones: ConfigMap theirs has no file named.conf.zones";
    let told = async || {
        let (_, message) = bench.condition(target, "Ready").await;
        (message == lacks).then_some(())
    };
    assert!(poll(told).await.is_some(), "it is told what is missing");
    let data = json!({"data": {"named.conf.zones": "# none"}});
    bench.patch("ConfigMap/theirs", data).await;
    bench.until(target, "Ready", "+AllReady").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_come_in_time_is_told_until_it_comes() {
    let (bench, pods) = bench().await;
    let pod = "default/prod-primary-0-0".to_owned();
    pods.lock().unready.insert(pod);
    bench.create(CLUSTER).await;
    let target = "Bind9Instance/prod-primary-0";
    let message = bench.until(target, "Progressing", "+Progressing").await;
    assert_eq!(message, "1 pods are awaited");
    bench.pass(Duration::from_mins(10)).await;
    let message = bench
        .until(target, "Progressing", "-ProgressDeadlineExceeded")
        .await;
    assert_eq!(message, "1 pods have not become ready in time");
    pods.lock().unready.clear();
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    bench.until(target, "Progressing", "-Ready").await;
}

#[tokio::test(start_paused = true)]
async fn whatever_changes_one_server_is_replaced_after_the_other() {
    let (bench, pods) = bench().await;
    bench
        .create(&CLUSTER.replace("replicas: 1", "replicas: 3"))
        .await;
    bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    let names = ["prod-primary-0", "prod-primary-1", "prod-primary-2"];
    let mut before = BTreeMap::new();
    for name in names {
        before.insert(name, template(&bench, name).await);
    }
    // All at once, as an update of Bindery changes them.
    let patch = json!({"spec": {"config": {"allowQuery": ["192.0.2.0/24"]}}});
    for name in names {
        let target = format!("Bind9Instance/{name}");
        bench.patch(&target, patch.clone()).await;
    }
    let mut done = BTreeSet::new();
    while done.len() < names.len() {
        let next = poll(async || {
            for name in names.into_iter().filter(|name| !done.contains(name)) {
                if template(&bench, name).await != before[name] {
                    return Some(name);
                }
            }
            None
        });
        let next = next.await.expect("another one is replaced");
        done.insert(next);
        let pod = format!("default/{next}-0");
        let target = format!("Bind9Instance/{next}");
        pods.lock().unready.insert(pod.clone());
        bench.until(&target, "Ready", "-NotReady").await;
        // As long as it is not back, nobody else goes.
        bench.pass(Duration::from_secs(40)).await;
        for name in names.into_iter().filter(|name| !done.contains(name)) {
            assert_eq!(
                template(&bench, name).await,
                before[name],
                "{name} while {next} is away"
            );
        }
        pods.lock().unready.remove(&pod);
        bench.until(&target, "Ready", "+AllReady").await;
    }
}

/// What the pods of an instance are made from.
async fn template(bench: &Bench, name: &str) -> Value {
    let sets = api(&bench.client, "apps", "StatefulSet");
    let all = sets.list(&ListParams::default()).await;
    let mut all = all.expect("the API answers").items.into_iter();
    let set = all.find(|set| set.metadata.name.as_deref() == Some(name));
    set.expect("it is there").data["spec"]["template"].clone()
}

/// The versions of these objects.
async fn versions(bench: &Bench, targets: &[String]) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for target in targets {
        let object = bench.get(target).await;
        found.push(object.and_then(|one| one.metadata.resource_version));
    }
    found
}

/// How many writes there were so far, of whomever: each has a version of its own.
async fn writes(bench: &Bench) -> u64 {
    let pods = api(&bench.client, "", "Pod");
    let listed = pods.list(&ListParams::default()).await;
    let version = listed.expect("the API answers").metadata.resource_version;
    version
        .and_then(|version| version.parse().ok())
        .expect("a number")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_a_hundred_instances_stays_readable_and_a_change_writes_few_objects() {
    let (bench, pods) = bench().await;
    let spec = "spec: {primary: {replicas: 50}, secondary: {replicas: 50}}";
    bench
        .create(&CLUSTER.replace("spec:\n  primary: {replicas: 1}", spec))
        .await;
    let message = bench.until(CLUSTER_TARGET, "Ready", "+AllReady").await;
    assert_eq!(message, "All 100 instances are ready");
    bench.pass(Duration::from_secs(3)).await;
    let object = bench.get(CLUSTER_TARGET).await.expect("it is there");
    let size = object.data["status"].to_string().len();
    assert!(size < 64 * 1024, "a status of {size} bytes");

    // One pod fails: its instance and the cluster say so, once, and nobody else writes anything.
    let names = (0..50).flat_map(|one| ["primary", "secondary"].map(|role| (role, one)));
    let mut targets = vec![CLUSTER_TARGET.to_owned()];
    targets.extend(names.map(|(role, one)| format!("Bind9Instance/prod-{role}-{one}")));
    let before = versions(&bench, &targets).await;
    let count = writes(&bench).await;
    let pod = "default/prod-primary-7-0".to_owned();
    pods.lock().unready.insert(pod);
    let message = bench
        .until(CLUSTER_TARGET, "Ready", "-PartiallyReady")
        .await;
    assert_eq!(message, "99/100 instances are ready");
    bench.pass(Duration::from_secs(3)).await;
    let after = versions(&bench, &targets).await;
    let changed = targets.iter().zip(before.iter().zip(&after));
    let changed: Vec<&String> = changed
        .filter(|(_, (before, after))| before != after)
        .map(|(target, _)| target)
        .collect();
    assert_eq!(changed, [CLUSTER_TARGET, "Bind9Instance/prod-primary-7"]);
    // That of the pod is one of them.
    let count = writes(&bench).await - count;
    assert!(count <= 5, "{count} writes");
}

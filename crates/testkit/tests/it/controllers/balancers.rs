//! Services of type `LoadBalancer`: their addresses, statuses and names, and how they go.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::balancers::{BalancerTimes, Holdings};
use bindery_core::{Fault, FaultKind, Moment};
use bindery_engine::{Fence, balancing::BalancerEngine};
use bindery_kube::{BalancerControllers, Clock, Management, Replica};
use bindery_sources::balancers::BalancerClass;
use bindery_testkit::FakeLoadBalancer;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::bench::{Bench, ZONE, poll};

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  annotations:
    external-dns.alpha.kubernetes.io/hostname: web.example.com
    external-dns.alpha.kubernetes.io/ttl: '60'
spec:
  type: LoadBalancer
  ports: [{name: http, port: 80}]
";

const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.0.1]}]
";

const WEB_LINE: &str = "web.example.com. 60 IN A 203.0.113.1";

/// A clock that moves with virtual time.
struct Moving;

impl Clock for Moving {
    fn now(&self) -> Moment {
        thread_local! {
            static START: Instant = Instant::now();
        }
        let passed = START.with(Instant::elapsed).as_secs();
        Moment(1_800_000_000 + i64::try_from(passed).expect("tests are short"))
    }
}

/// Starts the controllers of load balancers.
pub(super) fn start(
    client: Client,
    provider: &FakeLoadBalancer,
    takes_unnamed: bool,
    (stop, tasks): (&CancellationToken, &mut JoinSet<()>),
) {
    let provider = Arc::new(provider.clone());
    let times = BalancerTimes::default();
    let (engine, running) = BalancerEngine::start(provider.clone(), times, Fence::none(), stop);
    tasks.spawn(running);
    let controllers = BalancerControllers {
        client,
        engine,
        provider,
        class: BalancerClass {
            name: "bindery.dev/lb".into(),
            takes_unnamed,
        },
        clock: Arc::new(Moving),
        replica: Replica::alone(),
    };
    for (_, task) in controllers.start(stop).1 {
        tasks.spawn(task);
    }
}

async fn bench() -> (Bench, FakeLoadBalancer) {
    let mut bench = Bench::stopped(Management::Managed).await;
    let provider = FakeLoadBalancer::default();
    bench.balancer = Some(provider.clone());
    bench.start();
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    (bench, provider)
}

/// A Service with an address, an endpoint and its name in DNS.
async fn published() -> (Bench, FakeLoadBalancer) {
    let (bench, provider) = bench().await;
    bench.create(SERVICE).await;
    bench.create(SLICE).await;
    bench.until_lines(&[WEB_LINE]).await;
    (bench, provider)
}

async fn until(bench: &Bench, what: &str, holds: impl Fn(&Value) -> bool) {
    let seen = poll(async || {
        let object = bench.get("Service/web").await?;
        let value = json!({"metadata": object.metadata, "status": object.data["status"]});
        holds(&value).then_some(())
    });
    let seen = seen.await;
    let object = bench.get("Service/web").await;
    assert!(seen.is_some(), "{what}: {object:?}");
}

fn has_address(service: &Value) -> bool {
    service["status"]["loadBalancer"]["ingress"][0]["ip"] == "203.0.113.1"
}

fn has_condition(service: &Value, status: &str, reason: &str) -> bool {
    let conditions = service["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        (&one["type"], &one["status"], &one["reason"])
            == (&json!("Programmed"), &json!(status), &json!(reason))
    })
}

#[tokio::test(start_paused = true)]
async fn a_name_is_published_only_when_its_address_carries_traffic() {
    let (bench, provider) = bench().await;
    bench.create(SERVICE).await;
    until(&bench, "it has an address", has_address).await;
    until(&bench, "it says so", |one| {
        has_condition(one, "True", "Programmed")
    })
    .await;
    bench.settle().await;
    assert_eq!(bench.lines(), Vec::<String>::new(), "nobody would answer");
    bench.create(SLICE).await;
    bench.until_lines(&[WEB_LINE]).await;
    assert_eq!(provider.requests("ensure"), 1);
    // Endpoints come and go; the name stays.
    bench.delete("EndpointSlice/web-1").await;
    bench.settle().await;
    assert!(provider.lock().holdings.addresses.is_empty());
    assert_eq!(bench.lines(), [WEB_LINE]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_gone_from_caches_before_its_address_goes() {
    let (bench, provider) = published().await;
    bench.delete("Service/web").await;
    bench.until_lines(&[]).await;
    let withdrawn = Instant::now();
    assert_eq!(provider.requests("remove"), 0, "caches still have the name");
    assert_eq!(provider.lock().holdings.addresses.len(), 1);
    bench.until_gone("Service/web").await;
    assert!(
        withdrawn.elapsed() >= Duration::from_secs(58),
        "the TTL passed"
    );
    assert_eq!(provider.lock().holdings, Holdings::default());
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_of_a_deletion_leaves_no_name_without_an_address() {
    for crash_after in [1, 100, 1000, 30_000, 61_000] {
        let (mut bench, provider) = published().await;
        bench.delete("Service/web").await;
        let end = Instant::now() + Duration::from_millis(crash_after);
        tokio::time::sleep_until(end).await;
        bench.restart().await;
        let watched = poll(async || {
            let has_name = !bench.lines().is_empty();
            let has_address = !provider.lock().holdings.balancers.is_empty();
            assert!(has_address || !has_name, "after {crash_after} ms");
            bench.get("Service/web").await.is_none().then_some(())
        });
        assert!(watched.await.is_some(), "after {crash_after} ms");
        assert_eq!(provider.lock().holdings, Holdings::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_cleared_is_restored() {
    let (bench, provider) = published().await;
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(bench.client.clone(), "default");
    let body = json!({"status": {"loadBalancer": {"ingress": null}, "conditions": null}});
    let params = PatchParams::default();
    let cleared = services
        .patch_status("web", &params, &Patch::Merge(&body))
        .await
        .expect("the API takes it");
    let status = cleared.status.unwrap_or_default();
    assert!(status.load_balancer.unwrap_or_default().ingress.is_none());
    until(&bench, "the address is back", has_address).await;
    until(&bench, "the condition is back", |one| {
        has_condition(one, "True", "Programmed")
    })
    .await;
    assert_eq!(provider.requests("ensure"), 1);
    assert_eq!(bench.lines(), [WEB_LINE]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_another_one_loses_name_address_and_finalizer() {
    let (bench, provider) = published().await;
    bench
        .patch("Service/web", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    until(&bench, "it is let go", |one| {
        one["metadata"]["finalizers"].is_null() && !has_address(one)
    })
    .await;
    assert_eq!(bench.lines(), Vec::<String>::new());
    assert_eq!(provider.lock().holdings, Holdings::default());
    let service = bench.get("Service/web").await.expect("it is there");
    let ours = service.metadata.annotations.unwrap_or_default();
    assert!(
        !ours.keys().any(|key| key.starts_with("bindery.dev/")),
        "{ours:?}"
    );
    // And back again.
    bench
        .patch("Service/web", json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    let back = poll(async || (bench.lines().len() == 1).then_some(()));
    assert!(back.await.is_some(), "{:?}", bench.lines());
}

#[tokio::test(start_paused = true)]
async fn each_mistake_is_told_by_a_warning_of_its_own() {
    let (bench, provider) = bench().await;
    bench.create(SERVICE).await;
    until(&bench, "it has an address", has_address).await;
    let ranges = json!({"metadata": {"annotations": {
        "service.beta.kubernetes.io/load-balancer-source-ranges": "nowhere",
        "bindery.dev/load-balancer-ips": "here",
    }}});
    bench.patch("Service/web", ranges).await;
    until(&bench, "it says so", |one| {
        has_condition(one, "False", "Invalid")
    })
    .await;
    bench.settle().await;
    let events: Api<Event> = Api::namespaced(bench.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.expect("Events");
    let mut reasons: Vec<String> = events
        .items
        .into_iter()
        .filter(|one| one.involved_object.name.as_deref() == Some("web"))
        .filter_map(|one| one.reason)
        .collect();
    reasons.sort();
    assert_eq!(reasons, ["InvalidLoadBalancerIP", "InvalidSourceRange"]);
    // What it has, it keeps.
    assert_eq!(provider.lock().holdings.balancers.len(), 1);
    assert_eq!(provider.requests("ensure"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_sends_nothing_and_keeps_the_address() {
    let (mut bench, provider) = published().await;
    provider.lock().log.clear();
    bench.restart().await;
    bench.settle().await;
    assert_eq!(provider.lock().log, ["read"]);
    assert_eq!(bench.lines(), [WEB_LINE]);
    until(&bench, "it has its address", has_address).await;
    // A provider that lost everything gives the same address again.
    provider.lock().holdings = Holdings::default();
    bench.restart().await;
    bench.settle().await;
    assert_eq!(provider.requests("ensure"), 1);
    until(&bench, "it has its address", has_address).await;
    assert_eq!(provider.lock().holdings.addresses.len(), 1);
    assert_eq!(bench.lines(), [WEB_LINE]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_refuses_is_told_and_tried_again() {
    let (bench, provider) = bench().await;
    let full = Fault::new(FaultKind::Refused, "the pool is used up");
    provider.lock().faults.extend([full.clone(), full]);
    bench.create(SERVICE).await;
    until(&bench, "it says why", |one| {
        has_condition(one, "False", "Failed")
    })
    .await;
    until(&bench, "it has an address", has_address).await;
    until(&bench, "it says so", |one| {
        has_condition(one, "True", "Programmed")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn names_that_are_taken_back_go_and_the_address_stays() {
    let (bench, provider) = published().await;
    let none = json!({"metadata": {"annotations": {
        "external-dns.alpha.kubernetes.io/hostname": null,
    }}});
    bench.patch("Service/web", none).await;
    bench.until_lines(&[]).await;
    bench.settle().await;
    assert_eq!(provider.requests("remove"), 0);
    until(&bench, "the address stays", has_address).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_taken_away_by_force_leaves_neither_name_nor_address() {
    let (bench, provider) = published().await;
    bench
        .patch("Service/web", json!({"metadata": {"finalizers": null}}))
        .await;
    // The finalizer is put back while the Service is there, so that both go at once here.
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(bench.client.clone(), "default");
    let params = PatchParams::default();
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bench.delete("Service/web").await;
    let forced = poll(async || {
        let _ = services.patch("web", &params, &none).await;
        bench.get("Service/web").await.is_none().then_some(())
    });
    assert!(forced.await.is_some());
    bench.until_lines(&[]).await;
    let gone = poll(async || (provider.lock().holdings == Holdings::default()).then_some(()));
    assert!(gone.await.is_some(), "{:?}", provider.lock().holdings);
}

#[tokio::test(start_paused = true)]
async fn names_of_others_are_not_written_over() {
    let (bench, _) = bench().await;
    bench
        .create(
            "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: service-web, namespace: default}
spec: {endpoints: [{dnsName: mine.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.9]}]}
",
        )
        .await;
    let mine = "mine.example.com. 60 IN A 192.0.2.9";
    bench.until_lines(&[mine]).await;
    bench.create(SERVICE).await;
    bench.create(SLICE).await;
    until(&bench, "it has an address", has_address).await;
    bench.settle().await;
    assert_eq!(bench.lines(), [mine]);
    bench.delete("Service/web").await;
    bench.until_gone("Service/web").await;
    assert_eq!(bench.lines(), [mine]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_the_label_has_a_gateway_as_long_as_it_lives() {
    let (bench, provider) = bench().await;
    run_pod(&bench, &provider).await;
    assert_eq!(provider.lock().holdings.balancers.len(), 1);
    bench.delete("Pod/p").await;
    bench.until_gone("Pod/p").await;
    let gone = poll(async || (provider.lock().holdings == Holdings::default()).then_some(()));
    assert!(gone.await.is_some(), "{:?}", provider.lock().holdings);
}

/// A pod with the egress label, which has its gateway.
async fn run_pod(bench: &Bench, provider: &FakeLoadBalancer) {
    bench
        .create(
            "
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, labels: {bindery.dev/egress-gateway: out}}
spec: {containers: [{name: c, image: c}]}
",
        )
        .await;
    let pods: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(bench.client.clone(), "default");
    let body = json!({"status": {
        "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
        "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}],
    }});
    let params = PatchParams::default();
    pods.patch_status("p", &params, &Patch::Merge(&body))
        .await
        .expect("the API takes it");
    let bound = poll(async || (provider.lock().holdings.addresses.len() == 1).then_some(()));
    assert!(bound.await.is_some(), "{:?}", provider.lock().log);
}

/// Lets time pass until the provider has nothing.
async fn until_empty(bench: &Bench, provider: &FakeLoadBalancer) {
    for _ in 0..10 {
        bench.settle().await;
    }
    assert_eq!(provider.lock().holdings, Holdings::default());
}

async fn until_let_go(bench: &Bench, target: &str) {
    for _ in 0..10 {
        bench.settle().await;
    }
    assert_eq!(bench.finalizers(target).await, Vec::<String>::new());
}

fn no_label() -> Value {
    json!({"metadata": {"labels": {"bindery.dev/egress-gateway": null}}})
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_lost_its_label_while_nobody_looked_is_let_go() {
    let (mut bench, provider) = bench().await;
    run_pod(&bench, &provider).await;
    bench.crash().await;
    bench.patch("Pod/p", no_label()).await;
    bench.start();
    until_let_go(&bench, "Pod/p").await;
    until_empty(&bench, &provider).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_lost_its_label_is_let_go_though_others_write_to_it() {
    let (bench, provider) = bench().await;
    run_pod(&bench, &provider).await;
    let away = Fault::new(FaultKind::Unreachable, "nobody answers");
    provider.lock().faults.push_back(away);
    bench.patch("Pod/p", no_label()).await;
    bench.pass(Duration::from_millis(100)).await;
    let other = json!({"metadata": {"annotations": {"other": "writer"}}});
    bench.patch("Pod/p", other).await;
    until_let_go(&bench, "Pod/p").await;
    until_empty(&bench, &provider).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_another_label_since_nobody_looked_has_the_other_gateway() {
    let (mut bench, provider) = bench().await;
    run_pod(&bench, &provider).await;
    bench.crash().await;
    let other = json!({"metadata": {"labels": {"bindery.dev/egress-gateway": "other"}}});
    bench.patch("Pod/p", other).await;
    bench.start();
    for _ in 0..10 {
        bench.settle().await;
    }
    let keys: Vec<String> = {
        let state = provider.lock();
        let bound = state.holdings.addresses.values().flatten();
        let bound = bound.map(|one| one.balancer.to_string());
        let keys = state.holdings.balancers.keys().map(ToString::to_string);
        keys.chain(bound).collect()
    };
    assert_eq!(keys, ["egress/other", "egress/other"]);
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_service_while_nobody_looked_is_brought_about() {
    let changes = [
        json!({"spec": {"type": "ClusterIP"}}),
        json!({"spec": {"type": "NodePort"}}),
        // Somebody takes the finalizer away too.
        json!({"spec": {"type": "ClusterIP"}, "metadata": {"finalizers": null}}),
    ];
    for change in changes {
        let (mut bench, provider) = published().await;
        bench.crash().await;
        bench.patch("Service/web", change.clone()).await;
        bench.start();
        bench.until_lines(&[]).await;
        until_let_go(&bench, "Service/web").await;
        until_empty(&bench, &provider).await;
        let service = bench.get("Service/web").await.expect("it is there");
        assert!(service.data["status"]["loadBalancer"]["ingress"].is_null());
        let annotations = service.metadata.annotations.unwrap_or_default();
        let ours = annotations.keys().any(|key| key.starts_with("bindery"));
        assert!(!ours, "{change}: {annotations:?}");
        assert!(bench.get("DNSEndpoint/service-web").await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_deleted_while_nobody_looked_goes_with_its_name() {
    let (mut bench, provider) = published().await;
    bench.crash().await;
    bench.delete("Service/web").await;
    bench.delete("EndpointSlice/web-1").await;
    bench.start();
    bench.until_lines(&[]).await;
    bench.until_gone("Service/web").await;
    until_empty(&bench, &provider).await;
}

#[tokio::test(start_paused = true)]
async fn slices_deleted_while_nobody_looked_are_bound_to_nothing() {
    let (mut bench, provider) = published().await;
    bench.crash().await;
    bench.delete("EndpointSlice/web-1").await;
    bench.start();
    bench.settle().await;
    assert!(provider.lock().holdings.addresses.is_empty());
    assert_eq!(bench.lines(), [WEB_LINE], "what was published stays");
}

#[tokio::test(start_paused = true)]
async fn services_go_though_another_provider_is_asked_since() {
    let (mut bench, _) = published().await;
    bench.delete("Service/web").await;
    bench.crash().await;
    let other = FakeLoadBalancer::default();
    bench.balancer = Some(other.clone());
    bench.start();
    bench.until_lines(&[]).await;
    bench.until_gone("Service/web").await;
    until_empty(&bench, &other).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_another_class_takes_since_nobody_looked_is_let_go() {
    let (mut bench, provider) = published().await;
    bench.crash().await;
    bench.takes_unnamed = false;
    bench.start();
    bench.until_lines(&[]).await;
    until_let_go(&bench, "Service/web").await;
    until_empty(&bench, &provider).await;
}

#[tokio::test(start_paused = true)]
async fn names_that_somebody_deletes_or_edits_come_back() {
    let (bench, _) = published().await;
    let names = "DNSEndpoint/service-web";
    let first = bench.get(names).await.expect("it is published");
    bench.delete(names).await;
    let again = poll(async || {
        let stands = bench.get(names).await?;
        (stands.metadata.uid != first.metadata.uid).then_some(())
    });
    assert!(again.await.is_some(), "nobody published it again");
    bench.until_lines(&[WEB_LINE]).await;
    let elsewhere = json!({"spec": {"endpoints": [
        {"dnsName": "web.example.com", "recordType": "A", "recordTTL": 60, "targets": ["192.0.2.66"]},
    ]}});
    bench.patch(names, elsewhere).await;
    let back = poll(async || {
        let stands = bench.get(names).await?;
        (stands.data["spec"] == first.data["spec"]).then_some(())
    });
    assert!(back.await.is_some(), "it leads where somebody says");
    bench.until_lines(&[WEB_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_loses_type_and_finalizer_at_once_shows_no_address() {
    let (bench, provider) = bench().await;
    bench.create(SERVICE).await;
    until(&bench, "it has an address", has_address).await;
    let change = json!({"spec": {"type": "ClusterIP"}, "metadata": {"finalizers": null}});
    bench.patch("Service/web", change).await;
    until(&bench, "it shows nothing", |one| {
        let status = &one["status"];
        status["loadBalancer"]["ingress"].is_null() && status["conditions"].is_null()
    })
    .await;
    until_empty(&bench, &provider).await;
}

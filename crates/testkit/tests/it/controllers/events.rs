//! Kubernetes Events: which are written, which are not, and that nothing depends on them.

use std::sync::atomic::Ordering;

use bindery_apiserver::EmbeddedApi;
use bindery_kube::Management;
use http::Method;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, refusing};

const ALIAS: &str = "
apiVersion: bindy.firestoned.io/v1beta1
kind: CNAMERecord
metadata: {name: zalias, namespace: default, labels: {zone: example}}
spec: {name: www, target: elsewhere.example.net.}
";

#[tokio::test(start_paused = true)]
async fn a_conflict_warns_the_loser_and_says_when_it_is_over() {
    let bench = with_www().await;
    bench.create(ALIAS).await;
    let message = bench
        .until("CNAMERecord/zalias", "Ready", "-Conflict")
        .await;
    bench.settle().await;
    let [warning] = &about(&bench, "zalias").await[..] else {
        panic!("one event about the loser");
    };
    assert_eq!(warning.type_.as_deref(), Some("Warning"));
    assert_eq!(warning.reason.as_deref(), Some("Conflict"));
    assert_eq!(warning.message.as_deref(), Some(&*message));
    assert_eq!(warning.count, Some(1));
    assert_eq!(warning.involved_object.kind.as_deref(), Some("CNAMERecord"));
    let alias = bench.get("CNAMERecord/zalias").await.expect("it is there");
    assert_eq!(warning.involved_object.uid, alias.metadata.uid);

    bench.delete("ARecord/www").await;
    bench.until_ready("CNAMERecord/zalias").await;
    bench.settle().await;
    assert_eq!(
        lines(&bench, "zalias").await,
        ["Normal ReconcileSucceeded 1", "Warning Conflict 1"]
    );
    // The winner went straight to Ready and then away: its status and its absence say so.
    assert!(lines(&bench, "www").await.is_empty());

    bench.delete("CNAMERecord/zalias").await;
    bench.until_gone("CNAMERecord/zalias").await;
    bench.settle().await;
    assert!(lines(&bench, "zalias").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_repeats_is_counted_even_after_a_restart() {
    let mut bench = with_www().await;
    for labels in [
        json!({"metadata": {"labels": {"zone": "other"}}}),
        json!({"metadata": {"labels": {"zone": "example"}}}),
        json!({"metadata": {"labels": {"zone": "other"}}}),
    ] {
        bench.patch("ARecord/www", labels).await;
        bench.settle().await;
        bench.restart().await;
        bench.settle().await;
    }
    assert_eq!(
        lines(&bench, "www").await,
        ["Normal ReconcileSucceeded 1", "Warning NotSelected 2"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_zone_says_that_it_is_served() {
    let bench = with_www().await;
    bench.settle().await;
    assert_eq!(
        lines(&bench, "example").await,
        ["Normal ReconcileSucceeded 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_a_zone_is_warned() {
    let bench = Bench::managed().await;
    let endpoint = "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop, namespace: default}
spec: {endpoints: [{dnsName: shop.example.com, recordType: A, targets: [192.0.2.1]}]}
";
    bench.create(endpoint).await;
    bench.settle().await;
    assert_eq!(lines(&bench, "shop").await, ["Warning NoMatchingZone 1"]);
    bench.create(ZONE).await;
    bench.settle().await;
    assert_eq!(
        lines(&bench, "shop").await,
        ["Normal Programmed 1", "Warning NoMatchingZone 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_records_that_go_straight_to_ready_write_no_events() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    bench.settle().await;
    let before = written(&bench);
    for number in 0..1000 {
        let record = WWW.replace("name: www,", &format!("name: r{number},"));
        bench.create(&record).await;
    }
    bench.until_ready("ARecord/r999").await;
    bench.settle().await;
    assert!(
        bench
            .handle()
            .object_counts()
            .keys()
            .all(|one| one.good == Some(true))
    );
    assert_eq!(written(&bench), before);
    let dropped = &bench.handle().metrics().events_dropped;
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_warnings_is_paced_and_what_is_too_much_is_counted() {
    const FLOOD: u64 = 1200;
    let bench = Bench::managed().await;
    for number in 0..FLOOD {
        let record = WWW.replace("name: www,", &format!("name: r{number},"));
        bench.create(&record).await;
    }
    let last = format!("ARecord/r{}", FLOOD - 1);
    bench.until(&last, "Ready", "-NotSelected").await;
    // All statuses are there already; the events still wait for their turn.
    assert!(written(&bench) < FLOOD / 2, "{}", written(&bench));
    bench.settle().await;
    let dropped = &bench.handle().metrics().events_dropped;
    let dropped = dropped.load(Ordering::Relaxed);
    assert!(dropped > 0, "more came than may wait");
    assert_eq!(written(&bench) + dropped, FLOOD);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_refuses_events_changes_nothing_else() {
    let is_event =
        |method: &Method, path: &str| path.ends_with("/events") && method == Method::POST;
    let client = move |api: &EmbeddedApi| refusing(api, is_event);
    let mut bench = Bench::behind(Management::Managed, client).await;
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.create(ALIAS).await;
    bench
        .until("CNAMERecord/zalias", "Ready", "-Conflict")
        .await;
    bench.until_lines(&[WWW_LINE]).await;
    bench.delete("ARecord/www").await;
    bench.until_ready("CNAMERecord/zalias").await;
    bench.settle().await;
    assert_eq!(written(&bench), 0);
    let metrics = bench.handle().metrics();
    // The zone, the conflict, and that it is over.
    assert_eq!(metrics.events_dropped.load(Ordering::Relaxed), 3);
    assert_eq!(metrics.faults.load(Ordering::Relaxed), 0);
}

async fn with_www() -> Bench {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench
}

/// As `kubectl describe` asks for them.
async fn about(bench: &Bench, name: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(bench.client.clone(), "default");
    let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let events = api.list(&params).await.expect("the API answers");
    events.items
}

pub(super) async fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let mut lines: Vec<String> = about(bench, name)
        .await
        .into_iter()
        .map(|event| {
            let (tone, reason) = (event.type_.unwrap_or_default(), event.reason);
            let count = event.count.unwrap_or_default();
            format!("{tone} {} {count}", reason.unwrap_or_default())
        })
        .collect();
    lines.sort();
    lines
}

fn written(bench: &Bench) -> u64 {
    let written = &bench.handle().metrics().events_written;
    written.load(Ordering::Relaxed)
}

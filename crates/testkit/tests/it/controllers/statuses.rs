//! Statuses that others write over.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::bench::{Bench, WWW, ZONE, slow};

/// How late the controllers hear the answer to a status that they wrote.
const LATE: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn what_others_do_to_a_status_is_put_right() {
    let bench = Bench::managed().await;
    with_www(&bench).await;
    bench.settle().await;
    overwrite(&bench, "www", wrong()).await;
    bench.until_ready("ARecord/www").await;
    let www = bench.get("ARecord/www").await.expect("it is there");
    assert_eq!(www.data["status"]["addresses"], "192.0.2.1");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_overwritten_while_it_is_put_right_is_put_right_again() {
    let mut bench = Bench::behind(bindery_kube::Management::Managed, |api| slow(api, LATE)).await;
    bench.start();
    with_www(&bench).await;
    bench.settle().await;
    overwrite(&bench, "www", wrong()).await;
    // Ours stands by now, and its answer is on its way.
    tokio::time::sleep(LATE / 2).await; // pause between polls
    overwrite(&bench, "www", wrong()).await;
    bench.until_ready("ARecord/www").await;
    let www = bench.get("ARecord/www").await.expect("it is there");
    assert_eq!(www.data["status"]["addresses"], "192.0.2.1");
}

#[tokio::test(start_paused = true)]
async fn whoever_overwrites_a_status_for_ever_makes_no_flood_of_writes() {
    let bench = Bench::managed().await;
    with_www(&bench).await;
    bench.settle().await;
    let (_, before) = bench.writes();
    for _ in 0..600 {
        overwrite(&bench, "www", wrong()).await;
        tokio::time::sleep(LATE).await; // pause between polls
    }
    let (_, after) = bench.writes();
    assert!(after - before < 20, "{} writes", after - before);
    bench.until_ready("ARecord/www").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_said_is_compared_with_what_is_served_though_nothing_happens() {
    let bench = Bench::managed().await;
    with_www(&bench).await;
    bench.settle().await;
    let before = compared(&bench);
    let writes = bench.writes();
    bench.settle().await;
    let compared = compared(&bench) - before;
    assert!(compared >= 4, "two objects in two minutes: {compared}");
    assert_eq!(bench.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_what_the_objects_say() {
    let mut bench = Bench::behind(bindery_kube::Management::Managed, |api| slow(api, LATE)).await;
    bench.start();
    with_www(&bench).await;
    bench.settle().await;
    assert_eq!(ready(&bench), 1);
    overwrite(&bench, "www", wrong()).await;
    tokio::time::sleep(LATE / 2).await; // pause between polls
    overwrite(&bench, "www", wrong()).await;
    tokio::time::sleep(LATE / 4).await; // pause between polls
    assert_eq!(ready(&bench), 0);
    bench.until_ready("ARecord/www").await;
}

fn compared(bench: &Bench) -> u64 {
    let metrics = bench.handle().metrics();
    metrics.compared.load(std::sync::atomic::Ordering::Relaxed)
}

/// How many A records are Ready, by the metrics.
fn ready(bench: &Bench) -> usize {
    let object_counts = bench.handle().object_counts().into_iter();
    let ready = object_counts.filter(|(standing, _)| {
        standing.kind == bindery_core::Kind::ARecord && standing.good == Some(true)
    });
    ready.map(|(_, count)| count).sum()
}

async fn with_www(bench: &Bench) {
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
}

fn wrong() -> Value {
    json!({"status": {"addresses": "198.51.100.1", "conditions": [{
        "type": "Ready", "status": "False", "reason": "ZoneNotReady", "message": "no",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}})
}

async fn overwrite(bench: &Bench, name: &str, status: Value) {
    let api = Api::<bindery_api::ARecord>::namespaced(bench.client.clone(), "default");
    let params = PatchParams::default();
    api.patch_status(name, &params, &Patch::Merge(&status))
        .await
        .expect("anybody with the right may write a status");
}

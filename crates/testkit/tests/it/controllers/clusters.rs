//! Several clusters of name servers: the same name on each, and zones that move from one to another.

use std::sync::atomic::{AtomicBool, Ordering};

use bindery_apiserver::EmbeddedApi;
use bindery_kube::Management;
use bindery_testkit::{FakeNameServer, nameserver::Absence};
use http::Method;
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, name, records, refusing};

const INSIDE_LINE: &str = "www.example.com. 300 IN A 10.0.0.1";

/// The fixture's zone on the other cluster.
fn inside_zone() -> String {
    ZONE.replace("name: example,", "name: inside,")
        .replace("zoneName", "clusterRef: inside\n  zoneName")
        .replace("zone: example}", "zone: inside}")
}

/// A record of the fixture's name in the zone of the other cluster.
fn inside_www() -> String {
    WWW.replace("name: www, namespace", "name: inside-www, namespace")
        .replace("zone: example", "zone: inside")
        .replace("192.0.2.1", "10.0.0.1")
}

fn to_inside() -> serde_json::Value {
    json!({ "spec": { "clusterRef": "inside" } })
}

/// Whether a server has a line of example.com; `None` where it does not have the zone.
fn has(server: &FakeNameServer, line: &str) -> Option<bool> {
    server.content(&name("example.com"))?;
    let lines = server.lines(&name("example.com"));
    Some(lines.iter().any(|one| one == line))
}

#[tokio::test(start_paused = true)]
async fn two_zones_of_one_name_on_different_servers_both_work() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    for object in [ZONE, WWW, &inside_zone(), &inside_www()] {
        bench.create(object).await;
    }
    for object in [
        "DNSZone/example",
        "DNSZone/inside",
        "ARecord/www",
        "ARecord/inside-www",
    ] {
        bench.until_ready(object).await;
    }
    assert_eq!(bench.lines(), [WWW_LINE]);
    let inside = bench.inside();
    assert_eq!(
        (has(inside, INSIDE_LINE), has(inside, WWW_LINE)),
        (Some(true), Some(false))
    );
    let zone = bench.get("DNSZone/inside").await.expect("it is there");
    assert_eq!(
        zone.data["status"]["servers"][0]["address"],
        "192.0.2.77:53"
    );
    // One goes, and the other does not notice.
    bench.delete("DNSZone/inside").await;
    bench.until_gone("DNSZone/inside").await;
    assert_eq!(
        (bench.lines(), has(bench.inside(), INSIDE_LINE)),
        (vec![WWW_LINE.to_owned()], None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_zone_of_the_name_on_the_same_servers_is_refused_in_any_case() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    bench.create(&inside_zone()).await;
    bench.until_ready("DNSZone/inside").await;
    let second = inside_zone()
        .replace("name: inside,", "name: second,")
        .replace("example.com", "EXAMPLE.COM");
    bench.create(&second).await;
    let message = bench
        .until("DNSZone/second", "Ready", "-DuplicateZone")
        .await;
    assert!(message.contains("dnszone/default/inside"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_a_zone_leaves_stop_serving_it() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.patch("DNSZone/example", to_inside()).await;
    bench.until_ready("DNSZone/example").await;
    bench.settle().await;
    bench.until_ready("ARecord/www").await;
    assert_eq!(
        (has(bench.inside(), WWW_LINE), has(&bench.server, WWW_LINE)),
        (Some(true), None)
    );
    let www = bench.published("ARecord/www").await;
    assert_eq!(www, Some(format!("; on cluster inside\n{WWW_LINE}")));
    let zone = bench.published("DNSZone/example").await;
    assert_eq!(zone.as_deref(), Some("example.com. inside"));
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_moves_while_nobody_looks_is_taken_back_where_it_was() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.crash().await;
    bench.patch("DNSZone/example", to_inside()).await;
    bench.start();
    bench.until_ready("DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    assert_eq!(has(&bench.server, WWW_LINE), None);
    assert_eq!(has(bench.inside(), WWW_LINE), Some(true));
}

#[tokio::test(start_paused = true)]
async fn what_others_wrote_stays_where_a_zone_leaves() {
    let foreign = "old.example.com. 60 IN A 198.51.100.9";
    let mut bench = Bench::clusters(Management::External).await;
    for server in [&bench.server, bench.inside()] {
        server.add_zone(&name("example.com"), &records(&[foreign]));
    }
    bench.start();
    bench.create(ZONE).await;
    // More than the guard would let go at once, if nobody had asked for it.
    for number in 0..20 {
        let record = WWW.replace("www", &format!("www{number}"));
        bench.create(&record).await;
    }
    bench.until_ready("ARecord/www19").await;
    bench.patch("DNSZone/example", to_inside()).await;
    bench.until_lines(&[foreign]).await;
    bench.until_ready("ARecord/www19").await;
    assert_eq!(bench.inside().lines(&name("example.com")).len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_stands_on_one_server_is_not_ours_on_another() {
    let mut bench = Bench::clusters(Management::External).await;
    bench.server.add_zone(&name("example.com"), &[]);
    bench
        .inside()
        .add_zone(&name("example.com"), &records(&[WWW_LINE]));
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.patch("DNSZone/example", to_inside()).await;
    bench.until("ARecord/www", "Ready", "-NotOwned").await;
    bench.settle().await;
    bench.delete("ARecord/www").await;
    bench.until_gone("ARecord/www").await;
    assert_eq!(
        has(bench.inside(), WWW_LINE),
        Some(true),
        "somebody else wrote it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_there_is_told_and_nothing_is_taken_away() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let typo = json!({ "spec": { "clusterRef": "insid" } });
    bench.patch("DNSZone/example", typo).await;
    let message = bench
        .until("DNSZone/example", "Ready", "-ClusterNotFound")
        .await;
    assert!(message.contains("name one of inside"), "{message}");
    bench.settle().await;
    assert_eq!(bench.lines(), [WWW_LINE]);
    bench.restart().await;
    bench.settle().await;
    assert_eq!(bench.lines(), [WWW_LINE]);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_a_cluster_that_is_gone_waits_until_it_is_given_up() {
    let mut bench = Bench::clusters(Management::Managed).await;
    bench.start();
    bench.create(&inside_zone()).await;
    bench.create(&inside_www()).await;
    bench.until_ready("ARecord/inside-www").await;
    bench.crash().await;
    let inside = bench.inside.take();
    bench.start();
    bench.delete("ARecord/inside-www").await;
    bench.delete("DNSZone/inside").await;
    for object in ["ARecord/inside-www", "DNSZone/inside"] {
        let message = bench.until(object, "Ready", "-Deleting").await;
        assert!(message.contains("cluster inside"), "{message}");
    }
    // Here they are again: what waits is done.
    bench.inside = inside;
    bench.restart().await;
    bench.until_gone("ARecord/inside-www").await;
    bench.until_gone("DNSZone/inside").await;
    assert_eq!(has(bench.inside(), INSIDE_LINE), None);

    bench.create(&inside_zone()).await;
    bench.create(&inside_www()).await;
    bench.until_ready("ARecord/inside-www").await;
    bench.crash().await;
    bench.inside = None;
    bench.start();
    for object in ["ARecord/inside-www", "DNSZone/inside"] {
        bench.delete(object).await;
        let given_up = json!({ "metadata": { "annotations": { "bindery.dev/abandon": "true" } } });
        bench.patch(object, given_up).await;
        bench.until_gone(object).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_whose_heir_goes_without_a_trace_is_not_left_behind() {
    let is_second =
        |method: &Method, path: &str| path.ends_with("/dnszones/second") && method == Method::PATCH;
    let client = move |api: &EmbeddedApi| refusing(api, is_second);
    let mut bench = Bench::behind(Management::Managed, client).await;
    bench.start();
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let second = ZONE
        .replace("name: example,", "name: second,")
        .replace("zone: example}", "zone: second}");
    bench.create(&second).await;
    bench
        .until("DNSZone/second", "Ready", "-DuplicateZone")
        .await;
    bench.delete("DNSZone/example").await;
    // The second one is to have the zone, and cannot say so: the first one stays.
    bench.settle().await;
    assert!(bench.get("DNSZone/example").await.is_some());
    bench.delete("DNSZone/second").await;
    bench.until_gone("DNSZone/second").await;
    bench.until_gone("DNSZone/example").await;
    assert!(bench.server.content(&name("example.com")).is_none());
}

/// The status of the one that had the zone is all that is left of its serial.
#[tokio::test(start_paused = true)]
async fn a_zone_that_another_object_takes_over_goes_on_from_its_serial() {
    let mut bench = Bench::managed().await;
    bench.create(ZONE).await;
    for index in 0..4 {
        let name = format!("name: www{index},");
        bench.create(&WWW.replacen("name: www,", &name, 2)).await;
        bench.until_ready(&format!("ARecord/www{index}")).await;
    }
    let second = ZONE.replace("name: example,", "name: second,");
    bench.create(&second).await;
    bench
        .until("DNSZone/second", "Ready", "-DuplicateZone")
        .await;
    bench.settle().await;
    let zone = name("example.com");
    let before = bench.server.content(&zone).expect("it is served").serial;
    bench.crash().await;
    bench.server.lose_zone(&zone);
    bench.delete("DNSZone/example").await;
    bench.start();
    bench.until_ready("DNSZone/second").await;
    let after = bench.server.content(&zone).expect("it is served").serial;
    assert!(after.newer_than(before), "{after} after {before}");
}

/// A bench whose zone has two objects, of which the second one tells a serial that is thousands older than that
/// of the first: more than a process allows for where it does not know.
async fn two_objects(refused: fn(&Method, &str) -> bool) -> Bench {
    let mut bench = Bench::behind(Management::Managed, |api| refusing(api, refused)).await;
    bench.start();
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let second = ZONE.replace("name: example,", "name: second,");
    bench.create(&second).await;
    bench
        .until("DNSZone/second", "Ready", "-DuplicateZone")
        .await;
    for _ in 0..2 {
        bench.settle().await;
        bench.crash().await;
        bench.server.lose_zone(&name("example.com"));
        bench.start();
        bench.settle().await;
        bench.until_ready("DNSZone/example").await;
    }
    bench
}

#[tokio::test(start_paused = true)]
async fn an_object_with_an_old_serial_of_its_own_goes_on_from_the_newer_one() {
    let mut bench = two_objects(|_, _| false).await;
    bench.crash().await;
    bench.server.lose_zone(&name("example.com"));
    bench.delete("DNSZone/example").await;
    bench.start();
    bench.until_ready("DNSZone/second").await;
    bench.until_gone("DNSZone/example").await;
    assert_eq!(bench.server.rewound(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_until_the_one_that_takes_over_tells_the_serial() {
    static MUTE: AtomicBool = AtomicBool::new(false);
    let is_mute = |_: &Method, path: &str| {
        MUTE.load(Ordering::SeqCst) && path.ends_with("/dnszones/second/status")
    };
    let mut bench = two_objects(is_mute).await;
    MUTE.store(true, Ordering::SeqCst);
    bench.delete("DNSZone/example").await;
    bench.settle().await;
    assert!(bench.get("DNSZone/example").await.is_some());
    bench.crash().await;
    bench.server.lose_zone(&name("example.com"));
    MUTE.store(false, Ordering::SeqCst);
    bench.start();
    bench.until_ready("DNSZone/second").await;
    bench.until_gone("DNSZone/example").await;
    assert_eq!(bench.server.rewound(), [] as [String; 0]);
}

/// The one that takes over tells what was told, and what had it need not wait for the servers.
#[tokio::test(start_paused = true)]
async fn an_object_does_not_wait_for_servers_that_are_away() {
    let bench = two_objects(|_, _| false).await;
    bench.server.set_absence(Absence::Down);
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    let second = bench.get("DNSZone/second").await.expect("it is there");
    let status = &second.data["status"];
    let told = [&status["lastSerial"], &status["servers"][0]["serial"]];
    let told = told.iter().find_map(|serial| serial.as_u64());
    assert!(told.is_some_and(|told| told > 2_000), "{status}");
}

//! A process that dies at any moment and comes back.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bindery_core::{Name, Serial};
use bindery_kube::Management;
use bindery_testkit::nameserver::FakeNameServer;
use http::Method;
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, refusing};

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_when_nothing_changed() {
    let mut bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    let serial = bench
        .server
        .content(&super::bench::name("example.com"))
        .map(|zone| zone.serial);
    bench.restart().await;
    bench.settle().await;
    assert_eq!(bench.writes(), (0, 0));
    bench.until_lines(&[WWW_LINE]).await;
    let after = bench
        .server
        .content(&super::bench::name("example.com"))
        .map(|zone| zone.serial);
    assert_eq!(serial, after);
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_is_lost_before_any_status_told_its_serial_begins_beyond_it() {
    static MUTE: AtomicBool = AtomicBool::new(true);
    let is_mute = |_: &Method, path: &str| MUTE.load(Ordering::SeqCst) && path.ends_with("/status");
    let zone = super::bench::name("example.com");
    let mut bench = Bench::behind(Management::Managed, |api| refusing(api, is_mute)).await;
    bench.start();
    bench.create(ZONE).await;
    bench.settle().await;
    assert!(bench.server.content(&zone).is_some());
    bench.crash().await;
    MUTE.store(false, Ordering::SeqCst);
    let object = bench.get("DNSZone/example").await.expect("it is there");
    assert!(
        object.data["status"]["servers"].is_null(),
        "nothing is told"
    );
    bench.server.lose_zone(&zone);
    bench.start();
    bench.until_ready("DNSZone/example").await;
    assert_eq!(bench.server.rewound(), [] as [String; 0]);
    let serial = bench.server.content(&zone).map(|zone| zone.serial);
    assert_eq!(serial, Some(Serial(1_001)));
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_nothing_ran_is_caught_up_with() {
    let mut bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.create(&WWW.replace("name: www", "name: mail")).await;
    bench.until_ready("ARecord/www").await;
    bench.until_ready("ARecord/mail").await;
    bench.crash().await;
    bench
        .patch(
            "ARecord/www",
            json!({"spec": {"ipv4Addresses": ["192.0.2.9"]}}),
        )
        .await;
    bench.delete("ARecord/mail").await;
    bench.start();
    bench
        .until_lines(&["www.example.com. 300 IN A 192.0.2.9"])
        .await;
    bench.until_gone("ARecord/mail").await;
    bench.until_ready("ARecord/www").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_server_lost_while_nothing_ran_takes_no_serial_back() {
    let zone = super::bench::name("example.com");
    let harms: [fn(&FakeNameServer, &Name); 3] = [
        FakeNameServer::lose_zone,
        FakeNameServer::break_zone,
        |server, zone| server.lose_changes(zone, 3),
    ];
    for harm in harms {
        let mut bench = Bench::managed().await;
        bench.create(ZONE).await;
        bench.create(WWW).await;
        for number in 1..9 {
            let address = format!("192.0.2.{number}");
            let spec = json!({"spec": {"ipv4Addresses": [address]}});
            bench.patch("ARecord/www", spec).await;
            let line = format!("www.example.com. 300 IN A {address}");
            bench.until_lines(&[&line]).await;
        }
        bench.until_ready("ARecord/www").await;
        bench.settle().await;
        let before = bench.server.content(&zone).map(|zone| zone.serial);
        bench.crash().await;
        harm(&bench.server, &zone);
        bench.start();
        bench
            .until_lines(&["www.example.com. 300 IN A 192.0.2.8"])
            .await;
        bench.settle().await;
        let after = bench.server.content(&zone).map(|zone| zone.serial);
        assert!(
            after
                .zip(before)
                .is_some_and(|(after, before)| after.newer_than(before)),
            "{before:?} {after:?}"
        );
        bench.until_ready("DNSZone/example").await;
        assert_eq!(bench.server.rewound(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_deleted_while_nothing_ran_is_taken_back() {
    let mut bench = Bench::external(&[]).await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    bench.crash().await;
    bench.delete("DNSZone/example").await;
    bench.start();
    bench.until_gone("DNSZone/example").await;
    bench.until_lines(&[]).await;
    bench.until("ARecord/www", "Ready", "-NotSelected").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_a_life_changes_nothing_about_its_end() {
    // Every await of the controllers is a place to die; virtual time moves in between.
    let mut bench = Bench::managed().await;
    bench.create(ZONE).await;
    for yields in 0..40 {
        bench.create(WWW).await;
        pass(yields).await;
        bench.restart().await;
        bench.until_ready("ARecord/www").await;
        bench.until_lines(&[WWW_LINE]).await;
        bench
            .patch("ARecord/www", json!({"spec": {"name": "web"}}))
            .await;
        pass(yields).await;
        bench.restart().await;
        bench
            .until_lines(&["web.example.com. 300 IN A 192.0.2.1"])
            .await;
        bench.until_ready("ARecord/www").await;
        bench.delete("ARecord/www").await;
        pass(yields).await;
        bench.restart().await;
        bench.until_gone("ARecord/www").await;
        bench.until_lines(&[]).await;
    }
}

/// Lets other tasks take some steps.
async fn pass(steps: usize) {
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    if steps % 7 == 6 {
        tokio::time::advance(Duration::from_millis(5)).await;
    }
}

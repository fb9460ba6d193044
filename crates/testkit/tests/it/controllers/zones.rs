//! Zones: created, doubled, missing, deleted under their records.

use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, name};

#[tokio::test(start_paused = true)]
async fn a_zone_deleted_under_its_records_takes_them_out_of_dns() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    bench.until("ARecord/www", "Ready", "-NotSelected").await;
    bench.settle().await;
    assert!(bench.server.content(&name("example.com")).is_none());
    assert!(bench.finalizers("ARecord/www").await.is_empty());
    bench.create(ZONE).await;
    bench.until_ready("ARecord/www").await;
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_of_somebody_else_keeps_what_we_did_not_write() {
    let foreign = "old.example.com. 60 IN A 198.51.100.9";
    let bench = Bench::external(&[foreign]).await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    assert_eq!(bench.lines(), [foreign]);
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_the_server_lacks_becomes_ready_once_it_is_there() {
    let bench = Bench::external(&[]).await;
    bench
        .create(&ZONE.replace("example.com", "example.net"))
        .await;
    let message = bench
        .until("DNSZone/example", "Ready", "-ZoneNotFound")
        .await;
    assert!(message.contains("create it there"), "{message}");
    bench.create(WWW).await;
    bench.until("ARecord/www", "Ready", "-ZoneNotFound").await;
    bench.server.add_zone(&name("example.net"), &[]);
    bench.until_ready("DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
}

#[tokio::test(start_paused = true)]
async fn the_second_zone_of_a_name_names_the_first_and_takes_over() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    bench
        .create(
            &ZONE
                .replace("name: example,", "name: zsecond,")
                .replace("zone: example", "zone: b"),
        )
        .await;
    let message = bench
        .until("DNSZone/zsecond", "Ready", "-DuplicateZone")
        .await;
    assert!(message.contains("dnszone/default/example"), "{message}");
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    bench.until_ready("DNSZone/zsecond").await;
    bench.settle().await;
    assert!(bench.server.content(&name("example.com")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_selector_edit_finds_its_records() {
    let bench = Bench::managed().await;
    bench
        .create(&ZONE.replace("zone: example}", "zone: later}"))
        .await;
    bench.create(WWW).await;
    bench.until("ARecord/www", "Ready", "-NotSelected").await;
    let everything = json!({"spec": {"recordsFrom": [{"selector": {}}]}});
    bench.patch("DNSZone/example", everything).await;
    bench.until_ready("ARecord/www").await;
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn the_zone_ttl_is_that_of_records_without_one() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench
        .patch("DNSZone/example", json!({"spec": {"ttl": 77}}))
        .await;
    bench
        .until_lines(&["www.example.com. 77 IN A 192.0.2.1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_vanished_from_a_managed_server_is_served_again() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.server.lose_zone(&name("example.com"));
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_arrives_a_moment_later_costs_no_status() {
    let bench = Bench::managed().await;
    bench.create(WWW).await;
    bench.create(ZONE).await;
    bench.until_ready("ARecord/www").await;
    bench.settle().await;
    // Two finalizers, one of the zone and one of the record, and one status.
    assert_eq!(bench.writes(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_is_abandoned_is_still_taken_back_where_that_works() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let abandoned = json!({"metadata": {"annotations": {"bindery.dev/abandon": "true"}}});
    bench.patch("DNSZone/example", abandoned).await;
    bench.delete("DNSZone/example").await;
    bench.until_gone("DNSZone/example").await;
    bench.settle().await;
    assert!(bench.server.content(&name("example.com")).is_none());
}

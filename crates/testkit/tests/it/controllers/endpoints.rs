//! `DNSEndpoint` objects.

use serde_json::json;

use super::bench::{Bench, ZONE};

const SHOP: &str = "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop, namespace: default}
spec:
  endpoints:
  - {dnsName: shop.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.10]}
  - {dnsName: txt.example.com, recordType: TXT, targets: ['a=b']}
";

const BOTH: [&str; 2] = [
    "shop.example.com. 60 IN A 192.0.2.10",
    "txt.example.com. 300 IN TXT \"a=b\"",
];

#[tokio::test(start_paused = true)]
async fn endpoints_are_accepted_and_programmed() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let (metadata, status) = bench.writes();
    bench.create(SHOP).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    assert_eq!(
        bench.condition("DNSEndpoint/shop", "Accepted").await.0,
        "+Accepted"
    );
    bench.until_lines(&BOTH).await;
    bench.settle().await;
    assert_eq!(bench.writes(), (metadata + 1, status + 1));
    bench.delete("DNSEndpoint/shop").await;
    bench.until_gone("DNSEndpoint/shop").await;
    assert!(bench.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_bad_endpoint_is_named_and_the_others_go_on() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    let bad = "  - {dnsName: bad.example.com, recordType: A, targets: [not-an-address]}
  - {dnsName: lost.example.org, recordType: A, targets: [192.0.2.3]}
";
    bench.create(&format!("{SHOP}{bad}")).await;
    let message = bench
        .until("DNSEndpoint/shop", "Accepted", "-PartiallyAccepted")
        .await;
    assert!(
        message.contains("spec.endpoints[2].targets[0]"),
        "{message}"
    );
    assert!(message.contains("spec.endpoints[3].dnsName"), "{message}");
    let (reason, message) = bench.condition("DNSEndpoint/shop", "Programmed").await;
    assert_eq!(reason, "-PartiallyProgrammed");
    assert!(message.contains("2 of 4"), "{message}");
    bench.until_lines(&BOTH).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_goes_to_the_longest_zone_and_follows_it() {
    let bench = Bench::managed().await;
    bench.create(SHOP).await;
    let message = bench
        .until("DNSEndpoint/shop", "Accepted", "-NoMatchingZone")
        .await;
    assert!(message.contains("shop.example.com"), "{message}");
    bench.create(ZONE).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    let longer = ZONE
        .replace("name: example,", "name: shop,")
        .replace("zoneName: example.com", "zoneName: shop.example.com");
    bench.create(&longer).await;
    bench.until_lines(&BOTH[1..]).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.delete("DNSZone/shop").await;
    bench.until_gone("DNSZone/shop").await;
    bench.until_lines(&BOTH).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_removed_leaves_dns() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(SHOP).await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    let one = json!({"spec": {"endpoints": [
        {"dnsName": "shop.example.com", "recordType": "A", "recordTTL": 60, "targets": ["192.0.2.11"]},
    ]}});
    bench.patch("DNSEndpoint/shop", one).await;
    bench
        .until_lines(&["shop.example.com. 60 IN A 192.0.2.11"])
        .await;
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
    bench.settle().await;
    let note = bench
        .annotation("DNSEndpoint/shop", "bindery.dev/published")
        .await;
    assert_eq!(
        note.as_deref(),
        Some("shop.example.com. 60 IN A 192.0.2.11")
    );
}

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
    let note = bench.published("DNSEndpoint/shop").await;
    assert_eq!(
        note.as_deref(),
        Some("shop.example.com. 60 IN A 192.0.2.11")
    );
}

#[tokio::test(start_paused = true)]
async fn a_broken_zone_holds_up_nobody_elses_endpoints() {
    let mut bench = Bench::clusters(bindery_kube::Management::Managed).await;
    bench.start();
    bench.create(ZONE).await;
    let broken = ZONE.replace("name: example,", "name: broken,").replace(
        "zoneName: example.com",
        "zoneName: broken.example\n  clusterRef: nowhere",
    );
    bench.create(&broken).await;
    bench
        .until("DNSZone/broken", "Ready", "-ClusterNotFound")
        .await;
    let endpoint = |name: &str, value: &str| json!({"dnsName": name, "recordType": "A", "recordTTL": 60, "targets": [value]});
    bench
        .create(
            "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: two, namespace: default}
spec: {endpoints: [{dnsName: a.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.1]}]}
",
        )
        .await;
    bench
        .until("DNSEndpoint/two", "Programmed", "+Programmed")
        .await;
    let edit = json!({"spec": {"endpoints": [
        endpoint("b.example.com", "192.0.2.2"), endpoint("c.nowhere.example", "192.0.2.3"),
    ]}});
    bench.patch("DNSEndpoint/two", edit).await;
    bench
        .until("DNSEndpoint/two", "Accepted", "-PartiallyAccepted")
        .await;
    bench
        .until_lines(&["b.example.com. 60 IN A 192.0.2.2"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_a_broken_zone_stays_and_the_rest_goes_on() {
    let mut bench = Bench::clusters(bindery_kube::Management::Managed).await;
    bench.start();
    bench.create(ZONE).await;
    let sub = ZONE
        .replace("name: example,", "name: sub,")
        .replace("zoneName: example.com", "zoneName: sub.example.com");
    bench.create(&sub).await;
    bench.until_ready("DNSZone/sub").await;
    bench
        .create(
            "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: two, namespace: default}
spec:
  endpoints:
  - {dnsName: a.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.1]}
  - {dnsName: b.sub.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.2]}
",
        )
        .await;
    bench
        .until("DNSEndpoint/two", "Programmed", "+Programmed")
        .await;
    let break_it = json!({"spec": {"clusterRef": "nowhere"}});
    bench.patch("DNSZone/sub", break_it).await;
    bench
        .until("DNSZone/sub", "Ready", "-ClusterNotFound")
        .await;
    bench
        .until("DNSEndpoint/two", "Accepted", "-PartiallyAccepted")
        .await;
    let edit = json!({"spec": {"endpoints": [
        {"dnsName": "c.example.com", "recordType": "A", "recordTTL": 60, "targets": ["192.0.2.3"]},
        {"dnsName": "b.sub.example.com", "recordType": "A", "recordTTL": 60, "targets": ["192.0.2.2"]},
    ]}});
    bench.patch("DNSEndpoint/two", edit).await;
    bench
        .until_lines(&["c.example.com. 60 IN A 192.0.2.3"])
        .await;
    bench.settle().await;
    let inside = bench.server.lines(&super::bench::name("sub.example.com"));
    let stays = "b.sub.example.com. 60 IN A 192.0.2.2".to_owned();
    assert!(inside.contains(&stays), "{inside:?}");
    let mend_it = json!({"spec": {"clusterRef": null}});
    bench.patch("DNSZone/sub", mend_it).await;
    bench
        .until("DNSEndpoint/two", "Programmed", "+Programmed")
        .await;
    let inside = bench.server.lines(&super::bench::name("sub.example.com"));
    assert!(inside.contains(&stays), "{inside:?}");
}

//! Fields that are not acted on, and names that are hardly meant: it is said, and the rest is served.

use serde_json::json;

use super::bench::{Bench, WWW, ZONE};

#[tokio::test(start_paused = true)]
async fn a_zone_is_served_without_what_is_not_acted_on_and_says_so() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench
        .until("DNSZone/example", "Degraded", "-ReconcileSucceeded")
        .await;
    let signed = json!({"spec": {"dnssecPolicy": "default"}});
    bench.patch("DNSZone/example", signed).await;
    let message = bench
        .until("DNSZone/example", "Degraded", "+Unsupported")
        .await;
    assert!(message.contains("spec.dnssecPolicy"), "{message}");
    bench.until_ready("DNSZone/example").await;
    bench.until_ready("ARecord/www").await;
    let plain = json!({"spec": {"dnssecPolicy": "none"}});
    bench.patch("DNSZone/example", plain).await;
    bench
        .until("DNSZone/example", "Degraded", "-ReconcileSucceeded")
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_up_to_the_server_is_no_failure() {
    let soa = "example.com. 60 IN SOA ns.example.com. admin.example.com. 7 60 60 60 60";
    let bench = Bench::external(&[soa]).await;
    bench.create(ZONE).await;
    let servers = json!({"spec": {"nameServers": [{"hostname": "ns1.example.net"}]}});
    bench.patch("DNSZone/example", servers).await;
    let message = bench
        .until("DNSZone/example", "Degraded", "-Unsupported")
        .await;
    assert!(message.contains("spec.nameServers"), "{message}");
    bench.until_ready("DNSZone/example").await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_published_without_what_is_not_acted_on_and_says_so() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    let shop = "
apiVersion: externaldns.k8s.io/v1alpha1
kind: DNSEndpoint
metadata: {name: shop, namespace: default}
spec:
  endpoints:
  - {dnsName: shop.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.11], setIdentifier: eu}
";
    bench.create(shop).await;
    let message = bench
        .until("DNSEndpoint/shop", "Accepted", "+Unsupported")
        .await;
    assert!(
        message.contains("spec.endpoints[0].setIdentifier"),
        "{message}"
    );
    bench
        .until("DNSEndpoint/shop", "Programmed", "+Programmed")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_repeats_its_zone_gets_a_hint() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench
        .create(&WWW.replace("{name: www, ipv4", "{name: www.example.com, ipv4"))
        .await;
    let message = bench
        .until("ARecord/www", "Ready", "+ReconcileSucceeded")
        .await;
    assert!(
        message.contains("www.example.com.example.com. A is served"),
        "{message}"
    );
    assert!(
        message.contains("twice") && message.contains("dot"),
        "{message}"
    );
}

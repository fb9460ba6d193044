//! Records: created, edited, moved, refused, deleted.

use bindery_api::Role;
use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE, name};

#[tokio::test(start_paused = true)]
async fn a_record_becomes_ready_with_two_writes_after_its_creation() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let (metadata, status) = bench.writes();
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench.until_lines(&[WWW_LINE]).await;
    bench.settle().await;
    assert_eq!(bench.writes(), (metadata + 1, status + 1));

    let www = bench.get("ARecord/www").await.expect("it is there");
    let status = &www.data["status"];
    assert_eq!(status["zone"], "example.com");
    assert_eq!(status["zoneRef"]["name"], "example");
    assert_eq!(status["addresses"], "192.0.2.1");
    assert_eq!(status["publishedName"], "www.example.com.");
    assert_eq!(status["recordHash"].as_str().map(str::len), Some(64));
    let note = bench.published("ARecord/www").await;
    assert_eq!(note.as_deref(), Some(WWW_LINE));
    let mark = bench
        .annotation("ARecord/www", "bindy.firestoned.io/zone")
        .await;
    assert_eq!(mark.as_deref(), Some("example.com"));
    assert_eq!(bench.finalizers("ARecord/www").await, ["bindery.dev/dns"]);
    let zone = bench.get("DNSZone/example").await.expect("it is there");
    assert_eq!(zone.data["status"]["recordsCount"], 1);
    assert_eq!(zone.data["status"]["records"][0]["recordName"], "www");
    assert_eq!(zone.data["status"]["servers"][0]["ready"], true);
}

#[tokio::test(start_paused = true)]
async fn an_edit_takes_the_old_value_away_and_trims_the_annotation() {
    let bench = with_www().await;
    let spec = json!({"spec": {"name": "web", "ipv4Addresses": ["192.0.2.7"], "ttl": 60}});
    bench.patch("ARecord/www", spec).await;
    bench.until_ready("ARecord/www").await;
    let line = "web.example.com. 60 IN A 192.0.2.7";
    bench.until_lines(&[line]).await;
    bench.settle().await;
    let note = bench.published("ARecord/www").await;
    assert_eq!(note.as_deref(), Some(line));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_record_goes_when_dns_no_longer_has_it() {
    let bench = with_www().await;
    bench.delete("ARecord/www").await;
    bench.until_gone("ARecord/www").await;
    assert!(bench.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_are_kept() {
    let bench = with_www().await;
    let others = json!({"metadata": {"finalizers": ["bindery.dev/dns", "example.com/audit"]}});
    bench.patch("ARecord/www", others).await;
    bench.delete("ARecord/www").await;
    bench.until_lines(&[]).await;
    bench.settle().await;
    assert_eq!(bench.finalizers("ARecord/www").await, ["example.com/audit"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_no_zone_selects_says_so_and_leaves_dns() {
    let bench = with_www().await;
    bench
        .patch(
            "ARecord/www",
            json!({"metadata": {"labels": {"zone": "other"}}}),
        )
        .await;
    let message = bench.until("ARecord/www", "Ready", "-NotSelected").await;
    assert!(message.contains("namespace default"), "{message}");
    bench.until_lines(&[]).await;
    bench.settle().await;
    assert!(bench.finalizers("ARecord/www").await.is_empty());
    assert_eq!(bench.published("ARecord/www").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_label_moves_a_record_to_another_zone() {
    let bench = with_www().await;
    bench
        .create(
            &ZONE
                .replace("example}", "second}")
                .replace("name: example,", "name: second,")
                .replace("example.com", "example.net"),
        )
        .await;
    bench.until_ready("DNSZone/second").await;
    bench
        .patch(
            "ARecord/www",
            json!({"metadata": {"labels": {"zone": "second"}}}),
        )
        .await;
    bench.until_lines(&[]).await;
    bench.until_ready("ARecord/www").await;
    let lines = bench.server.lines(&name("example.net"));
    assert!(
        lines.contains(&"www.example.net. 300 IN A 192.0.2.1".to_owned()),
        "{lines:?}"
    );
    let www = bench.get("ARecord/www").await.expect("it is there");
    assert_eq!(www.data["status"]["zone"], "example.net");
}

#[tokio::test(start_paused = true)]
async fn a_record_of_somebody_else_is_left_alone_until_it_is_given_away() {
    let taken = "www.example.com. 60 IN A 198.51.100.9";
    let bench = Bench::external(&[taken]).await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    let message = bench.until("ARecord/www", "Ready", "-NotOwned").await;
    assert!(message.contains("bindery.dev/adopt"), "{message}");
    assert_eq!(bench.lines(), [taken]);
    let adopt = json!({"metadata": {"annotations": {"bindery.dev/adopt": "true"}}});
    bench.patch("ARecord/www", adopt).await;
    bench.until_ready("ARecord/www").await;
    bench.until_lines(&[WWW_LINE]).await;
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_a_conflict_names_the_winner_and_follows_it() {
    let bench = with_www().await;
    let alias = "
apiVersion: bindy.firestoned.io/v1beta1
kind: CNAMERecord
metadata: {name: zalias, namespace: default, labels: {zone: example}}
spec: {name: www, target: elsewhere.example.net.}
";
    bench.create(alias).await;
    let message = bench
        .until("CNAMERecord/zalias", "Ready", "-Conflict")
        .await;
    assert!(message.contains("arecord/default/www"), "{message}");
    assert_eq!(bench.lines(), [WWW_LINE]);
    bench.delete("ARecord/www").await;
    bench.until_ready("CNAMERecord/zalias").await;
    bench
        .until_lines(&["www.example.com. 300 IN CNAME elsewhere.example.net."])
        .await;
}

#[tokio::test(start_paused = true)]
async fn two_records_on_one_name_are_served_together() {
    let bench = with_www().await;
    let second = WWW
        .replace("name: www,", "name: www2,")
        .replace("192.0.2.1", "192.0.2.2");
    let second = second.replacen("spec: {name: www2,", "spec: {name: www,", 1);
    bench.create(&second).await;
    bench.until_ready("ARecord/www2").await;
    let both = [WWW_LINE, "www.example.com. 300 IN A 192.0.2.2"];
    bench.until_lines(&both).await;
    bench.delete("ARecord/www2").await;
    bench.until_gone("ARecord/www2").await;
    bench.until_lines(&[WWW_LINE]).await;
    bench.until_ready("ARecord/www").await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_two_zones_select_stays_where_it_is_and_names_both() {
    let bench = with_www().await;
    bench
        .create(
            &ZONE
                .replace("name: example,", "name: second,")
                .replace("example.com", "example.net"),
        )
        .await;
    let message = bench.until("ARecord/www", "Ready", "-Conflict").await;
    assert!(
        message.contains("default/example and default/second"),
        "{message}"
    );
    bench.settle().await;
    assert_eq!(bench.lines(), [WWW_LINE]);
}

/// What of a spec differs from kind to kind, and the data that it makes.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "AAAARecord",
        "ipv6Addresses: ['2001:db8::1']",
        "AAAA 2001:db8::1",
    ),
    (
        "CNAMERecord",
        "target: www.example.net",
        "CNAME www.example.net.",
    ),
    ("TXTRecord", "text: [hello world]", "TXT \"hello world\""),
    (
        "MXRecord",
        "priority: 10, mailServer: mx.example.net",
        "MX 10 mx.example.net.",
    ),
    (
        "NSRecord",
        "nameserver: ns.example.net",
        "NS ns.example.net.",
    ),
    (
        "PTRRecord",
        "target: host.example.net",
        "PTR host.example.net.",
    ),
    (
        "CAARecord",
        "flags: 0, tag: issue, value: ca.example.net",
        "CAA 0 issue \"ca.example.net\"",
    ),
    (
        "SRVRecord",
        "priority: 1, weight: 2, port: 3, target: host.example.net",
        "SRV 1 2 3 host.example.net.",
    ),
    (
        "HTTPSRecord",
        "priority: 1, target: ., params: {alpn: [h2], port: 8443}",
        "HTTPS 1 . alpn=\"h2\" port=8443",
    ),
    (
        "SVCBRecord",
        "priority: 0, target: host.example.net",
        "SVCB 0 host.example.net.",
    ),
    (
        "SSHFPRecord",
        "algorithm: 4, fingerprintType: 3, fingerprint: C0FFEE",
        "SSHFP 4 3 c0ffee",
    ),
    (
        "TLSARecord",
        "usage: 3, selector: 1, matchingType: 0, certificateData: C0FFEE",
        "TLSA 3 1 0 c0ffee",
    ),
    ("ARecord", "ipv4Address: 192.0.2.7", "A 192.0.2.7"),
];

#[tokio::test(start_paused = true)]
async fn all_kinds_are_published() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    let all = bindery_api::KINDS
        .iter()
        .filter(|row| row.role == Role::Record);
    assert_eq!(KINDS.len(), all.count(), "a kind has no line here");
    for (kind, spec, data) in KINDS {
        let host = format!("_{}", kind.to_lowercase());
        bench
            .create(&format!(
                "
apiVersion: bindy.firestoned.io/v1beta1
kind: {kind}
metadata: {{name: one, namespace: default, labels: {{zone: example}}}}
spec: {{name: {host}, {spec}}}
"
            ))
            .await;
        bench.until_ready(&format!("{kind}/one")).await;
        let line = format!("{host}.example.com. 300 IN {data}");
        assert!(
            bench.lines().contains(&line),
            "{line} in {:?}",
            bench.lines()
        );
    }
}

async fn with_www() -> Bench {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    bench
}

#[tokio::test(start_paused = true)]
async fn the_lowest_ttl_counts_and_the_other_object_is_told() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let second = WWW
        .replace("{name: www, namespace", "{name: second, namespace")
        .replace(
            "ipv4Addresses: [192.0.2.1]",
            "ttl: 60, ipv4Addresses: [192.0.2.2]",
        );
    bench.create(&second).await;
    bench
        .until_lines(&[
            "www.example.com. 60 IN A 192.0.2.1",
            "www.example.com. 60 IN A 192.0.2.2",
        ])
        .await;
    bench.until_ready("ARecord/second").await;
    bench.settle().await;
    let (_, message) = bench.condition("ARecord/www", "Ready").await;
    assert!(
        message.contains("TTL 60") && message.contains("asks for 300"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_object_goes_without_its_server() {
    let bench = Bench::external(&[]).await;
    bench.create(ZONE).await;
    bench
        .create(
            &WWW.replace("name: www,", "name: refused,")
                .replace("spec: {name: refused,", "spec: {name: www,"),
        )
        .await;
    bench.until_ready("ARecord/refused").await;
    bench.server.refuse_everything();
    bench.delete("ARecord/refused").await;
    bench.settle().await;
    assert!(
        bench.get("ARecord/refused").await.is_some(),
        "it waits for its server"
    );
    let abandon = serde_json::json!({"metadata": {"annotations": {"bindery.dev/abandon": "true"}}});
    bench.patch("ARecord/refused", abandon).await;
    bench.until_gone("ARecord/refused").await;
}

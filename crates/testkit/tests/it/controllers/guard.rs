//! Zones with data in them do not go unasked, from whatever side their removal comes.

use serde_json::json;

use super::bench::{Bench, WWW, WWW_LINE, ZONE};

#[tokio::test(start_paused = true)]
async fn a_zone_that_no_file_declares_any_longer_is_kept_and_says_so() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench.until_ready("ARecord/www").await;
    let note = |file: Option<&str>| json!({"metadata": {"annotations": {"bindery.dev/no-longer-declared": file}}});
    bench
        .patch("DNSZone/example", note(Some("example.yaml")))
        .await;
    let message = bench
        .until("DNSZone/example", "Guarded", "+NoLongerDeclared")
        .await;
    assert_eq!(
        message,
        "example.yaml no longer declares this zone; it has 1 record sets, so it is kept and served: \
         put it back, or run: kubectl delete dnszone example -n default"
    );
    bench.until_lines(&[WWW_LINE]).await;
    bench.settle().await;
    let events = super::events::lines(&bench, "example").await;
    assert!(
        events.contains(&"Warning NoLongerDeclared 1".to_owned()),
        "{events:?}"
    );
    bench.patch("DNSZone/example", note(None)).await;
    bench.until("DNSZone/example", "Guarded", "").await;
}

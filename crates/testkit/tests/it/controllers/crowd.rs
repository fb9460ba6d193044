//! Many objects at once.

use std::sync::atomic::Ordering;

use super::bench::{Bench, WWW, ZONE};

#[tokio::test(start_paused = true)]
async fn a_thousand_records_cost_two_writes_each_and_few_of_the_zone() {
    let bench = Bench::managed().await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let (metadata, status) = bench.writes();
    for number in 0..1000 {
        let record = WWW
            .replace("name: www,", &format!("name: r{number},"))
            .replace(
                "192.0.2.1",
                &format!("192.0.{}.{}", number / 250, number % 250),
            );
        bench.create(&record).await;
    }
    bench.until_ready("ARecord/r0").await;
    bench.until_ready("ARecord/r999").await;
    bench.settle().await;
    let object_counts = bench.handle().object_counts();
    assert!(object_counts.keys().all(|one| one.good == Some(true)));
    assert_eq!(object_counts.values().sum::<usize>(), 1001);
    assert_eq!(bench.writes(), (metadata + 1000, status + 1000));
    let writes = bench
        .handle()
        .metrics()
        .zone_status_writes
        .load(Ordering::Relaxed);
    // Virtual time hardly passes while records arrive; two minutes of quiet follow.
    assert!(writes <= 10, "{writes} writes of one zone's status");
    let zone = bench.get("DNSZone/example").await.expect("it is there");
    assert_eq!(zone.data["status"]["recordsCount"], 1000);
    let listed = zone.data["status"]["records"].as_array().map(Vec::len);
    assert_eq!(listed, Some(500));
    assert_eq!(bench.lines().len(), 1000);
    // Each was waited for once, and none of them longer than a person would.
    let served = bench.handle().metrics().served_seconds.distribution();
    assert_eq!(served.count, 1000);
    assert!(served.sum < 1000.0, "{served:?}");
}

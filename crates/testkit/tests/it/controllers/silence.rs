//! Servers that do not answer: somebody is told within a second all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bindery_kube::Management;
use bindery_testkit::{FakeNameServer, Fate, Faults, Operation};
use tokio::time::Instant;

use super::bench::{Bench, WWW, ZONE};

/// A server that answers nothing for a long time, from when it is told to.
#[derive(Clone, Default)]
struct Hung(Arc<AtomicBool>);

impl Hung {
    fn hang(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Faults for Hung {
    fn fate(&self, _operation: Operation) -> (Fate, Duration) {
        let hung = self.0.load(Ordering::Relaxed);
        let takes = if hung {
            Duration::from_hours(1)
        } else {
            Duration::ZERO
        };
        (Fate::Pass, takes)
    }
}

async fn bench(hung: &Hung) -> Bench {
    let mut bench = Bench::stopped(Management::Managed).await;
    bench.server = FakeNameServer::new(hung.clone());
    bench.start();
    bench
}

#[tokio::test(start_paused = true)]
async fn a_new_zone_and_a_new_record_have_a_condition_within_a_second() {
    let hung = Hung::default();
    hung.hang();
    let bench = bench(&hung).await;
    let begun = Instant::now();
    bench.create(ZONE).await;
    bench.create(WWW).await;
    bench
        .until("DNSZone/example", "Ready", "-Progressing")
        .await;
    bench.until("ARecord/www", "Ready", "-Progressing").await;
    assert!(begun.elapsed() <= Duration::from_secs(1), "virtual time");
}

#[tokio::test(start_paused = true)]
async fn a_new_record_in_a_zone_whose_server_hangs_has_a_condition_within_a_second() {
    let hung = Hung::default();
    let bench = bench(&hung).await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    hung.hang();
    let begun = Instant::now();
    bench.create(WWW).await;
    bench.until("ARecord/www", "Ready", "-Progressing").await;
    assert!(begun.elapsed() <= Duration::from_secs(1), "virtual time");
}

/// The next process has to know it, should this one end before the server answers.
#[tokio::test(start_paused = true)]
async fn a_zone_whose_servers_are_silent_or_gone_still_tells_its_serial() {
    let hung = Hung::default();
    let mut bench = bench(&hung).await;
    bench.create(ZONE).await;
    bench.until_ready("DNSZone/example").await;
    let told = async |bench: &Bench| {
        let zone = bench.get("DNSZone/example").await.expect("it is there");
        let status = &zone.data["status"];
        let servers = status["servers"].as_array().cloned().unwrap_or_default();
        let serials = servers.into_iter().map(|server| server["serial"].clone());
        let mut all = serials.chain([status["lastSerial"].clone()]);
        all.find_map(|serial| serial.as_u64())
    };
    bench.settle().await;
    let before = told(&bench).await;
    assert!(before.is_some());
    bench.crash().await;
    hung.hang();
    bench.start();
    for _ in 0..40 {
        bench.pass(Duration::from_millis(100)).await;
        assert_eq!(told(&bench).await, before);
    }
    bench.take_servers_out();
    for _ in 0..40 {
        bench.pass(Duration::from_millis(100)).await;
        assert_eq!(told(&bench).await, before);
    }
}

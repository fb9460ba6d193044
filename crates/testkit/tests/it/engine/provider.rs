//! A provider that can do two things, read a zone and apply changes, is enough.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{
    Change, Fault, FaultKind, Group, Kind, Name, Record, RecordSet, Serial, ServerInfo, ServerRole,
    ZoneKey,
    zones::{ClaimStatus, Limits, Receipt, Withdrawal, ZoneContent, ZoneState},
};
use bindery_engine::{
    Engine, Receipts, ServerHandle, Servers, ZoneReceipts,
    ports::{Provider, ZoneSets},
};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{declaration, elsewhere, object, zone};

/// Record sets in memory, behind the two methods that a provider must have.
#[derive(Clone, Default)]
struct Plain {
    sets: Arc<Mutex<ZoneSets>>,
    /// How often the zone was read, and changes applied.
    counts: Arc<Mutex<(usize, usize)>>,
}

impl Plain {
    fn sets(&self) -> MutexGuard<'_, ZoneSets> {
        lock(&self.sets)
    }

    fn counts(&self) -> (usize, usize) {
        *lock(&self.counts)
    }

    fn put(&self, line: &str) {
        let record: Record = line.parse().expect("a record");
        let set = RecordSet::new(record.ttl, [record.data.clone()]);
        self.sets().insert(record.key(), set);
    }

    fn lines(&self) -> Vec<String> {
        let sets = self.sets();
        let lines = sets.iter().flat_map(|(key, set)| {
            let data = set.data().iter();
            data.map(move |data| format!("{} {} {data}", key.name, set.ttl))
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }
}

impl Provider for Plain {
    fn read_zone<'a>(&'a self, _: &'a Name) -> BoxFuture<'a, Result<ZoneSets, Fault>> {
        lock(&self.counts).0 += 1;
        let sets = self.sets().clone();
        Box::pin(std::future::ready(Ok(sets)))
    }

    fn apply<'a>(&'a self, _: &'a Name, changes: &'a [Change]) -> BoxFuture<'a, Result<(), Fault>> {
        lock(&self.counts).1 += 1;
        let mut sets = self.sets();
        let mut content = ZoneContent {
            serial: Serial(0),
            sets: sets.clone(),
        };
        let answer = if changes.iter().all(|change| content.meets(change)) {
            for change in changes {
                content.apply(change);
            }
            *sets = content.sets;
            Ok(())
        } else {
            Err(Fault::new(FaultKind::Conflict, "it is not as expected"))
        };
        Box::pin(std::future::ready(answer))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(provider: &Plain) -> (Engine, Receipts, ZoneReceipts) {
    let info = ServerInfo::at("dns.example.net", ServerRole::Primary);
    let provider = Arc::new(provider.clone());
    let handle = ServerHandle::of_provider(info, provider, Serial(1));
    let servers: Servers = [handle].into_iter().collect();
    let stop = CancellationToken::new();
    let (engine, run) = Engine::start(servers.alone(), Limits::default(), &stop);
    let (events, zones) = (engine.listen(|_| true), engine.listen_zones());
    engine.open();
    tokio::spawn(run);
    engine.declare_zone(&Group::UNNAMED, elsewhere());
    (engine, events, zones)
}

const WWW: &str = "www.example.com. 60 IN A 192.0.2.1";

/// Waits until an object's records are programmed.
async fn programmed(events: &Receipts) -> Serial {
    loop {
        let (_, Receipt { outcomes, .. }) = events.pop().await;
        match outcomes.first().map(|one| &one.status) {
            Some(ClaimStatus::Programmed(serial)) => return *serial,
            status => assert!(
                matches!(status, Some(ClaimStatus::Queued) | None),
                "{status:?}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_of_two_methods_publishes_and_verifies() {
    let provider = Plain::default();
    provider.put("theirs.example.com. 60 IN TXT \"foreign\"");
    let (engine, events, _) = start(&provider);
    engine.declare(declaration("www", WWW));
    programmed(&events).await;
    let lines = [
        "theirs.example.com. 60 \"foreign\"",
        "www.example.com. 60 192.0.2.1",
    ];
    assert_eq!(provider.lines(), lines);
}

#[tokio::test(start_paused = true)]
async fn what_others_do_to_a_provider_of_two_methods_is_mended() {
    let provider = Plain::default();
    let (engine, events, _) = start(&provider);
    engine.declare(declaration("www", WWW));
    programmed(&events).await;
    provider.put("www.example.com. 60 IN A 198.51.100.9");
    provider.put("theirs.example.com. 60 IN TXT \"foreign\"");
    let mended = async {
        while provider.lines().len() != 2 || !provider.lines()[1].ends_with("192.0.2.1") {
            // pause between polls
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let mended = tokio::time::timeout(Duration::from_mins(5), mended).await;
    assert!(mended.is_ok(), "{:?}", provider.lines());
}

#[tokio::test(start_paused = true)]
async fn records_leave_a_provider_of_two_methods_and_so_does_the_zone() {
    let provider = Plain::default();
    provider.put("theirs.example.com. 60 IN TXT \"foreign\"");
    let (engine, events, zones) = start(&provider);
    engine.declare(declaration("www", WWW));
    programmed(&events).await;
    let mut parts = declaration("www", WWW);
    parts[0].1.claims.clear();
    engine.declare(parts);
    loop {
        let (_, receipt) = events.pop().await;
        if receipt.withdrawal == Withdrawal::Done {
            break;
        }
    }
    assert_eq!(provider.lines(), ["theirs.example.com. 60 \"foreign\""]);
    engine.forget(&object(Kind::ARecord, "www"));
    engine.undeclare_zone(ZoneKey {
        name: zone(),
        group: Group::UNNAMED,
    });
    loop {
        let (_, receipt) = zones.pop().await;
        if receipt.state == ZoneState::Gone {
            break;
        }
    }
    assert_eq!(provider.lines(), ["theirs.example.com. 60 \"foreign\""]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_provider_of_two_methods_is_not_read_all_the_time() {
    let provider = Plain::default();
    let (engine, events, _) = start(&provider);
    engine.declare(declaration("www", WWW));
    programmed(&events).await;
    let (reads, writes) = provider.counts();
    // pause between polls
    tokio::time::sleep(Duration::from_mins(10)).await;
    let (later, still) = provider.counts();
    assert!(
        later - reads <= 21,
        "{} reads in ten minutes",
        later - reads
    );
    assert_eq!(still, writes);
}

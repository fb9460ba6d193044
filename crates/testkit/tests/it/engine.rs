//! The engine over a name server in memory.

mod provider;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bindery_core::{
    Adoption, Claim, Declaration, Group, GroupDeclaration, Id, Kind, Name, ObjectRef, Ownership,
    Record, RecordKey, ServerInfo, ServerRole, ZoneKey,
    guard::WritePolicy,
    zones::{
        ClaimStatus, Going, Hosting, Limits, Receipt, SerialFloor, Signing, Tenancy,
        ZoneDeclaration,
    },
};
use bindery_engine::{Engine, Receipts, ServerHandle, Servers, ports::ZoneHost};
use bindery_testkit::nameserver::Absence;
use bindery_testkit::{FakeNameServer, Fate, Faultless, Faults, Operation};
use tokio_util::sync::CancellationToken;

const ZONE: &str = "example.com.";

struct Running {
    engine: Engine,
    events: Receipts,
    server: FakeNameServer,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// An engine on a server with one zone of somebody else's.
fn start(faults: impl Faults) -> Running {
    start_with(faults, &[])
}

fn start_with(faults: impl Faults, followers: &[ServerHandle]) -> Running {
    let server = FakeNameServer::new(faults);
    server.add_zone(&zone(), &[soa()]);
    let leader = Servers::one("192.0.2.53:53", Arc::new(server.clone()), None);
    let servers: Servers = leader.iter().chain(followers).cloned().collect();
    let stop = CancellationToken::new();
    let (engine, run) = Engine::start(servers.alone(), Limits::default(), &stop);
    let events = engine.listen(|_| true);
    engine.open();
    let task = tokio::spawn(run);
    engine.declare_zone(&Group::UNNAMED, elsewhere());
    Running {
        engine,
        events,
        server,
        stop,
        task,
    }
}

/// A zone of somebody else's.
fn elsewhere() -> ZoneDeclaration {
    ZoneDeclaration {
        zone: zone(),
        owner: object(Kind::DnsZone, "example"),
        generation: 1,
        hosting: Hosting::Elsewhere,
        tenancy: Tenancy::Shared,
        writes: WritePolicy::Sync,
        allowed: None,
        serial_floor: SerialFloor::New,
        going: None,
        servers: None,
        signing: Signing::default(),
        noted: None,
    }
}

fn soa() -> Record {
    let line = "example.com. 60 IN SOA ns.example.com. admin.example.com. 1 60 60 60 60";
    line.parse().expect("a record")
}

fn zone() -> Name {
    Name::parse(ZONE).expect("a name")
}

fn object(kind: Kind, name: &str) -> Id {
    Id::new(ObjectRef {
        kind,
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
    })
}

fn declaration(owner: &str, line: &str) -> Vec<GroupDeclaration> {
    let record: Record = line.parse().expect("a record");
    let key = RecordKey {
        name: record.name.clone(),
        rtype: record.data.rtype(),
    };
    let data = vec![record.data.clone()];
    let declaration = Declaration {
        owner: object(Kind::ARecord, owner),
        generation: 1,
        revision: 0,
        since: 1,
        claims: vec![Claim {
            zone: zone(),
            key,
            ttl: record.ttl,
            data: data.into(),
            field: "spec".into(),
        }],
        published: vec![record],
        had: Vec::new(),
        adoption: Adoption::Refuse,
        ownership: Ownership::Object,
        going: Going::Asked,
    };
    vec![(Group::UNNAMED, declaration)]
}

/// The last status of each of `count` objects.
async fn statuses(events: &Receipts, count: usize) -> BTreeMap<String, ClaimStatus> {
    let mut statuses = BTreeMap::new();
    while statuses.len() < count {
        let (owner, Receipt { outcomes, .. }) = events.pop().await;
        statuses.insert(owner.name.to_string(), outcomes[0].status.clone());
    }
    statuses
}

#[tokio::test(start_paused = true)]
async fn one_bad_record_fails_alone() {
    let running = start(Faultless);
    for number in 0..100 {
        let label = if number == 42 {
            "refused".to_owned()
        } else {
            format!("host{number}")
        };
        let line = format!("{label}.example.com. 60 IN A 192.0.2.1");
        running.engine.declare(declaration(&label, &line));
    }
    let statuses = statuses(&running.events, 100).await;
    for (owner, status) in statuses {
        if owner == "refused" {
            let told = matches!(&status, ClaimStatus::Rejected(fault) if fault.message.contains("REFUSED"));
            assert!(told, "{status:?}");
        } else {
            assert!(
                matches!(status, ClaimStatus::Programmed(_)),
                "{owner}: {status:?}"
            );
        }
    }
    assert_eq!(running.server.lines(&zone()).len(), 99);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_committed_together() {
    let running = start(Faultless);
    for number in 0..1_000 {
        let line = format!("host{number}.example.com. 60 IN A 192.0.2.1");
        running
            .engine
            .declare(declaration(&number.to_string(), &line));
    }
    statuses(&running.events, 1_000).await;
    let batches = running.engine.metrics().batches.load(Ordering::Relaxed);
    assert!(
        (2..=3).contains(&batches),
        "{batches} batches for 1,000 sets at 500 each"
    );
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_hangs_delays_nobody() {
    let running = start(Faultless);
    let hanging = running.engine.listen(|_| true);
    for number in 0..50 {
        let line = format!("host{number}.example.com. 60 IN A 192.0.2.1");
        running
            .engine
            .declare(declaration(&number.to_string(), &line));
    }
    statuses(&running.events, 50).await;
    assert_eq!(hanging.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_only_of_what_concerns_it() {
    let running = start(Faultless);
    let endpoints = running
        .engine
        .listen(|owner| owner.kind == Kind::DnsEndpoint);
    running
        .engine
        .declare(declaration("www", "www.example.com. 60 IN A 192.0.2.1"));
    statuses(&running.events, 1).await;
    assert!(endpoints.is_empty());
}

/// Gives each write the next fate of a list, then lets everything pass.
struct Script(Mutex<Vec<Fate>>);

impl Faults for Script {
    fn fate(&self, operation: Operation) -> (Fate, Duration) {
        let mut fates = self.0.lock().expect("no panic under the lock");
        let fate = match operation {
            Operation::Write if !fates.is_empty() => fates.remove(0),
            Operation::Write | Operation::Read => Fate::Pass,
        };
        (fate, Duration::from_millis(1))
    }
}

async fn survives(fates: Vec<Fate>) -> Running {
    let running = start(Script(Mutex::new(fates)));
    running
        .engine
        .declare(declaration("www", "www.example.com. 60 IN A 192.0.2.1"));
    loop {
        let status = statuses(&running.events, 1).await.remove("www");
        if matches!(status, Some(ClaimStatus::Programmed(_))) {
            break;
        }
    }
    assert_eq!(
        running.server.lines(&zone()),
        ["www.example.com. 60 IN A 192.0.2.1"]
    );
    running
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_read_back() {
    let running = survives(vec![Fate::LostAnswer]).await;
    assert_eq!(running.engine.metrics().batches.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_never_arrived_is_sent_again() {
    survives(vec![Fate::LostRequest]).await;
    survives(vec![
        Fate::Unreachable,
        Fate::Unreachable,
        Fate::LostRequest,
    ])
    .await;
}

/// Says when a write has begun, and takes its time.
struct Slow(Arc<AtomicBool>);

impl Faults for Slow {
    fn fate(&self, operation: Operation) -> (Fate, Duration) {
        self.0
            .fetch_or(operation == Operation::Write, Ordering::SeqCst);
        (Fate::Pass, Duration::from_secs(1))
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_the_update_on_its_way() {
    let begun = Arc::new(AtomicBool::new(false));
    let running = start(Slow(Arc::clone(&begun)));
    running
        .engine
        .declare(declaration("www", "www.example.com. 60 IN A 192.0.2.1"));
    while !begun.load(Ordering::SeqCst) {
        tokio::time::advance(Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
    running.stop.cancel();
    running.task.await.expect("the engine does not panic");
    assert_eq!(running.server.lines(&zone()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lacks_a_zone_is_counted_as_behind_until_the_zone_goes() {
    let info = ServerInfo::at("192.0.2.54:53", ServerRole::Secondary);
    let station = ServerHandle {
        info: info.clone(),
        server: Arc::new(FakeNameServer::default()),
        host: None,
    };
    let running = start_with(Faultless, &[station]);
    let becomes = async |count: usize| {
        let wanted = vec![(info.clone(), count)];
        while running.engine.behind() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await; // pause between polls
        }
    };
    let limit = Duration::from_mins(1);
    let grown = tokio::time::timeout(limit, becomes(1)).await;
    grown.expect("it does not have the zone");
    running.engine.undeclare_zone(ZoneKey {
        name: zone(),
        group: Group::UNNAMED,
    });
    let shrunk = tokio::time::timeout(limit, becomes(0)).await;
    shrunk.expect("nobody wants the zone any more");
}

#[tokio::test(start_paused = true)]
async fn a_secondary_that_lacks_a_zone_is_handed_what_the_lead_has() {
    let follower = FakeNameServer::default();
    let station = ServerHandle {
        info: ServerInfo::at("192.0.2.54:53", ServerRole::Secondary),
        server: Arc::new(follower.clone()),
        host: Some(Arc::new(follower.clone())),
    };
    let running = start_with(Faultless, &[station]);
    let handed_over = async {
        while follower.content(&zone()).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await; // pause between polls
        }
    };
    let given = tokio::time::timeout(Duration::from_mins(1), handed_over).await;
    given.expect("it is given the zone");
    assert_eq!(follower.content(&zone()), running.server.content(&zone()));
}

/// The servers that a secondary got its zone from may have led while the leader of now was away.
#[tokio::test(start_paused = true)]
async fn a_secondary_that_lost_its_zone_gets_no_older_one_back() {
    let all = [0, 1, 2].map(|_| FakeNameServer::default());
    let at = |serial: u32| -> Record {
        let line =
            format!("example.com. 60 IN SOA ns.example.net. a.example.net. {serial} 1 1 1 1");
        line.parse().expect("the line is sound")
    };
    for (server, serial) in all.iter().zip([7, 1_008, 1_008]) {
        let host: &dyn ZoneHost = server;
        let made = host.create(&zone(), &[at(serial)]).await;
        made.expect("it answers");
    }
    all[2].lose_zone(&zone());
    let handle = |(index, server): (usize, &FakeNameServer)| ServerHandle {
        info: ServerInfo::at(
            &format!("192.0.2.{}:53", 53 + index),
            [
                ServerRole::Primary,
                ServerRole::Primary,
                ServerRole::Secondary,
            ][index],
        ),
        server: Arc::new(server.clone()),
        host: Some(Arc::new(server.clone())),
    };
    // The one that is given its zone first is named first.
    let order = [0, 2, 1].map(|index| (index, &all[index]));
    let servers: Servers = order.into_iter().map(handle).collect();
    let stop = CancellationToken::new();
    let (engine, run) = Engine::start(servers.alone(), Limits::default(), &stop);
    engine.open();
    let _task = tokio::spawn(run);
    let hosting = Hosting::Served(vec![soa()]);
    let declaration = ZoneDeclaration {
        hosting,
        ..elsewhere()
    };
    engine.declare_zone(&Group::UNNAMED, declaration);
    let given = async {
        while all[2].content(&zone()).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await; // pause between polls
        }
    };
    let given = tokio::time::timeout(Duration::from_mins(1), given).await;
    given.expect("it is given the zone");
    assert_eq!(all[2].rewound(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_zone_goes_from_every_server_that_answers() {
    let all = [0, 1, 2].map(|_| FakeNameServer::default());
    let handle = |(index, server): (usize, &FakeNameServer)| ServerHandle {
        info: ServerInfo::at(&format!("192.0.2.{}:53", 53 + index), ServerRole::Primary),
        server: Arc::new(server.clone()),
        host: Some(Arc::new(server.clone())),
    };
    let servers: Servers = all.iter().enumerate().map(handle).collect();
    let stop = CancellationToken::new();
    let (engine, run) = Engine::start(servers.alone(), Limits::default(), &stop);
    engine.open();
    let _task = tokio::spawn(run);
    let hosting = Hosting::Served(vec![soa()]);
    let declaration = ZoneDeclaration {
        hosting,
        ..elsewhere()
    };
    engine.declare_zone(&Group::UNNAMED, declaration);
    let becomes = async |wanted: [bool; 3]| {
        let have = || [0, 1, 2].map(|index: usize| all[index].content(&zone()).is_some());
        let changed = async {
            while have() != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await; // pause between polls
            }
        };
        tokio::time::timeout(Duration::from_mins(1), changed).await
    };
    becomes([true; 3]).await.expect("all have it");
    all[1].set_absence(Absence::Stopped);
    engine.undeclare_zone(ZoneKey {
        name: zone(),
        group: Group::UNNAMED,
    });
    let gone = becomes([false, true, false]).await;
    gone.expect("one that is stopped keeps none of the others");
    all[1].set_absence(Absence::Present);
    becomes([false; 3]).await.expect("and goes last");
}

#[tokio::test(start_paused = true)]
async fn the_same_serial_by_chance_is_not_taken_for_the_same_zone() {
    let stray = "stray.example.com. 60 IN A 192.0.2.9";
    let follower = FakeNameServer::default();
    follower.add_zone(&zone(), &[soa(), stray.parse().expect("a record")]);
    let station = ServerHandle {
        info: ServerInfo::at("192.0.2.54:53", ServerRole::Primary),
        server: Arc::new(follower.clone()),
        host: None,
    };
    let running = start_with(Faultless, &[station]);
    let www = "www.example.com. 60 IN A 192.0.2.1";
    running.engine.declare(declaration("www", www));
    let statuses = statuses(&running.events, 1).await;
    assert!(
        matches!(statuses["www"], ClaimStatus::Programmed(_)),
        "{statuses:?}"
    );
    assert_eq!(running.server.lines(&zone()), [www]);
    assert_eq!(follower.lines(&zone()), [www]);
}

#[tokio::test(start_paused = true)]
async fn answered_updates_are_measured() {
    let running = start(Faultless);
    running
        .engine
        .declare(declaration("www", "www.example.com. 300 IN A 192.0.2.1"));
    statuses(&running.events, 1).await;
    let metrics = running.engine.metrics();
    assert_eq!(metrics.update_seconds.distribution().count, 1);
    let sets = metrics.update_sets.distribution();
    assert_eq!((sets.count, sets.sum.to_bits()), (1, 1.0_f64.to_bits()));
}

//! Claims that are all known at once: Bindery's engine alone, feeding a server as `nsupdate` does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bindery_core::guard::WritePolicy;
use bindery_core::zones::{
    ClaimStatus, Going, Hosting, Limits, SerialFloor, Signing, Tenancy, ZoneDeclaration, ZoneState,
};
use bindery_core::{
    Adoption, Claim, Declaration, Group, Id, Kind, Name, ObjectRef, Ownership, Record, RecordData,
    RecordKey, RecordType,
};
use bindery_engine::ports::NameServer as _;
use bindery_engine::{Engine, Servers};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::objects::{TTL, address, apex, host};
use crate::subject::Subject;

/// How long all of it may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the engine's counter is looked at.
const POLL: Duration = Duration::from_millis(1);

/// When all claims had come so far, counted from the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fed {
    /// The server has acknowledged every update; every name resolves.
    pub(crate) acknowledged: Duration,
    /// Every record was read back, and every receipt is here.
    pub(crate) verified: Duration,
}

/// Declares `count` claims to an engine of our own and waits until the server has them all.
pub(crate) async fn feed(subject: &Subject, zone: &str, count: usize) -> Result<Fed> {
    let apex = apex(zone)?;
    let stop = CancellationToken::new();
    let servers = Servers::one("", Arc::new(subject.server()?), None);
    let (engine, running) = Engine::start(servers.alone(), Limits::default(), &stop);
    engine.open();
    let running = tokio::spawn(running);
    let declarations = (0..count)
        .map(|number| declaration(zone, &apex, number))
        .collect::<Result<Vec<_>>>()?;
    open(&engine, &apex).await?;

    let receipts = engine.listen(|_| true);
    let begin = Instant::now();
    for declaration in declarations {
        engine.declare(vec![(Group::UNNAMED, declaration)]);
    }
    let acknowledged = async {
        while engine.metrics().sets_sent.load(Ordering::Relaxed) < count as u64 {
            sleep(POLL).await;
        }
        begin.elapsed()
    };
    let verified = async {
        let mut waiting: BTreeSet<Id> = (0..count).map(owner).collect();
        while !waiting.is_empty() {
            let (owner, receipt) = receipts.pop().await;
            let is_done = |status: &ClaimStatus| matches!(status, ClaimStatus::Programmed(_));
            if receipt
                .outcomes
                .iter()
                .all(|outcome| is_done(&outcome.status))
            {
                waiting.remove(&owner);
            }
        }
        begin.elapsed()
    };
    let both = async { tokio::join!(acknowledged, verified) };
    let (acknowledged, verified) = timeout(PATIENCE, both)
        .await
        .context("the engine does not publish all claims")?;
    stop.cancel();
    running.await.context("the engine fell")?;

    let content = subject.server()?.transfer(&apex).await;
    let found = content.context("the zone cannot be transferred")?;
    let records = found.sets.keys().filter(|key| key.rtype == RecordType::A);
    ensure!(records.count() >= count, "not every record is in {apex}");
    Ok(Fed {
        acknowledged,
        verified,
    })
}

/// Declares the zone and waits until the engine has read it.
async fn open(engine: &Engine, apex: &Name) -> Result<()> {
    let events = engine.listen_zones();
    let declaration = ZoneDeclaration {
        zone: apex.clone(),
        owner: object(Kind::DnsZone, 0),
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
    };
    engine.declare_zone(&Group::UNNAMED, declaration);
    engine.open();
    let ready = async { while events.pop().await.1.state != ZoneState::Ready {} };
    timeout(PATIENCE, ready)
        .await
        .with_context(|| format!("the engine cannot read {apex}"))
}

fn owner(number: usize) -> Id {
    object(Kind::ARecord, number)
}

fn object(kind: Kind, number: usize) -> Id {
    Id::new(ObjectRef {
        kind,
        namespace: "default".into(),
        name: format!("r-{number}").into(),
        uid: (&*number.to_string()).into(),
    })
}

fn declaration(zone: &str, apex: &Name, number: usize) -> Result<Declaration> {
    let name = host(zone, &format!("r-{number}"))?;
    let data = RecordData::A(address(number));
    Ok(Declaration {
        owner: owner(number),
        generation: 1,
        revision: 1,
        since: 0,
        claims: vec![Claim {
            zone: apex.clone(),
            key: RecordKey {
                name: name.clone(),
                rtype: RecordType::A,
            },
            ttl: TTL,
            data: [data.clone()].into(),
            field: "spec".into(),
        }],
        published: vec![Record {
            name,
            ttl: TTL,
            data,
        }],
        had: Vec::new(),
        adoption: Adoption::Refuse,
        ownership: Ownership::Object,
        going: Going::Asked,
    })
}

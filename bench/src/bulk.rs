//! All records from nothing: how long until all resolve and all say Ready, and at what price.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_core::{Name, RecordType};
use bindery_dns::Server;
use bindery_engine::ports::NameServer as _;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::figures::amount;
use crate::objects::{self, RECORDS};
use crate::ready::{Awaited, json, wait_until_ready};
use crate::resolver::Resolvers;
use crate::subject::Subject;
use crate::{machine, writes};

/// Concurrent writers.
pub(crate) const WRITERS: usize = 32;
/// How long all of it may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often a zone is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Times since the first write was sent, and prices per record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    /// Until the API had acknowledged all of them.
    pub(crate) written: Duration,
    /// Until a transfer showed all of them.
    pub(crate) resolvable: Duration,
    /// Until a list showed all of them Ready.
    pub(crate) ready: Duration,
    /// Requests to the API per record, the user's own among them, the zone's statuses not.
    pub(crate) requests: f64,
    /// Writes that the API counted per record, by its resource versions.
    pub(crate) versions: f64,
    /// Milliseconds of processor time per record that Bindery needed.
    pub(crate) cpu: f64,
}

/// Creates `count` records in a zone and waits for them.
pub(crate) async fn measure(subject: &Subject, zone: &str, count: usize) -> Result<Bulk> {
    let name = |number: usize| format!("r-{number}");
    let records = (0..count)
        .map(|number| objects::record(zone, &name(number), "bulk", objects::address(number)))
        .collect();
    let selector = format!("zone={zone}");
    let awaited = Awaited {
        path: RECORDS,
        selector: &selector,
        names: (0..count)
            .map(|number| objects::object(zone, &name(number)))
            .collect(),
    };
    let pid = subject.pid()?;
    let requests = requests(subject).await?;
    let version = version(subject).await?;
    let cpu = machine::cpu_seconds(pid)?;
    let begin = Instant::now();
    let written = writes::create(subject.api(), WRITERS, RECORDS, records).await?;
    let (resolvable, ready) = tokio::try_join!(
        resolvable(subject, zone, count),
        wait_until_ready(subject.api(), &awaited)
    )?;
    let cpu = machine::cpu_seconds(pid)? - cpu;
    let requests = self::requests(subject).await? - requests;
    let versions = self::version(subject).await? - version;
    Ok(Bulk {
        written,
        resolvable: resolvable - begin,
        ready: ready - begin,
        requests: 1.0 + requests / amount(count),
        versions: versions / amount(count),
        cpu: cpu * 1000.0 / amount(count),
    })
}

/// The requests of Bindery's own controllers, but for the statuses of zones: a zone is told of all
/// its records together, at most once in a second.
pub(crate) async fn requests(subject: &Subject) -> Result<f64> {
    let all = subject.counter("bindery_api_requests_total").await?;
    let zones = subject
        .counter("bindery_api_zone_status_writes_total")
        .await?;
    Ok(all - zones)
}

/// Waits until every record resolves: cheaply by the last one, then by a transfer of the zone.
pub(crate) async fn resolvable(subject: &Subject, zone: &str, count: usize) -> Result<Instant> {
    let last = objects::host(zone, &format!("r-{}", count - 1))?;
    let mut resolvers = Resolvers::new(subject.addresses())?;
    let seen = spawn_blocking(move || resolvers.wait_for(&last, objects::address(count - 1)));
    seen.await.context("the resolver fell")??;
    let apex = objects::apex(zone)?;
    for server in subject.servers()? {
        wait_for_content(&server, &apex, count).await?;
    }
    Ok(Instant::now())
}

async fn wait_for_content(server: &Server, apex: &Name, count: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let content = server.transfer(apex).await;
        let content = content.context("the zone cannot be transferred")?;
        let is_ours = |name: &[u8]| name.starts_with(b"r-");
        let found = content.sets.keys().filter(|key| {
            key.rtype == RecordType::A && key.name.labels().next().is_some_and(is_ours)
        });
        if found.count() == count {
            return Ok(());
        }
        sleep(POLL).await;
    }
    bail!("not all of {count} records resolve after {PATIENCE:?}")
}

/// The API's resource version, which grows by one with every write.
pub(crate) async fn version(subject: &Subject) -> Result<f64> {
    let mut http = subject.connect().await?;
    let list = json(&http.get("/api/v1/namespaces?limit=1").await?)?;
    let version = list["metadata"]["resourceVersion"].as_str();
    let number = version.and_then(|text| text.parse().ok());
    number.context("the API has no resource version that is a number")
}

//! A declared cluster of two primaries and two secondaries, each a pod: records, zones, pods that crash and
//! servers that come and go.

mod pods;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::sleep;

use self::pods::{Healed, Scaled};
use crate::arguments::{Arguments, Which};
use crate::bulk::{self, Bulk};
use crate::events::{self, Events};
use crate::figures::{amount, milliseconds, seconds};
use crate::many_zones::{self, Added};
use crate::objects;
use crate::report::requests;
use crate::subject::{Fleet, Subject};
use crate::table::{RECORDED, Row};

/// The title of its table.
pub(crate) const TITLE: &str = "bindery up, a cluster of 2 primaries and 2 secondaries as pods";

/// The cluster.
const CLUSTER: &str = "bench";
/// Servers of each role.
const EACH: usize = 2;
/// The zone in which records stand and change.
const ZONE: &str = "main";
/// The zone that gets as many records at once as were recorded of bindy.
const BURST_ZONE: &str = "burst";
const BURST: usize = 300;
/// How long it is watched while nobody asks for anything.
const REST: Duration = Duration::from_secs(10);

/// What was measured.
struct Measured {
    /// From the declaration of the cluster until it says Ready.
    ready: Duration,
    burst: Bulk,
    bulk: Bulk,
    events: Events,
    /// Writes to the API for each event, and in each second in which nobody asks for anything.
    event_writes: f64,
    rest_writes: f64,
    healed: Vec<Healed>,
    grown: Scaled,
    shrunk: Scaled,
    zones: Added,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path) -> Result<Vec<Row>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(vec![Row::new(
            "a cluster of pods",
            "not measured: only root may give pods their addresses",
        )]);
    }
    // The server beside the cluster has nothing to do.
    let fleet = Fleet::one(Which::Builtin);
    let mut subject = Subject::start(binary, fleet, &arguments.folder).await?;
    let begin = Instant::now();
    let mut http = subject.connect().await?;
    let cluster = objects::cluster(CLUSTER, EACH, EACH);
    http.create(objects::CLUSTERS, &cluster).await?;
    pods::wait_until_ready(&mut http, CLUSTER, 2 * EACH).await?;
    let ready = begin.elapsed();
    let servers = pods::servers(&mut http, CLUSTER).await?;
    subject.adopt(CLUSTER, servers);

    let labels = [ZONE, BURST_ZONE].map(str::to_owned);
    subject.add_zones(&labels).await?;
    let burst = bulk::measure(&subject, BURST_ZONE, BURST.min(arguments.records)).await?;
    let bulk = bulk::measure(&subject, ZONE, arguments.records).await?;
    let before = bulk::version(&subject).await?;
    sleep(REST).await;
    let rest_writes = (bulk::version(&subject).await? - before) / REST.as_secs_f64();
    let before = bulk::version(&subject).await?;
    let events = events::measure(&subject, ZONE, "event", arguments.events).await?;
    let event_writes = (bulk::version(&subject).await? - before) / amount(arguments.events);
    let mut healed = Vec::new();
    for pod in [
        "secondary-1-0",
        "primary-1-0",
        "secondary-0-0",
        "primary-0-0",
    ] {
        let pod = format!("{CLUSTER}-{pod}");
        healed.push(pods::kill(&subject, CLUSTER, &pod, ZONE).await?);
    }
    let grown = pods::scale(&subject, CLUSTER, (EACH, EACH + 1)).await?;
    let shrunk = pods::scale(&subject, CLUSTER, (EACH, EACH)).await?;
    let labels = many_zones::labels("zone", arguments.new_zones);
    let zones = many_zones::add(&subject, &labels).await?;
    subject.stop().await?;
    let measured = Measured {
        ready,
        burst,
        bulk,
        events,
        event_writes,
        rest_writes,
        healed,
        grown,
        shrunk,
        zones,
    };
    Ok(measured.rows(arguments))
}

impl Measured {
    fn rows(&self, arguments: &Arguments) -> Vec<Row> {
        let count = arguments.records;
        let all = &self.events.resolvable.all;
        let ready = &self.events.ready;
        let what = format!("write acknowledged → served by all four, {count} standing");
        let mut rows = vec![
            Row::new("cluster declared → Ready", seconds(self.ready)),
            Row::new(format!("{what}, p50"), milliseconds(all.p50())),
            Row::new(format!("{what}, p99"), milliseconds(all.p99())),
            Row::new(
                "write acknowledged → Ready, verified on all four, p50",
                milliseconds(ready.p50()),
            ),
            Row::new(
                "write acknowledged → Ready, verified on all four, p99",
                milliseconds(ready.p99()),
            ),
        ];
        rows.extend(self.bulk_rows(count));
        rows.push(Row::new(
            "API writes per event, one after the other, and per second at rest",
            format!("{:.2}; {:.2}", self.event_writes, self.rest_writes),
        ));
        rows.extend(self.healed.iter().flat_map(healed));
        rows.extend(scaled("a third secondary", &self.grown));
        rows.extend(scaled("the third secondary goes", &self.shrunk));
        let (zones, added) = (arguments.new_zones, &self.zones);
        rows.extend([
            Row::new(
                format!("{zones} zones added → served by the first primary"),
                seconds(added.on_primary),
            ),
            Row::new("… → served by all four", seconds(added.on_all)),
            Row::new("… → all Ready", seconds(added.ready)),
            Row::new(
                "… processor time of bindery per zone",
                format!("{:.3} ms", added.cpu),
            ),
        ]);
        rows
    }

    fn bulk_rows(&self, count: usize) -> Vec<Row> {
        let (bulk, burst) = (&self.bulk, &self.burst);
        let recorded = |text: &str| format!("{RECORDED} bindy v0.8.0-rc.2, 3 primaries: {text}");
        let what = format!("{} records at once", BURST.min(count));
        vec![
            Row::new(
                format!("{what} → served by all four"),
                seconds(burst.resolvable),
            )
            .beside(recorded("152 of 300 after 600 s"), ""),
            Row::new(format!("{what} → all Ready"), seconds(burst.ready)),
            Row::new(
                format!("{what}: API requests per record"),
                format!("{:.2}", burst.requests),
            )
            .beside(recorded("25582 requests, 85 per record"), ""),
            Row::new(
                format!("{count} records from nothing → served by all four"),
                seconds(bulk.resolvable),
            ),
            Row::new(
                format!("{count} records from nothing → all Ready"),
                seconds(bulk.ready),
            ),
            requests(bulk.requests),
            Row::new(
                "API writes per added record, by resource versions",
                format!("{:.2}", bulk.versions),
            ),
            Row::new(
                "processor time of bindery per record",
                format!("{:.3} ms", bulk.cpu),
            ),
        ]
    }
}

fn healed(healed: &Healed) -> [Row; 2] {
    let pod = &healed.pod;
    let told = healed.told.map_or_else(|| "never".to_owned(), seconds);
    [
        Row::new(
            format!("kill -9 of named in {pod} → a condition tells; all true again"),
            format!("{told}; {}", seconds(healed.whole)),
        ),
        Row::new(
            "… it serves again; API writes",
            format!("{}; {:.0}", seconds(healed.back), healed.writes),
        ),
    ]
}

fn scaled(what: &str, scaled: &Scaled) -> [Row; 1] {
    [Row::new(
        format!("{what} → the cluster is Ready; API writes"),
        format!("{}; {:.0}", seconds(scaled.time), scaled.writes),
    )]
}

//! What one event costs with few zones and records standing, and with many.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::sleep;

use crate::arguments::{Arguments, Which};
use crate::bulk::WRITERS;
use crate::events::{self, Events};
use crate::figures::{Times, amount, ratio, seconds, spent};
use crate::objects::{self, RECORDS};
use crate::ready::{Awaited, wait_until_ready};
use crate::report::percentiles;
use crate::subject::{Fleet, Subject};
use crate::table::Row;
use crate::{machine, many_zones, peer, writes};

/// The zone that `nsupdate` writes to.
const PEER_ZONE: &str = "peer";
/// How zones, and the records that stand, are called and labelled.
const PART: &str = "standing";
/// The small size.
const SMALL: Size = Size {
    zones: 10,
    records: 100,
};
/// Records to a zone at the large size.
const RECORDS_PER_ZONE: usize = 10;
/// How often as dear an event may be at the large size.
const GROWTH_MAX: f64 = 2.0;
/// How long a server at rest is watched.
const REST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
struct Size {
    zones: usize,
    records: usize,
}

/// What one size gave.
struct Cost {
    size: Size,
    events: Events,
    /// Milliseconds of processor time per event.
    cpu: f64,
    /// Milliseconds of processor time per second without events.
    rest: f64,
    nsupdate: Times,
}

/// How long it took to become so large.
struct Grown {
    zones: Duration,
    records: Duration,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let large = Size {
        zones: arguments.zones,
        records: arguments.zones * RECORDS_PER_ZONE,
    };
    let nothing = Size {
        zones: 0,
        records: 0,
    };
    let mut subject = Subject::start(binary, Fleet::one(which), &arguments.folder).await?;
    subject.add_zones(&[PEER_ZONE.to_owned()]).await?;
    grow(&subject, nothing, SMALL).await?;
    let few = measure(&subject, SMALL, "few", arguments).await?;
    let grown = grow(&subject, SMALL, large).await?;
    let many = measure(&subject, large, "many", arguments).await?;
    subject.stop().await?;
    Ok(lines(&few, &many, &grown))
}

/// Adds zones, then records, each time until all are Ready.
async fn grow(subject: &Subject, from: Size, to: Size) -> Result<Grown> {
    let labels = many_zones::labels(PART, to.zones);
    let zones = many_zones::add(subject, &labels[from.zones..]).await?;
    let zone = |number: usize| labels[number % labels.len()].as_str();
    let name = |number: usize| format!("r-{number}");
    let records = (from.records..to.records)
        .map(|number| {
            let address = objects::address(number);
            objects::record(zone(number), &name(number), PART, address)
        })
        .collect();
    let awaited = Awaited {
        path: RECORDS,
        selector: "part=standing",
        names: (from.records..to.records)
            .map(|number| objects::object(zone(number), &name(number)))
            .collect(),
    };
    let begin = Instant::now();
    writes::create(subject.api(), WRITERS, RECORDS, records).await?;
    let ready = wait_until_ready(subject.api(), &awaited).await?;
    Ok(Grown {
        zones: zones.ready,
        records: ready - begin,
    })
}

async fn measure(subject: &Subject, size: Size, part: &str, arguments: &Arguments) -> Result<Cost> {
    let pid = subject.pid()?;
    let before = machine::cpu_seconds(pid)?;
    sleep(REST).await;
    let rest = (machine::cpu_seconds(pid)? - before) * 1000.0 / REST.as_secs_f64();
    let zone = &many_zones::labels(PART, 1)[0];
    let before = machine::cpu_seconds(pid)?;
    let events = events::measure(subject, zone, part, arguments.events).await?;
    let cpu = (machine::cpu_seconds(pid)? - before) * 1000.0 / amount(arguments.events);
    let nsupdate = peer::single_nsupdates(subject, PEER_ZONE, part, arguments.singles()).await?;
    Ok(Cost {
        size,
        events,
        cpu,
        rest,
        nsupdate: nsupdate.first,
    })
}

fn lines(few: &Cost, many: &Cost, grown: &Grown) -> Vec<Row> {
    let mut rows = Vec::new();
    for cost in [few, many] {
        let Size { zones, records } = cost.size;
        let what = format!("write acknowledged → resolvable, {zones} zones, {records} records");
        rows.extend(percentiles(
            &what,
            &cost.events.resolvable.first,
            ("nsupdate", &cost.nsupdate),
        ));
    }
    let resolvable = |cost: &Cost| (cost.events.resolvable.first.p50(), cost.nsupdate.p50());
    let ((ours, peer), (ours_many, peer_many)) = (resolvable(few), resolvable(many));
    let limited = |row: Row, growth: f64| row.budget("≤ 2 times", growth / GROWTH_MAX);
    let times = |text: String| format!("{text} times");
    rows.push(limited(
        Row::new(
            "the larger to the smaller, p50",
            times(ratio(ours_many, ours)),
        )
        .beside(format!("nsupdate {}", times(ratio(peer_many, peer))), ""),
        spent(ours_many, ours),
    ));
    let tail = |cost: &Cost| cost.events.resolvable.first.p99();
    rows.push(Row::new(
        "the larger to the smaller, p99",
        times(ratio(tail(many), tail(few))),
    ));
    let (zones, records) = (many.size.zones, many.size.records);
    rows.push(limited(
        Row::new(
            "processor time of bindery per event, few and many",
            format!("{:.2} ms, {:.2} ms", few.cpu, many.cpu),
        ),
        many.cpu / few.cpu,
    ));
    rows.push(Row::new(
        "processor time of bindery per second at rest, few and many",
        format!("{:.1} ms, {:.1} ms", few.rest, many.rest),
    ));
    rows.push(Row::new(
        format!("{zones} zones declared → all Ready"),
        seconds(grown.zones),
    ));
    rows.push(Row::new(
        format!("{records} objects in them from nothing → all Ready"),
        seconds(grown.records),
    ));
    rows
}

//! From what was measured to the lines of the table, beside peers and budgets.

use std::time::Duration;

use crate::arguments::Arguments;
use crate::bulk::Bulk;
use crate::events::Events;
use crate::figures::{Times, milliseconds, ratio, seconds, spent};
use crate::table::Row;

/// Everything that was measured on one name server.
pub(crate) struct Measured {
    pub(crate) writes: Writes,
    pub(crate) bulk: Bulk,
    pub(crate) memory: Memory,
    pub(crate) singles: Singles,
    pub(crate) restarts: Restarts,
    pub(crate) claims: Claims,
}

/// Small objects created per second.
pub(crate) struct Writes {
    pub(crate) one: f64,
    pub(crate) many: f64,
}

/// Resident memory in MiB.
pub(crate) struct Memory {
    pub(crate) bindery: f64,
    pub(crate) named: Option<f64>,
}

/// Single records, ours and the peers'.
pub(crate) struct Singles {
    pub(crate) events: Events,
    pub(crate) nsupdate: Times,
    pub(crate) floor: Times,
}

/// From the start of the process until all resolve.
pub(crate) struct Restarts {
    pub(crate) kept: Duration,
    pub(crate) lost: Duration,
}

/// All records known at once.
pub(crate) struct Claims {
    pub(crate) acknowledged: Duration,
    pub(crate) verified: Duration,
    /// By records per message.
    pub(crate) nsupdate: Vec<(usize, Duration)>,
}

/// The budgets, for the full number of records.
const EVENT_P50: Duration = Duration::from_millis(5);
const EVENT_P99: Duration = Duration::from_millis(25);
const ALL_READY: Duration = Duration::from_secs(5);
const REQUESTS_MAX: f64 = 3.0;

/// Two lines, median and 99th percentile, beside those of a peer.
pub(crate) fn percentiles(what: &str, ours: &Times, (who, peer): (&str, &Times)) -> [Row; 2] {
    let line = |label: &str, ours: Duration, peer: Duration| {
        Row::new(format!("{what}, {label}"), milliseconds(ours))
            .beside(format!("{who} {}", milliseconds(peer)), ratio(ours, peer))
    };
    [
        line("p50", ours.p50(), peer.p50()),
        line("p99", ours.p99(), peer.p99()),
    ]
}

/// The line about requests to the API.
pub(crate) fn requests(per_record: f64) -> Row {
    let what = "API requests per record until Ready";
    Row::new(what, format!("{per_record:.2}"))
        // A watch that is renewed in this time is no request of any record.
        .budget("≤ 3", per_record / (REQUESTS_MAX + 0.005))
}

/// The lines of the table.
pub(crate) fn rows(arguments: &Arguments, measured: &Measured) -> Vec<Row> {
    let count = arguments.records;
    let mut rows = singles(count, &measured.singles);
    rows.extend(bulk(count, &measured.bulk));
    rows.extend(claims(count, &measured.claims));
    let restarts = &measured.restarts;
    rows.push(Row::new(
        format!("start → all {count} resolvable"),
        seconds(restarts.kept),
    ));
    rows.push(Row::new(
        format!("start with an emptied name server → all {count} resolvable"),
        seconds(restarts.lost),
    ));
    rows.push(Row::new(
        "ConfigMaps created per second, 1 writer",
        format!("{:.0}", measured.writes.one),
    ));
    rows.push(Row::new(
        "ConfigMaps created per second, 32 writers",
        format!("{:.0}", measured.writes.many),
    ));
    rows.push(memory(count, &measured.memory));
    rows
}

fn singles(count: usize, singles: &Singles) -> Vec<Row> {
    let Singles {
        events,
        nsupdate,
        floor,
    } = singles;
    let what = format!("write acknowledged → resolvable, {count} standing");
    let beside = |row: Row, ours: Duration, peer: Duration| {
        let peer_text = format!("nsupdate {}", milliseconds(peer));
        row.beside(peer_text, ratio(ours, peer))
    };
    let (p50, p99) = (events.resolvable.first.p50(), events.resolvable.first.p99());
    let (peer_p50, peer_p99) = (nsupdate.p50(), nsupdate.p99());
    let kept = |time: Duration| format!("kept connection {}", milliseconds(time));
    vec![
        beside(
            Row::new(format!("{what}, p50"), milliseconds(p50)),
            p50,
            peer_p50,
        )
        .budget("≤ 5 ms", spent(p50, EVENT_P50)),
        beside(
            Row::new(format!("{what}, p99"), milliseconds(p99)),
            p99,
            peer_p99,
        )
        .budget("≤ 25 ms", spent(p99, EVENT_P99)),
        Row::new("the same from before the write, p50", {
            milliseconds(events.write.p50() + p50)
        })
        .beside(
            kept(floor.p50()),
            ratio(events.write.p50() + p50, floor.p50()),
        ),
        Row::new(
            "write acknowledged → Ready, p50",
            milliseconds(events.ready.p50()),
        ),
        Row::new(
            "write acknowledged → Ready, p99",
            milliseconds(events.ready.p99()),
        ),
        Row::new("the write itself, p50", milliseconds(events.write.p50())),
        Row::new("the write itself, p99", milliseconds(events.write.p99())),
    ]
}

fn bulk(count: usize, bulk: &Bulk) -> Vec<Row> {
    let done = bulk.resolvable.max(bulk.ready);
    vec![
        Row::new(
            format!("{count} objects from nothing → all written"),
            seconds(bulk.written),
        ),
        Row::new(
            format!("{count} objects from nothing → all resolvable"),
            seconds(bulk.resolvable),
        ),
        Row::new(
            format!("{count} objects from nothing → all resolvable and Ready"),
            seconds(done),
        )
        .budget("≤ 5 s", spent(done, ALL_READY)),
        requests(bulk.requests),
        Row::new(
            "API writes per record, by resource versions",
            format!("{:.2}", bulk.versions),
        ),
        Row::new(
            "processor time of bindery per record",
            format!("{:.3} ms", bulk.cpu),
        ),
    ]
}

fn claims(count: usize, claims: &Claims) -> Vec<Row> {
    let best = claims.nsupdate.iter().min_by_key(|(_, time)| *time);
    let (batch, peer) = best.copied().unwrap_or_default();
    let peer_text = format!("nsupdate, {batch} a message: {}", seconds(peer));
    let others: Vec<String> = claims
        .nsupdate
        .iter()
        .map(|(batch, time)| format!("{batch}: {}", seconds(*time)))
        .collect();
    vec![
        Row::new(
            format!("{count} claims known → all resolvable"),
            seconds(claims.acknowledged),
        )
        .beside(peer_text.clone(), ratio(claims.acknowledged, peer))
        .budget("faster than nsupdate", spent(claims.acknowledged, peer)),
        Row::new(
            format!("{count} claims known → all read back"),
            seconds(claims.verified),
        )
        .beside(peer_text, ratio(claims.verified, peer)),
        Row::new("nsupdate by records in a message", others.join(", ")),
    ]
}

fn memory(count: usize, memory: &Memory) -> Row {
    let row = Row::new(
        format!("resident memory of bindery, {count} standing"),
        format!("{:.0} MiB", memory.bindery),
    );
    match memory.named {
        Some(named) => row.beside(
            format!("named {named:.0} MiB"),
            format!("{:.2}", memory.bindery / named),
        ),
        None => row,
    }
}

//! One primary and two secondaries: single records on a full zone, until all three have them.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::arguments::{Arguments, Which};
use crate::bulk::{self, Bulk};
use crate::events::{self, Events};
use crate::figures::{Spread, milliseconds, seconds, spent};
use crate::peer;
use crate::report::percentiles;
use crate::subject::{Fleet, Subject};
use crate::table::Row;

/// The flags of `up` that make these servers.
pub(crate) const FLAGS: &str = " --primaries 1 --secondaries 2";

/// The zone whose records are objects.
const ZONE: &str = "main";
/// The zone that `nsupdate` writes to, as full as ours.
const PEER_ZONE: &str = "peer";
/// Records in a message of the `nsupdate` that fills its zone.
const BATCH: usize = 500;
/// The budget for Ready, which is said when all three were seen to have the record.
const VERIFIED_P99: Duration = Duration::from_millis(100);

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let count = arguments.records;
    let fleet = Fleet {
        which,
        primaries: 1,
        secondaries: 2,
    };
    let mut subject = Subject::start(binary, fleet, &arguments.folder).await?;
    subject
        .add_zones(&[ZONE.to_owned(), PEER_ZONE.to_owned()])
        .await?;
    let bulk = bulk::measure(&subject, ZONE, count).await?;
    peer::feed(&subject, subject.dns(), PEER_ZONE, 0..count, BATCH).await?;
    bulk::resolvable(&subject, PEER_ZONE, count).await?;
    let events = events::measure(&subject, ZONE, "event", arguments.events).await?;
    let singles = arguments.singles();
    let nsupdate = peer::single_nsupdates(&subject, PEER_ZONE, "nsupdate", singles).await?;
    let floor = peer::single_updates(&subject, PEER_ZONE, singles).await?;
    subject.stop().await?;
    Ok(lines(count, &bulk, &events, (&nsupdate, &floor)))
}

fn lines(
    count: usize,
    bulk: &Bulk,
    events: &Events,
    (nsupdate, floor): (&Spread, &Spread),
) -> Vec<Row> {
    let first = format!("write acknowledged → resolvable on the primary, {count} standing");
    let all = "write acknowledged → resolvable on all three";
    let verified = "write acknowledged → Ready, verified on all three";
    let on_first = ("nsupdate", &nsupdate.first);
    let on_all = ("nsupdate", &nsupdate.all);
    let kept = ("kept connection", &floor.all);
    let [verified_p50, verified_p99] = percentiles(verified, &events.ready, on_all);
    let mut rows = Vec::new();
    rows.extend(percentiles(&first, &events.resolvable.first, on_first));
    rows.extend(percentiles(all, &events.resolvable.all, on_all));
    rows.extend(percentiles(all, &events.resolvable.all, kept));
    rows.push(verified_p50);
    rows.push(verified_p99.budget("≤ 100 ms", spent(events.ready.p99(), VERIFIED_P99)));
    rows.push(Row::new(
        "the write itself, p50",
        milliseconds(events.write.p50()),
    ));
    rows.push(Row::new(
        format!("{count} objects from nothing → all resolvable on all three"),
        seconds(bulk.resolvable),
    ));
    rows.push(Row::new(
        format!("{count} objects from nothing → all Ready, verified on all three"),
        seconds(bulk.ready),
    ));
    rows
}

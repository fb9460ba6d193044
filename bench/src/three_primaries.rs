//! Three primaries that all take updates: a few hundred records from nothing, and what that costs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;

use crate::arguments::{Arguments, Which};
use crate::bulk::{self, Bulk};
use crate::figures::{Times, amount, ratio, seconds};
use crate::ready::{Awaited, wait_until_ready};
use crate::report;
use crate::rndc::Rndc;
use crate::subject::{Fleet, Subject};
use crate::table::Row;
use crate::{objects, peer};

/// The flags of `up` that make these servers.
pub(crate) const FLAGS: &str = " --primaries 3";

/// Records in a round.
const COUNT: usize = 300;
const SERVERS: u16 = 3;

/// What the rounds gave.
#[derive(Default)]
struct Measured {
    resolvable: Times,
    ready: Times,
    requests_per_record: f64,
    /// UPDATE messages per round that each server received; `named` counts them.
    updates: Vec<f64>,
    /// `nsupdate`, one process and message for each server.
    together: Times,
    /// `nsupdate`, one process for each record and server.
    singly: Times,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let fleet = Fleet {
        which,
        primaries: SERVERS,
        secondaries: 0,
    };
    let mut subject = Subject::start(binary, fleet, &arguments.folder).await?;
    let controls = match which {
        Which::Named => (0..usize::from(SERVERS))
            .map(|number| Rndc::of(&subject.server_folder(number)))
            .collect::<Result<_>>()?,
        Which::Builtin => Vec::new(),
    };
    let mut measured = Measured {
        updates: vec![0.0; controls.len()],
        ..Measured::default()
    };
    for round in 0..arguments.rounds {
        let zones = zones_of(round);
        subject.add_zones(&zones).await?;
        // What is written about the zones is not for the records.
        let every_zone = Awaited {
            path: objects::ZONES,
            selector: objects::ALL_ZONES,
            names: (0..=round).flat_map(zones_of).collect(),
        };
        wait_until_ready(subject.api(), &every_zone).await?;
        let [ours, together, singly] = &zones;
        let before = fetch_updates(&controls).await?;
        let bulk: Bulk = bulk::measure(&subject, ours, COUNT).await?;
        let after = fetch_updates(&controls).await?;
        for (sum, (before, after)) in measured.updates.iter_mut().zip(before.iter().zip(after)) {
            *sum += (after - before) / amount(arguments.rounds);
        }
        measured.resolvable.push(bulk.resolvable);
        measured.ready.push(bulk.ready.max(bulk.resolvable));
        measured.requests_per_record = measured.requests_per_record.max(bulk.requests);
        measured
            .together
            .push(feed(&subject, together, COUNT).await?);
        measured.singly.push(feed(&subject, singly, 1).await?);
    }
    subject.stop().await?;
    Ok(lines(&measured))
}

fn zones_of(round: usize) -> [String; 3] {
    ["main", "together", "singly"].map(|part| format!("{part}-{round}"))
}

async fn fetch_updates(controls: &[Rndc]) -> Result<Vec<f64>> {
    try_join_all(controls.iter().map(Rndc::fetch_updates)).await
}

/// All records to all servers by processes that are given `batch` records each; one process at a
/// time for each server.
async fn feed(subject: &Subject, zone: &str, batch: usize) -> Result<Duration> {
    let begin = Instant::now();
    let feeding = subject.addresses().iter().map(|server| async move {
        for from in (0..COUNT).step_by(batch) {
            peer::feed(subject, *server, zone, from..from + batch, batch).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(feeding).await?;
    Ok(begin.elapsed())
}

fn lines(measured: &Measured) -> Vec<Row> {
    let (resolvable, ready) = (measured.resolvable.p50(), measured.ready.p50());
    let (together, singly) = (measured.together.p50(), measured.singly.p50());
    let in_all = measured.requests_per_record * amount(COUNT);
    let mut rows = vec![
        Row::new(
            format!("{COUNT} ARecords from nothing → all resolvable on all three"),
            seconds(resolvable),
        )
        .beside(
            format!("nsupdate, a message for each server: {}", seconds(together)),
            ratio(resolvable, together),
        ),
        Row::new(
            format!("{COUNT} ARecords from nothing → resolvable and Ready"),
            seconds(ready),
        )
        .beside(
            format!("nsupdate, a process for each record: {}", seconds(singly)),
            ratio(ready, singly),
        ),
        report::requests(measured.requests_per_record),
        Row::new("API requests in all", format!("{in_all:.0}")),
    ];
    if !measured.updates.is_empty() {
        let counts: Vec<String> = measured
            .updates
            .iter()
            .map(|count| format!("{count:.1}"))
            .collect();
        rows.push(
            Row::new("UPDATE messages to each server", counts.join(", "))
                .beside(format!("nsupdate 1 or {COUNT}"), String::new()),
        );
    }
    rows
}

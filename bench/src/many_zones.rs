//! A thousand zones added at once: to one server beside `rndc addzone`, and to three.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::arguments::{Arguments, Which};
use crate::bulk::WRITERS;
use crate::figures::{amount, milliseconds, ratio, seconds, spent};
use crate::ready::{Awaited, wait_until_ready, wait_until_served};
use crate::rndc::Rndc;
use crate::subject::{Fleet, Subject};
use crate::table::Row;
use crate::{machine, objects, writes};

/// The budgets for a thousand zones.
const ON_PRIMARY: Duration = Duration::from_secs(2);
const MORE_ON_SECONDARIES: Duration = Duration::from_secs(3);

/// Times since the first zone was declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added {
    /// Until the primary served all.
    pub(crate) on_primary: Duration,
    /// Until every server served all.
    pub(crate) on_all: Duration,
    /// Until all objects said Ready.
    pub(crate) ready: Duration,
    /// Milliseconds of processor time that Bindery needed for one.
    pub(crate) cpu: f64,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let count = arguments.new_zones;
    let mut one = Subject::start(binary, Fleet::one(which), &arguments.folder).await?;
    let ours = labels("zone", count);
    let added = add(&one, &ours).await?;
    let peer = match which {
        Which::Named => Some(add_by_rndc(&one, &labels("rndc", count)).await?),
        Which::Builtin => None,
    };
    one.stop().await?;

    let fleet = Fleet {
        which,
        primaries: 1,
        secondaries: 2,
    };
    let mut three = Subject::start(binary, fleet, &arguments.folder).await?;
    let spread = add(&three, &ours).await?;
    three.stop().await?;
    Ok(lines(count, added, peer, spread))
}

/// Declares zones, which are the first ones or come after others, and waits for them.
pub(crate) async fn add(subject: &Subject, labels: &[String]) -> Result<Added> {
    let zones = labels.iter();
    let zones = zones
        .map(|label| objects::zone_on(label, subject.cluster()))
        .collect();
    let awaited = Awaited {
        path: objects::ZONES,
        selector: objects::ALL_ZONES,
        names: labels.to_vec(),
    };
    let (first, all) = ([subject.server()?], subject.servers()?);
    let pid = subject.pid()?;
    let cpu = machine::cpu_seconds(pid)?;
    let begin = Instant::now();
    let declared = async {
        writes::create(subject.api(), WRITERS, objects::ZONES, zones).await?;
        wait_until_ready(subject.api(), &awaited).await
    };
    let (ready, on_primary, on_all) = tokio::try_join!(
        declared,
        wait_until_served(&first, labels),
        wait_until_served(&all[1..], labels),
    )?;
    let cpu = machine::cpu_seconds(pid)? - cpu;
    Ok(Added {
        on_primary: on_primary - begin,
        on_all: on_primary.max(on_all) - begin,
        ready: ready - begin,
        cpu: cpu * 1000.0 / amount(labels.len()),
    })
}

/// Labels of zones.
pub(crate) fn labels(part: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{part}-{number}"))
        .collect()
}

/// One `rndc addzone` after the other, with files as short as those of ours.
async fn add_by_rndc(subject: &Subject, labels: &[String]) -> Result<Duration> {
    let rndc = Rndc::of(&subject.server_folder(0))?;
    let servers = [subject.server()?];
    let begin = Instant::now();
    for label in labels {
        let mut lines = String::new();
        let apex = format!("{label}.test.");
        writeln!(
            lines,
            "{apex} 300 SOA ns.{apex} hostmaster.{apex} 1 7200 900 1209600 300\n\
             {apex} 300 NS ns.{apex}\nns.{apex} 300 A 192.0.2.53"
        )
        .context("no room")?;
        rndc.add_zone(&apex, &lines).await?;
    }
    Ok(wait_until_served(&servers, labels).await? - begin)
}

fn lines(count: usize, one: Added, peer: Option<Duration>, three: Added) -> Vec<Row> {
    let each = |time: Duration| milliseconds(time.div_f64(amount(count)));
    let beside = |row: Row, ours: Duration| match peer {
        Some(peer) => row.beside(
            format!("rndc addzone {}, {} each", seconds(peer), each(peer)),
            ratio(ours, peer),
        ),
        None => row,
    };
    // The budgets are for a thousand.
    let budget = |row: Row, time: Duration, thousand: Duration| {
        let bar = thousand.mul_f64(amount(count) / 1000.0);
        row.budget(format!("≤ {}", seconds(bar)), spent(time, bar))
    };
    let more = three.on_all.saturating_sub(three.on_primary);
    vec![
        budget(
            beside(
                Row::new(
                    format!("{count} zones added → all served by one server"),
                    format!("{}, {} each", seconds(one.on_primary), each(one.on_primary)),
                ),
                one.on_primary,
            ),
            one.on_primary,
            ON_PRIMARY,
        ),
        beside(
            Row::new(
                format!("{count} zones added → all Ready"),
                format!("{}, {} each", seconds(one.ready), each(one.ready)),
            ),
            one.ready,
        ),
        Row::new(
            "processor time of bindery per zone",
            format!("{:.3} ms", one.cpu),
        ),
        budget(
            Row::new(
                format!("{count} zones, 1 primary and 2 secondaries → served by the primary"),
                seconds(three.on_primary),
            ),
            three.on_primary,
            ON_PRIMARY,
        ),
        budget(
            Row::new("… → served by all three, so much later", seconds(more)),
            more,
            MORE_ON_SECONDARIES,
        ),
        Row::new("… → all Ready", seconds(three.ready)),
    ]
}

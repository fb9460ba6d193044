//! Many objects that stand: what each takes in memory and on disk, and what a restart costs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::time::sleep;

use crate::arguments::{Arguments, Which};
use crate::bulk::WRITERS;
use crate::figures::{amount, seconds, spent};
use crate::objects::{self, RECORDS};
use crate::subject::{Fleet, Loss, Subject};
use crate::table::Row;
use crate::{machine, many_zones, writes};

/// How zones and records are called and labelled.
const PART: &str = "standing";
/// Records to a zone.
const RECORDS_PER_ZONE: usize = 50;
/// How many times as many records the large size has.
const STEP: usize = 10;
/// How much longer than the number of objects grows a restart may take longer.
const GROWTH_MAX: f64 = 1.5;
/// How many times its size at rest the process may have while it starts.
const HIGHEST_MAX: f64 = 2.0;
/// Bytes of memory, and of disk, that a record may take.
const RECORD_BYTES_MAX: f64 = 3_500.0;
/// After this a process that is told nothing has put its memory in order.
const REST: Duration = Duration::from_secs(10);
/// How long all of it may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(30);
const POLL: Duration = Duration::from_millis(200);
/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

/// What one size gave.
struct Size {
    records: usize,
    /// Bytes of resident memory when all were Ready.
    memory: f64,
    /// Bytes of the store.
    disk: f64,
    restart: Restart,
}

/// A restart on data that stands.
struct Restart {
    /// Until it said that it was ready.
    ready: Duration,
    /// Seconds of processor time until then.
    cpu: f64,
    /// Bytes of resident memory, at rest and at the highest.
    memory: f64,
    highest: f64,
}

/// Measures and tells.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let large = arguments.standing_records;
    let small = (large / STEP).max(1);
    let mut subject = Subject::start(binary, Fleet::one(which), &arguments.folder).await?;
    let few = measure(&mut subject, 0, small).await?;
    let many = measure(&mut subject, small, large).await?;
    subject.stop().await?;
    Ok(lines(&few, &many))
}

async fn measure(subject: &mut Subject, from: usize, to: usize) -> Result<Size> {
    let zones = |records: usize| records.div_ceil(RECORDS_PER_ZONE);
    let labels = many_zones::labels(PART, zones(to));
    many_zones::add(subject, &labels[zones(from)..]).await?;
    let records = (from..to)
        .map(|number| {
            let (zone, name) = (&labels[number / RECORDS_PER_ZONE], format!("r-{number}"));
            objects::record(zone, &name, PART, objects::address(number))
        })
        .collect();
    writes::create(subject.api(), WRITERS, RECORDS, records).await?;
    wait_until_ready(subject, to).await?;
    sleep(REST).await;
    let memory = machine::resident_mib(subject.pid()?)? * MIB;
    let restart = restart(subject, to).await?;
    Ok(Size {
        records: to,
        memory,
        disk: subject.store_bytes()?,
        restart,
    })
}

async fn restart(subject: &mut Subject, records: usize) -> Result<Restart> {
    let begin = subject.restart(Loss::Nothing).await?;
    subject.wait_until_ready().await?;
    let ready = begin.elapsed();
    let pid = subject.pid()?;
    let cpu = machine::cpu_seconds(pid)?;
    wait_until_ready(subject, records).await?;
    sleep(REST).await;
    Ok(Restart {
        ready,
        cpu,
        memory: machine::resident_mib(pid)? * MIB,
        highest: machine::highest_mib(pid)? * MIB,
    })
}

/// Waits until so many records are Ready, by what it counts itself: a list of all of them would count as
/// its memory.
async fn wait_until_ready(subject: &Subject, records: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let ready = r#"bindery_objects{kind="ARecord",state="Ready"}"#;
    while Instant::now() < deadline {
        if subject.counter(ready).await? >= amount(records) {
            return Ok(());
        }
        sleep(POLL).await;
    }
    bail!("not all of {records} records are Ready after {PATIENCE:?}")
}

fn lines(few: &Size, many: &Size) -> Vec<Row> {
    let added = amount(many.records - few.records);
    let per_record = |more: f64| more / added;
    let kilobytes = |bytes: f64| format!("{:.2} KB", bytes / 1000.0);
    let budget = |row: Row, bytes: f64| row.budget("≤ 3.5 KB", bytes / RECORD_BYTES_MAX);
    let figure = |what: String, bytes: f64| budget(Row::new(what, kilobytes(bytes)), bytes);
    let (from, to) = (few.records, many.records);
    let highest = many.restart.highest / many.restart.memory;
    let longer = spent(many.restart.ready, few.restart.ready) / amount(to / from);
    let megabytes = |bytes: f64| format!("{:.0} MB", bytes / 1_000_000.0);
    vec![
        figure(
            format!("memory per record, {from} → {to} records in {RECORDS_PER_ZONE}s"),
            per_record(many.memory - few.memory),
        ),
        figure(
            "the same after a restart".to_owned(),
            per_record(many.restart.memory - few.restart.memory),
        ),
        figure(
            "disk per record in the store".to_owned(),
            per_record(many.disk - few.disk),
        ),
        Row::new(
            format!("resident memory, {to} records, after a restart"),
            megabytes(many.restart.memory),
        ),
        Row::new(
            "at its highest after a restart",
            format!("{}, {highest:.2} times", megabytes(many.restart.highest)),
        )
        .budget("≤ 2 times", highest / HIGHEST_MAX),
        Row::new(
            format!("start → ready, {from} and {to} records"),
            format!(
                "{}, {}",
                seconds(few.restart.ready),
                seconds(many.restart.ready)
            ),
        ),
        Row::new(
            "processor time of bindery for it",
            format!("{:.2} s, {:.2} s", few.restart.cpu, many.restart.cpu),
        ),
        Row::new(
            "the larger to the smaller, per record",
            format!("{longer:.2} times"),
        )
        .budget("≤ 1.5 times", longer / GROWTH_MAX),
    ]
}

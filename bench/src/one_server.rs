//! One name server: single records, all from nothing, restarts, claims, and the API's own pace.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::arguments::{Arguments, Which};
use crate::figures::Times;
use crate::report::{self, Claims, Measured, Memory, Restarts, Singles, Writes};
use crate::subject::{Fleet, Loss, Subject};
use crate::table::Row;
use crate::{bulk, claims, events, figures, machine, objects, peer, writes};

/// The zone whose records are objects.
const ZONE: &str = "main";
/// The zone that the peers write single records to.
const PEER_ZONE: &str = "peer";
/// Objects that one writer creates; it is slower than many.
const ALONE: usize = 500;
/// Objects that many writers create.
const TOGETHER: usize = 5_000;

/// The lines about one name server.
pub(crate) async fn rows(arguments: &Arguments, binary: &Path, which: Which) -> Result<Vec<Row>> {
    let measured = measure(arguments, binary, which).await?;
    Ok(report::rows(arguments, &measured))
}

/// Everything on one name server, in an order in which nothing disturbs what comes after.
async fn measure(arguments: &Arguments, binary: &Path, which: Which) -> Result<Measured> {
    let count = arguments.records;
    let mut subject = Subject::start(binary, Fleet::one(which), &arguments.folder).await?;
    subject
        .add_zones(&[ZONE.to_owned(), PEER_ZONE.to_owned()])
        .await?;

    let writes = measure_writes(&subject, count).await?;
    let bulk = bulk::measure(&subject, ZONE, count).await?;
    let memory = memory(&subject)?;
    let singles = Singles {
        events: events::measure(&subject, ZONE, "event", arguments.events).await?,
        nsupdate: peer::single_nsupdates(&subject, PEER_ZONE, "nsupdate", arguments.singles())
            .await?
            .first,
        floor: peer::single_updates(&subject, PEER_ZONE, arguments.events)
            .await?
            .first,
    };
    let restarts = Restarts {
        kept: restart(&mut subject, Loss::Nothing, count).await?,
        lost: restart(&mut subject, Loss::NameServer, count).await?,
    };
    let claims = measure_claims(&subject, arguments).await?;
    subject.stop().await?;
    Ok(Measured {
        writes,
        bulk,
        memory,
        singles,
        restarts,
        claims,
    })
}

async fn measure_writes(subject: &Subject, count: usize) -> Result<Writes> {
    let config_maps = |prefix: &str, count: usize| {
        (0..count)
            .map(|number| objects::config_map(&format!("{prefix}-{number}")))
            .collect()
    };
    let (alone, together) = (ALONE.min(count), TOGETHER.min(count));
    let path = objects::CONFIG_MAPS;
    let one = writes::create(subject.api(), 1, path, config_maps("alone", alone)).await?;
    let many = config_maps("together", together);
    let many = writes::create(subject.api(), bulk::WRITERS, path, many).await?;
    Ok(Writes {
        one: figures::rate(alone, one),
        many: figures::rate(together, many),
    })
}

fn memory(subject: &Subject) -> Result<Memory> {
    Ok(Memory {
        bindery: machine::resident_mib(subject.pid()?)?,
        named: subject.named_pid().map(machine::resident_mib).transpose()?,
    })
}

/// From the start of the process until every record resolves.
async fn restart(subject: &mut Subject, loss: Loss, count: usize) -> Result<Duration> {
    let begin: Instant = subject.restart(loss).await?;
    subject.wait_until_served(ZONE).await?;
    let resolvable = bulk::resolvable(subject, ZONE, count).await?;
    subject.wait_until_ready().await?;
    Ok(resolvable - begin)
}

/// The engine and `nsupdate` in turns, each feeding empty zones of the same server.
async fn measure_claims(subject: &Subject, arguments: &Arguments) -> Result<Claims> {
    let (count, rounds) = (arguments.records, arguments.rounds);
    let batches: Vec<usize> = peer::BATCHES
        .into_iter()
        .filter(|batch| *batch <= count)
        .collect();
    let ours = |round: usize| format!("claims-{round}");
    let theirs = |round: usize, batch: usize| format!("peer-{batch}-{round}");
    let mut zones = Vec::new();
    for round in 0..rounds {
        zones.push(ours(round));
        zones.extend(batches.iter().map(|batch| theirs(round, *batch)));
    }
    subject.add_zones(&zones).await?;
    let (mut acknowledged, mut verified) = (Times::default(), Times::default());
    let mut fed = vec![Times::default(); batches.len()];
    for round in 0..rounds {
        let by_us = claims::feed(subject, &ours(round), count).await?;
        acknowledged.push(by_us.acknowledged);
        verified.push(by_us.verified);
        for (times, batch) in fed.iter_mut().zip(&batches) {
            times.push(
                peer::feed(
                    subject,
                    subject.dns(),
                    &theirs(round, *batch),
                    0..count,
                    *batch,
                )
                .await?,
            );
        }
    }
    let nsupdate = batches
        .iter()
        .zip(&fed)
        .map(|(batch, times)| (*batch, times.p50()))
        .collect();
    Ok(Claims {
        acknowledged: acknowledged.p50(),
        verified: verified.p50(),
        nsupdate,
    })
}

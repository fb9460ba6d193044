//! Following primaries: asking each of them for news when told to, and from time to time.
//!
//! Each pair of a zone and a primary is looked after by itself, so a primary that does not
//! answer holds up nothing that another one has.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::delta::Delta;
use bindery_core::{Fault, FaultKind, Name};
use bindery_dns::Server;
use bindery_engine::ports::NameServer;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::copy::PrimaryAnswer;
use super::zone::{Adopted, Zone};
use super::{BuiltinServer, disk_fault};
use schedule::{RefreshKey, RefreshOutcome, RefreshSchedule};

mod schedule;

/// Primaries are asked about this many zones at a time, each on a connection of its own.
const REFRESHES_MAX: usize = 64;

/// The least and the longest pause between two looks at a zone whose primary answers.
const REFRESH_SECONDS: (u32, u32) = (1, 86_400);

/// The longest pause before a primary that did not answer is asked again. Local servers come
/// back soon, and nothing else tells that one has.
const RETRY_SECONDS_MAX: u32 = 60;

/// A primary that fails this often in a row is spoken of. The first failures are no news: a copy
/// may be made before its zone is.
const FAILURES_SPOKEN_OF: u32 = 3;

/// How often news are fetched again because the copy has moved meanwhile.
const TRIES: usize = 4;

/// Runs until dropped; a primary has nobody to follow.
///
/// # Cancellation
/// If dropped, each copy is as it was at some moment on its primary.
pub(super) async fn run(server: &BuiltinServer) {
    let sources: Vec<Server> = server
        .primaries()
        .unwrap_or_default()
        .iter()
        .map(|address| source(server, &address.to_string()))
        .collect();
    let mut schedule = RefreshSchedule::default();
    let ask = |schedule: &mut RefreshSchedule, zone: &Name| {
        let refreshes = (0..sources.len()).map(|source| (zone.clone(), source));
        refreshes.for_each(|refresh| schedule.ask(refresh, Instant::now()));
    };
    for zone in server.zones() {
        ask(&mut schedule, &zone);
    }
    let mut refreshes = FuturesUnordered::new();
    loop {
        while refreshes.len() < REFRESHES_MAX
            && let Some(refresh) = schedule.next(Instant::now())
        {
            refreshes.push(refresh_zone(server, &sources, refresh));
        }
        let first = schedule.first().filter(|_| refreshes.len() < REFRESHES_MAX);
        tokio::select! {
            biased;
            Some((refresh, outcome)) = refreshes.next() => {
                let (outcome, fault) = outcome;
                let failures = schedule.done(&refresh, outcome, Instant::now());
                if let Some(fault) = fault.filter(|_| failures == FAILURES_SPOKEN_OF) {
                    tracing::warn!(zone = %refresh.0, %fault, "a primary does not give a zone");
                }
            }
            zones = server.inner.asked.take() => {
                for zone in &zones {
                    ask(&mut schedule, zone);
                }
            }
            () = until(first) => {}
        }
    }
}

/// A client of a primary.
fn source(server: &BuiltinServer, address: &str) -> Server {
    let options = &server.inner.options;
    Server::new(address, Some(options.key.clone())).with_clock(options.clock.clone())
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Asks one primary about one zone, and says when to ask again.
async fn refresh_zone(
    server: &BuiltinServer,
    sources: &[Server],
    refresh: RefreshKey,
) -> (RefreshKey, (RefreshOutcome, Option<Fault>)) {
    let (name, place) = &refresh;
    let Some((zone, source)) = server.zone(name).zip(sources.get(*place)) else {
        return (refresh, (RefreshOutcome::Gone, None));
    };
    let pulled = pull(source, &zone).await;
    let soa = |pick: fn(&bindery_core::Soa) -> u32| zone.content().soa().map(|(soa, _)| pick(soa));
    let outcome = match pulled {
        Ok(()) => {
            zone.confirm(server.seconds());
            let (least, longest) = REFRESH_SECONDS;
            let seconds = soa(|soa| soa.refresh).unwrap_or(least);
            let pause = Duration::from_secs(seconds.clamp(least, longest).into());
            (RefreshOutcome::Heard(pause), None)
        }
        Err(fault) => {
            let seconds = soa(|soa| soa.retry).unwrap_or(RETRY_SECONDS_MAX);
            let pause = Duration::from_secs(seconds.clamp(1, RETRY_SECONDS_MAX).into());
            (RefreshOutcome::Failed(pause), Some(fault))
        }
    };
    (refresh, outcome)
}

/// Brings a copy to the version of a primary, by differences where that is possible.
async fn pull(source: &Server, zone: &Arc<Zone>) -> Result<(), Fault> {
    let mut whole = false;
    for _ in 0..TRIES {
        let base = zone.content().serial();
        let answer = match base.filter(|_| !whole) {
            None => PrimaryAnswer::Whole(source.transfer(&zone.name).await?),
            Some(serial) => match source.changes_since(&zone.name, serial).await? {
                Delta::UpToDate(_) => return Ok(()),
                Delta::Difference(steps) => PrimaryAnswer::Difference(steps),
                Delta::Whole(content) => PrimaryAnswer::Whole(content),
            },
        };
        let adopted = zone.adopt(base, answer).await;
        match adopted.map_err(|error| disk_fault(&zone.name, "copied", &error))? {
            Adopted::Changed | Adopted::Unchanged => return Ok(()),
            Adopted::Moved => {}
            Adopted::Diverged => {
                tracing::warn!(zone = %zone.name, "a copy differs from its primary; taking all anew");
                whole = true;
            }
        }
    }
    Err(Fault::new(
        FaultKind::Lost,
        format!("zone {} moved whenever it was copied", zone.name),
    ))
}

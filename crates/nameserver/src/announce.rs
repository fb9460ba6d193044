//! Telling secondaries of changes, many at a time and each zone once however often it changed.
//! Each secondary has its own turn, so one that is down keeps nothing from the others.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bindery_dns::send_notify;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;

use super::BuiltinServer;
use super::pending::Pending;

/// Messages to one secondary that wait for their answers.
const IN_FLIGHT_MAX: usize = 64;

/// A secondary and the zones it has not been told of yet.
pub(super) struct NotifyTarget {
    address: SocketAddr,
    pub(super) changed: Pending,
}

impl NotifyTarget {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            changed: Pending::default(),
        }
    }
}

/// Runs until dropped.
pub(super) async fn run(server: &BuiltinServer) {
    let targets = &server.inner.targets;
    join_all(targets.iter().map(|target| tell(server, target))).await;
    // There may be nobody to tell.
    std::future::pending::<()>().await;
}

async fn tell(server: &BuiltinServer, target: &NotifyTarget) {
    // A secondary may have missed what happened while we were down.
    let mut waiting: BTreeSet<_> = server.zones().into_iter().collect();
    let mut told = BTreeSet::new();
    // Its first silence is spoken of, not that about each zone.
    let mut answers = true;
    let mut in_flight = FuturesUnordered::new();
    loop {
        while in_flight.len() < IN_FLIGHT_MAX
            && let Some(zone) = waiting.difference(&told).next().cloned()
        {
            waiting.remove(&zone);
            told.insert(zone.clone());
            in_flight.push(async move {
                let options = &server.inner.options;
                let (id, now) = ((options.notify_id)(), (options.clock)());
                let sent = send_notify(target.address, &zone, id, &options.key, now).await;
                (zone, sent)
            });
        }
        tokio::select! {
            biased;
            Some((zone, sent)) = in_flight.next() => {
                told.remove(&zone);
                if let Err(fault) = &sent
                    && answers
                {
                    tracing::warn!(%fault, "a secondary was not told of a change");
                }
                answers = sent.is_ok();
            }
            zones = target.changed.take() => waiting.extend(zones),
        }
    }
}

//! Carrying out one step with the servers of its zone.

use std::sync::Arc;

use bindery_core::{
    Fault, FaultKind, Name,
    fleet::{FollowerAction, FollowerTask},
    zones::{Completion, Sent, SigningAnswer, Step, Term},
};
use tokio_util::sync::CancellationToken;

use crate::{
    commit::send_changes,
    engine::Shared,
    follow::{Pair, Synced, close, open, probe_follower, refresh_follower, renewal, rescue, sync},
    servers::{ServerHandle, Servers},
};

/// What a step has at hand.
pub(crate) struct Reach {
    pub(crate) shared: Arc<Shared>,
    pub(crate) servers: Servers,
    /// The servers beside the leader that answer, for steps that ask them all.
    pub(crate) others: Vec<ServerHandle>,
    /// Cancelled when another server leads the zone.
    pub(crate) turn: CancellationToken,
}

/// Carries out one step.
///
/// Cancellation: a dropped step leaves the world as it was or as asked; the next run reads it again.
pub(crate) async fn carry_out(reach: Reach, term: &Term, zone: &Name, step: Step) -> Completion {
    let Reach {
        shared,
        servers,
        others,
        turn,
    } = reach;
    let Some(leader) = servers.find(&term.leader) else {
        return nowhere(step);
    };
    let server = &*leader.server;
    match step {
        Step::Open(None) | Step::Read => Completion::Read(server.transfer(zone).await),
        Step::Open(Some(records)) => Completion::Read(open(leader, &others, zone, records).await),
        Step::ReadChanges(serial, keys) => {
            Completion::ChangesRead(keys, server.changes_since(zone, serial).await)
        }
        Step::Check => Completion::Checked(server.serial(zone).await),
        Step::Commit(plan) => {
            let changes = plan.into_changes();
            Completion::Sent(send_changes(server, zone, changes, &shared.metrics).await)
        }
        Step::Verify(keys) => {
            let read = server.read(zone, &keys).await;
            Completion::Verified(keys, read)
        }
        Step::Renew(record) => {
            let renewal = [renewal(&record)];
            let result = server.update(zone, &renewal).await;
            Completion::Renewed(record, result)
        }
        Step::Sign(policy) => {
            let answer = match &leader.host {
                Some(host) => host.sign(zone, &policy).await,
                None => Ok(SigningAnswer::Unsupported),
            };
            Completion::Signed(policy, answer)
        }
        Step::Rescue(serial) => Completion::Rescued(rescue(&others, zone, serial).await),
        Step::Follow(FollowerTask { visit, action }) => {
            let Some(follower) = servers.find(&visit.server) else {
                return Completion::Followed(visit, Err(gone()));
            };
            let pair = Pair {
                leader,
                follower,
                others: &others,
                turn: &turn,
            };
            match follow(pair, zone, action).await {
                Ok(Synced::At(serial)) => Completion::Followed(visit, Ok(serial)),
                Ok(Synced::Differs(serial, records)) => Completion::Differs(visit, serial, records),
                Err(fault) => Completion::Followed(visit, Err(fault)),
            }
        }
        Step::Close => Completion::Closed(close(&servers, zone).await),
    }
}

async fn follow(pair: Pair<'_>, zone: &Name, action: FollowerAction) -> Result<Synced, Fault> {
    match action {
        FollowerAction::Sync(known) => sync(pair, zone, known).await,
        FollowerAction::Refresh => refresh_follower(pair, zone).await.map(Synced::At),
        FollowerAction::Probe => probe_follower(pair, zone).await.map(Synced::At),
    }
}

/// How a step ends whose server was taken out meanwhile.
fn nowhere(step: Step) -> Completion {
    let fault = gone();
    match step {
        Step::Open(_) | Step::Read => Completion::Read(Err(fault)),
        Step::ReadChanges(_, keys) => Completion::ChangesRead(keys, Err(fault)),
        Step::Check => Completion::Checked(Err(fault)),
        Step::Commit(plan) => {
            let keys = plan.keys().cloned().collect();
            Completion::Sent(Sent {
                unsent: Some((fault, keys)),
                ..Sent::default()
            })
        }
        Step::Verify(keys) => Completion::Verified(keys, Err(fault)),
        Step::Renew(record) => Completion::Renewed(record, Err(fault)),
        Step::Sign(policy) => Completion::Signed(policy, Err(fault)),
        Step::Rescue(_) => Completion::Rescued(Err(fault)),
        Step::Follow(task) => Completion::Followed(task.visit, Err(fault)),
        Step::Close => Completion::Closed(Err(fault)),
    }
}

fn gone() -> Fault {
    Fault::new(FaultKind::Unreachable, "there is no such server any more")
}

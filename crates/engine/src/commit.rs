//! Group commit: one update for everything that waits, halved where the server refuses it.

use bindery_core::{Change, Fault, FaultKind, Name, RecordKey, zones::Sent};

use tokio::time::Instant;

use crate::{metrics::Metrics, ports::NameServer};

/// Refusals of single sets after which the zone itself is taken to refuse.
///
/// One guilty set among 500 costs about 2·log2(500) = 18 messages; a server that refuses every set
/// would cost a thousand.
const REFUSALS_MAX: usize = 8;

/// Sends changes as one atomic update; a refused batch is halved until the guilty sets stand alone.
///
/// Cancellation: dropped while an update is on its way, it may be applied or not; the zone must be
/// read again.
pub async fn send_changes(
    server: &dyn NameServer,
    zone: &Name,
    changes: Vec<Change>,
    metrics: &Metrics,
) -> Sent {
    let mut sent = Sent::default();
    let mut waiting: Vec<Vec<Change>> = vec![changes];
    while let Some(batch) = waiting.pop() {
        let begun = Instant::now();
        let answer = server.update(zone, &batch).await;
        if is_answer(&answer) {
            metrics.update_seconds.observe_duration(begun.elapsed());
            metrics.update_sets.observe_amount(batch.len());
        }
        let Err(fault) = answer else {
            sent.messages += 1;
            sent.to_verify.extend(keys(&batch));
            continue;
        };
        let one_name = is_one_name(&batch);
        if fault.kind == FaultKind::Lost {
            // Reading back tells what became of it. Nothing more is sent into the dark.
            sent.lost = Some((fault.clone(), keys(&batch).collect()));
            return give_up(sent, fault, &waiting);
        } else if one_name && fault.kind == FaultKind::Conflict {
            // Reading back tells what stands there instead.
            sent.to_verify.extend(keys(&batch));
        } else if !fault.kind.may_be_one_child() {
            waiting.push(batch);
            return give_up(sent, fault, &waiting);
        } else if one_name {
            sent.refused
                .extend(keys(&batch).map(|key| (key, fault.clone())));
            if sent.refused.len() >= REFUSALS_MAX && sent.to_verify.is_empty() {
                return give_up(sent, fault, &waiting);
            }
        } else {
            let (first, second) = halve(batch);
            waiting.push(second);
            waiting.push(first);
        }
    }
    sent
}

/// Everything that waits failed for a reason that is not its own.
fn give_up(mut sent: Sent, fault: Fault, waiting: &[Vec<Change>]) -> Sent {
    let unsent: Vec<RecordKey> = waiting.iter().flat_map(|batch| keys(batch)).collect();
    if !unsent.is_empty() {
        sent.unsent = Some((fault, unsent));
    }
    sent
}

/// A message that never left or got no answer says nothing about how long answers take.
fn is_answer(result: &Result<(), Fault>) -> bool {
    let unanswered = [FaultKind::Unreachable, FaultKind::Lost, FaultKind::TooLarge];
    let fault = result.as_ref().err();
    fault.is_none_or(|fault| !unanswered.contains(&fault.kind))
}

fn keys(batch: &[Change]) -> impl Iterator<Item = RecordKey> {
    batch.iter().map(|change| change.key.clone())
}

fn is_one_name(batch: &[Change]) -> bool {
    batch
        .iter()
        .all(|change| change.key.name == batch[0].key.name)
}

/// Two halves of a batch; the sets of one name stay together, since a name that changes its type
/// needs both changes at once.
fn halve(mut batch: Vec<Change>) -> (Vec<Change>, Vec<Change>) {
    let mut names: Vec<Name> = batch.iter().map(|change| change.key.name.clone()).collect();
    names.sort();
    names.dedup();
    let middle = names[names.len() / 2].clone();
    let second = batch
        .extract_if(.., |change| change.key.name >= middle)
        .collect();
    (batch, second)
}

//! What the log tells of a group of servers: one line for each commit, held plan and the like, none at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_core::{
    Change, Group, Id, Name, Serial, Stage, ZoneKey,
    delta::Delta,
    zones::{Completion, HeldPlan, Step},
};
use tokio::time::Instant;
use tracing::Level;

use crate::follow::serial_of;

/// A commit, from its first message until what it wrote was read back.
#[derive(Debug)]
pub(crate) struct Commit {
    begun: Instant,
    sets: usize,
    added: usize,
    removed: usize,
    objects: usize,
    first: Option<Id>,
}

/// Commits whose end was not seen yet, zone by zone.
///
/// Limits: two messages are on their way at most, so a zone has no more than some of them.
#[derive(Debug, Default)]
pub(crate) struct Stories(BTreeMap<Name, Vec<Commit>>);

impl Commit {
    /// What there is to tell of a step; nothing where nobody listens, or where it writes nothing.
    pub(crate) fn of(step: &Step) -> Option<Self> {
        let Step::Commit(plan) = step else {
            return None;
        };
        if !tracing::enabled!(Level::INFO) {
            return None;
        }
        // Objects are told apart by where they are kept: to compare names would cost more than the line.
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut first = None;
        for owner in plan.askers() {
            first.get_or_insert_with(|| Id::clone(owner));
            seen.insert(Id::as_ptr(owner).addr());
        }
        let count = |of: fn(&Change) -> usize| plan.changes().map(of).sum();
        Some(Self {
            begun: Instant::now(),
            sets: plan.len(),
            added: count(|change| change.add.len()),
            removed: count(|change| change.remove.len()),
            objects: seen.len(),
            first,
        })
    }
}

impl Stories {
    /// Takes in how a step ended, and tells of the commits whose end is known by it.
    pub(crate) fn take(
        &mut self,
        (group, zone): (&Group, &Name),
        commit: Option<Commit>,
        completion: &Completion,
    ) {
        match completion {
            Completion::Sent(sent) => {
                if let Some(commit) = commit
                    && (!sent.to_verify.is_empty() || sent.lost.is_some())
                {
                    self.0.entry(zone.clone()).or_default().push(commit);
                }
            }
            Completion::Read(Ok(content)) => self.tell(group, zone, content.serial),
            Completion::ChangesRead(_, Ok(delta)) => {
                let serial = match delta {
                    Delta::UpToDate(serial) => *serial,
                    Delta::Difference(steps) => serial_of(&steps.to),
                    Delta::Whole(content) => content.serial,
                };
                self.tell(group, zone, serial);
            }
            Completion::Verified(_, Ok(read)) => self.tell(group, zone, read.serial),
            Completion::Read(Err(_))
            | Completion::ChangesRead(_, Err(_))
            | Completion::Verified(_, Err(_))
            | Completion::Checked(_)
            | Completion::Renewed(..)
            | Completion::Signed(..)
            | Completion::Rescued(_)
            | Completion::Differs(..)
            | Completion::Followed(..) => {}
            Completion::Closed(result) => {
                self.0.remove(zone);
                if result.is_ok() {
                    tracing::info!(
                        %zone,
                        cluster = group.name(),
                        stage = Stage::Commit.as_str(),
                        "a zone was taken back"
                    );
                }
            }
        }
    }

    fn tell(&mut self, group: &Group, zone: &Name, serial: Serial) {
        for commit in self.0.remove(zone).unwrap_or_default() {
            tracing::info!(
                %zone,
                cluster = group.name(),
                serial = serial.0,
                sets = commit.sets,
                added = commit.added,
                removed = commit.removed,
                objects = commit.objects,
                object = commit.first.as_deref().map(tracing::field::display),
                took_ms = milliseconds(commit.begun.elapsed()),
                stage = Stage::Verify.as_str(),
                "committed"
            );
        }
    }
}

/// Tells that a plan is held.
pub(crate) fn tell_held(zone: &ZoneKey, plan: &HeldPlan) {
    tracing::warn!(
        zone = %zone.name,
        cluster = zone.group.name(),
        removals = plan.removals,
        of = plan.total,
        plan = %plan.digest,
        stage = Stage::Guard.as_str(),
        "a plan that removes too much is held; the zone's condition Guarded says how to let it through"
    );
}

/// Tells that no plan is held any longer.
pub(crate) fn tell_released(zone: &ZoneKey) {
    tracing::info!(
        zone = %zone.name,
        cluster = zone.group.name(),
        stage = Stage::Guard.as_str(),
        "no plan is held any longer"
    );
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

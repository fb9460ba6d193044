//! Which step a zone needs next, and what its end means.

use std::time::Duration;

use super::{ClaimStatus, Hosting, Step, Zone, Zones, activity::Activity, own::raise};
use crate::{
    backoff::jitter_seed,
    name::Name,
    record::{Record, RecordKey, RecordType},
    tracker::{Deletion, Phase},
};

/// Sets that may be written and not yet read back while more waits to be written: ten messages.
const UNVERIFIED_MAX: usize = 5_000;

/// How long a zone that is about to be created waits for objects to carry what they ask for.
pub(super) const ADMISSION_MAX: Duration = Duration::from_secs(1);

/// Updates of one zone on their way at a time. A second one leaves only full, so that a flood finds the
/// server never idle and everything else shares one message.
const COMMITS_MAX: usize = 2;

/// The share of a zone, as its denominator, from which on sets are worth a transfer of all of it.
const WORTH_ALL: usize = 4;

impl Zones {
    /// Zones that may have something to do now; [`Self::next_step`] says what.
    pub fn take_work(&mut self) -> Vec<Name> {
        self.schedule.take()
    }

    /// When the next zone has something to do by itself, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        self.schedule.next_wake()
    }

    /// Puts every zone whose time has come on the list of work.
    pub fn wake(&mut self, now: Duration) {
        self.schedule.wake(now);
    }

    /// The next step of a zone, which the caller must carry out and [`Self::complete`].
    ///
    /// The caller asks again until there is none: reading back what one update wrote goes on beside
    /// the next update.
    pub fn next_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let step = self.step(name, now);
        if step.is_none() {
            self.set_timer(name, now);
        }
        step
    }

    fn set_timer(&mut self, name: &Name, now: Duration) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        let is_idle = !zone.reading && zone.lifecycle.phase() != Phase::Gone;
        let retry = self.schedule.retry_at(name);
        let after_backoff = zone.wake_times().chain(retry).filter(|_| is_idle);
        let follow = zone.follow_wake(&self.limits.pace).filter(|_| is_idle);
        self.schedule.set_wake(name, after_backoff, follow, now);
    }

    /// What was written is read back when nothing more can be written, so that a flood of changes is
    /// served first, but not later than after some messages.
    fn step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        // Without a server that leads it, a zone waits.
        self.known.get(name)?.leader.as_ref()?;
        // What was written and not read back is bounded, or a flood would put off every status.
        if self.known.get(name)?.children.to_verify_len() < UNVERIFIED_MAX
            && let Some(step) = self.write_step(name, now)
        {
            return Some(step);
        }
        let many = self.limits.sets_by_changes_min;
        match self.known.get_mut(name)?.read_back(many) {
            Some(step) => Some(step),
            None => self.follow_step(name, now),
        }
    }

    fn write_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let is_due = self.schedule.is_due(name, now);
        let activity = self.known.get(name)?.activity(is_due, now);
        let step = match activity {
            Activity::Departing if self.depart_missing(name) => self.drain_and_delete(name, now),
            Activity::Departing
            | Activity::Leaderless
            | Activity::Reading
            | Activity::BackingOff
            | Activity::Admitting
            | Activity::Opening
            | Activity::Landing
            | Activity::Closing
            | Activity::Gone => None,
            Activity::Absent => self.open(name),
            Activity::Stale | Activity::Drifted | Activity::Fallen => self.read_again(name),
            Activity::Writing => self.pipeline(name, now),
            Activity::Serving => self.update(name, now),
            Activity::Draining => self.drain_and_delete(name, now),
        };
        debug_assert!(
            step.as_ref().is_none_or(|step| activity.allows(step)),
            "{activity:?} does not lead to {step:?}"
        );
        step
    }

    /// A zone that is not there yet: look first; where no server has it and it is ours to create, it is
    /// created with everything inside that its objects ask for.
    fn open(&mut self, name: &Name) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        let missing_since = zone.missing_since;
        let hosting = zone.declared.as_ref()?.hosting.clone();
        zone.created_by_us = matches!(hosting, Hosting::Served(_));
        zone.lifecycle.begin();
        Some(Step::Open(match (hosting, missing_since) {
            (Hosting::Served(mut records), Some(_)) if zone.absent_signer().is_none() => {
                records.retain(|record| record.data.rtype() == RecordType::Soa);
                zone.losses.recreate();
                raise(&mut records, Self::creation_bar(zone));
                records.extend(zone.desired_records());
                records.extend(zone.rescued_records());
                Some(records)
            }
            (Hosting::Served(_) | Hosting::Elsewhere, _) => None,
        }))
    }

    /// An open zone of which not everything is known: the whole of it is read where anything may be wrong,
    /// what changed where others wrote, and what others have where the leader lost something.
    fn read_again(&mut self, name: &Name) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        zone.reading = true;
        let step = match (zone.stale, zone.drifted, zone.known_serial) {
            (true, _, _) | (false, true, None) => Step::Read,
            (false, true, Some(base)) => Step::ReadChanges(base, Vec::new()),
            (false, false, _) => Step::Rescue(zone.serial?),
        };
        Some(step)
    }

    /// An open zone of which everything is known: commit what waits, else look at the serial, and
    /// now and then at all of it.
    fn update(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let check_interval = self.check_interval();
        let zone = self.known.get_mut(name)?;
        zone.children.retry_due(now);
        if !zone.children.has_in_flight() && self.depart(name, now) {
            return self.drain_and_delete(name, now);
        }
        let is_quiet = !self.known.get(name)?.children.has_in_flight();
        if is_quiet && let Some(step) = self.sign_step(name, now) {
            return Some(step);
        }
        if let Some(commit) = self.commit_step(name, now) {
            return Some(commit);
        }
        let zone = self.known.get_mut(name)?;
        if !zone.children.has_in_flight()
            && let Some(step) = self.renew_step(name, now)
        {
            return Some(step);
        }
        let zone = self.known.get_mut(name)?;
        // A zone that failed and has nothing left to write is looked at sooner.
        let due = now >= zone.next_check || zone.fault.is_some();
        if due && !zone.children.has_in_flight() {
            zone.next_check = now + zone.check_pause(check_interval);
            zone.reading = true;
            let is_audit = now >= zone.next_audit && zone.fault.is_none();
            return Some(if is_audit { Step::Read } else { Step::Check });
        }
        None
    }

    /// An open zone with an update on its way: another one that is full may follow at once, since what
    /// is on its way is in none of the others.
    fn pipeline(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let full = self.limits.sets_per_message_max;
        let zone = self.known.get_mut(name)?;
        let waiting = zone.children.pending().take(full).count();
        if zone.commits >= COMMITS_MAX || waiting < full {
            return None;
        }
        self.commit_step(name, now)
    }

    /// A zone on its way out: what we wrote goes first, unless the zone goes with it.
    fn drain_and_delete(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        if zone.children.has_in_flight() {
            return None;
        }
        if zone.created_by_us {
            // Whoever is given the zone at this moment would have it for ever.
            if zone.fleet.is_visited() {
                return None;
            }
            zone.lifecycle.begin_deletion(Deletion::Cascade);
            return Some(Step::Close);
        }
        if zone.stale {
            zone.reading = true;
            return Some(Step::Read);
        }
        zone.children.retry_due(now);
        if let Some(commit) = self.commit_step(name, now) {
            return Some(commit);
        }
        if let Some(step) = self.renew_step(name, now) {
            return Some(step);
        }
        let zone = self.known.get_mut(name)?;
        // What we wrote stands on the other primaries too, until they have what the leader has.
        let is_everywhere = zone
            .serial
            .is_none_or(|serial| zone.fleet.leaders_have(serial));
        if is_everywhere && let Some(drained) = zone.children.drained() {
            let ended = zone.lifecycle.release(drained);
            zone.children.restart(ended);
            self.zone_news.insert(name.clone());
            self.touch_all_owners(name);
        }
        None
    }

    /// A set needs nothing more.
    pub(super) fn settle(&mut self, name: &Name, key: &RecordKey) {
        if let Some(zone) = self.known.get_mut(name) {
            zone.children.settle(key);
            zone.losses.settle(key);
        }
        self.confirm(name, key);
        self.touch_owners(key);
    }

    /// A set cannot be brought to its desired state; with a time, it is tried again after a while.
    pub(super) fn quarantine(
        &mut self,
        name: &Name,
        key: &RecordKey,
        status: &ClaimStatus,
        now: Option<Duration>,
    ) {
        let retry = self.limits.retry;
        if let Some(zone) = self.known.get_mut(name) {
            let random = jitter_seed(key.name.as_wire());
            let asked = status.fault().and_then(|fault| fault.retry_after);
            zone.children.quarantine(key, status.clone(), |attempts| {
                let wait = retry.delay(attempts, random).max(asked.unwrap_or_default());
                now.map_or(Duration::MAX, |now| now + wait)
            });
        }
        self.touch_owners(key);
    }
}

impl Zone {
    /// Reads back what was written, when nothing more is on its way or much of it waits.
    ///
    /// Changes are taken in as a whole and in order, so nothing else is read meanwhile.
    fn read_back(&mut self, many: usize) -> Option<Step> {
        let sets = self.children.to_verify_len();
        let is_writing = self.lifecycle.phase() == Phase::Created && self.commits > 0;
        let waits = is_writing && sets < UNVERIFIED_MAX;
        if sets == 0 || waits || self.reading_changes {
            return None;
        }
        let worth = !self.no_ixfr || is_share(sets, self.children.all_actual().len());
        match self.known_serial {
            Some(base) if sets >= many && worth => {
                self.reading_changes = self.questions == 0;
                let keys = self.reading_changes.then(|| self.children.take_to_verify());
                keys.map(|keys| Step::ReadChanges(base, keys))
            }
            Some(_) | None => {
                self.questions += 1;
                Some(Step::Verify(self.children.take_to_verify()))
            }
        }
    }

    /// When the zone has something to do by itself, if it need not wait because it failed.
    fn wake_times(&self) -> impl Iterator<Item = Duration> {
        let check = self.lifecycle.is_open().then_some(self.next_check);
        let sign = self.sign_wake().filter(|_| self.lifecycle.is_open());
        let missing_since = self.missing_since.map(|since| since + ADMISSION_MAX);
        self.children
            .retry_times()
            .chain(check)
            .chain(sign)
            .chain(missing_since)
    }

    fn desired_records(&self) -> impl Iterator<Item = Record> {
        let wanted = self.children.all_desired().iter();
        wanted.flat_map(|(key, set)| set.records(key))
    }
}

/// Whether so many sets are worth a transfer of the whole zone.
pub(super) fn is_share(sets: usize, total: usize) -> bool {
    sets * WORTH_ALL >= total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_zone_is_worth_all_of_it() {
        assert!(is_share(1, 4) && is_share(2, 8));
        assert!(!is_share(1, 5) && !is_share(2, 9));
    }
}

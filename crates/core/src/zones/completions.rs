//! What the end of a step means for its zone.

use std::time::Duration;

use super::{ClaimStatus, Completion, ReadBack, Sent, Zone, ZoneContent, Zones, signing};
use crate::{
    backoff::jitter_seed,
    fault::{Fault, FaultKind},
    name::Name,
    object::Id,
    record::{RecordKey, Serial},
    tracker::{Failure, Phase, Schedule},
};

impl Zones {
    /// Takes in how a step ended.
    pub fn complete(&mut self, name: &Name, completion: Completion, now: Duration) {
        self.schedule.push(name.clone());
        if let Some(zone) = self.known.get_mut(name) {
            zone.belated.expire(now);
        }
        if !self.is_unchanged(name, &completion) {
            self.zone_news.insert(name.clone());
        }
        match completion {
            Completion::Read(result) => self.read(name, result, now),
            Completion::ChangesRead(keys, result) => self.changes_read(name, &keys, result, now),
            Completion::Checked(result) => self.checked(name, result, now),
            Completion::Sent(sent) => self.sent(name, sent, now),
            Completion::Verified(keys, result) => {
                if let Some(zone) = self.known.get_mut(name) {
                    zone.questions -= 1;
                }
                self.verified(name, &keys, result, now);
            }
            Completion::Renewed(record, result) => self.renewed(name, &record, result, now),
            Completion::Signed(policy, answer) => self.told_to_sign(name, policy, answer, now),
            Completion::Rescued(result) => self.rescued(name, result, now),
            Completion::Followed(visit, result) => self.followed(name, &visit, result, now),
            Completion::Differs(visit, serial, records) => {
                self.differs(name, (&visit, serial), records, now);
            }
            Completion::Closed(result) => {
                let Some(zone) = self.known.get_mut(name) else {
                    return;
                };
                match result {
                    Ok(()) if zone.is_outrun => {
                        // Whoever joined meanwhile may have it.
                        zone.is_outrun = false;
                        zone.lifecycle.fail();
                    }
                    Ok(()) => {
                        let ended = zone.lifecycle.finish_deletion();
                        zone.children.restart(ended);
                        zone.recover(&mut self.schedule, name);
                        self.touch_all_owners(name);
                    }
                    Err(fault) => {
                        zone.is_outrun = false;
                        zone.lifecycle.fail();
                        zone.is_deleted = fault.kind.is_silence();
                        self.zone_failed(name, fault, now);
                        self.touch_all_owners(name);
                    }
                }
            }
        }
    }

    /// Whether a look at an idle zone found what it was to find; nobody need hear of it.
    fn is_unchanged(&self, name: &Name, completion: &Completion) -> bool {
        let zone = self.known.get(name);
        match completion {
            Completion::Checked(Ok(serial)) => zone.is_some_and(|zone| {
                zone.fault.is_none()
                    && zone.known_serial == Some(*serial)
                    && zone.serial == zone.known_serial
            }),
            Completion::Followed(visit, Ok(serial)) => {
                zone.is_some_and(|zone| zone.fleet.expects(visit, *serial))
            }
            // Told apart where it is taken in.
            Completion::Signed(..) | Completion::Read(_) => true,
            Completion::ChangesRead(..)
            | Completion::Checked(Err(_))
            | Completion::Sent(_)
            | Completion::Verified(..)
            | Completion::Renewed(..)
            | Completion::Rescued(_)
            | Completion::Differs(..)
            | Completion::Followed(_, Err(_))
            | Completion::Closed(_) => false,
        }
    }

    pub(super) fn read(&mut self, name: &Name, result: Result<ZoneContent, Fault>, now: Duration) {
        let sets = result.as_ref().map_or(0, |content| content.sets.len());
        let audit = self.audit_at(name, sets, now);
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.next_audit = audit;
        zone.reading = false;
        match result {
            Ok(content) => self.take_in(name, content, now),
            Err(fault) => self.not_read(name, fault, now),
        }
    }

    /// Takes in all of a zone as it stands.
    fn take_in(&mut self, name: &Name, mut content: ZoneContent, now: Duration) {
        let interval = self.check_interval();
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let signatures = content.sift(name);
        if zone.is_as_known(&content, &signatures) {
            return;
        }
        self.zone_news.insert(name.clone());
        let had_one_primary = zone.has_one_primary();
        zone.signatures = signatures;
        let opening = zone.lifecycle.phase() == Phase::CreationInProgress;
        if opening {
            zone.signing.reset();
        }
        zone.compare_version(name, &content, now);
        zone.stale = false;
        zone.serial = Some(content.serial);
        zone.known_serial = zone.serial;
        zone.acknowledged = 0;
        zone.drifted = false;
        zone.next_check = now + zone.check_pause(interval);
        zone.recover(&mut self.schedule, name);
        if opening {
            zone.lifecycle.succeed();
        }
        zone.missing_since = None;
        zone.own.see(name, &content);
        zone.propagate_all(content.serial, now);
        let sets = content.sets.into_iter();
        let sets = sets.map(|(key, set)| zone.share(key, set)).collect();
        zone.children.observe_all(sets);
        let standing = zone.children.all_actual().keys();
        zone.guard.memory.see_standing(standing);
        zone.note_signer();
        let changes_servers = zone.has_one_primary() != had_one_primary;
        self.note_belated(name, now);
        self.count_foreign(name);
        if changes_servers {
            self.seat(name, now);
        }
        self.touch_all_owners(name);
    }

    /// Not all of a zone could be read.
    fn not_read(&mut self, name: &Name, fault: Fault, now: Duration) {
        self.zone_news.insert(name.clone());
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let opening = zone.lifecycle.phase() == Phase::CreationInProgress;
        if opening
            && zone.created_by_us
            && zone.missing_since.is_none()
            && fault.kind.is_nothing_there()
        {
            zone.lifecycle.fail();
            zone.missing_since = Some(now);
            return self.touch_all_owners(name);
        }
        let signer = zone.absent_signer().filter(|_| opening);
        let fault = signer.map_or(fault, |signer| signing::awaited(name, signer));
        if opening {
            zone.lifecycle.fail();
            if fault.kind == FaultKind::Missing && self.depart_missing(name) {
                return;
            }
        } else if fault.kind == FaultKind::Missing
            || (zone.created_by_us && fault.kind.is_nothing_there())
        {
            zone.vanish();
        }
        self.zone_failed(name, fault, now);
    }

    fn checked(&mut self, name: &Name, result: Result<Serial, Fault>, now: Duration) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.reading = false;
        match result {
            Ok(serial) => {
                zone.drifted |= zone.known_serial != Some(serial);
                // Messages were acknowledged and the serial is what it was: the server lost as many
                // changes as it took, which no difference shows. Nothing is on its way during a check.
                zone.stale |= !zone.drifted && zone.acknowledged != 0;
                if zone.fault.is_some() {
                    zone.recover(&mut self.schedule, name);
                }
            }
            Err(fault) => {
                // A server that lost the zone has to be given it again. One that is silent may have
                // lost nothing, which its serial tells.
                zone.stale |= !fault.kind.is_silence();
                self.zone_failed(name, fault, now);
            }
        }
    }

    fn sent(&mut self, name: &Name, sent: Sent, now: Duration) {
        let Sent {
            to_verify,
            lost,
            refused,
            unsent,
            messages,
        } = sent;
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.commits -= 1;
        zone.acknowledged = zone.acknowledged.wrapping_add_unsigned(messages);
        zone.children.queue_to_verify(to_verify);
        if let Some((fault, keys)) = lost {
            for key in &keys {
                zone.children.lose_answer(key, &fault);
            }
            zone.children.queue_to_verify(keys);
        }
        for (key, fault) in refused {
            let Some(zone) = self.known.get_mut(name) else {
                return;
            };
            zone.children.complete(&key);
            let status = ClaimStatus::Rejected(fault);
            self.quarantine(name, &key, &status, Some(now));
        }
        if let Some((fault, keys)) = unsent {
            let Some(zone) = self.known.get_mut(name) else {
                return;
            };
            // A server that lost the zone has to be given it again.
            zone.stale |= fault.kind == FaultKind::Missing;
            for key in &keys {
                zone.children.complete(key);
            }
            self.zone_failed(name, fault, now);
            for key in &keys {
                self.touch_owners(key);
            }
        }
    }

    /// Sets that were written are read back.
    pub(super) fn verified(
        &mut self,
        name: &Name,
        keys: &[RecordKey],
        result: Result<ReadBack, Fault>,
        now: Duration,
    ) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let read = match result {
            Ok(read) => read,
            Err(fault) => {
                for key in keys {
                    zone.children.complete(key);
                }
                zone.stale = true;
                return self.zone_failed(name, fault, now);
            }
        };
        zone.settle_serial(read.serial);
        zone.recover(&mut self.schedule, name);
        let before = zone.standing(keys);
        for (key, set) in keys.iter().zip(read.sets) {
            zone.see(key.clone(), set);
        }
        zone.complete_write(before, now);
        self.spread(name, (read.serial, keys), now);
        for key in keys {
            self.recount_foreign(name, key);
        }
    }

    /// The zone as a whole could not be read or written; everything in it waits.
    pub(super) fn zone_failed(&mut self, name: &Name, fault: Fault, now: Duration) {
        let retry = self.limits.retry;
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let random = jitter_seed(name.as_wire());
        let failure = Failure {
            now,
            random,
            retry_after: fault.retry_after,
        };
        self.schedule.fail(name, &retry, failure);
        let news = zone.fault.as_ref() != Some(&fault);
        zone.fault = Some(fault);
        if news {
            self.touch_waiting_owners(name);
        }
    }

    fn count_foreign(&mut self, name: &Name) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.foreign.clear();
        zone.cuts.clear();
        let keys: Vec<RecordKey> = zone.children.all_actual().keys().cloned().collect();
        for key in keys {
            self.recount_foreign(name, &key);
        }
    }

    pub(super) fn touch_all_owners(&mut self, name: &Name) {
        if let Some(zone) = self.known.get(name) {
            let owners = zone.nodes.values().flatten();
            self.owner_news
                .extend(owners.map(|(owner, _)| Id::clone(owner)));
        }
        let leaving = self.owners.leaving(name);
        self.owner_news.extend(leaving.cloned());
    }

    /// The objects that wait for something in this zone.
    pub(super) fn touch_waiting_owners(&mut self, name: &Name) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        if !zone.lifecycle.is_open() {
            return self.touch_all_owners(name);
        }
        let waiting: Vec<RecordKey> = zone.children.pending().cloned().collect();
        for key in waiting {
            self.touch_owners(&key);
        }
    }
}

impl Zone {
    /// The leader answered as it should: nothing about the zone as a whole is wrong.
    pub(super) fn recover(&mut self, schedule: &mut Schedule<Name>, name: &Name) {
        self.fault = None;
        schedule.succeed(name);
    }

    /// The server does not have the zone any more: what was in it is gone.
    pub(super) fn vanish(&mut self) {
        self.stale = false;
        self.missing_since = None;
        match self.lifecycle.phase() {
            Phase::Created => self.stash(),
            Phase::DeletionPending => {}
            Phase::NotStarted
            | Phase::CreationInProgress
            | Phase::UpdateInProgress
            | Phase::DeletionInProgress
            | Phase::Gone => return,
        }
        let ended = self.lifecycle.find_absent();
        self.children.restart(ended);
    }
}

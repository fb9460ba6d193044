//! What others write into a zone: noticed by serials that are not ours, and counted.
//!
//! Why serials: to read a zone costs as much as it is large, to ask for its serial costs one small message.
//! Each of our messages makes exactly one serial, so a serial that our own messages explain means that
//! nobody else wrote, and only one that they do not explain costs a look at what changed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{ReadBack, Tenancy, Zone, ZoneContent, Zones, steps::is_share};
use crate::{
    backoff::jitter_seed,
    delta::{Delta, Difference},
    fault::{Fault, FaultKind},
    fleet::Pace,
    name::Name,
    record::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial, Soa},
    signatures::Signatures,
    tracker::Phase,
};

/// How often a zone's serial is looked at, if there are few of them.
const CHECK_MIN: Duration = Duration::from_secs(1);
/// The time that one zone adds to the interval of all: 200 questions in a second, over all zones.
const CHECK_SHARE: Duration = Duration::from_millis(5);

/// The time that one zone adds to the interval at which all of it is read: ten transfers in a second.
const AUDIT_SHARE: Duration = Duration::from_millis(100);
/// The time that one record set adds to it: 100,000 of them are read once in a quarter of an hour.
const AUDIT_SHARE_SET: Duration = Duration::from_millis(10);

impl Zones {
    /// When all of a zone is read the next time, if its serial says that nothing happens. A server that lost
    /// as many changes as others wrote since has the serial that it had, which only its records tell.
    ///
    /// Zones that are opened together are not read together: each comes at half to one and a half of the
    /// interval.
    pub(super) fn audit_at(&self, name: &Name, sets: usize, now: Duration) -> Duration {
        let zones = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let sets = u32::try_from(sets).unwrap_or(u32::MAX);
        let interval = self
            .limits
            .audit_interval
            .max(AUDIT_SHARE.saturating_mul(zones))
            .max(AUDIT_SHARE_SET.saturating_mul(sets));
        let later = u32::from(jitter_seed(name.as_wire()).to_le_bytes()[0]);
        now + interval / 2 + interval / 256 * later
    }

    /// How often an idle zone's serial is looked at: often where there are few, and never so often that
    /// the questions of many become a load.
    pub(super) fn check_interval(&self) -> Duration {
        let zones = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        (CHECK_SHARE * zones).clamp(CHECK_MIN, self.limits.check_interval)
    }

    /// The pace at which followers are looked at; with many zones, idle ones share the questions of the
    /// leader.
    pub(super) fn idle_pace(&self) -> Pace {
        let pace = self.limits.pace;
        let zones = u32::try_from(self.known.len() * self.servers.len().saturating_sub(1))
            .unwrap_or(u32::MAX);
        Pace {
            idle: pace.idle.max(CHECK_SHARE.saturating_mul(zones)),
            ..pace
        }
    }

    /// What changed is taken in: what others did to our sets is mended by the next update, and of `keys`,
    /// which we wrote, it is known what stands there.
    pub(super) fn changes_read(
        &mut self,
        name: &Name,
        keys: &[RecordKey],
        result: Result<Delta, Fault>,
        now: Duration,
    ) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        if keys.is_empty() {
            zone.reading = false;
        } else {
            zone.reading_changes = false;
        }
        match result {
            Ok(Delta::Whole(content)) if keys.is_empty() => self.read(name, Ok(content), now),
            Ok(Delta::Whole(mut content)) => {
                zone.signatures = content.sift(name);
                zone.note_signer();
                zone.no_ixfr = !is_share(keys.len(), content.sets.len());
                let sets = keys.iter().map(|key| content.sets.remove(key)).collect();
                let serial = content.serial;
                self.verified(name, keys, Ok(ReadBack { serial, sets }), now);
            }
            Ok(Delta::UpToDate(serial)) => {
                zone.drifted = false;
                // An older serial than the one we know: the server lost something.
                zone.stale |= zone.known_serial != Some(serial);
                zone.recover(&mut self.schedule, name);
                let standing = zone.standing(keys);
                zone.complete_write(standing, now);
            }
            Ok(Delta::Difference(mut steps)) => {
                zone.drifted = false;
                steps.sift(&mut zone.signatures);
                zone.note_signer();
                zone.no_ixfr = false;
                zone.recover(&mut self.schedule, name);
                let standing = zone.standing(keys);
                let mut touched = zone.take_steps(name, &steps, now);
                zone.complete_write(standing, now);
                if let Some(serial) = zone.serial {
                    self.spread(name, (serial, keys), now);
                }
                // The objects of these hear of it when they are looked at again.
                for key in keys {
                    touched.remove(key);
                    self.recount_foreign(name, key);
                }
                for key in touched {
                    self.recount_foreign(name, &key);
                    self.touch_owners(&key);
                }
            }
            Err(fault) if !keys.is_empty() => self.verified(name, keys, Err(fault), now),
            Err(fault) => {
                // A whole transfer tells, or the server lost the zone.
                zone.stale = true;
                if fault.kind == FaultKind::Missing {
                    zone.vanish();
                }
                self.zone_failed(name, fault, now);
            }
        }
    }

    /// Counts a set among the foreign ones, or no longer.
    pub(super) fn recount_foreign(&mut self, name: &Name, key: &RecordKey) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        let apex = key.name == *name && matches!(key.rtype, RecordType::Soa | RecordType::Ns);
        let is_foreign = !apex
            && zone
                .children
                .actual(key)
                .is_some_and(|set| !set.data().iter().any(|data| self.is_owned(zone, key, data)))
            && !self.is_had(zone, key);
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let stands = zone.children.actual(key).is_some();
        zone.cuts.note(name, key, stands);
        let changed = if is_foreign {
            zone.foreign.insert(key.clone())
        } else {
            zone.foreign.remove(key)
        };
        if changed {
            self.zone_news.insert(name.clone());
        }
    }
}

impl Zone {
    /// Whether all of a zone that was read is what it was known to be, so that nobody need hear of it: nothing
    /// is to be forgotten, cleared or told then.
    pub(super) fn is_as_known(&self, content: &ZoneContent, signatures: &Signatures) -> bool {
        let is_known = self.lifecycle.phase() == Phase::Created
            && !self.stale
            && !self.drifted
            && self.fault.is_none()
            && self.acknowledged == 0
            && self.known_serial == Some(content.serial)
            && self.serial == self.known_serial;
        let known = self.children.all_actual();
        let mut stands = content.sets.iter().zip(known);
        is_known
            && self.signatures == *signatures
            && content.sets.len() == known.len()
            && stands.all(|((key, set), (known_key, known))| {
                key == known_key && (*set == **known || is_same_soa(set, known))
            })
    }

    /// Whether a set that nobody of ours wrote is to go.
    pub(super) fn removes_foreign(&self, key: &RecordKey) -> bool {
        let exclusive = self.declared.as_ref().is_some_and(|declared| {
            // A zone is not one without name servers, whoever gave it those that it has.
            let apex = key.rtype == RecordType::Ns && key.name == declared.zone;
            declared.tenancy == Tenancy::Exclusive && !apex
        });
        // What signs a zone is the server's own, and of other types nothing is known.
        exclusive
            && !matches!(key.rtype, RecordType::Soa | RecordType::Other(_))
            && !self.is_own_glue(key)
    }

    /// Whether a set has the addresses of a name server of the zone itself, and nobody asks for others:
    /// without them the zone is not found.
    fn is_own_glue(&self, key: &RecordKey) -> bool {
        let is_address = matches!(key.rtype, RecordType::A | RecordType::Aaaa)
            && self.children.desired(key).is_none();
        let apex = self.declared.as_ref().map(|declared| &declared.zone);
        let apex = apex.filter(|_| is_address);
        let servers = apex.and_then(|apex| {
            self.children
                .actual(&RecordKey::new(apex.clone(), RecordType::Ns))
        });
        let mut hosts = servers.into_iter().flat_map(|set| set.data());
        hosts.any(|data| matches!(data, RecordData::Ns(host) if *host == key.name))
    }

    /// Takes in the serial at which some sets were read: everything is known at it if only our own
    /// messages led there; else what happened in between has to be asked for.
    ///
    /// Messages on their way may be in it, and acknowledged ones may not.
    pub(super) fn settle_serial(&mut self, seen: Serial) {
        self.serial = Some(seen);
        self.losses.raise(seen);
        let Some(base) = self.known_serial else {
            self.drifted = true;
            return;
        };
        // Zero where our acknowledged messages explain the serial. Above zero, messages on their way may be
        // in it already; below, the answers of some came before the server showed them.
        let ahead = base.steps_to(seen).wrapping_sub(self.acknowledged);
        let in_flight = i32::try_from(self.commits).unwrap_or(i32::MAX);
        if ahead == 0 && in_flight == 0 {
            self.known_serial = Some(seen);
            self.acknowledged = 0;
        } else if ahead > in_flight || ahead < -self.acknowledged.max(0) {
            self.drifted = true;
        }
    }

    /// What stands at these keys, as far as is known.
    pub(super) fn standing(&self, keys: &[RecordKey]) -> Vec<(RecordKey, Option<Arc<RecordSet>>)> {
        let standing = |key: &RecordKey| (key.clone(), self.children.actual(key).cloned());
        keys.iter().map(standing).collect()
    }

    fn take_steps(
        &mut self,
        name: &Name,
        steps: &Difference,
        now: Duration,
    ) -> BTreeSet<RecordKey> {
        let key_of = |record: &Record| RecordKey::new(record.name.clone(), record.data.rtype());
        let mut touched = BTreeSet::new();
        for record in steps.removed.iter().chain(&steps.fleeting) {
            let key = key_of(record);
            let left = self.children.actual(&key).map(|set| {
                let left = set.data().iter().filter(|data| **data != record.data);
                RecordSet::new(set.ttl, left.cloned())
            });
            let left = left.filter(|set| !set.data().is_empty());
            self.see(key.clone(), left);
            touched.insert(key);
        }
        for record in steps.added.iter().chain(&steps.returned) {
            let key = key_of(record);
            let standing = self.children.actual(&key);
            let standing = standing.map_or(&[][..], |set| set.data());
            let all = standing.iter().chain([&record.data]).cloned();
            let set = RecordSet::new(record.ttl, all.collect::<Vec<_>>());
            self.see(key.clone(), Some(set));
            touched.insert(key);
        }
        if let RecordData::Soa(soa) = &steps.to.data {
            let serial = Serial(soa.serial);
            let key = RecordKey::new(name.clone(), RecordType::Soa);
            let set = RecordSet::new(steps.to.ttl, [steps.to.data.clone()]);
            self.children.observe(key, Some(Arc::new(set)));
            self.own.renewed(&steps.to);
            self.reach(serial);
            self.fleet.aim(serial, now);
        }
        for key in &touched {
            self.look_again(key);
        }
        touched
    }

    /// Everything is known at this serial. What is still to come of our own messages stays to come; a
    /// serial beyond them that none on its way explains is of others, and known as well.
    fn reach(&mut self, serial: Serial) {
        let passed = self.known_serial.map_or(0, |base| base.steps_to(serial));
        let left = self.acknowledged.wrapping_sub(passed);
        self.acknowledged = if left < 0 && self.commits == 0 {
            0
        } else {
            left
        };
        (self.serial, self.known_serial) = (Some(serial), Some(serial));
        self.losses.raise(serial);
    }

    /// Takes in what stands at a key.
    pub(super) fn see(&mut self, key: RecordKey, set: Option<RecordSet>) {
        match set {
            Some(set) => {
                let (key, set) = self.share(key, set);
                self.children.observe(key, Some(set));
            }
            None => self.children.observe(key, None),
        }
    }

    /// A set that stands; where it is what was asked for, one copy is enough.
    pub(super) fn share(&self, key: RecordKey, set: RecordSet) -> (RecordKey, Arc<RecordSet>) {
        match self.children.all_desired().get_key_value(&key) {
            Some((key, wanted)) if **wanted == set => (key.clone(), Arc::clone(wanted)),
            Some(_) | None => (key, Arc::new(set)),
        }
    }

    /// Sets that were sent are back, and what stands there is known; this stood there before.
    pub(super) fn complete_write(
        &mut self,
        before: Vec<(RecordKey, Option<Arc<RecordSet>>)>,
        now: Duration,
    ) {
        for (key, before) in before {
            let seen = self.children.actual(&key);
            if before.is_some() && seen.is_none() {
                self.guard.lose(&key, now);
            }
            self.losses.withdraw(&key, before.as_ref(), seen);
            self.children.land(&key, before.as_ref(), ignored);
        }
    }
}

/// Whether these are the SOA of a zone at two serials. What is known of it is as old as the last transfer; of the
/// serials since, only the numbers are known.
fn is_same_soa(one: &RecordSet, other: &RecordSet) -> bool {
    let without_serial = |set: &RecordSet| match set.data() {
        [RecordData::Soa(soa)] => Some(Soa {
            serial: 0,
            ..(**soa).clone()
        }),
        _ => None,
    };
    let (one_soa, other_soa) = (without_serial(one), without_serial(other));
    one.ttl == other.ttl && one_soa.is_some() && one_soa == other_soa
}

fn ignored(key: &RecordKey) -> Fault {
    Fault::new(
        FaultKind::Malformed,
        format!(
            "the server answered NOERROR but does not serve {key} as asked; look for a CNAME or \
             other data at this name that Bindery did not write"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(steps: i32, commits: usize) -> Zone {
        Zone {
            known_serial: Some(Serial(5)),
            acknowledged: steps,
            commits,
            ..Zone::default()
        }
    }

    #[test]
    fn a_serial_is_ours_as_far_as_our_own_messages_explain_it() {
        // Messages acknowledged and on their way, the serial seen, whether others wrote.
        let rows = [
            (1, 0, 6, false),
            (1, 0, 7, true),
            (1, 0, 5, false),
            (1, 0, 4, true),
            (1, 1, 7, false),
            (1, 1, 8, true),
            (-1, 0, 4, false),
            (-1, 0, 3, true),
        ];
        for (steps, commits, seen, drifted) in rows {
            let mut zone = zone(steps, commits);
            zone.settle_serial(Serial(seen));
            assert_eq!(zone.drifted, drifted, "{steps} {commits} {seen}");
        }
        let mut known = zone(1, 0);
        known.settle_serial(Serial(6));
        assert_eq!(
            (known.known_serial, known.acknowledged),
            (Some(Serial(6)), 0)
        );
        let mut flying = zone(1, 1);
        flying.settle_serial(Serial(6));
        assert_eq!(
            (flying.known_serial, flying.acknowledged),
            (Some(Serial(5)), 1)
        );
    }

    #[test]
    fn messages_that_are_still_to_be_seen_stay_so() {
        for (steps, commits, left) in [(3, 0, 2), (3, 1, 2), (0, 0, 0), (0, 1, -1)] {
            let mut zone = zone(steps, commits);
            zone.reach(Serial(6));
            assert_eq!(zone.acknowledged, left, "{steps} {commits}");
            assert_eq!(zone.known_serial, Some(Serial(6)));
        }
    }
}

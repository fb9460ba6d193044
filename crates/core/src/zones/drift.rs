//! What others write into a zone: noticed by serials that are not ours, and counted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Tenancy, Zone, Zones};
use crate::{
    delta::{Delta, Steps},
    fault::{Fault, FaultKind},
    name::Name,
    record::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial},
};

/// How often a zone's serial is looked at, if there are few of them.
const CHECK_MIN: Duration = Duration::from_secs(1);
/// The time that one zone adds to the interval of all: 200 questions in a second, over all zones.
const CHECK_SHARE: Duration = Duration::from_millis(5);

impl Zones {
    /// How often an idle zone's serial is looked at: often where there are few, and never so often that
    /// the questions of many become a load.
    pub(super) fn check_interval(&self) -> Duration {
        let zones = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        (CHECK_SHARE * zones).clamp(CHECK_MIN, self.limits.check_interval)
    }

    /// What others wrote is taken in; what they did to our sets is mended by the next update.
    pub(super) fn caught(&mut self, name: &Name, result: Result<Delta, Fault>, now: Duration) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        match result {
            Ok(Delta::Whole(content)) => self.read(name, Ok(content), now),
            Ok(Delta::UpToDate(serial)) => {
                zone.reading = false;
                zone.drifted = false;
                // An older serial than the one we know: the server lost something.
                zone.stale = zone.base != Some(serial);
                zone.recover();
            }
            Ok(Delta::Steps(steps)) => {
                zone.reading = false;
                zone.drifted = false;
                zone.recover();
                let touched = zone.take_steps(name, &steps, now);
                for key in touched {
                    self.weigh(name, &key);
                    self.touch_owners(name, &key);
                }
            }
            Err(fault) => {
                zone.reading = false;
                // A whole transfer tells, or the server lost the zone.
                zone.stale = true;
                if fault.kind == FaultKind::NoSuchZone {
                    zone.vanish();
                }
                self.zone_failed(name, fault, now);
            }
        }
    }

    /// Counts a set among the foreign ones, or no longer.
    pub(super) fn weigh(&mut self, name: &Name, key: &RecordKey) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        let apex = key.name == *name && matches!(key.rtype, RecordType::Soa | RecordType::Ns);
        let is_foreign = !apex
            && zone
                .parent
                .actual(key)
                .is_some_and(|set| !set.data().iter().any(|data| self.is_owned(zone, key, data)));
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
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
    /// Whether a set that nobody of ours wrote is to go.
    pub(super) fn evicts(&self, key: &RecordKey) -> bool {
        let exclusive = self.declared.as_ref().is_some_and(|declared| {
            // A zone is not one without name servers, whoever gave it those that it has.
            let apex = key.rtype == RecordType::Ns && key.name == declared.zone;
            declared.tenancy == Tenancy::Exclusive && !apex
        });
        // What signs a zone is the server's own, and of other types nothing is known.
        exclusive && !matches!(key.rtype, RecordType::Soa | RecordType::Other(_))
    }

    /// The serial at which everything in the zone is known after these messages; else what happened in
    /// between has to be asked for.
    pub(super) fn settle_serial(&mut self, seen: Serial) {
        let expected = self
            .base
            .map(|base| Serial(base.0.wrapping_add(self.steps)));
        self.serial = Some(seen);
        if expected == Some(seen) {
            self.base = Some(seen);
            self.steps = 0;
        } else {
            self.drifted = true;
        }
    }

    fn take_steps(&mut self, name: &Name, steps: &Steps, now: Duration) -> BTreeSet<RecordKey> {
        let key_of = |record: &Record| RecordKey::new(record.name.clone(), record.data.rtype());
        let mut touched = BTreeSet::new();
        for record in &steps.removed {
            let key = key_of(record);
            let left = self.parent.actual(&key).map(|set| {
                let left = set.data().iter().filter(|data| **data != record.data);
                RecordSet::new(set.ttl, left.cloned())
            });
            let left = left.filter(|set| !set.data().is_empty());
            self.parent.observe(key.clone(), left.map(Arc::new));
            touched.insert(key);
        }
        for record in &steps.added {
            let key = key_of(record);
            let standing = self.parent.actual(&key);
            let standing = standing.map_or(&[][..], |set| set.data());
            let all = standing.iter().chain([&record.data]).cloned();
            let set = RecordSet::new(record.ttl, all.collect::<Vec<_>>());
            self.parent.observe(key.clone(), Some(Arc::new(set)));
            touched.insert(key);
        }
        if let RecordData::Soa(soa) = &steps.to.data {
            let serial = Serial(soa.serial);
            let key = RecordKey::new(name.clone(), RecordType::Soa);
            let set = RecordSet::new(steps.to.ttl, [steps.to.data.clone()]);
            self.parent.observe(key, Some(Arc::new(set)));
            self.own.renewed(&steps.to);
            (self.serial, self.base, self.steps) = (Some(serial), Some(serial), 0);
            self.fleet.aim(serial, now);
        }
        for key in &touched {
            self.sick.remove(key);
            self.unmoved.remove(key);
            self.parent.mark(key.clone());
        }
        touched
    }
}

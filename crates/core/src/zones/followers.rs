//! The other servers of a zone: a set is served only when all of them have it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Step, Withdrawal, Zone, Zones, own::newest};
use crate::{
    fault::{Fault, FaultKind},
    name::Name,
    record::{Record, RecordData, RecordKey, RecordSet, Serial},
};

/// What the leader serves and other servers may not have yet.
#[derive(Debug, Default)]
pub(super) struct Propagation {
    /// The serial at which the whole zone was read, until all servers have it.
    whole: Option<Serial>,
    sets: BTreeMap<RecordKey, Serial>,
    order: VecDeque<(Serial, Vec<RecordKey>)>,
    /// What is told while a server is late.
    pub(super) late: Option<Fault>,
}

impl Propagation {
    /// Whether this set waits for another server.
    pub(super) fn holds(&self, key: &RecordKey) -> bool {
        self.whole.is_some() || self.sets.contains_key(key)
    }

    /// Whether some server has not had the whole zone yet.
    pub(super) fn is_opening(&self) -> bool {
        self.whole.is_some()
    }

    fn is_empty(&self) -> bool {
        self.whole.is_none() && self.sets.is_empty()
    }
}

impl Zone {
    /// The leader has this serial, at which everything was read.
    pub(super) fn propagate_all(&mut self, serial: Serial, now: Duration) {
        self.fleet.aim(serial, now);
        let reached = self.fleet.has(serial);
        self.propagation = Propagation {
            whole: (!reached).then_some(serial),
            late: self.propagation.late.take(),
            ..Propagation::default()
        };
    }

    /// The leader has this serial, at which these sets were read back.
    pub(super) fn propagate(&mut self, serial: Serial, keys: &[RecordKey], now: Duration) {
        self.fleet.aim(serial, now);
        if self.fleet.has(serial) {
            return;
        }
        for key in keys {
            self.propagation.sets.insert(key.clone(), serial);
        }
        self.propagation.order.push_back((serial, keys.to_vec()));
    }

    /// Whether another server may still have what the leader has no more. A leader that loses the zone is
    /// given what others have, so an object must not let go of its lines before.
    pub(super) fn still_on_followers(&self, key: &RecordKey) -> Withdrawal {
        match &self.propagation.late {
            _ if self.declared.is_none() || !self.propagation.holds(key) => Withdrawal::Done,
            Some(late) => Withdrawal::Failing(late.clone()),
            None => Withdrawal::Pending,
        }
    }

    /// The sets that every server has now.
    fn arrived(&mut self) -> Vec<RecordKey> {
        let mut arrived = Vec::new();
        while let Some((serial, _)) = self.propagation.order.front()
            && self.fleet.has(*serial)
            && let Some((serial, keys)) = self.propagation.order.pop_front()
        {
            for key in keys {
                if self.propagation.sets.get(&key) == Some(&serial) {
                    self.propagation.sets.remove(&key);
                    arrived.push(key);
                }
            }
        }
        arrived
    }
}

impl Zones {
    /// What is to be done about other servers, once nothing is to be done on the leader.
    pub(super) fn follow_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        // What others have is read before it is written over.
        if !zone.parent.is_open() || zone.declared.is_none() || zone.losses.asks() {
            return None;
        }
        self.tell_lateness(name, now);
        self.known.get_mut(name)?.fleet.next(now).map(Step::Follow)
    }

    /// The SOA to write, because its author changed it or because the leader is behind.
    pub(super) fn renew_step(&mut self, name: &Name) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        let serial = zone.serial?;
        let beyond = newest(zone.fleet.ahead(), zone.losses.beyond(serial));
        let record = zone.own.renewal(name, serial, beyond)?;
        zone.reading = true;
        Some(Step::Renew(record))
    }

    pub(super) fn renewed(
        &mut self,
        name: &Name,
        record: &Record,
        result: Result<(), Fault>,
        now: Duration,
    ) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.reading = false;
        match result {
            Ok(()) => {
                zone.recover();
                if let Some(serial) = zone.own.renewed(record) {
                    let jumps = zone.losses.is_fallen() || zone.fleet.ahead().is_some();
                    zone.serial = Some(serial);
                    zone.losses.reach(serial);
                    if jumps {
                        // Older serials of other servers stand for something else.
                        zone.propagate_all(serial, now);
                    } else {
                        zone.fleet.aim(serial, now);
                    }
                }
            }
            Err(fault) => {
                zone.stale = true;
                if !zone.created_by_us
                    && let (FaultKind::Refused(_), Some(serial)) = (fault.kind, zone.serial)
                {
                    zone.losses.give_up(serial);
                }
                self.zone_failed(name, fault, now);
            }
        }
    }

    /// A primary has records that the leader does not: what others wrote there is kept, on the leader too.
    pub(super) fn differs(
        &mut self,
        name: &Name,
        (index, serial): (usize, Serial),
        records: Vec<Record>,
        now: Duration,
    ) {
        let mut sets: BTreeMap<RecordKey, (u32, Vec<RecordData>)> = BTreeMap::new();
        for record in records {
            let set = sets.entry(record.key()).or_insert((record.ttl, Vec::new()));
            set.1.push(record.data);
        }
        let sets = sets.into_iter();
        let sets = sets.map(|(key, (ttl, data))| (key, RecordSet::new(ttl, data)));
        let (taken, clashing) = self.take_over(name, sets);
        let pace = self.idle_pace();
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        if let Some(key) = clashing.first() {
            let message = format!(
                "it has {key}, which Bindery did not write and which cannot stand beside what {name} has                  on the first server: remove one of the two; nothing is written here until then"
            );
            let fault = Fault::new(FaultKind::Behind, message);
            zone.fleet.complete(index, Err(fault), &pace, now);
        } else {
            zone.fleet
                .differs(index, (taken == 0).then_some(serial), now);
        }
        self.tell_lateness(name, now);
    }

    pub(super) fn followed(
        &mut self,
        name: &Name,
        index: usize,
        result: Result<Serial, Fault>,
        now: Duration,
    ) {
        let pace = self.idle_pace();
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.fleet.complete(index, result, &pace, now);
        let arrived = zone.arrived();
        let whole = zone
            .propagation
            .whole
            .filter(|serial| zone.fleet.has(*serial));
        if whole.is_some() {
            zone.propagation.whole = None;
        }
        for key in &arrived {
            self.touch_owners(key);
        }
        if whole.is_some() {
            self.touch_all_owners(name);
        }
        self.tell_lateness(name, now);
    }

    /// Tells once when a server is late, which one, and when that changes.
    fn tell_lateness(&mut self, name: &Name, now: Duration) {
        let pace = self.limits.pace;
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let late = zone.fleet.lateness(&pace, now, zone.serial);
        if late == zone.propagation.late {
            return;
        }
        zone.propagation.late = late;
        let waiting: Vec<RecordKey> = zone.propagation.sets.keys().cloned().collect();
        let all = zone.propagation.whole.is_some();
        self.zone_news.insert(name.clone());
        if all {
            return self.touch_all_owners(name);
        }
        for key in waiting {
            self.touch_owners(&key);
        }
    }
}

impl Zone {
    /// When something about other servers is due.
    pub(super) fn follow_wake(&self, pace: &crate::fleet::Pace) -> Option<Duration> {
        if !self.parent.is_open() || self.declared.is_none() {
            return None;
        }
        let grace = self
            .fleet
            .grace_ends(pace)
            .filter(|_| self.propagation.late.is_none() && !self.propagation.is_empty());
        self.fleet.wake().into_iter().chain(grace).min()
    }
}

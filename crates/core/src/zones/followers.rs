//! The other servers of a zone: a set is served only when all of them have it.
//!
//! Why sets wait by serial and not one by one: a follower has a version of the zone as a whole, so one
//! question for its serial answers for every set that was written up to it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Step, Withdrawal, Zone, Zones, own::newest};
use crate::{
    fault::{Fault, FaultKind},
    fleet::Visit,
    name::Name,
    record::{Record, RecordData, RecordKey, RecordSet, Serial},
};

/// Read-backs that wait for a server before everything does, so that a server that is away for long costs
/// no more than so many lists of keys.
const WAITING_MAX: usize = 1_000;

/// What the leader serves and other servers may not have yet.
///
/// A set is served once every server in rotation has it. What goes from a set waits longer: for every
/// server that may lead some day.
#[derive(Debug, Default)]
pub(super) struct Propagation {
    /// The serial at which the whole zone was read, until all servers have it.
    whole: Option<Serial>,
    sets: BTreeMap<RecordKey, Serial>,
    order: VecDeque<(Serial, Vec<RecordKey>)>,
    /// How many of these every server in rotation has.
    passed: usize,
    /// The newest serial that every server in rotation was seen to have.
    reached: Option<Serial>,
    /// What is told while a server is late.
    pub(super) late: Option<Fault>,
}

impl Propagation {
    /// Whether this set waits for a server in rotation.
    pub(super) fn holds(&self, key: &RecordKey) -> bool {
        let set = self.sets.get(key).copied();
        let mut waits = self.whole.into_iter().chain(set);
        waits.any(|serial| !self.has_reached(serial))
    }

    /// Whether some server in rotation has not had the whole zone yet.
    pub(super) fn is_opening(&self) -> bool {
        self.whole.is_some_and(|serial| !self.has_reached(serial))
    }

    fn has_reached(&self, serial: Serial) -> bool {
        let reached = self.reached;
        reached.is_some_and(|reached| reached == serial || reached.newer_than(serial))
    }

    /// Whether some server may still have what is no more at this set.
    fn may_linger(&self, key: &RecordKey) -> bool {
        self.whole.is_some() || self.sets.contains_key(key)
    }

    /// Whether nothing waits for a server in rotation.
    fn is_done(&self) -> bool {
        !self.is_opening() && self.passed == self.order.len()
    }
}

impl Zone {
    /// The leader has this serial, at which everything was read.
    pub(super) fn propagate_all(&mut self, serial: Serial, now: Duration) {
        self.fleet.aim(serial, now);
        let everywhere = self.fleet.leaders_have(serial);
        self.propagation = Propagation {
            whole: (!everywhere).then_some(serial),
            reached: self.fleet.has(serial).then_some(serial),
            late: self.propagation.late.take(),
            ..Propagation::default()
        };
    }

    /// The leader has this serial, at which these sets were read back.
    pub(super) fn propagate(&mut self, serial: Serial, keys: &[RecordKey], now: Duration) {
        self.fleet.aim(serial, now);
        if self.fleet.leaders_have(serial) {
            return;
        }
        let propagation = &mut self.propagation;
        for key in keys {
            propagation.sets.insert(key.clone(), serial);
        }
        propagation.order.push_back((serial, keys.to_vec()));
        if propagation.order.len() > WAITING_MAX {
            propagation.whole = Some(serial);
            propagation.sets.clear();
            propagation.order.clear();
            propagation.passed = 0;
        }
    }

    /// A server in rotation is late. Where it had been waited for, it lost what it had, and what it has is as
    /// old as if it had never been given any of it.
    fn wait_again(&mut self) {
        let Some(serial) = self.serial else {
            return;
        };
        let propagation = &mut self.propagation;
        let is_lost = |serial: Serial| !self.fleet.has(serial);
        if !is_lost(serial) || !(propagation.is_done() || propagation.reached.is_some_and(is_lost))
        {
            return;
        }
        *propagation = Propagation {
            whole: Some(serial),
            ..Propagation::default()
        };
    }

    /// The sets that every server in rotation has now, or that no server has any longer as they were; and
    /// whether that is so of everything.
    fn arrived(&mut self) -> (Vec<RecordKey>, bool) {
        let mut arrived = Vec::new();
        let Propagation {
            whole,
            sets,
            order,
            passed,
            reached,
            late: _,
        } = &mut self.propagation;
        let mut all = false;
        if let Some(serial) = *whole {
            if *reached != Some(serial) && self.fleet.has(serial) {
                *reached = newest(*reached, Some(serial));
                all = true;
            }
            if self.fleet.leaders_have(serial) {
                *whole = None;
                all = true;
            }
        }
        while let Some((serial, keys)) = order.get(*passed)
            && self.fleet.has(*serial)
        {
            arrived.extend(keys.iter().cloned());
            *reached = Some(*serial);
            *passed += 1;
        }
        while let Some((serial, _)) = order.front()
            && self.fleet.leaders_have(*serial)
            && let Some((serial, keys)) = order.pop_front()
        {
            *passed = passed.saturating_sub(1);
            for key in keys {
                if sets.get(&key) == Some(&serial) {
                    sets.remove(&key);
                    arrived.push(key);
                }
            }
        }
        (arrived, all)
    }
}

impl Zones {
    /// What is to be done about other servers, once nothing is to be done on the leader.
    pub(super) fn follow_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        // What others have is read before it is written over, and nobody is given an older version.
        if !zone.is_followed() || zone.losses.asks() || zone.losses.is_fallen() {
            return None;
        }
        self.tell_lateness(name, now);
        self.known.get_mut(name)?.fleet.next(now).map(Step::Follow)
    }

    /// The SOA to write, because its author changed it or because the leader is behind.
    pub(super) fn renew_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let zone = self.known.get_mut(name)?;
        if zone.losses.holds_back(now) {
            return None;
        }
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
                zone.recover(&mut self.schedule, name);
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
                    && fault.kind.is_refusal()
                    && let Some(serial) = zone.serial
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
        (visit, serial): (&Visit, Serial),
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
            zone.fleet.complete(visit, Err(fault), &pace, now);
        } else {
            zone.fleet
                .differs(visit, (taken == 0).then_some(serial), now);
        }
        self.tell_lateness(name, now);
    }

    pub(super) fn followed(
        &mut self,
        name: &Name,
        visit: &Visit,
        result: Result<Serial, Fault>,
        now: Duration,
    ) {
        let pace = self.idle_pace();
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.fleet.complete(visit, result, &pace, now);
        self.advance(name, now);
    }

    /// The leader has this serial, at which these sets were read back. Where nobody in rotation is waited for they
    /// are served at once; and what a server had before the leader was seen to have it counts from now on, so
    /// that sets of earlier serials may be served too.
    pub(super) fn spread(
        &mut self,
        name: &Name,
        (serial, keys): (Serial, &[RecordKey]),
        now: Duration,
    ) {
        if let Some(zone) = self.known.get_mut(name) {
            zone.propagate(serial, keys, now);
            self.tell_arrived(name);
        }
    }

    /// Tells the objects of what every server in rotation has now, and once who is late.
    pub(super) fn advance(&mut self, name: &Name, now: Duration) {
        self.tell_arrived(name);
        self.tell_lateness(name, now);
    }

    fn tell_arrived(&mut self, name: &Name) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        let (arrived, all) = zone.arrived();
        for key in &arrived {
            self.touch_owners(key);
        }
        if all {
            self.touch_all_owners(name);
        }
    }

    /// Whether another server may still have what the leader has no more. A leader that loses the zone is
    /// given what others have, and another may lead, so an object must not let go of its lines before.
    pub(super) fn still_on_followers(zone: &Zone, key: &RecordKey) -> Withdrawal {
        let lingers = zone.propagation.may_linger(key) || zone.fleet.has_unknown();
        if !zone.is_followed() || !lingers {
            return Withdrawal::Done;
        }
        let lateness = Self::lateness_of(zone);
        if zone.propagation.holds(key) {
            return lateness.map_or(Withdrawal::Pending, Withdrawal::Failing);
        }
        lateness.map_or(Withdrawal::Pending, Withdrawal::Lingering)
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
        if late.is_some() {
            zone.wait_again();
        }
        zone.propagation.late = late;
        let waiting: Vec<RecordKey> = zone.propagation.sets.keys().cloned().collect();
        let all = zone.propagation.is_opening();
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
    /// Whether other servers are to have what the leader has. A zone that Bindery created and nobody
    /// declares goes from all of them at once; from one of others, our records go everywhere first.
    pub(super) fn is_followed(&self) -> bool {
        self.lifecycle.is_open() && (self.declared.is_some() || !self.created_by_us)
    }

    /// When something about other servers is due.
    pub(super) fn follow_wake(&self, pace: &crate::fleet::Pace) -> Option<Duration> {
        if !self.is_followed() {
            return None;
        }
        let grace = self.fleet.grace_ends(pace);
        let grace = grace.filter(|_| self.propagation.late.is_none());
        self.fleet.wake().into_iter().chain(grace).min()
    }
}

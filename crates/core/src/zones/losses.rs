//! What a server lost: the serial that must not come back, and what others wrote and is put back.
//!
//! A leader that is found at an older version than it had is *fallen*. What is declared is written again
//! as ever; what others wrote is known from memory or from other servers, and is written again too. Then
//! the serial goes beyond the newest that anybody may have seen, so that every server takes what is new.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{SerialFloor, Tenancy, Zone, ZoneContent, Zones, all_types, own::newest};
use crate::{
    fault::{Fault, FaultKind},
    name::Name,
    record::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial},
};

/// Records that were taken away and are remembered, so that an older version does not bring them back:
/// about 200 bytes each, so 200 kB for a zone that changes all the time.
const WITHDRAWN_MAX: usize = 1_000;

/// How much newer than the last serial that a status tells of a zone is made: its servers may have had
/// newer ones in the second before a crash, which the status never told.
const UNTOLD: u32 = 1_000;

/// How long a fallen leader waits, before it goes beyond what it had, for what has to be mended first: some
/// of it may be what its author wants nobody to touch, or what its server refuses.
const MENDED_MAX: Duration = Duration::from_secs(30);

/// What is known of a zone beyond what its leader has.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that any other may go with"
)]
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The newest serial that anybody may have seen of the leader.
    floor: Option<Serial>,
    /// The floor is what was told before this process, which may not be all.
    is_hearsay: bool,
    /// What was told before the floor was put where nobody can have been.
    told: Option<Serial>,
    /// The zone may have been there before this process, at serials that nobody was told.
    is_untold: bool,
    /// The leader was on its way up before this process: its serial is no proof of what it has before it is
    /// beyond the bar.
    was_fallen: bool,
    /// The serial at which the leader was found, older than the floor, until it is beyond.
    fallen: Option<Serial>,
    /// Another server leads and was not read yet.
    is_handed_over: bool,
    /// It joined while the zone was served, and was never in line with the others.
    is_led_by_newcomer: bool,
    /// Other servers are to be asked what they still have.
    ask: bool,
    /// What others wrote and the leader lost, until it stands there again.
    rescued: BTreeMap<RecordKey, Arc<RecordSet>>,
    /// What was taken away of late, oldest first.
    withdrawn: VecDeque<(RecordKey, RecordData)>,
    /// Of that, and of what was taken away in between, what stands in the older version of a fallen leader,
    /// until it is gone again.
    returned: BTreeSet<(RecordKey, RecordData)>,
    /// When the leader was found fallen.
    fallen_since: Duration,
    /// The serial at which the leader last lost something, for people.
    lost_at: Option<Serial>,
    /// The zone was taken back, so that it is no loss when it is gone.
    taken_back: bool,
}

impl Losses {
    /// Takes in what is known from before this process.
    pub(super) fn suppose(&mut self, before: SerialFloor) {
        match before {
            SerialFloor::New => {}
            SerialFloor::Untold => self.is_untold = true,
            SerialFloor::Told(told) | SerialFloor::Fallen(told) => {
                if self.floor.is_none_or(|floor| told.newer_than(floor)) {
                    (self.floor, self.is_hearsay) = (Some(told), true);
                    self.was_fallen = matches!(before, SerialFloor::Fallen(_));
                }
            }
        }
    }

    /// Takes in a serial that the leader has.
    pub(super) fn raise(&mut self, serial: Serial) {
        if self.floor.is_none_or(|floor| !floor.newer_than(serial)) {
            // The serials of a leader on its way up are no proof of how far it had been.
            let is_hearsay = self.is_hearsay && self.fallen.is_some();
            (self.floor, self.is_hearsay) = (Some(serial), is_hearsay);
        }
    }

    /// The newest serial that anybody may have seen of the leader.
    pub(super) fn floor(&self) -> Option<Serial> {
        self.floor
    }

    /// The serial that the next one must be newer than.
    pub(super) fn bar(&self) -> Option<Serial> {
        let untold = if self.is_hearsay { UNTOLD } else { 0 };
        self.floor.map(|floor| Serial(floor.0.wrapping_add(untold)))
    }

    /// The same where the leader has to go there because it fell. Its serials on the way there may be those
    /// of other versions elsewhere, so that it is not there before it was told to.
    pub(super) fn beyond(&self, serial: Serial) -> Option<Serial> {
        let bar = newest(self.bar(), Some(serial));
        bar.filter(|_| self.fallen.is_some())
    }

    /// Whether a fallen leader has to be mended before it goes beyond what it had. After that, a process that
    /// begins anew cannot tell what came back with the older version, or is missing, from what is to be there.
    pub(super) fn holds_back(&self, now: Duration) -> bool {
        let is_mended = self.returned.is_empty() && self.rescued.is_empty();
        self.fallen.is_some() && !is_mended && now < self.fallen_since + MENDED_MAX
    }

    /// Another server leads. The one before it may have taken what no answer told of, so that its serials
    /// are as uncertain as those of another process.
    pub(super) fn hand_over(&mut self, is_new: bool) {
        self.is_handed_over = true;
        self.is_led_by_newcomer = is_new;
        self.is_hearsay = true;
    }

    /// Whether the leader has an older version than it had.
    pub(super) fn is_fallen(&self) -> bool {
        self.fallen.is_some()
    }

    /// What is told while the leader is not beyond what it had.
    pub(super) fn fault(&self) -> Option<Fault> {
        let (serial, floor) = self.fallen.zip(self.lost_at)?;
        Some(Fault::new(
            FaultKind::Behind,
            format!(
                "the first server lost changes: it was found at serial {serial} after {floor}, as with \
                 an older zone file or a lost journal; they are written again, and its serial goes \
                 beyond"
            ),
        ))
    }

    /// Whether other servers are to be asked.
    pub(super) fn asks(&self) -> bool {
        self.ask
    }

    /// What others wrote in this set and the leader lost.
    pub(super) fn rescued(&self, key: &RecordKey) -> Option<&RecordSet> {
        self.rescued.get(key).map(Arc::as_ref)
    }

    /// A set needs nothing more.
    pub(super) fn settle(&mut self, key: &RecordKey) {
        self.rescued.remove(key);
        self.returned.retain(|(returned, _)| returned != key);
    }

    /// Whether this record of an older version is one that was taken away since.
    pub(super) fn is_returned(&self, key: &RecordKey, data: &RecordData) -> bool {
        // Looked at for every record that nobody carries, so first for the usual case.
        !self.returned.is_empty() && self.returned.contains(&(key.clone(), data.clone()))
    }

    /// Notes what was taken out of a set.
    pub(super) fn withdraw(
        &mut self,
        key: &RecordKey,
        before: Option<&Arc<RecordSet>>,
        after: Option<&Arc<RecordSet>>,
    ) {
        let left = after.map_or(&[][..], |set| set.data());
        let gone = before.map_or(&[][..], |set| set.data()).iter();
        for data in gone.filter(|data| !left.contains(data)) {
            if self.withdrawn.len() >= WITHDRAWN_MAX {
                self.withdrawn.pop_front();
            }
            self.withdrawn.push_back((key.clone(), data.clone()));
        }
    }

    /// The zone is taken back: nothing is put back into it.
    pub(super) fn let_go(&mut self) {
        self.rescued.clear();
        self.ask = false;
        self.taken_back = true;
        self.lost_at = None;
    }

    /// The zone is created: again, if it is known to have been there.
    pub(super) fn recreate(&mut self) {
        self.lost_at = self.floor.filter(|_| !self.taken_back);
    }

    /// The serial at which the leader lost something that it has again.
    pub(super) fn mended(&self) -> Option<Serial> {
        self.lost_at.filter(|_| self.fallen.is_none())
    }

    /// The server lets nobody write its serial, which is another's to mend.
    pub(super) fn give_up(&mut self, serial: Serial) {
        self.fallen = None;
        (self.floor, self.is_hearsay) = (Some(serial), false);
    }

    /// The leader has this serial, written by us.
    pub(super) fn reach(&mut self, serial: Serial) {
        if self.floor.is_none_or(|floor| !floor.newer_than(serial)) {
            self.fallen = None;
            self.told = None;
            self.taken_back = false;
        }
        self.raise(serial);
    }
}

impl Zone {
    /// Takes in the version of the zone that was read, before it replaces what was known.
    pub(super) fn compare_version(
        &mut self,
        apex: &Name,
        ZoneContent { serial, sets }: &ZoneContent,
        now: Duration,
    ) {
        let serial = *serial;
        let losses = &mut self.losses;
        losses
            .rescued
            .retain(|key, set| sets.get(key).is_none_or(|stands| !has_all(stands, set)));
        // So far ahead that no single step leads beyond it (RFC 1982 section 3): that was never served.
        if losses.is_hearsay
            && losses
                .bar()
                .is_some_and(|bar| !bar.next().newer_than(serial))
        {
            losses.floor = None;
        }
        let is_handed_over = std::mem::take(&mut losses.is_handed_over);
        if is_handed_over {
            // As far ahead as the former leader may be, whatever it was given since it was last read.
            losses.told = losses.floor;
            losses.floor = newest(losses.bar(), Some(serial));
            losses.is_hearsay = false;
        }
        let is_on_its_way = std::mem::take(&mut losses.was_fallen)
            && losses.bar().is_some_and(|bar| !serial.newer_than(bar));
        let is_older = is_on_its_way || losses.floor.is_some_and(|floor| floor.newer_than(serial));
        if !is_older && !is_handed_over {
            // One that fell goes beyond by a step of its own, wherever its changes led it.
            if losses.fallen.is_none() {
                losses.reach(serial);
            }
            return;
        }
        // Without memory of it, others may know what the newer version had.
        losses.ask |= losses.fallen.is_none() && self.known_serial.is_none();
        if losses.fallen.is_none() {
            // Another server that leads lost nothing.
            losses.lost_at = losses.floor.filter(|_| !is_handed_over);
            losses.fallen_since = now;
        }
        losses.fallen = Some(serial);
        let stands = |(key, data): &&(RecordKey, RecordData)| {
            sets.get(key).is_some_and(|set| set.data().contains(data))
        };
        losses.returned.retain(|one| stands(&one));
        let returned = losses.withdrawn.iter().filter(stands).cloned();
        losses.returned.extend(returned);
        for (key, _) in &losses.returned {
            self.guard.pass(key);
        }
        let known = self.known_serial;
        let is_behind = known.is_some_and(|known| known.newer_than(serial));
        // Of a server that was in line, what we do not know was written by others a moment ago, and stays.
        if std::mem::take(&mut self.losses.is_led_by_newcomer) && is_behind {
            let newer = self.children.all_actual();
            let gone = taken_away(sets, |key| newer.get(key).map(|set| set.data()));
            self.let_go_again(apex, gone);
        }
        if is_handed_over || is_behind {
            self.stash();
        }
    }

    /// What a leader has and the newer version does not was taken away in between, by us or by others: it goes
    /// again, as it would from a follower with an older version.
    fn let_go_again(&mut self, apex: &Name, gone: Vec<(RecordKey, RecordData)>) {
        for (key, data) in gone {
            let is_apex =
                key.name == *apex && matches!(key.rtype, RecordType::Soa | RecordType::Ns);
            if is_apex || self.children.desired(&key).is_some() {
                continue;
            }
            self.guard.pass(&key);
            self.children.mark(key.clone());
            self.losses.returned.insert((key, data));
        }
    }

    /// Keeps what others wrote, since the leader lost it.
    pub(super) fn stash(&mut self) {
        self.fleet.forget_copies();
        let is_shared = |declared: &super::ZoneDeclaration| declared.tenancy == Tenancy::Shared;
        if !self.declared.as_ref().is_some_and(is_shared) {
            return;
        }
        for key in &self.foreign {
            if let Some(set) = self.children.actual(key) {
                self.losses.rescued.insert(key.clone(), Arc::clone(set));
                self.children.mark(key.clone());
            }
        }
    }

    /// What others wrote, for a zone that is created again.
    pub(super) fn rescued_records(&self) -> impl Iterator<Item = Record> {
        let sets = self.losses.rescued.iter();
        let free = sets.filter(|(key, _)| {
            self.children.desired(key).is_none() && !clashes(key, self.children.all_desired())
        });
        free.flat_map(|(key, set)| set.records(key))
    }

    /// The set that others' records and what stands make together; `None` where they cannot.
    pub(super) fn restoration(&self, key: &RecordKey) -> Option<RecordSet> {
        let lost = self.losses.rescued(key)?;
        let standing = self.children.actual(key);
        let is_other = standing.is_some_and(|set| !has_all(set, lost));
        if clashes(key, self.children.all_actual())
            || clashes(key, self.children.all_desired())
            || (key.rtype == RecordType::Cname && is_other)
        {
            return None;
        }
        let ttl = standing.map_or(lost.ttl, |set| set.ttl);
        let standing = standing.map_or(&[][..], |set| set.data());
        Some(RecordSet::new(
            ttl,
            standing.iter().chain(lost.data()).cloned(),
        ))
    }
}

/// The records of an older version that a newer one does not have.
fn taken_away<'a, S: Borrow<RecordSet> + 'a>(
    older: impl IntoIterator<Item = (&'a RecordKey, &'a S)>,
    newer: impl Fn(&RecordKey) -> Option<&'a [RecordData]>,
) -> Vec<(RecordKey, RecordData)> {
    let mut gone = Vec::new();
    for (key, set) in older {
        let left = newer(key).unwrap_or_default();
        let data = set.borrow().data().iter();
        let data = data.filter(|data| !left.contains(data));
        gone.extend(data.map(|data| (key.clone(), data.clone())));
    }
    gone
}

impl Zones {
    /// The serial that a zone must be created beyond.
    pub(super) fn creation_bar(zone: &Zone) -> Option<Serial> {
        let untold = Some(Serial(UNTOLD)).filter(|_| zone.losses.is_untold);
        let known = zone.losses.bar().or(untold);
        newest(known, zone.fleet.newest())
    }

    /// The version that another server still has is taken in: what others wrote there is put back.
    pub(super) fn rescued(
        &mut self,
        name: &Name,
        result: Result<Option<ZoneContent>, Fault>,
        now: Duration,
    ) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.reading = false;
        let content = match result {
            Ok(content) => content,
            // Whoever did not answer may have it; one that is silent for long is asked no more.
            Err(fault) => return self.zone_failed(name, fault, now),
        };
        zone.losses.ask = false;
        let Some(content) = content.map(|content| content.sifted(name)) else {
            return;
        };
        let told = zone.losses.told.or(zone.losses.floor);
        if told.is_none_or(|told| !told.newer_than(content.serial)) {
            let newer = |key: &RecordKey| content.sets.get(key).map(RecordSet::data);
            let gone = taken_away(zone.children.all_actual(), newer);
            zone.let_go_again(name, gone);
        }
        let floor = newest(zone.losses.floor, Some(content.serial));
        if floor != zone.losses.floor {
            (zone.losses.floor, zone.losses.is_hearsay) = (floor, false);
        }
        // What cannot be put back stands beside something that was declared or written since.
        let _left = self.take_over(name, content.sets);
    }

    /// Puts what others wrote on another server on the leader too. Returns how many sets that concerns, and
    /// those of them that cannot stand there.
    pub(super) fn take_over(
        &mut self,
        name: &Name,
        sets: impl IntoIterator<Item = (RecordKey, RecordSet)>,
    ) -> (usize, Vec<RecordKey>) {
        let Some(zone) = self.known.get(name) else {
            return (0, Vec::new());
        };
        let declared = zone.declared.as_ref();
        let is_exclusive = declared.is_some_and(|one| one.tenancy == Tenancy::Exclusive);
        if is_exclusive || (declared.is_none() && zone.created_by_us) {
            return (0, Vec::new());
        }
        let mut taken = Vec::new();
        let mut clashing = Vec::new();
        for (key, set) in sets {
            let is_apex =
                key.name == *name && matches!(key.rtype, RecordType::Soa | RecordType::Ns);
            // What stands in place of a set that we have had goes, there as on the leader.
            let is_ours = || zone.children.desired(&key).is_some() || self.is_usurper(zone, &key);
            if is_apex || is_ours() {
                continue;
            }
            let standing = zone.children.actual(&key).map_or(&[][..], |set| set.data());
            let is_lost = |data: &&RecordData| {
                !standing.contains(data)
                    && !self.is_owned(zone, &key, data)
                    && !zone
                        .losses
                        .withdrawn
                        .contains(&(key.clone(), (*data).clone()))
            };
            let lost: Vec<RecordData> = set.data().iter().filter(is_lost).cloned().collect();
            if !lost.is_empty() {
                taken.push((key, RecordSet::new(set.ttl, lost)));
            }
        }
        let Some(zone) = self.known.get_mut(name) else {
            return (0, Vec::new());
        };
        for (key, set) in &taken {
            zone.losses
                .rescued
                .insert(key.clone(), Arc::new(set.clone()));
            if zone.restoration(key).is_none() {
                zone.losses.rescued.remove(key);
                clashing.push(key.clone());
            } else {
                zone.children.mark(key.clone());
            }
        }
        (taken.len(), clashing)
    }
}

fn has_all(set: &RecordSet, wanted: &RecordSet) -> bool {
    wanted.data().iter().all(|data| set.data().contains(data))
}

/// Whether a set among these cannot stand beside one of this key.
fn clashes(key: &RecordKey, sets: &BTreeMap<RecordKey, Arc<RecordSet>>) -> bool {
    let others = sets.range(all_types(&key.name)).map(|(other, _)| other);
    let mut others = others.filter(|other| other.rtype != key.rtype);
    !key.rtype.stands_beside_cname()
        && others.any(|other| {
            [key.rtype, other.rtype].contains(&RecordType::Cname)
                && !other.rtype.stands_beside_cname()
        })
}

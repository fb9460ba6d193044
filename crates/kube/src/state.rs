//! What the controllers remember: the catalog of objects and how far each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{
    ClaimReceipt, ClaimStatus, Receipt, SerialFloor, Withdrawal, ZoneReceipt,
};
use bindery_core::{
    Backoff, Failures, Group, Kind, ObjectRef, RecordKey, Serial, SmallSet, Uid, ZoneKey, compact,
};
use bindery_sources::{Catalog, Cause, Groups, Id, Life, Meta, Object};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Watched;
use crate::deletions::Deletions;
use crate::events::LastEvent;
use crate::status::{MainCondition, ObservedStatus, StatusCache};
use crate::zone::{TakenBack, ZoneProgress};

/// What the controllers remember. Everything in it can be found out again after a restart.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) catalog: Catalog,
    pub(crate) progress: BTreeMap<Id, Box<Progress>>,
    pub(crate) zones: BTreeMap<Id, ZoneProgress>,
    /// The zone object that last declared each zone to the engine.
    pub(crate) declarers: BTreeMap<ZoneKey, Id>,
    /// Zones that are gone.
    pub(crate) taken_back: TakenBack,
    /// How each zone is, as the engine says.
    pub(crate) zone_events: BTreeMap<ZoneKey, ZoneReceipt>,
    /// Which objects are in which zone.
    pub(crate) members: BTreeMap<Id, Members>,
    /// The newest serial that the status of each zone object tells.
    pub(crate) serials: BTreeMap<Id, SerialFloor>,
    /// How the status of each zone object that is signed tells it is.
    pub(crate) signed: BTreeMap<Id, Value>,
    /// How deletions of publishing objects came about.
    pub(crate) deletions: Deletions,
}

/// How far one object is.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) status: StatusCache,
    pub(crate) revision: u64,
    pub(crate) submission: Submission,
    /// What became of the last declaration, until it is told.
    pub(crate) receipt: Option<Arc<Receipt>>,
    /// Whether everything that the object had in DNS before its last declaration is gone.
    pub(crate) withdrawn: bool,
    /// Its main condition as it was last reported.
    pub(crate) reported: Option<MainCondition>,
    /// What the last Event said, or would have said.
    pub(crate) last_event: LastEvent,
    /// The zones that it is in.
    pub(crate) zones: SmallSet<Id>,
    /// Most objects stand as they are, and of a hundred thousand every field would be felt.
    work: Option<Box<InProgress>>,
}

/// What is known of an object only while it is in progress.
#[derive(Default)]
struct InProgress {
    /// The record sets that the object asks for and that nobody else has in DNS, sorted.
    available: Box<[(Group, RecordKey)]>,
    /// When its newest generation was seen, until that is served or its author is told why not.
    since: Option<Instant>,
    /// The end of its grace period, in which nobody is told that it has no zone.
    grace: Option<Instant>,
    /// What others did to its sets, as often as it was told.
    mended: u32,
    /// How often what others wrote over was put right, and when it may be again.
    mending: Option<(Failures, Instant)>,
    /// As the how manieth its deletion was seen, and how it came about, once that was asked.
    deletion: Option<(u64, Option<Cause>)>,
}

/// How long to wait before what others wrote over is put right once more: two writers that contradict each
/// other must not keep each other busy.
const MENDING: Backoff = Backoff {
    first: Duration::from_millis(500),
    max: Duration::from_secs(30),
};

/// What was last done with an object's claims; the number stands for their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Submission {
    /// Nothing yet.
    #[default]
    Nothing,
    /// They were not submitted; the author has to correct the object and was told why.
    Withheld(u64),
    /// They were submitted to the engine.
    Declared(u64),
}

/// The objects in one zone.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) ready: BTreeSet<Id>,
    pub(crate) waiting: BTreeSet<Id>,
}

impl Progress {
    /// The record sets that the object asks for and that nobody else has in DNS, sorted.
    pub(crate) fn available(&self) -> &[(Group, RecordKey)] {
        self.work.as_ref().map_or(&[], |way| &way.available)
    }

    /// The end of its grace period; `until` where it has none yet.
    pub(crate) fn grace_until(&mut self, until: Instant) -> Instant {
        self.update_in_progress(|way| *way.grace.get_or_insert(until))
    }

    /// What others wrote over is about to be put right; the first time at once.
    ///
    /// # Errors
    /// The time before which it is not to be done again.
    pub(crate) fn mend(&mut self, now: Instant, salt: u64) -> Result<(), Instant> {
        self.update_in_progress(|way| {
            let (failures, until) = way
                .mending
                .get_or_insert_with(|| (Failures::default(), now));
            if now < *until {
                return Err(*until);
            }
            if now > *until + MENDING.max {
                failures.reset();
            }
            *until = now + failures.fail(&MENDING, salt);
            Ok(())
        })
    }

    /// As the how manieth its deletion was seen.
    pub(crate) fn deletion_seen(&self) -> u64 {
        let deletion = self.work.as_ref().and_then(|way| way.deletion);
        deletion.map_or(0, |(seen, _)| seen)
    }

    /// How its deletion came about, once that was asked.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.work.as_ref()?.deletion?.1
    }

    /// Notes how its deletion came about.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.update_in_progress(|way| way.deletion.get_or_insert((0, None)).1 = Some(cause));
    }

    /// Notes how often sets of it were put right, and returns what was noted before.
    pub(crate) fn mended(&mut self, times: u32) -> u32 {
        if times == 0 && self.work.is_none() {
            return 0;
        }
        self.update_in_progress(|way| std::mem::replace(&mut way.mended, times))
    }

    /// Whether others overwrote the status, and no receipt waits that would restore it.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.status.is_overwritten() && self.receipt.is_none()
    }

    /// The main condition that stands in the object, whoever wrote it; where its kind keeps no conditions,
    /// the one that was last reported.
    pub(crate) fn main_condition(&self, kind: Kind) -> Option<MainCondition> {
        self.status.observed.main_condition(kind).or(self.reported)
    }

    /// Changes what is known only while the object is in progress, and drops it when nothing is left.
    fn update_in_progress<R>(&mut self, change: impl FnOnce(&mut InProgress) -> R) -> R {
        let mut way = self.work.take().unwrap_or_default();
        let result = change(&mut way);
        if !way.is_over() {
            self.work = Some(way);
        }
        result
    }
}

impl InProgress {
    fn is_over(&self) -> bool {
        self.available.is_empty()
            && self.since.is_none()
            && self.grace.is_none()
            && self.deletion.is_none()
            && self.mended == 0
            && self
                .mending
                .is_none_or(|(_, until)| until.elapsed() > MENDING.max)
    }
}

impl State {
    /// Nothing is known yet but the groups of servers.
    pub(crate) fn new(groups: Groups) -> Self {
        Self {
            catalog: Catalog::new(groups),
            ..Self::default()
        }
    }

    /// Puts everything into little room.
    pub(crate) fn compact(&mut self) {
        self.catalog.compact();
        compact(&mut self.progress);
    }

    /// Whether this version of an object, or a newer one, was taken in already.
    pub(crate) fn is_known(&self, meta: &Meta) -> bool {
        let known = self.catalog.meta(&meta.object);
        known.is_some_and(|known| known.version >= meta.version)
    }

    /// Notes the newest serial that a zone object's status tells, and how the zone is signed.
    pub(crate) fn tell_serial(&mut self, zone: &Id, status: &Value) {
        let told = &status["dnssec"];
        if told.is_null() {
            self.signed.remove(zone);
        } else {
            self.signed.insert(Id::clone(zone), told.clone());
        }
        let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
        let told = servers.iter().map(|server| &server["serial"]);
        let serials = told
            .chain([&status["newestSerial"], &status["lastSerial"]])
            .filter_map(|serial| u32::try_from(serial.as_u64()?).ok().map(Serial));
        let newer = |one: Serial, other: Serial| if other.newer_than(one) { other } else { one };
        if let Some(newest) = serials.reduce(newer) {
            // It is told only while the leader has an older version.
            let floor = if status["newestSerial"].is_null() {
                SerialFloor::Told(newest)
            } else {
                SerialFloor::Fallen(newest)
            };
            self.serials.insert(Id::clone(zone), floor);
        }
    }

    /// Notes that a zone object declares a zone; what was said of it before counts no longer.
    pub(crate) fn set_declarer(&mut self, object: &Id, zone: &ZoneKey) {
        self.taken_back.forget(zone);
        self.declarers.insert(zone.clone(), Id::clone(object));
        self.zone_events.remove(zone);
    }

    /// Notes that a zone object no longer declares a zone, and returns whether it did.
    pub(crate) fn clear_declarer(&mut self, object: &Id, zone: &ZoneKey) -> bool {
        let owned = self.declarers.get(zone) == Some(object);
        if owned {
            self.declarers.remove(zone);
            self.zone_events.remove(zone);
        }
        owned
    }

    /// Whether something else stands in an object's status than what was told.
    pub(crate) fn is_overwritten(&self, id: &ObjectRef) -> bool {
        let progress = self.progress.get(id);
        progress.is_some_and(|progress| progress.status.is_overwritten())
    }

    /// Takes in an object as it was read, and returns the objects to reconcile.
    pub(crate) fn ingest(
        &mut self,
        object: Object,
        status: ObservedStatus,
        since: Option<Instant>,
    ) -> BTreeSet<Id> {
        if self.is_known(&object.meta) {
            return BTreeSet::new();
        }
        let id = Id::clone(&object.meta.object);
        let known = self.catalog.meta(&id).map(|meta| meta.generation);
        let is_new = known != Some(object.meta.generation);
        let is_deleting = object.meta.life == Life::Deleting;
        let mut affected = self.catalog.upsert(object);
        let Some(id) = self.catalog.meta(&id).map(|meta| Id::clone(&meta.object)) else {
            return affected;
        };
        let progress = self.progress.entry(Id::clone(&id)).or_default();
        if is_deleting {
            let seen = self.deletions.number();
            progress.update_in_progress(|way| _ = way.deletion.get_or_insert((seen, None)));
        }
        if is_new {
            progress.update_in_progress(|way| way.since = since);
        }
        progress.status.observed = status;
        // Somebody wrote over us, or a write of ours whose answer was lost arrived late.
        if progress.status.is_overwritten() {
            affected.insert(id);
        }
        affected
    }

    /// Removes all objects of what is watched but these, and returns the objects to reconcile.
    pub(crate) fn on_relist(&mut self, watched: &Watched, uids: &BTreeSet<Uid>) -> BTreeSet<Id> {
        let gone: Vec<Id> = self
            .catalog
            .ids()
            .filter(|id| watched.has(id) && !uids.contains(&id.uid))
            .cloned()
            .collect();
        gone.iter().flat_map(|id| self.catalog.remove(id)).collect()
    }

    /// Takes in what became of a declaration; an answer to an earlier one is of no use.
    pub(crate) fn receive(&mut self, event: Receipt) -> Option<Id> {
        let id = self.progress.get_key_value(&event.owner)?.0.clone();
        // A zone that is active but not declared yet is about to be; a better answer comes then.
        let is_early = event.outcomes.iter().any(|outcome| {
            let zone = || ZoneKey {
                name: outcome.claim.zone.clone(),
                group: outcome.group.clone(),
            };
            outcome.status == ClaimStatus::NoZone && self.catalog.active_zone(&zone()).is_some()
        });
        if is_early {
            return None;
        }
        let progress = self.progress.get_mut(&id)?;
        if progress.revision != event.revision {
            return None;
        }
        progress.withdrawn = event.withdrawal == Withdrawal::Done;
        let outcomes = event.outcomes.iter();
        let available: BTreeSet<(Group, RecordKey)> = outcomes
            .filter(|outcome| outcome.status == ClaimStatus::Admissible)
            .map(|outcome| (outcome.group.clone(), outcome.claim.key.clone()))
            .collect();
        progress.update_in_progress(|way| way.available = available.into_iter().collect());
        progress.receipt = Some(Arc::new(event));
        Some(id)
    }

    /// How long it took until the newest generation of an object was served, told once.
    pub(crate) fn served(&mut self, id: &ObjectRef) -> Option<Duration> {
        let progress = self.progress.get_mut(id)?;
        let outcomes = &progress.receipt.as_ref()?.outcomes;
        let is_served =
            |outcome: &ClaimReceipt| matches!(outcome.status, ClaimStatus::Programmed(_));
        if outcomes.is_empty() || !outcomes.iter().all(is_served) {
            return None;
        }
        let since = progress.update_in_progress(|way| way.since.take());
        since.map(|since| since.elapsed())
    }

    /// Notes in which zones an object was reported and with which main condition, and returns the zones whose list of it changed.
    pub(crate) fn set_reported(
        &mut self,
        id: &Id,
        zones: &SmallSet<Id>,
        main: MainCondition,
    ) -> BTreeSet<Id> {
        let Some(progress) = self.progress.get_mut(id) else {
            return BTreeSet::new();
        };
        let before = std::mem::replace(&mut progress.zones, zones.clone());
        let was = progress.reported.replace(main);
        progress.update_in_progress(|way| {
            if main.good {
                way.grace = None;
            } else {
                // From here on it is somebody else's time that passes.
                way.since = None;
            }
        });
        if before == *zones && was.is_some_and(|was| was.good == main.good) {
            return BTreeSet::new();
        }
        self.leave(id, &before);
        for zone in zones {
            let members = self.members.entry(Id::clone(zone)).or_default();
            let list = if main.good {
                &mut members.ready
            } else {
                &mut members.waiting
            };
            list.insert(Id::clone(id));
        }
        before.iter().chain(zones).cloned().collect()
    }

    /// Forgets an object that is gone, and returns the zones that it was in.
    pub(crate) fn forget(&mut self, id: &ObjectRef) -> SmallSet<Id> {
        self.catalog.purge(id);
        self.serials.remove(id);
        let Some((id, progress)) = self.progress.remove_entry(id) else {
            return SmallSet::default();
        };
        self.leave(&id, &progress.zones);
        progress.zones
    }

    /// Takes in that an object is gone, where another process saw to what it had.
    pub(crate) fn pass_over(&mut self, id: &ObjectRef) {
        self.catalog.remove(id);
        self.zones.remove(id);
        self.forget(id);
    }

    fn leave(&mut self, id: &Id, zones: &SmallSet<Id>) {
        for zone in zones {
            if let Some(members) = self.members.get_mut(zone) {
                members.ready.remove(id);
                members.waiting.remove(id);
                if members.ready.is_empty() && members.waiting.is_empty() {
                    self.members.remove(zone);
                }
            }
        }
    }
}

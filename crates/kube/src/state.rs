//! What the controllers remember: the catalog of objects and how far each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{ClaimReceipt, ClaimStatus, Receipt, Withdrawal, ZoneReceipt};
use bindery_core::{
    Backoff, Failures, Group, Kind, ObjectRef, Reason, RecordKey, Serial, SmallSet, Uid, ZoneKey,
    compact,
};
use bindery_sources::{Catalog, Groups, Id, Meta, Object};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Watched;
use crate::events::{Said, Voice};
use crate::status::{Memory, Seen};
use crate::zone::ZoneProgress;

/// What the controllers remember. Everything in it can be found out again after a restart.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) catalog: Catalog,
    pub(crate) progress: BTreeMap<Id, Box<Progress>>,
    pub(crate) zones: BTreeMap<Id, ZoneProgress>,
    /// The zone object that last declared each zone to the engine.
    pub(crate) declarers: BTreeMap<ZoneKey, Id>,
    /// How each zone is, as the engine says.
    pub(crate) zone_events: BTreeMap<ZoneKey, ZoneReceipt>,
    /// Which objects are in which zone.
    pub(crate) members: BTreeMap<Id, Members>,
    /// The newest serial that the status of each zone object tells.
    pub(crate) serials: BTreeMap<Id, Serial>,
}

/// How far one object is.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) memory: Memory,
    pub(crate) revision: u64,
    pub(crate) asked: Asked,
    /// What became of the last declaration, until it is told.
    pub(crate) receipt: Option<Arc<Receipt>>,
    /// Whether nothing but the last declaration is left in DNS.
    pub(crate) settled: bool,
    pub(crate) shown: Option<Shown>,
    /// What its author was last told in an Event, or could have been.
    pub(crate) voice: Voice,
    /// The zones that it is in.
    pub(crate) zones: SmallSet<Id>,
    /// Most objects stand as they are, and of a hundred thousand every field would be felt.
    underway: Option<Box<Underway>>,
}

/// What is known of an object only while it is on its way.
#[derive(Default)]
struct Underway {
    /// Where the zone was looked at and has room for what the object asks for, sorted.
    free: Box<[(Group, RecordKey)]>,
    /// When its newest generation was seen, until that is served or its author is told why not.
    since: Option<Instant>,
    /// Until when it is not told that it has no zone.
    patience: Option<Instant>,
    /// What others did to its sets, as often as it was told.
    mended: u32,
    /// How often what others wrote over was put right, and when it may be again.
    mending: Option<(Failures, Instant)>,
}

/// How long to wait before what others wrote over is put right once more: two writers that contradict each
/// other must not keep each other busy.
const MENDING: Backoff = Backoff {
    first: Duration::from_millis(500),
    max: Duration::from_secs(30),
};

/// What was last done with an object's wishes; the number stands for their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing yet.
    #[default]
    Nothing,
    /// They were held back, and the author was told why.
    Held(u64),
    /// They were declared to the engine.
    Declared(u64),
}

/// What people see of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) good: bool,
    pub(crate) reason: Reason,
}

/// The objects in one zone.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) ready: BTreeSet<Id>,
    pub(crate) waiting: BTreeSet<Id>,
}

impl Progress {
    /// Where the zone was looked at and has room for what the object asks for, sorted.
    pub(crate) fn free(&self) -> &[(Group, RecordKey)] {
        self.underway.as_ref().map_or(&[], |way| &way.free)
    }

    /// Until when it is not told that it has no zone, if it is `until` where nothing was said before.
    pub(crate) fn patience(&mut self, until: Instant) -> Instant {
        self.on_its_way(|way| *way.patience.get_or_insert(until))
    }

    /// What others wrote over is about to be put right; the first time at once.
    ///
    /// # Errors
    /// The time before which it is not to be done again.
    pub(crate) fn mend(&mut self, now: Instant, salt: u64) -> Result<(), Instant> {
        self.on_its_way(|way| {
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

    /// Notes how often sets of it were put right, and returns what was noted before.
    pub(crate) fn mended(&mut self, times: u32) -> u32 {
        if times == 0 && self.underway.is_none() {
            return 0;
        }
        self.on_its_way(|way| std::mem::replace(&mut way.mended, times))
    }

    /// Whether others wrote over what was told, and nothing is on its way to put it right.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.memory.is_overwritten() && self.receipt.is_none()
    }

    /// What the object says, be it that others wrote it; where its kind keeps no conditions, what it was
    /// told.
    pub(crate) fn says(&self, kind: Kind) -> Option<Shown> {
        let said = self.memory.seen.said(kind);
        let said = said.map(|Said { good, reason }| Shown { good, reason });
        said.or(self.shown)
    }

    /// Changes what is known of it on its way, and keeps that only if something is.
    fn on_its_way<R>(&mut self, change: impl FnOnce(&mut Underway) -> R) -> R {
        let mut way = self.underway.take().unwrap_or_default();
        let result = change(&mut way);
        if !way.is_over() {
            self.underway = Some(way);
        }
        result
    }
}

impl Underway {
    fn is_over(&self) -> bool {
        self.free.is_empty()
            && self.since.is_none()
            && self.patience.is_none()
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

    /// Notes the newest serial that a zone object's status tells.
    pub(crate) fn tell_serial(&mut self, zone: &Id, status: &Value) {
        let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
        let serials = servers.iter().filter_map(|server| {
            let serial = server["serial"].as_u64()?;
            u32::try_from(serial).ok().map(Serial)
        });
        let newer = |one: Serial, other: Serial| if other.newer_than(one) { other } else { one };
        if let Some(newest) = serials.reduce(newer) {
            self.serials.insert(Id::clone(zone), newest);
        }
    }

    /// Notes that a zone object declares a zone; what was said of it before counts no longer.
    pub(crate) fn own(&mut self, object: &Id, zone: &ZoneKey) {
        self.declarers.insert(zone.clone(), Id::clone(object));
        self.zone_events.remove(zone);
    }

    /// Notes that a zone object no longer declares a zone, and returns whether it did.
    pub(crate) fn disown(&mut self, object: &Id, zone: &ZoneKey) -> bool {
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
        progress.is_some_and(|progress| progress.memory.is_overwritten())
    }

    /// Takes in an object as it was seen, and returns the objects to visit.
    pub(crate) fn see(
        &mut self,
        object: Object,
        status: Seen,
        since: Option<Instant>,
    ) -> BTreeSet<Id> {
        if self.is_known(&object.meta) {
            return BTreeSet::new();
        }
        let id = Id::clone(&object.meta.object);
        let known = self.catalog.meta(&id).map(|meta| meta.generation);
        let is_new = known != Some(object.meta.generation);
        let mut affected = self.catalog.upsert(object);
        let Some(id) = self.catalog.meta(&id).map(|meta| Id::clone(&meta.object)) else {
            return affected;
        };
        let progress = self.progress.entry(Id::clone(&id)).or_default();
        if is_new {
            progress.on_its_way(|way| way.since = since);
        }
        progress.memory.seen = status;
        // Somebody wrote over us, or a write of ours whose answer was lost arrived late.
        if progress.memory.is_overwritten() {
            affected.insert(id);
        }
        affected
    }

    /// Takes in that everything of what is watched but these is gone, and returns the objects to visit.
    pub(crate) fn keep_only(&mut self, watched: &Watched, uids: &BTreeSet<Uid>) -> BTreeSet<Id> {
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
        progress.settled = event.withdrawal == Withdrawal::Done;
        let outcomes = event.outcomes.iter();
        let free: BTreeSet<(Group, RecordKey)> = outcomes
            .filter(|outcome| outcome.status == ClaimStatus::Admissible)
            .map(|outcome| (outcome.group.clone(), outcome.claim.key.clone()))
            .collect();
        progress.on_its_way(|way| way.free = free.into_iter().collect());
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
        let since = progress.on_its_way(|way| way.since.take());
        since.map(|since| since.elapsed())
    }

    /// Notes where an object is shown and how, and returns the zones whose list of it changed.
    pub(crate) fn show(&mut self, id: &Id, zones: &SmallSet<Id>, shown: Shown) -> BTreeSet<Id> {
        let Some(progress) = self.progress.get_mut(id) else {
            return BTreeSet::new();
        };
        let before = std::mem::replace(&mut progress.zones, zones.clone());
        let was = progress.shown.replace(shown);
        progress.on_its_way(|way| {
            if shown.good {
                way.patience = None;
            } else {
                // From here on it is somebody else's time that passes.
                way.since = None;
            }
        });
        if before == *zones && was.is_some_and(|was| was.good == shown.good) {
            return BTreeSet::new();
        }
        self.leave(id, &before);
        for zone in zones {
            let members = self.members.entry(Id::clone(zone)).or_default();
            let list = if shown.good {
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
        self.catalog.bury(id);
        self.serials.remove(id);
        let Some((id, progress)) = self.progress.remove_entry(id) else {
            return SmallSet::default();
        };
        self.leave(&id, &progress.zones);
        progress.zones
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

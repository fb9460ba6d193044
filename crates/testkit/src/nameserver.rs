//! A name server in memory that behaves as RFC 2136 says and fails when it is told to.

mod absence;
mod content;
mod damage;
mod history;
mod stranger;

pub use absence::Absence;
use absence::Presence;
pub use stranger::{Meddling, is_strange};

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bindery_core::{
    Change, Fault, FaultKind, Name, Record, RecordData, RecordKey, RecordSet, RecordType, Serial,
    delta::{Delta, Difference},
    zones::{ReadBack, ZoneContent},
};
use bindery_engine::ports::{NameServer, ZoneHost};
use futures::future::BoxFuture;

use self::content::{Comes, NXRRSET, REFUSED, advance, check, find, put, soa_of};
use self::{damage::Damage, history::FakeHistory};

/// Response code of a server that cannot load a zone (RFC 1035).
const SERVFAIL: u16 = 2;

/// What a request to the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A query or a transfer.
    Read,
    /// An update, or the creation or deletion of a zone.
    Write,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Pass,
    /// It never arrives.
    Unreachable,
    /// It never arrives, and the sender cannot tell.
    LostRequest,
    /// It is carried out, and the answer never arrives.
    LostAnswer,
    /// It is carried out, and then the asking process dies.
    Crash,
    /// The asking process is dead already: nothing ever happens.
    Silence,
}

/// Decides the fate of each request, and how long it takes.
pub trait Faults: Send + Sync + 'static {
    /// The fate of a request that arrives now.
    fn fate(&self, operation: Operation) -> (Fate, Duration);

    /// Kills the process that asked, where a request has that fate.
    fn crash(&self) {}

    /// Hears what a request asks for, in words for a person.
    fn explain(&self, _what: &dyn Fn() -> String) {}
}

/// No faults and no delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faultless;

impl Faults for Faultless {
    fn fate(&self, _operation: Operation) -> (Fate, Duration) {
        (Fate::Pass, Duration::ZERO)
    }
}

/// A name server in memory. Cloning gives another handle to the same server.
#[derive(Clone)]
pub struct FakeNameServer {
    zones: Arc<Mutex<BTreeMap<Name, ZoneContent>>>,
    history: Arc<Mutex<FakeHistory>>,
    faults: Arc<dyn Faults>,
    closed: Arc<AtomicBool>,
    damage: Arc<Mutex<Damage>>,
    /// Whether it answers.
    absence: Arc<Presence>,
    /// Updates that arrived while it was stopped: it carries them out when it goes on.
    late: Arc<Mutex<Vec<LateUpdate>>>,
    /// Where a secondary fetches its zones; a primary has none.
    primaries: Arc<[Self]>,
}

/// An update of a zone that waits.
type LateUpdate = (Name, Vec<Change>);

impl Default for FakeNameServer {
    fn default() -> Self {
        Self::new(Faultless)
    }
}

impl FakeNameServer {
    /// A server without zones.
    pub fn new(faults: impl Faults) -> Self {
        Self::following(faults, Vec::new())
    }

    /// A secondary of these primaries. It fetches what is new when it is asked for its serial.
    pub fn following(faults: impl Faults, primaries: Vec<Self>) -> Self {
        Self {
            zones: Arc::default(),
            history: Arc::default(),
            faults: Arc::new(faults),
            closed: Arc::default(),
            damage: Arc::default(),
            absence: Arc::default(),
            late: Arc::default(),
            primaries: primaries.into(),
        }
    }

    /// Fetches the newest content of a zone that this secondary was told to have.
    fn fetch(&self, zones: &mut BTreeMap<Name, ZoneContent>, zone: &Name) {
        let Some(mine) = zones.get_mut(zone) else {
            return;
        };
        let serves = |one: &&Self| one.is_present() && !one.damage().unloadable.contains(zone);
        for primary in self.primaries.iter().filter(serves) {
            if let Some(theirs) = primary.content(zone)
                && (theirs.serial.newer_than(mine.serial) || mine.sets.is_empty())
            {
                *mine = theirs;
            }
        }
    }

    /// Adds a zone that somebody else manages, with a SOA and these lines.
    pub fn add_zone(&self, zone: &Name, records: &[Record]) {
        self.work(|zones| {
            let soa =
                format!("{zone} 3600 IN SOA ns1.example.net. admin.example.net. 1 60 60 60 60");
            let records: Vec<Record> = soa
                .parse()
                .into_iter()
                .chain(records.iter().cloned())
                .collect();
            zones
                .entry(zone.clone())
                .or_insert_with(|| records.into_iter().collect());
        });
    }

    /// Refuses every update from now on.
    pub fn refuse_everything(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Writes a record behind everybody's back.
    pub fn write_foreign(&self, zone: &Name, record: &Record) {
        self.work(|zones| {
            let Some(content) = zones.get_mut(zone) else {
                return;
            };
            put(content, record, Comes::Yes);
            advance(content, content.serial.next());
        });
    }

    /// A zone as it is now.
    #[must_use]
    pub fn content(&self, zone: &Name) -> Option<ZoneContent> {
        self.zones().get(zone).cloned()
    }

    /// One record set as it is now.
    #[must_use]
    pub fn set(&self, zone: &Name, key: &RecordKey) -> Option<RecordSet> {
        self.zones().get(zone)?.sets.get(key).cloned()
    }

    /// All records of a zone but its SOA, as sorted zone-file lines.
    #[must_use]
    pub fn lines(&self, zone: &Name) -> Vec<String> {
        let zones = self.zones();
        let records = zones.get(zone).into_iter().flat_map(ZoneContent::records);
        let records = records.filter(|record| record.data.rtype() != RecordType::Soa);
        records.map(|record| record.to_string()).collect()
    }

    /// Carries out a request according to its fate.
    async fn serve<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut BTreeMap<Name, ZoneContent>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (fate, delay) = self.faults.fate(operation);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if fate != Fate::Silence
            && let Err(fault) = self.arrive().await
        {
            // Who crashes after a write does so although nothing came of it.
            if fate == Fate::Crash {
                self.faults.crash();
            }
            return Err(fault);
        }
        match fate {
            Fate::Pass => self.work(work),
            Fate::Unreachable => Err(Fault::new(FaultKind::Unreachable, "connection refused")),
            Fate::LostRequest => Err(Fault::new(FaultKind::Lost, "no answer in time")),
            Fate::Silence => std::future::pending().await,
            Fate::Crash => {
                let _unheard = self.work(work);
                self.faults.crash();
                std::future::pending().await
            }
            Fate::LostAnswer => {
                // The outcome is whatever it is; the sender does not hear of it.
                let _unheard = self.work(work);
                Err(Fault::new(FaultKind::Lost, "no answer in time"))
            }
        }
    }

    /// Does something to the zones, and notes what became of them.
    fn work<T>(&self, work: impl FnOnce(&mut BTreeMap<Name, ZoneContent>) -> T) -> T {
        let mut zones = self.zones();
        let result = work(&mut zones);
        self.history().note(&zones);
        self.damage().note(&zones);
        result
    }

    /// Carries out one update.
    fn carry_out(
        &self,
        zones: &mut BTreeMap<Name, ZoneContent>,
        zone: &Name,
        changes: &[Change],
    ) -> Result<(), Fault> {
        let content = self.find(zones, zone)?;
        if self.closed.load(Ordering::SeqCst) {
            let fault = Fault::new(FaultKind::Refused, "REFUSED: closed");
            return Err(fault.with_code(REFUSED));
        }
        for change in changes {
            check(content, change)?;
        }
        let before = content.sets.clone();
        let serial = content.serial;
        for change in changes {
            content.apply(change);
        }
        // A SOA of the update is the serial; else what changed something makes the next one.
        if serial != content.serial {
            advance(content, content.serial);
        } else if content.sets != before {
            advance(content, serial.next());
        }
        Ok(())
    }

    /// A zone as it can be served.
    fn find<'a>(
        &self,
        zones: &'a mut BTreeMap<Name, ZoneContent>,
        zone: &Name,
    ) -> Result<&'a mut ZoneContent, Fault> {
        if self.damage().unloadable.contains(zone) {
            let message = format!("SERVFAIL: the zone {zone} is not loaded");
            return Err(Fault::new(FaultKind::ServerFailed, message).with_code(SERVFAIL));
        }
        find(zones, zone)
    }

    fn zones(&self) -> MutexGuard<'_, BTreeMap<Name, ZoneContent>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, FakeHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameServer for FakeNameServer {
    fn transfer<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneContent, Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            self.find(zones, zone).cloned()
        }))
    }

    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            let content = self.find(zones, zone)?;
            if content.serial == serial || serial.newer_than(content.serial) {
                return Ok(Delta::UpToDate(content.serial));
            }
            let soa = soa_of(zone, content)?;
            let known = self.history().since(zone, serial, soa);
            Ok(known.unwrap_or_else(|| Delta::Whole(content.clone())))
        }))
    }

    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.serve(Operation::Write, move |zones| {
            let content = self.find(zones, zone)?;
            if soa_of(zone, content)?.data != from.data {
                let message = "NXRRSET: the SOA is another";
                return Err(Fault::new(FaultKind::Conflict, message).with_code(NXRRSET));
            }
            for record in &steps.removed {
                put(content, record, Comes::No);
            }
            for record in &steps.added {
                put(content, record, Comes::Yes);
            }
            if let RecordData::Soa(soa) = &steps.to.data {
                let explain = |what: &str| self.faults.explain(&|| what.to_owned());
                self.damage()
                    .compare(zone, content.serial, Serial(soa.serial), explain);
                let set = RecordSet::new(steps.to.ttl, [steps.to.data.clone()]);
                content.sets.insert(steps.to.key(), set);
                advance(content, Serial(soa.serial));
            }
            Ok(())
        }))
    }

    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            let content = self.find(zones, zone)?;
            soa_of(zone, content)
        }))
    }

    fn serial<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Serial, Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            self.fetch(zones, zone);
            Ok(self.find(zones, zone)?.serial)
        }))
    }

    fn update<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let answer = self
                .serve(Operation::Write, |zones| {
                    self.faults.explain(&|| format!("{zone} {changes:?}"));
                    self.carry_out(zones, zone, changes)
                })
                .await;
            if answer.is_err() && self.is_stopped() {
                self.arrives_late(zone, changes);
            }
            answer
        })
    }

    fn read<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<ReadBack, Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            let content = self.find(zones, zone)?;
            let sets = keys
                .iter()
                .map(|key| content.sets.get(key).cloned())
                .collect();
            Ok(ReadBack {
                serial: content.serial,
                sets,
            })
        }))
    }
}

impl ZoneHost for FakeNameServer {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.serve(Operation::Write, move |zones| {
            let mut damage = self.damage();
            if damage.unloadable.remove(zone) {
                zones.remove(zone);
            }
            // A zone that is there stays as it is, perhaps as its older file has it.
            let is_new = !zones.contains_key(zone);
            let made = zones
                .entry(zone.clone())
                .or_insert_with(|| records.iter().cloned().collect());
            // A secondary that fetched nothing yet has no serial.
            if is_new && !records.is_empty() {
                damage.made(zone, made.serial, |what| {
                    self.faults.explain(&|| what.to_owned());
                });
            }
            Ok(())
        }))
    }

    fn mend<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(self.serve(Operation::Write, move |zones| {
            let is_broken = self.damage().unloadable.contains(zone);
            let older = self.history().before(zone, 1);
            let (Some(content), Some(mut older), true) = (zones.get_mut(zone), older, is_broken)
            else {
                return Ok(false);
            };
            older.sets.retain(|key, set| {
                key.rtype == RecordType::Soa || content.sets.get(key) == Some(set)
            });
            *content = older;
            self.damage().unloadable.remove(zone);
            Ok(true)
        }))
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.serve(Operation::Read, move |zones| {
            self.fetch(zones, zone);
            Ok(())
        }))
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.serve(Operation::Write, move |zones| {
            zones.remove(zone);
            self.damage().delete(zone);
            Ok(())
        }))
    }
}

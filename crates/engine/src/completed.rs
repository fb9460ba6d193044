//! A provider with the capabilities that it lacks made up for, so that the engine need not know.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{
    Change, Fault, FaultKind, Name, Record, RecordData, RecordKey, RecordType, Serial,
    delta::{Delta, Difference},
    zones::{ReadBack, ZoneContent},
};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    follow::serial_of,
    ports::{NameServer, Provider, ZoneHost},
};

/// How old what was read may be for a question after the serial. To answer one, the whole zone is read,
/// and the engine asks once a second: at that pace it would be all that the provider does.
const REREAD: Duration = Duration::from_secs(30);

/// A provider as the engine works with it: each capability is its own, or is made up for.
///
/// Where zones have no serials, versions are counted: one for each batch that the provider took, and one
/// more whenever a zone is read and is not what the last read and these batches make. That is how the
/// engine notices what others wrote.
///
/// Limits: of zones without serials, what was last read is kept. Such a provider follows nobody and is
/// followed by nobody.
pub struct Completed {
    provider: Arc<dyn Provider>,
    /// The version that a zone has when it is first read. One that grows from start to start keeps what
    /// is remembered of a zone from looking newer than the zone.
    first: Serial,
    versions: Mutex<BTreeMap<Name, Version>>,
}

/// What is known of a zone without serials.
struct Version {
    /// What it is to have, with the version as its serial.
    content: ZoneContent,
    /// When it was read, if nothing failed since.
    read: Option<Instant>,
}

impl Completed {
    /// A provider whose versions are counted from `first`, where it has no serials.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, first: Serial) -> Self {
        Self {
            provider,
            first,
            versions: Mutex::default(),
        }
    }

    async fn read_content(&self, zone: &Name) -> Result<ZoneContent, Fault> {
        let sets = self.provider.read_zone(zone).await;
        if self.provider.serials().is_some() {
            let sets = sets?;
            let soa = sets.get(&RecordKey::new(zone.clone(), RecordType::Soa));
            let Some(RecordData::Soa(soa)) = soa.and_then(|set| set.data().first()) else {
                let message = format!("zone {zone} was read without its SOA");
                return Err(Fault::new(FaultKind::Malformed, message));
            };
            let serial = Serial(soa.serial);
            return Ok(ZoneContent { serial, sets });
        }
        let mut versions = self.versions();
        let sets = match sets {
            Ok(sets) => sets,
            Err(fault) => {
                if let Some(version) = versions.get_mut(zone) {
                    version.read = None;
                }
                return Err(fault);
            }
        };
        let known = versions.get(zone);
        let serial = match known {
            Some(known) if known.content.sets == sets => known.content.serial,
            Some(known) => known.content.serial.next(),
            None => self.first,
        };
        let content = ZoneContent { serial, sets };
        let version = Version {
            content: content.clone(),
            read: Some(Instant::now()),
        };
        versions.insert(zone.clone(), version);
        Ok(content)
    }

    async fn read_serial(&self, zone: &Name) -> Result<Serial, Fault> {
        if let Some(serials) = self.provider.serials() {
            return serials.soa(zone).await.map(|soa| serial_of(&soa));
        }
        if let Some(serial) = self.fresh_serial(zone) {
            return Ok(serial);
        }
        Ok(self.read_content(zone).await?.serial)
    }

    /// The version of a zone that was read of late.
    fn fresh_serial(&self, zone: &Name) -> Option<Serial> {
        let versions = self.versions();
        let version = versions.get(zone)?;
        (version.read?.elapsed() < REREAD).then_some(version.content.serial)
    }

    async fn send(&self, zone: &Name, changes: &[Change]) -> Result<(), Fault> {
        let answer = self.provider.apply(zone, changes).await;
        let mut versions = self.versions();
        let Some(version) = versions.get_mut(zone) else {
            return answer;
        };
        match &answer {
            Ok(()) => {
                let next = version.content.serial.next();
                for change in changes {
                    version.content.apply(change);
                }
                version.content.serial = next;
            }
            Err(_) => version.read = None,
        }
        answer
    }

    async fn read_back(&self, zone: &Name, keys: &[RecordKey]) -> Result<ReadBack, Fault> {
        if let (Some(serials), Some(lookups)) = (self.provider.serials(), self.provider.lookups()) {
            let sets = lookups.look_up(zone, keys).await?;
            let serial = serial_of(&serials.soa(zone).await?);
            return Ok(ReadBack { serial, sets });
        }
        let mut content = self.read_content(zone).await?;
        let sets = keys.iter().map(|key| content.sets.remove(key)).collect();
        let serial = content.serial;
        Ok(ReadBack { serial, sets })
    }

    async fn read_changes(&self, zone: &Name, since: Serial) -> Result<Delta, Fault> {
        if let Some(differences) = self.provider.differences() {
            return differences.changes_since(zone, since).await;
        }
        let content = self.read_content(zone).await?;
        if content.serial == since {
            Ok(Delta::UpToDate(since))
        } else {
            Ok(Delta::Whole(content))
        }
    }

    fn versions(&self) -> MutexGuard<'_, BTreeMap<Name, Version>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameServer for Completed {
    fn transfer<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneContent, Fault>> {
        Box::pin(self.read_content(zone))
    }

    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>> {
        Box::pin(self.read_changes(zone, serial))
    }

    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        match self.provider.mirroring() {
            Some(mirroring) => mirroring.mirror(zone, from, steps),
            None => unable(zone, "follow another server"),
        }
    }

    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>> {
        match self.provider.serials() {
            Some(serials) => serials.soa(zone),
            None => unable(zone, "tell its SOA"),
        }
    }

    fn serial<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Serial, Fault>> {
        Box::pin(self.read_serial(zone))
    }

    fn update<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.send(zone, changes))
    }

    fn read<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<ReadBack, Fault>> {
        Box::pin(self.read_back(zone, keys))
    }
}

impl ZoneHost for Completed {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        match self.provider.hosting() {
            Some(host) => host.create(zone, records),
            None => unable(zone, "create it"),
        }
    }

    fn mend<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        match self.provider.hosting() {
            Some(host) => host.mend(zone),
            None => unable(zone, "mend it"),
        }
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        match self.provider.hosting() {
            Some(host) => host.refresh(zone),
            None => unable(zone, "refresh it"),
        }
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        match self.provider.hosting() {
            Some(host) => host.delete(zone),
            None => unable(zone, "delete it"),
        }
    }
}

/// How a question ends that a provider cannot be asked.
fn unable<T: Send + 'static>(zone: &Name, what: &str) -> BoxFuture<'static, Result<T, Fault>> {
    let message = format!("the provider of zone {zone} cannot {what}");
    Box::pin(std::future::ready(Err(Fault::new(
        FaultKind::Invalid,
        message,
    ))))
}

//! What a server loses behind everybody's back, and what must not come of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{MutexGuard, PoisonError},
};

use bindery_core::{Name, RecordKey, RecordType, Serial, zones::ZoneContent};

use super::{FakeNameServer, advance};

/// What became of a server's files, and what came of that.
#[derive(Default)]
pub(super) struct Damage {
    /// Zones that it has and cannot load.
    pub(super) unloadable: BTreeSet<Name>,
    /// The newest serial that each zone ever had, until it was deleted on purpose.
    newest: BTreeMap<Name, Serial>,
    /// How often each zone was deleted on purpose.
    deletions: BTreeMap<Name, usize>,
    /// Zones that were given an older serial than they had.
    rewound: Vec<String>,
}

impl Damage {
    /// Notes which serials there are now.
    pub(super) fn note(&mut self, zones: &BTreeMap<Name, ZoneContent>) {
        for (zone, content) in zones {
            let newest = self.newest.entry(zone.clone()).or_insert(content.serial);
            if content.serial.newer_than(*newest) {
                *newest = content.serial;
            }
        }
    }

    /// A zone is made with this serial.
    pub(super) fn made(&mut self, zone: &Name, serial: Serial, explain: impl Fn(&str)) {
        if let Some(newest) = self.newest.get(zone).copied() {
            self.compare(zone, newest, serial, explain);
        }
    }

    /// A zone is given a serial after it had another one; whoever reads the words is told when it goes back.
    pub(super) fn compare(
        &mut self,
        zone: &Name,
        had: Serial,
        has: Serial,
        explain: impl Fn(&str),
    ) {
        if had.newer_than(has) {
            let rewound = format!("{zone} was at {had} and was made with {has}");
            explain(&rewound);
            self.rewound.push(rewound);
        }
    }

    /// A zone is deleted on purpose.
    pub(super) fn delete(&mut self, zone: &Name) {
        self.unloadable.remove(zone);
        self.newest.remove(zone);
        *self.deletions.entry(zone.clone()).or_default() += 1;
    }
}

impl FakeNameServer {
    /// Removes a zone behind everybody's back.
    pub fn lose_zone(&self, zone: &Name) {
        self.work(|zones| zones.remove(zone));
        self.damage().unloadable.remove(zone);
    }

    /// Removes a zone that was deleted on purpose while the server was out of service.
    pub fn drop_zone(&self, zone: &Name) {
        self.lose_zone(zone);
        self.damage().newest.remove(zone);
    }

    /// Makes a zone's files unreadable: the server has the zone and cannot serve it.
    pub fn break_zone(&self, zone: &Name) {
        if self.content(zone).is_some() {
            self.damage().unloadable.insert(zone.clone());
        }
    }

    /// Goes back to an older version of a zone, in which nothing is that the newest does not have: changes
    /// that added something are lost, with their serials.
    pub fn lose_changes(&self, zone: &Name, versions: usize) {
        let older = self.history().before(zone, versions);
        self.work(|zones| {
            if let (Some(content), Some(older)) = (zones.get_mut(zone), older) {
                let stands = content.sets.clone();
                *content = older;
                let (serial, is_soa) = (content.serial, |key: &RecordKey| {
                    key.rtype == RecordType::Soa
                });
                content
                    .sets
                    .retain(|key, set| is_soa(key) || stands.get(key) == Some(set));
                advance(content, serial);
            }
        });
        self.history().forget(zone);
        self.work(|_| ());
    }

    /// Removes one of a zone's record sets behind everybody's back, but for SOA and name servers.
    pub fn lose_set(&self, zone: &Name, number: usize) {
        self.work(|zones| {
            let Some(content) = zones.get_mut(zone) else {
                return;
            };
            let of_servers = |key: &RecordKey| {
                matches!(key.rtype, RecordType::Soa | RecordType::Ns)
                    || key.name.labels().any(|label| label == b"ns1")
            };
            let mut keys = content.sets.keys().filter(|key| !of_servers(key));
            if let Some(key) = keys.nth(number).cloned() {
                content.sets.remove(&key);
                advance(content, content.serial.next());
            }
        });
    }

    /// Goes back to an older version of a zone, as from a backup: a secondary, which nobody writes to,
    /// has no other way to lose a set.
    pub fn fall_back(&self, zone: &Name) {
        let older = self.history().before_last(zone);
        self.work(|zones| {
            if let (Some(content), Some(older)) = (zones.get_mut(zone), older) {
                *content = older;
            }
        });
    }

    /// The zones that Bindery made, or made anew, with an older serial than they had before.
    #[must_use]
    pub fn rewound(&self) -> Vec<String> {
        self.damage().rewound.clone()
    }

    /// How often a zone was deleted on purpose.
    #[must_use]
    pub fn deletions(&self, zone: &Name) -> usize {
        self.damage().deletions.get(zone).copied().unwrap_or(0)
    }

    pub(super) fn damage(&self) -> MutexGuard<'_, Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bindery_core::Record;
    use bindery_engine::ports::ZoneHost as _;

    use super::*;

    #[tokio::test]
    async fn a_secondary_that_fetched_nothing_yet_has_no_serial() {
        let zone = Name::parse("example.com").expect("the name is sound");
        let soa = |serial: u32| -> Record {
            let line =
                format!("example.com. 60 IN SOA ns.example.net. a.example.net. {serial} 1 1 1 1");
            line.parse().expect("the line is sound")
        };
        let server = FakeNameServer::default();
        server.create(&zone, &[soa(9)]).await.expect("it answers");
        server.lose_zone(&zone);
        // It is told to have the zone while nobody can hand it over.
        server.create(&zone, &[]).await.expect("it answers");
        assert_eq!(server.rewound(), Vec::<String>::new());
        server.lose_zone(&zone);
        server.create(&zone, &[soa(8)]).await.expect("it answers");
        assert_eq!(server.rewound().len(), 1);
    }
}

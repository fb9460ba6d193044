//! The versions that a zone has had, for those who ask what changed.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::{
    Name, Record, RecordData, Serial,
    delta::{Delta, Net},
    zones::ZoneContent,
};

/// Versions kept of a zone; who asks for older ones gets the whole zone.
const VERSIONS_MAX: usize = 40;

/// The versions of every zone, oldest first.
#[derive(Debug, Default)]
pub(super) struct FakeHistory(BTreeMap<Name, Vec<ZoneContent>>);

impl FakeHistory {
    /// Notes the zones as they are now; a zone that is gone has no past.
    pub(super) fn note(&mut self, zones: &BTreeMap<Name, ZoneContent>) {
        self.0.retain(|zone, _| zones.contains_key(zone));
        for (zone, content) in zones {
            let versions = self.0.entry(zone.clone()).or_default();
            if versions.last().map(|last| last.serial) != Some(content.serial) {
                versions.push(content.clone());
                if versions.len() > VERSIONS_MAX {
                    versions.remove(0);
                }
            }
        }
    }

    /// The version that a zone had before the one that it has.
    pub(super) fn before_last(&self, zone: &Name) -> Option<ZoneContent> {
        self.before(zone, 1)
    }

    /// The version that a zone had so many versions ago, or the oldest that is known.
    pub(super) fn before(&self, zone: &Name, versions: usize) -> Option<ZoneContent> {
        let known = self.0.get(zone)?;
        let at = known.len().saturating_sub(versions + 1);
        known.get(at).cloned()
    }

    /// Forgets a zone's past, as a server does that reads an older file.
    pub(super) fn forget(&mut self, zone: &Name) {
        self.0.remove(zone);
    }

    /// What became of a zone since a serial, version by version; `soa` is the one it has now.
    pub(super) fn since(&self, zone: &Name, serial: Serial, soa: Record) -> Option<Delta> {
        let versions = self.0.get(zone)?;
        let start = versions.iter().position(|one| one.serial == serial)?;
        let mut net = Net::default();
        for (before, after) in versions[start..].iter().zip(&versions[start + 1..]) {
            let (before, after) = (records(before), records(after));
            for record in before.difference(&after) {
                net.remove(restored(record));
            }
            for record in after.difference(&before) {
                net.add(restored(record));
            }
        }
        Some(Delta::Difference(net.steps(soa)))
    }
}

type Line = (Name, u32, RecordData);

/// Every record but the SOA.
fn records(content: &ZoneContent) -> BTreeSet<Line> {
    let sets = content.sets.iter();
    let lines = sets.flat_map(|(key, set)| {
        let line = |data: &RecordData| (key.name.clone(), set.ttl, data.clone());
        set.data().iter().map(line)
    });
    lines
        .filter(|(_, _, data)| !matches!(data, RecordData::Soa(_)))
        .collect()
}

fn restored((name, ttl, data): &Line) -> Record {
    Record {
        name: name.clone(),
        ttl: *ttl,
        data: data.clone(),
    }
}

//! What a zone object itself puts into its zone: SOA, name servers and their addresses.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hosting, ZoneContent, ZoneDeclaration};
use crate::{
    claim::Claim,
    name::Name,
    record::{Record, RecordData, RecordKey, RecordType, Serial, Soa},
};

/// The zone's own records, where Bindery serves the zone.
#[derive(Debug, Default)]
pub(super) struct Own {
    claims: BTreeMap<Name, Vec<Claim>>,
    /// Sets that were the zone's own before an edit; they are ours to take away.
    former: BTreeSet<RecordKey>,
    wanted: Option<(u32, Soa)>,
    /// The SOA as it was last seen.
    seen: Option<(u32, Soa)>,
}

impl Own {
    /// Takes a declaration in, and returns the names whose sets may differ now.
    pub(super) fn replace(&mut self, declaration: &ZoneDeclaration) -> BTreeSet<Name> {
        let records: &[Record] = match &declaration.hosting {
            Hosting::Served(records) => records,
            Hosting::Elsewhere => &[],
        };
        let mut sets: BTreeMap<RecordKey, (u32, Vec<RecordData>)> = BTreeMap::new();
        self.wanted = None;
        for record in records {
            if let RecordData::Soa(soa) = &record.data {
                self.wanted = Some((record.ttl, (**soa).clone()));
                continue;
            }
            let key = RecordKey::new(record.name.clone(), record.data.rtype());
            let (_, data) = sets.entry(key).or_insert((record.ttl, Vec::new()));
            data.push(record.data.clone());
        }
        let mut after: BTreeMap<Name, Vec<Claim>> = BTreeMap::new();
        for (key, (ttl, data)) in sets {
            let claims = after.entry(key.name.clone()).or_default();
            claims.push(Claim {
                zone: declaration.zone.clone(),
                key,
                ttl,
                data: data.into(),
                field: "spec".into(),
            });
        }
        let before = std::mem::replace(&mut self.claims, after);
        let keys = before.values().flatten().map(|claim| claim.key.clone());
        self.former.extend(keys);
        let changed = |name: &&Name| before.get(*name) != self.claims.get(*name);
        let names = before.keys().chain(self.claims.keys());
        names.filter(changed).cloned().collect()
    }

    /// The names that have such records.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.claims.keys()
    }

    /// The zone's own claims on one name.
    pub(super) fn claims(&self, name: &Name) -> &[Claim] {
        self.claims.get(name).map_or(&[], Vec::as_slice)
    }

    /// The sets that the zone itself has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        let claims = self.claims.values().flatten();
        claims.map(|claim| &claim.key)
    }

    /// Whether everything in this set is ours.
    pub(super) fn covers(&self, key: &RecordKey) -> bool {
        self.former.contains(key) || self.claims(&key.name).iter().any(|claim| claim.key == *key)
    }

    /// Notes the SOA of a zone that was read.
    pub(super) fn see(&mut self, zone: &Name, content: &ZoneContent) {
        let key = RecordKey::new(zone.clone(), RecordType::Soa);
        self.seen = content.sets.get(&key).and_then(|set| {
            let RecordData::Soa(soa) = set.data().first()? else {
                return None;
            };
            Some((set.ttl, (**soa).clone()))
        });
    }

    /// Notes the SOA that was written.
    pub(super) fn renewed(&mut self, record: &Record) -> Option<Serial> {
        let RecordData::Soa(soa) = &record.data else {
            return None;
        };
        self.seen = Some((record.ttl, (**soa).clone()));
        Some(Serial(soa.serial))
    }

    /// The SOA that the zone needs instead of the one it has at `serial`: because its author changed
    /// it, or because the zone had, or some server has, a newer serial than the leader.
    pub(super) fn renewal(
        &self,
        zone: &Name,
        serial: Serial,
        ahead: Option<Serial>,
    ) -> Option<Record> {
        let (seen_ttl, seen) = self.seen.as_ref()?;
        let wanted = self.wanted.clone();
        let (ttl, soa) = wanted.unwrap_or_else(|| (*seen_ttl, seen.clone()));
        let edited = ttl != *seen_ttl
            || Soa {
                serial: seen.serial,
                ..soa.clone()
            } != *seen;
        let asked = Some(Serial(soa.serial)).filter(|asked| asked.newer_than(serial));
        if !edited && ahead.is_none() && asked.is_none() {
            return None;
        }
        let beyond = ahead.map_or_else(|| serial.next(), Serial::next);
        let next = match asked {
            Some(asked) if asked.newer_than(beyond) => asked,
            Some(_) | None => beyond,
        };
        Some(Record {
            name: zone.clone(),
            ttl,
            data: RecordData::Soa(Box::new(Soa {
                serial: next.0,
                ..soa
            })),
        })
    }
}

/// The records of a zone that has to be created again: what is declared, and beside it what another
/// server still has. What that one has of signatures is not taken along: who signs the zone makes its own. The
/// serial is newer than any that was seen, so that no server stays behind.
#[must_use]
pub fn restored(
    mut records: Vec<Record>,
    rescued: Option<ZoneContent>,
    seen: Option<Serial>,
) -> Vec<Record> {
    let known: BTreeSet<RecordKey> = records
        .iter()
        .map(|record| RecordKey::new(record.name.clone(), record.data.rtype()))
        .collect();
    raise(&mut records, seen);
    let sets = rescued.into_iter().flat_map(|content| content.sets);
    let theirs = |key: &RecordKey| !known.contains(key) && !key.rtype.is_signing();
    for (key, set) in sets.filter(|(key, _)| theirs(key)) {
        records.extend(set.records(&key));
    }
    records
}

/// The newer of two serials, where there are any.
pub(super) fn newest(one: Option<Serial>, other: Option<Serial>) -> Option<Serial> {
    match (one, other) {
        (Some(one), Some(other)) if other.newer_than(one) => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// Makes the serial of the SOA among these records newer than one that was seen.
pub(super) fn raise(records: &mut [Record], seen: Option<Serial>) {
    for record in records {
        if let (RecordData::Soa(soa), Some(seen)) = (&mut record.data, seen)
            && !Serial(soa.serial).newer_than(seen)
        {
            soa.serial = seen.next().0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOA: &str = "example.com. 60 IN SOA ns.example.com. admin.example.com. 7 60 60 60 60";
    const WWW: &str = "www.example.com. 60 IN A 192.0.2.1";

    fn record(line: &str) -> Record {
        line.parse().expect("the line is sound")
    }

    fn serial_of(record: &Record) -> u32 {
        let RecordData::Soa(soa) = &record.data else {
            unreachable!("{record} is no SOA");
        };
        soa.serial
    }

    #[test]
    fn the_newer_of_two_serials_counts() {
        let (old, new) = (Some(Serial(5)), Some(Serial(9)));
        assert_eq!((newest(old, new), newest(new, old)), (new, new));
        assert_eq!((newest(old, None), newest(None, old)), (old, old));
        assert_eq!(newest(None, None), None);
    }

    #[test]
    fn what_is_declared_goes_before_what_another_server_has_and_beyond_its_serial() {
        let other = record("www.example.com. 60 IN A 192.0.2.9");
        let theirs = record("theirs.example.com. 60 IN A 192.0.2.9");
        let set = |record: &Record| {
            let set = crate::RecordSet::new(record.ttl, [record.data.clone()]);
            (record.key(), set)
        };
        let rescued = ZoneContent {
            serial: Serial(40),
            sets: [set(&other), set(&theirs)].into(),
        };
        let declared = vec![record(SOA), record(WWW)];
        let all = restored(declared.clone(), Some(rescued), Some(Serial(40)));
        assert_eq!(serial_of(&all[0]), 41);
        assert_eq!(all[1..], [record(WWW), theirs]);
        let all = restored(declared, None, Some(Serial(6)));
        assert_eq!(serial_of(&all[0]), 7, "it is beyond already");
    }

    #[test]
    fn the_serial_that_an_author_asks_for_counts_where_it_is_the_newest() {
        let soa = |serial: u32| {
            let line = SOA.replace(" 7 60", &format!(" {serial} 60"));
            let RecordData::Soa(soa) = record(&line).data else {
                unreachable!("{line} is a SOA");
            };
            Some((60, *soa))
        };
        let own = Own {
            wanted: soa(50),
            seen: soa(7),
            ..Own::default()
        };
        let zone = record(SOA).name;
        let next = |ahead| own.renewal(&zone, Serial(7), ahead);
        assert_eq!(next(None).as_ref().map(serial_of), Some(50));
        assert_eq!(next(Some(Serial(60))).as_ref().map(serial_of), Some(61));
    }
}

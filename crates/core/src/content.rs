//! The content of a zone, and what a change makes of it.

use std::collections::BTreeMap;

use crate::{
    plan::{Change, Expect},
    record::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial},
};

/// All of a zone as a transfer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneContent {
    /// The serial of its SOA.
    pub serial: Serial,
    /// Every record set, the SOA and unknown types among them.
    pub sets: BTreeMap<RecordKey, RecordSet>,
}

impl ZoneContent {
    /// Every record, in the order of names and types.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.sets.iter().flat_map(|(key, set)| set.records(key))
    }

    /// Whether the content is what a change expects of it.
    #[must_use]
    pub fn meets(&self, change: &Change) -> bool {
        let stands = self.sets.get(&change.key);
        match &change.expect {
            Expect::Absent => stands.is_none(),
            Expect::Exactly(data) => stands.map_or(&[][..], RecordSet::data) == data,
            Expect::Anything => true,
        }
    }

    /// Makes of the content what an update with this change makes of it. What the change expects is not
    /// looked at; [`Self::meets`] tells.
    ///
    /// Added records that may not stand beside a CNAME are left out without a word (RFC 2136 section
    /// 3.4.2.2), a CNAME replaces the one that stands, and a SOA counts only where its serial is newer. The
    /// serial changes with a SOA and not by itself: one update makes one serial, however many changes it has.
    pub fn apply(&mut self, change: &Change) {
        let Change {
            key,
            expect: _,
            remove,
            add,
            ttl,
        } = change;
        if let Some(RecordData::Soa(soa)) = add.first() {
            let serial = Serial(soa.serial);
            if serial.newer_than(self.serial) {
                self.serial = serial;
                let set = RecordSet::new(*ttl, add.iter().cloned());
                self.sets.insert(key.clone(), set);
            }
            return;
        }
        self.remove(key, remove);
        if !add.is_empty() && !self.has_rival(key) {
            self.add(key, *ttl, add);
        }
    }

    fn remove(&mut self, key: &RecordKey, gone: &[RecordData]) {
        let Some(set) = self.sets.get(key).filter(|_| !gone.is_empty()) else {
            return;
        };
        let left = set.data().iter().filter(|data| !gone.contains(data));
        let left = RecordSet::new(set.ttl, left.cloned());
        if left.is_empty() {
            self.sets.remove(key);
        } else {
            self.sets.insert(key.clone(), left);
        }
    }

    fn add(&mut self, key: &RecordKey, ttl: u32, data: &[RecordData]) {
        let standing = self.sets.get(key);
        let standing = standing.filter(|_| key.rtype != RecordType::Cname);
        let all = standing.map_or(&[][..], RecordSet::data).iter().chain(data);
        let set = RecordSet::new(ttl, all.cloned());
        self.sets.insert(key.clone(), set);
    }

    /// Whether a set of another type at the name keeps this one out.
    fn has_rival(&self, key: &RecordKey) -> bool {
        let mut others = self.sets.range(key.name_range()).map(|(other, _)| other);
        others.any(|other| {
            other.rtype != key.rtype
                && [key, other]
                    .iter()
                    .any(|one| one.rtype == RecordType::Cname)
        })
    }
}

/// Content with the serial of its SOA, or 1 where it has none. Where records of one set differ in TTL, the last
/// one's counts.
impl FromIterator<Record> for ZoneContent {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut sets: BTreeMap<RecordKey, (u32, Vec<RecordData>)> = BTreeMap::new();
        let mut serial = Serial(1);
        for record in records {
            if let RecordData::Soa(soa) = &record.data {
                serial = Serial(soa.serial);
            }
            let (ttl, data) = sets.entry(record.key()).or_default();
            *ttl = record.ttl;
            data.push(record.data);
        }
        let sets = sets.into_iter();
        Self {
            serial,
            sets: sets
                .map(|(key, (ttl, data))| (key, RecordSet::new(ttl, data)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[&str]) -> Vec<Record> {
        let record = |line: &&str| line.parse().expect("a fixture is a zone-file line");
        lines.iter().map(record).collect()
    }

    /// What becomes of these lines when the first of `remove` and `add` names the set.
    fn applied(lines: &[&str], remove: &[&str], add: &[&str]) -> (Vec<String>, u32) {
        let mut content: ZoneContent = records(lines).into_iter().collect();
        let (remove, add) = (records(remove), records(add));
        let first = add.first().or_else(|| remove.first()).expect("a record");
        let data = |records: &[Record]| records.iter().map(|record| record.data.clone()).collect();
        content.apply(&Change {
            key: first.key(),
            expect: Expect::Anything,
            remove: data(&remove),
            add: data(&add),
            ttl: first.ttl,
        });
        let lines = content.records().map(|record| record.to_string());
        (lines.collect(), content.serial.0)
    }

    const ONE: &str = "a.example.com. 300 IN A 192.0.2.1";
    const TWO: &str = "a.example.com. 300 IN A 192.0.2.2";
    const ALIAS: &str = "a.example.com. 300 IN CNAME b.example.com.";

    #[test]
    fn what_is_named_goes_and_comes_and_the_rest_stays() {
        assert_eq!(applied(&[ONE], &[], &[TWO]).0, [ONE, TWO]);
        assert_eq!(applied(&[ONE, TWO], &[ONE], &[]).0, [TWO]);
        assert_eq!(applied(&[ONE], &[ONE], &[]).0, [""; 0]);
        assert_eq!(applied(&[ONE], &[ONE], &[TWO]).0, [TWO]);
    }

    #[test]
    fn the_ttl_of_what_is_added_is_the_ttl_of_the_set() {
        let later = "a.example.com. 60 IN A 192.0.2.2";
        assert_eq!(
            applied(&[ONE], &[], &[later]).0,
            ["a.example.com. 60 IN A 192.0.2.1", later]
        );
    }

    #[test]
    fn nothing_comes_beside_an_alias_and_an_alias_comes_beside_nothing() {
        assert_eq!(applied(&[ALIAS], &[], &[ONE]).0, [ALIAS]);
        assert_eq!(applied(&[ONE], &[], &[ALIAS]).0, [ONE]);
        let other = "a.example.com. 300 IN CNAME c.example.com.";
        assert_eq!(applied(&[ALIAS], &[], &[other]).0, [other]);
    }

    #[test]
    fn only_a_newer_soa_counts() {
        let soa = |serial| {
            format!("example.com. 60 IN SOA ns.example.com. root.example.com. {serial} 1 1 1 1")
        };
        let (five, six) = (soa(5), soa(6));
        assert_eq!(applied(&[&five], &[], &[&six]), (vec![six.clone()], 6));
        assert_eq!(applied(&[&six], &[], &[&five]), (vec![six.clone()], 6));
    }

    #[test]
    fn what_is_expected_is_compared_without_the_ttl() {
        let content: ZoneContent = records(&[ONE]).into_iter().collect();
        let meets = |key: RecordKey, expect| {
            content.meets(&Change {
                key,
                expect,
                remove: Vec::new(),
                add: Vec::new(),
                ttl: 5,
            })
        };
        let exactly = |line| Expect::Exactly(vec![records(&[line])[0].data.clone()]);
        let (here, there) = (records(&[ONE])[0].key(), records(&[ALIAS])[0].key());
        assert!(meets(here.clone(), exactly(ONE)) && !meets(here.clone(), exactly(TWO)));
        assert!(!meets(here.clone(), Expect::Absent) && meets(there.clone(), Expect::Absent));
        assert!(meets(here, Expect::Anything) && !meets(there, exactly(ONE)));
    }
}

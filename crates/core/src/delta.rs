//! What became of a zone since one of its versions.

use std::collections::BTreeMap;

use crate::{
    content::ZoneContent,
    name::Name,
    record::{Record, RecordData, RecordKey, RecordType, Serial},
};

/// What a zone has become since a serial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Nothing newer: the serial the server has.
    UpToDate(Serial),
    /// The changes.
    Difference(Difference),
    /// The whole zone, where the server does not know its way from that serial.
    Whole(ZoneContent),
}

/// The way from one version of a zone to another: its net effect, in which a record whose TTL changed
/// both goes and comes, and what was touched on the way without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The SOA at the end of the way.
    pub to: Record,
    /// Records that go, none of them an SOA.
    pub removed: Vec<Record>,
    /// Records that come, none of them an SOA.
    pub added: Vec<Record>,
    /// Records that came and went in between. Who saw the zone on its way may have them.
    pub fleeting: Vec<Record>,
    /// Records that went and came again as they were. Who saw the zone on its way may lack them.
    pub returned: Vec<Record>,
}

impl Difference {
    /// The way from one content of `zone` to another; `None` if the other has no SOA.
    #[must_use]
    pub fn between(zone: &Name, from: &ZoneContent, to: &ZoneContent) -> Option<Self> {
        let soa = RecordKey::new(zone.clone(), RecordType::Soa);
        let mut net = Net::default();
        for (content, act) in [(from, Net::remove as fn(&mut Net, Record)), (to, Net::add)] {
            for (key, set) in content.sets.iter().filter(|(key, _)| **key != soa) {
                for record in set.records(key) {
                    act(&mut net, record);
                }
            }
        }
        let to = to.sets.get(&soa)?.records(&soa).next()?;
        Some(Self {
            // Most of the zone, which was not touched at all.
            returned: Vec::new(),
            ..net.steps(to)
        })
    }
}

/// Changes as far as they have come, by what each record was at the start and is now.
#[derive(Debug, Default)]
pub struct Net {
    records: BTreeMap<(Name, RecordData), Ttls>,
}

/// The TTL of a record before and after; `None` where it is not there.
#[derive(Clone, Copy, Debug, Default)]
struct Ttls {
    before: Option<u32>,
    after: Option<u32>,
}

impl Net {
    /// A record went.
    pub fn remove(&mut self, record: Record) {
        // A record not heard of yet was there from the start.
        let ttls = self
            .records
            .entry((record.name, record.data))
            .or_insert(Ttls {
                before: Some(record.ttl),
                after: None,
            });
        ttls.after = None;
    }

    /// A record came.
    pub fn add(&mut self, record: Record) {
        let entry = self.records.entry((record.name, record.data));
        entry.or_default().after = Some(record.ttl);
    }

    /// The net effect, with the SOA at its end.
    #[must_use]
    pub fn steps(self, to: Record) -> Difference {
        let mut steps = Difference {
            to,
            removed: Vec::new(),
            added: Vec::new(),
            fleeting: Vec::new(),
            returned: Vec::new(),
        };
        for ((name, data), Ttls { before, after }) in self.records {
            let record = |ttl| Record {
                name: name.clone(),
                ttl,
                data: data.clone(),
            };
            if before == after {
                match after {
                    Some(ttl) => steps.returned.push(record(ttl)),
                    None => steps.fleeting.push(record(0)),
                }
                continue;
            }
            steps.removed.extend(before.map(record));
            steps.added.extend(after.map(record));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "a.example.com. 300 IN A 192.0.2.1";
    const TWO: &str = "a.example.com. 300 IN A 192.0.2.2";

    fn record(line: &str) -> Record {
        line.parse().expect("a fixture is a zone-file line")
    }

    fn soa(serial: u32) -> String {
        format!("example.com. 60 IN SOA ns.example.com. root.example.com. {serial} 1 1 1 1")
    }

    fn content(lines: &[&str]) -> ZoneContent {
        lines.iter().map(|line| record(line)).collect()
    }

    #[test]
    fn versions_differ_in_what_went_and_came_and_in_their_serials() {
        let zone = Name::parse("example.com").expect("a name");
        let stays = "b.example.com. 300 IN A 192.0.2.3";
        let from = content(&[&soa(1), ONE, stays]);
        let to = content(&[&soa(2), TWO, stays]);
        let difference = Difference {
            to: record(&soa(2)),
            removed: vec![record(ONE)],
            added: vec![record(TWO)],
            fleeting: Vec::new(),
            returned: Vec::new(),
        };
        assert_eq!(Difference::between(&zone, &from, &to), Some(difference));
        assert_eq!(Difference::between(&zone, &from, &content(&[TWO])), None);
    }

    #[test]
    fn what_came_and_went_is_fleeting_and_what_went_and_came_has_returned() {
        let mut net = Net::default();
        net.add(record(ONE));
        net.remove(record(ONE));
        net.remove(record(TWO));
        net.add(record(TWO));
        let steps = net.steps(record(&soa(2)));
        assert!(steps.removed.is_empty() && steps.added.is_empty());
        assert_eq!(steps.returned, [record(TWO)]);
        assert_eq!(steps.fleeting.len(), 1);
        assert_eq!(steps.fleeting[0].data, record(ONE).data);
    }

    #[test]
    fn another_ttl_is_another_record() {
        let later = "a.example.com. 60 IN A 192.0.2.1";
        let mut net = Net::default();
        net.remove(record(ONE));
        net.add(record(later));
        let steps = net.steps(record(&soa(2)));
        assert_eq!(
            (steps.removed, steps.added),
            (vec![record(ONE)], vec![record(later)])
        );
    }
}

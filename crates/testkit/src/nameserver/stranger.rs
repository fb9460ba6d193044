//! Somebody who writes into zones past Bindery, and can be told from everybody else.

use bindery_core::{Name, Record, RecordKey, RecordSet, RecordType};

use super::{Comes, FakeNameServer, advance, put};

/// What somebody does to a record set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// A value is added.
    Add,
    /// All values are replaced.
    Replace,
    /// Everything at the name is replaced by a set of another type: a CNAME, or an address where there was
    /// one.
    Usurp,
}

/// The values by which strangers are known.
const MARKS: [(RecordType, &str); 4] = [
    (RecordType::A, "A 198.51.100.9"),
    (RecordType::Aaaa, "AAAA 2001:db8:bad::9"),
    (RecordType::Cname, "CNAME stranger.example.net."),
    (RecordType::Txt, "TXT \"stranger\""),
];

fn mark(rtype: RecordType) -> Option<&'static str> {
    let mut marks = MARKS.into_iter();
    marks.find_map(|(known, mark)| (known == rtype).then_some(mark))
}

/// Whether a stranger wrote a line.
#[must_use]
pub fn is_strange(line: &str) -> bool {
    MARKS.into_iter().any(|(_, mark)| line.ends_with(mark))
}

fn record(name: &Name, rtype: RecordType) -> Option<Record> {
    format!("{name} 60 IN {}", mark(rtype)?).parse().ok()
}

impl FakeNameServer {
    /// Somebody meddles with one of a zone's record sets, but not with those at these labels; returns which.
    #[must_use]
    pub fn meddle(
        &self,
        zone: &Name,
        (number, meddling): (usize, Meddling),
        spared: &[&[u8]],
    ) -> Option<RecordKey> {
        // Nobody writes into a zone that its server cannot serve.
        if self.damage().unloadable.contains(zone) {
            return None;
        }
        self.work(|zones| {
            let content = zones.get_mut(zone)?;
            let mut keys = content.sets.keys().filter(|key| {
                let label = key.name.labels().next().unwrap_or_default();
                mark(key.rtype).is_some() && key.name != *zone && !spared.contains(&label)
            });
            let key = keys.nth(number)?.clone();
            let rtype = match (meddling, key.rtype) {
                (Meddling::Usurp, RecordType::Cname) => RecordType::A,
                (Meddling::Usurp, _) => RecordType::Cname,
                (Meddling::Add | Meddling::Replace, rtype) => rtype,
            };
            let strange = record(&key.name, rtype)?;
            match meddling {
                Meddling::Add if rtype != RecordType::Cname => {}
                Meddling::Add | Meddling::Replace => drop(content.sets.remove(&key)),
                Meddling::Usurp => content.sets.retain(|other, _| other.name != key.name),
            }
            put(content, &strange, Comes::Yes);
            advance(content, content.serial.next());
            Some(key)
        })
    }

    /// Everything that strangers wrote into a zone goes.
    pub fn chase_strangers(&self, zone: &Name) {
        self.work(|zones| {
            let Some(content) = zones.get_mut(zone) else {
                return;
            };
            let mut found = false;
            let sets = std::mem::take(&mut content.sets);
            for (key, set) in sets {
                let strange = record(&key.name, key.rtype).map(|record| record.data);
                let left: Vec<_> = set
                    .data()
                    .iter()
                    .filter(|data| Some(*data) != strange.as_ref())
                    .cloned()
                    .collect();
                found |= left.len() < set.data().len();
                if !left.is_empty() {
                    content.sets.insert(key, RecordSet::new(set.ttl, left));
                }
            }
            if found {
                advance(content, content.serial.next());
            }
        });
    }
}

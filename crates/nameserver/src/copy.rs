//! What a primary answered, put on a copy of its zone: differences that must fit exactly, or a whole zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_core::delta::Difference;
use bindery_core::zones::ZoneContent;
use bindery_core::{Record, RecordData, RecordKey, RecordSet, RecordType, Serial};

use super::content::Content;
use super::update::Updated;

/// What a primary sent.
pub(super) enum PrimaryAnswer {
    /// The way to its version.
    Difference(Difference),
    /// Its version.
    Whole(ZoneContent),
}

/// The content after the answer; `None` if the answer is not about this content.
pub(super) fn updated(before: &Content, answer: PrimaryAnswer) -> Option<Updated> {
    match answer {
        PrimaryAnswer::Difference(steps) => stepped(before, steps),
        PrimaryAnswer::Whole(zone) => Some(replaced(before, zone)),
    }
}

/// What a set loses and gains.
#[derive(Default)]
struct SetDifference {
    removed: BTreeSet<RecordData>,
    added: Vec<RecordData>,
    ttl: Option<u32>,
}

/// Exact, so that a copy which differs from what the primary thinks it is does not stay so.
fn stepped(before: &Content, steps: Difference) -> Option<Updated> {
    let mut differences: BTreeMap<RecordKey, SetDifference> = BTreeMap::new();
    for record in steps.removed {
        let difference = differences.entry(record.key()).or_default();
        difference.removed.insert(record.data);
    }
    for record in steps.added {
        let difference = differences.entry(record.key()).or_default();
        difference.ttl = Some(record.ttl);
        difference.added.push(record.data);
    }
    let mut content = before.clone();
    let mut changed = BTreeSet::new();
    for (key, difference) in differences {
        let standing = before.set(&key.name, key.rtype);
        let data = standing.map_or(&[][..], |set| set.data());
        let has = |data| standing.is_some_and(|set| set.contains(data));
        let known = difference.removed.iter().all(has);
        let new = |data| !has(data) || difference.removed.contains(data);
        if !known || !difference.added.iter().all(new) {
            return None;
        }
        let staying = data
            .iter()
            .filter(|data| !difference.removed.contains(data))
            .cloned();
        let ttl = difference.ttl.or_else(|| standing.map(|set| set.ttl))?;
        let set = RecordSet::new(ttl, staying.chain(difference.added));
        content.put(&key.name, key.rtype, Some(Arc::new(set)));
        changed.insert((key.name, key.rtype));
    }
    let Record { ttl, data, .. } = steps.to;
    let soa = RecordSet::new(ttl, [data]);
    let apex = before.apex().clone();
    content.put(&apex, RecordType::Soa, Some(Arc::new(soa)));
    changed.insert((apex, RecordType::Soa));
    is_newer(before, content.serial()?).then_some(Updated { content, changed })
}

/// Nothing changes if the zone is not newer than what we have.
fn replaced(before: &Content, zone: ZoneContent) -> Updated {
    if !is_newer(before, zone.serial) {
        return Updated {
            content: before.clone(),
            changed: BTreeSet::new(),
        };
    }
    let mut content = Content::new(before.apex().clone());
    let mut changed = BTreeSet::new();
    for (RecordKey { name, rtype }, set) in zone.sets {
        let set = match before.set(&name, rtype) {
            // What is the same need not be kept twice.
            Some(standing) if **standing == set => Arc::clone(standing),
            Some(_) | None => {
                changed.insert((name.clone(), rtype));
                Arc::new(set)
            }
        };
        content.put(&name, rtype, Some(set));
    }
    let gone = before
        .sets()
        .filter(|(name, rtype, _)| content.set(name, *rtype).is_none())
        .map(|(name, rtype, _)| (name.clone(), rtype));
    changed.extend(gone);
    Updated { content, changed }
}

fn is_newer(before: &Content, serial: Serial) -> bool {
    before.serial().is_none_or(|known| serial.newer_than(known))
}

#[cfg(test)]
mod tests {
    use bindery_core::Name;

    use super::*;

    fn record(line: &str) -> Record {
        line.parse().unwrap()
    }

    fn soa(serial: u32) -> String {
        format!("example.com. 60 IN SOA a.example.com. b.example.com. {serial} 2 3 4 5")
    }

    fn zone(serial: u32, lines: &[&str]) -> ZoneContent {
        let mut sets = BTreeMap::new();
        for record in lines
            .iter()
            .map(|line| record(line))
            .chain([record(&soa(serial))])
        {
            sets.insert(record.key(), RecordSet::new(record.ttl, [record.data]));
        }
        ZoneContent {
            serial: Serial(serial),
            sets,
        }
    }

    fn copied(serial: u32, lines: &[&str]) -> Content {
        let empty = Content::new(Name::parse("example.com.").unwrap());
        updated(&empty, PrimaryAnswer::Whole(zone(serial, lines)))
            .unwrap()
            .content
    }

    fn steps(serial: u32, removed: &[&str], added: &[&str]) -> PrimaryAnswer {
        PrimaryAnswer::Difference(Difference {
            to: record(&soa(serial)),
            removed: removed.iter().map(|line| record(line)).collect(),
            added: added.iter().map(|line| record(line)).collect(),
            fleeting: Vec::new(),
            returned: Vec::new(),
        })
    }

    /// The lines of a zone, the SOA left out.
    fn shown(content: &Content) -> Vec<String> {
        content
            .sets()
            .filter(|(_, rtype, _)| *rtype != RecordType::Soa)
            .flat_map(|(name, _, set)| {
                let line = move |data| format!("{name} {} {data}", set.ttl);
                set.data().iter().map(line)
            })
            .collect()
    }

    const W: &str = "w.example.com. 60 IN A 192.0.2.1";

    #[test]
    fn steps_change_what_they_name_and_the_serial() {
        let before = copied(1, &[W]);
        let longer = "w.example.com. 90 IN A 192.0.2.1";
        let added = [longer, "w.example.com. 90 IN A 192.0.2.2"];
        let after = updated(&before, steps(5, &[W], &added)).unwrap();
        assert_eq!(after.content.serial(), Some(Serial(5)));
        let lines = ["w.example.com. 90 192.0.2.1", "w.example.com. 90 192.0.2.2"];
        assert_eq!(shown(&after.content).len(), lines.len());
        assert_eq!(after.changed.len(), 2);
        let gone = updated(&before, steps(2, &[W], &[])).unwrap();
        assert!(shown(&gone.content).is_empty());
    }

    #[test]
    fn steps_of_another_content_are_not_taken() {
        let before = copied(3, &[W]);
        let other = "x.example.com. 60 IN A 192.0.2.1";
        assert!(updated(&before, steps(4, &[other], &[])).is_none());
        assert!(updated(&before, steps(4, &[], &[W])).is_none());
        assert!(updated(&before, steps(3, &[], &[other])).is_none());
    }

    #[test]
    fn a_whole_zone_replaces_an_older_one_only() {
        let before = copied(3, &[W]);
        let other = "x.example.com. 60 IN A 192.0.2.1";
        for old in [2, 3] {
            let after = updated(&before, PrimaryAnswer::Whole(zone(old, &[other]))).unwrap();
            assert!(after.changed.is_empty());
        }
        let after = updated(&before, PrimaryAnswer::Whole(zone(4, &[other]))).unwrap();
        assert_eq!(after.changed.len(), 3);
        assert_eq!(shown(&after.content), shown(&copied(4, &[other])));
    }
}

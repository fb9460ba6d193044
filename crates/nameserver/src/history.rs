//! The way a zone has come lately, for incremental transfers (RFC 1995).

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_core::{Name, RecordSet, RecordType, Serial};
use bindery_dns::wire::WireRecord;
use rpds::QueueSync;

use super::content::Content;

/// Records in the steps that a zone remembers. At some 100 bytes each that is less than half a
/// megabyte for the busiest zone; who has not asked for so long gets the whole zone.
const RECORDS_MAX: usize = 4_000;

/// One commit: the sets it changed, as they were and as they are.
pub(super) struct CommitDiff {
    from: Serial,
    to: Serial,
    soa: [WireRecord; 2],
    changed: Vec<Changed>,
    records: usize,
}

struct Changed {
    name: Name,
    before: Option<Arc<RecordSet>>,
    after: Option<Arc<RecordSet>>,
}

impl Changed {
    /// The rows that only the first of two sets has; all of them if their TTLs differ.
    fn only<'a>(
        &'a self,
        one: Option<&'a Arc<RecordSet>>,
        other: Option<&'a Arc<RecordSet>>,
    ) -> impl Iterator<Item = WireRecord> {
        one.into_iter().flat_map(move |set| {
            let other = other.filter(|other| other.ttl == set.ttl);
            set.data()
                .iter()
                .filter(move |data| !other.is_some_and(|other| other.contains(data)))
                .map(|data| WireRecord::new(self.name.clone(), set.ttl, data))
        })
    }
}

impl CommitDiff {
    /// The step between two contents that differ in the sets named; `None` if it does not lead
    /// from one serial to another.
    pub(super) fn between(
        before: &Content,
        after: &Content,
        changed: &BTreeSet<(Name, RecordType)>,
    ) -> Option<Self> {
        let (from, to) = (before.serial()?, after.serial()?);
        let changed: Vec<Changed> = changed
            .iter()
            .filter(|(_, rtype)| *rtype != RecordType::Soa)
            .map(|(name, rtype)| Changed {
                name: name.clone(),
                before: before.set(name, *rtype).cloned(),
                after: after.set(name, *rtype).cloned(),
            })
            .collect();
        let len = |set: &Option<Arc<RecordSet>>| set.as_ref().map_or(0, |set| set.len());
        let records = changed
            .iter()
            .map(|changed| len(&changed.before) + len(&changed.after))
            .sum::<usize>();
        to.newer_than(from).then_some(Self {
            from,
            to,
            soa: [before.soa_row()?, after.soa_row()?],
            changed,
            // The two SOA records count as well.
            records: records + 2,
        })
    }

    /// The rows of this step as an incremental transfer has them.
    pub(super) fn rows(&self) -> impl Iterator<Item = WireRecord> {
        let [from, to] = &self.soa;
        let removed = self
            .changed
            .iter()
            .flat_map(|set| set.only(set.before.as_ref(), set.after.as_ref()));
        let added = self
            .changed
            .iter()
            .flat_map(|set| set.only(set.after.as_ref(), set.before.as_ref()));
        std::iter::once(from.clone())
            .chain(removed)
            .chain([to.clone()])
            .chain(added)
    }
}

/// The last steps of a zone, each beginning where the one before it ended. Cloning costs nothing.
#[derive(Clone)]
pub(super) struct History {
    steps: QueueSync<Arc<CommitDiff>>,
    records: usize,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            steps: QueueSync::new_sync(),
            records: 0,
        }
    }

    /// Adds a step, and forgets the oldest where there are too many; `None` is a leap, before
    /// which no way is known.
    pub(super) fn push(&mut self, step: Option<CommitDiff>) {
        let Some(step) = step else {
            *self = Self::new();
            return;
        };
        self.records += step.records;
        self.steps.enqueue_mut(Arc::new(step));
        while self.records > RECORDS_MAX
            && let Some(oldest) = self.steps.peek()
        {
            self.records -= oldest.records;
            self.steps.dequeue_mut();
        }
    }

    /// The steps that lead from `serial` to `now`; `None` if they are not known.
    pub(super) fn since(&self, serial: Serial, now: Serial) -> Option<Vec<Arc<CommitDiff>>> {
        let steps: Vec<Arc<CommitDiff>> = self
            .steps
            .iter()
            .skip_while(|step| step.from != serial)
            .cloned()
            .collect();
        let arrives = steps.last().is_some_and(|step| step.to == now);
        arrives.then_some(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone with an SOA of this serial and this many addresses at `w`.
    fn content(serial: u32, addresses: usize) -> Content {
        let apex = Name::parse("example.com.").unwrap();
        let soa = format!("example.com. 60 IN SOA a.example.com. b.example.com. {serial} 2 3 4 5");
        let mut content = Content::new(apex);
        let mut put = |lines: Vec<String>| {
            let records: Vec<bindery_core::Record> =
                lines.iter().map(|line| line.parse().unwrap()).collect();
            let key = records[0].key();
            let set = RecordSet::new(60, records.into_iter().map(|record| record.data));
            content.put(&key.name, key.rtype, Some(Arc::new(set)));
        };
        put(vec![soa]);
        let line = |number: usize| {
            format!(
                "w.example.com. 60 IN A 10.0.{}.{}",
                number / 256,
                number % 256
            )
        };
        put((0..addresses).map(line).collect());
        content
    }

    fn step(from: (u32, usize), to: (u32, usize)) -> Option<CommitDiff> {
        let changed = [RecordType::Soa, RecordType::A]
            .map(|rtype| {
                let name = if rtype == RecordType::A {
                    "w.example.com."
                } else {
                    "example.com."
                };
                (Name::parse(name).unwrap(), rtype)
            })
            .into();
        CommitDiff::between(&content(from.0, from.1), &content(to.0, to.1), &changed)
    }

    #[test]
    fn a_step_has_what_goes_and_what_comes_between_its_serials() {
        let rows: Vec<u16> = step((1, 2), (2, 4))
            .unwrap()
            .rows()
            .map(|row| row.rtype)
            .collect();
        assert_eq!(rows, [6, 6, 1, 1]);
        let rows: Vec<u16> = step((2, 4), (3, 3))
            .unwrap()
            .rows()
            .map(|row| row.rtype)
            .collect();
        assert_eq!(rows, [6, 1, 6]);
        assert!(step((2, 1), (2, 2)).is_none());
    }

    #[test]
    fn the_way_is_known_from_serials_that_are_remembered() {
        let mut history = History::new();
        history.push(step((1, 1), (2, 2)));
        history.push(step((2, 2), (5, 3)));
        let steps = |history: &History, from| {
            history
                .since(Serial(from), Serial(5))
                .map(|steps| steps.len())
        };
        assert_eq!(steps(&history, 1), Some(2));
        assert_eq!(steps(&history, 2), Some(1));
        assert_eq!(steps(&history, 3), None);
        assert_eq!(steps(&history, 5), None);
        history.push(None);
        assert_eq!(steps(&history, 2), None);
    }

    #[test]
    fn the_oldest_steps_are_forgotten() {
        let mut history = History::new();
        for serial in 1..50 {
            history.push(step((serial, 100), (serial + 1, 101)));
        }
        assert!(history.records <= RECORDS_MAX);
        assert!(history.since(Serial(1), Serial(50)).is_none());
        assert!(history.since(Serial(40), Serial(50)).is_some());
        history.push(step((50, 1), (51, 5_000)));
        assert!(history.since(Serial(50), Serial(51)).is_none());
        assert_eq!(history.records, 0);
    }
}

//! What the guard knows beyond a restart: removals are written down before they happen.
//!
//! A removal waits until its mark stands where the next run finds it. What is written down and never
//! happened is told apart by looking: a set that still stands was not removed. Marks are written for all
//! removals that wait together, and beyond some of them for half as many to come, so that a flood costs
//! few writes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Zone, guard::WINDOW};
use crate::{backoff::jitter_seed, record::RecordKey};

/// Marks that are written down one by one; what goes beyond is counted. 200 of 17 bytes are 3.4 KiB.
const MARKS_MAX: usize = 200;
/// Removals from which on half as many to come are written down with them.
const AHEAD_MIN: usize = 8;
/// How long leave to remove what is written down counts; then the time beside it is too old.
const LEAVE_MAX: Duration = Duration::from_secs(30);

/// Removals that are written down where a restart finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Tells one writing from another.
    pub number: u64,
    /// What stands for each set that is, or is about to be, removed; sorted.
    pub marks: Vec<u64>,
    /// How many more.
    pub more: usize,
    /// What stands for each set whose removal was let through; sorted.
    pub passed: Vec<u64>,
}

impl Noted {
    /// For how long after it was written an earlier run's note counts: as long as leave counts, and
    /// the guard's minute.
    pub const HORIZON: Duration = LEAVE_MAX.saturating_add(WINDOW);
}

/// What is remembered, and what waits to be written down.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// As it is written down; `None` where nobody writes it down.
    noted: Option<Arc<Noted>>,
    /// Since when it gives leave, once that was looked at.
    since: Option<Duration>,
    /// Whether it was written for this run.
    is_leave: bool,
    /// How many of those that are only counted were used.
    used: usize,
    /// What an earlier run removed, or was about to.
    before: BTreeSet<u64>,
    before_more: usize,
    passed_before: BTreeSet<u64>,
    /// When that was first looked at.
    before_since: Option<Duration>,
    /// Removals that wait for being written down.
    waiting: BTreeSet<RecordKey>,
}

impl Memory {
    /// Takes in what is written down, for the first time from an earlier run, and returns what waited
    /// for it.
    pub(super) fn take_in(&mut self, noted: Option<Arc<Noted>>, is_first: bool) -> Vec<RecordKey> {
        if !is_first && self.noted == noted {
            return Vec::new();
        }
        if let (true, Some(noted)) = (is_first, &noted) {
            self.before = noted.marks.iter().copied().collect();
            self.before_more = noted.more;
            self.passed_before = noted.passed.iter().copied().collect();
            self.before_since = None;
        }
        self.is_leave = !is_first;
        self.noted = noted;
        self.since = None;
        self.used = 0;
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    /// A set is wanted again, so that its removal is none.
    pub(super) fn want(&mut self, key: &RecordKey) {
        self.waiting.remove(key);
        if !self.before.is_empty() {
            self.before.remove(&mark(key));
        }
    }

    /// What stands was not removed.
    pub(super) fn see_standing<'a>(&mut self, keys: impl Iterator<Item = &'a RecordKey>) {
        if self.before.is_empty() {
            return;
        }
        for key in keys {
            self.before.remove(&mark(key));
        }
    }

    /// How many sets an earlier run removed of late.
    pub(super) fn count_before(&mut self, now: Duration) -> usize {
        let since = *self.before_since.get_or_insert(now);
        if now > since + WINDOW {
            self.before.clear();
            self.passed_before.clear();
            self.before_more = 0;
        }
        self.before.len() + self.before_more
    }

    /// Whether an earlier run was told to let this removal through.
    pub(super) fn has_passed(&self, key: &RecordKey) -> bool {
        !self.passed_before.is_empty() && self.passed_before.contains(&mark(key))
    }

    /// Whether a removal is written down; else it waits for that.
    pub(super) fn permits(&mut self, key: &RecordKey, now: Duration) -> bool {
        let Some(noted) = &self.noted else {
            return true;
        };
        let since = *self.since.get_or_insert(now);
        if self.is_leave && now < since + LEAVE_MAX {
            if noted.marks.binary_search(&mark(key)).is_ok() {
                return true;
            }
            if self.used < noted.more {
                self.used += 1;
                return true;
            }
        }
        self.waiting.insert(key.clone());
        false
    }

    /// The removals that wait to be written down.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &RecordKey> {
        self.waiting.iter()
    }

    /// Whether something waits to be written down.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Zone {
    /// What is to be written down now.
    pub(super) fn to_note(&self) -> Option<Arc<Noted>> {
        let memory = &self.guard.memory;
        if memory.noted.is_none() || (!memory.is_waiting() && self.guard.passed.is_empty()) {
            return memory.noted.clone();
        }
        let in_flight = self.children.in_flight().iter();
        let in_flight = in_flight.filter(|(_, flight)| flight.desired.is_none());
        let removed = self.guard.recent.keys();
        let removed = removed.chain(in_flight.map(|(key, _)| key));
        let removed = removed.chain(&memory.waiting).map(mark);
        let mut marks: BTreeSet<u64> = removed.chain(memory.before.iter().copied()).collect();
        let ahead = match marks.len() {
            count if count < AHEAD_MIN => 0,
            count => count / 2,
        };
        // What waits is named in any case, or it would wait on.
        let mut over = marks.len().saturating_sub(MARKS_MAX);
        let mut more = memory.before_more + ahead;
        let named: BTreeSet<u64> = memory.waiting.iter().take(MARKS_MAX).map(mark).collect();
        marks.retain(|one| {
            let goes = over > 0 && !named.contains(one);
            over -= usize::from(goes);
            more += usize::from(goes);
            !goes
        });
        let passed = self.guard.passed.iter().take(MARKS_MAX).map(mark);
        let passed: BTreeSet<u64> = passed.collect();
        Some(Arc::new(Noted {
            number: 0,
            marks: marks.into_iter().collect(),
            more,
            passed: passed.into_iter().collect(),
        }))
    }
}

/// What stands for a set.
fn mark(key: &RecordKey) -> u64 {
    jitter_seed(key.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{name::Name, record::RecordType};

    fn key(number: usize) -> RecordKey {
        let name = Name::parse(&format!("h{number}.example.com.")).expect("the name is sound");
        RecordKey::new(name, RecordType::A)
    }

    fn noted(marks: &[usize], more: usize, passed: &[usize]) -> Arc<Noted> {
        let sorted = |keys: &[usize]| -> Vec<u64> {
            let marks: BTreeSet<u64> = keys.iter().map(|number| mark(&key(*number))).collect();
            marks.into_iter().collect()
        };
        Arc::new(Noted {
            number: 0,
            marks: sorted(marks),
            more,
            passed: sorted(passed),
        })
    }

    #[test]
    fn what_an_earlier_run_removed_counts_for_a_minute_unless_it_stands_or_is_wanted() {
        let start = Duration::from_secs(10);
        let mut memory = Memory::default();
        memory.take_in(Some(noted(&[1, 2], 3, &[4])), true);
        assert_eq!(memory.count_before(start), 5);
        assert!(memory.has_passed(&key(4)) && !memory.has_passed(&key(1)));
        memory.want(&key(1));
        assert_eq!(memory.count_before(start), 4);
        memory.see_standing([key(2)].iter());
        assert_eq!(memory.count_before(start + WINDOW), 3);
        assert_eq!(
            memory.count_before(start + WINDOW + Duration::from_nanos(1)),
            0
        );
        assert!(!memory.has_passed(&key(4)));
    }

    #[test]
    fn a_removal_waits_until_this_run_has_written_it_down() {
        let start = Duration::from_secs(10);
        let mut memory = Memory::default();
        memory.take_in(Some(noted(&[1], 1, &[])), true);
        assert!(!memory.permits(&key(1), start), "an earlier run wrote that");
        let written = Some(Arc::new(Noted {
            number: 1,
            ..Noted::clone(&noted(&[1], 1, &[]))
        }));
        assert_eq!(memory.take_in(written.clone(), false), [key(1)]);
        assert!(memory.permits(&key(1), start));
        assert!(memory.permits(&key(2), start), "one more is counted");
        assert!(!memory.permits(&key(3), start), "and no other");
        // The same note once more is no new leave.
        assert!(memory.take_in(written, false).is_empty());
        assert!(memory.is_waiting() && !memory.permits(&key(3), start));
        let last = start + LEAVE_MAX;
        assert!(memory.permits(&key(1), last.saturating_sub(Duration::from_nanos(1))));
        assert!(!memory.permits(&key(1), last), "it is too old");
    }

    /// A zone in which so many removals wait to be written down.
    fn waiting(count: usize, before: usize) -> Zone {
        let mut zone = Zone::default();
        let note = Some(noted(&[], before, &[]));
        zone.guard.memory.take_in(note, true);
        for number in 0..count {
            assert!(!zone.guard.memory.permits(&key(number), Duration::ZERO));
        }
        zone
    }

    #[test]
    fn a_note_is_for_half_as_many_to_come_once_there_are_eight() {
        let note = |count, before| {
            let note = waiting(count, before).to_note().expect("it is noted");
            (note.marks.len(), note.more)
        };
        assert_eq!(note(7, 0), (7, 0));
        assert_eq!(note(8, 0), (8, 4));
        assert_eq!(note(8, 3), (8, 7));
    }

    #[test]
    fn what_goes_beyond_the_marks_is_counted_and_what_waits_is_named() {
        let mut zone = waiting(190, 0);
        for number in 190..220 {
            zone.guard.recent.insert(key(number), Duration::ZERO);
        }
        let note = zone.to_note().expect("it is noted");
        assert_eq!((note.marks.len(), note.more), (MARKS_MAX, 110 + 20));
        let waits = zone.guard.memory.waiting().map(mark);
        assert_eq!(waits.filter(|one| note.marks.contains(one)).count(), 190);
    }

    #[test]
    fn where_nobody_writes_notes_there_is_none() {
        let mut zone = Zone::default();
        zone.guard.pass(&key(1));
        assert_eq!(zone.to_note(), None);
    }
}

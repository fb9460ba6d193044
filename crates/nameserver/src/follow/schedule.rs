//! When to ask which primary about which zone; pure but for the moments it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_core::Name;
use tokio::time::Instant;

/// A zone, and the place of a primary in the list of primaries.
pub(super) type Visit = (Name, usize);

/// How a visit went.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The primary answered; again after this.
    Heard(Duration),
    /// It did not; again after a pause that grows from a second up to this.
    Failed(Duration),
    /// There is no such zone any more.
    Gone,
}

/// Visits that wait and visits that are being paid.
#[derive(Default)]
pub(super) struct Schedule {
    entries: BTreeMap<Visit, Entry>,
    waiting: BTreeSet<(Instant, Visit)>,
}

#[derive(Default)]
struct Entry {
    /// None while the visit is being paid.
    due: Option<Instant>,
    /// Asked for while it was being paid, so what it found may be old.
    again: bool,
    failures: u32,
}

impl Schedule {
    /// Has a visit paid at `due` at the latest; one that is being paid is paid again.
    pub(super) fn ask(&mut self, visit: Visit, due: Instant) {
        if let Some(entry) = self.entries.get_mut(&visit) {
            match entry.due {
                None => {
                    entry.again = true;
                    return;
                }
                Some(earlier) if earlier <= due => return,
                Some(later) => {
                    self.waiting.remove(&(later, visit.clone()));
                }
            }
        }
        self.wait(visit, due);
    }

    /// The next visit that is due, which is being paid from now on.
    pub(super) fn next(&mut self, now: Instant) -> Option<Visit> {
        let first = self.waiting.first().filter(|(due, _)| *due <= now)?;
        let first = first.clone();
        self.waiting.remove(&first);
        let (_, visit) = first;
        if let Some(entry) = self.entries.get_mut(&visit) {
            entry.due = None;
        }
        Some(visit)
    }

    /// When the next visit is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// Takes note of how a visit went, and returns how many have failed in a row.
    pub(super) fn done(&mut self, visit: &Visit, outcome: Outcome, now: Instant) -> u32 {
        let Some(entry) = self.entries.get_mut(visit) else {
            return 0;
        };
        let again = std::mem::take(&mut entry.again);
        let pause = match outcome {
            Outcome::Gone if !again => {
                self.entries.remove(visit);
                return 0;
            }
            Outcome::Gone => Duration::ZERO,
            Outcome::Heard(pause) => {
                entry.failures = 0;
                pause
            }
            Outcome::Failed(longest) => {
                // Sixteen doublings of a second are more than any limit given.
                let pause = Duration::from_secs(1 << entry.failures.min(16));
                entry.failures = entry.failures.saturating_add(1);
                pause.min(longest)
            }
        };
        let pause = if again { Duration::ZERO } else { pause };
        let failures = entry.failures;
        self.wait(visit.clone(), now + pause);
        failures
    }

    fn wait(&mut self, visit: Visit, due: Instant) {
        self.entries.entry(visit.clone()).or_default().due = Some(due);
        self.waiting.insert((due, visit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(name: &str) -> Visit {
        (Name::parse(name).unwrap(), 0)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_visit_is_paid_when_due_and_by_one_at_a_time() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask(visit("a."), now + seconds(5));
        assert_eq!(schedule.next(now), None);
        schedule.ask(visit("a."), now);
        assert_eq!(schedule.next(now), Some(visit("a.")));
        schedule.ask(visit("a."), now);
        assert_eq!(schedule.next(now), None);
        // What came meanwhile is looked at next.
        schedule.done(&visit("a."), Outcome::Heard(seconds(9)), now);
        assert_eq!(schedule.next(now), Some(visit("a.")));
        schedule.done(&visit("a."), Outcome::Heard(seconds(9)), now);
        assert_eq!(schedule.first(), Some(now + seconds(9)));
    }

    #[test]
    fn pauses_grow_with_failures_up_to_their_limit() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        let mut at = now;
        schedule.ask(visit("a."), at);
        for pause in [1, 2, 4, 5, 5] {
            assert_eq!(schedule.next(at), Some(visit("a.")));
            schedule.done(&visit("a."), Outcome::Failed(seconds(5)), at);
            at += seconds(pause);
            assert_eq!(schedule.first(), Some(at));
        }
    }

    #[test]
    fn a_zone_that_has_gone_is_forgotten_unless_it_came_back() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask(visit("a."), now);
        schedule.next(now);
        schedule.done(&visit("a."), Outcome::Gone, now);
        assert_eq!((schedule.first(), schedule.entries.len()), (None, 0));
        schedule.ask(visit("a."), now);
        schedule.next(now);
        schedule.ask(visit("a."), now);
        schedule.done(&visit("a."), Outcome::Gone, now);
        assert_eq!(schedule.next(now), Some(visit("a.")));
    }
}

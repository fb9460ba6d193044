//! When to ask which primary about which zone; pure but for the moments it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bindery_core::Name;
use tokio::time::Instant;

/// A zone, and the place of a primary in the list of primaries.
pub(super) type RefreshKey = (Name, usize);

/// How a refresh went.
#[derive(Clone, Copy)]
pub(super) enum RefreshOutcome {
    /// The primary answered; again after this.
    Heard(Duration),
    /// It did not; again after a pause that grows from a second up to this.
    Failed(Duration),
    /// There is no such zone any more.
    Gone,
}

/// Refreshes that wait and refreshes that run.
#[derive(Default)]
pub(super) struct RefreshSchedule {
    entries: BTreeMap<RefreshKey, Entry>,
    waiting: BTreeSet<(Instant, RefreshKey)>,
}

#[derive(Default)]
struct Entry {
    /// None while the refresh is running.
    due: Option<Instant>,
    /// Asked for while it was being paid, so what it found may be old.
    again: bool,
    failures: u32,
}

impl RefreshSchedule {
    /// Has a refresh run at `due` at the latest; one that is running runs again.
    pub(super) fn ask(&mut self, refresh: RefreshKey, due: Instant) {
        if let Some(entry) = self.entries.get_mut(&refresh) {
            match entry.due {
                None => {
                    entry.again = true;
                    return;
                }
                Some(earlier) if earlier <= due => return,
                Some(later) => {
                    self.waiting.remove(&(later, refresh.clone()));
                }
            }
        }
        self.wait(refresh, due);
    }

    /// The next refresh that is due, which is running from now on.
    pub(super) fn next(&mut self, now: Instant) -> Option<RefreshKey> {
        let first = self.waiting.first().filter(|(due, _)| *due <= now)?;
        let first = first.clone();
        self.waiting.remove(&first);
        let (_, refresh) = first;
        if let Some(entry) = self.entries.get_mut(&refresh) {
            entry.due = None;
        }
        Some(refresh)
    }

    /// When the next refresh is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// Takes note of how a refresh went, and returns how many have failed in a row.
    pub(super) fn done(
        &mut self,
        refresh: &RefreshKey,
        outcome: RefreshOutcome,
        now: Instant,
    ) -> u32 {
        let Some(entry) = self.entries.get_mut(refresh) else {
            return 0;
        };
        let again = std::mem::take(&mut entry.again);
        let pause = match outcome {
            RefreshOutcome::Gone if !again => {
                self.entries.remove(refresh);
                return 0;
            }
            RefreshOutcome::Gone => Duration::ZERO,
            RefreshOutcome::Heard(pause) => {
                entry.failures = 0;
                pause
            }
            RefreshOutcome::Failed(longest) => {
                // Sixteen doublings of a second are more than any limit given.
                let pause = Duration::from_secs(1 << entry.failures.min(16));
                entry.failures = entry.failures.saturating_add(1);
                pause.min(longest)
            }
        };
        let pause = if again { Duration::ZERO } else { pause };
        let failures = entry.failures;
        self.wait(refresh.clone(), now + pause);
        failures
    }

    fn wait(&mut self, refresh: RefreshKey, due: Instant) {
        self.entries.entry(refresh.clone()).or_default().due = Some(due);
        self.waiting.insert((due, refresh));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refresh(name: &str) -> RefreshKey {
        (Name::parse(name).unwrap(), 0)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_refresh_runs_when_due_and_one_at_a_time() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::default();
        schedule.ask(refresh("a."), now + seconds(5));
        assert_eq!(schedule.next(now), None);
        schedule.ask(refresh("a."), now);
        assert_eq!(schedule.next(now), Some(refresh("a.")));
        schedule.ask(refresh("a."), now);
        assert_eq!(schedule.next(now), None);
        // What came meanwhile is looked at next.
        schedule.done(&refresh("a."), RefreshOutcome::Heard(seconds(9)), now);
        assert_eq!(schedule.next(now), Some(refresh("a.")));
        schedule.done(&refresh("a."), RefreshOutcome::Heard(seconds(9)), now);
        assert_eq!(schedule.first(), Some(now + seconds(9)));
    }

    #[test]
    fn pauses_grow_with_failures_up_to_their_limit() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::default();
        let mut at = now;
        schedule.ask(refresh("a."), at);
        for pause in [1, 2, 4, 5, 5] {
            assert_eq!(schedule.next(at), Some(refresh("a.")));
            schedule.done(&refresh("a."), RefreshOutcome::Failed(seconds(5)), at);
            at += seconds(pause);
            assert_eq!(schedule.first(), Some(at));
        }
    }

    #[test]
    fn a_zone_that_has_gone_is_forgotten_unless_it_came_back() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::default();
        schedule.ask(refresh("a."), now);
        schedule.next(now);
        schedule.done(&refresh("a."), RefreshOutcome::Gone, now);
        assert_eq!((schedule.first(), schedule.entries.len()), (None, 0));
        schedule.ask(refresh("a."), now);
        schedule.next(now);
        schedule.ask(refresh("a."), now);
        schedule.done(&refresh("a."), RefreshOutcome::Gone, now);
        assert_eq!(schedule.next(now), Some(refresh("a.")));
    }
}

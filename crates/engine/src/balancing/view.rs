//! How balancers are, kept for those who look: people, metrics and debug pages.

use std::{collections::BTreeMap, ops::Bound, time::Duration};

use bindery_core::{
    balancers::{BalancerKey, BalancerReport},
    tracker::Phase,
};
use tokio::time::Instant;

use super::{BalancerOperation, carrying::EndedOperation};

/// A balancer as somebody sees it who looks.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenBalancer {
    /// How it is.
    pub report: BalancerReport,
    /// How long it has been in its phase.
    pub in_phase: Duration,
    /// How long endpoints of it have waited for it to stand.
    pub buffered_for: Option<Duration>,
    /// What was last done about it.
    pub last: Option<LastOperation>,
}

/// What was last done about a balancer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastOperation {
    /// What it was.
    pub operation: BalancerOperation,
    /// How it ended: with `success`, or with the kind of a fault.
    pub status: &'static str,
    /// How long it took.
    pub duration: Duration,
    /// How long ago it ended.
    pub ago: Duration,
}

/// Some balancers out of many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenBalancers {
    /// Those that were asked for, in the order of their keys.
    pub shown: Vec<SeenBalancer>,
    /// How many there are in all.
    pub total: usize,
    /// The key after which to go on; none where these were the last.
    pub next: Option<BalancerKey>,
}

/// Every balancer that is known, and sums over them. A sum changes with each report: nobody ever counts all of
/// them.
#[derive(Debug, Default)]
pub(super) struct BalancerView {
    balancers: BTreeMap<BalancerKey, Entry>,
    phases: BTreeMap<Phase, usize>,
    buffered_endpoints: usize,
    buffered_pods: usize,
    /// How many balancers something waits for.
    buffered_balancers: usize,
}

#[derive(Debug)]
struct Entry {
    report: BalancerReport,
    since: Instant,
    buffered_since: Option<Instant>,
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    operation: BalancerOperation,
    status: &'static str,
    duration: Duration,
    at: Instant,
}

/// What a report changed about what waits for a balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffering {
    /// So many more wait than before.
    pub(super) more: usize,
    /// It stands, and what waited for it had waited so long.
    pub(super) waited: Option<Duration>,
}

impl BalancerView {
    /// Takes in how a balancer is now.
    pub(super) fn put(&mut self, report: BalancerReport) -> Buffering {
        let now = Instant::now();
        let before = self.balancers.remove(&report.key);
        let len_before = before.as_ref().map_or(0, |one| one.report.buffered_len);
        if let Some(before) = &before {
            self.count(&before.report, |count, by| {
                *count = count.saturating_sub(by);
            });
        }
        let buffered_since = before.as_ref().and_then(|one| one.buffered_since);
        let is_open = matches!(report.phase, Phase::Created | Phase::UpdateInProgress);
        let is_flushed = is_open && report.buffered_len == 0;
        let buffering = Buffering {
            more: report.buffered_len.saturating_sub(len_before),
            waited: buffered_since
                .filter(|_| is_flushed)
                .map(|since| now.duration_since(since)),
        };
        if report.phase == Phase::Gone {
            return buffering;
        }
        self.count(&report, |count, by| *count += by);
        let same = before
            .as_ref()
            .filter(|one| one.report.phase == report.phase);
        let entry = Entry {
            since: same.map_or(now, |one| one.since),
            buffered_since: (report.buffered_len > 0).then(|| buffered_since.unwrap_or(now)),
            last: before.and_then(|one| one.last),
            report,
        };
        self.balancers.insert(entry.report.key.clone(), entry);
        buffering
    }

    /// Takes in what was done about a balancer.
    pub(super) fn note(&mut self, key: &BalancerKey, ended: &EndedOperation) {
        if let Some(entry) = self.balancers.get_mut(key) {
            entry.last = Some(Last {
                operation: ended.operation,
                status: ended.status(),
                duration: ended.duration,
                at: Instant::now(),
            });
        }
    }

    pub(super) fn report(&self, key: &BalancerKey) -> Option<&BalancerReport> {
        self.balancers.get(key).map(|one| &one.report)
    }

    pub(super) fn phases(&self) -> &BTreeMap<Phase, usize> {
        &self.phases
    }

    pub(super) fn buffered(&self) -> (usize, usize) {
        (self.buffered_endpoints, self.buffered_pods)
    }

    /// Some balancers behind a key, or only those that something waits for.
    pub(super) fn page(
        &self,
        after: Option<&BalancerKey>,
        len_max: usize,
        is_buffered: bool,
    ) -> SeenBalancers {
        let now = Instant::now();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.balancers.range((from, Bound::Unbounded));
        let mut wanted = all.filter(|(_, one)| !is_buffered || one.report.buffered_len > 0);
        let shown: Vec<SeenBalancer> = wanted
            .by_ref()
            .take(len_max)
            .map(|(_, one)| one.seen(now))
            .collect();
        let last = shown.last().map(|one| one.report.key.clone());
        SeenBalancers {
            next: wanted.next().and(last),
            shown,
            total: if is_buffered {
                self.buffered_balancers
            } else {
                self.balancers.len()
            },
        }
    }

    fn count(&mut self, report: &BalancerReport, change: impl Fn(&mut usize, usize)) {
        change(self.phases.entry(report.phase).or_default(), 1);
        let sum = match report.key {
            BalancerKey::Service(_) => &mut self.buffered_endpoints,
            BalancerKey::Egress(_) => &mut self.buffered_pods,
        };
        change(sum, report.buffered_len);
        let is_buffered = usize::from(report.buffered_len > 0);
        change(&mut self.buffered_balancers, is_buffered);
    }
}

impl Entry {
    fn seen(&self, now: Instant) -> SeenBalancer {
        SeenBalancer {
            report: self.report.clone(),
            in_phase: now.duration_since(self.since),
            buffered_for: self.buffered_since.map(|since| now.duration_since(since)),
            last: self.last.map(|last| LastOperation {
                operation: last.operation,
                status: last.status,
                duration: last.duration,
                ago: now.duration_since(last.at),
            }),
        }
    }
}

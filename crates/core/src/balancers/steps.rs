//! Which steps there are to take, and when.

use std::time::Duration;

use super::{
    BalancerEnd, BalancerKey, BalancerStep, BalancerWork, Balancers, balancer::BalancerActivity,
};
use crate::{
    backoff::jitter_seed,
    fault::{Fault, FaultKind},
    tracker::{Deletion, Failure},
};

/// What has to be done.
impl Balancers {
    /// Work that may have something to do now, each once.
    pub fn take_work(&mut self) -> Vec<BalancerWork> {
        self.schedule.take()
    }

    /// The next step, which is carried out and completed.
    pub fn next_step(&mut self, work: &BalancerWork, now: Duration) -> Option<BalancerStep> {
        let is_due = self.schedule.is_due(work, now) && self.gate <= now;
        let step = match work {
            BalancerWork::Holdings => self.read_step(is_due, now),
            _ if !self.is_ready() => None,
            BalancerWork::Balancer(key) => self.balancer_step(key, is_due, now),
            BalancerWork::Addresses => self.address_step(is_due, now),
        };
        if step.is_none() {
            self.set_wake(work, now);
        }
        step
    }

    /// Takes in how a step ended.
    pub fn complete(&mut self, work: &BalancerWork, end: BalancerEnd, now: Duration) {
        self.schedule.push(work.clone());
        match (work, end) {
            (BalancerWork::Balancer(key), BalancerEnd::Ensured(result)) => {
                self.ensured(key, &result, now);
            }
            (BalancerWork::Balancer(key), BalancerEnd::Removed(result)) => {
                self.removed(key, result, now);
            }
            (BalancerWork::Addresses, BalancerEnd::Bound(outcomes)) => self.bound(outcomes, now),
            (BalancerWork::Holdings, BalancerEnd::Read(result)) => self.read(result, now),
            (work, end) => unreachable!("{end:?} is no end of a step of {work:?}"),
        }
    }

    /// When the next work has something to do by itself.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        self.schedule.next_wake()
    }

    /// The time has come for some work.
    pub fn wake(&mut self, now: Duration) {
        self.schedule.wake(now);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_synced && self.reading.is_read()
    }

    /// Nothing was begun before: now everything is looked at.
    pub(super) fn begin_if_ready(&mut self) {
        if self.is_ready() {
            let keys = self.parents.keys().cloned();
            keys.for_each(|key| self.schedule.push(BalancerWork::Balancer(key)));
            self.schedule.push(BalancerWork::Addresses);
        }
    }

    fn balancer_step(
        &mut self,
        key: &BalancerKey,
        is_due: bool,
        now: Duration,
    ) -> Option<BalancerStep> {
        let drained = self.standing.drained(key);
        let balancer = self.parents.get_mut(key)?;
        let activity = balancer.activity(is_due, drained);
        let has_step = matches!(
            activity,
            BalancerActivity::Absent | BalancerActivity::Outdated | BalancerActivity::Drained
        );
        if !has_step {
            balancer.queued_since = None;
            // It came right by itself: a read showed it, or what failed is no longer asked for.
            if activity == BalancerActivity::Serving && balancer.fault.take().is_some() {
                self.touch(key);
            }
            return None;
        }
        let since = *balancer.queued_since.get_or_insert(now);
        if self.running_len >= self.running_max {
            self.waiting.insert(key.clone());
            return None;
        }
        balancer.queued_since = None;
        balancer.queued_for = now.saturating_sub(since);
        let step = if activity == BalancerActivity::Drained {
            balancer.stands = false;
            balancer.applied = None;
            let why = Deletion::Drained(drained?);
            balancer.lifecycle.begin_deletion(why);
            BalancerStep::Remove(key.clone())
        } else {
            balancer.sent.clone_from(&balancer.digest);
            balancer.may_stand = true;
            balancer.lifecycle.begin();
            BalancerStep::Ensure {
                key: key.clone(),
                spec: balancer.spec.clone()?,
                previous: balancer.previous.clone(),
            }
        };
        debug_assert!(activity.allows(&step), "{step:?} in {activity:?}");
        self.running_len += 1;
        self.reading.disturb_balancer(key);
        self.touch(key);
        Some(step)
    }

    fn set_wake(&mut self, work: &BalancerWork, now: Duration) {
        let gate = (self.gate > now).then_some(self.gate);
        let retry = self.schedule.retry_at(work).map(|at| at.max(self.gate));
        match work {
            BalancerWork::Balancer(_) => {
                let at = retry.into_iter().chain(gate);
                self.schedule.set_wake(work, at, [], now);
            }
            BalancerWork::Addresses => {
                let refused: Vec<Duration> = self.addresses.retry_times().collect();
                let at = retry.into_iter().chain(gate).chain(refused);
                self.schedule.set_wake(work, at, [], now);
            }
            BalancerWork::Holdings => {
                let at = retry.into_iter().chain(gate).chain(self.reading.next());
                self.schedule.set_wake(work, at, [], now);
            }
        }
    }

    /// Work failed: it waits, and so does everything where the provider has too much to do.
    pub(super) fn fail(&mut self, work: &BalancerWork, fault: &Fault, now: Duration) {
        let failure = Failure {
            now,
            random: jitter_seed(format!("{work:?}").as_bytes()),
            retry_after: fault.retry_after,
        };
        self.schedule.fail(work, &self.times.retry, failure);
        if fault.kind == FaultKind::Throttled {
            let wait = fault.retry_after.unwrap_or_default();
            self.gate = self.gate.max(now.saturating_add(wait));
            self.running_max = (self.running_max / 2).max(1);
        }
    }
}

//! How steps of balancers end.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{BalancerKey, BalancerWork, Balancers, Frontage};
use crate::{
    fault::{Fault, FaultKind},
    tracker::Phase,
};

impl Balancers {
    pub(super) fn ensured(
        &mut self,
        key: &BalancerKey,
        result: &Result<Frontage, Fault>,
        now: Duration,
    ) {
        self.make_room(result.is_ok());
        self.reading.disturb_balancer(key);
        let Some(balancer) = self.parents.get_mut(key) else {
            return;
        };
        match result {
            Ok(frontage) => {
                balancer.frontage.clone_from(frontage);
                balancer.previous.clone_from(&frontage.addresses);
                balancer.applied = Some(balancer.sent.clone());
                balancer.stands = true;
                balancer.lifecycle.succeed();
            }
            Err(fault) => {
                // Of what was asked for something may have been done.
                if !matches!(fault.kind, FaultKind::Throttled | FaultKind::Unreachable) {
                    balancer.applied = None;
                }
                balancer.fail();
            }
        }
        let is_outdated = balancer.sent != balancer.digest;
        balancer.fault = result.as_ref().err().cloned();
        let is_wanted = balancer.lifecycle.is_wanted();
        let work = BalancerWork::Balancer(key.clone());
        match result {
            Ok(_) => self.schedule.succeed(&work),
            // What was refused is no longer what is asked for.
            Err(fault) if fault.kind.is_terminal() && (is_outdated || !is_wanted) => {
                self.schedule.succeed(&work);
            }
            Err(fault) if fault.kind.is_terminal() => self.schedule.park(&work),
            Err(fault) => self.fail(&work, fault, now),
        }
        self.reconsider_addresses(key);
        self.touch(key);
    }

    pub(super) fn removed(&mut self, key: &BalancerKey, result: Result<(), Fault>, now: Duration) {
        let is_gone = match &result {
            Ok(()) => true,
            Err(fault) => fault.kind == FaultKind::Missing,
        };
        self.make_room(is_gone);
        self.reading.disturb_balancer(key);
        let Some(balancer) = self.parents.get_mut(key) else {
            return;
        };
        let work = BalancerWork::Balancer(key.clone());
        if is_gone {
            balancer.vanish();
            balancer.fault = None;
            // Its addresses were gone before it.
            let _ended = balancer.lifecycle.finish_deletion();
            self.schedule.succeed(&work);
        } else if let Err(fault) = result {
            balancer.lifecycle.fail();
            balancer.fault = Some(fault.clone());
            // A deletion is never given up.
            self.fail(&work, &fault, now);
            if fault.kind == FaultKind::Conflict {
                // Addresses are bound to it that are not known here.
                self.read_soon();
            }
        }
        self.reconsider_addresses(key);
        self.touch(key);
    }

    /// A step of a balancer ended: another one may begin.
    fn make_room(&mut self, is_success: bool) {
        self.running_len = self.running_len.saturating_sub(1);
        if is_success && self.running_max < self.limits.balancers_max {
            self.running_max += 1;
        }
        for _ in self.running_len..self.running_max {
            let Some(key) = self.waiting.pop_first() else {
                break;
            };
            self.schedule.push(BalancerWork::Balancer(key));
        }
    }

    /// Whether addresses may be bound to a balancer may have changed.
    pub(super) fn reconsider_addresses(&mut self, key: &BalancerKey) {
        let owner = self.parents.get(key).and_then(|one| one.owner.as_ref());
        let owner = owner.filter(|owner| self.book.balancer(owner).as_ref() == Some(key));
        let mut touched: BTreeSet<IpAddr> = self.standing.children(key).copied().collect();
        if let Some(owner) = owner {
            touched.extend(self.book.addresses_of(owner));
        }
        self.desire_all(touched);
    }

    /// Whether a balancer is being taken away.
    pub(super) fn is_leaving(&self, key: &BalancerKey) -> bool {
        let phase = self.parents.get(key).map(|one| one.lifecycle.phase());
        phase == Some(Phase::DeletionPending)
    }
}

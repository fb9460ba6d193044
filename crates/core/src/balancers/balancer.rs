//! One balancer, what it is at, and to which step that leads.
//!
//! Of the rows below the first counts that holds.
//!
//! ```text
//! Unread      what the provider has, or what is asked for, is not known yet -
//! BackingOff  it failed and waits to be tried again                         -
//! Kept        its Service has a mistake: what is there stays                -
//! Absent      wanted and not there                                          Ensure
//! Opening     being made                                                    -
//! Outdated    there, and not as wanted                                      Ensure
//! Serving     there as wanted                                               -
//! Changing    being changed                                                 -
//! Draining    no longer wanted, and addresses are bound to it               -
//! Drained     no longer wanted, and no address is bound to it               Remove
//! Removing    being removed                                                 -
//! Gone        gone                                                          -
//! ```

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{BalancerSpec, BalancerStep, Frontage, GroupOwner, HeldBalancer};
use crate::{
    fault::Fault,
    tracker::{Drained, Lifecycle, Phase},
};

/// What a balancer is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BalancerActivity {
    Unread,
    BackingOff,
    Kept,
    Absent,
    Opening,
    Outdated,
    Serving,
    Changing,
    Draining,
    Drained,
    Removing,
    Gone,
}

/// Every activity, when it holds and to which step it leads; the diagram of this module is printed from it,
/// and every step of a balancer is held against it in tests.
pub(super) const ACTIVITIES: [(BalancerActivity, &str, &str); 12] = [
    (
        BalancerActivity::Unread,
        "what the provider has, or what is asked for, is not known yet",
        "-",
    ),
    (
        BalancerActivity::BackingOff,
        "it failed and waits to be tried again",
        "-",
    ),
    (
        BalancerActivity::Kept,
        "its Service has a mistake: what is there stays",
        "-",
    ),
    (BalancerActivity::Absent, "wanted and not there", "Ensure"),
    (BalancerActivity::Opening, "being made", "-"),
    (
        BalancerActivity::Outdated,
        "there, and not as wanted",
        "Ensure",
    ),
    (BalancerActivity::Serving, "there as wanted", "-"),
    (BalancerActivity::Changing, "being changed", "-"),
    (
        BalancerActivity::Draining,
        "no longer wanted, and addresses are bound to it",
        "-",
    ),
    (
        BalancerActivity::Drained,
        "no longer wanted, and no address is bound to it",
        "Remove",
    ),
    (BalancerActivity::Removing, "being removed", "-"),
    (BalancerActivity::Gone, "gone", "-"),
];

impl BalancerActivity {
    /// Whether the table has this step in the row of this activity.
    pub(super) fn allows(self, step: &BalancerStep) -> bool {
        let name = match step {
            BalancerStep::Ensure { .. } => "Ensure",
            BalancerStep::Remove(_) => "Remove",
            BalancerStep::Bind(_) | BalancerStep::Read => return false,
        };
        let mut rows = ACTIVITIES.iter();
        rows.any(|(one, _, allowed)| *one == self && *allowed == name)
    }
}

/// What is known of one balancer.
#[derive(Clone, Debug, Default)]
pub(super) struct Balancer {
    pub(super) lifecycle: Lifecycle,
    pub(super) owner: Option<GroupOwner>,
    pub(super) spec: Option<Arc<BalancerSpec>>,
    /// The digest of the spec.
    pub(super) digest: String,
    /// The digest of what is on its way.
    pub(super) sent: String,
    /// The digest of what stands, where that is known and whole.
    pub(super) applied: Option<String>,
    /// Addresses may be bound to it.
    pub(super) stands: bool,
    /// Something of it may be there, whole or not.
    pub(super) may_stand: bool,
    pub(super) frontage: Frontage,
    /// The addresses that it had when somebody last looked.
    pub(super) previous: Vec<IpAddr>,
    pub(super) fault: Option<Fault>,
    pub(super) is_orphan: bool,
    /// Since when a step of it waits for others to end.
    pub(super) queued_since: Option<Duration>,
    /// How long the step that was last begun had waited.
    pub(super) queued_for: Duration,
}

impl Balancer {
    /// Whether addresses may be bound to it: it is there and stays.
    pub(super) fn is_open(&self) -> bool {
        let is_there = matches!(
            self.lifecycle.phase(),
            Phase::Created | Phase::UpdateInProgress
        );
        is_there && self.stands && self.lifecycle.is_wanted() && self.spec.is_some()
    }

    /// Whether it is to stay as it is, since nobody knows what it is to be.
    pub(super) fn is_kept(&self) -> bool {
        self.spec.is_none() && self.lifecycle.is_wanted()
    }

    /// Whether it stands as its spec says.
    pub(super) fn is_programmed(&self) -> bool {
        self.stands && self.applied.as_ref() == Some(&self.digest)
    }

    /// What it is at; `is_due` says that it need not wait because it failed.
    pub(super) fn activity(&self, is_due: bool, drained: Option<Drained<'_>>) -> BalancerActivity {
        let activity = match self.lifecycle.phase() {
            Phase::CreationInProgress => return BalancerActivity::Opening,
            Phase::UpdateInProgress => return BalancerActivity::Changing,
            Phase::DeletionInProgress => return BalancerActivity::Removing,
            Phase::Gone => return BalancerActivity::Gone,
            Phase::NotStarted | Phase::Created if self.spec.is_none() => BalancerActivity::Kept,
            Phase::NotStarted => BalancerActivity::Absent,
            Phase::Created if self.is_programmed() => BalancerActivity::Serving,
            Phase::Created => BalancerActivity::Outdated,
            Phase::DeletionPending if drained.is_some() => BalancerActivity::Drained,
            Phase::DeletionPending => BalancerActivity::Draining,
        };
        if is_due {
            activity
        } else {
            BalancerActivity::BackingOff
        }
    }

    /// It is no longer wanted. What may be there of one that was never whole is removed as well.
    pub(super) fn retire(&mut self, is_read: bool) {
        let may_stand = self.may_stand || !is_read;
        if self.lifecycle.phase() == Phase::NotStarted && may_stand {
            self.lifecycle.retire_remnant();
        } else {
            self.lifecycle.retire();
        }
    }

    /// What was begun failed. What a creation left behind is removed where nobody wants it any more.
    pub(super) fn fail(&mut self) {
        let is_creation = self.lifecycle.phase() == Phase::CreationInProgress;
        if is_creation && !self.lifecycle.is_wanted() {
            self.lifecycle.want();
            self.lifecycle.fail();
            self.lifecycle.retire_remnant();
        } else {
            self.lifecycle.fail();
        }
    }

    /// It was seen, whether somebody made it in this process or not.
    pub(super) fn adopt(&mut self, held: &HeldBalancer) {
        self.may_stand = true;
        if self.lifecycle.phase() == Phase::NotStarted {
            self.lifecycle.begin();
            self.lifecycle.succeed();
        }
        if self.lifecycle.phase() == Phase::Created {
            let HeldBalancer { frontage, digest } = held;
            self.stands = true;
            self.applied.clone_from(digest);
            self.frontage.clone_from(frontage);
            if !frontage.addresses.is_empty() {
                self.previous.clone_from(&frontage.addresses);
            }
        }
    }

    /// Nothing of it is there.
    pub(super) fn vanish(&mut self) {
        self.stands = false;
        self.may_stand = false;
        self.applied = None;
        self.frontage = Frontage::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::BalancerKey;
    use super::*;

    #[test]
    fn the_diagram_of_balancers_is_the_table() {
        let source = include_str!("balancer.rs");
        let from = source.lines().skip_while(|line| *line != "//! ```text");
        let drawn: Vec<&str> = from
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(str::trim_end)
            .collect();
        let printed = ACTIVITIES.map(|(activity, when, step)| {
            format!("//! {:<11} {when:<61} {step}", format!("{activity:?}"))
        });
        assert_eq!(drawn, printed);
    }

    #[test]
    fn steps_of_balancers_are_held_against_the_table() {
        let remove = BalancerStep::Remove(BalancerKey::Egress("out".into()));
        assert!(BalancerActivity::Drained.allows(&remove));
        assert!(!BalancerActivity::Draining.allows(&remove));
        assert!(!BalancerActivity::Absent.allows(&remove));
        assert!(!BalancerActivity::Serving.allows(&BalancerStep::Read));
    }
}

//! The guard: policies that filter a plan before it is carried out.
//!
//! A policy judges one change at a time and never adds one, so whatever a policy does, less happens than was
//! planned. What holds for all zones stands here; policies that look at what a zone has been through
//! (removals of late, what its author let through) stand with it, in [`crate::zones`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::plan::{Expect, Holder, Loss, Plan, PlannedChange};

/// A filter over plans.
pub trait Policy {
    /// What is to become of one change.
    fn judge(&mut self, planned: &PlannedChange) -> Judgement;
}

/// What a policy says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It may be carried out.
    Pass,
    /// The set is not ours: it stays as it is until that changes.
    Refuse,
    /// It waits until its author says that it is meant.
    Hold(Excess),
    /// It waits until it is written down where a restart finds it, or until it is known by whose word it goes.
    Wait,
    /// It waits until this time.
    Defer(Duration),
    /// The zone's [`WritePolicy`] does not have such changes.
    Leave,
}

/// Why a removal is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Too much would go at once, or what the zone cannot be without.
    TooMuch,
    /// Something else takes its object along.
    Along,
}

/// A change that a policy took out of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The change.
    pub planned: PlannedChange,
    /// What the policy said; never [`Judgement::Pass`].
    pub judgement: Judgement,
}

impl Plan {
    /// The changes that a policy lets pass. The others join those that are held back already.
    #[must_use]
    pub fn filter(self, policy: &mut dyn Policy, held_back: &mut Vec<HeldBack>) -> Self {
        let zone = self.zone().clone();
        let mut passed = Vec::with_capacity(self.len());
        for planned in self.into_planned() {
            let judgement = policy.judge(&planned);
            if judgement == Judgement::Pass {
                passed.push(planned);
            } else {
                held_back.push(HeldBack { planned, judgement });
            }
        }
        Self::new(zone, passed)
    }
}

/// Ownership: what others wrote is not touched.
#[derive(Clone, Copy, Debug)]
pub struct OwnedOnly;

impl Policy for OwnedOnly {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        match planned.holder {
            Holder::Ours => Judgement::Pass,
            Holder::Foreign => Judgement::Refuse,
        }
    }
}

/// Which changes Bindery makes in a zone at all, by the names that users of external-dns know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// All: the zone has what is declared.
    #[default]
    Sync,
    /// Sets come and change, and none goes.
    UpsertOnly,
    /// Sets come. What exists stays as it is.
    CreateOnly,
}

impl Policy for WritePolicy {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let passes = match self {
            Self::Sync => true,
            Self::UpsertOnly => planned.loss <= Loss::Values,
            Self::CreateOnly => planned.change.expect == Expect::Absent,
        };
        if passes {
            Judgement::Pass
        } else {
            Judgement::Leave
        }
    }
}

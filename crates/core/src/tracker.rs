//! The lifecycle of parents and their children: zones and record sets today, load balancers and
//! their addresses later.
//!
//! A parent that does not exist yet buffers its children; a parent that is no longer wanted goes
//! only when its children are gone.
//!
//! ```text
//! NotStarted         --begin-->   CreationInProgress
//! NotStarted         --retire-->  Gone
//! CreationInProgress --done-->    Created
//! CreationInProgress --failed-->  NotStarted
//! Created            --begin-->   UpdateInProgress
//! Created            --retire-->  DeletionPending
//! Created            --lost-->    NotStarted
//! UpdateInProgress   --done-->    Created
//! UpdateInProgress   --failed-->  Created
//! DeletionPending    --revive-->  Created
//! DeletionPending    --begin-->   DeletionInProgress
//! DeletionInProgress --done-->    Gone
//! DeletionInProgress --failed-->  DeletionPending
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::compact::compact;

/// Where a parent is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Known, but nothing was done yet; children are buffered.
    NotStarted,
    /// Being created or opened.
    CreationInProgress,
    /// It exists, and its actual children are known.
    Created,
    /// A batch of its children is on its way.
    UpdateInProgress,
    /// No longer wanted; its children are being taken away.
    DeletionPending,
    /// Being deleted.
    DeletionInProgress,
    /// It is gone.
    Gone,
}

/// What moves a parent from one phase to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Work of the phase starts.
    Begin,
    /// The work succeeded.
    Done,
    /// The work failed and will be tried again.
    Failed,
    /// The parent is no longer wanted.
    Retire,
    /// The parent is wanted again.
    Revive,
    /// The parent vanished from the world.
    Lost,
}

/// Every transition there is; the diagram of this module is printed from it.
pub const TRANSITIONS: [(Phase, Signal, Phase); 13] = [
    (Phase::NotStarted, Signal::Begin, Phase::CreationInProgress),
    (Phase::NotStarted, Signal::Retire, Phase::Gone),
    (Phase::CreationInProgress, Signal::Done, Phase::Created),
    (Phase::CreationInProgress, Signal::Failed, Phase::NotStarted),
    (Phase::Created, Signal::Begin, Phase::UpdateInProgress),
    (Phase::Created, Signal::Retire, Phase::DeletionPending),
    (Phase::Created, Signal::Lost, Phase::NotStarted),
    (Phase::UpdateInProgress, Signal::Done, Phase::Created),
    (Phase::UpdateInProgress, Signal::Failed, Phase::Created),
    (Phase::DeletionPending, Signal::Revive, Phase::Created),
    (
        Phase::DeletionPending,
        Signal::Begin,
        Phase::DeletionInProgress,
    ),
    (Phase::DeletionInProgress, Signal::Done, Phase::Gone),
    (
        Phase::DeletionInProgress,
        Signal::Failed,
        Phase::DeletionPending,
    ),
];

impl Phase {
    /// The phase after `signal`, or `None` where the signal means nothing here.
    #[must_use]
    pub fn after(self, signal: Signal) -> Option<Self> {
        TRANSITIONS
            .iter()
            .find(|(from, by, _)| (*from, *by) == (self, signal))
            .map(|(_, _, to)| *to)
    }
}

/// One parent with its children: what is desired, what is there, and what has to be looked at.
#[derive(Clone, Debug)]
pub struct Parent<C, V> {
    phase: Phase,
    retired: bool,
    desired: BTreeMap<C, V>,
    actual: BTreeMap<C, V>,
    dirty: BTreeSet<C>,
    busy: BTreeSet<C>,
}

impl<C: Ord + Clone, V> Default for Parent<C, V> {
    fn default() -> Self {
        Self {
            phase: Phase::NotStarted,
            retired: false,
            desired: BTreeMap::new(),
            actual: BTreeMap::new(),
            dirty: BTreeSet::new(),
            busy: BTreeSet::new(),
        }
    }
}

impl<C: Ord + Clone, V> Parent<C, V> {
    /// Where the parent is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether somebody still wants the parent.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.retired
    }

    /// Whether the parent exists, so that its actual children are known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(
            self.phase,
            Phase::Created | Phase::UpdateInProgress | Phase::DeletionPending
        )
    }

    /// Says that the parent is wanted (again).
    pub fn want(&mut self) {
        self.retired = false;
        match self.phase {
            Phase::DeletionPending => self.step(Signal::Revive),
            Phase::Gone => {
                *self = Self {
                    desired: std::mem::take(&mut self.desired),
                    ..Self::default()
                };
            }
            Phase::NotStarted
            | Phase::CreationInProgress
            | Phase::Created
            | Phase::UpdateInProgress
            | Phase::DeletionInProgress => {}
        }
    }

    /// Says that the parent is no longer wanted. Work in flight is finished first.
    pub fn retire(&mut self) {
        self.retired = true;
        if matches!(self.phase, Phase::NotStarted | Phase::Created) {
            self.step(Signal::Retire);
        }
    }

    /// Begins the work of the present phase.
    pub fn begin(&mut self) {
        self.step(Signal::Begin);
    }

    /// The work of the present phase succeeded.
    pub fn done(&mut self) {
        self.step(Signal::Done);
        self.settle();
    }

    /// The work of the present phase failed; it will begin again.
    pub fn failed(&mut self) {
        self.step(Signal::Failed);
        self.settle();
    }

    /// The parent vanished from the world, and its children with it; it has to be created again.
    pub fn lose(&mut self) {
        self.actual.clear();
        self.step(Signal::Lost);
        self.settle();
    }

    /// A child's desired value; `None` wishes it away.
    pub fn desire(&mut self, child: C, value: Option<V>) {
        match value {
            Some(value) => self.desired.insert(child.clone(), value),
            None => self.desired.remove(&child),
        };
        self.dirty.insert(child);
    }

    /// A child's value as it was seen; `None` where it is not there.
    pub fn observe(&mut self, child: C, value: Option<V>) {
        match value {
            Some(value) => self.actual.insert(child, value),
            None => self.actual.remove(&child),
        };
    }

    /// All children as they were seen; whatever is desired, was there or is there is looked at again.
    pub fn observe_all(&mut self, actual: BTreeMap<C, V>) {
        self.dirty
            .extend(self.actual.keys().chain(actual.keys()).cloned());
        self.dirty.extend(self.desired.keys().cloned());
        self.actual = actual;
    }

    /// Puts what is desired into little room.
    pub fn compact(&mut self) {
        compact(&mut self.desired);
    }

    /// A child's desired value.
    pub fn desired(&self, child: &C) -> Option<&V> {
        self.desired.get(child)
    }

    /// A child's value as last seen.
    pub fn actual(&self, child: &C) -> Option<&V> {
        self.actual.get(child)
    }

    /// All children as last seen.
    #[must_use]
    pub fn children(&self) -> &BTreeMap<C, V> {
        &self.actual
    }

    /// All desired children.
    #[must_use]
    pub fn wanted_children(&self) -> &BTreeMap<C, V> {
        &self.desired
    }

    /// Marks children to be looked at.
    pub fn mark_all(&mut self, children: impl IntoIterator<Item = C>) {
        self.dirty.extend(children);
    }

    /// Marks a child to be looked at.
    pub fn mark(&mut self, child: C) {
        self.dirty.insert(child);
    }

    /// The next children to look at, in order: dirty and not in flight.
    pub fn pending(&self) -> impl Iterator<Item = &C> {
        self.dirty.difference(&self.busy)
    }

    /// A child was looked at and needs nothing.
    pub fn clear(&mut self, child: &C) {
        self.dirty.remove(child);
    }

    /// A child is on its way and must not be planned again until [`Self::land`].
    pub fn send(&mut self, child: &C) {
        self.dirty.remove(child);
        self.busy.insert(child.clone());
    }

    /// A child in flight came back and is looked at again.
    pub fn complete(&mut self, child: &C) {
        if self.busy.remove(child) {
            self.dirty.insert(child.clone());
        }
    }

    /// Whether a child waits or is on its way.
    pub fn is_unsettled(&self, child: &C) -> bool {
        self.dirty.contains(child) || self.busy.contains(child)
    }

    /// Whether any child waits or is on its way.
    #[must_use]
    pub fn has_unsettled(&self) -> bool {
        !self.dirty.is_empty() || !self.busy.is_empty()
    }

    /// Whether any child is on its way.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        !self.busy.is_empty()
    }

    fn step(&mut self, signal: Signal) {
        self.phase = self
            .phase
            .after(signal)
            .unwrap_or_else(|| unreachable!("{signal:?} means nothing in {:?}", self.phase));
    }

    /// Applies a wish that changed while work was in flight.
    fn settle(&mut self) {
        match (self.phase, self.retired) {
            (Phase::NotStarted | Phase::Created, true) => self.step(Signal::Retire),
            (Phase::DeletionPending, false) => self.step(Signal::Revive),
            (Phase::Gone, false) => self.want(),
            (
                Phase::NotStarted
                | Phase::CreationInProgress
                | Phase::Created
                | Phase::UpdateInProgress
                | Phase::DeletionPending
                | Phase::DeletionInProgress
                | Phase::Gone,
                _,
            ) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagram_is_the_table() {
        let source = include_str!("tracker.rs");
        for (from, signal, to) in TRANSITIONS {
            let signal = format!("--{}-->", format!("{signal:?}").to_lowercase());
            let line = format!("//! {:<18} {signal:<12} {to:?}\n", format!("{from:?}"));
            assert!(source.contains(&line), "missing in the diagram: {line}");
        }
    }

    #[test]
    fn children_of_a_parent_that_does_not_exist_wait() {
        let mut parent = Parent::<&str, u8>::default();
        parent.desire("a", Some(1));
        assert_eq!(parent.phase(), Phase::NotStarted);
        parent.begin();
        parent.done();
        assert_eq!(parent.pending().collect::<Vec<_>>(), [&"a"]);
    }

    #[test]
    fn retiring_during_an_update_takes_effect_when_it_lands() {
        let mut parent = Parent::<&str, u8>::default();
        parent.begin();
        parent.done();
        parent.begin();
        parent.retire();
        assert_eq!(parent.phase(), Phase::UpdateInProgress);
        parent.failed();
        assert_eq!(parent.phase(), Phase::DeletionPending);
        parent.want();
        assert_eq!(parent.phase(), Phase::Created);
    }

    #[test]
    fn a_child_in_flight_is_not_planned_twice() {
        let mut parent = Parent::<&str, u8>::default();
        parent.desire("a", Some(1));
        parent.send(&"a");
        parent.desire("a", Some(2));
        assert_eq!(parent.pending().count(), 0);
        parent.complete(&"a");
        assert_eq!(parent.pending().collect::<Vec<_>>(), [&"a"]);
    }

    #[test]
    fn a_child_that_waits_or_is_on_its_way_is_unsettled() {
        let mut parent = Parent::<&str, u8>::default();
        assert!(!parent.has_unsettled() && !parent.is_unsettled(&"a"));
        parent.mark("a");
        assert!(parent.has_unsettled() && parent.is_unsettled(&"a"));
        parent.send(&"a");
        assert!(parent.has_unsettled() && parent.is_unsettled(&"a"));
        assert!(parent.has_in_flight() && !parent.is_unsettled(&"b"));
        parent.complete(&"a");
        parent.clear(&"a");
        assert!(!parent.has_unsettled() && !parent.is_unsettled(&"a"));
    }

    #[test]
    fn a_parent_that_is_wanted_again_after_it_is_gone_keeps_its_wishes() {
        let mut parent = Parent::<&str, u8>::default();
        parent.desire("a", Some(1));
        assert!(parent.is_wanted());
        parent.retire();
        assert_eq!((parent.phase(), parent.is_wanted()), (Phase::Gone, false));
        parent.want();
        assert_eq!(parent.phase(), Phase::NotStarted);
        assert_eq!(parent.desired(&"a"), Some(&1));
    }
}

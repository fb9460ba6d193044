//! The children of one parent: what is desired, what is there, and what has to be done about it.
//!
//! A child that may need something is *dirty*. Looking at it either settles it, sends it, or quarantines
//! it. One that was sent is in flight until it was read back, and is then looked at once more: that look
//! finds out whether it is as desired, so nobody has to be told twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Drained, ParentEnded};
use crate::{compact::compact, fault::Fault};

/// A child on its way.
#[derive(Clone, Debug)]
pub struct InFlight<V> {
    /// What was desired of it when it was sent; `None` if it was to go.
    pub desired: Option<V>,
    /// The answer was lost, so it may or may not have been applied.
    pub lost: Option<Fault>,
}

/// A child that could not be brought to its desired state.
#[derive(Clone, Debug)]
pub struct Quarantined<W> {
    /// How often it was tried in a row.
    attempts: u32,
    /// When it is tried again; [`Duration::MAX`] where only a change helps.
    not_before: Duration,
    /// Why it is here.
    pub why: W,
}

/// All children of one parent, by key: their values `V`, and why some are quarantined `W`.
///
/// Guarantees: a child in flight is never pending; a child that is desired and stands differently is
/// pending, in flight or quarantined, or its owner said [`Self::defer`].
#[derive(Clone, Debug)]
pub struct Children<C, V, W> {
    desired: BTreeMap<C, V>,
    /// What stands there, as last seen.
    actual: BTreeMap<C, V>,
    /// To be looked at.
    dirty: BTreeSet<C>,
    /// Sent and not yet read back.
    in_flight: BTreeMap<C, InFlight<V>>,
    /// Sent, and waiting to be read back; all of them are in flight.
    to_verify: Vec<C>,
    quarantined: BTreeMap<C, Quarantined<W>>,
    /// Sent as they are desired, read back, and found as they had stood; and why, as far as is known.
    no_effect: BTreeMap<C, Fault>,
}

impl<C, V, W> Default for Children<C, V, W> {
    fn default() -> Self {
        Self {
            desired: BTreeMap::new(),
            actual: BTreeMap::new(),
            dirty: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            to_verify: Vec::new(),
            quarantined: BTreeMap::new(),
            no_effect: BTreeMap::new(),
        }
    }
}

/// What is desired and what is there.
impl<C: Ord + Clone, V: Clone + PartialEq, W> Children<C, V, W> {
    /// Takes in a child's desired value; `None` wishes it away. What held it up before is forgotten.
    pub fn desire(&mut self, child: C, value: Option<V>) {
        match value {
            Some(value) => self.desired.insert(child.clone(), value),
            None => self.desired.remove(&child),
        };
        self.reconsider(child);
    }

    /// Takes in a child's value as it was seen; `None` where it is not there.
    pub fn observe(&mut self, child: C, value: Option<V>) {
        let desired = self.desired.get(&child);
        if desired.is_some() && desired != value.as_ref() {
            self.dirty.insert(child.clone());
        }
        match value {
            Some(value) => self.actual.insert(child, value),
            None => self.actual.remove(&child),
        };
    }

    /// Takes in all children as they were seen. Whatever is desired, was there or is there is looked at
    /// again, and nothing stays quarantined.
    pub fn observe_all(&mut self, actual: BTreeMap<C, V>) {
        self.quarantined.clear();
        self.dirty
            .extend(self.actual.keys().chain(actual.keys()).cloned());
        self.dirty.extend(self.desired.keys().cloned());
        self.actual = actual;
    }

    /// The parent ended, and everything below it: only what is desired or marked is kept, and looked at
    /// again when the parent is there again.
    pub fn restart(&mut self, _: ParentEnded) {
        let desired = std::mem::take(&mut self.desired);
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.extend(desired.keys().cloned());
        *self = Self {
            desired,
            dirty,
            ..Self::default()
        };
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

    /// All desired children.
    #[must_use]
    pub fn all_desired(&self) -> &BTreeMap<C, V> {
        &self.desired
    }

    /// All children as last seen.
    #[must_use]
    pub fn all_actual(&self) -> &BTreeMap<C, V> {
        &self.actual
    }

    /// Evidence that nothing is desired any more and that nothing has to be done. What others keep below
    /// the parent is no child of ours.
    #[must_use]
    pub fn drained(&self) -> Option<Drained<'_>> {
        let is_drained =
            self.desired.is_empty() && !self.has_unsettled() && self.quarantined.is_empty();
        is_drained.then(Drained::seen)
    }
}

/// What has to be done.
impl<C: Ord + Clone, V: Clone + PartialEq, W> Children<C, V, W> {
    /// Marks a child to be looked at.
    pub fn mark(&mut self, child: C) {
        self.dirty.insert(child);
    }

    /// Marks children to be looked at.
    pub fn mark_all(&mut self, children: impl IntoIterator<Item = C>) {
        self.dirty.extend(children);
    }

    /// Looks at a child again as if it had never failed.
    pub fn reconsider(&mut self, child: C) {
        self.quarantined.remove(&child);
        self.no_effect.remove(&child);
        self.dirty.insert(child);
    }

    /// The next children to look at, in order: dirty and not in flight.
    pub fn pending(&self) -> impl Iterator<Item = &C> {
        let dirty = self.dirty.iter();
        dirty.filter(|child| !self.in_flight.contains_key(*child))
    }

    /// A child was looked at and needs nothing.
    pub fn settle(&mut self, child: &C) {
        self.dirty.remove(child);
        self.quarantined.remove(child);
        self.no_effect.remove(child);
    }

    /// A child was looked at and waits for something else, whose end marks it again: the caller sees to
    /// that.
    pub fn defer(&mut self, child: &C) {
        self.dirty.remove(child);
    }

    /// Whether a child waits or is on its way.
    pub fn is_unsettled(&self, child: &C) -> bool {
        self.dirty.contains(child) || self.in_flight.contains_key(child)
    }

    /// Whether any child waits or is on its way.
    #[must_use]
    pub fn has_unsettled(&self) -> bool {
        !self.dirty.is_empty() || !self.in_flight.is_empty()
    }
}

/// What is on its way.
impl<C: Ord + Clone, V: Clone + PartialEq, W> Children<C, V, W> {
    /// A child is on its way and is not planned again until [`Self::complete`] or [`Self::land`].
    pub fn send(&mut self, child: &C) {
        self.dirty.remove(child);
        let sent = InFlight {
            desired: self.desired.get(child).cloned(),
            lost: None,
        };
        self.in_flight.insert(child.clone(), sent);
    }

    /// The answer for a child in flight was lost: what stands there tells.
    pub fn lose_answer(&mut self, child: &C, fault: &Fault) {
        if let Some(sent) = self.in_flight.get_mut(child) {
            sent.lost = Some(fault.clone());
        }
    }

    /// Children in flight wait to be read back.
    pub fn queue_to_verify(&mut self, children: impl IntoIterator<Item = C>) {
        self.to_verify.extend(children);
    }

    /// How many children wait to be read back.
    #[must_use]
    pub fn to_verify_len(&self) -> usize {
        self.to_verify.len()
    }

    /// The children that wait to be read back, which the caller does now.
    pub fn take_to_verify(&mut self) -> Vec<C> {
        std::mem::take(&mut self.to_verify)
    }

    /// A child in flight came back and is looked at again.
    pub fn complete(&mut self, child: &C) -> Option<InFlight<V>> {
        let sent = self.in_flight.remove(child)?;
        self.dirty.insert(child.clone());
        Some(sent)
    }

    /// A child came back, and what stands there was observed; `before` stood there before. Where that is
    /// the same although the wish is, it is noted that sending had no effect, and why.
    pub fn land(&mut self, child: &C, before: Option<&V>, why: impl FnOnce(&C) -> Fault) {
        let has_moved = before != self.actual.get(child);
        if let Some(InFlight { desired, lost }) = self.complete(child)
            && !has_moved
            && desired.as_ref() == self.desired.get(child)
        {
            let fault = lost.unwrap_or_else(|| why(child));
            self.no_effect.insert(child.clone(), fault);
        }
    }

    /// Forgets that anything is on its way; all of it is looked at again.
    pub fn recall(&mut self) -> BTreeMap<C, InFlight<V>> {
        self.to_verify.clear();
        self.dirty.extend(self.in_flight.keys().cloned());
        std::mem::take(&mut self.in_flight)
    }

    /// Why sending a child as it is desired had no effect, if it had none.
    pub fn no_effect(&self, child: &C) -> Option<&Fault> {
        self.no_effect.get(child)
    }

    /// The children on their way.
    #[must_use]
    pub fn in_flight(&self) -> &BTreeMap<C, InFlight<V>> {
        &self.in_flight
    }

    /// Whether any child is on its way.
    #[must_use]
    pub fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }
}

/// What failed.
impl<C: Ord + Clone, V: Clone + PartialEq, W> Children<C, V, W> {
    /// A child cannot be brought to its desired state. It is tried again at the time that `retry` gives for
    /// the number of attempts; [`Duration::MAX`] is for children that only a change helps.
    pub fn quarantine(&mut self, child: &C, why: W, retry: impl FnOnce(u32) -> Duration) {
        self.defer(child);
        self.no_effect.remove(child);
        let attempts = self.quarantined.get(child).map_or(0, |one| one.attempts) + 1;
        let quarantined = Quarantined {
            attempts,
            not_before: retry(attempts),
            why,
        };
        self.quarantined.insert(child.clone(), quarantined);
    }

    /// A child waits until then; that is no failure of its own and does not count as an attempt.
    pub fn quarantine_until(&mut self, child: &C, why: W, not_before: Duration) {
        self.defer(child);
        let quarantined = Quarantined {
            attempts: 0,
            not_before,
            why,
        };
        self.quarantined.insert(child.clone(), quarantined);
    }

    /// Quarantined children whose time has come are looked at again. Their attempts still count.
    pub fn retry_due(&mut self, now: Duration) {
        for (child, quarantined) in &mut self.quarantined {
            if quarantined.not_before <= now {
                quarantined.not_before = Duration::MAX;
                self.dirty.insert(child.clone());
            }
        }
    }

    /// When quarantined children are tried again by themselves.
    pub fn retry_times(&self) -> impl Iterator<Item = Duration> {
        let times = self.quarantined.values().map(|one| one.not_before);
        times.filter(|at| *at < Duration::MAX)
    }

    /// A child that could not be brought to its desired state.
    pub fn quarantined(&self, child: &C) -> Option<&Quarantined<W>> {
        self.quarantined.get(child)
    }
}

#[cfg(test)]
mod tests;

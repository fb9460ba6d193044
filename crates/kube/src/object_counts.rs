//! How many objects are in which state.

use std::collections::BTreeMap;

use bindery_core::{Kind, Reason};

use crate::state::State;

/// The state of an object as a person sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectState {
    /// Its kind.
    pub kind: Kind,
    /// Whether it is Ready, or Accepted and Programmed; `None` while nothing is known.
    pub good: Option<bool>,
    /// Why.
    pub reason: Option<Reason>,
}

/// Counts all objects by their states.
pub(crate) fn object_counts(state: &State) -> BTreeMap<ObjectState, usize> {
    let mut object_counts = BTreeMap::new();
    for id in state.catalog.ids() {
        let progress = state.progress.get(id);
        let main = progress.and_then(|progress| progress.main_condition(id.kind));
        let one = ObjectState {
            kind: id.kind,
            good: main.map(|main| main.good),
            reason: main.map(|main| main.reason),
        };
        *object_counts.entry(one).or_default() += 1;
    }
    object_counts
}

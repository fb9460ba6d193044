//! How many objects are in which state.

use std::collections::BTreeMap;

use bindery_core::{Kind, Reason};

use crate::state::State;

/// The state of an object as a person sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// Its kind.
    pub kind: Kind,
    /// Whether it is Ready, or Accepted and Programmed; `None` while nothing is known.
    pub good: Option<bool>,
    /// Why.
    pub reason: Option<Reason>,
}

/// Counts all objects by their states.
pub(crate) fn tally(state: &State) -> BTreeMap<Standing, usize> {
    let mut tally = BTreeMap::new();
    for id in state.catalog.ids() {
        let progress = state.progress.get(id);
        let shown = progress.and_then(|progress| progress.says(id.kind));
        let standing = Standing {
            kind: id.kind,
            good: shown.map(|shown| shown.good),
            reason: shown.map(|shown| shown.reason),
        };
        *tally.entry(standing).or_default() += 1;
    }
    tally
}

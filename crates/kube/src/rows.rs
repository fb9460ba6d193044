//! A picture of all objects for people to look at.

use bindery_core::{ObjectRef, Reason};

use crate::state::State;

/// One object as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The object.
    pub object: ObjectRef,
    /// The name that it declares, of a zone or a record.
    pub name: Option<String>,
    /// The zone objects that it is in.
    pub zones: Vec<ObjectRef>,
    /// Whether it is Ready, or Accepted and Programmed; `None` while nothing is known.
    pub good: Option<bool>,
    /// Why.
    pub reason: Option<Reason>,
}

/// All objects, records and endpoints first, zones last.
pub(crate) fn rows(state: &State) -> Vec<Row> {
    let rows = state.catalog.ids().map(|id| {
        let progress = state.progress.get(id);
        let shown = progress.and_then(|progress| progress.shown);
        let zones = progress.map_or(&[][..], |progress| progress.zones.as_slice());
        let zone_name = || Some(state.catalog.zone(id)?.name?.to_string());
        Row {
            object: (**id).clone(),
            name: state
                .catalog
                .record_name(id)
                .map(str::to_owned)
                .or_else(zone_name),
            zones: zones.iter().map(|zone| (**zone).clone()).collect(),
            good: shown.map(|shown| shown.good),
            reason: shown.map(|shown| shown.reason),
        }
    });
    rows.collect()
}

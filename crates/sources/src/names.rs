//! Names in the order of the tree, so that everything under a zone stands together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bindery_core::{Id, Name};

/// Which objects speak of which names.
#[derive(Debug, Default)]
pub(crate) struct NameIndex(BTreeMap<Box<[u8]>, BTreeSet<Id>>);

impl NameIndex {
    /// Enters a name of an object.
    pub(crate) fn insert(&mut self, name: &Name, id: &Id) {
        self.0.entry(path(name)).or_default().insert(Id::clone(id));
    }

    /// Takes a name of an object out.
    pub(crate) fn remove(&mut self, name: &Name, id: &Id) {
        let path = path(name);
        if let Some(ids) = self.0.get_mut(&path) {
            ids.remove(id);
            if ids.is_empty() {
                self.0.remove(&path);
            }
        }
    }

    /// The objects that speak of a name at or under `zone`.
    pub(crate) fn under(&self, zone: &Name) -> impl Iterator<Item = &Id> {
        let zone = path(zone);
        let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(&zone), Bound::Unbounded);
        let range = self.0.range::<[u8], _>(from);
        range
            .take_while(move |(path, _)| path.starts_with(&zone))
            .flat_map(|(_, ids)| ids)
    }
}

/// The labels from the root down, each with its length before it: the path of a zone is a prefix of
/// the paths of all names under it.
fn path(name: &Name) -> Box<[u8]> {
    let mut labels: Vec<&[u8]> = name.labels().collect();
    labels.reverse();
    let mut path = Vec::with_capacity(name.as_wire().len());
    for label in labels {
        path.extend(u8::try_from(label.len()));
        path.extend_from_slice(label);
    }
    path.into()
}

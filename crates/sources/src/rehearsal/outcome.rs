//! What a rehearsal found, zone by zone.

use std::collections::BTreeMap;

use bindery_core::{Id, Record, ZoneKey};

/// What a rehearsal found.
#[derive(Debug, Default)]
pub struct Rehearsed {
    /// By zone.
    pub zones: BTreeMap<ZoneKey, ZoneRehearsal>,
    /// Objects that are in no zone, and zones that cannot be served.
    pub no_zone: Vec<Obstacle>,
}

/// What would become of one zone.
#[derive(Clone, Debug, Default)]
pub struct ZoneRehearsal {
    /// Records that would go and come, in the order of the writes.
    pub changes: Vec<RecordChange>,
    /// Objects that would have to record first what they own.
    pub recordings: Vec<Recording>,
    /// What would not be written.
    pub refusals: Vec<Obstacle>,
}

/// A record that would come or go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// It comes.
    Add(Record),
    /// It goes.
    Remove(Record),
}

/// An object that has to record ownership of records before they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The object.
    pub object: Id,
    /// The records that it does not own yet.
    pub records: Vec<Record>,
}

/// An object of which something would not be written, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The object.
    pub object: Id,
    /// Why, for its author.
    pub message: String,
}

//! Claims: what one object asks of DNS, set by set.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    name::Name,
    object::Id,
    record::{Record, RecordData, RecordKey},
};

/// One object's wish for one record set in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The zone, by its apex name.
    pub zone: Name,
    /// The record set.
    pub key: RecordKey,
    /// The TTL asked for; where several claims merge, the lowest wins.
    pub ttl: u32,
    /// The values asked for; never empty.
    pub data: Arc<[RecordData]>,
    /// Where in the object the wish stands, for messages (`spec`, `spec.endpoints[3]`).
    pub field: Arc<str>,
}

/// Whether an object may take over a record set that stands in the zone already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// A set that we did not write stays as it is and the claim waits.
    #[default]
    Refuse,
    /// The author said that the set is to be taken over.
    Take,
}

/// Everything one object asks for, at one generation, and what it may have in DNS already.
///
/// Assumptions: the object carries, durably, every line of `published` and every line that the
/// claims will write, so that after a crash we still know what is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The object.
    pub owner: Id,
    /// The generation of the object that was read.
    pub generation: i64,
    /// A number of the declarer's choice, given back in the receipt, so that a receipt of an earlier
    /// declaration is not taken for one of this.
    pub revision: u64,
    /// When the object was created, in seconds; the earlier object wins a conflict.
    pub since: i64,
    /// What it asks for now.
    pub claims: Vec<Claim>,
    /// Lines that this object may have in DNS, now or from before.
    pub published: Vec<Record>,
    /// Whether it may take over sets that others wrote.
    pub adoption: Adoption,
}

impl Declaration {
    /// The claim at a position.
    #[must_use]
    pub fn claim(&self, index: u32) -> Option<&Claim> {
        self.claims.get(usize::try_from(index).ok()?)
    }

    /// Sorts the lines, and lets go of room that is not used and of second copies of names: it is kept for
    /// as long as its object stands.
    pub(crate) fn tidy(&mut self) {
        self.claims.shrink_to_fit();
        let names: BTreeSet<&Name> = self.claims.iter().map(|claim| &claim.key.name).collect();
        for record in &mut self.published {
            if let Some(name) = names.get(&record.name) {
                record.name = Name::clone(name);
            }
        }
        self.published.sort_unstable();
        self.published.shrink_to_fit();
    }

    /// The lines that the object carries and does not ask for.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = &Record> {
        let asked: BTreeSet<(&Name, &RecordData)> = self
            .claims
            .iter()
            .flat_map(|claim| claim.data.iter().map(|data| (&claim.key.name, data)))
            .collect();
        let lines = self.published.iter();
        lines.filter(move |line| !asked.contains(&(&line.name, &line.data)))
    }

    /// Whether the object carries a line; only after [`Self::tidy`].
    pub(crate) fn carries(&self, name: &Name, data: &RecordData) -> bool {
        let start = self.published.partition_point(|line| line.name < *name);
        let mut lines = self.published[start..].iter();
        lines
            .find(|line| line.data == *data || line.name != *name)
            .is_some_and(|line| line.name == *name)
    }
}

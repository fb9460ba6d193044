//! Plans: what one atomic update would change in a zone, computed without touching anything.
//!
//! A plan travels: the zone's planner makes it, the guard's policies filter it
//! ([`crate::guard`]), the engine sends it. Along the way it can be printed, named by its digest, held, let
//! through, and rehearsed on a zone's content.

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{
    content::ZoneContent,
    name::Name,
    object::Id,
    record::{RecordData, RecordKey, RecordSet},
    zones::Going,
};

/// Digits of a plan's digest; enough to tell plans apart that people look at.
const DIGEST_LEN: usize = 12;

/// What one atomic update would change in a zone.
///
/// Guarantees: removals come first, so that a name that changes its type loses the old set before it gains
/// the new one; then the order is that of names and types. Limits: whoever makes a plan keeps it small enough
/// for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    zone: Name,
    changes: Vec<PlannedChange>,
}

/// One change of a plan, with what the guard needs to judge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// The change.
    pub change: Change,
    /// Changes that go in the same message or not at all, since they tell whose the set is.
    pub companions: Vec<Change>,
    /// The objects that ask for it.
    pub askers: Vec<Id>,
    /// Whose the set is.
    pub holder: Holder,
    /// How much it takes away for good.
    pub loss: Loss,
    /// By whose word it takes something away.
    pub word: Going,
    /// The values of others that stand in a set of ours and that the change removes.
    pub intruders: Vec<RecordData>,
}

/// Whose a record set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody's yet, or ours: Bindery may write it.
    Ours,
    /// Somebody else wrote it, or something that it cannot stand beside.
    Foreign,
}

/// How much a change takes away for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing: it adds, or replaces.
    Nothing,
    /// Values of a set that stays.
    Values,
    /// A set of a name at which another one is wanted.
    Set,
    /// The last set that was wanted at its name.
    Name,
}

/// What must be true of a record set for a change to it to be applied.
///
/// The name server checks it in the same transaction as the change (RFC 2136 section 2.4), so a
/// plan made from an old view cannot overwrite a newer state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The set must not exist.
    Absent,
    /// The set must hold exactly these values, in any order; TTLs are not compared.
    Exactly(Vec<RecordData>),
    /// Nothing is demanded.
    Anything,
}

/// One record set's part of an update.
///
/// Guarantees: `remove` and `add` name single records, so what is not named stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The record set.
    pub key: RecordKey,
    /// The precondition.
    pub expect: Expect,
    /// Records to delete, one by one.
    pub remove: Vec<RecordData>,
    /// Records to add with `ttl`.
    pub add: Vec<RecordData>,
    /// The TTL of added records, which becomes the TTL of the whole set.
    pub ttl: u32,
}

/// A record set stands in the zone that no object of ours has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwned;

/// Owner name, type, class, TTL and length of a record without its data (RFC 1035 section 4.1.3).
const RECORD_FIXED_LEN: usize = 10;

impl Change {
    /// An upper bound of the bytes this change needs in a message, names uncompressed.
    #[must_use]
    pub fn wire_len_max(&self) -> usize {
        let owner = self.key.name.as_wire().len() + RECORD_FIXED_LEN;
        let expected = match &self.expect {
            Expect::Absent => owner,
            Expect::Exactly(data) => data.iter().map(|rr| owner + rr.to_wire().len()).sum(),
            Expect::Anything => 0,
        };
        let changed = self.remove.iter().chain(&self.add);
        expected + changed.map(|rr| owner + rr.to_wire().len()).sum::<usize>()
    }

    /// Puts everything that the change demands and does into a digest.
    fn hash(&self, hasher: &mut Sha256) {
        hasher.update(self.key.name.as_wire());
        hasher.update(self.key.rtype.code().to_be_bytes());
        hasher.update(self.ttl.to_be_bytes());
        let (word, expected): (u8, &[RecordData]) = match &self.expect {
            Expect::Absent => (0, &[]),
            Expect::Exactly(data) => (1, data),
            Expect::Anything => (2, &[]),
        };
        hasher.update([word]);
        for data in [expected, &self.remove, &self.add] {
            hasher.update(data.len().to_be_bytes());
            for wire in data.iter().map(RecordData::to_wire) {
                hasher.update(wire.len().to_be_bytes());
                hasher.update(wire);
            }
        }
    }

    /// Whether this change only takes away.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.add.is_empty()
    }
}

/// The change that turns `actual` into `desired`, touching only records for which `owned` is true.
///
/// `None` means that nothing is to be done.
///
/// # Errors
/// [`NotOwned`] where a set is desired but one stands there in which nothing is ours.
pub fn change(
    key: &RecordKey,
    desired: Option<&RecordSet>,
    actual: Option<&RecordSet>,
    owned: impl Fn(&RecordData) -> bool,
) -> Result<Option<Change>, NotOwned> {
    let (expect, ours): (Expect, Vec<&RecordData>) = match actual {
        None => (Expect::Absent, Vec::new()),
        Some(set) => (
            Expect::Exactly(set.data().to_vec()),
            set.data().iter().filter(|data| owned(data)).collect(),
        ),
    };
    if desired.is_some() && actual.is_some() && ours.is_empty() {
        return Err(NotOwned);
    }
    let wanted = desired.map_or(&[][..], RecordSet::data);
    let standing = actual.map_or(&[][..], RecordSet::data);
    let ttl = desired.or(actual).map_or(0, |set| set.ttl);
    let retimed = matches!((desired, actual), (Some(want), Some(have)) if want.ttl != have.ttl);

    let remove: Vec<RecordData> = ours
        .into_iter()
        .filter(|data| !wanted.contains(data))
        .cloned()
        .collect();
    let add: Vec<RecordData> = wanted
        .iter()
        .filter(|data| retimed || !standing.contains(data))
        .cloned()
        .collect();
    if remove.is_empty() && add.is_empty() {
        return Ok(None);
    }
    Ok(Some(Change {
        key: key.clone(),
        expect,
        remove,
        add,
        ttl,
    }))
}

impl PlannedChange {
    /// The change with what travels along.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        std::iter::once(&self.change).chain(&self.companions)
    }

    /// An upper bound of the bytes that all of it needs in a message, names uncompressed.
    #[must_use]
    pub fn wire_len_max(&self) -> usize {
        self.changes().map(Change::wire_len_max).sum()
    }
}

impl Plan {
    /// The plan of these changes, in its order.
    #[must_use]
    pub fn new(zone: Name, mut changes: Vec<PlannedChange>) -> Self {
        changes.sort_by(|one, other| {
            let rank = |one: &PlannedChange| !one.change.is_removal();
            (rank(one), &one.change.key).cmp(&(rank(other), &other.change.key))
        });
        Self { zone, changes }
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &Name {
        &self.zone
    }

    /// Whether nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many record sets would change.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// The changes in order, with what is known of each.
    #[must_use]
    pub fn planned(&self) -> &[PlannedChange] {
        &self.changes
    }

    /// The changes in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().flat_map(PlannedChange::changes)
    }

    /// The record sets that would change.
    pub fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        self.changes().map(|change| &change.key)
    }

    /// The objects that ask for a change, once for each.
    pub fn askers(&self) -> impl Iterator<Item = &Id> {
        self.changes.iter().flat_map(|planned| &planned.askers)
    }

    /// The changes as they are sent.
    #[must_use]
    pub fn into_changes(self) -> Vec<Change> {
        let changes = self.changes.into_iter().flat_map(|planned| {
            let PlannedChange {
                change, companions, ..
            } = planned;
            std::iter::once(change).chain(companions)
        });
        changes.collect()
    }

    /// The changes with what is known of each.
    pub(crate) fn into_planned(self) -> Vec<PlannedChange> {
        self.changes
    }

    /// What stands for exactly these changes of this zone, whoever asks for them.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.zone.as_wire());
        for change in self.changes() {
            change.hash(&mut hasher);
        }
        crate::record::hex(&hasher.finalize(), DIGEST_LEN)
    }

    /// Makes of a zone's content what carrying out the plan makes of it.
    pub fn rehearse(&self, content: &mut ZoneContent) {
        for change in self.changes() {
            content.apply(change);
        }
    }
}

/// One line for each change.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for planned in &self.changes {
            writeln!(f, "{planned}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            change,
            companions,
            askers,
            ..
        } = self;
        write!(f, "{}", change.key)?;
        for gone in &change.remove {
            write!(f, " -{gone}")?;
        }
        for new in &change.add {
            write!(f, " +{new}")?;
        }
        if !change.add.is_empty() {
            write!(f, " ttl {}", change.ttl)?;
        }
        for companion in companions {
            write!(f, " with {}", companion.key)?;
        }
        let askers: Vec<String> = askers.iter().map(ToString::to_string).collect();
        if askers.is_empty() {
            return Ok(());
        }
        write!(f, " for {}", askers.join(", "))
    }
}

//! Plans: what one atomic update would change in a zone, computed without touching anything.

use crate::record::{RecordData, RecordKey, RecordSet};

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

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ttl: u32, values: &[&str]) -> RecordSet {
        let record = |value: &&str| {
            let line = format!("www.example.com. {ttl} IN A {value}");
            line.parse::<crate::Record>().expect("the line is sound")
        };
        RecordSet::new(ttl, values.iter().map(|value| record(value).data))
    }

    fn key() -> RecordKey {
        let name = crate::Name::parse("www.example.com.").expect("the name is sound");
        RecordKey::new(name, crate::RecordType::A)
    }

    #[test]
    fn the_room_a_change_needs_counts_what_is_demanded_and_every_record() {
        // The owner's 17 bytes with the ten that every record has, and an address' four.
        let (owner, record) = (27, 31);
        let two = set(60, &["192.0.2.1", "192.0.2.2"]).data().to_vec();
        let one = set(60, &["192.0.2.3"]).data().to_vec();
        let len = |expect, remove: &[RecordData], add: &[RecordData]| {
            let change = Change {
                key: key(),
                expect,
                remove: remove.to_vec(),
                add: add.to_vec(),
                ttl: 60,
            };
            change.wire_len_max()
        };
        assert_eq!(len(Expect::Absent, &[], &two), owner + 2 * record);
        assert_eq!(len(Expect::Anything, &one, &[]), record);
        assert_eq!(len(Expect::Exactly(two.clone()), &two, &one), 5 * record);
    }

    #[test]
    fn another_ttl_writes_every_value_again() {
        let (old, new) = (set(60, &["192.0.2.1"]), set(300, &["192.0.2.1"]));
        let made = change(&key(), Some(&new), Some(&old), |_| true).expect("it is ours");
        let made = made.expect("there is something to do");
        assert_eq!((made.add, made.ttl), (new.data().to_vec(), 300));
        assert!(made.remove.is_empty());
        assert_eq!(change(&key(), Some(&old), Some(&old), |_| true), Ok(None));
    }
}

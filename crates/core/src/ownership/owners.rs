//! The objects that ask for something on one group of servers, and what each of them owns there.

use std::collections::{BTreeMap, BTreeSet};

use super::Kept;
use crate::{
    claim::{Adoption, Claim, Declaration},
    compact::compact,
    fault::Fault,
    name::Name,
    object::{Id, ObjectRef},
    plan::Change,
    record::{Record, RecordData, RecordKey},
    small_set::SmallSet,
    zones::Going,
};

/// One claim: whose it is, and its position in that object's declaration.
pub(crate) type ClaimRef = (Id, u32);

/// Every object with what it asks for and owns.
///
/// It does not know who asks for something at a name: zones do, and say so by `claims`.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    declared: BTreeMap<Id, Box<Kept>>,
    /// Claims of which something must be durable first and is not, by position; nothing of them is written.
    withheld: BTreeMap<Id, BTreeSet<u32>>,
    /// Claims that were never seen in DNS as they ask, by position.
    unconfirmed: BTreeMap<Id, BTreeSet<u32>>,
    /// The objects that own lines which they no longer ask for, by the sets that these lines are in.
    stale: BTreeMap<RecordKey, SmallSet<Id>>,
}

/// What a declaration replaced.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// What the object asked for and owned before.
    pub(crate) before: Option<Box<Kept>>,
    /// The sets that may be ours now, or no longer.
    pub(crate) touched: BTreeSet<RecordKey>,
}

impl Owners {
    /// Replaces what one object asks for and owns; `None` where it asks for and owns the same as before.
    pub(crate) fn declare(&mut self, mut declaration: Declaration) -> Option<Exchange> {
        let had = std::mem::take(&mut declaration.had);
        let after = Kept::new(declaration);
        self.compare(&after, &had);
        if let Some(before) = self.declared.get_mut(&after.owner)
            && before.same_wishes(&after)
        {
            // The names and values that stand are shared with the zone; another copy of them would not be.
            before.generation = after.generation;
            before.revision = after.revision;
            return None;
        }
        let before = self.declared.remove(&after.owner);
        if let Some(before) = &before {
            self.drop_stale(before);
        }
        for line in after.stale_records() {
            let owners = self.stale.entry(line.key()).or_default();
            owners.insert(Id::clone(&after.owner));
        }
        let withheld = after.withheld();
        if withheld.is_empty() {
            self.withheld.remove(&after.owner);
        } else {
            self.withheld.insert(after.owner.clone(), withheld);
        }
        let both = before.as_deref().into_iter().chain([&after]);
        let touched = both.flat_map(Kept::owned_sets).collect();
        self.declared.insert(after.owner.clone(), Box::new(after));
        Some(Exchange { before, touched })
    }

    /// Forgets an object that is gone, and returns what it asked for.
    pub(crate) fn forget(&mut self, owner: &ObjectRef) -> Option<Box<Kept>> {
        let before = self.declared.remove(owner)?;
        self.drop_stale(&before);
        self.withheld.remove(owner);
        self.unconfirmed.remove(owner);
        Some(before)
    }

    /// Puts what was declared so far into little room.
    pub(crate) fn compact(&mut self) {
        compact(&mut self.declared);
    }

    /// What an object asks for and owns.
    pub(crate) fn get(&self, owner: &ObjectRef) -> Option<&Kept> {
        self.declared.get(owner).map(Box::as_ref)
    }

    /// The claim that is meant.
    pub(crate) fn claim(&self, (owner, index): &ClaimRef) -> Option<&Claim> {
        self.get(owner)?.claim(*index)
    }

    /// Whether a claim may be written: what must be durable first is.
    pub(crate) fn may_write(&self, owner: &ObjectRef, index: u32) -> bool {
        !is_among(&self.withheld, owner, index)
    }

    /// The claims of an object that may be written as soon as they are recorded.
    pub(crate) fn unrecorded(&self, owner: &ObjectRef) -> impl Iterator<Item = &Claim> {
        let claims = self.withheld.get(owner).into_iter().flatten();
        let declared = self.get(owner);
        let declared = declared.filter(|one| one.ownership.refusal().is_none());
        claims.filter_map(move |index| declared?.claim(*index))
    }

    /// What has to travel in the same message as a change that these objects ask for.
    ///
    /// # Errors
    /// It cannot be made, so the change must not be sent.
    pub(crate) fn companions(&self, askers: &[Id], change: &Change) -> Result<Vec<Change>, Fault> {
        let mut companions = Vec::new();
        let declared = askers.iter().filter_map(|owner| self.get(owner));
        // Nothing of a refused object is in the change, so it has nothing to send along either.
        for declared in declared.filter(|one| one.ownership.refusal().is_none()) {
            for companion in declared.ownership.companions(change)? {
                if !companions.contains(&companion) {
                    companions.push(companion);
                }
            }
        }
        Ok(companions)
    }

    /// Whether a record in a set is ours: some object owns it, be it one that no longer asks for it.
    pub(crate) fn owns<'a>(
        &'a self,
        claims: impl Iterator<Item = &'a ClaimRef>,
        key: &RecordKey,
        data: &RecordData,
    ) -> bool {
        let mut owners = self.owners(claims, key).filter_map(|owner| self.get(owner));
        owners.any(|one| one.owns(&key.name, data))
    }

    /// The objects that may own lines of a set: those that ask for something at its name, and those that no
    /// longer ask for what they own there.
    pub(crate) fn owners<'a>(
        &'a self,
        claims: impl Iterator<Item = &'a ClaimRef>,
        key: &RecordKey,
    ) -> impl Iterator<Item = &'a Id> {
        let stale = self.stale.get(key).into_iter().flatten();
        claims.map(|(owner, _)| owner).chain(stale)
    }

    /// Whether an object that asks for this set has had it, so that what stands there instead was put there
    /// by others.
    pub(crate) fn has_had<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a ClaimRef>,
        key: &RecordKey,
    ) -> bool {
        claims.into_iter().any(|one| {
            let (owner, index) = one;
            self.claim(one).is_some_and(|claim| claim.key == *key)
                && !is_among(&self.unconfirmed, owner, *index)
                && self.may_write(owner, *index)
        })
    }

    /// A set stands as it is asked for: whoever asks for it has had it from now on.
    pub(crate) fn confirm<'a>(
        &mut self,
        claims: impl IntoIterator<Item = &'a ClaimRef>,
        key: &RecordKey,
    ) {
        if self.unconfirmed.is_empty() {
            return;
        }
        for one in claims {
            let (owner, index) = one;
            if self.claim(one).is_some_and(|claim| claim.key == *key)
                && let Some(unconfirmed) = self.unconfirmed.get_mut(owner)
            {
                unconfirmed.remove(index);
                if unconfirmed.is_empty() {
                    self.unconfirmed.remove(owner);
                }
            }
        }
    }

    /// Whether an object that asks for this set may take it over.
    pub(crate) fn may_take<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a ClaimRef>,
        key: &RecordKey,
    ) -> bool {
        claims.into_iter().any(|(owner, index)| {
            self.get(owner).is_some_and(|declared| {
                let claim = declared.claim(*index);
                let takes = declared.adoption == Adoption::Take
                    || declared.ownership.takes_what_it_asks_for();
                takes && claim.is_some_and(|claim| claim.key == *key)
            })
        })
    }

    /// Whether some object asks for this line.
    pub(crate) fn asks<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a ClaimRef>,
        key: &RecordKey,
        data: &RecordData,
    ) -> bool {
        let asks = |claim: &Claim| claim.key == *key && claim.data.contains(data);
        claims
            .into_iter()
            .any(|one| self.claim(one).is_some_and(asks))
    }

    /// The objects that own something in a zone, or below it, that they no longer ask for.
    pub(crate) fn leaving(&self, zone: &Name) -> impl Iterator<Item = &Id> {
        let sets = self.stale.iter().filter(|(key, _)| key.name.is_in(zone));
        sets.flat_map(|(_, owners)| owners)
    }

    /// By whose word a set goes: of several objects that had it, the one that is asked least counts.
    pub(crate) fn word(&self, key: &RecordKey) -> Going {
        let owners = self.stale.get(key).into_iter().flatten();
        let words = owners.filter_map(|owner| Some(self.get(owner)?.going));
        let words: Vec<Going> = words.collect();
        let mut least = [Going::Unsaid, Going::Along].into_iter();
        least
            .find(|going| words.contains(going))
            .unwrap_or(Going::Asked)
    }

    /// Notes which claims of a declaration were never seen in DNS as it asks for them: what stands in place of
    /// those may be of others, who came first. `had` are sets of which the object's status says more.
    fn compare(&mut self, after: &Kept, had: &[RecordKey]) {
        let owner = &after.owner;
        let before = self.declared.get(owner);
        let before = before.into_iter().flat_map(|one| (0..).zip(&one.claims));
        let before = before.filter(|(index, _)| !is_among(&self.unconfirmed, owner, *index));
        let before: BTreeSet<(&Name, &RecordKey)> =
            before.map(|(_, one)| (&one.zone, &one.key)).collect();
        let had: BTreeSet<&RecordKey> = had.iter().collect();
        let unconfirmed: BTreeSet<u32> = (0..)
            .zip(&after.claims)
            .filter(|(_, claim)| {
                !had.contains(&claim.key) && !before.contains(&(&claim.zone, &claim.key))
            })
            .map(|(index, _)| index)
            .collect();
        if unconfirmed.is_empty() {
            self.unconfirmed.remove(owner);
        } else {
            self.unconfirmed.insert(owner.clone(), unconfirmed);
        }
    }

    fn drop_stale(&mut self, before: &Kept) {
        for key in before.stale_records().map(Record::key) {
            if let Some(owners) = self.stale.get_mut(&key) {
                owners.retain(|owner| *owner != before.owner);
                if owners.is_empty() {
                    self.stale.remove(&key);
                }
            }
        }
    }
}

fn is_among(claims: &BTreeMap<Id, BTreeSet<u32>>, owner: &ObjectRef, index: u32) -> bool {
    claims
        .get(owner)
        .is_some_and(|claims| claims.contains(&index))
}

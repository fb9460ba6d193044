//! Ownership: which records in a zone are ours, and how that is known.
//!
//! There are three kinds of it. Each answers the same three questions:
//!
//! | | is this ours? | what travels with the change? | what must be durable first? |
//! |---|---|---|---|
//! | [`Object`](Ownership::Object) | lines that the declaring object records | nothing | the lines that are asked for, in the object |
//! | [`Txt`](Ownership::Txt) | sets beside which a registry record of ours stands | that record | nothing |
//! | [`None`](Ownership::None) | what is asked for, and what the declarer remembers | nothing | nothing |
//!
//! Zones and sources ask here and nowhere else. Why somebody outside our memory has to tell: after a crash,
//! or on another machine, our memory is gone, and what looks like ours may be somebody else's.

mod evidence;
mod kept;
mod owners;
mod txt;

#[cfg(test)]
mod tests;

use crate::{
    claim::Claim,
    fault::Fault,
    plan::Change,
    record::{Record, RecordData},
};

pub use self::evidence::{Evidence, Trust};

pub(crate) use self::{
    kept::Kept,
    owners::{ClaimRef, Exchange, Owners},
};

/// How it is known which records an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The declaring object records the lines that it has, or is about to have, in DNS.
    #[default]
    Object,
    /// A TXT record in the zone says of each set whose it is. It is refused until sources need it.
    Txt,
    /// Nothing tells. What is asked for is ours whoever wrote it, so nobody else may write such sets.
    None,
}

impl Ownership {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Object, Self::Txt, Self::None];

    /// Why nothing can be owned in this way yet, where that is so.
    #[must_use]
    pub fn refusal(self) -> Option<Fault> {
        match self {
            Self::Object | Self::None => None,
            Self::Txt => Some(txt::refusal()),
        }
    }

    /// *Is this ours?* The lines that an object owns which asks for these claims, where `known` are the lines
    /// that it may have in DNS by everything that tells of it.
    pub(crate) fn owned(self, claims: &[Claim], mut known: Vec<Record>) -> Vec<Record> {
        match self {
            Self::Object => known,
            Self::Txt => txt::owned(),
            Self::None => {
                known.extend(claims.iter().flat_map(Claim::records));
                known
            }
        }
    }

    /// Whether a set that is asked for is ours though somebody else wrote it.
    pub(crate) const fn takes_what_it_asks_for(self) -> bool {
        match self {
            Self::Object | Self::Txt => false,
            Self::None => true,
        }
    }

    /// *What travels with the change?* Changes that go in the same message or not at all.
    ///
    /// # Errors
    /// They cannot be made, so the change must not be sent.
    pub(crate) fn companions(self, change: &Change) -> Result<Vec<Change>, Fault> {
        match self {
            Self::Object | Self::None => Ok(Vec::new()),
            Self::Txt => txt::companions(change),
        }
    }

    /// *What must be durable first?* The values of a claim that have to be recorded before any of it is sent,
    /// where `is_recorded` tells which ones are.
    ///
    /// Why all of them before any: a set is written as a whole, so a crash in between must not leave a part of
    /// it that nobody knows of.
    pub fn durable_first(
        self,
        claim: &Claim,
        is_recorded: impl Fn(&RecordData) -> bool,
    ) -> impl Iterator<Item = &RecordData> {
        let data: &[RecordData] = match self {
            Self::Object => &claim.data,
            Self::Txt | Self::None => &[],
        };
        data.iter().filter(move |data| !is_recorded(data))
    }
}

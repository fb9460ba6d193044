//! Claims: what one object asks of DNS, set by set.

use std::sync::Arc;

use crate::{
    name::Name,
    object::Id,
    ownership::Ownership,
    record::{Record, RecordData, RecordKey},
    zones::Going,
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
    /// A set in which every line stands that the object asks for is the object's: what told so was lost,
    /// and nobody else writes into the zone.
    Known,
    /// The author said that the set is to be taken over.
    Take,
}

/// Everything one object asks for, at one generation, and what it may have in DNS already.
///
/// Assumptions: `published` has every line that may be the object's in DNS, by whatever tells of it. Under
/// [`Ownership::Object`] these lines are durable in the object; under [`Ownership::None`] the declarer
/// remembers them.
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
    /// Sets that it has had in DNS as it asked for them, by what its status says.
    pub had: Vec<RecordKey>,
    /// Whether it may take over sets that others wrote.
    pub adoption: Adoption,
    /// How it is known what it owns.
    pub ownership: Ownership,
    /// By whose word goes what it may have in DNS and does not ask for.
    pub going: Going,
}

impl Claim {
    /// The zone-file lines that this claim puts into DNS.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.data.iter().map(|data| Record {
            name: self.key.name.clone(),
            ttl: self.ttl,
            data: data.clone(),
        })
    }
}

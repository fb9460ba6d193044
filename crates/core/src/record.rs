//! DNS records: types, data, sets, zone-file lines and serial numbers.

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::name::Name;

mod base64;
mod data;
mod digests;
mod parse;
mod rtype;
mod set;
mod svcb;
#[cfg(test)]
mod tests;
mod text;
mod wire;

pub use data::{Caa, DataProblem, RDATA_LEN_MAX, RecordData, Soa};
pub use digests::{Sshfp, Tlsa, from_hex};
pub use rtype::RecordType;
pub(crate) use rtype::SIGNING_NOTE;
pub use set::RecordSet;
pub(crate) use set::hex;
pub use svcb::{SvcParam, SvcParams, Svcb};
pub use text::{Text, unescaped};

/// The largest TTL (RFC 2181 section 8).
pub const TTL_MAX: u32 = 0x7fff_ffff;

/// What a record set is known by inside its zone: owner name and type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// The owner name.
    pub name: Name,
    /// The record type.
    pub rtype: RecordType,
}

impl RecordKey {
    /// The key of the set of this type at this name.
    #[must_use]
    pub const fn new(name: Name, rtype: RecordType) -> Self {
        Self { name, rtype }
    }

    /// The keys of every type at the same name, in their order.
    #[must_use]
    pub fn name_range(&self) -> RangeInclusive<Self> {
        let key = |rtype| Self::new(self.name.clone(), rtype);
        key(RecordType::A)..=key(RecordType::Other(u16::MAX))
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)
    }
}

/// One record, printed and read as a zone-file line: `www.example.com. 300 IN A 192.0.2.1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The owner name.
    pub name: Name,
    /// How long resolvers may keep it, in seconds.
    pub ttl: u32,
    /// Type and data.
    pub data: RecordData,
}

impl Record {
    /// The key of the set that this record belongs to.
    #[must_use]
    pub fn key(&self) -> RecordKey {
        RecordKey::new(self.name.clone(), self.data.rtype())
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} IN {} {}",
            self.name,
            self.ttl,
            self.data.rtype(),
            self.data
        )
    }
}

impl FromStr for Record {
    type Err = DataProblem;

    fn from_str(line: &str) -> Result<Self, DataProblem> {
        parse::record(line)
    }
}

/// A zone's serial number, ordered as RFC 1982 says: around the circle, with one undefined case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Serial(pub u32);

impl Serial {
    /// Whether this serial comes after `other`.
    #[must_use]
    pub fn newer_than(self, other: Self) -> bool {
        self.partial_cmp(&other) == Some(Ordering::Greater)
    }

    /// The serial after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many steps lead from this serial to another; below zero where it comes before.
    #[must_use]
    pub const fn steps_to(self, other: Self) -> i32 {
        other.0.wrapping_sub(self.0).cast_signed()
    }
}

impl PartialOrd for Serial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        const HALF: u32 = 1 << 31;
        match other.0.wrapping_sub(self.0) {
            0 => Some(Ordering::Equal),
            HALF => None,
            ahead if ahead < HALF => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

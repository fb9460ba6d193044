//! What a server makes of a zone by signing it, kept apart from what people wrote into it.
//!
//! A signed zone has records that nobody wrote: signatures, the chain of names, keys, and the notes of the
//! server about its work. They are taken out of what was read before anything is compared, so that they are
//! nobody's record: not foreign, not copied, not removed. What of them is worth telling is kept beside.

use std::{collections::BTreeSet, fmt};

use sha2::{Digest, Sha256};

use crate::{
    content::ZoneContent,
    delta::Difference,
    name::Name,
    record::{Record, RecordData, SIGNING_NOTE, hex},
};

/// The type RRSIG.
const RRSIG: u16 = 46;
/// The type DNSKEY.
const DNSKEY: u16 = 48;

/// Flags of a key (RFC 4034 section 2.1.1, RFC 5011 section 3): of a zone, revoked, signs keys.
const ZONE_KEY: u16 = 0x0100;
const REVOKED: u16 = 0x0080;
const SIGNS_KEYS: u16 = 0x0001;

/// SHA-256, which every resolver knows (RFC 8624 section 3.3).
const DIGEST_TYPE: u8 = 2;

/// How a zone is signed, as far as the zone itself tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signatures {
    /// Its keys, as they stand in the zone.
    keys: BTreeSet<Box<[u8]>>,
    /// How far the server has come.
    notes: BTreeSet<Box<[u8]>>,
    /// Whether its SOA is signed.
    has_soa_signature: bool,
}

impl Signatures {
    /// Whether the zone has keys. One that does must not be served without signatures anywhere.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether everything in the zone is signed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        // Algorithm, key tag, whether signatures are removed, whether that is done. Notes about a chain are
        // longer, and go when they are done.
        let mut notes = self.notes.iter();
        let is_at_work = notes.any(|note| note.len() != 5 || note.last() == Some(&0));
        self.has_keys() && self.has_soa_signature && !is_at_work
    }

    /// What the parent of `zone` is to publish: one for each key that signs keys.
    #[must_use]
    pub fn ds(&self, zone: &Name) -> Vec<Ds> {
        let keys = self.keys.iter();
        let mut ds: Vec<Ds> = keys.filter_map(|key| Ds::of(zone, key)).collect();
        ds.sort();
        ds
    }

    /// Takes in that a record of the apex came or went.
    fn note(&mut self, data: &RecordData, act: fn(&mut BTreeSet<Box<[u8]>>, &[u8])) {
        let RecordData::Unknown { rtype, bytes } = data else {
            return;
        };
        match *rtype {
            DNSKEY => act(&mut self.keys, bytes),
            SIGNING_NOTE => act(&mut self.notes, bytes),
            _ => {}
        }
    }
}

/// Whether this is the signature of a SOA: the type that is covered comes first (RFC 4034 section 3.1).
fn is_soa_signature(data: &RecordData) -> bool {
    matches!(data, RecordData::Unknown { rtype: RRSIG, bytes } if bytes.starts_with(&[0, 6]))
}

fn come(set: &mut BTreeSet<Box<[u8]>>, bytes: &[u8]) {
    set.insert(bytes.into());
}

fn go(set: &mut BTreeSet<Box<[u8]>>, bytes: &[u8]) {
    set.remove(bytes);
}

/// The digest of a key, which stands in the zone above (RFC 4034 section 5). It prints as the data of a DS
/// record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ds {
    /// The tag of the key.
    pub key_tag: u16,
    /// Its algorithm.
    pub algorithm: u8,
    /// The SHA-256 of the zone's name and the key.
    pub digest: [u8; 32],
}

impl fmt::Display for Ds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = hex(&self.digest, 64).to_uppercase();
        let (tag, algorithm) = (self.key_tag, self.algorithm);
        write!(f, "{tag} {algorithm} {DIGEST_TYPE} {digest}")
    }
}

impl Ds {
    /// The name of its algorithm, or the number of one without.
    #[must_use]
    pub fn algorithm_name(&self) -> String {
        let name = match self.algorithm {
            5 => "RSASHA1",
            7 => "NSEC3RSASHA1",
            8 => "RSASHA256",
            10 => "RSASHA512",
            13 => "ECDSAP256SHA256",
            14 => "ECDSAP384SHA384",
            15 => "ED25519",
            16 => "ED448",
            other => return other.to_string(),
        };
        name.to_owned()
    }

    /// The digest of a key of `zone`, if it is one that signs keys.
    fn of(zone: &Name, key: &[u8]) -> Option<Self> {
        let flags = u16::from_be_bytes([*key.first()?, *key.get(1)?]);
        let algorithm = *key.get(3)?;
        let signs_keys = flags & (ZONE_KEY | SIGNS_KEYS | REVOKED) == ZONE_KEY | SIGNS_KEYS;
        let digest = Sha256::new().chain_update(zone.as_wire()).chain_update(key);
        signs_keys.then(|| Self {
            key_tag: key_tag(key),
            algorithm,
            digest: digest.finalize().into(),
        })
    }
}

/// The tag of a key (RFC 4034 appendix B).
fn key_tag(key: &[u8]) -> u16 {
    let sum = key.iter().enumerate().fold(0_u32, |sum, (at, byte)| {
        let byte = u32::from(*byte);
        sum.wrapping_add(if at % 2 == 0 { byte << 8 } else { byte })
    });
    let [_, _, high, low] = sum.wrapping_add(sum >> 16).to_be_bytes();
    u16::from_be_bytes([high, low])
}

impl ZoneContent {
    /// Takes out what the server of `zone` made by signing, and tells of it.
    pub fn sift(&mut self, zone: &Name) -> Signatures {
        let gone = self.sets.extract_if(.., |key, _| key.rtype.is_signing());
        let mut signatures = Signatures::default();
        for (_, set) in gone.filter(|(key, _)| key.name == *zone) {
            for data in set.data() {
                signatures.note(data, come);
                signatures.has_soa_signature |= is_soa_signature(data);
            }
        }
        signatures
    }

    /// The content without what the server made by signing.
    #[must_use]
    pub fn sifted(mut self, zone: &Name) -> Self {
        self.sift(zone);
        self
    }
}

impl Difference {
    /// Takes out what the server made by signing, and has `signatures` take the steps that tell of it.
    pub fn sift(&mut self, signatures: &mut Signatures) {
        let apex = self.to.name.clone();
        let Self {
            to: _,
            removed,
            added,
            fleeting,
            returned,
        } = self;
        let is_made = |record: &mut Record| record.data.rtype().is_signing();
        for records in [fleeting, returned] {
            records.retain(|record| !record.data.rtype().is_signing());
        }
        let gone = removed.extract_if(.., is_made);
        for record in gone.filter(|record| record.name == apex) {
            signatures.note(&record.data, go);
            signatures.has_soa_signature &= !is_soa_signature(&record.data);
        }
        let new = added.extract_if(.., is_made);
        for record in new.filter(|record| record.name == apex) {
            signatures.note(&record.data, come);
            signatures.has_soa_signature |= is_soa_signature(&record.data);
        }
    }

    /// The same without what the server made by signing.
    #[must_use]
    pub fn sifted(mut self) -> Self {
        self.sift(&mut Signatures::default());
        self
    }
}

#[cfg(test)]
mod tests;

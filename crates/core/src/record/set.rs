//! Record sets: all records of one name and type, which share a TTL.

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::data::RecordData;
use super::{Record, RecordKey};

/// The records of one key.
///
/// Guarantees: the data is sorted and without duplicates, so equal sets compare equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordSet {
    /// How long resolvers may keep the set, in seconds.
    pub ttl: u32,
    data: Arc<[RecordData]>,
}

impl RecordSet {
    /// The set of these data, in whatever order and however often they come.
    pub fn new(ttl: u32, data: impl IntoIterator<Item = RecordData>) -> Self {
        let mut data: Vec<RecordData> = data.into_iter().collect();
        data.sort_unstable();
        data.dedup();
        Self {
            ttl,
            data: data.into(),
        }
    }

    /// The set of these data, which it shares with whoever gave them, if they are in order.
    #[must_use]
    pub fn sharing(ttl: u32, data: &Arc<[RecordData]>) -> Self {
        if data.is_sorted_by(|one, next| one < next) {
            let data = Arc::clone(data);
            Self { ttl, data }
        } else {
            Self::new(ttl, data.iter().cloned())
        }
    }

    /// The data, sorted.
    #[must_use]
    pub fn data(&self) -> &[RecordData] {
        &self.data
    }

    /// Its records, where this is its key.
    pub fn records(&self, key: &RecordKey) -> impl Iterator<Item = Record> {
        self.data.iter().map(|data| Record {
            name: key.name.clone(),
            ttl: self.ttl,
            data: data.clone(),
        })
    }

    /// Whether no record is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// How many records are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether the set holds exactly this datum.
    #[must_use]
    pub fn contains(&self, data: &RecordData) -> bool {
        self.data.binary_search(data).is_ok()
    }

    /// SHA-256, in hex, over what reaches the wire: name, type, TTL and data.
    #[must_use]
    pub fn hash(&self, key: &RecordKey) -> String {
        let mut bytes = key.name.as_wire().to_vec();
        bytes.extend_from_slice(&key.rtype.code().to_be_bytes());
        bytes.extend_from_slice(&self.ttl.to_be_bytes());
        for data in &*self.data {
            let rdata = data.to_wire();
            // The length keeps two short data from hashing like one long one.
            bytes.extend_from_slice(&rdata.len().to_be_bytes());
            bytes.extend_from_slice(&rdata);
        }
        hex(&Sha256::digest(&bytes), 64)
    }
}

/// The first digits of bytes in hex.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text = bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
    text.truncate(digits);
    text
}

//! Texts kept small, in memory and on disk.
//!
//! Objects of one kind say nearly the same in nearly the same words, `managedFields` above all. A text is
//! kept as what differs from another text of its resource, its *base* (LZ4 with a dictionary): a
//! record of 2.3 KB takes some 0.25 KB. A base is a text that the ones before it did not shorten enough.

mod block;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Bases per resource: an object grows some few times, by its finalizer, its annotations and its status.
const BASES_LEN_MAX: usize = 8;
/// Resources that have bases, so that definitions that come and go cannot fill the memory.
const RESOURCES_LEN_MAX: usize = 1_000;
/// Bytes of a base. Longer objects repeat themselves in other ways.
const BASE_BYTES_MAX: usize = 16 << 10;
/// A shorter text is no base: there is little to share.
const BASE_BYTES_MIN: usize = 256;
/// A text that takes more than this part of its length becomes the next base.
const WELL_PACKED: usize = 3;
/// The same of a text that is longer than the newest base: it has fields that others will have too.
const GROWN: usize = 6;
/// Bytes of a text: far more than an object may have, far less than a damaged number can say.
const TEXT_BYTES_MAX: u32 = 64 << 20;
/// The first byte of a packed text on disk. A text that stands there as it is begins with a brace.
const MARK: u8 = 1;
/// Bytes before the data of a packed text on disk: the mark, the base's number, the text's length.
const HEAD_LEN: usize = 9;

/// A text, packed.
pub(crate) struct Packed {
    data: Box<[u8]>,
    /// Of the text; 0 if `data` is the text itself.
    len: u32,
    base: Option<Arc<Base>>,
}

/// A text that others are told apart from.
pub(crate) struct Base {
    pub(super) number: u32,
    pub(super) resource: Box<str>,
    pub(super) text: Box<[u8]>,
    is_durable: AtomicBool,
}

/// The bases of all resources.
#[derive(Default)]
pub(super) struct Bases {
    by_resource: BTreeMap<Box<str>, Vec<Arc<Base>>>,
    by_number: BTreeMap<u32, Arc<Base>>,
}

impl Packed {
    /// A text as it is.
    pub(crate) fn plain(text: Vec<u8>) -> Self {
        Self {
            data: text.into_boxed_slice(),
            len: 0,
            base: None,
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> Bytes {
        if self.len == 0 {
            return Bytes::copy_from_slice(&self.data);
        }
        let text = self.unpacked();
        Bytes::from(text.expect("it was packed or checked by this process"))
    }

    /// Whether it is kept as it is.
    pub(super) fn is_plain(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// The base, if the disk does not have it yet.
    pub(super) fn new_base(&self) -> Option<&Base> {
        let base = self.base.as_deref()?;
        (!base.is_durable.load(Ordering::Relaxed)).then_some(base)
    }

    /// As it stands on disk.
    pub(super) fn to_disk(&self) -> Vec<u8> {
        if self.len == 0 {
            return self.data.to_vec();
        }
        let number = self.base.as_ref().map_or(0, |base| base.number);
        let mut bytes = Vec::with_capacity(HEAD_LEN + self.data.len());
        bytes.push(MARK);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        bytes.extend_from_slice(&self.data);
        bytes
    }

    fn unpacked(&self) -> Option<Vec<u8>> {
        let base = self.base.as_ref().map_or(&[][..], |base| &base.text);
        let len = usize::try_from(self.len).ok()?;
        let text = decompress_with_dict(&self.data, len, base).ok()?;
        (text.len() == len).then_some(text)
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl Base {
    /// The disk has it.
    pub(super) fn keep(&self) {
        self.is_durable.store(true, Ordering::Relaxed);
    }
}

impl Bases {
    /// Packs a text of a resource.
    pub(super) fn pack(&mut self, resource: &str, text: Vec<u8>) -> Packed {
        let len = match u32::try_from(text.len()) {
            Ok(len) if len <= TEXT_BYTES_MAX => len,
            Ok(_) | Err(_) => return Packed::plain(text),
        };
        let base = self.by_resource.get(resource).and_then(|all| all.last());
        let mut packed = pack(&text, len, base.cloned());
        let base_len = packed.base.as_ref().map_or(0, |base| base.text.len());
        let has_grown = text.len() * 4 > base_len * 5;
        let well_packed = if has_grown { GROWN } else { WELL_PACKED };
        if packed.data.len() * well_packed > text.len()
            && let Some(base) = self.adopt(resource, &text)
        {
            packed = pack(&text, len, Some(base));
        }
        if packed.data.len() < text.len() {
            return packed;
        }
        Packed::plain(text)
    }

    /// Takes a base from the disk.
    pub(super) fn insert(&mut self, number: u32, resource: &str, text: &[u8]) {
        self.push(Base {
            number,
            resource: resource.into(),
            text: text.into(),
            is_durable: AtomicBool::new(true),
        });
    }

    /// A text from the disk; `None` if it is damaged.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Packed> {
        let Some((&MARK, rest)) = bytes.split_first() else {
            return Some(Packed::plain(bytes.to_vec()));
        };
        let (number, rest) = rest.split_first_chunk()?;
        let (len, data) = rest.split_first_chunk()?;
        let number = u32::from_le_bytes(*number);
        let base = match number {
            0 => None,
            number => Some(Arc::clone(self.by_number.get(&number)?)),
        };
        let packed = Packed {
            data: data.into(),
            len: u32::from_le_bytes(*len),
            base,
        };
        let is_sound = (1..=TEXT_BYTES_MAX).contains(&packed.len) && packed.unpacked().is_some();
        is_sound.then_some(packed)
    }

    /// Makes `text` the base of what follows. Objects of the core group are none: a base stays when its
    /// object goes, and there are secrets among them.
    fn adopt(&mut self, resource: &str, text: &[u8]) -> Option<Arc<Base>> {
        let held = self.by_resource.get(resource).map_or(0, Vec::len);
        let is_first = held == 0 && self.by_resource.len() >= RESOURCES_LEN_MAX;
        if !resource.contains('.')
            || text.len() < BASE_BYTES_MIN
            || held >= BASES_LEN_MAX
            || is_first
        {
            return None;
        }
        let last = self.by_number.last_key_value();
        Some(self.push(Base {
            number: last.map_or(1, |(number, _)| number + 1),
            resource: resource.into(),
            text: text[..text.len().min(BASE_BYTES_MAX)].into(),
            is_durable: AtomicBool::new(false),
        }))
    }

    fn push(&mut self, base: Base) -> Arc<Base> {
        let base = Arc::new(base);
        self.by_number.insert(base.number, Arc::clone(&base));
        let resource = base.resource.clone();
        let all = self.by_resource.entry(resource).or_default();
        all.push(Arc::clone(&base));
        base
    }
}

fn pack(text: &[u8], len: u32, base: Option<Arc<Base>>) -> Packed {
    let dictionary = base.as_ref().map_or(&[][..], |base| &base.text);
    let data = if text.len().max(dictionary.len()) <= block::LEN_MAX {
        block::compressed(text, dictionary)
    } else {
        compress_with_dict(text, dictionary)
    };
    Packed {
        data: data.into_boxed_slice(),
        len,
        base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize) -> Vec<u8> {
        // Nothing in it says itself twice.
        let fields = (100..200_u64).map(|field| format!("\"f:{}\":0,", field.pow(7)));
        let fields: String = fields.collect();
        format!("{{\"managedFields\":[{{{fields}}}],\"name\":\"record-{number}\"}}").into_bytes()
    }

    #[test]
    fn a_text_comes_back_as_it_was_from_memory_and_disk() {
        let mut bases = Bases::default();
        let texts = [record(1), record(2), b"{}".to_vec(), record(3)];
        let packed = texts
            .clone()
            .map(|text| bases.pack("records.example.com", text));
        let mut again = Bases::default();
        for base in packed.iter().filter_map(Packed::new_base) {
            again.insert(base.number, &base.resource, &base.text);
        }
        for (packed, text) in packed.iter().zip(&texts) {
            assert_eq!(packed.text(), text);
            assert_eq!(again.read(&packed.to_disk()).unwrap().text(), text);
        }
        assert!(packed[3].len() * 8 < texts[3].len(), "{}", packed[3].len());
    }

    #[test]
    fn the_base_has_what_objects_grow_by() {
        // An object as its author wrote it, with our metadata, and with its status.
        let grown = |number: u64, parts: u64| {
            let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let fields = (0..parts * 40).map(|field| format!("\"f:{}\":0,", (field + 100).pow(4)));
            let fields: String = fields.collect();
            format!("{{\"uid\":\"{id:x}\",\"managedFields\":[{{{fields}}}]}}").into_bytes()
        };
        let mut bases = Bases::default();
        let mut last = (0, 0);
        for (number, parts) in (1..6).flat_map(|number| [(number, 1), (number, 2), (number, 3)]) {
            let text = grown(number, parts);
            let len = text.len();
            last = (bases.pack("records.example.com", text).len(), len);
        }
        assert!(last.0 * 10 < last.1, "{last:?}");
        assert_eq!(bases.by_number.len(), 3);
    }

    #[test]
    fn what_is_damaged_is_found_when_it_is_read() {
        let mut bases = Bases::default();
        let packed = bases.pack("records.example.com", record(1));
        assert!(Bases::default().read(&packed.to_disk()).is_none());
        let mut bytes = packed.to_disk();
        bytes.truncate(bytes.len() - 3);
        assert!(bases.read(&bytes).is_none());
    }

    #[test]
    fn secrets_are_no_base_and_bases_are_few() {
        let mut bases = Bases::default();
        bases.pack("secrets", record(1));
        assert!(bases.by_number.is_empty());
        let mut seed = 1_u64;
        for _ in 0..100 {
            // Letters without order cannot be packed.
            let text = (0..4_000).map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_be_bytes()[0]
            });
            bases.pack("noise.example.com", text.collect());
        }
        assert_eq!(bases.by_number.len(), BASES_LEN_MAX);
    }
}

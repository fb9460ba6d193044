//! LZ4 blocks, made with more care than speed.
//!
//! A compressor for streams looks at few places for a match. What is stored here stays for long and is short,
//! so every place is looked at, and a match that begins a byte later is taken where it is longer. Any reader
//! of LZ4 blocks reads the result.

/// The longest text, and the longest base, that is worth the care; all offsets fit into the format's 64 KiB.
pub(super) const LEN_MAX: usize = 16 << 10;

/// The shortest match that the format knows.
const MATCH_MIN: usize = 4;
/// No match begins in the last twelve bytes of a block or reaches into its last five.
const BEGIN_MARGIN: usize = 12;
const END_MARGIN: usize = 5;
/// A match as long as this is taken without looking for a better one.
const GOOD: usize = 48;
/// Places that are looked at for one match. Field names repeat, and the newest places are the likeliest.
const CHAIN_MAX: usize = 24;
const HASH_BITS: u32 = 12;

/// The text as a block that refers to `base`, neither longer than [`LEN_MAX`].
pub(super) fn compressed(text: &[u8], base: &[u8]) -> Vec<u8> {
    let bytes = [base, text].concat();
    let mut places = Places::new(&bytes);
    for at in 0..base.len() {
        places.insert(at);
    }
    let mut block = Vec::with_capacity(text.len() / 4);
    let (mut at, mut written) = (base.len(), base.len());
    while at + BEGIN_MARGIN <= bytes.len() {
        let mut found = places.longest(at);
        places.insert(at);
        if (MATCH_MIN..GOOD).contains(&found.len) && at + 1 + BEGIN_MARGIN <= bytes.len() {
            let next = places.longest(at + 1);
            if next.len > found.len + 1 {
                places.insert(at + 1);
                (at, found) = (at + 1, next);
            }
        }
        if found.len < MATCH_MIN {
            at += 1;
            continue;
        }
        put_sequence(&mut block, &bytes[written..at], Some(found));
        places.last_offset = found.offset;
        for inside in at + 1..at + found.len {
            places.insert(inside);
        }
        at += found.len;
        written = at;
    }
    put_sequence(&mut block, &bytes[written..], None);
    block
}

/// So many bytes that stood so far back already.
#[derive(Clone, Copy, Default)]
struct Match {
    len: usize,
    offset: usize,
}

/// Where each four bytes have stood, newest first.
struct Places<'a> {
    bytes: &'a [u8],
    /// The newest place of each hash, plus one.
    newest: Vec<u16>,
    /// The place before each place, plus one.
    before: Vec<u16>,
    /// How far back the last match stood: a text runs beside its base for long stretches.
    last_offset: usize,
}

impl<'a> Places<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            newest: vec![0; 1 << HASH_BITS],
            before: vec![0; bytes.len()],
            last_offset: 0,
        }
    }

    fn hash(&self, at: usize) -> Option<usize> {
        let four = self.bytes.get(at..)?.first_chunk::<4>()?;
        let mixed = u32::from_le_bytes(*four).wrapping_mul(2_654_435_761);
        usize::try_from(mixed >> (u32::BITS - HASH_BITS)).ok()
    }

    fn insert(&mut self, at: usize) {
        if let Some(hash) = self.hash(at)
            && let Ok(place) = u16::try_from(at + 1)
        {
            self.before[at] = std::mem::replace(&mut self.newest[hash], place);
        }
    }

    /// The longest match at a place, of no length where there is none.
    fn longest(&self, at: usize) -> Match {
        let beside = at.checked_sub(self.last_offset).filter(|place| *place < at);
        let mut best = Match::default();
        if let Some(place) = beside {
            best = self.match_at(at, place);
        }
        let mut place = self.hash(at).map_or(0, |hash| self.newest[hash]);
        for _ in 0..CHAIN_MAX {
            let Some(from) = usize::from(place).checked_sub(1) else {
                break;
            };
            if best.len >= GOOD {
                break;
            }
            let found = self.match_at(at, from);
            if found.len > best.len {
                best = found;
            }
            place = self.before[from];
        }
        best
    }

    fn match_at(&self, at: usize, from: usize) -> Match {
        let end = self.bytes.len() - END_MARGIN;
        let pairs = self.bytes[at..end].iter().zip(&self.bytes[from..]);
        Match {
            len: pairs.take_while(|(one, other)| one == other).count(),
            offset: at - from,
        }
    }
}

/// Literals and the match that follows them; none at the end of a block.
fn put_sequence(block: &mut Vec<u8>, literals: &[u8], found: Option<Match>) {
    let more = found.map_or(0, |found| found.len - MATCH_MIN);
    block.push(nibble(literals.len()) << 4 | nibble(more));
    put_len(block, literals.len());
    block.extend_from_slice(literals);
    if let Some(offset) = found.and_then(|found| u16::try_from(found.offset).ok()) {
        block.extend_from_slice(&offset.to_le_bytes());
        put_len(block, more);
    }
}

/// A length as far as half a byte can say it.
fn nibble(len: usize) -> u8 {
    u8::try_from(len).map_or(15, |len| len.min(15))
}

/// The part of a length that half a byte cannot say.
fn put_len(block: &mut Vec<u8>, len: usize) {
    let Some(mut rest) = len.checked_sub(15) else {
        return;
    };
    while let Some(less) = rest.checked_sub(255) {
        block.push(255);
        rest = less;
    }
    block.extend(u8::try_from(rest));
}

#[cfg(test)]
mod tests {
    use lz4_flex::block::{compress_with_dict, decompress_with_dict};
    use proptest::prelude::*;

    use super::*;

    fn check(text: &[u8], base: &[u8]) -> usize {
        let block = compressed(text, base);
        let read = decompress_with_dict(&block, text.len(), base).expect("it is a block");
        assert_eq!(read, text);
        block.len()
    }

    proptest! {
        #[test]
        fn what_was_packed_is_read_as_it_was(
            text in "[ab]{0,80}[a-d]{0,400}", base in "[ab]{0,40}[a-d]{0,300}", cut in 0_usize..300,
        ) {
            check(text.as_bytes(), base.as_bytes());
            check(text.as_bytes(), b"");
            // A text that goes on where its base ends.
            let both = [base.as_bytes(), text.as_bytes()].concat();
            check(&both[cut.min(both.len())..], base.as_bytes());
        }
    }

    #[test]
    fn long_runs_and_the_longest_texts_are_read_as_they_were() {
        check(&[b'x'; LEN_MAX], &[b'x'; LEN_MAX]);
        let mut seed = 1_u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        };
        let base: Vec<u8> = (0..LEN_MAX).map(|_| noise()).collect();
        let text: Vec<u8> = (0..LEN_MAX).map(|_| noise()).collect();
        check(&text, &base);
        assert!(check(&base, &base) < 100);
    }

    #[test]
    fn neighbours_take_less_than_by_a_compressor_for_streams() {
        let object = |number: u64| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let fields = (100..160_u64).map(|field| format!("\"f:{}\":{{}},", field.pow(5)));
            let fields: String = fields.collect();
            format!(
                "{{\"lines\":\"r-{number}.example.com. 300 IN A 10.0.0.{number}\\n; of {hash:x}\",\
                 \"managedFields\":[{{{fields}}}],\"uid\":\"{hash:x}\",\"name\":\"r-{number}\"}}"
            )
        };
        let (base, text) = (object(7), object(181));
        let len = check(text.as_bytes(), base.as_bytes());
        assert!(len < compress_with_dict(text.as_bytes(), base.as_bytes()).len());
    }
}

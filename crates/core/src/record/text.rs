//! The data of TXT records: character-strings of bytes.

use std::fmt;

use super::data::DataProblem;
use crate::name::read_escape;

/// The longest character-string (RFC 1035 section 3.3).
const STRING_LEN_MAX: usize = 255;

/// A sequence of character-strings, each of at most 255 bytes.
///
/// Guarantees: there is at least one string. Kept in wire form, so it is one allocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<[u8]>);

impl Text {
    /// One value of any length, cut into strings of 255 bytes.
    #[must_use]
    pub fn from_bytes(value: &[u8]) -> Self {
        Self::from_strings(&[value])
    }

    /// Several strings in order; one longer than 255 bytes is cut.
    #[must_use]
    pub fn from_strings<S: AsRef<[u8]>>(strings: &[S]) -> Self {
        let mut wire = Vec::new();
        for string in strings.iter().map(AsRef::as_ref) {
            if string.is_empty() {
                wire.push(0);
            }
            string
                .chunks(STRING_LEN_MAX)
                .for_each(|chunk| push_string(&mut wire, chunk));
        }
        if wire.is_empty() {
            wire.push(0);
        }
        Self(wire.into())
    }

    /// Takes the wire form; nothing when the lengths do not add up.
    pub(super) fn from_wire(wire: &[u8]) -> Option<Self> {
        let mut rest = wire;
        while let [length, after @ ..] = rest {
            rest = after.get(usize::from(*length)..)?;
        }
        (!wire.is_empty()).then(|| Self(wire.into()))
    }

    /// The strings, each behind its length byte.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// The strings in order.
    pub fn strings(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.as_wire();
        std::iter::from_fn(move || {
            let [length, after @ ..] = rest else {
                return None;
            };
            let (string, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            Some(string)
        })
    }

    /// The strings joined, which is what most readers of TXT records see.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.strings().collect::<Vec<_>>().concat()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, string) in self.strings().enumerate() {
            if position > 0 {
                f.write_str(" ")?;
            }
            write_quoted(f, string)?;
        }
        Ok(())
    }
}

/// The bytes of a text in which a zone file's escapes stand for single bytes.
///
/// # Errors
/// [`DataProblem::BadText`] at an escape that is none.
pub fn unescaped(text: &str) -> Result<Vec<u8>, DataProblem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escape = (*first == b'\\').then(|| read_escape(after));
        let (byte, after) = match escape {
            None => (*first, after),
            Some(Some(escaped)) => escaped,
            Some(None) => return Err(DataProblem::BadText { text: text.into() }),
        };
        bytes.push(byte);
        rest = after;
    }
    Ok(bytes)
}

fn push_string(wire: &mut Vec<u8>, string: &[u8]) {
    wire.push(u8::try_from(string.len()).expect("a string was cut to at most 255 bytes"));
    wire.extend_from_slice(string);
}

/// Writes bytes as a quoted character-string.
pub(super) fn write_quoted(f: &mut fmt::Formatter<'_>, string: &[u8]) -> fmt::Result {
    f.write_str("\"")?;
    for &byte in string {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
            b' '..=b'~' => write!(f, "{}", char::from(byte))?,
            _ => write!(f, "\\{byte:03}")?,
        }
    }
    f.write_str("\"")
}

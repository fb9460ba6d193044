//! Domain names: absolute, lower-case, kept in wire form.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use triomphe::ThinArc;

mod parse;
mod problem;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use parse::read_escape;
pub use problem::NameProblem;

/// The longest label, in bytes (RFC 1035 section 2.3.4).
pub const LABEL_LEN_MAX: usize = 63;
/// The longest name in wire form, root label included (RFC 1035 section 2.3.4).
pub const NAME_LEN_MAX: usize = 255;

/// An absolute domain name.
///
/// Guarantees: the bytes are a valid uncompressed wire form that ends with the root label, and
/// every ASCII letter in them is lower-case, so that equality of bytes is equality of names.
/// Cloning shares the bytes.
#[derive(Clone)]
pub struct Name(ThinArc<(), u8>);

impl Name {
    /// The name of these bytes, which are sound.
    fn of(bytes: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), bytes))
    }

    /// The name of the root zone, printed as a single dot.
    #[must_use]
    pub fn root() -> Self {
        Self::of(&[0])
    }

    /// Reads an absolute name; the trailing dot is optional.
    ///
    /// Labels in Unicode become A-labels (IDNA), `\DDD` and `\X` escapes are understood, and `*` is
    /// accepted only as the whole leftmost label.
    ///
    /// # Errors
    /// What is wrong with the text, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, NameProblem> {
        parse::absolute(text).map(|bytes| Self::of(&bytes))
    }

    /// Reads a name as written inside `zone`.
    ///
    /// `@` and the empty text are the zone's own name; a trailing dot makes the name absolute (it
    /// must lie in the zone); everything else is relative to the zone.
    ///
    /// # Errors
    /// As [`Name::parse`], and a name outside the zone.
    pub fn parse_in(text: &str, zone: &Self) -> Result<Self, NameProblem> {
        if text.is_empty() || text == "@" {
            return Ok(zone.clone());
        }
        if parse::is_absolute(text) {
            let name = Self::parse(text)?;
            return if name.is_in(zone) {
                Ok(name)
            } else {
                Err(NameProblem::OutsideZone {
                    name,
                    zone: zone.clone(),
                })
            };
        }
        parse::relative(text, zone.as_wire()).map(|bytes| Self::of(&bytes))
    }

    /// Takes a name that fills `bytes` exactly, uncompressed.
    ///
    /// # Errors
    /// [`NameProblem::Malformed`] when the bytes are not one whole name.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, NameProblem> {
        let (name, rest) = Self::read_wire(bytes)?;
        if rest.is_empty() {
            Ok(name)
        } else {
            Err(NameProblem::Malformed)
        }
    }

    /// Takes an uncompressed name from the front of `bytes` and returns it with what follows.
    ///
    /// # Errors
    /// [`NameProblem::Malformed`] when no whole name stands there.
    pub fn read_wire(bytes: &[u8]) -> Result<(Self, &[u8]), NameProblem> {
        let mut end = 0;
        loop {
            let length = usize::from(*bytes.get(end).ok_or(NameProblem::Malformed)?);
            end += 1 + length;
            if length > LABEL_LEN_MAX || end > NAME_LEN_MAX {
                return Err(NameProblem::Malformed);
            }
            if length == 0 {
                break;
            }
        }
        // Lengths are at most 63, below the letters, so the whole buffer can be folded at once.
        let name = bytes
            .get(..end)
            .ok_or(NameProblem::Malformed)?
            .to_ascii_lowercase();
        Ok((Self::of(&name), &bytes[end..]))
    }

    /// The uncompressed wire form, root label included.
    #[must_use]
    pub fn as_wire(&self) -> &[u8] {
        &self.0.slice
    }

    /// The labels from left to right, without the root label.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        self.suffixes().filter_map(|suffix| match suffix {
            [0, ..] | [] => None,
            [length, rest @ ..] => rest.get(..usize::from(*length)),
        })
    }

    /// The wire forms of this name and of each of its ancestors, longest first, root last.
    ///
    /// `Name` borrows as `[u8]`, so these look up a map keyed by `Name` without allocating.
    pub fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Some(self.as_wire());
        std::iter::from_fn(move || {
            let suffix = rest?;
            rest = match suffix {
                [0, ..] | [] => None,
                [length, ..] => suffix.get(usize::from(*length) + 1..),
            };
            Some(suffix)
        })
    }

    /// Whether it ends in the name of a zone twice, as one does that was written in full without a dot.
    #[must_use]
    pub fn repeats(&self, zone: &Self) -> bool {
        let (own, labels) = (self.labels().count(), zone.labels().count());
        let Some(before) = own.checked_sub(2 * labels).filter(|_| labels > 0) else {
            return false;
        };
        let apex = zone.as_wire();
        let twice = [&apex[..apex.len() - 1], apex].concat();
        self.suffixes()
            .nth(before)
            .is_some_and(|suffix| suffix == twice)
    }

    /// The name without its leftmost label; nothing for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.suffixes().nth(1).map(Self::of)
    }

    /// Whether this name is `zone` or lies below it.
    #[must_use]
    pub fn is_in(&self, zone: &Self) -> bool {
        self.suffixes()
            .find(|suffix| suffix.len() <= zone.as_wire().len())
            .is_some_and(|suffix| suffix == zone.as_wire())
    }

    /// Whether the leftmost label is `*`.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.as_wire().starts_with(b"\x01*")
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.as_wire().len() == 1
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_wire() == other.as_wire()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_wire().cmp(other.as_wire())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_wire().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for (position, label) in self.labels().enumerate() {
            if position == 0 && label == b"*" {
                f.write_str("*.")?;
                continue;
            }
            for &byte in label {
                write_label_byte(f, byte)?;
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Name {
    type Err = NameProblem;

    fn from_str(text: &str) -> Result<Self, NameProblem> {
        Self::parse(text)
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        self.as_wire()
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Writes one byte of a label so that the parser, and any zone-file reader, reads it back.
fn write_label_byte(f: &mut fmt::Formatter<'_>, byte: u8) -> fmt::Result {
    match byte {
        b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
            write!(f, "\\{}", char::from(byte))
        }
        // A star that is not a wildcard is escaped, since a bare one is refused by the parser.
        b'*' => f.write_str("\\042"),
        b'!'..=b'~' => write!(f, "{}", char::from(byte)),
        _ => write!(f, "\\{byte:03}"),
    }
}

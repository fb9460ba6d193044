//! What can be wrong with a name that somebody typed.

use std::fmt;

use super::{LABEL_LEN_MAX, NAME_LEN_MAX, Name};
use crate::problem::Shown;

/// Why a text is not a domain name; the message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameProblem {
    /// Nothing was written where an absolute name is needed.
    Empty,
    /// `@` was written where there is no zone that it could stand for.
    Apex,
    /// Two dots follow each other, or the name begins with a dot.
    EmptyLabel {
        /// The text as its author typed it.
        text: Box<str>,
    },
    /// A label is longer than 63 bytes.
    LabelTooLong {
        /// The label as its author typed it.
        label: Box<str>,
        /// Its length in bytes.
        length: usize,
    },
    /// The whole name is longer than 255 bytes in wire form.
    NameTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A backslash is followed by neither a character nor a number up to 255.
    BadEscape {
        /// The text as its author typed it.
        text: Box<str>,
    },
    /// A character that a name may hold only when escaped.
    BadCharacter {
        /// The character.
        character: char,
        /// The text as its author typed it.
        text: Box<str>,
    },
    /// A star that is not the whole leftmost label.
    Wildcard {
        /// The label as its author typed it.
        label: Box<str>,
    },
    /// A Unicode label that IDNA does not allow.
    Idna {
        /// The label as its author typed it.
        label: Box<str>,
    },
    /// An absolute name that does not lie in the zone it was written for.
    OutsideZone {
        /// The name.
        name: Name,
        /// The zone.
        zone: Name,
    },
    /// Bytes that are not an uncompressed name.
    Malformed,
}

impl fmt::Display for NameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty: write a name such as www.example.com"),
            Self::Apex => f.write_str(
                "\"@\" stands for the zone's own name and means nothing here: write the full name",
            ),
            Self::EmptyLabel { text } => {
                write!(
                    f,
                    "{} has an empty label: remove the extra dot",
                    Shown(text)
                )
            }
            Self::LabelTooLong { label, length } => write!(
                f,
                "label {} has {length} bytes, the limit is {LABEL_LEN_MAX}: shorten it",
                Shown(label),
            ),
            Self::NameTooLong { length } => write!(
                f,
                "the name has {length} bytes, the limit is {NAME_LEN_MAX}: shorten it",
            ),
            Self::BadEscape { text } => write!(
                f,
                "{} has a bad escape: after a backslash write one character, or three digits up to \
                 255",
                Shown(text),
            ),
            Self::BadCharacter { character, text } => write!(
                f,
                "{} contains {character:?}: remove it, or write it as \\{:03}",
                Shown(text),
                u32::from(*character),
            ),
            Self::Wildcard { label } => write!(
                f,
                "label {} contains \"*\": a wildcard must be the whole leftmost label, as in \
                 *.example.com",
                Shown(label),
            ),
            Self::Idna { label } => write!(
                f,
                "label {} is not a valid internationalised label: check its characters, or write \
                 its xn-- form",
                Shown(label),
            ),
            Self::OutsideZone { name, zone } => write!(
                f,
                "{name} is not in zone {zone}: leave out the trailing dot to make it relative to \
                 the zone",
            ),
            Self::Malformed => f.write_str("the bytes are not a domain name in wire form"),
        }
    }
}

impl std::error::Error for NameProblem {}

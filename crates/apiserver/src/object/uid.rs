//! UIDs in little room.

use std::fmt;

/// The UID of an object. This server gives out UUIDs, which are kept as the number that they are; another
/// text, as an owner reference may have it, as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectUid {
    Number([u8; 16]),
    Text(Box<str>),
}

/// Where hyphens stand in a UUID, and how long it is.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UUID_LEN: usize = 36;

impl From<&str> for ObjectUid {
    fn from(text: &str) -> Self {
        number(text.as_bytes()).map_or_else(|| Self::Text(text.into()), Self::Number)
    }
}

/// The bytes of a UUID; `None` for what would not be written the same again.
fn number(text: &[u8]) -> Option<[u8; 16]> {
    let has_hyphens = HYPHENS.iter().all(|at| text.get(*at) == Some(&b'-'));
    if text.len() != UUID_LEN || !has_hyphens {
        return None;
    }
    let digits = (0..UUID_LEN).filter(|at| !HYPHENS.contains(at));
    let mut bytes = [0; 16];
    for (position, at) in digits.enumerate() {
        let digit = match text[at] {
            byte @ b'0'..=b'9' => byte - b'0',
            byte @ b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        bytes[position / 2] = bytes[position / 2] << 4 | digit;
    }
    Some(bytes)
}

impl fmt::Display for ObjectUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self {
            Self::Text(text) => return formatter.write_str(text),
            Self::Number(bytes) => bytes,
        };
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                formatter.write_str("-")?;
            }
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_written_as_it_was_read() {
        for text in [
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            "0F8FAD5B-d9cb-469f-a165-70867728950e",
            "0f8fad5b0d9cb0469f0a165070867728950e",
            "0f8fad5b-d9cb-469f-a165-70867728950",
            "0f8fad5b-d9cb-469f-a165-7086772895-e",
            "one-that-i-made-up",
            "",
        ] {
            assert_eq!(ObjectUid::from(text).to_string(), text);
        }
    }
}

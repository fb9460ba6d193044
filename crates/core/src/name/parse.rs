//! Reads the presentation form of names.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::problem::NameProblem;
use super::{LABEL_LEN_MAX, NAME_LEN_MAX};

/// One label as typed: its bytes, and whether a bare star stands in it.
struct Label {
    bytes: Vec<u8>,
    star: bool,
}

/// Whether the text ends with a dot that is not escaped.
pub(super) fn is_absolute(text: &str) -> bool {
    text.strip_suffix(is_dot).is_some_and(|rest| {
        let backslashes = rest.bytes().rev().take_while(|&byte| byte == b'\\').count();
        backslashes % 2 == 0
    })
}

/// The wire form of an absolute name, whose trailing dot is optional.
pub(super) fn absolute(text: &str) -> Result<Vec<u8>, NameProblem> {
    match text {
        "" => return Err(NameProblem::Empty),
        "@" => return Err(NameProblem::Apex),
        "." => return Ok(vec![0]),
        _ => {}
    }
    if text.is_ascii() && !text.contains(['\\', '*']) {
        return plain(text.strip_suffix('.').unwrap_or(text), text);
    }
    relative(
        text.strip_suffix(is_dot)
            .filter(|_| is_absolute(text))
            .unwrap_or(text),
        &[0],
    )
}

/// The wire form of `text` followed by `origin`, itself in wire form.
pub(super) fn relative(text: &str, origin: &[u8]) -> Result<Vec<u8>, NameProblem> {
    let mut wire = Vec::with_capacity(text.len() + 1 + origin.len());
    let mut rest = text;
    loop {
        let (label, after) = split_label(rest);
        push_label(&mut wire, &read_label(label, text)?, label, text)?;
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    wire.extend_from_slice(origin);
    check_len(wire)
}

/// The common case: ASCII without escapes or wildcards, in one pass.
fn plain(labels: &str, text: &str) -> Result<Vec<u8>, NameProblem> {
    let mut wire = Vec::with_capacity(labels.len() + 2);
    for label in labels.split('.') {
        if let Some(character) = label.chars().find(|&c| !is_bare(c)) {
            return Err(bad_character(character, text));
        }
        wire.push(label_len(label.len(), label, text)?);
        wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    wire.push(0);
    check_len(wire)
}

/// Splits the first label off, at the first dot that is not escaped.
fn split_label(text: &str) -> (&str, Option<&str>) {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if is_dot(character) {
            return (&text[..at], Some(&text[at + character.len_utf8()..]));
        }
    }
    (text, None)
}

fn read_label(label: &str, text: &str) -> Result<Label, NameProblem> {
    if label.is_ascii() {
        return read_ascii_label(label, text);
    }
    let invalid = || NameProblem::Idna {
        label: label.into(),
    };
    // Encoding only adds to the length, and takes long for long labels.
    let length = label.chars().count();
    if length > LABEL_LEN_MAX {
        return Err(NameProblem::LabelTooLong {
            label: label.into(),
            length: label.len(),
        });
    }
    // Underscores and other ASCII are ours to judge, so IDNA gets no deny list of its own.
    let ascii = Uts46::new()
        .to_ascii(
            label.as_bytes(),
            AsciiDenyList::EMPTY,
            Hyphens::CheckFirstLast,
            DnsLength::Ignore,
        )
        .map_err(|_| invalid())?;
    // A mapping that yields a dot or an escape would change the shape of the name.
    if ascii.contains(['.', '\\', '*']) {
        return Err(invalid());
    }
    read_ascii_label(&ascii, text)
}

fn read_ascii_label(label: &str, text: &str) -> Result<Label, NameProblem> {
    let mut bytes = Vec::with_capacity(label.len());
    let mut star = false;
    let mut rest = label.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            b'\\' => {
                let (byte, after) = read_escape(after)
                    .ok_or_else(|| NameProblem::BadEscape { text: text.into() })?;
                bytes.push(byte);
                rest = after;
            }
            byte if is_bare(char::from(*byte)) => {
                star |= *byte == b'*';
                bytes.push(*byte);
            }
            byte => return Err(bad_character(char::from(*byte), text)),
        }
    }
    bytes.make_ascii_lowercase();
    Ok(Label { bytes, star })
}

/// Reads what follows a backslash: three digits up to 255, or any other single character.
pub(crate) fn read_escape(after: &[u8]) -> Option<(u8, &[u8])> {
    match after {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
            let number = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
            u8::try_from(number).ok().map(|byte| (byte, rest))
        }
        [b'0'..=b'9', ..] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

fn push_label(
    wire: &mut Vec<u8>,
    label: &Label,
    shown: &str,
    text: &str,
) -> Result<(), NameProblem> {
    if label.star && (label.bytes != b"*" || !wire.is_empty()) {
        return Err(NameProblem::Wildcard {
            label: shown.into(),
        });
    }
    wire.push(label_len(label.bytes.len(), shown, text)?);
    wire.extend_from_slice(&label.bytes);
    Ok(())
}

fn label_len(length: usize, label: &str, text: &str) -> Result<u8, NameProblem> {
    match u8::try_from(length) {
        Ok(0) => Err(NameProblem::EmptyLabel { text: text.into() }),
        Ok(short) if length <= LABEL_LEN_MAX => Ok(short),
        Ok(_) | Err(_) => Err(NameProblem::LabelTooLong {
            label: label.into(),
            length,
        }),
    }
}

fn check_len(wire: Vec<u8>) -> Result<Vec<u8>, NameProblem> {
    if wire.len() <= NAME_LEN_MAX {
        Ok(wire)
    } else {
        Err(NameProblem::NameTooLong { length: wire.len() })
    }
}

fn bad_character(character: char, text: &str) -> NameProblem {
    NameProblem::BadCharacter {
        character,
        text: text.into(),
    }
}

/// Whether a character may stand in a label without an escape.
fn is_bare(character: char) -> bool {
    matches!(character, '!'..='~') && !matches!(character, '"' | ';' | '(' | ')' | '@' | '\\')
}

/// The dots of IDNA (UTS 46 section 2.3), of which only the first is ASCII.
fn is_dot(character: char) -> bool {
    matches!(character, '.' | '\u{3002}' | '\u{ff0e}' | '\u{ff61}')
}

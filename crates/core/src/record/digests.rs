//! The data of records that hold the digest of a certificate or of a key: TLSA and SSHFP.

use std::fmt;

/// The data of a TLSA record (RFC 6698).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tlsa {
    /// Which certificate is meant, and whether it has to be trusted otherwise too.
    pub usage: u8,
    /// 0 for the whole certificate, 1 for its key.
    pub selector: u8,
    /// 0 for the data itself, 1 for SHA-256, 2 for SHA-512.
    pub matching_type: u8,
    /// The data or its digest.
    pub data: Box<[u8]>,
}

/// The data of an SSHFP record (RFC 4255).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sshfp {
    /// The algorithm of the host's key.
    pub algorithm: u8,
    /// 1 for SHA-1, 2 for SHA-256.
    pub fingerprint_type: u8,
    /// The digest of the key.
    pub fingerprint: Box<[u8]>,
}

impl fmt::Display for Tlsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            usage,
            selector,
            matching_type,
            data,
        } = self;
        // Others may write no data; only the generic form can say so (RFC 3597 section 5).
        if data.is_empty() {
            return write!(f, "\\# 3 {}", Hex(&[*usage, *selector, *matching_type]));
        }
        write!(f, "{usage} {selector} {matching_type} {}", Hex(data))
    }
}

impl fmt::Display for Sshfp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            algorithm,
            fingerprint_type,
            fingerprint,
        } = self;
        if fingerprint.is_empty() {
            return write!(f, "\\# 2 {}", Hex(&[*algorithm, *fingerprint_type]));
        }
        write!(f, "{algorithm} {fingerprint_type} {}", Hex(fingerprint))
    }
}

/// Bytes as hexadecimal digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes of hexadecimal digits, whatever white space stands between them; nothing for anything else.
#[must_use]
pub fn from_hex(text: &str) -> Option<Box<[u8]>> {
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let digits: Option<Vec<u8>> = digits
        .map(|byte| u8::try_from(char::from(byte).to_digit(16)?).ok())
        .collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| high << 4 | low);
    rest.is_empty().then(|| bytes.collect())
}

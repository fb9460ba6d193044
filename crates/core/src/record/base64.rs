//! Base64 as zone files write it (RFC 4648 section 4): padded, without line breaks.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as base64.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes of a text; nothing where it is no base64.
pub(super) fn decode(text: &str) -> Option<Box<[u8]>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut len) = (Vec::new(), 0u32, 0);
    for digit in digits {
        let value = DIGITS.iter().position(|known| known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        len += 6;
        if len >= 8 {
            len -= 8;
            bytes.push(u8::try_from(bits >> len & 0xff).ok()?);
        }
    }
    // What is left over says nothing, or it would not be written the same again.
    (bits & ((1 << len) - 1) == 0).then(|| bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_written_and_read() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Zg", "Zg=", "Z===", "====", "Zh==", "Zm 8", "Zm9v=", "Zm9*"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}

//! How the file of a zone is called.

use bindery_core::Name;

/// The name of the file of a zone: readable where the zone's name is plain, and unique in any case.
#[must_use]
pub fn zone_file_name(zone: &Name) -> String {
    use std::fmt::Write as _;
    let mut file = String::new();
    for byte in zone.to_string().trim_end_matches('.').bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            file.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(file, "%{byte:02x}");
        }
    }
    // 255 bytes are the limit of most file systems; names are 253 characters at most, but
    // escapes are longer.
    if file.len() > 200 || file.is_empty() || file.starts_with('.') {
        use sha2::{Digest, Sha256};
        file = String::from("%");
        for byte in Sha256::digest(zone.as_wire()) {
            let _ = write!(file, "{byte:02x}");
        }
    }
    file.push_str(".zone");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn file_names_are_readable_unique_and_short() {
        assert_eq!(zone_file_name(&name("example.com.")), "example.com.zone");
        assert_eq!(
            zone_file_name(&name("a\\/b.example.com.")),
            "a%2fb.example.com.zone"
        );
        assert_ne!(
            zone_file_name(&name("a\\.b.c.")),
            zone_file_name(&name("a.b.c."))
        );
        let long = [
            "\\200".repeat(60),
            "\\201".repeat(60),
            "example.com.".to_owned(),
        ]
        .join(".");
        assert!(zone_file_name(&name(&long)).len() < 100);
        assert!(zone_file_name(&Name::root()).len() < 100);
    }
}

//! What `named` says of a zone, read.

use bindery_core::{Name, RecordData, RecordSet};
use sha2::{Digest as _, Sha256};

use crate::wire::{DnssecKeyState, DnssecState, DsRecord};

/// The bits of a DNSKEY's flags: it signs keys (RFC 4034 section 2.1.1), it is revoked (RFC 5011).
const SIGNS_KEYS: u16 = 1;
const REVOKED: u16 = 1 << 7;
/// The number of SHA-256 among digests (RFC 4509).
const SHA256: u8 = 2;

/// The serial that is served, from the text of `zonestatus`: of a zone whose signatures are kept apart
/// that of the signed one.
pub(crate) fn serial(text: &str) -> Option<u32> {
    let value = |field: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.trim().strip_prefix(field)?.trim().parse().ok())
    };
    value("signed serial:").or_else(|| value("serial:"))
}

/// When `named` started, from the text of `status`: it tells one start from another.
pub(crate) fn started(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.trim().strip_prefix("boot time:")?.trim()))
}

/// How a zone is signed, from the text of `dnssec -status`.
pub(crate) fn dnssec(text: &str) -> DnssecState {
    let mut state = DnssecState::default();
    for line in text.lines().map(str::trim) {
        if let Some(policy) = line.strip_prefix("dnssec-policy:") {
            state.policy = Some(policy.trim().to_owned());
        } else if let Some(key) = line.strip_prefix("key:") {
            state.keys.push(named_key(key));
        } else if let Some(key) = state.keys.last_mut() {
            read_key(key, line);
        }
    }
    state.signed = state.keys.iter().any(|key| key.published && !key.removed);
    state
}

/// What the parent of a zone with these keys is to publish.
pub(crate) fn digests(zone: &Name, keys: &RecordSet) -> Vec<DsRecord> {
    let keys = keys.data().iter();
    keys.filter_map(|key| digest(zone, key)).collect()
}

/// `33306 (ECDSAP256SHA256), CSK`.
fn named_key(text: &str) -> DnssecKeyState {
    let (tag, rest) = text.trim().split_once(' ').unwrap_or((text, ""));
    let (algorithm, role) = rest.split_once(')').unwrap_or((rest, ""));
    DnssecKeyState {
        tag: tag.trim().parse().unwrap_or_default(),
        algorithm: algorithm.trim().trim_start_matches('(').to_owned(),
        role: role.trim_start_matches(',').trim().to_owned(),
        ..DnssecKeyState::default()
    }
}

fn read_key(key: &mut DnssecKeyState, line: &str) {
    if line == "Key has been removed from the zone" {
        key.removed = true;
        return;
    }
    if let Some((_, when)) = line.split_once("ollover scheduled on ") {
        key.next_rollover = Some(timestamp(when));
        return;
    }
    let Some((field, value)) = line.split_once(':') else {
        return;
    };
    let value = value.trim();
    let (is_so, since) = match value.split_once("- since") {
        Some((word, since)) => (word.trim() == "yes", Some(timestamp(since))),
        None => (value == "yes", None),
    };
    let word = || Some(value.to_owned());
    match field {
        "published" => (key.published, key.published_since) = (is_so, since),
        "key signing" => (key.key_signing, key.key_signing_since) = (is_so, since),
        "zone signing" => (key.zone_signing, key.zone_signing_since) = (is_so, since),
        "- goal" => key.goal = word(),
        "- dnskey" => key.dnskey_state = word(),
        "- ds" => key.ds_state = word(),
        "- zone rrsig" => key.zone_rrsig_state = word(),
        "- key rrsig" => key.key_rrsig_state = word(),
        _ => {}
    }
}

/// `Tue Nov 17 23:03:45 2026` as `2026-11-17T23:03:45`; what is not a time stays as it is.
fn timestamp(text: &str) -> String {
    let text = text.trim();
    let single = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", &single);
    read.map_or_else(
        |_| text.to_owned(),
        |time| time.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
    )
}

fn digest(zone: &Name, key: &RecordData) -> Option<DsRecord> {
    use std::fmt::Write as _;
    let rdata = key.to_wire();
    let [first, second, _protocol, algorithm, ..] = *rdata.as_slice() else {
        return None;
    };
    let flags = u16::from_be_bytes([first, second]);
    if flags & SIGNS_KEYS == 0 || flags & REVOKED != 0 {
        return None;
    }
    let mut hashing = Sha256::new();
    hashing.update(zone.as_wire());
    hashing.update(&rdata);
    let mut digest = String::new();
    for byte in hashing.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(digest, "{byte:02X}");
    }
    let key_tag = key_tag(&rdata);
    let rr = format!("{zone} IN DS {key_tag} {algorithm} {SHA256} {digest}");
    Some(DsRecord {
        key_tag,
        algorithm,
        digest_type: SHA256,
        digest,
        rr,
    })
}

/// The tag of a key (RFC 4034 appendix B).
fn key_tag(rdata: &[u8]) -> u16 {
    let sum = rdata.iter().enumerate().fold(0_u32, |sum, (at, byte)| {
        let byte = u32::from(*byte);
        sum.wrapping_add(if at % 2 == 0 { byte << 8 } else { byte })
    });
    let folded = (sum + (sum >> 16 & 0xffff)) & 0xffff;
    u16::try_from(folded).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bindery_core::RecordType;

    use super::*;

    const STATUS: &str = "dnssec-policy: default
current time:  Tue Nov 17 23:03:46 2026

key: 59177 (ECDSAP256SHA256), CSK
  published:      yes - since Tue Nov 17 23:03:45 2026
  key signing:    yes - since Tue Nov  3 23:03:45 2026
  zone signing:   no

  Next rollover scheduled on Thu Nov 26 18:56:59 2026
  - goal:           omnipresent
  - dnskey:         rumoured
  - ds:             hidden
";

    #[test]
    fn the_status_of_a_signed_zone_is_read() {
        let state = dnssec(STATUS);
        assert_eq!(state.policy.as_deref(), Some("default"));
        assert!(state.signed);
        let [key] = &state.keys[..] else {
            panic!("one key");
        };
        assert_eq!((key.tag, key.role.as_str()), (59_177, "CSK"));
        assert_eq!(key.algorithm, "ECDSAP256SHA256");
        assert_eq!(key.published_since.as_deref(), Some("2026-11-17T23:03:45"));
        assert_eq!(
            key.key_signing_since.as_deref(),
            Some("2026-11-03T23:03:45")
        );
        assert!(!key.zone_signing);
        assert_eq!(key.next_rollover.as_deref(), Some("2026-11-26T18:56:59"));
        assert_eq!(key.ds_state.as_deref(), Some("hidden"));
        assert_eq!(
            dnssec("Zone does not have dnssec-policy\n"),
            DnssecState::default()
        );
    }

    #[test]
    fn the_serial_that_is_served_is_the_signed_one() {
        assert_eq!(serial("name: a\nserial: 1\nsigned serial: 3\n"), Some(3));
        assert_eq!(serial("name: a\nserial: 7\n"), Some(7));
        assert_eq!(serial("name: a\n"), None);
    }

    /// The example of RFC 4509 section 2.3.
    #[test]
    fn a_digest_is_that_of_the_standard() {
        let zone = Name::parse("dskey.example.com.").unwrap();
        let key = "AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMmmAphXdvxegXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw==";
        let mut bytes = vec![1, 0, 3, 5];
        // 256: the example's key does not sign keys by its flags; the digest is asked for all the same.
        bytes.extend(base64_of(key));
        assert_eq!(key_tag(&bytes), 60_485);
        let set = |bytes: &[u8]| {
            let data = RecordData::from_wire(48, bytes).unwrap();
            assert_eq!(data.rtype(), RecordType::from_code(48));
            RecordSet::new(300, [data])
        };
        assert!(digests(&zone, &set(&bytes)).is_empty());
        bytes[1] = 1;
        assert_eq!(digests(&zone, &set(&bytes))[0].key_tag, 60_486);
    }

    fn base64_of(text: &str) -> Vec<u8> {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap()
    }
}

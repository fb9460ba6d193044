use proptest::prelude::*;

use super::*;
use crate::record::{RecordKey, RecordType, Serial};

const SOA: &str = "example.com. 60 IN SOA ns.example.com. root.example.com. 7 1 1 1 1";
const WWW: &str = "www.example.com. 60 IN A 192.0.2.1";
/// A key that signs keys, one that does not, and the first one revoked.
const KSK: &str = "example.com. 60 IN TYPE48 \\# 8 0101030D00112233";
const ZSK: &str = "example.com. 60 IN TYPE48 \\# 8 0100030D00112233";
const REVOKED_KSK: &str = "example.com. 60 IN TYPE48 \\# 8 0181030D00112233";
/// The beginnings of signatures of a SOA and of an address.
const SOA_SIGNED: &str = "example.com. 60 IN TYPE46 \\# 4 00060D02";
const WWW_SIGNED: &str = "www.example.com. 60 IN TYPE46 \\# 4 00010D03";
const DONE: &str = "example.com. 0 IN TYPE65534 \\# 5 0D439E0001";
const AT_WORK: &str = "example.com. 0 IN TYPE65534 \\# 5 0D439E0000";

fn record(line: &str) -> Record {
    line.parse().expect("a fixture is a zone-file line")
}

fn zone() -> Name {
    Name::parse("example.com").expect("a fixture is a name")
}

/// How a zone of these lines is signed: whether it has keys, is whole, and how many DS it has; and what is left.
fn sifted(lines: &[&str]) -> (bool, bool, usize, Vec<String>) {
    let mut content: ZoneContent = lines.iter().map(|line| record(line)).collect();
    let signatures = content.sift(&zone());
    let left = content.records().map(|record| record.to_string());
    (
        signatures.has_keys(),
        signatures.is_complete(),
        signatures.ds(&zone()).len(),
        left.collect(),
    )
}

#[test]
fn what_a_server_made_is_taken_out_and_the_rest_stays() {
    let plain = vec![WWW.to_owned(), SOA.to_owned()];
    assert_eq!(sifted(&[SOA, WWW]), (false, false, 0, plain.clone()));
    let all = [SOA, WWW, KSK, ZSK, SOA_SIGNED, WWW_SIGNED, DONE];
    assert_eq!(sifted(&all), (true, true, 1, plain));
}

#[test]
fn a_zone_is_signed_when_its_server_has_come_to_an_end_with_it() {
    let is_complete = |lines: &[&str]| sifted(lines).1;
    assert!(is_complete(&[SOA, KSK, SOA_SIGNED]));
    assert!(!is_complete(&[SOA, KSK, WWW_SIGNED]));
    assert!(!is_complete(&[SOA, KSK, SOA_SIGNED, AT_WORK]));
    assert!(!is_complete(&[SOA, KSK, SOA_SIGNED, AT_WORK, DONE]));
    assert!(!is_complete(&[SOA, SOA_SIGNED, DONE]));
}

#[test]
fn keys_that_sign_keys_have_a_digest_and_revoked_ones_do_not() {
    assert_eq!(sifted(&[SOA, ZSK]).2, 0);
    assert_eq!(sifted(&[SOA, REVOKED_KSK]).2, 0);
    assert_eq!(sifted(&[SOA, KSK, ZSK, REVOKED_KSK]).2, 1);
}

/// The key of RFC 4509 section 2.3, with its tag and its digest.
#[test]
fn a_digest_is_that_of_the_standard() {
    let text = "AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMm\
                mAphXdvxegXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw==";
    let public = decoded(text);
    let bytes: Vec<u8> = [1, 0, 3, 5].into_iter().chain(public).collect();
    assert_eq!(key_tag(&bytes), 60_485);
    let name = Name::parse("dskey.example.com").expect("a name");
    let digest = Sha256::new()
        .chain_update(name.as_wire())
        .chain_update(&bytes)
        .finalize();
    assert_eq!(
        hex(&digest, 64).to_uppercase(),
        "D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A"
    );
}

fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| {
        let at = DIGITS.iter().position(|digit| *digit == byte)?;
        u32::try_from(at).ok()
    });
    let digits: Vec<u32> = digits.collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit);
        let bits = bits << (6 * (4 - four.len()));
        let [_, bytes @ ..] = bits.to_be_bytes();
        bytes.into_iter().take(four.len() - 1)
    });
    bytes.collect()
}

#[test]
fn a_digest_prints_as_the_data_of_a_record() {
    let ds = Ds {
        key_tag: 60_485,
        algorithm: 13,
        digest: [0xAB; 32],
    };
    assert_eq!(ds.to_string(), format!("60485 13 2 {}", "AB".repeat(32)));
    assert_eq!(ds.algorithm_name(), "ECDSAP256SHA256");
}

fn difference(removed: &[&str], added: &[&str]) -> Difference {
    Difference {
        to: record(SOA),
        removed: removed.iter().map(|line| record(line)).collect(),
        added: added.iter().map(|line| record(line)).collect(),
        fleeting: vec![record(WWW_SIGNED)],
        returned: vec![record(WWW_SIGNED)],
    }
}

#[test]
fn a_zone_that_is_signed_anew_has_not_changed() {
    let again = "www.example.com. 60 IN TYPE46 \\# 4 00010D04";
    let mut steps = difference(&[WWW_SIGNED], &[again, WWW]);
    let mut signatures = Signatures::default();
    steps.sift(&mut signatures);
    assert_eq!(steps.added, [record(WWW)]);
    assert!(steps.removed.is_empty() && steps.fleeting.is_empty() && steps.returned.is_empty());
    assert_eq!(signatures, Signatures::default());
}

#[test]
fn keys_that_come_and_go_are_known_from_what_changed() {
    let mut content: ZoneContent = [SOA, KSK, SOA_SIGNED, AT_WORK]
        .map(record)
        .into_iter()
        .collect();
    let mut signatures = content.sift(&zone());
    let mut step = |removed: &[&str], added: &[&str]| {
        difference(removed, added).sift(&mut signatures);
        (signatures.is_complete(), signatures.ds(&zone()).len())
    };
    assert_eq!(step(&[], &[]), (false, 1));
    assert_eq!(step(&[AT_WORK], &[DONE]), (true, 1));
    let soa_again = "example.com. 60 IN TYPE46 \\# 4 00060D03";
    assert_eq!(step(&[SOA_SIGNED], &[soa_again]), (true, 1));
    let other = "example.com. 60 IN TYPE48 \\# 8 0101030D00112244";
    assert_eq!(step(&[], &[other]), (true, 2));
    assert_eq!(step(&[KSK], &[]), (true, 1));
    assert_eq!(step(&[soa_again], &[]), (false, 1), "it is not whole");
    let keys_signed = "example.com. 60 IN TYPE46 \\# 4 00300D02";
    assert_eq!(step(&[keys_signed], &[]), (false, 1), "nor by that");
    assert_eq!(step(&[other, DONE], &[]), (false, 0));
}

proptest! {
    /// Whatever types a zone has, nothing that a server makes by signing is left, and nothing else goes.
    #[test]
    fn of_every_type_either_the_server_made_it_or_it_stays(codes in prop::collection::vec(any::<u16>(), 0..20)) {
        let types = codes.into_iter().chain([1, 6, 43, 46, 47, 48, 50, 51, 59, 60, 65_534, 65_535]);
        let types: BTreeSet<RecordType> = types.map(RecordType::from_code).collect();
        let set = |rtype: &RecordType| {
            let data = RecordData::Unknown { rtype: rtype.code(), bytes: [0].into() };
            (RecordKey::new(zone(), *rtype), crate::RecordSet::new(60, [data]))
        };
        let mut content = ZoneContent { serial: Serial(1), sets: types.iter().map(set).collect() };
        content.sift(&zone());
        let left: BTreeSet<RecordType> = content.sets.keys().map(|key| key.rtype).collect();
        let made: BTreeSet<RecordType> = types.difference(&left).copied().collect();
        let known = [46, 47, 48, 50, 51, 59, 60, 65_534].map(RecordType::from_code);
        prop_assert_eq!(made, BTreeSet::from(known));
    }
}

mod wire;

use proptest::prelude::*;

use super::*;
use crate::name::tests::any_name;

/// Parses and prints a line; a problem prints as its message.
fn check(line: &str, expected: &str) {
    let printed = match line.parse::<Record>() {
        Ok(record) => record.to_string(),
        Err(problem) => problem.to_string(),
    };
    assert_eq!(printed, expected, "input {line:?}");
}

/// Checks a line that prints as it was written.
fn check_same(line: &str) {
    check(line, line);
}

#[test]
fn every_type_is_read_and_printed() {
    check_same("www.example.com. 300 IN A 192.0.2.1");
    check_same("www.example.com. 300 IN AAAA 2001:db8::1");
    check_same("www.example.com. 300 IN CNAME web.example.net.");
    check_same("example.com. 300 IN MX 10 mail.example.com.");
    check_same("example.com. 300 IN MX 0 .");
    check_same("example.com. 300 IN NS ns1.example.com.");
    check_same("_sip._tcp.example.com. 300 IN SRV 0 5 5060 sip.example.com.");
    check_same(r#"example.com. 300 IN CAA 0 issue "letsencrypt.org; a=\"b\"""#);
    check_same("1.2.0.192.in-addr.arpa. 300 IN PTR www.example.com.");
    check_same("example.com. 300 IN SOA ns1.example.com. hostmaster.example.com. 1 2 3 4 5");
    check_same(r#"example.com. 300 IN TXT "v=spf1 -all" "" "a\"b\\c\007\255""#);
    check_same(r"example.com. 300 IN TYPE99 \# 3 000100");
    check_same(r"example.com. 300 IN TYPE99 \# 0");
    check_same("host.example.com. 300 IN SSHFP 4 2 c0ffee");
    check_same("_443._tcp.example.com. 300 IN TLSA 3 1 1 c0ffee");
    check_same(r"host.example.com. 300 IN SSHFP \# 2 0402");
    check_same(r"_443._tcp.example.com. 300 IN TLSA \# 3 030101");
    check(
        r"example.com. 300 IN A \# 4 C0 00 02 01",
        "example.com. 300 IN A 192.0.2.1",
    );
    check(
        "WWW.example.com 300 a 192.0.2.1",
        "www.example.com. 300 IN A 192.0.2.1",
    );
    check("a. 1 IN TXT bare words", r#"a. 1 IN TXT "bare" "words""#);
    check(r"a\032b. 1 IN CNAME c\032d.", r"a\032b. 1 IN CNAME c\032d.");
}

#[test]
fn services_are_read_and_printed_as_rfc_9460_shows() {
    check_same("example.com. 300 IN HTTPS 0 svc.example.net.");
    check_same("example.com. 300 IN HTTPS 1 .");
    check_same("_dns.example.com. 300 IN SVCB 1 dns.example.com. alpn=\"dot\" port=8853");
    check_same(
        "a. 1 IN HTTPS 1 b. mandatory=alpn,ipv4hint alpn=\"h2,h3\" no-default-alpn port=443 \
         ipv4hint=192.0.2.1,192.0.2.2 ech=Zm9v ipv6hint=2001:db8::1",
    );
    check(
        "a. 1 IN SVCB 16 b. ipv4hint=192.0.2.1 mandatory=ipv4hint,alpn alpn=h2,h3-19",
        "a. 1 IN SVCB 16 b. mandatory=alpn,ipv4hint alpn=\"h2,h3-19\" ipv4hint=192.0.2.1",
    );
    check_same(r#"a. 1 IN SVCB 1 b. key667="hello\210qoo""#);
    check_same(r#"a. 1 IN SVCB 16 b. alpn="f\\\\oo\\,bar,h2""#);
    check(
        r#"a. 1 IN SVCB 1 b. dohpath="/q{?dns}""#,
        r#"a. 1 IN SVCB 1 b. key7="/q{?dns}""#,
    );
    check(
        r"a. 1 IN SVCB 1 b. key2",
        "a. 1 IN SVCB 1 b. no-default-alpn",
    );
    // A value that is not of its key's form is carried as it is.
    check_same(r#"a. 1 IN SVCB 1 b. key3="\000""#);
}

#[test]
fn problems_of_services_name_the_key() {
    for (params, expected) in [
        ("alpn=", "the value of a parameter is missing: write it"),
        (
            "alpn=\"\"",
            "alpn is not a list of protocols: write some such as h2,h3",
        ),
        (
            "port=70000",
            "port is not a port: write a whole number from 0 to 65535",
        ),
        (
            "ipv4hint=2001:db8::1",
            "ipv4hint is not a list of IPv4 addresses: write some such as 192.0.2.1,192.0.2.2",
        ),
        (
            "ech=x",
            "ech is not base64: write what the server gives out",
        ),
        ("port=1 port=2", "port stands twice: write it once"),
        (
            "alpm=h2",
            "alpm is not a key: write one such as alpn, port or key65400",
        ),
    ] {
        check(&format!("a. 1 IN HTTPS 1 b. {params}"), expected);
    }
    for (data, expected) in [
        (
            "1 b. mandatory=alpn port=1",
            "mandatory names a key that is not set: name keys that are, and not mandatory itself",
        ),
        (
            "1 b. no-default-alpn",
            "no-default-alpn needs alpn: write the protocols too",
        ),
        (
            "0 b. port=1",
            "port says nothing beside priority 0, which makes an alias: remove it, or write another priority",
        ),
        ("1 b. mandatory=port port=1", ""),
    ] {
        let Ok(RecordData::Svcb(svcb)) = RecordData::parse(RecordType::Svcb, data) else {
            unreachable!("it is read, whatever it says: {data}");
        };
        let problem = svcb.check().err();
        assert_eq!(
            problem.map_or_else(String::new, |one| one.to_string()),
            expected
        );
    }
    check(
        "a. 1 IN TLSA 3 1 1 c0ffe",
        "the certificate association data is not hexadecimal: write pairs of the digits 0 to 9 and a to f",
    );
    check(
        "a. 1 IN SSHFP 256 1 c0ffee",
        "algorithm is \"256\": write a whole number from 0 to 255",
    );
}

#[test]
fn problems_name_the_field_and_what_to_do() {
    check(
        "a. 1 IN A 192.0.2.256",
        "\"192.0.2.256\" is not an IPv4 address: write one such as 192.0.2.1",
    );
    check(
        "a. 1 IN A 2001:db8::1",
        "\"2001:db8::1\" is not an IPv4 address: write one such as 192.0.2.1",
    );
    check(
        "a. 1 IN AAAA 192.0.2.1",
        "\"192.0.2.1\" is not an IPv6 address: write one such as 2001:db8::1",
    );
    check(
        "a. 1 IN A 192.0.2.1 x",
        "\"x\" is more than the type takes: remove it",
    );
    check(
        "a. 1 IN MX ten b.",
        "preference is \"ten\": write a whole number from 0 to 65535",
    );
    check(
        "a. 1 IN MX +1 b.",
        "preference is \"+1\": write a whole number from 0 to 65535",
    );
    check("a. 1 IN MX 10", "the mail server is missing: write it");
    check(
        "a. 2147483648 IN A 192.0.2.1",
        "TTL is \"2147483648\": write a whole number from 0 to 2147483647",
    );
    check(
        "a. 1 IN CNAME b..c",
        "\"b..c\" has an empty label: remove the extra dot",
    );
    check(
        "a. 1 IN CAA 0 no-tag x",
        "\"no-tag\" is not a CAA tag: write letters and digits, such as issue or iodef",
    );
    check(
        "a. 1 IN BOGUS x",
        "\"BOGUS\" is not a record type: write one such as A, AAAA, CNAME or TXT",
    );
    check("a. 1 IN TXT", "the text is missing: write it");
    check(
        "a. 1 IN TXT \"open",
        "\"\\\"open\" has quotes that do not close or a bad escape: write a quote as \\\" and a \
         backslash as \\\\",
    );
    check(
        r"a. 1 IN A \# 3 c00002",
        "the bytes are not the data of A records",
    );
    check(
        r"a. 1 IN A \# 4 c0000",
        "the bytes are not the data of A records",
    );
    check("", "the owner name is missing: write it");
}

#[test]
fn text_is_cut_at_255_bytes() {
    let text = Text::from_bytes(&[b'x'; 600]);
    assert_eq!(
        text.strings().map(<[u8]>::len).collect::<Vec<_>>(),
        [255, 255, 90]
    );
    assert_eq!(text.to_bytes(), [b'x'; 600]);
    assert_eq!(Text::from_bytes(b"").as_wire(), [0]);
    assert_eq!(Text::from_strings::<&[u8]>(&[]).as_wire(), [0]);
    let too_long = RecordData::Txt(Text::from_bytes(&vec![b'x'; 65_535]));
    assert_eq!(
        too_long.checked_len(),
        Err(DataProblem::TooLong { length: 65_792 })
    );
}

#[test]
fn serials_compare_around_the_circle() {
    assert!(Serial(1).newer_than(Serial(0)));
    assert!(Serial(0).newer_than(Serial(u32::MAX)));
    assert!(Serial(u32::MAX).next() == Serial(0));
    assert!(!Serial(5).newer_than(Serial(5)));
    assert_eq!(Serial(0).partial_cmp(&Serial(1 << 31)), None);
    assert_eq!(Serial(5).partial_cmp(&Serial(5)), Some(Ordering::Equal));
}

#[test]
fn sets_are_sorted_and_hash_what_reaches_the_wire() {
    let set = |ttl, addresses: &[&str]| {
        let data = addresses
            .iter()
            .map(|text| RecordData::parse(RecordType::A, text));
        RecordSet::new(ttl, data.collect::<Result<Vec<_>, _>>().expect("addresses"))
    };
    let key = |text| RecordKey::new(Name::parse(text).expect("a name"), RecordType::A);
    let one = set(300, &["192.0.2.2", "192.0.2.1", "192.0.2.2"]);
    assert_eq!(one, set(300, &["192.0.2.1", "192.0.2.2"]));
    assert_eq!(one.len(), 2);
    assert_eq!(one.hash(&key("www.example.com")).len(), 64);
    assert_eq!(
        one.hash(&key("www.example.com")),
        one.hash(&key("WWW.example.com."))
    );
    assert_ne!(
        one.hash(&key("www.example.com")),
        one.hash(&key("w.example.com"))
    );
    let other = set(301, &["192.0.2.1", "192.0.2.2"]);
    assert_ne!(
        one.hash(&key("www.example.com")),
        other.hash(&key("www.example.com"))
    );
}

#[test]
fn a_record_datum_stays_small() {
    // 100,000 standing records must fit a small budget, so growth here should be a decision.
    assert!(size_of::<RecordData>() <= 40, "{}", size_of::<RecordData>());
}

fn any_soa() -> impl Strategy<Value = Soa> {
    (any_name(), any_name(), any::<[u32; 5]>()).prop_map(|(mname, rname, numbers)| {
        let [serial, refresh, retry, expire, minimum] = numbers;
        Soa {
            mname,
            rname,
            serial,
            refresh,
            retry,
            expire,
            minimum,
        }
    })
}

fn any_data() -> impl Strategy<Value = RecordData> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let some_bytes = || proptest::collection::vec(any::<u8>(), 1..70);
    prop_oneof![
        any::<[u8; 4]>().prop_map(|octets| RecordData::A(octets.into())),
        any::<[u8; 16]>().prop_map(|octets| RecordData::Aaaa(octets.into())),
        any_name().prop_map(RecordData::Cname),
        any_name().prop_map(RecordData::Ns),
        any_name().prop_map(RecordData::Ptr),
        proptest::collection::vec(bytes(), 0..4)
            .prop_map(|strings| RecordData::Txt(Text::from_strings(&strings))),
        (any::<u16>(), any_name()).prop_map(|(preference, exchange)| RecordData::Mx {
            preference,
            exchange
        }),
        (any::<[u16; 3]>(), any_name()).prop_map(|([priority, weight, port], target)| {
            RecordData::Srv {
                priority,
                weight,
                port,
                target,
            }
        }),
        (any::<u8>(), "[a-zA-Z0-9]{1,20}", bytes()).prop_map(|(flags, tag, value)| {
            RecordData::Caa(Box::new(Caa {
                flags,
                tag: tag.into(),
                value: value.into(),
            }))
        }),
        (any::<[u8; 2]>(), some_bytes()).prop_map(|([algorithm, fingerprint_type], bytes)| {
            RecordData::Sshfp(Box::new(Sshfp {
                algorithm,
                fingerprint_type,
                fingerprint: bytes.into(),
            }))
        }),
        (any::<[u8; 3]>(), some_bytes()).prop_map(|([usage, selector, matching_type], bytes)| {
            RecordData::Tlsa(Box::new(Tlsa {
                usage,
                selector,
                matching_type,
                data: bytes.into(),
            }))
        }),
        any_svcb().prop_map(RecordData::Svcb),
        any_svcb().prop_map(RecordData::Https),
        any_soa().prop_map(|soa| RecordData::Soa(Box::new(soa))),
        (60_000u16.., bytes()).prop_map(|(rtype, bytes)| RecordData::Unknown {
            rtype,
            bytes: bytes.into()
        }),
    ]
}

fn any_svcb() -> impl Strategy<Value = Box<Svcb>> {
    let value = || proptest::collection::vec(any::<u8>(), 0..20);
    let params = proptest::collection::btree_map(0u16..12, value(), 0..5);
    (any::<u16>(), any_name(), params).prop_map(|(priority, target, params)| {
        let mut wire = Vec::new();
        for (key, value) in params {
            wire.extend_from_slice(&key.to_be_bytes());
            wire.extend_from_slice(&[0, u8::try_from(value.len()).expect("it is short")]);
            wire.extend_from_slice(&value);
        }
        Box::new(Svcb {
            priority,
            target,
            params: SvcParams::from_wire(&wire).expect("keys of a map increase"),
        })
    })
}

proptest! {
    #[test]
    fn printing_and_parsing_data_is_identity(data in any_data()) {
        prop_assert_eq!(RecordData::parse(data.rtype(), &data.to_string()), Ok(data));
    }

    #[test]
    fn wire_round_trips(data in any_data()) {
        prop_assert_eq!(RecordData::from_wire(data.rtype().code(), &data.to_wire()), Ok(data));
    }

    #[test]
    fn printing_and_parsing_lines_is_identity(
        name in any_name(), ttl in 0..=TTL_MAX, data in any_data(),
    ) {
        let record = Record { name, ttl, data };
        let line = record.to_string();
        prop_assert!(!line.contains('\n'), "one record is one line");
        prop_assert_eq!(line.parse(), Ok(record));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", code in any::<u16>()) {
        let _ = RecordData::parse(RecordType::from_code(code), &text);
        let _ = text.parse::<Record>();
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), code in 0u16..300) {
        if let Ok(data) = RecordData::from_wire(code, &bytes) {
            let again = RecordData::from_wire(code, &data.to_wire());
            prop_assert_eq!(again, Ok(data));
        }
    }

    #[test]
    fn types_print_and_parse(code in any::<u16>()) {
        let rtype = RecordType::from_code(code);
        prop_assert_eq!(rtype.code(), code);
        prop_assert_eq!(rtype.to_string().parse(), Ok(rtype));
    }
}

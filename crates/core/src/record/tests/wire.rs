//! Data at the limits of the wire, and data that is malformed there.

use std::sync::Arc;

use super::*;

/// The data of a line.
fn data(line: &str) -> RecordData {
    let record: Record = format!("a. 1 IN {line}").parse().expect(line);
    record.data
}

#[test]
fn every_type_is_read_from_what_was_written() {
    for line in [
        "SOA ns.a. root.a. 1 2 3 4 5",
        "TXT \"\" \"a b\"",
        "CAA 0 issue \"ca.example\"",
        "HTTPS 1 . mandatory=port port=443",
        "HTTPS 1 . no-default-alpn ipv6hint=2001:db8::1",
        "SVCB 0 b.",
    ] {
        let data = data(line);
        let read = RecordData::from_wire(data.rtype().code(), &data.to_wire());
        assert_eq!(read.as_ref(), Ok(&data), "{line}");
    }
}

#[test]
fn what_is_malformed_on_the_wire_is_refused() {
    for (rtype, bytes) in [
        (RecordType::Txt, &b""[..]),
        (RecordType::Txt, b"\x02a"),
        (RecordType::Caa, b"\x00\x01!value"),
        (RecordType::Caa, b"\x00\x00value"),
        (RecordType::Soa, b"\x00\x00\x00\x00\x00\x01"),
        (RecordType::Https, b"\x00\x01\x00\x00\x03\x00\x02\x01"),
        (
            RecordType::Https,
            b"\x00\x01\x00\x00\x03\x00\x02\x01\xbb\x00\x03\x00\x02\x01\xbb",
        ),
    ] {
        assert_eq!(
            RecordData::from_wire(rtype.code(), bytes),
            Err(DataProblem::Malformed { rtype }),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_parameter_that_would_be_written_otherwise_is_carried_as_it_is() {
    for (line, printed) in [
        // Mandatory keys that do not increase, and none at all.
        (
            r"HTTPS 1 . key0=\000\003\000\001",
            r#"1 . key0="\000\003\000\001""#,
        ),
        ("HTTPS 1 . key0", "1 . key0"),
        ("HTTPS 1 . key4=\"abc\"", "1 . key4=\"abc\""),
        ("HTTPS 1 . key2=x", "1 . key2=\"x\""),
        (r"HTTPS 1 . key1=\000", r#"1 . key1="\000""#),
    ] {
        assert_eq!(data(line).to_string(), printed);
    }
    for key in ["key00", "keyx", "key0x", "key65536"] {
        assert!(
            format!("a. 1 IN HTTPS 1 . {key}=1")
                .parse::<Record>()
                .is_err(),
            "{key}"
        );
    }
}

#[test]
fn a_blank_behind_a_backslash_does_not_end_a_name() {
    let name = r"a\032b.example.";
    assert_eq!(data(r"CNAME a\ b.example.").to_string(), name);
    assert!(r"a. 1 IN CNAME a\\ b.example.".parse::<Record>().is_err());
}

#[test]
fn a_quote_inside_a_bare_string_is_refused() {
    assert!("a. 1 IN TXT abc\"def\"".parse::<Record>().is_err());
}

#[test]
fn escapes_of_a_text_stand_for_bytes() {
    assert_eq!(unescaped(r"a\098\c").as_deref(), Ok(&b"abc"[..]));
    assert!(unescaped(r"a\25").is_err());
}

#[test]
fn signatures_stand_beside_a_cname_and_nothing_else_does() {
    let beside = |text: &str| {
        text.parse::<RecordType>()
            .map(RecordType::stands_beside_cname)
    };
    assert_eq!(beside("TYPE46"), Ok(true));
    assert_eq!(beside("TYPE47"), Ok(true));
    assert_eq!(beside("A"), Ok(false));
    assert_eq!(beside("TYPE48"), Ok(false));
}

#[test]
fn a_set_is_in_order_whatever_it_is_made_of() {
    let (one, two) = (data("A 192.0.2.1"), data("A 192.0.2.2"));
    let sorted = [one.clone(), two.clone()];
    for shared in [
        vec![one.clone(), two.clone()],
        vec![two.clone(), one.clone()],
        vec![one.clone(), one.clone(), two.clone()],
    ] {
        assert_eq!(RecordSet::sharing(5, &Arc::from(shared)).data(), sorted);
    }
    let doubled = Arc::from(vec![one.clone(), one.clone()]);
    assert_eq!(RecordSet::sharing(5, &doubled).len(), 1);
    let set = RecordSet::new(5, [two.clone()]);
    assert!(set.contains(&two) && !set.contains(&one));
}

#[test]
fn data_is_as_long_as_a_message_can_carry_and_no_longer() {
    let of_len = |length: usize| {
        let raw = |bytes: usize| vec![b'a'; bytes].into_boxed_slice();
        let svcb = Svcb {
            priority: 1,
            target: Name::parse("b.example").expect("a name"),
            // A key, the length of its value, and the value.
            params: SvcParams::new([SvcParam::Other(7, raw(length - 2 - 11 - 4))])
                .expect("one parameter"),
        };
        [
            RecordData::Caa(Box::new(Caa {
                flags: 0,
                tag: "issue".into(),
                value: raw(length - 7),
            })),
            RecordData::Sshfp(Box::new(Sshfp {
                algorithm: 1,
                fingerprint_type: 1,
                fingerprint: raw(length - 2),
            })),
            RecordData::Tlsa(Box::new(Tlsa {
                usage: 1,
                selector: 1,
                matching_type: 1,
                data: raw(length - 3),
            })),
            RecordData::Https(Box::new(svcb)),
            RecordData::Unknown {
                rtype: 99,
                bytes: raw(length),
            },
        ]
    };
    for data in of_len(RDATA_LEN_MAX) {
        assert_eq!(data.to_wire().len(), RDATA_LEN_MAX);
        assert!(data.checked_len().is_ok());
    }
    for data in of_len(RDATA_LEN_MAX + 1) {
        let length = RDATA_LEN_MAX + 1;
        assert_eq!(data.checked_len(), Err(DataProblem::TooLong { length }));
    }
}

#[test]
fn a_value_that_is_not_of_its_keys_form_is_told_what_to_write() {
    for (param, said) in [
        ("mandatory=nothing", "mandatory is not a list of keys"),
        ("no-default-alpn=1", "no-default-alpn takes no value"),
        (
            "ipv6hint=192.0.2.1",
            "ipv6hint is not a list of IPv6 addresses",
        ),
    ] {
        let problem = format!("a. 1 IN HTTPS 1 . {param}").parse::<Record>();
        let problem = problem.map_err(|problem| problem.to_string());
        assert!(
            problem
                .as_ref()
                .is_err_and(|problem| problem.contains(said)),
            "{problem:?}"
        );
    }
}

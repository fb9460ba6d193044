use proptest::prelude::*;

use super::*;

/// Parses and prints; a problem prints as its message.
fn check(text: &str, expected: &str) {
    let printed = match Name::parse(text) {
        Ok(name) => name.to_string(),
        Err(problem) => problem.to_string(),
    };
    assert_eq!(printed, expected, "input {text:?}");
}

fn check_in(text: &str, zone: &str, expected: &str) {
    let zone = Name::parse(zone).expect("the test's zone is a name");
    let printed = match Name::parse_in(text, &zone) {
        Ok(name) => name.to_string(),
        Err(problem) => problem.to_string(),
    };
    assert_eq!(printed, expected, "input {text:?}");
}

#[test]
fn names_are_absolute_and_lower_case() {
    check("www.Example.COM", "www.example.com.");
    check("www.example.com.", "www.example.com.");
    check("_dmarc.example.com", "_dmarc.example.com.");
    check("0/25.2.0.192.in-addr.arpa", "0/25.2.0.192.in-addr.arpa.");
    check(".", ".");
}

#[test]
fn escapes_are_read_and_written() {
    check(r"a\.b.example.com", r"a\.b.example.com.");
    check(r"a\046b.example.com", r"a\.b.example.com.");
    check(r"a\032b.example.com", r"a\032b.example.com.");
    check(r"\000\255.example.com", r"\000\255.example.com.");
    check(r"\065.example.com", "a.example.com.");
    check(r"a\@b.example.com", r"a\@b.example.com.");
    check(r"end\.", r"end\..");
}

#[test]
fn unicode_labels_become_a_labels() {
    check("bücher.example", "xn--bcher-kva.example.");
    check("BÜCHER.Example.", "xn--bcher-kva.example.");
    check("例え。テスト", "xn--r8jz45g.xn--zckzah.");
    check("_sip.bücher.example", "_sip.xn--bcher-kva.example.");
    check("*.bücher.example", "*.xn--bcher-kva.example.");
}

#[test]
fn a_wildcard_is_the_whole_leftmost_label() {
    check("*.example.com", "*.example.com.");
    check(r"a.\*.example.com", r"a.\042.example.com.");
    let message =
        "contains \"*\": a wildcard must be the whole leftmost label, as in *.example.com";
    check("a.*.example.com", &format!("label \"*\" {message}"));
    check("a*.example.com", &format!("label \"a*\" {message}"));
    assert!(Name::parse("*.example.com").is_ok_and(|name| name.is_wildcard()));
    assert!(Name::parse("a.example.com").is_ok_and(|name| !name.is_wildcard()));
}

#[test]
fn problems_say_what_to_do() {
    check(
        "",
        "the name is empty: write a name such as www.example.com",
    );
    check(
        "@",
        "\"@\" stands for the zone's own name and means nothing here: write the full name",
    );
    check("a..b", "\"a..b\" has an empty label: remove the extra dot");
    check(".a", "\".a\" has an empty label: remove the extra dot");
    check("a..", "\"a..\" has an empty label: remove the extra dot");
    check(
        "a b",
        "\"a b\" contains ' ': remove it, or write it as \\032",
    );
    check(
        "a\u{7}b",
        "\"a\\u{7}b\" contains '\\u{7}': remove it, or write it as \\007",
    );
    check(
        "me@example.com",
        "\"me@example.com\" contains '@': remove it, or write it as \\064",
    );
    let escape =
        "has a bad escape: after a backslash write one character, or three digits up to 255";
    check(r"a\256b", &format!("\"a\\\\256b\" {escape}"));
    check(r"a\25", &format!("\"a\\\\25\" {escape}"));
    check("a\\", &format!("\"a\\\\\" {escape}"));
    check(
        "\u{200d}x.example",
        "label \"\\u{200d}x\" is not a valid internationalised label: check its characters, or \
         write its xn-- form",
    );
}

#[test]
fn limits_are_those_of_rfc_1035() {
    let label = "a".repeat(63);
    check(&label, &format!("{label}."));
    let long = "a".repeat(64);
    check(
        &long,
        &format!("label \"{long}\" has 64 bytes, the limit is 63: shorten it"),
    );
    // Three labels of 63 and one of 61 fill 255 bytes with their lengths and the root.
    let full = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    check(&full, &format!("{full}."));
    check(
        &format!("{full}b"),
        "the name has 256 bytes, the limit is 255: shorten it",
    );
    check_in(
        &label,
        &full,
        "the name has 319 bytes, the limit is 255: shorten it",
    );
}

#[test]
fn huge_texts_are_refused_with_short_messages() {
    for text in [
        "a".repeat(2_000_000),
        "ü".repeat(1_000_000),
        "a.".repeat(1_000_000),
    ] {
        let problem = Name::parse(&text).expect_err("far beyond every limit");
        assert!(problem.to_string().len() < 400, "{problem}");
    }
}

#[test]
fn names_in_a_zone_are_relative_unless_they_end_with_a_dot() {
    check_in("@", "example.com", "example.com.");
    check_in("", "example.com", "example.com.");
    check_in("www", "example.com", "www.example.com.");
    check_in(
        "www.example.com",
        "example.com",
        "www.example.com.example.com.",
    );
    check_in("www.example.com.", "example.com", "www.example.com.");
    check_in(r"a\.", "example.com", r"a\..example.com.");
    check_in("*", "example.com", "*.example.com.");
    check_in("*.dev", "example.com", "*.dev.example.com.");
    check_in(
        "www.example.org.",
        "example.com",
        "www.example.org. is not in zone example.com.: leave out the trailing dot to make it \
         relative to the zone",
    );
}

#[test]
fn a_name_lies_in_its_ancestors_only() {
    let name = |text: &str| Name::parse(text).expect("a name");
    let www = name("www.example.com");
    for zone in ["www.example.com", "example.com", "com", "."] {
        assert!(www.is_in(&name(zone)), "{zone}");
    }
    for zone in [
        "ample.com",
        "example.org",
        "a.www.example.com",
        "xample.com",
    ] {
        assert!(!www.is_in(&name(zone)), "{zone}");
    }
    // The bytes of "\003com\000" end this name too, but inside a label.
    assert!(!name(r"a\003com").is_in(&name("com")));
    assert_eq!(www.parent(), Some(name("example.com")));
    assert_eq!(Name::root().parent(), None);
    assert_eq!(
        www.labels().collect::<Vec<_>>(),
        [b"www".as_slice(), b"example", b"com"]
    );
}

#[test]
fn malformed_wire_is_refused() {
    for bytes in [
        b"".as_slice(),
        b"\x03ww",
        b"\x01a",
        b"\x00\x00",
        b"\xc0\x0c",
        &[63; 256],
    ] {
        assert_eq!(
            Name::from_wire(bytes),
            Err(NameProblem::Malformed),
            "{bytes:?}"
        );
    }
}

/// Any name at all, from its wire form.
pub(crate) fn any_name() -> impl Strategy<Value = Name> {
    let byte =
        prop_oneof![4 => proptest::char::range('a', 'z').prop_map(|c| c as u8), 1 => any::<u8>()];
    let label = proptest::collection::vec(byte, 1..=20);
    proptest::collection::vec(label, 0..=6).prop_map(|labels| {
        let mut wire = Vec::new();
        for label in labels {
            wire.push(u8::try_from(label.len()).expect("at most 20"));
            wire.extend(label);
        }
        wire.push(0);
        Name::from_wire(&wire).expect("built as wire form")
    })
}

proptest! {
    #[test]
    fn printing_and_parsing_is_identity(name in any_name()) {
        prop_assert_eq!(Name::parse(&name.to_string()), Ok(name.clone()));
        prop_assert_eq!(Name::parse_in(&name.to_string(), &Name::root()), Ok(name.clone()));
        prop_assert_eq!(Name::from_wire(name.as_wire()), Ok(name));
    }

    #[test]
    fn no_text_panics_and_what_parses_is_valid(text in "\\PC{0,80}|[a-z.*\\\\0-9@]{0,300}") {
        if let Ok(name) = Name::parse(&text) {
            prop_assert_eq!(Name::from_wire(name.as_wire()), Ok(name.clone()));
            prop_assert_eq!(Name::parse(&name.to_string()), Ok(name));
        }
    }
}

#[test]
fn a_name_written_in_full_without_a_dot_has_its_zone_twice() {
    let zone = Name::parse("shop.example").expect("it is a name");
    for (text, repeats) in [
        ("www.shop.example", true),
        ("shop.example", true),
        ("www", false),
        ("www.shop.example.", false),
        ("myshop.example", false),
        ("www.shop", false),
        ("@", false),
    ] {
        let name = Name::parse_in(text, &zone).expect(text);
        assert_eq!(name.repeats(&zone), repeats, "{text}: {name}");
    }
    let root = Name::root();
    assert!(!zone.repeats(&root));
    let deeper = Name::parse("a.shop.example").expect("it is a name");
    let twice = Name::parse_in("www.a.shop.example", &deeper).expect("it is a name");
    assert!(twice.repeats(&deeper));
}

#[test]
fn the_limits_of_the_wire_form_are_those_of_rfc_1035() {
    let wire = |lengths: &[u8]| {
        let label = |length: &u8| [vec![*length], vec![b'a'; usize::from(*length)]].concat();
        let labels: Vec<u8> = lengths.iter().flat_map(label).collect();
        Name::from_wire(&[labels, vec![0]].concat()).map(|name| name.as_wire().len())
    };
    assert_eq!(wire(&[63]), Ok(65));
    assert_eq!(wire(&[63, 63, 63, 61]), Ok(255));
    for too_long in [
        &[64][..],
        &[65],
        &[191],
        &[63, 63, 63, 62],
        &[63, 63, 63, 63],
    ] {
        assert_eq!(wire(too_long), Err(NameProblem::Malformed), "{too_long:?}");
    }
}

#[test]
fn a_map_of_names_is_asked_by_their_wire_form() {
    let name = Name::parse("www.example.com").expect("a name");
    assert_eq!(format!("{name:?}"), "www.example.com.");
    let map = std::collections::HashMap::from([(name.clone(), 1)]);
    assert_eq!(map.get(name.as_wire()), Some(&1));
}

#[test]
fn what_unicode_is_mapped_to_is_judged_like_what_is_typed() {
    assert!(Name::parse("a＠b.example").is_err());
    assert!(Name::parse(r"a\.b c.example").is_err());
}

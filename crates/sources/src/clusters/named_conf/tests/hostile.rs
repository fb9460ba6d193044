//! Whatever an author types, the statements stay those that we write.

use proptest::prelude::*;

use super::*;

/// Every text of a spec that reaches a file: a name, two values that are fine, and how it is set.
type Place = (&'static str, [&'static str; 2], fn(&mut NamedConf, String));

const PLACES: [Place; 17] = [
    ("allowQuery", ELEMENTS, |conf, text| {
        global(conf).allow_query = Some(vec![text]);
    }),
    ("allowTransfer", ELEMENTS, |conf, text| {
        global(conf).allow_transfer = Some(vec![text]);
    }),
    ("allowTransfer of the role", ELEMENTS, |conf, text| {
        conf.allow_transfer = vec![text];
    }),
    ("listenOn", ELEMENTS, |conf, text| {
        global(conf).listen_on = Some(vec![text]);
    }),
    ("listenOnV6", ELEMENTS, |conf, text| {
        global(conf).listen_on_v6 = Some(vec![text]);
    }),
    ("forwarders", ["192.0.2.9", "::1"], |conf, text| {
        global(conf).forwarders = Some(vec![text]);
    }),
    ("an access list", ELEMENTS, |conf, text| {
        conf.acls.insert("office".to_owned(), vec![text]);
    }),
    ("an access list's name", ["one", "two"], |conf, text| {
        conf.acls.insert(text, vec!["any".to_owned()]);
    }),
    ("the key", ["one", "two"], |conf, text| {
        conf.keys[0].name = text;
    }),
    ("the key before", ["one", "two"], |conf, text| {
        conf.keys.push(key(KeySlot::Previous, &text));
    }),
    ("a further key", ["one", "two"], |conf, text| {
        conf.keys.push(key(KeySlot::Further(0), &text));
    }),
    ("policy", ["one", "two"], |conf, text| {
        signing(conf).policy = Some(text);
    }),
    ("algorithm", ["ED448", "RSASHA256"], |conf, text| {
        signing(conf).algorithm = Some(text);
    }),
    ("kskLifetime", ["1d", "2d"], |conf, text| {
        signing(conf).ksk_lifetime = Some(text);
    }),
    ("zskLifetime", ["1d", "2d"], |conf, text| {
        signing(conf).zsk_lifetime = Some(text);
    }),
    ("nsec3Salt", ["aa", "aabb"], |conf, text| {
        signing(conf).nsec3_salt = Some(text);
    }),
    ("version", ["9.18", "9.18.49"], |conf, text| {
        conf.version = Some(text);
    }),
];

const ELEMENTS: [&str; 2] = ["192.0.2.9", "any"];

/// What an attack, or a value that looks like one, is made of.
const PIECES: [&str; 40] = [
    "\"",
    "'",
    "{",
    "}",
    ";",
    "};",
    "\n",
    "\r",
    "\t",
    " ",
    "\0",
    "\\",
    "/*",
    "*/",
    "//",
    "#",
    "include",
    "\"/etc/passwd\"",
    "/",
    "!",
    "!!",
    "any",
    "none",
    "key",
    "key x",
    "10.0.0.0/8",
    "192.0.2.1",
    "::1",
    "2001:db8::/32",
    "a",
    "Z",
    "0",
    "-",
    "_",
    ".",
    "é",
    "\u{202e}",
    "\u{2028}",
    "unlimited",
    "d",
];

fn global(conf: &mut NamedConf) -> &mut Bind9Config {
    conf.global.get_or_insert_default()
}

fn signing(conf: &mut NamedConf) -> &mut bindery_api::SigningConfig {
    let dnssec = global(conf).dnssec.get_or_insert_default();
    dnssec.signing.get_or_insert_default()
}

/// Every word, text and sign of a file as `named` reads it, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if let Some(after) = rest.strip_prefix("/*") {
            after.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") || first == '#' {
            rest.find('\n').unwrap_or(rest.len())
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let len = match first {
                '{' | '}' | ';' => 1,
                // What is excluded is one element with its sign, in quotes or not.
                '!' if rest[1..].starts_with('"') => {
                    rest[2..].find('"').map_or(rest.len(), |end| end + 3)
                }
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                _ => rest
                    .find(|c: char| c.is_whitespace() || "{};\"".contains(c))
                    .unwrap_or(rest.len()),
            };
            tokens.push(rest[..len].to_owned());
            len
        };
        rest = &rest[len..];
    }
    tokens
}

/// The tokens of all files with a text in one place; nothing if it is refused.
fn written(place: &Place, text: &str) -> Option<Vec<String>> {
    let cluster = "global: {recursion: true, dnssec: {signing: {enabled: true, nsec3: true, kskLifetime: 9d}}}";
    let mut conf = conf(cluster, None);
    (place.2)(&mut conf, text.to_owned());
    let files = render(&conf).ok()?;
    Some(files.values().flat_map(|text| tokens(text)).collect())
}

/// Whether a text is refused, or changes nothing but the values that stand where fine values stand.
fn stays_in_place(place: &Place, text: &str) -> Result<(), TestCaseError> {
    let Some(found) = written(place, text) else {
        return Ok(());
    };
    // An element of a list may also be left without a value, and the version chooses options of ours.
    let [one, other] = place.1.map(|fine| written(place, fine).unwrap());
    if place.0 == "version" {
        let known: Vec<&String> = found.iter().filter(|token| !one.contains(token)).collect();
        prop_assert!(known.is_empty(), "{text:?} brought {known:?}");
        return Ok(());
    }
    prop_assert_eq!(found.len(), one.len(), "{:?} in {}", text, place.0);
    for (at, token) in found.iter().enumerate() {
        let is_value = one[at] != other[at];
        prop_assert!(
            is_value || *token == one[at],
            "{text:?} in {} gave {token}",
            place.0
        );
        let has_sign = token
            .trim_start_matches('!')
            .trim_matches('"')
            .contains(['{', '}', ';', '"', '\\', '\n', '#']);
        prop_assert!(
            !is_value || !has_sign,
            "{text:?} in {} gave {token}",
            place.0
        );
    }
    Ok(())
}

#[test]
fn the_tokenizer_reads_what_named_reads() {
    let text = "a \"b; }\" { !10.0.0.0/8; }; // c }\n/* d; */ e;# f\ng";
    let expected = [
        "a",
        "\"b; }\"",
        "{",
        "!10.0.0.0/8",
        ";",
        "}",
        ";",
        "e",
        ";",
        "g",
    ];
    assert_eq!(tokens(text), expected);
}

#[test]
fn fine_values_are_written_where_they_belong() {
    for place in &PLACES {
        for fine in place.1 {
            assert!(written(place, fine).is_some(), "{fine} in {}", place.0);
        }
        let [one, other] = place.1.map(|fine| written(place, fine).unwrap());
        assert!(
            one != other || place.0 == "version",
            "{} is not written",
            place.0
        );
    }
}

proptest! {
    #[test]
    fn no_text_made_for_it_gets_out_of_its_place(
        place in prop::sample::select(PLACES.to_vec()),
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6),
    ) {
        stays_in_place(&place, &pieces.concat())?;
    }

    #[test]
    fn no_text_that_begins_well_gets_out_of_its_place(
        place in prop::sample::select(PLACES.to_vec()),
        fine in 0_usize..2,
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..4),
    ) {
        let text = place.1[fine].to_owned() + &pieces.concat();
        stays_in_place(&place, &text)?;
    }

    #[test]
    fn no_text_at_all_gets_out_of_its_place(
        place in prop::sample::select(PLACES.to_vec()),
        text in any::<String>(),
    ) {
        stays_in_place(&place, &text)?;
    }
}

#[test]
fn a_list_that_is_excluded_is_one_element() {
    assert_eq!(tokens("{ !\"include\"; }"), ["{", "!\"include\"", ";", "}"]);
}

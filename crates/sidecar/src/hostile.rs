//! Whatever a request says, it stays the value that it is.

use bindery_core::Record;
use proptest::prelude::*;

use crate::content;
use crate::statement::{self, ZoneStatement};
use crate::wire::{NewRecord, NewSoa, NewZoneConfig};

/// What breaks out of a configuration or a zone file where it is let.
const HOSTILE: [&str; 24] = [
    "\"",
    "\\\"",
    "\\",
    ";",
    "};",
    "{",
    "}",
    "\n",
    "\r\n",
    "\0",
    "$INCLUDE /etc/passwd",
    "$ORIGIN .",
    "$GENERATE 1-9 a",
    "(",
    ")",
    "/*",
    "*/",
    "//",
    "#",
    "..",
    "/",
    "@",
    "%00",
    "any; };",
];

/// Texts of such pieces and of plain ones.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
        "[a-z0-9.\\- ]{0,8}",
        proptest::sample::select(vec!["192.0.2.1", "example.com.", "key k", "10 mail.test."])
            .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn rtype() -> impl Strategy<Value = String> {
    let known = ["A", "AAAA", "CNAME", "MX", "TXT", "NS", "PTR", "SRV", "CAA"];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => text(),
    ]
}

fn config(names: &[String], records: Vec<NewRecord>) -> NewZoneConfig {
    NewZoneConfig {
        ttl: 300,
        soa: NewSoa {
            primary_ns: names
                .first()
                .cloned()
                .unwrap_or_else(|| "ns.example.com.".to_owned()),
            admin_email: names
                .last()
                .cloned()
                .unwrap_or_else(|| "root@example.com".to_owned()),
            serial: Some(1),
            refresh: 1,
            retry: 1,
            expire: 1,
            negative_ttl: 1,
        },
        name_servers: vec!["ns.example.com.".to_owned()],
        name_server_ips: std::collections::BTreeMap::new(),
        records,
        also_notify: None,
        allow_transfer: None,
        primaries: None,
        dnssec_policy: None,
        inline_signing: None,
    }
}

proptest! {
    /// Each record is one line, which reads as that record and is the zone's.
    #[test]
    fn a_zone_file_has_the_records_that_were_asked_for_and_no_other_line(
        names in proptest::collection::vec(text(), 0..2),
        rows in proptest::collection::vec((text(), rtype(), text(), any::<Option<u16>>()), 0..4),
    ) {
        let zone = content::zone_name("example.com").unwrap();
        let rows = rows.into_iter().map(|(name, rtype, value, priority)| NewRecord {
            name, rtype, value, ttl: None, priority,
        });
        let config = config(&names, rows.collect());
        if let Ok(records) = content::records(&zone, &config, 1) {
            let file = content::zone_file(&records);
            let lines: Vec<&str> = file.split('\n').collect();
            prop_assert_eq!(lines.len(), records.len() + 2);
            for (line, record) in lines[1..].iter().zip(&records) {
                let read: Record = line.parse().unwrap();
                prop_assert_eq!(&read, record);
                prop_assert!(read.name.is_in(&zone));
                prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", line);
            }
        }
    }

    /// Each value stays in its clause.
    #[test]
    fn a_statement_has_the_clauses_that_were_set_and_no_other(value in text(), path in text()) {
        let list = [value.clone()];
        let mut given = ZoneStatement::default();
        given.set("file", statement::quoted(&path.replace('\n', "")));
        let mut words = vec!["file"];
        let mut set = |word, rest: Option<String>| {
            if let Some(rest) = rest {
                given.set(word, rest);
                words.push(word);
            }
        };
        set("also-notify", statement::servers("alsoNotify", &list).ok());
        set("allow-transfer", statement::clients("allowTransfer", &list).ok());
        set("dnssec-policy", statement::word("dnssecPolicy", &value).ok().map(str::to_owned));
        let shown = format!("zone \"example.com\" IN {given}");
        let read = ZoneStatement::parse(&shown).unwrap();
        prop_assert_eq!(&read, &given);
        prop_assert!(!shown.contains("type"));
    }

    /// A zone's name is a name, and its file lies in the folder.
    #[test]
    fn a_zone_name_leads_nowhere_else(value in text()) {
        if let Ok(zone) = content::zone_name(&value) {
            let file = bindery_dns::local::zone_file_name(&zone);
            prop_assert!(!file.contains('/') && !file.contains('\0') && file != ".." );
            let quoted = bindery_bind::quoted_zone(&zone);
            let inner = quoted.trim_matches('"');
            prop_assert!(!inner.contains(['"', ';', '{', '}', ' ', '\n']), "{}", quoted);
        }
    }
}

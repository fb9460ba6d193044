//! What a request asks to be in a zone, as records: everything is read as the value that it is, so nothing
//! can become a line of its own in a zone file.

use std::net::IpAddr;

use bindery_core::{Name, NameProblem, Record, RecordData, RecordType, Soa, Text};
use thiserror::Error;

use crate::wire::{NewRecord, NewSoa, NewZoneConfig};

/// The longest name that a zone may have, as text.
const ZONE_NAME_LEN_MAX: usize = 253;

/// The types that records may have, as in bindcar.
const TYPES: [RecordType; 9] = [
    RecordType::A,
    RecordType::Aaaa,
    RecordType::Cname,
    RecordType::Mx,
    RecordType::Txt,
    RecordType::Ns,
    RecordType::Ptr,
    RecordType::Srv,
    RecordType::Caa,
];

/// What is wrong with what a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ContentProblem {
    /// The name of a zone has a letter that it must not have, or is too long.
    #[error(
        "zone name {text:?} may have letters, digits, `.`, `-`, `_` and `/` only, and 253 at most"
    )]
    ZoneLetters {
        /// The name.
        text: String,
    },
    /// A name is none.
    #[error("{field} {text:?} is no name: {problem}")]
    BadName {
        /// Where it stands.
        field: &'static str,
        /// The name.
        text: String,
        /// Why not.
        problem: NameProblem,
    },
    /// The type is not one that can be written.
    #[error(
        "record type {text:?} is not supported; use A, AAAA, CNAME, MX, TXT, NS, PTR, SRV or CAA"
    )]
    BadType {
        /// The type.
        text: String,
    },
    /// The data is not of its type.
    #[error("value {text:?} of a {rtype} record is wrong: {problem}")]
    BadValue {
        /// The type.
        rtype: RecordType,
        /// The data.
        text: String,
        /// Why.
        problem: String,
    },
    /// A time is too long.
    #[error("TTL {ttl} of {name:?} is too long; 2147483647 seconds are the most")]
    BadTtl {
        /// The owner.
        name: String,
        /// The time.
        ttl: u32,
    },
    /// An address is none.
    #[error("{text:?} is no address of the name server {server:?}")]
    BadAddress {
        /// The name server.
        server: String,
        /// The address.
        text: String,
    },
    /// A zone cannot be without.
    #[error("a primary zone needs at least one name server in zoneConfig.nameServers")]
    NoNameServer,
}

/// Type and data of a record of a request, before they are read.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) rtype: &'a str,
    pub(crate) value: &'a str,
    pub(crate) priority: Option<u16>,
}

/// The name of a zone.
pub(crate) fn zone_name(text: &str) -> Result<Name, ContentProblem> {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/');
    let is_short = !text.is_empty() && text.trim_end_matches('.').len() <= ZONE_NAME_LEN_MAX;
    if !is_short || !text.bytes().all(is_plain) || text.starts_with('.') {
        return Err(ContentProblem::ZoneLetters {
            text: text.to_owned(),
        });
    }
    absolute("zone name", text)
}

/// The records of a new zone; `serial` is for one that has none of its own.
pub(crate) fn records(
    zone: &Name,
    config: &NewZoneConfig,
    serial: u32,
) -> Result<Vec<Record>, ContentProblem> {
    let apex = |data| Record {
        name: zone.clone(),
        ttl: config.ttl,
        data,
    };
    checked_ttl("@", config.ttl)?;
    let mut records = vec![apex(soa(&config.soa, serial)?)];
    for server in &config.name_servers {
        records.push(apex(RecordData::Ns(absolute("name server", server)?)));
    }
    for (server, text) in &config.name_server_ips {
        records.extend(glue(zone, server, text, config.ttl)?);
    }
    for record in &config.records {
        records.push(self::record(zone, record, config.ttl)?);
    }
    let is_ns = |record: &Record| record.name == *zone && matches!(record.data, RecordData::Ns(_));
    if !records.iter().any(is_ns) {
        return Err(ContentProblem::NoNameServer);
    }
    Ok(records)
}

/// The type and data of a record of a request.
pub(crate) fn data(written: Written<'_>) -> Result<RecordData, ContentProblem> {
    let rtype = rtype(written.rtype)?;
    let text = match (rtype, written.priority) {
        (RecordType::Mx | RecordType::Srv, Some(priority)) => {
            format!("{priority} {}", written.value)
        }
        _ => written.value.to_owned(),
    };
    let problem = |problem: String| ContentProblem::BadValue {
        rtype,
        text: written.value.to_owned(),
        problem,
    };
    if text.contains(|letter: char| letter.is_control()) {
        return Err(problem("it has a control character".to_owned()));
    }
    // Without quotes it is one text, whatever is in it.
    if rtype == RecordType::Txt && !text.trim_start().starts_with('"') {
        let whole = RecordData::Txt(Text::from_bytes(text.as_bytes()));
        return whole.checked_len().map_err(|why| problem(why.to_string()));
    }
    if has_target(rtype) && !text.trim_end().ends_with('.') {
        let why = "a name in it has to end with a dot";
        return Err(problem(why.to_owned()));
    }
    RecordData::parse(rtype, &text).map_err(|why| problem(why.to_string()))
}

/// A type that records may have.
pub(crate) fn rtype(text: &str) -> Result<RecordType, ContentProblem> {
    let bad = || ContentProblem::BadType {
        text: text.to_owned(),
    };
    let rtype: RecordType = text.parse().map_err(|_| bad())?;
    TYPES.contains(&rtype).then_some(rtype).ok_or_else(bad)
}

/// The name of a record in its zone.
pub(crate) fn owner(zone: &Name, text: &str) -> Result<Name, ContentProblem> {
    Name::parse_in(text, zone).map_err(|problem| ContentProblem::BadName {
        field: "record name",
        text: text.to_owned(),
        problem,
    })
}

/// A time that may stand in a record.
pub(crate) fn checked_ttl(name: &str, ttl: u32) -> Result<u32, ContentProblem> {
    if ttl <= bindery_core::record::TTL_MAX {
        return Ok(ttl);
    }
    Err(ContentProblem::BadTtl {
        name: name.to_owned(),
        ttl,
    })
}

/// The file of a zone, whole: one line for each record, and nothing that stands for another.
pub(crate) fn zone_file(records: &[Record]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("; Written by Bindery; named rewrites it.\n");
    for record in records {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{record}");
    }
    text
}

fn record(zone: &Name, record: &NewRecord, ttl: u32) -> Result<Record, ContentProblem> {
    let written = Written {
        rtype: &record.rtype,
        value: &record.value,
        priority: record.priority,
    };
    Ok(Record {
        name: owner(zone, &record.name)?,
        ttl: checked_ttl(&record.name, record.ttl.unwrap_or(ttl))?,
        data: data(written)?,
    })
}

fn soa(soa: &NewSoa, serial: u32) -> Result<RecordData, ContentProblem> {
    Ok(RecordData::Soa(Box::new(Soa {
        mname: absolute("zoneConfig.soa.primaryNs", &soa.primary_ns)?,
        rname: mailbox(&soa.admin_email)?,
        serial: soa.serial.unwrap_or(serial),
        refresh: soa.refresh,
        retry: soa.retry,
        expire: soa.expire,
        minimum: soa.negative_ttl,
    })))
}

/// A mailbox as a name: what stands before the `@` is one label (RFC 1035 section 8).
fn mailbox(text: &str) -> Result<Name, ContentProblem> {
    const FIELD: &str = "zoneConfig.soa.adminEmail";
    match text.split_once('@') {
        None => absolute(FIELD, text),
        Some((person, domain)) => {
            let label = person.replace('.', "\\.");
            absolute(FIELD, &format!("{label}.{domain}"))
        }
    }
}

/// The address of a name server, where it lies in the zone; elsewhere it is not ours to tell.
fn glue(zone: &Name, server: &str, text: &str, ttl: u32) -> Result<Option<Record>, ContentProblem> {
    let address: IpAddr = text.parse().map_err(|_| ContentProblem::BadAddress {
        server: server.to_owned(),
        text: text.to_owned(),
    })?;
    let name = if server.ends_with('.') {
        absolute("name server", server)?
    } else {
        owner(zone, server)?
    };
    let data = match address {
        IpAddr::V4(address) => RecordData::A(address),
        IpAddr::V6(address) => RecordData::Aaaa(address),
    };
    Ok(name.is_in(zone).then_some(Record { name, ttl, data }))
}

fn absolute(field: &'static str, text: &str) -> Result<Name, ContentProblem> {
    let bad = |problem| ContentProblem::BadName {
        field,
        text: text.to_owned(),
        problem,
    };
    let name = Name::parse(text).map_err(bad)?;
    if name.is_root() || name.is_wildcard() {
        return Err(bad(NameProblem::Malformed));
    }
    Ok(name)
}

/// Whether the data ends with a name, which would be another without its dot.
fn has_target(rtype: RecordType) -> bool {
    matches!(
        rtype,
        RecordType::Cname | RecordType::Ns | RecordType::Ptr | RecordType::Mx | RecordType::Srv
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(records: &str) -> NewZoneConfig {
        let text = format!(
            r#"{{"ttl": 300, "soa": {{"primaryNs": "ns1.example.com.", "adminEmail": "host.master@example.com"}},
               "nameServers": ["ns1.example.com."],
               "nameServerIps": {{"ns1.example.com.": "192.0.2.1", "ns2": "2001:db8::2", "ns.other.": "192.0.2.9"}},
               "records": {records}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn zone() -> Name {
        zone_name("example.com").unwrap()
    }

    #[test]
    fn a_zone_is_made_with_its_records() {
        let config = config(
            r#"[{"name": "www", "type": "A", "value": "192.0.2.80", "ttl": 60},
                {"name": "@", "type": "MX", "value": "mail.example.com.", "priority": 10},
                {"name": "@", "type": "TXT", "value": "v=spf1 -all"},
                {"name": "_sip._tcp", "type": "SRV", "value": "5 5060 sip.example.com.", "priority": 1}]"#,
        );
        let text = zone_file(&records(&zone(), &config, 2_026_111_801).unwrap());
        assert_eq!(
            text,
            "; Written by Bindery; named rewrites it.\n\
             example.com. 300 IN SOA ns1.example.com. host\\.master.example.com. 2026111801 3600 600 604800 86400\n\
             example.com. 300 IN NS ns1.example.com.\n\
             ns1.example.com. 300 IN A 192.0.2.1\n\
             ns2.example.com. 300 IN AAAA 2001:db8::2\n\
             www.example.com. 60 IN A 192.0.2.80\n\
             example.com. 300 IN MX 10 mail.example.com.\n\
             example.com. 300 IN TXT \"v=spf1 -all\"\n\
             _sip._tcp.example.com. 300 IN SRV 1 5 5060 sip.example.com.\n"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |records: &str| {
            super::records(&zone(), &config(records), 1)
                .unwrap_err()
                .to_string()
        };
        let one = |rtype: &str, value: &str| {
            problem(&format!(
                r#"[{{"name": "www", "type": "{rtype}", "value": "{value}"}}]"#
            ))
        };
        assert!(one("A", "2001:db8::1").contains("2001:db8::1"));
        assert!(one("SOA", "x").contains("not supported"));
        assert!(one("CNAME", "www.example.net").contains("dot"));
        let far = problem(r#"[{"name": "www.example.net.", "type": "A", "value": "192.0.2.1"}]"#);
        assert!(far.contains("www.example.net."), "{far}");
    }

    #[test]
    fn zone_names_are_plain() {
        for good in [
            "example.com",
            "example.com.",
            "a_b.test",
            "0/25.2.0.192.in-addr.arpa",
        ] {
            assert!(zone_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "..\u{2f}etc/passwd",
            "a..b",
            "*.test",
            "a b",
            "a\"b",
            "a;b",
            "a{b}",
            "a\nb",
            "$INCLUDE",
            "a\\.b",
            ".a",
            "ä.test",
        ] {
            assert!(zone_name(bad).is_err(), "{bad}");
        }
        assert!(zone_name(&"a.".repeat(128)).is_err());
    }
}

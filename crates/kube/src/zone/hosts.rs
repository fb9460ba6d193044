//! Addresses for the name servers of a zone that Bindery serves itself.

use std::net::{IpAddr, SocketAddr};

use bindery_core::{Name, Record, RecordData};

/// The records of a new zone, with the address of `server` for each name server inside the zone that
/// has none. BIND loads no zone whose own name servers have no address.
pub(super) fn with_addresses(zone: &Name, records: &[Record], server: &str) -> Vec<Record> {
    let mut records = records.to_vec();
    let Ok(server) = server.parse::<SocketAddr>() else {
        return records;
    };
    let data = match server.ip() {
        IpAddr::V4(address) => RecordData::A(address),
        IpAddr::V6(address) => RecordData::Aaaa(address),
    };
    let has_address = |host: &Name| {
        records.iter().any(|record| {
            record.name == *host && matches!(record.data, RecordData::A(_) | RecordData::Aaaa(_))
        })
    };
    let missing: Vec<Record> = records
        .iter()
        .filter_map(|record| {
            let RecordData::Ns(host) = &record.data else {
                return None;
            };
            (host.is_in(zone) && !has_address(host)).then(|| Record {
                name: host.clone(),
                ttl: record.ttl,
                data: data.clone(),
            })
        })
        .collect();
    records.extend(missing);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(records: &str, server: &str) -> Vec<String> {
        let zone = Name::parse("example.com").expect("a fixture is a name");
        let records: Vec<Record> = records
            .lines()
            .map(|line| line.parse().expect("a fixture is a record"))
            .collect();
        let all = with_addresses(&zone, &records, server);
        all[records.len()..]
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_name_server_in_the_zone_gets_the_address_of_the_server() {
        let ns = "example.com. 60 IN NS ns1.example.com.";
        assert_eq!(
            check(ns, "127.0.0.1:53"),
            ["ns1.example.com. 60 IN A 127.0.0.1"]
        );
        assert_eq!(check(ns, "[::1]:53"), ["ns1.example.com. 60 IN AAAA ::1"]);
        let elsewhere = "example.com. 60 IN NS ns1.example.net.";
        assert!(check(elsewhere, "127.0.0.1:53").is_empty());
    }

    #[test]
    fn an_address_that_is_given_is_kept() {
        let records = "example.com. 60 IN NS ns1.example.com.\nns1.example.com. 60 IN A 192.0.2.1";
        assert!(check(records, "127.0.0.1:53").is_empty());
    }
}

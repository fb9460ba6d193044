//! Names of chains and sets, from which it is read back whose they are.

use std::fmt::Write as _;
use std::net::SocketAddr;

use bindery_core::Uid;
use bindery_core::balancers::{BalancerKey, Family, FrontProtocol};

use super::ruleset::digit;
use crate::forwarding::FrontKey;

/// The chain of a port.
pub(super) fn port_name(key: &BalancerKey, (protocol, port): FrontKey, family: Family) -> String {
    let (protocol, digit) = (short(protocol), digit(family));
    format!("port-{}-{protocol}-{port}-{digit}", owner(key))
}

/// The chain of an endpoint.
pub(super) fn end_name(
    key: &BalancerKey,
    (protocol, port): FrontKey,
    endpoint: SocketAddr,
) -> String {
    let (protocol, endpoint) = (short(protocol), plain(endpoint));
    format!("end-{}-{protocol}-{port}-{endpoint}", owner(key))
}

/// The set of clients that an endpoint had last, for so many seconds.
pub(super) fn affinity_name(
    key: &BalancerKey,
    (protocol, port): FrontKey,
    endpoint: SocketAddr,
    seconds: u64,
) -> String {
    let (protocol, endpoint) = (short(protocol), plain(endpoint));
    format!(
        "clients-{}-{protocol}-{port}-{endpoint}-{seconds}",
        owner(key)
    )
}

/// Whose a chain or a set is; `None` for those of the base and of others.
pub(super) fn owner_of(name: &str) -> Option<BalancerKey> {
    let (kind, rest) = name.split_once('-')?;
    // What follows the owner: protocol, port, family or endpoint, and of clients the seconds.
    let parts = match kind {
        "port" | "end" => 3,
        "clients" => 4,
        _ => return None,
    };
    let owner = rest.rsplitn(parts + 1, '-').nth(parts)?;
    key_of(owner)
}

/// As nftables writes it.
pub(super) fn short(protocol: FrontProtocol) -> &'static str {
    match protocol {
        FrontProtocol::Tcp => "tcp",
        FrontProtocol::Udp => "udp",
    }
}

/// The protocol that nftables writes so.
pub(super) fn protocol(text: &str) -> Option<FrontProtocol> {
    match text {
        "tcp" => Some(FrontProtocol::Tcp),
        "udp" => Some(FrontProtocol::Udp),
        _ => None,
    }
}

/// A UID as it is where it is made of digits and hyphens, as all are that API servers give out; another text, or a
/// label, in hexadecimal digits.
fn owner(key: &BalancerKey) -> String {
    match key {
        BalancerKey::Service(uid) => {
            let text = uid.to_string();
            let is_plain = !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
            if is_plain { text } else { encoded('u', &text) }
        }
        BalancerKey::Egress(label) => encoded('g', label),
    }
}

fn key_of(owner: &str) -> Option<BalancerKey> {
    if let Some(digits) = owner.strip_prefix('u') {
        return Some(BalancerKey::Service(Uid::from(decoded(digits)?.as_str())));
    }
    if let Some(digits) = owner.strip_prefix('g') {
        return Some(BalancerKey::Egress(decoded(digits)?.into()));
    }
    Some(BalancerKey::Service(Uid::from(owner)))
}

fn encoded(letter: char, text: &str) -> String {
    text.bytes().fold(String::from(letter), |mut hex, byte| {
        // A text takes whatever is written to it.
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

fn decoded(digits: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

/// An endpoint in letters that a name may have.
fn plain(endpoint: SocketAddr) -> String {
    format!("{}_{}", endpoint.ip(), endpoint.port()).replace(':', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_chain_is_is_read_from_its_name() {
        let endpoints = ["10.0.0.1:8080", "[2001:db8::1]:53"];
        for uid in [
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            "service-1",
            "e1",
            "",
            "ü",
        ] {
            let key = BalancerKey::Service(Uid::from(uid));
            let front = (FrontProtocol::Tcp, 80);
            let mut names = vec![port_name(&key, front, Family::V6)];
            for endpoint in endpoints {
                let endpoint = endpoint.parse().expect("an endpoint");
                names.push(end_name(&key, front, endpoint));
                names.push(affinity_name(&key, front, endpoint, 10_800));
            }
            for name in names {
                assert_eq!(owner_of(&name), Some(key.clone()), "{name}");
                assert!(name.len() < 128, "{name}");
            }
        }
        for name in [
            "prerouting",
            "services-4",
            "guard-input",
            "closed-tcp-4",
            "x",
        ] {
            assert_eq!(owner_of(name), None, "{name}");
        }
    }
}

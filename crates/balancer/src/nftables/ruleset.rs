//! The rules: what every machine has, and what one balancer adds.
//!
//! ```text
//! prerouting, output    address . protocol . port  → services-4/6 → port-…
//! port-…                who may not connect is dropped; a client that is remembered, or a random number → end-…
//! end-…                 the client is remembered; DNAT to the endpoint
//! postrouting           connections whose endpoint is not to see the client (masquerade-…) → masquerade
//! guard-…               what is for a front and was not sent to an endpoint, and connections of a front that is
//!                       gone (closed-…) → reject
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bindery_core::balancers::{BalancerKey, Family, FrontProtocol, TrafficPolicy};
use serde_json::{Value, json};

use super::content::{Chain, Hook, Rule, SetContent, SetDefinition, SetRole, TableContent};
use super::names::{affinity_name, end_name, port_name, short};
use crate::forwarding::{Forwarding, FrontKey};

/// How long connections of a front that is gone are ended: longer than peers keep silent ones alive.
const CLOSED_SECONDS: u64 = 3 * 60 * 60;
/// Both families, with what nftables calls them.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
const PROTOCOLS: [FrontProtocol; 2] = [FrontProtocol::Tcp, FrontProtocol::Udp];

/// What stands in the table without any balancer.
pub(super) fn base() -> TableContent {
    let mut base = TableContent::default();
    for family in FAMILIES {
        let (address, digit) = (address_type(family), digit(family));
        let front = vec![address, "inet_proto", "inet_service"];
        define(
            &mut base,
            &format!("services-{digit}"),
            front.clone(),
            SetRole::Chains,
        );
        define(
            &mut base,
            &format!("fronts-{digit}"),
            front,
            SetRole::Members,
        );
        define(
            &mut base,
            &format!("placed-{digit}"),
            vec![address],
            SetRole::Members,
        );
        for protocol in PROTOCOLS {
            let socket = vec![address, "inet_service"];
            let role = SetRole::Passing(CLOSED_SECONDS);
            define(
                &mut base,
                &closed_set(protocol, family),
                socket.clone(),
                role,
            );
            let name = masquerade_set(protocol, family);
            define(&mut base, &name, socket, SetRole::Members);
        }
    }
    let hook = |kind: &str, at: &str, priority| Hook {
        kind: kind.to_owned(),
        at: at.to_owned(),
        priority,
    };
    for (name, at) in [("prerouting", "prerouting"), ("output", "output")] {
        let rules = FAMILIES.map(to_services);
        insert(&mut base, name, Some(hook("nat", at, -100)), rules.into());
    }
    let rules = pairs(masquerade);
    insert(
        &mut base,
        "postrouting",
        Some(hook("nat", "postrouting", 100)),
        rules,
    );
    let mut rules = pairs(end_closed);
    rules.extend(pairs(refuse));
    insert(&mut base, "guard", None, rules);
    for at in ["input", "forward", "output"] {
        let rules = vec![Rule::new(
            "guard",
            json!([{ "jump": { "target": "guard" } }]),
        )];
        insert(
            &mut base,
            &format!("guard-{at}"),
            Some(hook("filter", at, 0)),
            rules,
        );
    }
    base
}

/// What one balancer adds; of its addresses we gave those in `placed` to an interface.
pub(super) fn section(
    key: &BalancerKey,
    forwarding: &Forwarding,
    placed: &BTreeSet<IpAddr>,
) -> TableContent {
    let mut section = TableContent::default();
    for address in &forwarding.addresses {
        let family = Family::of(*address);
        let digit = digit(family);
        if placed.contains(address) {
            section.add(&format!("placed-{digit}"), json!(address.to_string()));
        }
        for (front, endpoints) in &forwarding.ports {
            let (protocol, port) = *front;
            let chain = port_name(key, *front, family);
            let at = json!({ "concat": [address.to_string(), short(protocol), port] });
            section.add(&format!("fronts-{digit}"), at.clone());
            let own: Vec<SocketAddr> = endpoints
                .iter()
                .copied()
                .filter(|endpoint| Family::of(endpoint.ip()) == family)
                .collect();
            let verdict = json!({ "goto": { "target": chain } });
            section.add(&format!("services-{digit}"), json!([at, verdict]));
            if forwarding.traffic_policy == TrafficPolicy::Cluster {
                let socket = json!({ "concat": [address.to_string(), port] });
                section.add(&masquerade_set(protocol, family), socket);
            }
            port_chains(&mut section, (key, *front, family), forwarding, &own);
        }
    }
    section
}

/// The fronts of a content, by the text of their address, protocol and port.
pub(super) fn fronts(content: &TableContent) -> BTreeSet<(IpAddr, FrontKey)> {
    FAMILIES
        .iter()
        .filter_map(|family| content.sets.get(&format!("services-{}", digit(*family))))
        .flat_map(|set| set.elements.values())
        .filter_map(|element| front_of(element.get(0)?))
        .collect()
}

/// Reads `{ "concat": [address, protocol, port] }`.
pub(super) fn front_of(key: &Value) -> Option<(IpAddr, FrontKey)> {
    let parts = key.get("concat")?.as_array()?;
    let address = parts.first()?.as_str()?.parse().ok()?;
    let protocol = super::names::protocol(parts.get(1)?.as_str()?)?;
    let port = parts.get(2)?.as_u64()?;
    Some((address, (protocol, u16::try_from(port).ok()?)))
}

/// The set of fronts whose connections are ended.
pub(super) fn closed_set(protocol: FrontProtocol, family: Family) -> String {
    format!("closed-{}-{}", short(protocol), digit(family))
}

pub(super) fn masquerade_set(protocol: FrontProtocol, family: Family) -> String {
    format!("masquerade-{}-{}", short(protocol), digit(family))
}

pub(super) fn digit(family: Family) -> u8 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// The chain of one port, and one for each endpoint.
fn port_chains(
    section: &mut TableContent,
    (key, front, family): (&BalancerKey, FrontKey, Family),
    forwarding: &Forwarding,
    endpoints: &[SocketAddr],
) {
    let mut rules = Vec::new();
    if let Some(expressions) = strangers(forwarding, family) {
        rules.push(Rule::new("source ranges", expressions));
    }
    let mut choices = Vec::new();
    for (place, endpoint) in endpoints.iter().enumerate() {
        let chain = end_name(key, front, *endpoint);
        choices.push(json!([place, { "goto": { "target": chain } }]));
        let affinity = forwarding
            .affinity
            .map(|timeout| affinity_set(section, (key, front, *endpoint), timeout));
        if let Some(set) = &affinity {
            let known = json!({ "match": {
                "op": "==", "left": source(family), "right": format!("@{set}"),
            } });
            let expressions = json!([known, { "goto": { "target": chain } }]);
            rules.push(Rule::new("affinity", expressions));
        }
        let rule = to_endpoint(front.0, *endpoint, affinity.as_deref());
        insert(section, &chain, None, vec![rule]);
    }
    if !choices.is_empty() {
        let random = json!({ "numgen": { "mode": "random", "mod": choices.len(), "offset": 0 } });
        let choice = json!([{ "vmap": { "key": random, "data": { "set": choices } } }]);
        rules.push(Rule::new("choice", choice));
    }
    // A packet that is on its way through the rules while a transaction ends goes on through those that it began
    // with, but finds no element any more in a set of theirs. Without a set the last endpoint is found.
    if let Some(endpoint) = endpoints.last() {
        let chain = end_name(key, front, *endpoint);
        let otherwise = json!([{ "goto": { "target": chain } }]);
        rules.push(Rule::new("otherwise", otherwise));
    }
    insert(section, &port_name(key, front, family), None, rules);
}

/// Drops those who may not connect; nothing where everybody may.
fn strangers(forwarding: &Forwarding, family: Family) -> Option<Value> {
    if forwarding.source_ranges.is_empty() {
        return None;
    }
    let ranges: Vec<Value> = forwarding
        .source_ranges
        .iter()
        .filter(|range| Family::of(range.base()) == family)
        .map(|range| {
            let (base, len) = (range.base().to_string(), range.prefix_len());
            json!({ "prefix": { "addr": base, "len": len } })
        })
        .collect();
    let is_all = forwarding
        .source_ranges
        .iter()
        .any(|range| Family::of(range.base()) == family && range.prefix_len() == 0);
    if is_all {
        return None;
    }
    if ranges.is_empty() {
        return Some(json!([{ "drop": null }]));
    }
    let known = json!({ "match": {
        "op": "!=", "left": source(family), "right": { "set": ranges },
    } });
    Some(json!([known, { "drop": null }]))
}

/// The set of clients that an endpoint had last.
fn affinity_set(
    section: &mut TableContent,
    (key, front, endpoint): (&BalancerKey, FrontKey, SocketAddr),
    timeout: Duration,
) -> String {
    let seconds = timeout.as_secs().max(1);
    let name = affinity_name(key, front, endpoint, seconds);
    let key_type = vec![address_type(Family::of(endpoint.ip()))];
    define(section, &name, key_type, SetRole::Passing(seconds));
    name
}

fn to_endpoint(protocol: FrontProtocol, endpoint: SocketAddr, affinity: Option<&str>) -> Rule {
    let family = Family::of(endpoint.ip());
    let mut expressions = vec![of_protocol(protocol)];
    if let Some(set) = affinity {
        expressions.push(json!({ "set": {
            "op": "update", "elem": source(family), "set": format!("@{set}"),
        } }));
    }
    expressions.push(json!({ "dnat": {
        "family": ip(family), "addr": endpoint.ip().to_string(), "port": endpoint.port(),
    } }));
    Rule::new(&format!("endpoint {endpoint}"), json!(expressions))
}

fn to_services(family: Family) -> Rule {
    let key = json!({ "concat": [
        { "payload": { "protocol": ip(family), "field": "daddr" } },
        { "meta": { "key": "l4proto" } },
        { "payload": { "protocol": "th", "field": "dport" } },
    ] });
    let data = format!("@services-{}", digit(family));
    Rule::new(
        "services",
        json!([{ "vmap": { "key": key, "data": data } }]),
    )
}

fn masquerade(protocol: FrontProtocol, family: Family) -> Rule {
    let set = masquerade_set(protocol, family);
    let expressions = json!([
        of_protocol(protocol),
        was_sent_on(),
        first_sent_to(family, &set),
        { "masquerade": null },
    ]);
    Rule::new("masquerade", expressions)
}

fn end_closed(protocol: FrontProtocol, family: Family) -> Rule {
    let set = closed_set(protocol, family);
    let expressions = json!([
        of_protocol(protocol),
        was_sent_on(),
        first_sent_to(family, &set),
        reject(protocol),
    ]);
    Rule::new("closed", expressions)
}

/// Refuses what is for a front and has no endpoint.
fn refuse(protocol: FrontProtocol, family: Family) -> Rule {
    let left = json!({ "concat": [
        { "payload": { "protocol": ip(family), "field": "daddr" } },
        { "meta": { "key": "l4proto" } },
        { "payload": { "protocol": "th", "field": "dport" } },
    ] });
    let set = format!("@fronts-{}", digit(family));
    let expressions = json!([
        of_protocol(protocol),
        { "match": { "op": "==", "left": left, "right": set } },
        reject(protocol),
    ]);
    Rule::new("no endpoint", expressions)
}

fn reject(protocol: FrontProtocol) -> Value {
    match protocol {
        FrontProtocol::Tcp => json!({ "reject": { "type": "tcp reset" } }),
        FrontProtocol::Udp => json!({ "reject": { "type": "icmpx", "expr": "port-unreachable" } }),
    }
}

fn of_protocol(protocol: FrontProtocol) -> Value {
    let left = json!({ "meta": { "key": "l4proto" } });
    json!({ "match": { "op": "==", "left": left, "right": short(protocol) } })
}

/// Connections whose destination was changed.
fn was_sent_on() -> Value {
    json!({ "match": { "op": "in", "left": { "ct": { "key": "status" } }, "right": "dnat" } })
}

/// Connections whose client called a front of a set.
fn first_sent_to(family: Family, set: &str) -> Value {
    let left = json!({ "concat": [
        { "ct": { "key": format!("{} daddr", ip(family)), "dir": "original" } },
        { "ct": { "key": "proto-dst", "dir": "original" } },
    ] });
    json!({ "match": { "op": "==", "left": left, "right": format!("@{set}") } })
}

fn source(family: Family) -> Value {
    json!({ "payload": { "protocol": ip(family), "field": "saddr" } })
}

fn ip(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

fn address_type(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
    }
}

fn pairs(rule: impl Fn(FrontProtocol, Family) -> Rule) -> Vec<Rule> {
    let rule = &rule;
    PROTOCOLS
        .iter()
        .flat_map(|protocol| FAMILIES.iter().map(move |family| rule(*protocol, *family)))
        .collect()
}

fn define(content: &mut TableContent, name: &str, key: Vec<&'static str>, role: SetRole) {
    let set = SetContent {
        definition: Some(SetDefinition { key, role }),
        elements: BTreeMap::new(),
    };
    content.sets.insert(name.to_owned(), set);
}

fn insert(content: &mut TableContent, name: &str, hook: Option<Hook>, rules: Vec<Rule>) {
    content
        .chains
        .insert(name.to_owned(), Chain { hook, rules });
}

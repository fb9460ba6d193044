//! Reading a table back, and whose what in it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bindery_core::balancers::{BalancerKey, Family, FrontProtocol};
use serde_json::Value;

use super::content::{Chain, Hook, Rule, SetDefinition, SetRole, TableContent};
use super::names::{owner_of, protocol};
use super::ruleset::{base, digit, front_of, fronts, masquerade_set};
use crate::forwarding::{FoundForwarding, FrontKey};

/// A table as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundTable {
    /// What stands there without any balancer, as far as it is as it should be.
    pub(super) base: TableContent,
    /// What each balancer has.
    pub(super) sections: BTreeMap<BalancerKey, TableContent>,
    /// What is in the table and belongs to nobody.
    pub(super) strays: TableContent,
}

/// Reads what `nft -j list table` printed.
pub(super) fn table(listing: &Value) -> FoundTable {
    let mut all = TableContent::default();
    for object in listing
        .get("nftables")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        read_object(&mut all, object);
    }
    let wanted = base();
    let mut table = FoundTable::default();
    for (name, chain) in std::mem::take(&mut all.chains) {
        let part = match (wanted.chains.contains_key(&name), owner_of(&name)) {
            (true, _) => &mut table.base,
            (false, Some(owner)) => table.sections.entry(owner).or_default(),
            (false, None) => &mut table.strays,
        };
        part.chains.insert(name, chain);
    }
    let owners = owners(&all);
    for (name, mut set) in std::mem::take(&mut all.sets) {
        let Some(own) = wanted.sets.get(&name) else {
            let part = match owner_of(&name) {
                Some(owner) => table.sections.entry(owner).or_default(),
                None => &mut table.strays,
            };
            // Clients that the kernel remembers are its own.
            set.elements.clear();
            part.sets.insert(name, set);
            continue;
        };
        let is_passing = own
            .definition
            .as_ref()
            .is_some_and(|one| matches!(one.role, SetRole::Passing(_)));
        let elements = if is_passing {
            BTreeMap::new()
        } else {
            set.elements
        };
        for element in elements.into_values() {
            let part = match owner_of_element(&name, &element, &owners) {
                Some(owner) => table.sections.entry(owner).or_default(),
                None => &mut table.strays,
            };
            part.add(&name, element);
        }
        table.base.sets.insert(name, own.clone());
    }
    table
}

/// What a section forwards.
pub(super) fn forwarding(section: &TableContent) -> FoundForwarding {
    let mut found = FoundForwarding::default();
    for (address, front) in fronts(section) {
        if !found.addresses.contains(&address) {
            found.addresses.push(address);
        }
        found.ports.entry(front).or_default();
    }
    for (name, chain) in &section.chains {
        let Some(front) = front_of_end(name) else {
            continue;
        };
        let endpoints = chain.rules.iter().filter_map(endpoint_of);
        found.ports.entry(front).or_default().extend(endpoints);
    }
    found
}

fn read_object(all: &mut TableContent, object: &Value) {
    let text = |body: &Value, field: &str| body.get(field)?.as_str().map(str::to_owned);
    if let Some(body) = object.get("chain")
        && let Some(name) = text(body, "name")
    {
        let hook = text(body, "type").zip(text(body, "hook"));
        let hook = hook.map(|(kind, at)| Hook {
            kind,
            at,
            priority: body.get("prio").and_then(Value::as_i64).unwrap_or_default(),
        });
        all.chains.entry(name).or_default().hook = hook;
    } else if let Some(body) = object.get("rule")
        && let Some(chain) = text(body, "chain")
    {
        let comment = text(body, "comment").unwrap_or_default();
        let chain: &mut Chain = all.chains.entry(chain).or_default();
        chain.rules.push(Rule::read(&comment));
    } else if let Some(body) = object.get("set").or_else(|| object.get("map"))
        && let Some(name) = text(body, "name")
    {
        let set = all.sets.entry(name.clone()).or_default();
        set.definition = Some(definition(&name));
        for element in body
            .get("elem")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            set.add(element.clone());
        }
    }
}

/// What a set is made with that has this name; of ours the name says it.
fn definition(name: &str) -> SetDefinition {
    let seconds = name
        .rsplit_once('-')
        .and_then(|(_, last)| last.parse().ok());
    let endpoint = name.split('-').nth_back(1).unwrap_or_default();
    // The name of an IPv6 endpoint has more than the mark before its port.
    let is_four = endpoint.matches('_').count() < 2;
    SetDefinition {
        key: vec![if is_four { "ipv4_addr" } else { "ipv6_addr" }],
        role: SetRole::Passing(seconds.unwrap_or_default()),
    }
}

/// Whose each front is.
fn owners(all: &TableContent) -> BTreeMap<(std::net::IpAddr, FrontKey), BalancerKey> {
    let sets = ["services-4", "services-6"];
    sets.iter()
        .filter_map(|name| all.sets.get(*name))
        .flat_map(|set| set.elements.values())
        .filter_map(|element| {
            let chain = element.get(1)?.get("goto")?.get("target")?.as_str()?;
            Some((front_of(element.get(0)?)?, owner_of(chain)?))
        })
        .collect()
}

/// Whose an element of a set of the base is.
fn owner_of_element(
    set: &str,
    element: &Value,
    owners: &BTreeMap<(std::net::IpAddr, FrontKey), BalancerKey>,
) -> Option<BalancerKey> {
    if set.starts_with("services-") {
        let chain = element.get(1)?.get("goto")?.get("target")?.as_str()?;
        return owner_of(chain);
    }
    if set.starts_with("fronts-") {
        return owners.get(&front_of(element)?).cloned();
    }
    if set.starts_with("placed-") {
        let address: std::net::IpAddr = element.as_str()?.parse().ok()?;
        let mut known = owners.iter();
        return known
            .find(|((one, _), _)| *one == address)
            .map(|(_, owner)| owner.clone());
    }
    let parts = element.get("concat")?.as_array()?;
    let address = parts.first()?.as_str()?.parse().ok()?;
    let port = u16::try_from(parts.get(1)?.as_u64()?).ok()?;
    [FrontProtocol::Tcp, FrontProtocol::Udp]
        .into_iter()
        .find(|protocol| set == masquerade_set(*protocol, Family::of(address)))
        .and_then(|protocol| owners.get(&(address, (protocol, port))).cloned())
}

/// The port that the chain of an endpoint is behind.
fn front_of_end(name: &str) -> Option<FrontKey> {
    let rest = name.strip_prefix("end-")?;
    let mut parts = rest.rsplitn(4, '-').skip(1);
    let port = parts.next()?.parse().ok()?;
    Some((protocol(parts.next()?)?, port))
}

/// The endpoint that a rule sends to.
fn endpoint_of(rule: &Rule) -> Option<SocketAddr> {
    let mut words = rule.comment.split(' ');
    if words.next() != Some("endpoint") {
        return None;
    }
    words.next()?.parse().ok()
}

/// Whether what stands without balancers is as it should be.
pub(super) fn is_base_whole(table: &FoundTable) -> bool {
    let wanted = base();
    debug_assert!(
        wanted
            .sets
            .contains_key(&format!("services-{}", digit(Family::V4)))
    );
    table.base == wanted && table.strays == TableContent::default()
}

//! What is known of the balancers of this machine: their addresses, fronts and endpoints. Decides, does nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bindery_core::balancers::{
    AddressChange, AddressOutcome, BalancerKey, Binding, Bindings, Family, Front, Frontage,
    Holdings, PortTarget, TrafficPolicy,
};
use bindery_core::{AddressPools, AddressProblem, AddressRequest, Fault, FaultKind, Pool, Reason};

use bindery_core::pools::PoolReport;

use super::held;
use crate::forwarding::{Forwarding, FoundForwarding};

/// The annotation by which a Service names the pool that it wants an address of.
const POOL_OPTION: &str = "bindery.dev/address-pool";

/// Pools, and every balancer.
#[derive(Default)]
pub(super) struct Book {
    pools: AddressPools<BalancerKey>,
    balancers: BTreeMap<BalancerKey, BookEntry>,
}

/// One balancer.
#[derive(Clone, Default)]
pub(super) struct BookEntry {
    addresses: Vec<IpAddr>,
    front: Option<Arc<Front>>,
    /// What is bound to it, by the address of the endpoint.
    members: BTreeMap<IpAddr, Binding>,
    /// The digest of the spec that it forwards after.
    digest: Option<String>,
}

/// What a decision changes, by balancer.
pub(super) type Decided = Vec<(BalancerKey, BookEntry)>;

impl Book {
    pub(super) fn set_pools(&mut self, pools: BTreeMap<String, Pool>) {
        let gone: Vec<String> = self
            .pools
            .names()
            .filter(|name| !pools.contains_key(*name))
            .map(str::to_owned)
            .collect();
        // What comes is declared first: a pool that got another name takes nothing away for a moment.
        for (name, pool) in pools {
            self.pools.declare(&name, pool);
        }
        for name in gone {
            self.pools.withdraw(&name);
        }
    }

    pub(super) fn pool_reports(&self) -> BTreeMap<String, PoolReport> {
        let report = |name: &str| PoolReport {
            usage: self.pools.usage(name),
            overlap: self.pools.overlap(name).cloned(),
        };
        self.pools
            .names()
            .map(|name| (name.to_owned(), report(name)))
            .collect()
    }

    /// What its author should know about the addresses of a balancer.
    pub(super) fn notice(&self, key: &BalancerKey) -> Option<(Reason, String)> {
        let allocation = self.pools.allocation(key)?;
        let problem = allocation.problem.as_ref()?;
        Some((problem.reason(), problem.to_string()))
    }

    /// Keeps the addresses that balancers had for them, and begins to give out others.
    pub(super) fn remember(&mut self, known: &[(BalancerKey, Vec<IpAddr>)]) {
        for (key, addresses) in known {
            if !addresses.is_empty() {
                self.reserve(key, addresses);
            }
        }
        self.pools.open();
    }

    /// What a balancer is to forward, and its addresses.
    pub(super) fn decide_front(
        &mut self,
        key: &BalancerKey,
        front: &Front,
        previous: &[IpAddr],
    ) -> Result<(Decided, Frontage), Fault> {
        self.pools.open();
        self.pools.request(key, request(front, previous));
        let allocation = self.pools.allocation(key).cloned().unwrap_or_default();
        let mut addresses = allocation.addresses;
        if addresses.is_empty() {
            let problem = allocation.problem.unwrap_or(AddressProblem::Starting);
            return Err(no_address(&problem));
        }
        let rank = |address: &IpAddr| {
            let family = Family::of(*address);
            front.families.iter().position(|one| *one == family)
        };
        addresses.sort_by_key(rank);
        let entry = BookEntry {
            addresses: addresses.clone(),
            front: Some(Arc::new(front.clone())),
            ..self.balancers.get(key).cloned().unwrap_or_default()
        };
        let frontage = Frontage {
            addresses,
            hostname: None,
        };
        Ok((vec![(key.clone(), entry)], frontage))
    }

    /// What balancers are to forward after changes of addresses, and what becomes of each change.
    pub(super) fn decide_addresses(
        &self,
        changes: &[AddressChange],
    ) -> (Decided, Vec<AddressOutcome>) {
        let mut touched: BTreeMap<BalancerKey, BookEntry> = BTreeMap::new();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let result = self.objection(change).map_or(Ok(()), Err);
            if result.is_ok() {
                self.rebind(change, &mut touched);
            }
            outcomes.push(AddressOutcome {
                address: change.address,
                result,
            });
        }
        (touched.into_iter().collect(), outcomes)
    }

    /// Keeps what was applied.
    pub(super) fn commit(&mut self, decided: Decided, digest: Option<&str>) {
        for (key, mut entry) in decided {
            if let Some(digest) = digest {
                entry.digest = Some(digest.to_owned());
            }
            self.balancers.insert(key, entry);
        }
    }

    /// Forgets a balancer, and says whether that freed an address.
    pub(super) fn removed(&mut self, key: &BalancerKey) -> bool {
        self.balancers.remove(key);
        let allocation = self.pools.allocation(key);
        let had_some = allocation.is_some_and(|one| !one.addresses.is_empty());
        self.pools.release(key);
        had_some
    }

    /// Everything that the data plane was found to have, beside what is known of it.
    pub(super) fn holdings(&mut self, found: BTreeMap<BalancerKey, FoundForwarding>) -> Holdings {
        let mut holdings = Holdings::default();
        for (key, found) in found {
            if !self.balancers.contains_key(&key) {
                self.adopt(&key, &found);
            }
            let Some(entry) = self.balancers.get_mut(&key) else {
                continue;
            };
            if !found.is_whole {
                entry.digest = None;
            }
            let held = held(entry.addresses.clone(), entry.digest.clone());
            holdings.balancers.insert(key, held);
            for (address, binding) in &entry.members {
                let bindings: &mut Bindings = holdings.addresses.entry(*address).or_default();
                bindings.insert(binding.clone());
            }
        }
        // What a data plane lost is made again from the start.
        self.balancers
            .retain(|key, _| holdings.balancers.contains_key(key));
        holdings
    }

    /// Takes over what a process before this one left.
    fn adopt(&mut self, key: &BalancerKey, found: &FoundForwarding) {
        if self.pools.allocation(key).is_none() {
            self.reserve(key, &found.addresses);
        }
        let mut targets: BTreeMap<IpAddr, Vec<PortTarget>> = BTreeMap::new();
        for ((protocol, port), endpoints) in &found.ports {
            for endpoint in endpoints {
                targets.entry(endpoint.ip()).or_default().push(PortTarget {
                    protocol: *protocol,
                    port: *port,
                    target: endpoint.port(),
                });
            }
        }
        let member = |(address, mut targets): (IpAddr, Vec<PortTarget>)| {
            targets.sort();
            let binding = Binding {
                location: None,
                balancer: key.clone(),
                targets: targets.into(),
            };
            (address, binding)
        };
        let entry = BookEntry {
            addresses: found.addresses.clone(),
            members: targets.into_iter().map(member).collect(),
            ..BookEntry::default()
        };
        self.balancers.insert(key.clone(), entry);
    }

    fn reserve(&mut self, key: &BalancerKey, addresses: &[IpAddr]) {
        let request = AddressRequest {
            needs: addresses
                .iter()
                .map(|address| Family::of(*address))
                .collect(),
            has: addresses.to_vec(),
            ..AddressRequest::default()
        };
        self.pools.request(key, request);
    }

    /// Why a change cannot be made.
    fn objection(&self, change: &AddressChange) -> Option<Fault> {
        for binding in &change.wanted {
            let Some(entry) = self.balancers.get(&binding.balancer) else {
                let text = format!("no load balancer {} is here", binding.balancer);
                return Some(Fault::new(FaultKind::Missing, text));
            };
            let is_loop = entry.addresses.contains(&change.address)
                && binding
                    .targets
                    .iter()
                    .any(|target| target.port == target.target);
            if is_loop {
                let text = format!(
                    "{} is the load balancer's own address: traffic would go round in a circle",
                    change.address
                );
                return Some(Fault::new(FaultKind::Invalid, text));
            }
        }
        None
    }

    fn rebind(&self, change: &AddressChange, touched: &mut BTreeMap<BalancerKey, BookEntry>) {
        let keys: BTreeSet<&BalancerKey> = change
            .stood
            .iter()
            .chain(change.wanted.iter())
            .map(|binding| &binding.balancer)
            .collect();
        for key in keys {
            let Some(known) = self.balancers.get(key) else {
                continue;
            };
            let entry = touched.entry(key.clone()).or_insert_with(|| known.clone());
            // Of several places of one endpoint the last counts: the address is the same.
            let mut wanted = change.wanted.iter().filter(|one| one.balancer == *key);
            match wanted.next_back() {
                Some(binding) => entry.members.insert(change.address, binding.clone()),
                None => entry.members.remove(&change.address),
            };
        }
    }
}

impl BookEntry {
    /// What it forwards; `is_here` says whether a node is this machine.
    pub(super) fn forwarding(&self, is_here: &mut dyn FnMut(IpAddr) -> bool) -> Forwarding {
        let Some(front) = &self.front else {
            return Forwarding::default();
        };
        let mut ports: BTreeMap<_, BTreeSet<SocketAddr>> = front
            .ports
            .iter()
            .map(|port| ((port.protocol, port.port), BTreeSet::new()))
            .collect();
        let is_local = front.traffic_policy == TrafficPolicy::Local;
        for (address, binding) in &self.members {
            let is_elsewhere = binding.location.is_some_and(|node| !is_here(node));
            if is_local && is_elsewhere {
                continue;
            }
            for target in &*binding.targets {
                if let Some(endpoints) = ports.get_mut(&(target.protocol, target.port)) {
                    endpoints.insert(SocketAddr::new(*address, target.target));
                }
            }
        }
        Forwarding {
            addresses: self.addresses.clone(),
            ports,
            affinity: front.affinity,
            source_ranges: front.source_ranges.clone(),
            traffic_policy: front.traffic_policy,
        }
    }

    /// Whether it is known what it is to be; what a process before left is not, before it is ensured.
    pub(super) fn is_known(&self) -> bool {
        self.front.is_some()
    }
}

fn request(front: &Front, previous: &[IpAddr]) -> AddressRequest {
    let labels = front
        .labels
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    AddressRequest {
        labels,
        needs: front.families.first().copied().into_iter().collect(),
        prefers: front.families.iter().skip(1).copied().collect(),
        asked: front.requested.clone(),
        pool: front.options.get(POOL_OPTION).map(ToString::to_string),
        has: previous.to_vec(),
        ..AddressRequest::default()
    }
}

/// The fault of a Service that gets no address. It is tried again when pools or Services change.
fn no_address(problem: &AddressProblem) -> Fault {
    let kind = match problem {
        AddressProblem::AskedTwice(_) => FaultKind::Invalid,
        AddressProblem::Starting
        | AddressProblem::NoPool(_)
        | AddressProblem::UsedUp(..)
        | AddressProblem::Outside(_)
        | AddressProblem::Taken(..)
        | AddressProblem::Kept(_)
        | AddressProblem::Moved(..) => FaultKind::Refused,
    };
    Fault::new(kind, problem.to_string())
}

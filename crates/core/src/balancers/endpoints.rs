//! Which endpoints there are, who tells of them and where they live: what every address is asked to be
//! bound to.
//!
//! Everything is kept as it was last told, one entry for each slice and each pod. So it does not matter
//! whether a Service, its slices or its nodes come first, an endpoint that two slices have stays until both
//! let it go, and where an address was is never asked of somebody who has forgotten.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{BalancerKey, Binding, Bindings, Family, FrontPort, FrontProtocol, PortTarget};
use crate::SmallSet;

/// Who tells of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointsKey {
    /// The `EndpointSlice` with this namespace and name.
    Slice(Arc<str>, Arc<str>),
    /// The pod with this UID.
    Pod(crate::Uid),
}

/// Whose endpoints they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupOwner {
    /// The Service with this namespace and name, whichever UID it has.
    Service(Arc<str>, Arc<str>),
    /// The gateway of the pods with this value of the egress label.
    Egress(Arc<str>),
}

/// The endpoints that one slice or pod tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointGroup {
    /// Whose they are.
    pub owner: GroupOwner,
    /// The ports that each of them has.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<GroupEndpoint>,
}

/// A port of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    /// The name of the Service's port that it serves; may be empty.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: FrontProtocol,
    /// Its number.
    pub port: u16,
}

/// One endpoint of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupEndpoint {
    /// Its address.
    pub address: IpAddr,
    /// Where it lives.
    pub place: Whereabouts,
    /// Whether it takes traffic.
    pub state: EndpointState,
}

/// Where an endpoint lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whereabouts {
    /// Nobody said.
    Unknown,
    /// On the node of this name, whatever its addresses are.
    Node(Arc<str>),
    /// At this address of a node.
    At(IpAddr),
}

/// Whether an endpoint takes traffic. One that serves nothing is not told at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// It is ready.
    Ready,
    /// It is about to end and still serves: it gets traffic where no endpoint of its owner is ready.
    Draining,
}

/// All endpoints as they were last told, found from every end.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointBook {
    groups: BTreeMap<EndpointsKey, Group>,
    owners: BTreeMap<GroupOwner, Owner>,
    /// Slices and pods that have endpoints on a node.
    by_node: BTreeMap<Arc<str>, BTreeSet<EndpointsKey>>,
    /// Slices and pods that have an address.
    by_address: BTreeMap<IpAddr, SmallSet<EndpointsKey>>,
    /// The first address of each family, by node.
    nodes: BTreeMap<Arc<str>, Vec<IpAddr>>,
}

#[derive(Clone, Debug)]
struct Group {
    owner: GroupOwner,
    ports: Vec<EndpointPort>,
    targets: Arc<[PortTarget]>,
    /// Sorted.
    endpoints: Box<[GroupEndpoint]>,
}

#[derive(Clone, Debug, Default)]
struct Owner {
    /// The balancer that it has now, and its ports.
    service: Option<(BalancerKey, Vec<FrontPort>)>,
    groups: BTreeSet<EndpointsKey>,
    ready_len: usize,
    families: [usize; 2],
}

impl EndpointBook {
    /// Takes in what a slice or pod tells now; `None` where it is gone. Returns the addresses to look at.
    pub(super) fn set_group(
        &mut self,
        key: &EndpointsKey,
        group: Option<EndpointGroup>,
    ) -> BTreeSet<IpAddr> {
        let mut touched = BTreeSet::new();
        let owners = [
            self.groups.get(key).map(|group| group.owner.clone()),
            group.as_ref().map(|group| group.owner.clone()),
        ];
        let owners: BTreeSet<GroupOwner> = owners.into_iter().flatten().collect();
        let had_ready: Vec<bool> = owners.iter().map(|owner| self.has_ready(owner)).collect();
        if let Some(before) = self.groups.remove(key) {
            touched.extend(before.endpoints.iter().map(|one| one.address));
            self.forget(key, &before);
        }
        if let Some(group) = group {
            touched.extend(group.endpoints.iter().map(|one| one.address));
            self.learn(key, group);
        }
        for (owner, had_ready) in owners.iter().zip(had_ready) {
            // Whether endpoints that are about to end get traffic depends on all of them.
            if self.has_ready(owner) != had_ready {
                touched.extend(self.addresses_of(owner));
            }
        }
        touched
    }

    /// Takes in a node's addresses; none where it is gone. Returns the addresses to look at.
    pub(super) fn set_node(&mut self, name: &Arc<str>, addresses: Vec<IpAddr>) -> BTreeSet<IpAddr> {
        let before = self.nodes.remove(name).unwrap_or_default();
        let is_same = before == addresses;
        if !addresses.is_empty() {
            self.nodes.insert(Arc::clone(name), addresses);
        }
        if is_same {
            return BTreeSet::new();
        }
        let groups = self.by_node.get(name).into_iter().flatten();
        let endpoints = groups
            .filter_map(|key| self.groups.get(key))
            .flat_map(|one| &one.endpoints);
        let here =
            endpoints.filter(|one| matches!(&one.place, Whereabouts::Node(at) if at == name));
        here.map(|one| one.address).collect()
    }

    /// Takes in which balancer a Service has and its ports; `None` where it has none any more. Returns the
    /// addresses to look at.
    pub(super) fn set_service(
        &mut self,
        owner: &GroupOwner,
        service: Option<(BalancerKey, Vec<FrontPort>)>,
    ) -> BTreeSet<IpAddr> {
        let entry = self.owners.entry(owner.clone()).or_default();
        if entry.service == service {
            self.drop_unused(owner);
            return BTreeSet::new();
        }
        entry.service = service;
        for key in entry.groups.clone() {
            let targets = self.groups.get(&key).map(|group| self.targets(group));
            if let (Some(group), Some(targets)) = (self.groups.get_mut(&key), targets) {
                group.targets = targets;
            }
        }
        let touched = self.addresses_of(owner).collect();
        self.drop_unused(owner);
        touched
    }

    /// The balancer that an owner has now.
    pub(super) fn balancer(&self, owner: &GroupOwner) -> Option<BalancerKey> {
        match owner {
            GroupOwner::Egress(label) => Some(BalancerKey::Egress(Arc::clone(label))),
            GroupOwner::Service(..) => {
                let service = self.owners.get(owner)?.service.as_ref();
                service.map(|(key, _)| key.clone())
            }
        }
    }

    /// The owner that a slice or pod tells of.
    pub(super) fn owner(&self, key: &EndpointsKey) -> Option<&GroupOwner> {
        self.groups.get(key).map(|group| &group.owner)
    }

    /// The addresses that a slice or pod tells of.
    pub(super) fn addresses_in(&self, key: &EndpointsKey) -> impl Iterator<Item = IpAddr> {
        let endpoints = self.groups.get(key).into_iter();
        endpoints.flat_map(|group| group.endpoints.iter().map(|one| one.address))
    }

    /// What an address is asked to be bound to, of the balancers that are open.
    pub(super) fn bindings(
        &self,
        address: IpAddr,
        is_open: impl Fn(&BalancerKey) -> bool,
    ) -> Bindings {
        let mut all: BTreeMap<(Option<IpAddr>, BalancerKey), Arc<[PortTarget]>> = BTreeMap::new();
        for key in self.by_address.get(&address).into_iter().flatten() {
            let Some(group) = self.groups.get(key) else {
                continue;
            };
            let Some(balancer) = self.balancer(&group.owner).filter(&is_open) else {
                continue;
            };
            let is_service = matches!(balancer, BalancerKey::Service(_));
            if is_service && group.targets.is_empty() {
                continue;
            }
            let has_ready = self.has_ready(&group.owner);
            for endpoint in group.at(address) {
                if has_ready && endpoint.state == EndpointState::Draining {
                    continue;
                }
                let location = self.location(endpoint);
                all.entry((location, balancer.clone()))
                    .and_modify(|targets| *targets = union(targets, &group.targets))
                    .or_insert_with(|| Arc::clone(&group.targets));
            }
        }
        let binding = |((location, balancer), targets)| Binding {
            location,
            balancer,
            targets,
        };
        all.into_iter().map(binding).collect()
    }

    /// The addresses that an owner's endpoints have.
    pub(super) fn addresses_of(&self, owner: &GroupOwner) -> impl Iterator<Item = IpAddr> {
        let groups = self
            .owners
            .get(owner)
            .into_iter()
            .flat_map(|one| &one.groups);
        let groups = groups.filter_map(|key| self.groups.get(key));
        groups.flat_map(|group| group.endpoints.iter().map(|one| one.address))
    }

    /// Whether an owner has slices or pods.
    pub(super) fn has_groups(&self, owner: &GroupOwner) -> bool {
        let owner = self.owners.get(owner);
        owner.is_some_and(|owner| !owner.groups.is_empty())
    }

    /// The families of an owner's endpoints.
    pub(super) fn families(&self, owner: &GroupOwner) -> Vec<Family> {
        let counts = self.owners.get(owner).map_or([0; 2], |one| one.families);
        let both = [(Family::V4, counts[0]), (Family::V6, counts[1])];
        let there = both.into_iter().filter(|(_, count)| *count > 0);
        there.map(|(family, _)| family).collect()
    }

    /// How many endpoints a Service has, or how many pods a gateway.
    pub(super) fn len(&self, owner: &GroupOwner) -> usize {
        let known = self.owners.get(owner);
        known.map_or(0, |known| match owner {
            GroupOwner::Service(..) => known.families.iter().sum(),
            GroupOwner::Egress(_) => known.groups.len(),
        })
    }

    fn has_ready(&self, owner: &GroupOwner) -> bool {
        self.owners.get(owner).is_some_and(|one| one.ready_len > 0)
    }

    fn location(&self, endpoint: &GroupEndpoint) -> Option<IpAddr> {
        let family = Family::of(endpoint.address);
        match &endpoint.place {
            Whereabouts::Unknown => None,
            Whereabouts::At(address) => Some(*address),
            Whereabouts::Node(name) => {
                let mut addresses = self.nodes.get(name).into_iter().flatten();
                addresses.find(|one| Family::of(**one) == family).copied()
            }
        }
    }

    fn targets(&self, group: &Group) -> Arc<[PortTarget]> {
        let owner = self.owners.get(&group.owner);
        let service = owner.and_then(|owner| owner.service.as_ref());
        let fronts = service.into_iter().flat_map(|(_, ports)| ports);
        let targets = fronts.flat_map(|front| {
            let serves =
                |one: &&EndpointPort| one.name == front.name && one.protocol == front.protocol;
            group.ports.iter().filter(serves).map(|one| PortTarget {
                protocol: front.protocol,
                port: front.port,
                target: one.port,
            })
        });
        let targets: BTreeSet<PortTarget> = targets.collect();
        targets.into_iter().collect()
    }

    fn learn(&mut self, key: &EndpointsKey, group: EndpointGroup) {
        let EndpointGroup {
            owner,
            ports,
            mut endpoints,
        } = group;
        endpoints.sort_unstable();
        endpoints.dedup();
        for endpoint in &endpoints {
            let holders = self.by_address.entry(endpoint.address).or_default();
            holders.insert(key.clone());
            if let Whereabouts::Node(node) = &endpoint.place {
                let slices = self.by_node.entry(Arc::clone(node)).or_default();
                slices.insert(key.clone());
            }
        }
        let entry = self.owners.entry(owner.clone()).or_default();
        entry.groups.insert(key.clone());
        entry.count(&endpoints, |count, by| *count += by);
        let mut group = Group {
            owner,
            ports,
            targets: Arc::default(),
            endpoints: endpoints.into(),
        };
        group.targets = self.targets(&group);
        self.groups.insert(key.clone(), group);
    }

    fn forget(&mut self, key: &EndpointsKey, group: &Group) {
        for endpoint in &group.endpoints {
            if let Some(holders) = self.by_address.get_mut(&endpoint.address) {
                holders.retain(|one| one != key);
                if holders.is_empty() {
                    self.by_address.remove(&endpoint.address);
                }
            }
            if let Whereabouts::Node(node) = &endpoint.place
                && let Some(slices) = self.by_node.get_mut(node)
            {
                slices.remove(key);
                if slices.is_empty() {
                    self.by_node.remove(node);
                }
            }
        }
        if let Some(owner) = self.owners.get_mut(&group.owner) {
            owner.groups.remove(key);
            owner.count(&group.endpoints, |count, by| *count -= by);
        }
        self.drop_unused(&group.owner);
    }

    fn drop_unused(&mut self, owner: &GroupOwner) {
        let entry = self.owners.get(owner);
        if entry.is_some_and(|one| one.service.is_none() && one.groups.is_empty()) {
            self.owners.remove(owner);
        }
    }
}

impl Owner {
    fn count(&mut self, endpoints: &[GroupEndpoint], change: impl Fn(&mut usize, usize)) {
        let ready = endpoints.iter();
        let ready = ready.filter(|one| one.state == EndpointState::Ready);
        change(&mut self.ready_len, ready.count());
        for endpoint in endpoints {
            let family = match Family::of(endpoint.address) {
                Family::V4 => 0,
                Family::V6 => 1,
            };
            change(&mut self.families[family], 1);
        }
    }
}

impl Group {
    /// Its endpoints with an address: more than one where it is told of twice.
    fn at(&self, address: IpAddr) -> impl Iterator<Item = &GroupEndpoint> {
        let start = self.endpoints.partition_point(|one| one.address < address);
        let rest = self.endpoints.get(start..).unwrap_or_default();
        rest.iter().take_while(move |one| one.address == address)
    }
}

fn union(one: &Arc<[PortTarget]>, other: &Arc<[PortTarget]>) -> Arc<[PortTarget]> {
    if one == other {
        return Arc::clone(one);
    }
    let both: BTreeSet<PortTarget> = one.iter().chain(other.iter()).copied().collect();
    both.into_iter().collect()
}

#[cfg(test)]
mod tests;

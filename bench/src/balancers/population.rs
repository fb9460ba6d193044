//! Services, their endpoints and the nodes that these live on, made up by number.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bindery_core::Uid;
use bindery_core::balancers::{
    BalancerDeclaration, BalancerKey, BalancerSpec, Binding, Bindings, EndpointGroup, EndpointPort,
    EndpointState, EndpointsKey, Family, Front, FrontPort, FrontProtocol, GroupEndpoint,
    GroupOwner, TrafficPolicy, Whereabouts,
};

use crate::objects;

/// The port of every Service, and that of its endpoints.
const PORT: u16 = 80;
const TARGET: u16 = 8080;

/// So many Services with as many endpoints each, spread over so many nodes.
pub(crate) struct Population {
    pub(crate) services: usize,
    pub(crate) each: usize,
    nodes: Vec<(Arc<str>, IpAddr)>,
    namespace: Arc<str>,
}

impl Population {
    /// Makes them up.
    pub(crate) fn new(services: usize, each: usize, nodes: usize) -> Self {
        let node = |number: usize| {
            let [.., high, low] = number.to_be_bytes();
            let address = Ipv4Addr::new(172, 16, high, low).into();
            (format!("node-{number}").into(), address)
        };
        Self {
            services,
            each,
            nodes: (0..nodes).map(node).collect(),
            namespace: "default".into(),
        }
    }

    /// How many endpoints there are.
    pub(crate) fn addresses(&self) -> usize {
        self.services * self.each
    }

    /// Nodes with their addresses.
    pub(crate) fn nodes(&self) -> &[(Arc<str>, IpAddr)] {
        &self.nodes
    }

    /// The balancer of a Service. Keys do not come in the order of the numbers, as UIDs do not.
    pub(crate) fn key(number: usize) -> BalancerKey {
        let mixed = number.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
        BalancerKey::Service(Uid::from(&*format!(
            "{mixed:08x}-0000-4000-8000-{number:012x}"
        )))
    }

    fn owner(&self, number: usize) -> GroupOwner {
        GroupOwner::Service(
            Arc::clone(&self.namespace),
            format!("service-{number}").into(),
        )
    }

    /// What a Service asks for.
    pub(crate) fn declaration(&self, number: usize) -> BalancerDeclaration {
        let front = Front {
            namespace: Arc::clone(&self.namespace),
            name: format!("service-{number}").into(),
            labels: BTreeMap::new(),
            ports: vec![FrontPort {
                protocol: FrontProtocol::Tcp,
                port: PORT,
                name: "http".into(),
                target: Some(TARGET),
                node_port: None,
            }],
            families: vec![Family::V4],
            affinity: None,
            source_ranges: Vec::new(),
            traffic_policy: TrafficPolicy::Cluster,
            requested: Vec::new(),
            options: BTreeMap::new(),
        };
        BalancerDeclaration {
            owner: self.owner(number),
            spec: Some(BalancerSpec::Inbound(front)),
            previous: Vec::new(),
        }
    }

    /// The one slice of a Service.
    pub(crate) fn slice(&self, number: usize) -> EndpointsKey {
        EndpointsKey::Slice(
            Arc::clone(&self.namespace),
            format!("service-{number}-x7k2p").into(),
        )
    }

    /// What the slice tells where it has these endpoints.
    pub(crate) fn group(&self, number: usize, endpoints: Vec<GroupEndpoint>) -> EndpointGroup {
        EndpointGroup {
            owner: self.owner(number),
            ports: vec![EndpointPort {
                name: "http".into(),
                protocol: FrontProtocol::Tcp,
                port: TARGET,
            }],
            endpoints,
        }
    }

    /// The endpoints that a Service has at first.
    pub(crate) fn endpoints(&self, number: usize) -> Vec<GroupEndpoint> {
        let first = number * self.each;
        (first..first + self.each)
            .map(|place| self.endpoint(place))
            .collect()
    }

    /// An endpoint by its number; from the number of all on they are of nobody at first.
    pub(crate) fn endpoint(&self, place: usize) -> GroupEndpoint {
        let (node, _) = &self.nodes[place % self.nodes.len()];
        GroupEndpoint {
            address: objects::address(place).into(),
            place: Whereabouts::Node(Arc::clone(node)),
            state: EndpointState::Ready,
        }
    }

    /// What an endpoint of a Service is to be bound to.
    pub(crate) fn bindings(&self, number: usize, endpoint: &GroupEndpoint) -> Bindings {
        let Whereabouts::Node(at) = &endpoint.place else {
            return Bindings::default();
        };
        let mut nodes = self.nodes.iter();
        let location = nodes.find(|(name, _)| name == at);
        let binding = Binding {
            location: location.map(|(_, address)| *address),
            balancer: Self::key(number),
            targets: [].into(),
        };
        [binding].into_iter().collect()
    }
}

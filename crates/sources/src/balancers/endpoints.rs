//! Which endpoints slices and pods tell of, and where nodes are.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use bindery_core::balancers::{
    EndpointGroup, EndpointPort, EndpointState, EndpointsKey, Family, FrontProtocol, GroupEndpoint,
    GroupOwner, Whereabouts,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    discovery::v1::{Endpoint, EndpointConditions, EndpointSlice},
};

/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The label by which a pod asks for a gateway; its value names it.
pub const EGRESS_LABEL: &str = "bindery.dev/egress-gateway";

/// What keeps a pod until its addresses are bound to nothing of its gateway.
const POD_FINALIZER: &str = "bindery.dev/egress";

/// A pod that has, or had, a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressPod {
    /// Which.
    pub key: EndpointsKey,
    /// Its gateway.
    pub label: Arc<str>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it tells of; `None` where it is about to go or has ended, so that its addresses leave.
    pub group: Option<EndpointGroup>,
    /// Whether our finalizer keeps it.
    pub is_kept: bool,
}

impl EgressPod {
    /// What keeps a pod until its addresses are bound to nothing of its gateway.
    pub const FINALIZER: &'static str = POD_FINALIZER;
}

/// Which slice it is.
#[must_use]
pub fn slice_key(slice: &EndpointSlice) -> EndpointsKey {
    let meta = &slice.metadata;
    EndpointsKey::Slice(
        meta.namespace.as_deref().unwrap_or_default().into(),
        meta.name.as_deref().unwrap_or_default().into(),
    )
}

/// What a slice tells of; `None` where it belongs to no Service, or has names in place of addresses.
///
/// An endpoint counts as it counts for kube-proxy: ready where nothing else is said; about to end, but still
/// serving, where it says so.
#[must_use]
pub fn slice_group(slice: &EndpointSlice) -> Option<EndpointGroup> {
    let meta = &slice.metadata;
    let service = meta.labels.as_ref()?.get(SERVICE_LABEL)?;
    if slice.address_type == "FQDN" || meta.deletion_timestamp.is_some() {
        return None;
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let ports = slice.ports.iter().flatten().filter_map(|one| {
        let protocol = match one.protocol.as_deref() {
            None | Some("TCP") => FrontProtocol::Tcp,
            Some("UDP") => FrontProtocol::Udp,
            Some(_) => return None,
        };
        Some(EndpointPort {
            name: one.name.as_deref().unwrap_or_default().into(),
            protocol,
            port: u16::try_from(one.port?).ok().filter(|port| *port > 0)?,
        })
    });
    let endpoints = slice.endpoints.iter().flatten();
    let endpoints = endpoints.filter_map(group_endpoint);
    Some(EndpointGroup {
        owner: GroupOwner::Service(namespace.into(), service.as_str().into()),
        ports: ports.collect(),
        endpoints: endpoints.collect(),
    })
}

fn group_endpoint(endpoint: &Endpoint) -> Option<GroupEndpoint> {
    // All addresses of one endpoint lead to the same place, and the first is the one that is used.
    let address = endpoint.addresses.first()?.parse().ok()?;
    let place = match endpoint.node_name.as_deref() {
        Some(node) => Whereabouts::Node(node.into()),
        None => Whereabouts::Unknown,
    };
    Some(GroupEndpoint {
        address,
        place,
        state: state(endpoint.conditions.as_ref())?,
    })
}

fn state(conditions: Option<&EndpointConditions>) -> Option<EndpointState> {
    let Some(conditions) = conditions else {
        return Some(EndpointState::Ready);
    };
    let is_ready = conditions.ready.unwrap_or(true);
    let is_serving = conditions.serving.unwrap_or(is_ready);
    let is_terminating = conditions.terminating.unwrap_or(false);
    match (is_ready && !is_terminating, is_serving && is_terminating) {
        (true, _) => Some(EndpointState::Ready),
        (false, true) => Some(EndpointState::Draining),
        (false, false) => None,
    }
}

/// The addresses of a node inside its cluster: of each family the smallest, so that the order in which they
/// are listed does not matter. None where it is about to go.
#[must_use]
pub fn node_addresses(node: &Node) -> Vec<IpAddr> {
    let status = node.status.as_ref();
    let listed = status.and_then(|status| status.addresses.as_ref());
    let inside = listed.into_iter().flatten();
    let inside = inside.filter(|one| one.type_ == "InternalIP");
    let all: BTreeSet<IpAddr> = inside.filter_map(|one| one.address.parse().ok()).collect();
    let first = |family| all.iter().find(|one| Family::of(**one) == family).copied();
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(first)
        .collect()
}

/// A pod that asks for a gateway, or is kept by our finalizer.
#[must_use]
pub fn egress_pod(pod: &Pod) -> Option<EgressPod> {
    let meta = &pod.metadata;
    let uid = meta.uid.as_deref()?;
    let finalizers = meta.finalizers.iter().flatten();
    let is_kept = finalizers.into_iter().any(|one| one == POD_FINALIZER);
    let label = meta.labels.iter().flatten();
    let label = label
        .into_iter()
        .find_map(|(key, value)| (key == EGRESS_LABEL && !value.is_empty()).then_some(value));
    let label: Arc<str> = match label {
        Some(label) => label.as_str().into(),
        None if is_kept => "".into(),
        None => return None,
    };
    let status = pod.status.clone().unwrap_or_default();
    let texts = status.pod_ips.iter().flatten().map(|one| one.ip.clone());
    let texts: Vec<String> = texts.chain(status.pod_ip.clone()).collect();
    let addresses: BTreeSet<IpAddr> = texts.iter().filter_map(|one| one.parse().ok()).collect();
    let hosts = status.host_ips.iter().flatten().map(|one| one.ip.clone());
    let hosts: Vec<String> = hosts.chain(status.host_ip.clone()).collect();
    let hosts: BTreeSet<IpAddr> = hosts.iter().filter_map(|one| one.parse().ok()).collect();
    let lives = !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let is_there = meta.deletion_timestamp.is_none() && lives && !label.is_empty();
    let endpoints: Vec<GroupEndpoint> = addresses
        .iter()
        .map(|address| {
            let family = Family::of(*address);
            let host = hosts.iter().find(|one| Family::of(**one) == family);
            GroupEndpoint {
                address: *address,
                place: host.map_or(Whereabouts::Unknown, |host| Whereabouts::At(*host)),
                state: EndpointState::Ready,
            }
        })
        .collect();
    let group = (is_there && !endpoints.is_empty()).then(|| EndpointGroup {
        owner: GroupOwner::Egress(Arc::clone(&label)),
        ports: Vec::new(),
        endpoints,
    });
    Some(EgressPod {
        key: EndpointsKey::Pod(uid.into()),
        label,
        addresses: addresses.into_iter().collect(),
        group,
        is_kept,
    })
}

//! What a Service asks for.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use bindery_core::{
    Shown,
    balancers::{
        BalancerDeclaration, BalancerKey, BalancerSpec, Family, Front, FrontPort, FrontProtocol,
        GroupOwner, SourceRange, TrafficPolicy,
    },
};
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// What keeps a Service until nothing of its balancer is left.
pub const SERVICE_FINALIZER: &str = "bindery.dev/load-balancer";

/// The condition of a Service that tells how its balancer is.
pub const SERVICE_CONDITION: &str = "Programmed";

/// The annotation of a Service whose names are, or may be, in DNS: their TTL in seconds.
pub const NAMES_ANNOTATION: &str = "bindery.dev/names-published";

/// The annotation by which addresses are asked for, as `spec.loadBalancerIP` does for one: several are
/// separated by commas.
pub const REQUESTED_ANNOTATION: &str = "bindery.dev/load-balancer-ips";

/// What annotations begin with that are for the provider.
const OPTION_PREFIXES: [&str; 2] = ["bindery.dev/address-pool", "service.beta.kubernetes.io/"];

/// The annotation that has source ranges where the spec has none.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// How long a client keeps its endpoint where the Service does not say.
const AFFINITY_SECONDS: i32 = 10_800;

/// Which Services are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerClass {
    /// The class that they name in `spec.loadBalancerClass`.
    pub name: Arc<str>,
    /// Services that name none are ours too: nobody else is there who would take them.
    pub takes_unnamed: bool,
}

/// A mistake of a Service's author, or something that nobody here can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceProblem {
    /// The word for it, as it stands in an Event.
    pub reason: &'static str,
    /// The field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// A Service as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    /// Its balancer, if it has or had one.
    pub key: BalancerKey,
    /// Its namespace and name.
    pub owner: GroupOwner,
    /// Whether our finalizer keeps it.
    pub is_kept: bool,
    /// What it asks for.
    pub wish: ServiceWish,
}

/// What a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceWish {
    /// Nothing of us, now or before.
    Nothing,
    /// Nothing any more: its balancer is to go.
    Leave,
    /// A balancer. With problems there is no spec.
    Have(Box<BalancerDeclaration>, Vec<ServiceProblem>),
}

/// What a Service asks for; `None` where it has no UID, so that nobody could tell it from others.
#[must_use]
pub fn service_view(service: &Service, class: &BalancerClass) -> Option<ServiceView> {
    let meta = &service.metadata;
    let uid = meta.uid.as_deref().filter(|uid| !uid.is_empty())?;
    let namespace: Arc<str> = meta.namespace.as_deref().unwrap_or_default().into();
    let name: Arc<str> = meta.name.as_deref()?.into();
    let owner = GroupOwner::Service(Arc::clone(&namespace), Arc::clone(&name));
    let finalizers = meta.finalizers.iter().flatten();
    let is_kept = finalizers.into_iter().any(|one| one == SERVICE_FINALIZER);
    let annotations = meta.annotations.as_ref();
    let is_named = annotations.is_some_and(|all| all.contains_key(NAMES_ANNOTATION));
    let is_going = meta.deletion_timestamp.is_some();
    let spec = service.spec.as_ref();
    let wish = match spec.filter(|spec| !is_going && is_ours(spec, class)) {
        Some(spec) => {
            let (front, problems) = front(service, spec);
            let is_right = problems.is_empty();
            let declaration = BalancerDeclaration {
                owner: owner.clone(),
                spec: is_right.then_some(BalancerSpec::Inbound(front)),
                previous: status_addresses(service),
            };
            ServiceWish::Have(Box::new(declaration), problems)
        }
        // Whoever took the finalizer away: no name and no status stays without an address.
        None if is_kept || is_named || is_shown(service) => ServiceWish::Leave,
        None => ServiceWish::Nothing,
    };
    Some(ServiceView {
        key: BalancerKey::Service(uid.into()),
        owner,
        is_kept,
        wish,
    })
}

fn is_ours(spec: &ServiceSpec, class: &BalancerClass) -> bool {
    let is_balanced = spec.type_.as_deref() == Some("LoadBalancer");
    is_balanced
        && match spec.load_balancer_class.as_deref() {
            Some(name) => name == &*class.name,
            None => class.takes_unnamed,
        }
}

/// Whether the status says how our balancer is.
fn is_shown(service: &Service) -> bool {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == SERVICE_CONDITION)
}

/// The addresses that the status has.
fn status_addresses(service: &Service) -> Vec<IpAddr> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|one| one.ingress.as_ref());
    let addresses = ingress.into_iter().flatten();
    addresses
        .filter_map(|one| one.ip.as_deref()?.parse().ok())
        .collect()
}

fn front(service: &Service, spec: &ServiceSpec) -> (Front, Vec<ServiceProblem>) {
    let mut problems = Vec::new();
    let annotations = service.metadata.annotations.clone().unwrap_or_default();
    let options = annotations.iter().filter(|(key, _)| {
        let is_option = OPTION_PREFIXES.iter().any(|one| key.starts_with(one));
        is_option && *key != SOURCE_RANGES
    });
    let front = Front {
        namespace: service
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
            .into(),
        name: service.metadata.name.as_deref().unwrap_or_default().into(),
        labels: boxed(service.metadata.labels.iter().flatten()),
        ports: ports(spec, &mut problems),
        families: families(spec, &mut problems),
        affinity: affinity(spec),
        source_ranges: source_ranges(spec, &annotations, &mut problems),
        traffic_policy: match spec.external_traffic_policy.as_deref() {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        },
        requested: requested(spec, &annotations, &mut problems),
        options: boxed(options),
    };
    (front, problems)
}

fn boxed<'a>(all: impl Iterator<Item = (&'a String, &'a String)>) -> BTreeMap<Box<str>, Box<str>> {
    all.map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect()
}

fn ports(spec: &ServiceSpec, problems: &mut Vec<ServiceProblem>) -> Vec<FrontPort> {
    let all = spec.ports.iter().flatten().enumerate();
    let mut ports: Vec<FrontPort> = all
        .filter_map(|(at, one)| port(at, one, problems))
        .collect();
    if spec.ports.iter().flatten().next().is_none() {
        problems.push(ServiceProblem {
            reason: "NoPorts",
            field: "spec.ports".to_owned(),
            message: "there is no port to listen to: give one".to_owned(),
        });
    }
    ports.sort();
    ports
}

fn port(at: usize, one: &ServicePort, problems: &mut Vec<ServiceProblem>) -> Option<FrontPort> {
    let protocol = match one.protocol.as_deref() {
        None | Some("TCP") => FrontProtocol::Tcp,
        Some("UDP") => FrontProtocol::Udp,
        Some(other) => {
            problems.push(ServiceProblem {
                reason: "UnsupportedProtocol",
                field: format!("spec.ports[{at}].protocol"),
                message: format!("{} is neither TCP nor UDP", Shown(other)),
            });
            return None;
        }
    };
    let number = |number: i32| u16::try_from(number).ok().filter(|number| *number > 0);
    let Some(port) = number(one.port) else {
        problems.push(ServiceProblem {
            reason: "InvalidPort",
            field: format!("spec.ports[{at}].port"),
            message: format!("{} is no port: 1 to 65535 are", one.port),
        });
        return None;
    };
    let target = match &one.target_port {
        None => Some(port),
        Some(IntOrString::Int(target)) => number(*target),
        Some(IntOrString::String(_)) => None,
    };
    Some(FrontPort {
        protocol,
        port,
        name: one.name.as_deref().unwrap_or_default().into(),
        target,
        node_port: one.node_port.and_then(number),
    })
}

fn families(spec: &ServiceSpec, problems: &mut Vec<ServiceProblem>) -> Vec<Family> {
    let mut families = Vec::new();
    for (at, family) in spec.ip_families.iter().flatten().enumerate() {
        match family.as_str() {
            "IPv4" => families.push(Family::V4),
            "IPv6" => families.push(Family::V6),
            other => problems.push(ServiceProblem {
                reason: "InvalidFamily",
                field: format!("spec.ipFamilies[{at}]"),
                message: format!("{} is neither IPv4 nor IPv6", Shown(other)),
            }),
        }
    }
    if families.is_empty() {
        families.push(Family::V4);
    }
    families
}

fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = spec.session_affinity_config.as_ref();
    let seconds = config.and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    let seconds = u64::try_from(seconds.unwrap_or(AFFINITY_SECONDS)).unwrap_or_default();
    Some(Duration::from_secs(seconds))
}

fn source_ranges(
    spec: &ServiceSpec,
    annotations: &BTreeMap<String, String>,
    problems: &mut Vec<ServiceProblem>,
) -> Vec<SourceRange> {
    let listed: Vec<String> = match spec.load_balancer_source_ranges.as_deref() {
        Some(ranges) if !ranges.is_empty() => ranges.to_vec(),
        _ => {
            let text = annotations.get(SOURCE_RANGES).map_or("", String::as_str);
            text.split(',').map(str::to_owned).collect()
        }
    };
    let mut ranges = Vec::new();
    for (at, text) in listed.iter().enumerate() {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        match range(text) {
            Some(range) => ranges.push(range),
            None => problems.push(ServiceProblem {
                reason: "InvalidSourceRange",
                field: format!("spec.loadBalancerSourceRanges[{at}]"),
                message: format!("{} is no network such as 192.0.2.0/24", Shown(text)),
            }),
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

fn range(text: &str) -> Option<SourceRange> {
    let (base, len) = text.split_once('/')?;
    SourceRange::new(base.parse().ok()?, len.parse().ok()?)
}

fn requested(
    spec: &ServiceSpec,
    annotations: &BTreeMap<String, String>,
    problems: &mut Vec<ServiceProblem>,
) -> Vec<IpAddr> {
    let annotated = annotations.get(REQUESTED_ANNOTATION);
    let (field, text) = match (annotated, spec.load_balancer_ip.as_deref()) {
        (Some(text), _) => (
            format!("metadata.annotations[{REQUESTED_ANNOTATION}]"),
            text.as_str(),
        ),
        (None, Some(text)) => ("spec.loadBalancerIP".to_owned(), text),
        (None, None) => return Vec::new(),
    };
    let mut requested = Vec::new();
    for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        match one.parse() {
            Ok(address) => requested.push(address),
            Err(_) => problems.push(ServiceProblem {
                reason: "InvalidLoadBalancerIP",
                field: field.clone(),
                message: format!("{} is no address", Shown(one)),
            }),
        }
    }
    requested
}

//! The way of a Service's traffic and of its name: from the endpoints to DNS, told from listed objects alone.

use std::net::IpAddr;

use bindery_api::{AddressPool, Role, role};
use bindery_core::balancers::{EndpointGroup, EndpointState, FrontPort, FrontProtocol};
use bindery_core::pools::{AddressRange, AddressSet};
use bindery_core::{Kind, balancers::BalancerSpec};
use bindery_sources::Id;
use bindery_sources::balancers::{ServiceWish, service_names, slice_group};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;

use super::{StepResult, Trace, trace::trace};
use crate::ask::balanced::{BalancedService, CLASS};
use crate::ask::inventory::Inventory;

/// The annotation of a Service whose names are, or may be, in DNS.
const PUBLISHED: &str = "bindery.dev/names-published";

/// A Service with what its traffic and its name depend on.
pub(super) struct Surroundings {
    pub(super) service: BalancedService,
    /// Its slices; `None` where they may not be listed.
    pub(super) slices: Option<Vec<EndpointSlice>>,
    /// All pools; `None` where they may not be listed.
    pub(super) pools: Option<Vec<AddressPool>>,
    /// Zones, and the endpoints of the Service's namespace.
    pub(super) inventory: Inventory,
}

/// The kinds of which an object may have the names of a Service.
pub(super) fn name_kinds() -> impl Iterator<Item = Kind> {
    let kinds = Kind::ALL.into_iter();
    kinds.filter(|kind| role(*kind) == Role::Endpoints)
}

/// The way of a Service.
pub(super) fn service_trace(all: Surroundings) -> Trace {
    let service = &all.service;
    let mut way = Trace::new(service.object());
    way.named_step("service", object(service));
    way.named_step("validation", validation(service));
    way.named_step("address", address(service, all.pools.as_deref()));
    way.named_step("balancer", balancer(service));
    way.named_step("endpoints", endpoints(service, all.slices.as_deref()));
    let (said, names) = name(service, &all.inventory);
    way.named_step("name", said);
    if let Some(names) = names {
        way.named_step("dns", dns(all.inventory, &names));
    }
    way
}

/// The object that has the names of a Service.
fn named(inventory: &Inventory, namespace: &str, name: &str) -> Option<Id> {
    name_kinds().find_map(|kind| inventory.named(kind, namespace, name))
}

fn stopped(line: impl Into<String>) -> StepResult {
    StepResult::Stopped(vec![line.into()])
}

fn object(service: &BalancedService) -> StepResult {
    let class = match service.class() {
        Some(class) => format!("class {class}"),
        None => "no class".to_owned(),
    };
    let finalizer = if service.is_kept() {
        "kept by bindery.dev/load-balancer"
    } else {
        "not kept yet"
    };
    let line = format!("type LoadBalancer, {class}, {finalizer}");
    if service.is_going() {
        let why = "it is being deleted: first its names leave DNS and caches, then its address is released";
        return StepResult::Stopped(vec![line, why.to_owned()]);
    }
    if !service.is_balanced() {
        return stopped("it is of another type; set spec.type: LoadBalancer to give it an address");
    }
    if service.is_ours() {
        return StepResult::Done(vec![line]);
    }
    let what_to_do = match service.class() {
        Some(class) => format!(
            "the class {class} is not Bindery's: whoever it is of gives it an address; \
             `loadBalancerClass: {CLASS}` makes it Bindery's (the field cannot be changed later)"
        ),
        None => format!(
            "nobody has taken it: `bindery run` takes Services with `loadBalancerClass: {CLASS}`, and \
             `bindery up` those without a class too; is it running with --load-balancer?"
        ),
    };
    StepResult::Stopped(vec![line, what_to_do])
}

fn validation(service: &BalancedService) -> StepResult {
    let Some(view) = service.view() else {
        return stopped("it has no UID");
    };
    let ServiceWish::Have(declaration, problems) = view.wish else {
        return stopped("it asks for nothing");
    };
    let told = service.condition().filter(|one| one.reason == "Invalid");
    if !problems.is_empty() {
        let line = |problem: &bindery_sources::balancers::ServiceProblem| {
            format!("{}: {}: {}", problem.reason, problem.field, problem.message)
        };
        return StepResult::Stopped(problems.iter().map(line).collect());
    }
    if let Some(told) = told {
        return stopped(format!("Invalid: {}", told.message));
    }
    let ports = match &declaration.spec {
        Some(BalancerSpec::Inbound(front)) => front.ports.iter().map(port).collect(),
        Some(BalancerSpec::Egress(_)) | None => Vec::new(),
    };
    let ports: Vec<String> = ports;
    StepResult::Done(vec![format!("ports {}", ports.join(", "))])
}

fn port(port: &FrontPort) -> String {
    let name = if port.name.is_empty() { "" } else { " " };
    format!(
        "{}/{}{name}{}",
        port.port,
        port.protocol.as_str(),
        port.name
    )
}

fn address(service: &BalancedService, pools: Option<&[AddressPool]>) -> StepResult {
    let found = service.ingress();
    if !found.is_empty() {
        let line = |text: &&str| match pool_of(text, pools) {
            Some(pool) => format!("{text} of addresspool/{pool}"),
            None => (*text).to_owned(),
        };
        return StepResult::Done(found.iter().map(line).collect());
    }
    let mut lines = told(service);
    match pools {
        None => lines.push("address pools were not looked at: you may not list them".to_owned()),
        Some([]) => lines.push(
            "there is no AddressPool: apply one with the addresses that Services may have (a cloud \
             needs none)"
                .to_owned(),
        ),
        Some(pools) => lines.extend(pools.iter().map(usage)),
    }
    StepResult::Stopped(lines)
}

fn usage(pool: &AddressPool) -> String {
    let status = pool.status.clone().unwrap_or_default();
    let number = |count: Option<i64>| count.map_or_else(|| "?".to_owned(), |one| one.to_string());
    let selects = match pool.spec.service_selector {
        Some(_) => ", for Services that its serviceSelector selects",
        None => "",
    };
    let assigns = match pool.spec.auto_assign {
        Some(false) => ", only for Services that ask for it",
        Some(true) | None => "",
    };
    format!(
        "addresspool/{}: {}; {} used, {} free{selects}{assigns}",
        pool.name_any(),
        pool.spec.addresses.join(", "),
        number(status.used),
        number(status.free)
    )
}

fn pool_of(address: &str, pools: Option<&[AddressPool]>) -> Option<String> {
    let address: IpAddr = address.parse().ok()?;
    let has_it = |pool: &&AddressPool| {
        let mut set = AddressSet::default();
        let ranges = pool.spec.addresses.iter();
        for range in ranges.filter_map(|text| AddressRange::parse(text).ok()) {
            set.insert(range);
        }
        set.contains(address)
    };
    pools?.iter().find(has_it).map(kube::ResourceExt::name_any)
}

fn balancer(service: &BalancedService) -> StepResult {
    let lines = told(service);
    let status = service.condition().map(|one| one.status.as_str());
    if status == Some("True") {
        StepResult::Done(lines)
    } else {
        StepResult::Stopped(lines)
    }
}

/// What Bindery says of its load balancer.
fn told(service: &BalancedService) -> Vec<String> {
    let (_, word, message) = service.row();
    vec![format!("{word}: {message}")]
}

fn endpoints(service: &BalancedService, slices: Option<&[EndpointSlice]>) -> StepResult {
    let Some(slices) = slices else {
        return StepResult::Done(vec![
            "EndpointSlices were not looked at: you may not list them".to_owned(),
        ]);
    };
    let ports = ports(service);
    let mut lines = Vec::new();
    let mut ready = 0;
    let mut is_whole = true;
    for slice in slices {
        let (line, count) = slice_line(slice, &ports);
        is_whole &= count.is_some();
        ready += count.unwrap_or_default();
        lines.push(line);
    }
    if slices.is_empty() {
        let (_, name) = service.place();
        lines.push(format!(
            "there is no EndpointSlice with the label kubernetes.io/service-name: {name}; a Service with a \
             selector gets one of its pods, any other is given one by you"
        ));
    }
    if let Some(refused) = service
        .condition()
        .filter(|one| one.reason == "PartiallyProgrammed")
    {
        is_whole = false;
        lines.push(refused.message.clone());
    }
    let is_told = service
        .condition()
        .is_some_and(|one| one.message.contains("traffic is forwarded"));
    match (ready, is_told) {
        (0, _) => {
            lines.push("no endpoint is ready, so that nobody answers".to_owned());
            StepResult::Stopped(lines)
        }
        (_, false) => {
            lines.push(format!(
                "{ready} ready, and none is bound to the balancer yet"
            ));
            StepResult::Stopped(lines)
        }
        (_, true) if is_whole => StepResult::Done(lines),
        (_, true) => StepResult::Partly(lines),
    }
}

fn ports(service: &BalancedService) -> Vec<FrontPort> {
    let declaration = match service.view().map(|view| view.wish) {
        Some(ServiceWish::Have(declaration, _)) => declaration,
        Some(ServiceWish::Leave | ServiceWish::Nothing) | None => return Vec::new(),
    };
    match declaration.spec {
        Some(BalancerSpec::Inbound(front)) => front.ports,
        Some(BalancerSpec::Egress(_)) | None => Vec::new(),
    }
}

/// What a slice has, and how many of its endpoints take traffic; none where something about it is wrong.
fn slice_line(slice: &EndpointSlice, ports: &[FrontPort]) -> (String, Option<usize>) {
    let name = slice.name_any();
    let listed = slice.endpoints.as_ref().map_or(0, Vec::len);
    let Some(group) = slice_group(slice) else {
        let why = format!(
            "endpointslice/{name}: it has names in place of addresses, or is being deleted"
        );
        return (why, None);
    };
    let count = |state| {
        let endpoints = group.endpoints.iter();
        endpoints.filter(|one| one.state == state).count()
    };
    let (ready, draining) = (count(EndpointState::Ready), count(EndpointState::Draining));
    if !ports.iter().any(|front| serves(&group, front)) {
        let wanted: Vec<String> = ports
            .iter()
            .map(|one| port_name(&one.name, one.protocol))
            .collect();
        let has: Vec<String> = group
            .ports
            .iter()
            .map(|one| port_name(&one.name, one.protocol))
            .collect();
        let why = format!(
            "endpointslice/{name}: none of its ports ({}) has the name and protocol of a port of the Service ({}): \
             name them alike",
            has.join(", "),
            wanted.join(", ")
        );
        return (why, None);
    }
    let mut said = vec![format!("{ready} ready")];
    if draining > 0 {
        said.push(format!("{draining} ending"));
    }
    let rest = listed.saturating_sub(ready + draining);
    if rest > 0 {
        said.push(format!("{rest} not ready"));
    }
    let shown = group.endpoints.iter().take(5);
    let mut shown: Vec<String> = shown.map(|one| one.address.to_string()).collect();
    if group.endpoints.len() > shown.len() {
        shown.push("…".to_owned());
    }
    let line = format!(
        "endpointslice/{name}: {} ({})",
        said.join(", "),
        shown.join(", ")
    );
    (line, Some(if ready > 0 { ready } else { draining }))
}

fn serves(group: &EndpointGroup, front: &FrontPort) -> bool {
    let mut ports = group.ports.iter();
    ports.any(|one| one.name == front.name && one.protocol == front.protocol)
}

fn port_name(name: &str, protocol: FrontProtocol) -> String {
    let name = if name.is_empty() { "unnamed" } else { name };
    format!("{name} {}", protocol.as_str())
}

/// What is said of the names, and the object that has them, if any are asked for.
fn name(service: &BalancedService, inventory: &Inventory) -> (StepResult, Option<String>) {
    let Some(names) = service_names(&service.0) else {
        let line = "it asks for none; the annotation external-dns.kubernetes.io/hostname does";
        return (StepResult::Done(vec![line.to_owned()]), None);
    };
    let (namespace, own) = service.place();
    let object = format!("service-{own}");
    let id = named(inventory, namespace, &object);
    let annotations = service.0.metadata.annotations.as_ref();
    let is_published = annotations.is_some_and(|all| all.contains_key(PUBLISHED));
    let all = names.hostnames.join(", ");
    let line = format!("{all}, TTL {}", names.ttl);
    let said = match (id, is_published) {
        (Some(_), true) => {
            StepResult::Done(vec![format!("{line}, in dnsendpoint/{namespace}/{object}")])
        }
        (Some(_), false) => StepResult::Stopped(vec![
            line,
            format!("dnsendpoint/{namespace}/{object} is not Bindery's: rename or delete it"),
        ]),
        (None, _) => StepResult::Stopped(vec![
            line,
            "it is published as soon as an endpoint is bound to the address".to_owned(),
        ]),
    };
    (said, Some(format!("{namespace}/{object}")))
}

/// How the names are on the name servers: where their object stops, or that it is served.
fn dns(inventory: Inventory, place: &str) -> StepResult {
    let (namespace, name) = place.split_once('/').unwrap_or_default();
    let Some(id) = named(&inventory, namespace, name) else {
        return stopped("it is not declared yet");
    };
    let way = trace(inventory, &id);
    let step = |wanted: &str| {
        let found = way.steps.iter().find(move |step| step.name == wanted);
        found.map(|step| step.lines.clone()).unwrap_or_default()
    };
    match way.stops_at {
        None => {
            let records = step("claim");
            let servers = step("verify");
            StepResult::Done(records.into_iter().take(1).chain(servers).collect())
        }
        Some(stage) => {
            let mut lines = step(stage);
            lines.push(format!("it stops at {stage}: see `bindery explain {id}`"));
            StepResult::Stopped(lines)
        }
    }
}

#[cfg(test)]
mod tests;

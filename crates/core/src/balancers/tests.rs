//! Events in, end state out: a provider in memory carries out the steps of the machine.

mod faults;
mod guards;
mod model;
mod random;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use super::*;
use crate::FaultKind;

/// A provider in memory. What is asked against its rules is written down in `broken`.
#[derive(Clone, Debug, Default)]
struct World {
    holdings: Holdings,
    /// Answers to the next requests, in place of the real ones; a lost answer is given after the request
    /// was carried out.
    faults: VecDeque<Fault>,
    /// Addresses that it never takes.
    poison: BTreeSet<IpAddr>,
    /// Every request, in words.
    log: Vec<String>,
    broken: Vec<String>,
    /// Somebody else changed what is ours, so that not every breach is the machine's.
    is_vandalized: bool,
    /// Requests whose answers are lost are lost themselves.
    is_deaf: bool,
}

impl World {
    fn carry_out(&mut self, step: &BalancerStep) -> BalancerEnd {
        let fault = self.faults.pop_front();
        let is_lost = |one: &Fault| one.kind == FaultKind::Lost && !self.is_deaf;
        let is_done = fault.as_ref().is_none_or(is_lost);
        match step {
            BalancerStep::Ensure { key, spec, .. } => {
                self.log.push(format!("ensure {key}"));
                let frontage = frontage(key);
                if is_done {
                    let digest = Some(spec.digest());
                    let frontage = frontage.clone();
                    let held = HeldBalancer { frontage, digest };
                    self.holdings.balancers.insert(key.clone(), held);
                }
                BalancerEnd::Ensured(fault.map_or(Ok(frontage), Err))
            }
            BalancerStep::Remove(key) => {
                self.log.push(format!("remove {key}"));
                if is_done {
                    if self.bound_to(key).next().is_some() {
                        self.broken.push(format!("{key} went before its addresses"));
                    }
                    self.holdings.balancers.remove(key);
                }
                BalancerEnd::Removed(fault.map_or(Ok(()), Err))
            }
            BalancerStep::Bind(changes) => {
                let list: Vec<String> = changes.iter().map(|one| one.address.to_string()).collect();
                self.log.push(format!("bind {}", list.join(" ")));
                let outcomes = changes.iter().map(|change| {
                    let refused = self.poison.contains(&change.address).then(|| {
                        Fault::new(FaultKind::Invalid, "no such address").with_code(422_u16)
                    });
                    if is_done && refused.is_none() {
                        self.bind(change);
                    }
                    AddressOutcome {
                        address: change.address,
                        result: fault.clone().or(refused).map_or(Ok(()), Err),
                    }
                });
                BalancerEnd::Bound(outcomes.collect())
            }
            BalancerStep::Read => {
                self.log.push("read".into());
                BalancerEnd::Read(fault.map_or_else(|| Ok(self.holdings.clone()), Err))
            }
        }
    }

    fn bind(&mut self, change: &AddressChange) {
        for binding in &change.wanted {
            if !self.holdings.balancers.contains_key(&binding.balancer) {
                let message = format!("{} came before {}", change.address, binding.balancer);
                self.broken.push(message);
            }
        }
        let stands = self.holdings.addresses.remove(&change.address);
        // Only what was named goes: what nobody knew of stays.
        let stays = stands
            .iter()
            .flatten()
            .filter(|one| !change.stood.iter().any(|other| same_place(one, other)))
            .filter(|one| !change.wanted.iter().any(|other| same_place(one, other)));
        let bindings: Bindings = stays.chain(&change.wanted).cloned().collect();
        if !bindings.is_empty() {
            self.holdings.addresses.insert(change.address, bindings);
        }
    }

    fn bound_to<'a>(&'a self, key: &'a BalancerKey) -> impl Iterator<Item = &'a IpAddr> {
        let addresses = self.holdings.addresses.iter();
        let bound = addresses.filter(move |(_, all)| all.iter().any(|one| one.balancer == *key));
        bound.map(|(address, _)| address)
    }

    /// Everything that stands, one line each.
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.holdings.balancers.keys().map(name).collect();
        for (address, bindings) in &self.holdings.addresses {
            for Binding {
                location,
                balancer,
                targets,
            } in bindings
            {
                let location = location.map_or_else(|| "-".into(), |one| one.to_string());
                let ports: Vec<String> = targets
                    .iter()
                    .map(|one| format!(" {}>{}", one.port, one.target))
                    .collect();
                let balancer = name(balancer);
                lines.push(format!(
                    "{address} {balancer} @{location}{}",
                    ports.concat()
                ));
            }
        }
        lines
    }
}

fn same_place(one: &Binding, other: &Binding) -> bool {
    (one.location, &one.balancer) == (other.location, &other.balancer)
}

fn name(key: &BalancerKey) -> String {
    key.to_string()
}

fn frontage(key: &BalancerKey) -> Frontage {
    let last = key.to_string().bytes().last().unwrap_or_default();
    Frontage {
        addresses: vec![[203, 0, 113, last].into()],
        hostname: None,
    }
}

/// The machine with its provider, and what is on its way between them.
#[derive(Clone)]
struct Stage {
    machine: Balancers,
    world: World,
    flying: Vec<(BalancerWork, BalancerStep)>,
    now: Duration,
    reports: BTreeMap<BalancerKey, BalancerReport>,
    released: BTreeSet<EndpointsKey>,
    /// What is asked for, to be told again after a crash.
    services: BTreeMap<String, (String, u16)>,
    slices: BTreeMap<String, (String, Vec<String>)>,
    pods: BTreeMap<String, (String, String)>,
    nodes: BTreeMap<String, String>,
    /// Services and pods whose finalizers hold them: their deletion is told again after a crash.
    retiring: BTreeSet<String>,
    leaving: BTreeMap<String, (String, String)>,
}

fn limits() -> BalancerLimits {
    BalancerLimits {
        chunk_len_max: 4,
        ..BalancerLimits::default()
    }
}

fn service_key(uid: &str) -> BalancerKey {
    BalancerKey::Service(uid.into())
}

fn gateway(label: &str) -> BalancerKey {
    BalancerKey::Egress(label.into())
}

fn slice_key(slice: &str) -> EndpointsKey {
    EndpointsKey::Slice("default".into(), slice.into())
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A front with one port.
fn front(service: &str, port: u16) -> BalancerSpec {
    BalancerSpec::Inbound(Front {
        namespace: "default".into(),
        name: service.into(),
        labels: BTreeMap::new(),
        ports: vec![FrontPort {
            protocol: FrontProtocol::Tcp,
            port,
            name: "http".into(),
            target: None,
            node_port: None,
        }],
        families: vec![Family::V4],
        affinity: None,
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        requested: Vec::new(),
        options: BTreeMap::new(),
    })
}

/// Endpoints as `ADDRESS@NODE`, with `~` behind those that are about to end.
fn group(service: &str, endpoints: &[impl AsRef<str>]) -> EndpointGroup {
    let endpoint = |text: &str| {
        let (text, state) = match text.strip_suffix('~') {
            Some(text) => (text, EndpointState::Draining),
            None => (text, EndpointState::Ready),
        };
        let (ip, place) = match text.split_once('@') {
            Some((ip, node)) => (ip, Whereabouts::Node(node.into())),
            None => (text, Whereabouts::Unknown),
        };
        GroupEndpoint {
            address: address(ip),
            place,
            state,
        }
    };
    EndpointGroup {
        owner: GroupOwner::Service("default".into(), service.into()),
        ports: vec![EndpointPort {
            name: "http".into(),
            protocol: FrontProtocol::Tcp,
            port: 8080,
        }],
        endpoints: endpoints.iter().map(|one| endpoint(one.as_ref())).collect(),
    }
}

impl Stage {
    /// Everything is known, and nothing is there.
    fn new() -> Self {
        let mut stage = Self::unread(World::default());
        stage.node("n1", "192.0.2.1");
        stage.node("n2", "192.0.2.2");
        stage.machine.set_synced();
        stage.settle();
        stage.world.log.clear();
        stage
    }

    fn unread(world: World) -> Self {
        Self {
            machine: Balancers::new(limits(), BalancerTimes::default()),
            world,
            flying: Vec::new(),
            now: Duration::ZERO,
            reports: BTreeMap::new(),
            released: BTreeSet::new(),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            retiring: BTreeSet::new(),
            leaving: BTreeMap::new(),
        }
    }

    /// A Service, whose name is its UID too, unless it is written as `NAME#UID`.
    fn service(&mut self, text: &str, port: u16) {
        let name = text.split('#').next().unwrap_or(text);
        let uid = text.split('#').next_back().unwrap_or(text);
        self.services.insert(uid.into(), (name.into(), port));
        self.retiring.remove(uid);
        let declaration = BalancerDeclaration {
            owner: GroupOwner::Service("default".into(), name.into()),
            spec: Some(front(name, port)),
            previous: Vec::new(),
        };
        self.machine.declare(&service_key(uid), declaration);
    }

    fn retire(&mut self, uid: &str) {
        self.services.remove(uid);
        self.retiring.insert(uid.into());
        self.machine.retire(&service_key(uid));
    }

    fn slice(&mut self, slice: &str, service: &str, endpoints: &[&str]) {
        let all = endpoints.iter().map(|one| (*one).to_owned()).collect();
        self.slices.insert(slice.into(), (service.into(), all));
        let group = group(service, endpoints);
        self.machine.set_endpoints(&slice_key(slice), Some(group));
    }

    fn drop_slice(&mut self, slice: &str) {
        self.slices.remove(slice);
        self.machine.set_endpoints(&slice_key(slice), None);
    }

    fn node(&mut self, node: &str, at: &str) {
        self.nodes.insert(node.into(), at.into());
        let addresses = if at.is_empty() {
            Vec::new()
        } else {
            vec![address(at)]
        };
        self.machine.set_node(&node.into(), addresses);
    }

    fn pod(&mut self, uid: &str, label: &str, ip: &str) {
        self.pods.insert(uid.into(), (label.into(), ip.into()));
        let group = EndpointGroup {
            owner: GroupOwner::Egress(label.into()),
            ports: Vec::new(),
            endpoints: vec![GroupEndpoint {
                address: address(ip),
                place: Whereabouts::At(address("192.0.2.1")),
                state: EndpointState::Ready,
            }],
        };
        let key = EndpointsKey::Pod(uid.into());
        self.machine.set_endpoints(&key, Some(group));
    }

    fn drop_pod(&mut self, uid: &str) {
        if let Some((label, ip)) = self.pods.remove(uid) {
            let key = EndpointsKey::Pod(uid.into());
            self.leaving.insert(uid.into(), (label.clone(), ip.clone()));
            self.machine
                .release(&key, &label.as_str().into(), &[address(&ip)]);
        }
    }

    /// Every step that there is begins.
    fn begin(&mut self) {
        loop {
            let work = self.machine.take_work();
            if work.is_empty() {
                break;
            }
            for work in work {
                while let Some(step) = self.machine.next_step(&work, self.now) {
                    self.flying.push((work.clone(), step));
                }
            }
        }
        let news = self.machine.take_news();
        for key in news.released {
            if let EndpointsKey::Pod(uid) = &key {
                self.leaving.remove(&uid.to_string());
            }
            self.released.insert(key);
        }
        for report in news.reports {
            if report.phase == Phase::Gone {
                self.retiring.remove(&report.key.to_string());
            }
            self.reports.insert(report.key.clone(), report);
        }
    }

    /// The step on its way at this place ends.
    fn land(&mut self, at: usize) {
        let (work, step) = self.flying.remove(at);
        let end = self.world.carry_out(&step);
        self.machine.complete(&work, end, self.now);
    }

    /// Lets everything happen that happens without waiting.
    fn settle(&mut self) {
        self.begin();
        while !self.flying.is_empty() {
            self.land(0);
            self.begin();
        }
        if !self.world.is_vandalized {
            assert_eq!(self.world.broken, Vec::<String>::new());
        }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(at) = self.machine.next_wake().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.machine.wake(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// The process ends and begins anew: what was on its way is done or not, and nothing is remembered.
    fn crash(&mut self) {
        let mut next = Self::unread(std::mem::take(&mut self.world));
        next.now = self.now;
        for (node, at) in std::mem::take(&mut self.nodes) {
            next.node(&node, &at);
        }
        for (slice, (service, endpoints)) in std::mem::take(&mut self.slices) {
            let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
            next.slice(&slice, &service, &endpoints);
        }
        for (uid, (label, ip)) in std::mem::take(&mut self.pods) {
            next.pod(&uid, &label, &ip);
        }
        for (uid, (name, port)) in std::mem::take(&mut self.services) {
            next.service(&format!("{name}#{uid}"), port);
        }
        for uid in std::mem::take(&mut self.retiring) {
            next.retire(&uid);
        }
        for (uid, (label, ip)) in std::mem::take(&mut self.leaving) {
            next.pods.insert(uid.clone(), (label, ip));
            next.drop_pod(&uid);
        }
        next.machine.set_synced();
        *self = next;
    }

    fn lines(&self) -> Vec<String> {
        self.world.lines()
    }

    fn phase(&self, uid: &str) -> Option<Phase> {
        self.reports.get(&service_key(uid)).map(|one| one.phase)
    }

    fn requests(&self, start: &str) -> usize {
        let log = self.world.log.iter();
        log.filter(|line| line.starts_with(start)).count()
    }

    /// What is asked for, as the provider should have it.
    fn truth(&self) -> Vec<String> {
        let mut holdings = Holdings::default();
        let mut add = |ip: &str, binding: Binding| {
            let bindings = holdings.addresses.entry(address(ip)).or_default();
            bindings.insert(binding);
        };
        for (uid, (service, port)) in &self.services {
            holdings
                .balancers
                .insert(service_key(uid), HeldBalancer::default());
            let slices = self.slices.values().filter(|(owner, _)| owner == service);
            let endpoints: Vec<&String> = slices.flat_map(|(_, all)| all).collect();
            let has_ready = endpoints.iter().any(|one| !one.ends_with('~'));
            for endpoint in endpoints {
                if has_ready && endpoint.ends_with('~') {
                    continue;
                }
                let endpoint = endpoint.trim_end_matches('~');
                let (ip, node) = endpoint.split_once('@').unwrap_or((endpoint, ""));
                let node = self.nodes.get(node).filter(|at| !at.is_empty());
                let target = PortTarget {
                    protocol: FrontProtocol::Tcp,
                    port: *port,
                    target: 8080,
                };
                let binding = Binding {
                    location: node.map(|at| address(at)),
                    balancer: service_key(uid),
                    targets: Arc::new([target]),
                };
                add(ip, binding);
            }
        }
        for (label, ip) in self.pods.values() {
            holdings
                .balancers
                .insert(gateway(label), HeldBalancer::default());
            let binding = Binding {
                location: Some(address("192.0.2.1")),
                balancer: gateway(label),
                targets: Arc::default(),
            };
            add(ip, binding);
        }
        let world = World {
            holdings,
            ..World::default()
        };
        world.lines()
    }
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "as the test says")
}

#[test]
fn a_service_gets_an_address_and_its_endpoints_are_bound() {
    let mut stage = Stage::new();
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n2"]);
    stage.service("web", 80);
    stage.settle();
    assert_eq!(
        stage.lines(),
        [
            "web",
            "10.0.0.1 web @192.0.2.1 80>8080",
            "10.0.0.2 web @192.0.2.2 80>8080"
        ]
    );
    let report = &stage.reports[&service_key("web")];
    assert_eq!(report.frontage, frontage(&service_key("web")));
    assert!(report.is_programmed && report.carries_traffic());
    assert_eq!((report.bound_len, report.waiting_len), (2, 0));
    assert_eq!(stage.world.log, ["ensure web", "bind 10.0.0.1 10.0.0.2"]);
}

#[test]
fn nothing_is_sent_before_everything_is_known() {
    let mut stage = Stage::unread(World::default());
    stage.service("web", 80);
    stage.settle();
    assert_eq!(stage.world.log, ["read"]);
    stage.machine.set_synced();
    stage.settle();
    assert_eq!(stage.world.log, ["read", "ensure web"]);
    let mut stage = Stage::unread(World::default());
    stage.world.faults.push_back(fault(FaultKind::ServerFailed));
    stage.service("web", 80);
    stage.machine.set_synced();
    stage.settle();
    assert_eq!(
        stage.lines(),
        Vec::<String>::new(),
        "what it has is not known"
    );
    stage.pass(Duration::from_secs(9));
    assert_eq!(stage.lines(), ["web"]);
}

#[test]
fn a_restart_sends_nothing_of_what_is_in_sync() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("s", "web", &["10.0.0.1@n1"]);
    stage.pod("p", "out", "10.0.0.9");
    stage.settle();
    let before = stage.lines();
    stage.crash();
    stage.world.log.clear();
    stage.pass(Duration::from_secs(30));
    assert_eq!(stage.world.log, ["read"]);
    assert_eq!(stage.lines(), before);
    assert!(stage.reports[&service_key("web")].carries_traffic());
}

#[test]
fn what_changed_while_nobody_looked_is_brought_about() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.service("old", 80);
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n1"]);
    stage.settle();
    stage.services.get_mut("web").expect("it is there").1 = 81;
    stage.slices.get_mut("s").expect("it is there").1 = vec!["10.0.0.2@n2".into()];
    stage.crash();
    // Its finalizer tells that it is to go.
    stage.retire("old");
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.2 web @192.0.2.2 81>8080"]);
    assert_eq!(stage.phase("old"), Some(Phase::Gone));
}

#[test]
fn addresses_travel_in_requests_of_a_bounded_size() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    let all: Vec<String> = (1..=10).map(|last| format!("10.0.0.{last}@n1")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    stage.slice("s", "web", &all);
    stage.settle();
    assert_eq!(stage.requests("bind"), 3);
    assert_eq!(stage.lines(), stage.truth());
}

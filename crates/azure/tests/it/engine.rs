//! The whole engine against the emulator: in the end Azure has what is asked for, and nothing of others changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::Backoff;
use bindery_core::balancers::{
    BalancerDeclaration, BalancerKey, BalancerReport, BalancerTimes, EndpointGroup, EndpointPort,
    EndpointState, EndpointsKey, FrontProtocol, GroupEndpoint, GroupOwner, Whereabouts,
};
use bindery_core::tracker::Phase;
use bindery_engine::Fence;
use bindery_engine::balancing::{BalancerEngine, LoadBalancer};
use bindery_testkit::Random;
use bindery_testkit::azure::AzureFate;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, address, inbound, lower, service};

/// How long a test waits for what has to happen. It says nothing of how long it takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// What is asked for: for each Service its endpoints, and for each label its pods, each with its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) services: BTreeMap<u8, BTreeMap<u8, u8>>,
    pub(crate) labels: BTreeMap<String, BTreeMap<u8, u8>>,
}

/// How every balancer is.
type Seen = BTreeMap<BalancerKey, BalancerReport>;

/// A process: an engine with a provider.
pub(crate) struct Process {
    pub(crate) engine: BalancerEngine,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Process {
    pub(crate) fn start(stage: &Stage) -> Self {
        let mut settings = stage.settings();
        settings.times.request = Duration::from_secs(2);
        let provider = bindery_azure::AzureBalancer::new(settings).expect("they are right");
        let provider: Arc<dyn LoadBalancer> = Arc::new(provider);
        let quick = Backoff {
            first: Duration::from_millis(5),
            max: Duration::from_millis(50),
        };
        let times = BalancerTimes {
            retry: quick,
            retry_refused: quick,
            orphan_after: Duration::ZERO,
        };
        let stop = CancellationToken::new();
        let (engine, run) = BalancerEngine::start(provider, times, Fence::none(), &stop);
        let task = tokio::spawn(run);
        Self { engine, stop, task }
    }

    /// Tells everything that is asked for.
    pub(crate) fn tell(&self, wish: &Wish) {
        for (one, endpoints) in &wish.services {
            let (key, declaration) = declaration(*one);
            self.engine.declare(key, declaration);
            self.engine
                .set_endpoints(slice_key(*one), Some(slice(*one, endpoints)));
        }
        for (label, pods) in &wish.labels {
            for (pod, node) in pods {
                let group = pod_group(label, *pod, *node);
                self.engine.set_endpoints(pod_key(*pod), Some(group));
            }
        }
        self.engine.set_synced();
    }

    /// Waits until what is known is so.
    pub(crate) async fn wait(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let reports = self.engine.reports();
        let waiting = async {
            while !is_so(&self.seen()) {
                reports.pop().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{what} did not happen: {:#?}", self.seen());
    }

    fn seen(&self) -> Seen {
        let seen = self.engine.balancers(None, 100).shown.into_iter();
        seen.map(|one| (one.report.key.clone(), one.report))
            .collect()
    }

    /// Waits until everything is as asked for.
    pub(crate) async fn settle(&self, wish: &Wish) {
        let mut wanted: BTreeMap<BalancerKey, usize> = BTreeMap::new();
        for (one, endpoints) in &wish.services {
            wanted.insert(uid(*one), endpoints.len());
        }
        for (label, pods) in wish.labels.iter().filter(|(_, pods)| !pods.is_empty()) {
            let key = BalancerKey::Egress(label.as_str().into());
            wanted.insert(key, pods.len());
        }
        self.wait("the end", |view| {
            let settled = view.values().filter(|report| {
                let is_still = report.waiting_len == 0 && report.fault.is_none();
                report.phase == Phase::Created && report.is_programmed && is_still
            });
            let settled: BTreeMap<BalancerKey, usize> = settled
                .map(|report| (report.key.clone(), report.bound_len))
                .collect();
            settled == wanted && view.len() == wanted.len()
        })
        .await;
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it ends");
    }

    /// Ends it at once, whatever is on its way.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _killed = self.task.await;
    }
}

/// Fails unless Azure has what is asked for and nothing else of ours.
pub(crate) fn check_truth(stage: &Stage, wish: &Wish, what: &str) {
    let mut own = BTreeSet::new();
    let mut services = BTreeSet::new();
    let mut bound: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut bind = |name: &str, pods: &BTreeMap<u8, u8>| {
        for (pod, node) in pods {
            let place = (node_address(*node), pod_address(*pod));
            bound.entry(place).or_default().insert(name.to_owned());
        }
    };
    for (one, endpoints) in &wish.services {
        let name = format!("u{one}");
        own.insert(format!("loadbalancers/{name}"));
        own.insert(format!("publicipaddresses/{name}-pip"));
        services.insert(name.clone());
        bind(&name, endpoints);
    }
    for (label, pods) in wish.labels.iter().filter(|(_, pods)| !pods.is_empty()) {
        own.insert(format!("natgateways/{label}"));
        own.insert(format!("publicipaddresses/{label}-pip"));
        services.insert(label.clone());
        bind(label, pods);
    }
    bind_theirs(&mut bound);
    let bound: BTreeSet<String> = bound
        .into_iter()
        .map(|((location, address), services)| {
            let services: Vec<String> = services.into_iter().collect();
            format!("{location} {address} {}", services.join(","))
        })
        .collect();
    assert_eq!(
        stage.own().into_iter().collect::<BTreeSet<_>>(),
        own,
        "{what}"
    );
    let found: BTreeSet<String> = stage.services().into_iter().collect();
    assert_eq!(found, services, "{what}");
    let found: BTreeSet<String> = stage.bound().into_iter().collect();
    assert_eq!(found, bound, "{what}");
    stage.check_foreign();
}

fn bind_theirs(bound: &mut BTreeMap<(String, String), BTreeSet<String>>) {
    let place = ("192.0.2.9".to_owned(), "10.9.0.1".to_owned());
    bound.entry(place).or_default().insert("theirs".to_owned());
}

pub(crate) fn uid(one: u8) -> BalancerKey {
    service(&format!("u{one}"))
}

fn node_address(node: u8) -> String {
    format!("192.0.2.{node}")
}

fn pod_address(pod: u8) -> String {
    format!("10.0.0.{pod}")
}

pub(crate) fn declaration(one: u8) -> (BalancerKey, BalancerDeclaration) {
    let declaration = BalancerDeclaration {
        owner: owner(one),
        spec: Some(inbound(&[80])),
        previous: Vec::new(),
    };
    (uid(one), declaration)
}

fn owner(one: u8) -> GroupOwner {
    GroupOwner::Service("default".into(), format!("web{one}").into())
}

pub(crate) fn slice_key(one: u8) -> EndpointsKey {
    EndpointsKey::Slice("default".into(), format!("web{one}").into())
}

pub(crate) fn pod_key(pod: u8) -> EndpointsKey {
    EndpointsKey::Pod(format!("pod{pod}").as_str().into())
}

fn endpoint((pod, node): (&u8, &u8)) -> GroupEndpoint {
    GroupEndpoint {
        address: address(&pod_address(*pod)),
        place: Whereabouts::At(address(&node_address(*node))),
        state: EndpointState::Ready,
    }
}

pub(crate) fn slice(one: u8, endpoints: &BTreeMap<u8, u8>) -> EndpointGroup {
    EndpointGroup {
        owner: owner(one),
        ports: vec![EndpointPort {
            name: "p80".into(),
            protocol: FrontProtocol::Tcp,
            port: 8080,
        }],
        endpoints: endpoints.iter().map(endpoint).collect(),
    }
}

pub(crate) fn pod_group(label: &str, pod: u8, node: u8) -> EndpointGroup {
    EndpointGroup {
        owner: GroupOwner::Egress(label.into()),
        ports: Vec::new(),
        endpoints: vec![endpoint((&pod, &node))],
    }
}

/// Three Services and a label; endpoint 1 belongs to two Services.
pub(crate) fn wish() -> Wish {
    Wish {
        services: [
            (1, [(1, 1), (2, 1), (3, 2)].into()),
            (2, [(1, 1), (4, 2)].into()),
            (3, BTreeMap::new()),
        ]
        .into(),
        labels: [("team-a".to_owned(), [(11, 1), (12, 2)].into())].into(),
    }
}

#[tokio::test]
async fn throttling_and_lost_answers_change_nothing_about_the_end() {
    let stage = Stage::new().await;
    for request in [
        "GET publicIPAddresses",
        "PUT publicIPAddresses",
        "PUT publicIPAddresses",
        "PUT loadBalancers",
        "PUT natGateways",
        "POST updateServices",
        "POST updateAddressLocations",
    ] {
        for fate in [
            AzureFate::Throttled(3),
            AzureFate::DoneAndCut,
            AzureFate::DoneAndFailed(500),
            AzureFate::Refused(409, "AnotherOperationInProgress".to_owned()),
        ] {
            stage.fail(request, fate);
        }
    }
    let process = Process::start(&stage);
    let wish = wish();
    process.tell(&wish);
    process.settle(&wish).await;
    check_truth(&stage, &wish, "after faults");
    process.stop().await;
}

#[tokio::test]
async fn a_restart_sends_nothing() {
    let stage = Stage::new().await;
    let wish = wish();
    let process = Process::start(&stage);
    process.tell(&wish);
    process.settle(&wish).await;
    process.stop().await;
    let before = stage.azure.changes();
    let next = Process::start(&stage);
    next.tell(&wish);
    next.settle(&wish).await;
    next.stop().await;
    let tokens = 1;
    assert_eq!(stage.azure.changes(), before + tokens);
    check_truth(&stage, &wish, "after a restart");
}

#[tokio::test]
async fn an_address_that_azure_refuses_is_told_and_holds_up_nobody() {
    let stage = Stage::new().await;
    stage.azure.lock().poison.insert(address("10.0.0.2"));
    let process = Process::start(&stage);
    let mut wish = wish();
    process.tell(&wish);
    process
        .wait("a refusal of one address", |view| {
            let first = view.get(&uid(1));
            let second = view.get(&uid(2));
            let told = first.is_some_and(|report| {
                let (refused, len) = &report.refused;
                let is_it = refused.iter().all(|(at, _)| *at == address("10.0.0.2"));
                *len == 1 && is_it && report.bound_len == 2
            });
            told && second.is_some_and(|report| report.waiting_len == 0 && report.bound_len == 2)
        })
        .await;
    // Its Service lets it go: everything is as asked for.
    let endpoints = wish.services.get_mut(&1).expect("it is asked for");
    endpoints.remove(&2);
    process
        .engine
        .set_endpoints(slice_key(1), Some(slice(1, endpoints)));
    process.settle(&wish).await;
    check_truth(&stage, &wish, "without the refused address");
    process.stop().await;
}

#[tokio::test]
async fn a_removal_waits_for_addresses_that_nobody_knew_of() {
    let stage = Stage::new().await;
    let process = Process::start(&stage);
    let mut wish = wish();
    process.tell(&wish);
    process.settle(&wish).await;
    // Somebody bound another address to it meanwhile.
    let gateway = lower("serviceGateways/servicegateway");
    if let Some(content) = stage.azure.lock().gateways.get_mut(&gateway) {
        let location = content.locations.entry(address("192.0.2.7")).or_default();
        location.insert(address("10.7.0.1"), ["u1".to_owned()].into());
    }
    wish.services.remove(&1);
    process.engine.retire(uid(1));
    process.settle(&wish).await;
    check_truth(&stage, &wish, "after the removal");
    process.stop().await;
}

#[tokio::test]
async fn a_quota_is_told_in_azures_words_and_tried_again() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        let quota = AzureFate::Refused(400, "PublicIPCountLimitReached".to_owned());
        stage.fail("PUT publicIPAddresses/u1-pip", quota);
    }
    let process = Process::start(&stage);
    let wish = wish();
    let reports = process.engine.reports();
    process.tell(&wish);
    let told = async {
        loop {
            let (_, report) = reports.pop().await;
            if let Some(fault) = report.fault {
                return fault.message;
            }
        }
    };
    let words = tokio::time::timeout(PATIENCE, told)
        .await
        .expect("it is told");
    assert!(words.contains("PublicIPCountLimitReached"), "{words}");
    process.settle(&wish).await;
    check_truth(&stage, &wish, "after the quota was raised");
    process.stop().await;
}

/// One random act of somebody who uses the cluster.
fn act(random: &mut Random, wish: &mut Wish, process: &Process) {
    let one = 1 + u8::try_from(random.below(4)).unwrap_or_default();
    let pod = 1 + u8::try_from(random.below(9)).unwrap_or_default();
    let node = 1 + u8::try_from(random.below(3)).unwrap_or_default();
    match random.below(6) {
        0 => {
            wish.services.remove(&one);
            process.engine.retire(uid(one));
            process.engine.set_endpoints(slice_key(one), None);
        }
        1 | 2 => {
            let endpoints = wish.services.entry(one).or_default();
            endpoints.insert(pod, node);
            let (key, declaration) = declaration(one);
            process.engine.declare(key, declaration);
            process
                .engine
                .set_endpoints(slice_key(one), Some(slice(one, endpoints)));
        }
        3 => {
            if let Some(endpoints) = wish.services.get_mut(&one) {
                endpoints.remove(&pod);
                process
                    .engine
                    .set_endpoints(slice_key(one), Some(slice(one, endpoints)));
            }
        }
        4 => {
            let pods = wish.labels.entry("team-a".to_owned()).or_default();
            pods.insert(pod + 20, node);
            let group = pod_group("team-a", pod + 20, node);
            process.engine.set_endpoints(pod_key(pod + 20), Some(group));
        }
        _ => {
            if let Some(pods) = wish.labels.get_mut("team-a") {
                pods.remove(&(pod + 20));
            }
            let addresses = vec![address(&pod_address(pod + 20))];
            process
                .engine
                .release(pod_key(pod + 20), "team-a".into(), addresses);
        }
    }
}

#[tokio::test]
async fn whatever_is_asked_for_and_fails_in_the_end_azure_has_the_truth() {
    for seed in 1..=4 {
        let stage = Stage::new().await;
        let mut random = Random::new(seed);
        let mut wish = Wish::default();
        let mut process = Process::start(&stage);
        process.tell(&wish);
        for _ in 0..40 {
            act(&mut random, &mut wish, &process);
            let fate = match random.below(10) {
                0 => AzureFate::Throttled(2),
                1 => AzureFate::DoneAndCut,
                2 => AzureFate::DoneAndFailed(504),
                3 => AzureFate::Refused(500, "InternalServerError".to_owned()),
                4 => AzureFate::Delayed(Duration::from_millis(2)),
                _ => continue,
            };
            let requests = ["PUT ", "POST update", "DELETE ", "GET "];
            let request: &&str = random.pick(&requests);
            stage.fail(request, fate);
            tokio::task::yield_now().await;
            if random.below(8) == 0 {
                process.kill().await;
                process = Process::start(&stage);
                process.tell(&wish);
            }
        }
        process.settle(&wish).await;
        check_truth(&stage, &wish, &format!("seed {seed}"));
        process.stop().await;
    }
}

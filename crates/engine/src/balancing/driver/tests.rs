use std::{collections::BTreeSet, sync::atomic::Ordering};

use bindery_core::{
    Fault, FaultKind,
    balancers::{
        AddressChange, AddressOutcome, BalancerLimits, BalancerSpec, EgressFront, EndpointState,
        Family, Frontage, GroupEndpoint, GroupOwner, HeldBalancer, Holdings, Whereabouts,
    },
};
use tokio::{sync::Notify, task::JoinHandle};

use super::*;

/// A provider in memory.
#[derive(Default)]
struct Memory {
    holdings: Mutex<Holdings>,
    remembered: Mutex<Vec<(BalancerKey, Vec<IpAddr>)>>,
    /// Balancers whose removal hangs.
    hanging: Mutex<BTreeSet<BalancerKey>>,
    /// What every balancer that is made waits for.
    gate: Option<Arc<Notify>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoadBalancer for Memory {
    fn limits(&self) -> BalancerLimits {
        BalancerLimits {
            balancers_max: 1,
            ..BalancerLimits::default()
        }
    }

    fn remember(&self, known: &[(BalancerKey, Vec<IpAddr>)]) {
        *lock(&self.remembered) = known.to_vec();
    }

    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        _: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        let frontage = Frontage {
            addresses: vec![[203, 0, 113, 1].into()],
            hostname: None,
        };
        let held = HeldBalancer {
            frontage: frontage.clone(),
            digest: Some(spec.digest()),
        };
        Box::pin(async move {
            if let Some(gate) = &self.gate {
                gate.notified().await;
            }
            lock(&self.holdings).balancers.insert(key.clone(), held);
            Ok(frontage)
        })
    }

    fn remove<'a>(&'a self, key: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>> {
        if lock(&self.hanging).remove(key) {
            return Box::pin(std::future::pending());
        }
        lock(&self.holdings).balancers.remove(key);
        Box::pin(std::future::ready(Ok(())))
    }

    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>> {
        let mut holdings = lock(&self.holdings);
        let bind = |change: &AddressChange| {
            if change.wanted.is_empty() {
                holdings.addresses.remove(&change.address);
            } else {
                let wanted = change.wanted.clone();
                holdings.addresses.insert(change.address, wanted);
            }
            AddressOutcome {
                address: change.address,
                result: Ok(()),
            }
        };
        let outcomes = changes.iter().map(bind).collect();
        Box::pin(std::future::ready(Ok(outcomes)))
    }

    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>> {
        Box::pin(std::future::ready(Ok(lock(&self.holdings).clone())))
    }
}

fn pod(label: &str) -> EndpointGroup {
    EndpointGroup {
        owner: GroupOwner::Egress(label.into()),
        ports: Vec::new(),
        endpoints: vec![GroupEndpoint {
            address: [10, 0, 0, 1].into(),
            place: Whereabouts::At([192, 0, 2, 1].into()),
            state: EndpointState::Ready,
        }],
    }
}

fn service() -> (BalancerKey, BalancerDeclaration) {
    let declaration = BalancerDeclaration {
        owner: GroupOwner::Service("default".into(), "web".into()),
        spec: Some(BalancerSpec::Egress(EgressFront {
            families: vec![Family::V4],
        })),
        previous: vec![[203, 0, 113, 7].into()],
    };
    (BalancerKey::Service("u1".into()), declaration)
}

/// The next report of a balancer in which it is that far.
async fn report_in(engine: &BalancerEngine, phase: Phase) -> BalancerReport {
    let reports = engine.reports();
    loop {
        let (_, report) = reports.pop().await;
        if report.phase == phase {
            return report;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_is_made_told_and_taken_back() {
    let (provider, stop) = (Arc::new(Memory::default()), CancellationToken::new());
    let port = Arc::clone(&provider) as Arc<dyn LoadBalancer>;
    let (engine, run) = BalancerEngine::start(port, BalancerTimes::default(), Fence::none(), &stop);
    let running = tokio::spawn(run);
    let (key, declaration) = service();
    engine.declare(key.clone(), declaration);
    engine.set_synced();
    let report = report_in(&engine, Phase::Created).await;
    assert!(report.is_programmed);
    let remembered = lock(&provider.remembered).clone();
    assert_eq!(remembered, [(key.clone(), vec![[203, 0, 113, 7].into()])]);
    assert_eq!(engine.report(&key), Some(report));
    engine.retire(key.clone());
    report_in(&engine, Phase::Gone).await;
    assert_eq!(engine.report(&key), None);
    let counts = engine.metrics().operations();
    assert_eq!(counts[&(BalancerOperation::Create, "success")], 1);
    assert_eq!(counts[&(BalancerOperation::Delete, "success")], 1);
    let waited = engine.metrics().buffer_seconds.distribution();
    assert_eq!(waited.count, 0, "it has no endpoints");
    stop.cancel();
    running.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_released_after_its_address_left() {
    let (provider, stop) = (Arc::new(Memory::default()), CancellationToken::new());
    let port = Arc::clone(&provider) as Arc<dyn LoadBalancer>;
    let (engine, run) = BalancerEngine::start(port, BalancerTimes::default(), Fence::none(), &stop);
    let running = tokio::spawn(run);
    let key = EndpointsKey::Pod("p1".into());
    engine.set_synced();
    engine.set_endpoints(key.clone(), Some(pod("out")));
    loop {
        if report_in(&engine, Phase::Created).await.bound_len > 0 {
            break;
        }
    }
    engine.release(key.clone(), "out".into(), vec![[10, 0, 0, 1].into()]);
    let (released, ()) = engine.released().pop().await;
    assert_eq!(released, key);
    assert!(lock(&provider.holdings).addresses.is_empty());
    report_in(&engine, Phase::Gone).await;
    let synced = engine.metrics().addresses();
    assert_eq!(synced[&AddressAct::Add], 1);
    assert_eq!(synced[&AddressAct::Remove], 1);
    assert_eq!(*lock(&provider.holdings), Holdings::default());
    stop.cancel();
    running.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_holds_up_nobody_for_ever() {
    let (provider, stop) = (Arc::new(Memory::default()), CancellationToken::new());
    let port = Arc::clone(&provider) as Arc<dyn LoadBalancer>;
    let (engine, run) = BalancerEngine::start(port, BalancerTimes::default(), Fence::none(), &stop);
    let running = tokio::spawn(run);
    let (key, declaration) = service();
    lock(&provider.hanging).insert(key.clone());
    engine.declare(key.clone(), declaration);
    engine.set_synced();
    report_in(&engine, Phase::Created).await;
    engine.retire(key);
    report_in(&engine, Phase::Gone).await;
    let counts = engine.metrics().operations();
    assert_eq!(counts[&(BalancerOperation::Delete, "lost")], 1);
    assert_eq!(engine.metrics().retries()[&BalancerOperation::Delete], 1);
    stop.cancel();
    running.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_the_fence_is_closed() {
    let (provider, stop) = (Arc::new(Memory::default()), CancellationToken::new());
    let port = Arc::clone(&provider) as Arc<dyn LoadBalancer>;
    let fence = Fence::closed(Arc::new(|| Duration::from_secs(1)));
    let times = BalancerTimes::default();
    let (engine, run) = BalancerEngine::start(port, times, fence.clone(), &stop);
    let running = tokio::spawn(run);
    let (key, declaration) = service();
    engine.declare(key, declaration);
    engine.set_synced();
    let refused = loop {
        let (_, report) = engine.reports().pop().await;
        if let Some(fault) = report.fault {
            break fault;
        }
    };
    assert_eq!(refused.kind, FaultKind::Unreachable);
    assert!(lock(&provider.holdings).balancers.is_empty());
    fence.open_until(Duration::from_secs(9));
    report_in(&engine, Phase::Created).await;
    stop.cancel();
    running.await.expect("it ends");
}

/// An engine on a provider that makes balancers when the gate says so.
fn gated() -> (
    Arc<Notify>,
    BalancerEngine,
    CancellationToken,
    JoinHandle<()>,
) {
    let (gate, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let provider = Arc::new(Memory {
        gate: Some(Arc::clone(&gate)),
        ..Memory::default()
    });
    let times = BalancerTimes::default();
    let (engine, run) = BalancerEngine::start(provider, times, Fence::none(), &stop);
    (gate, engine, stop, tokio::spawn(run))
}

/// Lets time pass, which is the test's own.
async fn pass(seconds: u64) {
    let never = std::future::pending::<()>();
    let passed = tokio::time::timeout(Duration::from_secs(seconds), never).await;
    passed.expect_err("it never ends by itself");
}

fn slice(service: &str, len: u8) -> (EndpointsKey, Option<EndpointGroup>) {
    let endpoint = |last| GroupEndpoint {
        address: [10, 0, 0, last].into(),
        place: Whereabouts::Unknown,
        state: EndpointState::Ready,
    };
    let group = EndpointGroup {
        owner: GroupOwner::Service("default".into(), service.into()),
        ports: Vec::new(),
        endpoints: (1..=len).map(endpoint).collect(),
    };
    let key = EndpointsKey::Slice("default".into(), service.into());
    (key, Some(group))
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_balancer_is_counted_once_and_timed() {
    let (gate, engine, stop, running) = gated();
    let (key, declaration) = service();
    engine.declare(key.clone(), declaration);
    engine.set_synced();
    // However often it is told, two endpoints wait; a third joins them.
    for len in [2, 2, 3] {
        let (slice, group) = slice("web", len);
        engine.set_endpoints(slice, group);
        pass(1).await;
    }
    engine.set_endpoints(EndpointsKey::Pod("p1".into()), Some(pod("out")));
    pass(1).await;
    assert_eq!(engine.buffered_lens(), (3, 1));
    let metrics = engine.metrics();
    let ever = [&metrics.buffered_endpoints, &metrics.buffered_pods];
    assert_eq!(ever.map(|one| one.load(Ordering::Relaxed)), [3, 1]);
    let waiting = engine.buffered(None, 1);
    assert_eq!((waiting.total, waiting.next), (2, Some(key.clone())));
    assert_eq!(waiting.shown[0].report.buffered_len, 3);
    assert_eq!(waiting.shown[0].buffered_for, Some(Duration::from_secs(4)));
    let next = engine.buffered(Some(&key), 1);
    assert_eq!((next.shown.len(), next.next), (1, None));

    gate.notify_one();
    report_in(&engine, Phase::Created).await;
    assert_eq!(engine.buffered_lens(), (0, 1));
    let waited = metrics.buffer_seconds.distribution();
    assert_eq!((waited.count, waited.sum.to_bits()), (1, 4.0_f64.to_bits()));
    let seen = engine.balancers(None, 10);
    let last = seen.shown[0].last.expect("it was made");
    assert_eq!(
        (last.operation, last.status),
        (BalancerOperation::Create, "success")
    );
    stop.cancel();
    gate.notify_one();
    running.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_an_operation_waits_for_others_is_told_apart_from_its_own() {
    let (gate, engine, stop, running) = gated();
    let (first, declaration) = service();
    let second = BalancerKey::Service("u2".into());
    let mut other = declaration.clone();
    other.owner = GroupOwner::Service("default".into(), "other".into());
    engine.declare(first, declaration);
    engine.declare(second.clone(), other);
    engine.set_synced();
    // One at a time: the second one waits for the first.
    for _ in 0..2 {
        pass(7).await;
        gate.notify_one();
    }
    while engine
        .report(&second)
        .is_none_or(|one| one.phase != Phase::Created)
    {
        engine.reports().pop().await;
    }
    let metrics = engine.metrics();
    let (queued, took) = (
        metrics.queue_times(BalancerOperation::Create),
        metrics.durations(BalancerOperation::Create),
    );
    assert_eq!((queued.count, queued.sum.to_bits()), (2, 7.0_f64.to_bits()));
    assert_eq!((took.count, took.sum.to_bits()), (2, 14.0_f64.to_bits()));
    assert_eq!(engine.phases()[&Phase::Created], 2);
    assert_eq!(engine.phases()[&Phase::CreationInProgress], 0);
    stop.cancel();
    running.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_ends_before_the_engine_does_and_nothing_new_begins() {
    let (gate, engine, stop, running) = gated();
    let (key, declaration) = service();
    let mut other = declaration.clone();
    other.owner = GroupOwner::Service("default".into(), "other".into());
    engine.declare(key.clone(), declaration);
    engine.declare(BalancerKey::Service("u2".into()), other);
    engine.set_synced();
    report_in(&engine, Phase::CreationInProgress).await;
    stop.cancel();
    pass(5).await;
    assert!(!running.is_finished());
    gate.notify_one();
    running.await.expect("it ends");
    let report = engine.report(&key).expect("it is known");
    assert_eq!((report.phase, report.is_programmed), (Phase::Created, true));
    let created = engine.metrics().durations(BalancerOperation::Create);
    assert_eq!(created.count, 1, "the other one was not begun");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_to_end_waits_for_a_provider_that_hangs_only_so_long() {
    let (_gate, engine, stop, running) = gated();
    let (key, declaration) = service();
    engine.declare(key.clone(), declaration);
    engine.set_synced();
    report_in(&engine, Phase::CreationInProgress).await;
    stop.cancel();
    running.await.expect("it ends");
    let counts = engine.metrics().operations();
    assert_eq!(counts[&(BalancerOperation::Create, "lost")], 1);
    let took = engine.metrics().durations(BalancerOperation::Create).sum;
    assert!(took < 10.0, "the supervisor would have cut it off: {took}");
}

use std::collections::BTreeSet;

use bindery_core::balancers::{
    AddressChange, AddressOutcome, BalancerSpec, EgressFront, EndpointState, Family, Frontage,
    GroupEndpoint, GroupOwner, HeldBalancer, Holdings, Whereabouts,
};

use super::*;

/// A provider in memory.
#[derive(Default)]
struct Memory {
    holdings: Mutex<Holdings>,
    remembered: Mutex<Vec<(BalancerKey, Vec<IpAddr>)>>,
    /// Balancers whose removal hangs.
    hanging: Mutex<BTreeSet<BalancerKey>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoadBalancer for Memory {
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
        lock(&self.holdings).balancers.insert(key.clone(), held);
        Box::pin(std::future::ready(Ok(frontage)))
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
    assert_eq!(waited.count, 1);
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

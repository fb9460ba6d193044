//! The engine as it runs: from the first event until nothing is left to do, a restart, and the deletion of
//! everything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bindery_core::balancers::BalancerTimes;
use bindery_core::tracker::Phase;
use bindery_engine::Fence;
use bindery_engine::balancing::{BalancerEngine, LoadBalancer};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::cloud::{Asked, Cloud};
use super::population::Population;
use crate::figures::amount;
use crate::machine;

/// How long something may take before the run is given up.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(1);
/// After a restart nobody writes for so long, or something is not in sync.
const QUIET: Duration = Duration::from_millis(500);

/// An engine with a provider, and somebody who takes its reports.
pub(crate) struct Running {
    pub(crate) engine: BalancerEngine,
    pub(crate) cloud: Arc<Cloud>,
    stop: CancellationToken,
    tasks: [JoinHandle<()>; 2],
}

/// What one size gave at one latency.
pub(crate) struct Life {
    pub(crate) services: usize,
    pub(crate) latency: Duration,
    /// From the first event until everything stands.
    pub(crate) created: Duration,
    /// Milliseconds of processor time for each Service meanwhile.
    pub(crate) cpu: f64,
    pub(crate) asked: Asked,
    /// From the start of another engine until it knows that everything stands, and what it wrote.
    pub(crate) restarted: Duration,
    pub(crate) rewritten: usize,
    /// From the first deletion until nothing is left.
    pub(crate) deleted: Duration,
}

impl Running {
    /// Starts an engine that was told nothing yet.
    pub(crate) fn start(cloud: &Arc<Cloud>) -> Self {
        let stop = CancellationToken::new();
        let provider: Arc<dyn LoadBalancer> = Arc::<Cloud>::clone(cloud);
        let (engine, run) =
            BalancerEngine::start(provider, BalancerTimes::default(), Fence::none(), &stop);
        let (reports, ended) = (engine.reports(), stop.clone());
        let reader = async move {
            loop {
                tokio::select! {
                    biased;
                    () = ended.cancelled() => break,
                    report = reports.pop() => drop(report),
                }
            }
        };
        Self {
            engine,
            cloud: Arc::clone(cloud),
            stop,
            tasks: [tokio::spawn(run), tokio::spawn(reader)],
        }
    }

    /// Ends it.
    pub(crate) async fn end(self) -> Result<()> {
        self.stop.cancel();
        for task in self.tasks {
            task.await.context("the engine fell")?;
        }
        Ok(())
    }

    /// Tells of everything: nodes, slices, Services.
    pub(crate) fn tell_all(&self, population: &Population) {
        for (name, address) in population.nodes() {
            self.engine.set_node(Arc::clone(name), vec![*address]);
        }
        for number in 0..population.services {
            self.tell_slice(population, number);
        }
        for number in 0..population.services {
            self.tell_service(population, number);
        }
        self.engine.set_synced();
    }

    /// Tells of the slice of a Service.
    pub(crate) fn tell_slice(&self, population: &Population, number: usize) {
        let group = population.group(number, population.endpoints(number));
        self.engine
            .set_endpoints(population.slice(number), Some(group));
    }

    /// Tells of a Service.
    pub(crate) fn tell_service(&self, population: &Population, number: usize) {
        let declaration = population.declaration(number);
        self.engine.declare(Population::key(number), declaration);
    }

    /// How many balancers stand, and whether all do that there are.
    pub(crate) fn standing(&self) -> (usize, bool) {
        let phases = self.engine.phases();
        let standing = phases.get(&Phase::Created).copied().unwrap_or_default();
        (standing, standing == phases.values().sum::<usize>())
    }

    /// Waits until so many balancers and addresses stand, and nothing else is there.
    pub(crate) async fn wait_for(&self, balancers: usize, addresses: usize) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.cloud.held() == (balancers, addresses) && self.standing() == (balancers, true) {
                return Ok(Instant::now());
            }
            sleep(POLL).await;
        }
        bail!(
            "the provider has {:?} balancers and addresses in place of {:?} after {PATIENCE:?}, phases {:?}",
            self.cloud.held(),
            (balancers, addresses),
            self.engine.phases()
        )
    }
}

/// Measures one size at one latency.
pub(crate) async fn measure(population: &Population, latency: Duration) -> Result<Life> {
    let (services, addresses) = (population.services, population.addresses());
    let cloud = Arc::new(Cloud::new(latency));
    let pid = std::process::id();
    let cpu = machine::cpu_seconds(pid)?;
    let begin = Instant::now();
    let running = Running::start(&cloud);
    running.tell_all(population);
    let created = running.wait_for(services, addresses).await? - begin;
    let cpu = (machine::cpu_seconds(pid)? - cpu) * 1000.0 / amount(services);
    running.end().await?;
    let asked = std::mem::take(&mut cloud.lock().asked);

    let begin = Instant::now();
    let running = Running::start(&cloud);
    running.tell_all(population);
    let restarted = running.wait_for(services, addresses).await? - begin;
    sleep(QUIET).await;
    let rewritten = cloud.lock().asked.writes();

    let begin = Instant::now();
    for number in 0..services {
        running.engine.retire(Population::key(number));
    }
    for number in 0..services {
        running.engine.set_endpoints(population.slice(number), None);
    }
    let deleted = running.wait_for(0, 0).await? - begin;
    running.end().await?;
    ensure!(
        asked.ensure == services,
        "{asked:?} for {services} Services"
    );
    Ok(Life {
        services,
        latency,
        created,
        cpu,
        asked,
        restarted,
        rewritten,
        deleted,
    })
}

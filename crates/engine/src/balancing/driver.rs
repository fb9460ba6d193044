//! The running machine of load balancers, and the handle to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{
    Fault, FaultKind,
    balancers::{
        AddressChange, AddressOutcome, BalancerDeclaration, BalancerEnd, BalancerKey, BalancerNews,
        BalancerReport, BalancerStep, BalancerTimes, BalancerWork, Balancers, EndpointGroup,
        EndpointsKey, GroupOwner,
    },
    tracker::Phase,
};
use futures::future::BoxFuture;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{AddressAct, BalancerMetrics, BalancerOperation, LoadBalancer, send_addresses};
use crate::{
    fence::Fence,
    machine::{Driver, Machine},
    queue::KeyedQueue,
    runner::Runner,
};

/// How long one step may take. What takes longer may have been done, so that it counts as lost; a provider
/// has shorter limits of its own for single requests.
const STEP_MAX: Duration = Duration::from_mins(5);

/// Inputs taken at a time, so that ends of steps are not kept waiting.
const INPUTS_MAX: usize = 1000;

/// What a listener is told of balancers: a newer report replaces one that was not taken yet.
pub type BalancerReports = KeyedQueue<BalancerKey, BalancerReport>;

/// The pods that may go.
pub type ReleasedPods = KeyedQueue<EndpointsKey, ()>;

/// The handle by which balancers and endpoints are declared and listeners are told. Clones are the same.
#[derive(Clone)]
pub struct BalancerEngine(Arc<BalancerShared>);

struct BalancerShared {
    inbox: KeyedQueue<BalancerInputKey, BalancerInput>,
    reports: BalancerReports,
    released: ReleasedPods,
    metrics: BalancerMetrics,
    view: Mutex<BalancerView>,
}

/// Endpoints that wait for a balancer of theirs to stand, by owner.
type Buffered = Vec<(GroupOwner, usize)>;

/// How everything is, for those who look.
#[derive(Clone, Debug, Default)]
pub struct BalancerView {
    /// Every balancer that is known.
    pub balancers: BTreeMap<BalancerKey, BalancerReport>,
    /// How many balancers are in which phase, and whether they are gateways.
    pub phases: BTreeMap<(bool, Phase), usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BalancerInputKey {
    Balancer(BalancerKey),
    Endpoints(EndpointsKey),
    Node(Arc<str>),
    Synced,
    Look,
}

enum BalancerInput {
    Declare(Box<BalancerDeclaration>),
    Retire,
    Endpoints(Option<EndpointGroup>),
    Release(Arc<str>, Vec<IpAddr>),
    Node(Vec<IpAddr>),
    Synced,
    Look(oneshot::Sender<Buffered>),
}

impl BalancerEngine {
    /// An engine of one provider, and the task that runs it: it ends when `stop` is cancelled and what is on
    /// its way has ended. Nothing is written while the fence is closed.
    pub fn start(
        provider: Arc<dyn LoadBalancer>,
        times: BalancerTimes,
        fence: Fence,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let engine = Self(Arc::new(BalancerShared {
            inbox: KeyedQueue::default(),
            reports: KeyedQueue::default(),
            released: KeyedQueue::default(),
            metrics: BalancerMetrics::default(),
            view: Mutex::default(),
        }));
        let machine = Balancers::new(provider.limits(), times);
        let driver = BalancerDriver {
            shared: Arc::clone(&engine.0),
            provider,
            fence,
            known: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        let stop = stop.clone();
        let run = async move {
            Runner::new(machine, driver, Instant::now()).run(stop).await;
        };
        (engine, run)
    }

    /// A Service asks for a balancer.
    pub fn declare(&self, key: BalancerKey, declaration: BalancerDeclaration) {
        let input = BalancerInput::Declare(Box::new(declaration));
        self.tell(BalancerInputKey::Balancer(key), input);
    }

    /// A Service asks for none any more; [`Phase::Gone`] is told when nothing of it is left.
    pub fn retire(&self, key: BalancerKey) {
        self.tell(BalancerInputKey::Balancer(key), BalancerInput::Retire);
    }

    /// A slice or a pod tells of its endpoints; `None` where it is gone.
    pub fn set_endpoints(&self, key: EndpointsKey, group: Option<EndpointGroup>) {
        let input = BalancerInput::Endpoints(group);
        self.tell(BalancerInputKey::Endpoints(key), input);
    }

    /// A pod leaves the gateway of its label; it is among the released when nothing is bound for it any more.
    pub fn release(&self, key: EndpointsKey, label: Arc<str>, addresses: Vec<IpAddr>) {
        let input = BalancerInput::Release(label, addresses);
        self.tell(BalancerInputKey::Endpoints(key), input);
    }

    /// A node has these addresses; none where it is gone.
    pub fn set_node(&self, name: Arc<str>, addresses: Vec<IpAddr>) {
        let input = BalancerInput::Node(addresses);
        self.tell(BalancerInputKey::Node(name), input);
    }

    /// Everything that is asked for was told.
    pub fn set_synced(&self) {
        self.tell(BalancerInputKey::Synced, BalancerInput::Synced);
    }

    /// How balancers are, as it changes.
    #[must_use]
    pub fn reports(&self) -> BalancerReports {
        self.0.reports.clone()
    }

    /// The pods that may go, as they may.
    #[must_use]
    pub fn released(&self) -> ReleasedPods {
        self.0.released.clone()
    }

    /// How everything is.
    #[must_use]
    pub fn view(&self) -> BalancerView {
        self.0.view().clone()
    }

    /// How a balancer is.
    #[must_use]
    pub fn report(&self, key: &BalancerKey) -> Option<BalancerReport> {
        self.0.view().balancers.get(key).cloned()
    }

    /// The endpoints that wait for a balancer of theirs to stand, by owner; none where the engine has ended.
    pub async fn fetch_buffered(&self) -> Vec<(GroupOwner, usize)> {
        let (sender, receiver) = oneshot::channel();
        self.tell(BalancerInputKey::Look, BalancerInput::Look(sender));
        receiver.await.unwrap_or_default()
    }

    /// Counters.
    #[must_use]
    pub fn metrics(&self) -> &BalancerMetrics {
        &self.0.metrics
    }

    fn tell(&self, key: BalancerInputKey, input: BalancerInput) {
        self.0.inbox.push(key, input);
    }
}

impl BalancerShared {
    fn view(&self) -> MutexGuard<'_, BalancerView> {
        // A panic under the lock is our bug and ends the process; until then the view is read on.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine for Balancers {
    type Key = BalancerWork;
    type Step = BalancerStep;
    type Completion = BalancerEnd;
    type News = BalancerNews;

    fn take_work(&mut self) -> Vec<BalancerWork> {
        Self::take_work(self)
    }

    fn next_step(&mut self, work: &BalancerWork, now: Duration) -> Option<BalancerStep> {
        Self::next_step(self, work, now)
    }

    fn complete(&mut self, work: &BalancerWork, end: BalancerEnd, now: Duration) {
        Self::complete(self, work, end, now);
    }

    fn take_news(&mut self) -> BalancerNews {
        Self::take_news(self)
    }

    fn next_wake(&self) -> Option<Duration> {
        Self::next_wake(self)
    }

    fn wake(&mut self, now: Duration) {
        Self::wake(self, now);
    }
}

/// The hands of the machine.
struct BalancerDriver {
    shared: Arc<BalancerShared>,
    provider: Arc<dyn LoadBalancer>,
    fence: Fence,
    /// The addresses that balancers had before this process, until everything was told.
    known: BTreeMap<BalancerKey, Vec<IpAddr>>,
    /// Since when endpoints of balancers that do not stand yet wait.
    waiting: BTreeMap<BalancerKey, Instant>,
}

/// What came from outside.
enum Arrival {
    Inbox,
    Provider,
}

/// What is kept beside a step on its way.
struct BalancerTicket {
    began: Instant,
    operation: BalancerOperation,
    /// What happens to each address.
    acts: BTreeMap<IpAddr, AddressAct>,
}

impl BalancerDriver {
    fn take_inputs(&mut self, machine: &mut Balancers) {
        for (key, input) in self.shared.inbox.take(INPUTS_MAX) {
            match (key, input) {
                (BalancerInputKey::Balancer(key), BalancerInput::Declare(declaration)) => {
                    self.note_known(&key, &declaration.previous);
                    machine.declare(&key, *declaration);
                }
                (BalancerInputKey::Balancer(key), _) => machine.retire(&key),
                (BalancerInputKey::Endpoints(key), BalancerInput::Release(label, addresses)) => {
                    machine.release(&key, &label, &addresses);
                }
                (BalancerInputKey::Endpoints(key), BalancerInput::Endpoints(group)) => {
                    machine.set_endpoints(&key, group);
                }
                (BalancerInputKey::Node(name), BalancerInput::Node(addresses)) => {
                    machine.set_node(&name, addresses);
                }
                (BalancerInputKey::Synced, _) => {
                    let known: Vec<_> = std::mem::take(&mut self.known).into_iter().collect();
                    self.provider.remember(&known);
                    machine.set_synced();
                }
                (BalancerInputKey::Look, BalancerInput::Look(sender)) => {
                    let buffered = machine.buffered();
                    let buffered = buffered.map(|(owner, len)| (owner.clone(), len)).collect();
                    // Who asked may have left.
                    let _ = sender.send(buffered);
                }
                (
                    BalancerInputKey::Endpoints(_)
                    | BalancerInputKey::Node(_)
                    | BalancerInputKey::Look,
                    _,
                ) => {}
            }
        }
    }

    /// Notes how long what waits for a balancer waited.
    fn note_waiting(&mut self, report: &BalancerReport) {
        match report.phase {
            Phase::NotStarted | Phase::CreationInProgress => {
                let since = self.waiting.entry(report.key.clone());
                since.or_insert_with(Instant::now);
            }
            Phase::Created | Phase::UpdateInProgress => {
                if let Some(since) = self.waiting.remove(&report.key) {
                    let waited = since.elapsed();
                    self.shared.metrics.buffer_seconds.observe_duration(waited);
                }
            }
            Phase::DeletionPending | Phase::DeletionInProgress | Phase::Gone => {
                self.waiting.remove(&report.key);
            }
        }
    }

    fn note_known(&mut self, key: &BalancerKey, previous: &[IpAddr]) {
        if !previous.is_empty() {
            self.known.insert(key.clone(), previous.to_vec());
        }
    }
}

impl Driver<Balancers> for BalancerDriver {
    type Input = Arrival;
    type Ticket = BalancerTicket;

    fn begin(
        &mut self,
        machine: &Balancers,
        _: &BalancerWork,
        step: BalancerStep,
    ) -> Option<(BalancerTicket, BoxFuture<'static, BalancerEnd>)> {
        let ticket = BalancerTicket {
            began: Instant::now(),
            operation: operation(machine, &step),
            acts: acts(&step),
        };
        let (provider, fence) = (Arc::clone(&self.provider), self.fence.clone());
        let work = async move { carry_out(&*provider, &fence, step).await };
        Some((ticket, Box::pin(work)))
    }

    fn counts(
        &mut self,
        _: &Balancers,
        (work, end): (&BalancerWork, &BalancerEnd),
        ticket: BalancerTicket,
    ) -> bool {
        let BalancerTicket {
            began,
            operation,
            acts,
        } = ticket;
        let duration = began.elapsed();
        self.shared.metrics.count(operation, end, duration);
        if let BalancerEnd::Bound(outcomes) = end {
            self.shared.metrics.count_addresses(outcomes, &acts);
        }
        tell_step(work, operation, end, duration);
        true
    }

    async fn next_input(&mut self, _: &Balancers) -> Arrival {
        tokio::select! {
            biased;
            () = self.shared.inbox.arrival() => Arrival::Inbox,
            () = self.provider.changed() => Arrival::Provider,
        }
    }

    fn take(&mut self, machine: &mut Balancers, input: Arrival, _: Duration) {
        match input {
            Arrival::Inbox => self.take_inputs(machine),
            Arrival::Provider => machine.hasten(),
        }
    }

    fn completed(&mut self, machine: &Balancers, _: &BalancerWork) {
        let mut view = self.shared.view();
        view.phases.clone_from(machine.phases());
    }

    fn tell(&mut self, news: BalancerNews) {
        let BalancerNews { reports, released } = news;
        for report in &reports {
            self.note_waiting(report);
        }
        let mut view = self.shared.view();
        for report in reports {
            if report.phase == Phase::Gone {
                view.balancers.remove(&report.key);
            } else {
                view.balancers.insert(report.key.clone(), report.clone());
            }
            self.shared.reports.push(report.key.clone(), report);
        }
        for key in released {
            self.shared.released.push(key, ());
        }
    }
}

fn operation(machine: &Balancers, step: &BalancerStep) -> BalancerOperation {
    match step {
        BalancerStep::Ensure { key, .. } if machine.phase(key) == Phase::CreationInProgress => {
            BalancerOperation::Create
        }
        BalancerStep::Ensure { .. } => BalancerOperation::Update,
        BalancerStep::Remove(_) => BalancerOperation::Delete,
        BalancerStep::Bind(_) => BalancerOperation::Locations,
        BalancerStep::Read => BalancerOperation::Read,
    }
}

fn acts(step: &BalancerStep) -> BTreeMap<IpAddr, AddressAct> {
    let BalancerStep::Bind(changes) = step else {
        return BTreeMap::new();
    };
    let act = |change: &AddressChange| {
        let act = match (change.stood.is_empty(), change.wanted.is_empty()) {
            (true, false) => AddressAct::Add,
            (_, true) => AddressAct::Remove,
            (false, false) => AddressAct::Update,
        };
        (change.address, act)
    };
    changes.iter().map(act).collect()
}

/// Carries out a step; what takes too long may have been done.
async fn carry_out(provider: &dyn LoadBalancer, fence: &Fence, step: BalancerStep) -> BalancerEnd {
    let too_long = || {
        let message = format!("no answer within {} seconds", STEP_MAX.as_secs());
        Fault::new(FaultKind::Lost, message)
    };
    let fenced = (!fence.is_open() && step != BalancerStep::Read).then(|| {
        Fault::new(
            FaultKind::Unreachable,
            "this replica does not hold the lease",
        )
    });
    match step {
        BalancerStep::Ensure {
            key,
            spec,
            previous,
        } => {
            let work = async {
                match fenced {
                    Some(fault) => Err(fault),
                    None => provider.ensure(&key, &spec, &previous).await,
                }
            };
            let end = tokio::time::timeout(STEP_MAX, work).await;
            BalancerEnd::Ensured(end.unwrap_or_else(|_| Err(too_long())))
        }
        BalancerStep::Remove(key) => {
            let work = async {
                match fenced {
                    Some(fault) => Err(fault),
                    None => provider.remove(&key).await,
                }
            };
            let end = tokio::time::timeout(STEP_MAX, work).await;
            BalancerEnd::Removed(end.unwrap_or_else(|_| Err(too_long())))
        }
        BalancerStep::Bind(changes) => {
            let failed = |fault: &Fault| {
                let outcome = |change: &AddressChange| AddressOutcome {
                    address: change.address,
                    result: Err(fault.clone()),
                };
                changes.iter().map(outcome).collect()
            };
            if let Some(fault) = fenced {
                return BalancerEnd::Bound(failed(&fault));
            }
            let end = tokio::time::timeout(STEP_MAX, send_addresses(provider, &changes)).await;
            BalancerEnd::Bound(end.unwrap_or_else(|_| failed(&too_long())))
        }
        BalancerStep::Read => {
            let end = tokio::time::timeout(STEP_MAX, provider.read()).await;
            BalancerEnd::Read(end.unwrap_or_else(|_| Err(too_long())))
        }
    }
}

fn tell_step(
    work: &BalancerWork,
    operation: BalancerOperation,
    end: &BalancerEnd,
    duration: Duration,
) {
    let fault = match end {
        BalancerEnd::Ensured(result) => result.as_ref().err(),
        BalancerEnd::Removed(result) => result.as_ref().err(),
        BalancerEnd::Read(result) => result.as_ref().err(),
        BalancerEnd::Bound(outcomes) => {
            let mut faults = outcomes.iter();
            faults.find_map(|outcome| outcome.result.as_ref().err())
        }
    };
    let service = match work {
        BalancerWork::Balancer(key) => key.to_string(),
        BalancerWork::Addresses | BalancerWork::Holdings => String::new(),
    };
    let seconds = duration.as_secs_f64();
    let is_read = operation == BalancerOperation::Read;
    let operation = operation.as_str();
    match fault {
        Some(fault) => {
            let (kind, why) = (fault.kind.as_str(), &*fault.message);
            tracing::warn!(
                serviceUID = service,
                operation,
                kind,
                why,
                duration = seconds,
                "the provider of load balancers did not do what was asked"
            );
        }
        None if is_read => {
            tracing::debug!(operation, duration = seconds, "the provider was read");
        }
        None => {
            tracing::info!(
                serviceUID = service,
                operation,
                duration = seconds,
                "the provider of load balancers did what was asked"
            );
        }
    }
}

#[cfg(test)]
mod tests;

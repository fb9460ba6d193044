//! The running machine of load balancers, and the handle to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bindery_core::{
    balancers::{
        AddressChange, BalancerDeclaration, BalancerEnd, BalancerKey, BalancerNews, BalancerReport,
        BalancerStep, BalancerTimes, BalancerWork, Balancers, EndpointGroup, EndpointsKey,
    },
    tracker::Phase,
};
use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::{
    AddressAct, BalancerMetrics, BalancerOperation, LoadBalancer, SeenBalancers,
    carrying::{DrainLimit, EndedOperation, carry_out},
    counts::fault,
    spans::BalancerSpans,
    view::BalancerView,
};
use crate::{
    fence::Fence,
    machine::{Driver, Machine},
    queue::KeyedQueue,
    runner::Runner,
};

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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BalancerInputKey {
    Balancer(BalancerKey),
    Endpoints(EndpointsKey),
    Node(Arc<str>),
    Synced,
}

enum BalancerInput {
    Declare(Box<BalancerDeclaration>),
    Retire,
    Endpoints(Option<EndpointGroup>),
    Release(Arc<str>, Vec<IpAddr>),
    Node(Vec<IpAddr>),
    Synced,
}

impl BalancerEngine {
    /// An engine of one provider, and the task that runs it: it ends when `stop` is cancelled and what is on
    /// its way has ended, or could not end in time. Nothing is written while the fence is closed.
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
            pending_since: None,
            ended: None,
            drain: DrainLimit::new(stop.clone()),
            spans: BalancerSpans::default(),
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

    /// How a balancer is.
    #[must_use]
    pub fn report(&self, key: &BalancerKey) -> Option<BalancerReport> {
        self.0.view().report(key).cloned()
    }

    /// Balancers behind a key, so many at most.
    #[must_use]
    pub fn balancers(&self, after: Option<&BalancerKey>, len_max: usize) -> SeenBalancers {
        self.0.view().page(after, len_max, false)
    }

    /// Balancers behind a key for which endpoints or pods wait to stand, so many at most.
    #[must_use]
    pub fn buffered(&self, after: Option<&BalancerKey>, len_max: usize) -> SeenBalancers {
        self.0.view().page(after, len_max, true)
    }

    /// How many endpoints of Services, and how many pods, wait for a balancer to stand.
    #[must_use]
    pub fn buffered_lens(&self) -> (usize, usize) {
        self.0.view().buffered()
    }

    /// How many balancers are in which phase.
    #[must_use]
    pub fn phases(&self) -> BTreeMap<Phase, usize> {
        self.0.view().phases().clone()
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
    /// Since when addresses wait for a request to be made.
    pending_since: Option<Instant>,
    /// The step that ended and that the machine takes in now.
    ended: Option<EndedOperation>,
    drain: DrainLimit,
    spans: BalancerSpans,
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
    span: Span,
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
                (BalancerInputKey::Endpoints(_) | BalancerInputKey::Node(_), _) => {}
            }
        }
    }

    /// How long a step waited before it began.
    fn queue_time(&mut self, machine: &Balancers, step: &BalancerStep) -> Duration {
        match step {
            BalancerStep::Ensure { key, .. } | BalancerStep::Remove(key) => machine.queued_for(key),
            BalancerStep::Bind(_) => {
                let since = self.pending_since.take();
                self.note_pending(machine);
                since.map_or(Duration::ZERO, |since| since.elapsed())
            }
            BalancerStep::Read => Duration::ZERO,
        }
    }

    fn note_pending(&mut self, machine: &Balancers) {
        if machine.has_pending_addresses() {
            self.pending_since.get_or_insert_with(Instant::now);
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
        let waited = self.queue_time(machine, &step);
        let operation = operation(machine, &step);
        let span = self.spans.begin(operation, &step);
        span.record("queued", waited.as_secs_f64());
        let ticket = BalancerTicket {
            began: Instant::now(),
            operation,
            acts: acts(&step),
            span: span.clone(),
        };
        self.shared.metrics.count_begun(ticket.operation, waited);
        let (provider, fence) = (Arc::clone(&self.provider), self.fence.clone());
        let drain = self.drain.clone();
        let work = async move { carry_out(&*provider, &fence, &drain, step).await };
        Some((ticket, Box::pin(work.instrument(span))))
    }

    fn counts(
        &mut self,
        _: &Balancers,
        (_, end): (&BalancerWork, &BalancerEnd),
        ticket: BalancerTicket,
    ) -> bool {
        let BalancerTicket {
            began,
            operation,
            acts,
            span,
        } = ticket;
        let duration = began.elapsed();
        self.shared.metrics.count(operation, end, duration);
        if let BalancerEnd::Bound(outcomes) = end {
            self.shared.metrics.count_addresses(outcomes, &acts);
        }
        self.ended = Some(EndedOperation {
            operation,
            fault: fault(end).cloned(),
            duration,
            span,
        });
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
        self.note_pending(machine);
    }

    fn completed(&mut self, machine: &Balancers, work: &BalancerWork) {
        self.note_pending(machine);
        let Some(ended) = self.ended.take() else {
            return;
        };
        let key = match work {
            BalancerWork::Balancer(key) => Some(key),
            BalancerWork::Addresses | BalancerWork::Holdings => None,
        };
        if let Some(key) = key {
            self.shared.view().note(key, &ended);
        }
        ended.tell(key, key.map(|key| machine.phase(key)));
    }

    fn tell(&mut self, news: BalancerNews) {
        let BalancerNews { reports, released } = news;
        let metrics = &self.shared.metrics;
        let mut view = self.shared.view();
        for report in reports {
            self.spans.take(&report);
            let buffering = view.put(report.clone());
            metrics.count_buffered(&report.key, buffering.more);
            if let Some(waited) = buffering.waited {
                metrics.buffer_seconds.observe_duration(waited);
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

#[cfg(test)]
mod tests;

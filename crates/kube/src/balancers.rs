//! The controllers of load balancers: Services get addresses, and pods a way out.
//!
//! What Services, slices, nodes and pods ask for goes to the engine of load balancers as the watches tell it;
//! what the engine tells goes into the status of each Service. A Service has its finalizer before the
//! provider hears of it, and loses it when nothing of its balancer is left.

mod api;
mod names;
mod pod;
mod seen;
mod service;
mod status;
mod watching;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_core::Backoff;
use bindery_core::backoff::jitter_seed;
use bindery_engine::balancing::{BalancerEngine, BalancerReports, LoadBalancer, ReleasedPods};
use bindery_engine::work::{QueueLen, Requeue, WorkKey, WorkLimits, WorkQueue};
use bindery_sources::balancers::BalancerClass;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Clock;
use crate::controllers::Task;
use crate::replica::Replica;

use api::BalancerApi;
use seen::Seen;

/// The limits of these controllers: each run waits for one request at a time.
const RECONCILES: WorkLimits = WorkLimits {
    running_max: 32,
    retry: Backoff {
        first: Duration::from_millis(200),
        max: Duration::from_secs(30),
    },
};

/// Everything that these controllers need.
pub struct BalancerControllers {
    /// The Kubernetes API.
    pub client: Client,
    /// Where balancers are declared.
    pub engine: BalancerEngine,
    /// Who gives balancers, to be asked what it cannot do.
    pub provider: Arc<dyn LoadBalancer>,
    /// Which Services are ours.
    pub class: BalancerClass,
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// This process among others.
    pub replica: Replica,
}

/// What is worked on: an object by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BalancerObject {
    Service(Arc<str>, Arc<str>),
    Pod(Arc<str>, Arc<str>),
}

impl WorkKey for BalancerObject {
    fn jitter_seed(&self) -> u64 {
        let (Self::Service(_, name) | Self::Pod(_, name)) = self;
        jitter_seed(name.as_bytes())
    }
}

/// What they share.
struct BalancerContext {
    api: BalancerApi,
    engine: BalancerEngine,
    provider: Arc<dyn LoadBalancer>,
    class: BalancerClass,
    clock: Arc<dyn Clock>,
    elected: CancellationToken,
    queue: WorkQueue<BalancerObject>,
    seen: Mutex<Seen>,
    /// Whether everything was read.
    synced: watch::Sender<bool>,
}

/// What can be asked of running controllers of load balancers. Clones are the same.
#[derive(Clone)]
pub struct BalancersHandle(Arc<BalancerContext>);

impl BalancersHandle {
    /// Whether everything declared was read.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// How many objects are how far.
    #[must_use]
    pub fn queue(&self) -> QueueLen {
        self.0.queue.len("balancers")
    }

    /// The engine of load balancers.
    #[must_use]
    pub fn engine(&self) -> &BalancerEngine {
        &self.0.engine
    }
}

impl BalancerControllers {
    /// The tasks, which end when `stop` is cancelled and their writes are done, and a handle.
    #[must_use]
    pub fn start(self, stop: &CancellationToken) -> (BalancersHandle, Vec<Task>) {
        let reports = self.engine.reports();
        let released = self.engine.released();
        let shared = Arc::new(BalancerContext {
            api: BalancerApi::new(self.client, self.replica.fence.clone()),
            engine: self.engine,
            provider: self.provider,
            class: self.class,
            clock: self.clock,
            elected: self.replica.elected.clone(),
            queue: WorkQueue::new(RECONCILES),
            seen: Mutex::default(),
            synced: watch::Sender::new(false),
        });
        let handle = BalancersHandle(Arc::clone(&shared));
        let tasks: Vec<Task> = vec![
            (
                "balancer watches",
                Box::pin(watching::watch_all(Arc::clone(&shared), stop.clone())),
            ),
            (
                "balancer reports",
                Box::pin(listen(Arc::clone(&shared), reports, stop.clone())),
            ),
            (
                "released pods",
                Box::pin(listen_released(Arc::clone(&shared), released, stop.clone())),
            ),
            ("balancers", Box::pin(run(shared, stop.clone()))),
        ];
        (handle, tasks)
    }
}

impl BalancerContext {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // A panic under the lock is our bug and ends the process; until then it is read on.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works on what changed, once everything was read and this process is elected.
async fn run(shared: Arc<BalancerContext>, stop: CancellationToken) {
    let mut synced = shared.synced.subscribe();
    let begin = async {
        // The sender lives as long as the context.
        let _ = synced.wait_for(|synced| *synced).await;
        shared.elected.cancelled().await;
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = begin => {}
    }
    // What the provider has and nobody asks for is known from now on.
    shared.engine.set_synced();
    let reconcile = |key: BalancerObject| -> BoxFuture<'_, Requeue> {
        let shared = &shared;
        Box::pin(async move {
            let done = match &key {
                BalancerObject::Service(..) => service::reconcile(shared, &key).await,
                BalancerObject::Pod(..) => pod::reconcile(shared, &key).await,
            };
            match done {
                Ok(requeue) => requeue,
                Err(error) => {
                    if !error.is_conflict() {
                        let error = error.to_string();
                        tracing::warn!(?key, error, "a request to the Kubernetes API failed");
                    }
                    Requeue::Failed
                }
            }
        })
    };
    shared.queue.run(stop, reconcile).await;
}

/// Hands reports to the Services that they are about.
async fn listen(shared: Arc<BalancerContext>, reports: BalancerReports, stop: CancellationToken) {
    loop {
        let (_, report) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            entry = reports.pop() => entry,
        };
        let place = shared.seen().take_report(report);
        if let Some(place) = place {
            shared.queue.push(place);
        }
    }
}

/// Lets pods go whose addresses are bound to nothing any more.
async fn listen_released(
    shared: Arc<BalancerContext>,
    released: ReleasedPods,
    stop: CancellationToken,
) {
    loop {
        let (key, ()) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            entry = released.pop() => entry,
        };
        let place = shared.seen().take_released(key);
        if let Some(place) = place {
            shared.queue.push(place);
        }
    }
}

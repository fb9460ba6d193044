//! One step of a balancer, carried out by its provider, and what is said of it in the log.

use std::time::Duration;

use bindery_core::{
    Fault, FaultKind,
    balancers::{AddressChange, AddressOutcome, BalancerEnd, BalancerKey, BalancerStep},
    tracker::Phase,
};

use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::{BalancerOperation, LoadBalancer, send_addresses};
use crate::fence::Fence;

/// How long one step may take. What takes longer may have been done, so that it counts as lost; a provider
/// has shorter limits of its own for single requests.
const STEP_MAX: Duration = Duration::from_mins(5);

/// How long a step that is on its way may take after the process was told to stop: less than the supervisor
/// waits, so that its end is known and told.
const DRAIN_MAX: Duration = Duration::from_secs(8);

/// How an operation ended, for those who look.
pub(super) struct EndedOperation {
    pub(super) operation: BalancerOperation,
    pub(super) fault: Option<Fault>,
    pub(super) duration: Duration,
    pub(super) span: Span,
}

/// How long steps may take: a while, and less once the process was told to stop.
#[derive(Clone, Debug)]
pub(super) struct DrainLimit(CancellationToken);

impl DrainLimit {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self(stop)
    }

    /// The end of some work, or that there was no time for it.
    async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Fault> {
        let drained = async {
            self.0.cancelled().await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        let message = tokio::select! {
            biased;
            done = work => return Ok(done),
            () = tokio::time::sleep(STEP_MAX) => {
                format!("no answer within {} seconds", STEP_MAX.as_secs())
            }
            () = drained => "no answer before this process ended".to_owned(),
        };
        // It may have been done.
        Err(Fault::new(FaultKind::Lost, message))
    }
}

/// Carries out a step; what takes too long may have been done.
pub(super) async fn carry_out(
    provider: &dyn LoadBalancer,
    fence: &Fence,
    limit: &DrainLimit,
    step: BalancerStep,
) -> BalancerEnd {
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
            BalancerEnd::Ensured(limit.within(work).await.flatten())
        }
        BalancerStep::Remove(key) => {
            let work = async {
                match fenced {
                    Some(fault) => Err(fault),
                    None => provider.remove(&key).await,
                }
            };
            BalancerEnd::Removed(limit.within(work).await.flatten())
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
            let end = limit.within(send_addresses(provider, &changes)).await;
            BalancerEnd::Bound(end.unwrap_or_else(|fault| failed(&fault)))
        }
        BalancerStep::Read => BalancerEnd::Read(limit.within(provider.read()).await.flatten()),
    }
}

impl EndedOperation {
    /// `success`, or the kind of the fault.
    pub(super) fn status(&self) -> &'static str {
        let fault = self.fault.as_ref();
        fault.map_or("success", |fault| fault.kind.as_str())
    }

    /// Says in the log how it ended, and where that leaves its balancer.
    pub(super) fn tell(&self, key: Option<&BalancerKey>, state: Option<Phase>) {
        let service = key.map(ToString::to_string).unwrap_or_default();
        let state = state.map_or("", Phase::as_str);
        self.span.record("status", self.status());
        if !state.is_empty() {
            self.span.record("state", state);
        }
        let duration = self.duration.as_secs_f64();
        let operation = self.operation.as_str();
        match &self.fault {
            Some(fault) => {
                let (kind, why) = (fault.kind.as_str(), &*fault.message);
                tracing::warn!(
                    serviceUID = service,
                    operation,
                    state,
                    kind,
                    why,
                    duration,
                    "the provider of load balancers did not do what was asked"
                );
            }
            None if self.operation == BalancerOperation::Read => {
                tracing::debug!(operation, duration, "the provider was read");
            }
            None => {
                tracing::info!(
                    serviceUID = service,
                    operation,
                    state,
                    duration,
                    "the provider of load balancers did what was asked"
                );
            }
        }
    }
}

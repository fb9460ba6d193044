//! Load balancers: the port that a provider of them implements, and how addresses are sent to it.

mod carrying;
mod counts;
mod driver;
mod spans;
mod view;

pub use self::{
    counts::{AddressAct, BalancerMetrics, BalancerOperation},
    driver::{BalancerEngine, BalancerReports, ReleasedPods},
    spans::TRACE_TARGET,
    view::{LastOperation, SeenBalancer, SeenBalancers},
};

use std::{collections::BTreeMap, net::IpAddr};

use bindery_core::{
    Fault, FaultKind, Problem, Reason,
    balancers::{
        AddressChange, AddressOutcome, BalancerKey, BalancerLimits, BalancerSpec, Frontage,
        Holdings,
    },
};
use futures::future::BoxFuture;

/// Whatever gives balancers: the network API of a cloud, or this machine.
///
/// Each method may be called at any time, and again with the same after its answer was lost. No two calls
/// for one balancer are on their way at the same time, and no two for one address.
///
/// Guarantees (of an implementation): what it did not make for this cluster it neither shows, changes nor
/// removes.
///
/// Cancellation: dropping a future may leave its work done, half done or not done; the engine never drops
/// one except when the process ends, and reads everything when it starts.
///
/// Errors: the kind of a fault tells what happens next. [`FaultKind::Lost`]: it may have been done, so it
/// is done again or read back. [`FaultKind::Invalid`]: only another spec helps; it is told and not tried
/// again. [`FaultKind::Missing`]: the balancer is not there. [`FaultKind::Conflict`] of [`Self::remove`]:
/// addresses are still bound to it. Everything else is tried again, later each time, and never
/// before `retry_after`.
pub trait LoadBalancer: Send + Sync + 'static {
    /// How much it takes at a time.
    fn limits(&self) -> BalancerLimits {
        BalancerLimits::default()
    }

    /// What of a spec it cannot do, one problem for each thing. Nothing is done about such a spec. Asks
    /// nobody.
    fn problems(&self, _spec: &BalancerSpec) -> Vec<Problem> {
        Vec::new()
    }

    /// What the author of a balancer should know about its addresses, whether it has some or none. Asks nobody.
    fn notice(&self, _key: &BalancerKey) -> Option<(Reason, String)> {
        None
    }

    /// Takes note, once and before the first [`Self::ensure`], of the addresses that balancers had when
    /// somebody last looked: nobody else gets them while they are wanted.
    fn remember(&self, _known: &[(BalancerKey, Vec<IpAddr>)]) {}

    /// Makes a balancer what the spec says, whether it is there or not, and keeps the spec's digest beside
    /// it. An answer says that it carries traffic as soon as addresses are bound to it.
    ///
    /// `previous` has the addresses that it had when somebody last looked; it gets them again if it can.
    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        previous: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>>;

    /// Removes a balancer with everything that was made for it; one that is not there is no fault. No
    /// address is bound to it any more, as far as is known.
    fn remove<'a>(&'a self, key: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>>;

    /// Binds addresses as wanted. Every balancer that is wanted stands.
    ///
    /// The answer has one outcome for each change, in any order. A fault in place of it holds for all of
    /// them; where one of them may be the cause, the request is halved ([`send_addresses`]).
    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>>;

    /// Reads everything that it has of ours.
    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>>;

    /// Waits until something changed at the provider, so that what failed is worth trying again and what
    /// stands is worth reading again.
    ///
    /// Cancellation: dropped, nothing is lost.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Sends changes; where one bad address may have caused a refusal, they are halved until it stands alone.
///
/// Guarantees: one outcome for each change, in their order; of n changes with one bad address, 2·log₂(n)+1
/// requests at most are made.
///
/// Cancellation: dropped, some changes are made and others not.
pub async fn send_addresses(
    provider: &dyn LoadBalancer,
    changes: &[AddressChange],
) -> Vec<AddressOutcome> {
    let mut outcomes = Vec::with_capacity(changes.len());
    let mut parts = vec![changes];
    // After a fault that concerns all of them the rest is not sent.
    let mut stopped: Option<Fault> = None;
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        let answer = match stopped.clone() {
            Some(fault) => Err(not_sent(fault)),
            None => provider.bind(part).await,
        };
        match answer {
            Ok(answers) => outcomes.extend(in_order(part, answers)),
            Err(fault) if stopped.is_none() && part.len() > 1 && may_be_one(&fault) => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(fault) => {
                if !may_be_one(&fault) {
                    stopped = Some(fault.clone());
                }
                outcomes.extend(part.iter().map(|change| AddressOutcome {
                    address: change.address,
                    result: Err(fault.clone()),
                }));
            }
        }
    }
    outcomes
}

/// Whether one of several addresses may have caused the fault. A provider that failed for reasons of its
/// own would fail for each half as well.
fn may_be_one(fault: &Fault) -> bool {
    fault.kind.may_be_one_child() && fault.kind != FaultKind::ServerFailed
}

/// The fault of a part that was not sent after another part's fault: nothing of it can have been done.
fn not_sent(fault: Fault) -> Fault {
    if fault.kind == FaultKind::Lost {
        let kind = FaultKind::Unreachable;
        return Fault { kind, ..fault };
    }
    fault
}

/// The outcomes in the order of the changes. What a provider does not answer for is unknown.
fn in_order(changes: &[AddressChange], answers: Vec<AddressOutcome>) -> Vec<AddressOutcome> {
    let mut answers: BTreeMap<IpAddr, AddressOutcome> = answers
        .into_iter()
        .map(|outcome| (outcome.address, outcome))
        .collect();
    let outcome = |change: &AddressChange| {
        answers
            .remove(&change.address)
            .unwrap_or_else(|| AddressOutcome {
                address: change.address,
                result: Err(Fault::new(
                    FaultKind::Lost,
                    "the provider did not say what became of the address",
                )),
            })
    };
    changes.iter().map(outcome).collect()
}

#[cfg(test)]
mod tests;

//! What a balancer forwards, and the port of whatever carries that out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bindery_core::Fault;
use bindery_core::balancers::{BalancerKey, FrontProtocol, SourceRange, TrafficPolicy};
use futures::future::BoxFuture;

/// A port of a front: protocol and number.
pub type FrontKey = (FrontProtocol, u16);

/// What one balancer forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// The addresses that clients connect to.
    pub addresses: Vec<IpAddr>,
    /// The endpoints behind each port; none where connections are refused.
    pub ports: BTreeMap<FrontKey, BTreeSet<SocketAddr>>,
    /// How long a client keeps its endpoint.
    pub affinity: Option<Duration>,
    /// Who may connect; everybody where it is empty.
    pub source_ranges: Vec<SourceRange>,
    /// Whether endpoints are to see the client's address.
    pub traffic_policy: TrafficPolicy,
}

/// What a data plane was found to forward for one balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundForwarding {
    /// The addresses that clients connect to.
    pub addresses: Vec<IpAddr>,
    /// The endpoints behind each port.
    pub ports: BTreeMap<FrontKey, BTreeSet<SocketAddr>>,
    /// Whether all of it is as it was last applied by this process.
    pub is_whole: bool,
}

/// Whatever forwards traffic on this machine.
pub trait DataPlane: Send + Sync + 'static {
    /// Makes balancers forward this and nothing else; `None` for those that go. All of it or nothing.
    ///
    /// # Guarantees
    /// Connections that are established go on, to whichever endpoint; only those of a balancer, an address or a
    /// port that goes are ended. An endpoint that goes gets no new ones from now on.
    ///
    /// # Cancellation
    /// Dropped, it is done or not; the same is applied again.
    fn apply<'a>(
        &'a self,
        changes: &'a [(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Reads what is forwarded, for everybody whom this machine ever forwarded for.
    fn read(&self) -> BoxFuture<'_, Result<BTreeMap<BalancerKey, FoundForwarding>, Fault>>;

    /// Why an address cannot be a front here; `None` where it can.
    fn objection(&self, _address: IpAddr) -> Option<String> {
        None
    }
}

impl Forwarding {
    /// Whether a client may connect.
    #[must_use]
    pub fn admits(&self, client: IpAddr) -> bool {
        self.source_ranges.is_empty()
            || self
                .source_ranges
                .iter()
                .any(|range| range.contains(client))
    }
}

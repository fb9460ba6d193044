//! What goes in and out of the state machine of load balancers.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    AddressChange, AddressOutcome, BalancerKey, BalancerSpec, EndpointsKey, Frontage, GroupOwner,
    Holdings,
};
use crate::{backoff::Backoff, fault::Fault, tracker::Phase};

/// A balancer that a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerDeclaration {
    /// Whose endpoints it has.
    pub owner: GroupOwner,
    /// What it is to be. `None` where the Service has a mistake: a balancer that is there stays as it is,
    /// and none is made.
    pub spec: Option<BalancerSpec>,
    /// The addresses that the Service's status has.
    pub previous: Vec<IpAddr>,
}

/// What a step is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BalancerWork {
    /// One balancer.
    Balancer(BalancerKey),
    /// All addresses: requests have those of many balancers.
    Addresses,
    /// Everything that the provider has.
    Holdings,
}

/// Something to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalancerStep {
    /// Make a balancer what the spec says.
    Ensure {
        /// Which.
        key: BalancerKey,
        /// What it is to be.
        spec: Arc<BalancerSpec>,
        /// The addresses that it had.
        previous: Vec<IpAddr>,
    },
    /// Remove a balancer.
    Remove(BalancerKey),
    /// Bind addresses.
    Bind(Vec<AddressChange>),
    /// Read everything.
    Read,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalancerEnd {
    /// Of [`BalancerStep::Ensure`].
    Ensured(Result<Frontage, Fault>),
    /// Of [`BalancerStep::Remove`].
    Removed(Result<(), Fault>),
    /// Of [`BalancerStep::Bind`]: one outcome for each change.
    Bound(Vec<AddressOutcome>),
    /// Of [`BalancerStep::Read`].
    Read(Result<Holdings, Fault>),
}

/// What there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerNews {
    /// Balancers of which something changed.
    pub reports: Vec<BalancerReport>,
    /// Pods that are gone, and whose addresses are bound to nothing of theirs any more.
    pub released: Vec<EndpointsKey>,
}

/// How a balancer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerReport {
    /// Which.
    pub key: BalancerKey,
    /// Whose endpoints it has; `None` where nobody asks for it.
    pub owner: Option<GroupOwner>,
    /// Where it is in its life; [`Phase::Gone`] where nothing of it is left.
    pub phase: Phase,
    /// What it has towards its clients; nothing where it does not stand.
    pub frontage: Frontage,
    /// Whether it stands as its spec says.
    pub is_programmed: bool,
    /// Addresses that are bound to it, or may be.
    pub bound_len: usize,
    /// Addresses that are to be bound to it or to leave it.
    pub waiting_len: usize,
    /// Endpoints of its Service, or pods of its label, that wait for it to stand.
    pub buffered_len: usize,
    /// Why what was last tried failed.
    pub fault: Option<Fault>,
    /// Some of the addresses that the provider refuses, and how many there are.
    pub refused: (Vec<(IpAddr, Fault)>, usize),
    /// Nobody asks for it, and nobody took it back: it is swept.
    pub is_orphan: bool,
}

impl BalancerReport {
    /// Whether a client that connects reaches an endpoint.
    #[must_use]
    pub fn carries_traffic(&self) -> bool {
        let is_there = matches!(self.phase, Phase::Created | Phase::UpdateInProgress);
        let has_front = !self.frontage.addresses.is_empty() || self.frontage.hostname.is_some();
        is_there && has_front && self.bound_len > 0
    }
}

/// The times and sizes of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerTimes {
    /// How long a balancer, or a request with addresses, that failed waits.
    pub retry: Backoff,
    /// How long an address that was refused waits.
    pub retry_refused: Backoff,
    /// How long a balancer that nobody asks for is left alone.
    pub orphan_after: Duration,
}

impl Default for BalancerTimes {
    fn default() -> Self {
        Self {
            retry: Backoff {
                first: Duration::from_secs(1),
                max: Duration::from_mins(2),
            },
            retry_refused: Backoff {
                first: Duration::from_secs(10),
                max: Duration::from_mins(10),
            },
            orphan_after: Duration::from_mins(2),
        }
    }
}

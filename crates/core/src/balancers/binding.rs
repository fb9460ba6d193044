//! What the address of an endpoint is bound to, and how that changes.

use std::{net::IpAddr, sync::Arc};

use super::{BalancerKey, FrontProtocol};
use crate::{Fault, SmallSet};

/// One thing that an address is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// The address of the node where the endpoint lives; `None` where nobody said.
    pub location: Option<IpAddr>,
    /// The balancer that sends traffic there, or takes it from there.
    pub balancer: BalancerKey,
    /// Which port of the front leads to which port there, sorted; empty for a gateway. Several ports of one
    /// address may serve the same port of the front.
    pub targets: Arc<[PortTarget]>,
}

/// A port of a front, and the port at the endpoint that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortTarget {
    /// The protocol of both.
    pub protocol: FrontProtocol,
    /// The port of the front.
    pub port: u16,
    /// The port at the endpoint.
    pub target: u16,
}

/// All that an address is bound to: no two have the same location and balancer. Mostly it is one binding;
/// more where several Services have the endpoint, or while it moves.
pub type Bindings = SmallSet<Binding>;

/// What an address is to be bound to from now on, in place of everything before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressChange {
    /// The address.
    pub address: IpAddr,
    /// What it is bound to now, or may be where the last answer was lost: of this only what is in `wanted`
    /// too is to stay.
    pub stood: Bindings,
    /// What it is to be bound to; empty where it is to go.
    pub wanted: Bindings,
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOutcome {
    /// The address.
    pub address: IpAddr,
    /// A fault of kind [`Lost`](crate::FaultKind::Lost) says that nobody knows what it is bound to now; any
    /// other, that it is bound to what it was before.
    pub result: Result<(), Fault>,
}

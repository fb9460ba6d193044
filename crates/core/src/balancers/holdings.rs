//! What a provider has of ours, as it was read.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{BalancerKey, Bindings};

/// Everything that a provider has of ours. What it has of others is not in it and is never touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Balancers, also those of which only a part is there.
    pub balancers: BTreeMap<BalancerKey, HeldBalancer>,
    /// Addresses that are bound to something.
    pub addresses: BTreeMap<IpAddr, Bindings>,
}

/// A balancer that a provider has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldBalancer {
    /// What it has towards its clients.
    pub frontage: Frontage,
    /// The digest of the spec that it was last made after; `None` where that is not known or not whole, so
    /// that it is sent again.
    pub digest: Option<String>,
}

/// What a balancer has towards its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontage {
    /// Its addresses, of the first family first.
    pub addresses: Vec<IpAddr>,
    /// Its name, where the provider gives names in place of addresses.
    pub hostname: Option<Box<str>>,
}

/// How much a provider takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerLimits {
    /// Addresses in one request.
    pub chunk_len_max: usize,
    /// Requests with addresses at the same time.
    pub chunks_max: usize,
    /// Balancers that are created, changed or removed at the same time.
    pub balancers_max: usize,
    /// How often everything is read, to find what others changed.
    pub read_interval: Duration,
    /// It binds an address only at a location: an endpoint whose node is not known waits.
    pub needs_location: bool,
    /// It sends traffic to the port at the endpoint that a binding says. Where it does not, but to the ports of the
    /// front, bindings say nothing of ports.
    pub binds_ports: bool,
}

impl Default for BalancerLimits {
    /// An address takes some 100 bytes of a request, so that a chunk is of 50 kB.
    fn default() -> Self {
        Self {
            chunk_len_max: 500,
            chunks_max: 1,
            balancers_max: 10,
            read_interval: Duration::from_mins(5),
            needs_location: false,
            binds_ports: true,
        }
    }
}

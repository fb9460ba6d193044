//! Controllers over a Kubernetes API: they watch declared objects, hand claims to the engine and
//! tell in each object's status what became of them.
//!
//! This crate must *never* reach a name server, decide what a record set should be, or ask for the time of
//! day: the engine writes DNS, `bindery-sources` decides, and the time of day comes through [`Clock`]. How
//! long something takes is measured with Tokio's clock, which the simulation moves.

mod balancers;
mod cluster;
mod context;
mod deletions;
mod events;
mod lease;
mod metrics;
mod object_counts;
mod pools;
mod publishing;
mod reconcile;
mod replica;
mod servers;
mod state;
mod status;
mod sweep;
mod watching;
mod zone;

mod controllers;

pub use balancers::{BalancerControllers, BalancersHandle};
pub use context::{Clock, GroupConfig, Management, Settings};
pub use controllers::{Controllers, Handle, Task};
pub use lease::{LeaseHolder, LeaseSettings, LeaseState};
pub use metrics::Metrics;
pub use object_counts::ObjectState;
pub use pools::PoolController;
pub use replica::Replica;
pub use servers::{
    AwaitedZones, KeyText, PodAccess, PodKey, PodPlace, PodPorts, SecretText, ServerControllers,
    ServerSettings, ServersHandle, Sidecar, SidecarAnswer, Verdict,
};

//! Controllers over a Kubernetes API: they watch declared objects, hand claims to the engine and
//! tell in each object's status what became of them.
//!
//! This crate must *never* reach a name server, decide what a record set should be, or read a clock:
//! the engine writes DNS, `bindery-sources` decides, and time comes through [`Clock`].

mod cluster;
mod context;
mod endpoint;
mod events;
mod lean;
mod metrics;
mod publishing;
mod record;
mod state;
mod status;
mod sweep;
mod tally;
mod watching;
mod work;
mod zone;

mod controllers;

pub use context::{Clock, Settings, Site, Tenure};
pub use controllers::{Controllers, Handle, Task};
pub use lean::lean_metadata;
pub use metrics::{Metrics, QueueLen};
pub use tally::Standing;

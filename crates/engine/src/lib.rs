//! The running engine: it carries out the steps that the pure state machine of zones asks for.
//!
//! It owns queues, group commit, bisecting, verification and receipts. It must *never* open a
//! socket, know a Kubernetes type, or decide what a record set should be: servers are reached
//! through [`ports`], decisions are made in `bindery-core`.

pub mod ports;
pub mod queue;
pub mod work;

mod behind;
mod commit;
mod engine;
mod follow;
mod histogram;
mod metrics;
mod monitor;
mod probe;
mod reach;
mod runner;
mod servers;
mod story;
pub mod supervisor;
mod terms;

pub use commit::send_changes;
pub use engine::{Engine, Receipts, ZoneReceipts};
pub use histogram::{Distribution, Histogram};
pub use metrics::Metrics;
pub use servers::{ServerHandle, Servers};

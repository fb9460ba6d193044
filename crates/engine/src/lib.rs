//! The running engine: it carries out the steps that the pure state machine of zones asks for.
//!
//! It owns queues, group commit, bisecting, verification and receipts. It must *never* open a
//! socket, know a Kubernetes type, or decide what a record set should be: servers are reached
//! through [`ports`], decisions are made in `bindery-core`.

pub mod ports;
pub mod queue;

mod behind;
mod commit;
mod engine;
mod follow;
mod histogram;
mod metrics;
mod probe;
mod runner;
mod story;
pub mod supervisor;

pub use commit::send_changes;
pub use engine::{Engine, Receipts, ServerHandle, Servers, ZoneReceipts};
pub use histogram::{Distribution, Histogram};
pub use metrics::Metrics;

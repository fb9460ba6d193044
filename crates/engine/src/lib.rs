//! The running engine: it carries out the steps that a pure state machine asks for, that of zones today.
//!
//! It owns queues, group commit, bisecting, verification and receipts. It must *never* open a
//! socket, know a Kubernetes type, or decide what a record set should be: servers are reached
//! through [`ports`], decisions are made in `bindery-core`.

pub mod balancing;
pub mod machine;
pub mod pools;
pub mod ports;
pub mod queue;
pub mod runner;
pub mod work;

mod behind;
mod commit;
mod completed;
mod engine;
mod fence;
mod follow;
mod histogram;
mod metrics;
mod monitor;
mod probe;
mod reach;
mod servers;
mod story;
pub mod supervisor;
mod terms;
mod zone_driver;

pub use behind::ServerState;
pub use commit::send_changes;
pub use completed::Completed;
pub use engine::{Engine, Receipts, ZoneReceipts};
pub use fence::{Fence, Uptime};
pub use histogram::{Distribution, Histogram};
pub use metrics::Metrics;
pub use servers::{ServerHandle, Servers};
pub use zone_driver::ZoneNews;

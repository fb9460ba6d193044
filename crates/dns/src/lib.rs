//! The DNS adapter: signed updates, transfers and queries over kept TCP connections.
//!
//! It must *never* decide what a zone shall hold (the engine does), print a key, or report a
//! change as written that the server did not acknowledge.

mod key;
mod link;
pub mod local;
mod notify;
mod server;
mod update;
pub mod wire;

pub use key::{Algorithm, Key, KeyProblem};
pub use notify::send_notify;
pub use server::{Server, SigningClock};

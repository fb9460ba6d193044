//! Test kit: the whole system in one process, on virtual time, with faults.
//!
//! Nothing here may ever reach a network, a real clock or real randomness: a run is a function of
//! its seed. One part can listen, on loopback: the emulator of Azure, for the client that is tested is one of HTTP.
//! It must *never* be linked into the `bindery` binary.

pub mod api;
pub mod azure;
mod balancer;
pub mod balancing;
pub mod fuzz;
pub mod nameserver;
mod oracle;
pub mod sim;
pub mod user;
pub mod weather;

pub use balancer::{FakeBalancers, FakeLoadBalancer};
pub use nameserver::{FakeNameServer, Fate, Faultless, Faults, Operation};
pub use weather::{Crashes, Random, Weather};

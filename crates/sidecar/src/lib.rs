//! The sidecar: an HTTP API beside a `named`, in the words of bindcar, so that either works with either.
//!
//! Three parts: the server (`bindery sidecar`), the client that controllers use, and which reason an answer
//! gives. What zones there shall be is decided by who asks; the sidecar carries it out, and says whether
//! the server may be asked: not before it has every zone that it should have.
//!
//! It must *never* write over the data of a zone that exists, let a value become configuration or zone-file
//! text, or let anybody in because it cannot find out who asks.

pub mod wire;

mod content;
#[cfg(test)]
mod hostile;
mod statement;
mod status;

mod answer;
mod client;
mod host;

mod expected;
mod named;
mod server;

pub use answer::{Answered, SidecarFault, reason_of};
pub use client::{ClientToken, SidecarClient, SidecarClientOptions, SidecarSetupError};
pub use expected::{EXPECTED_FILE, ExpectedZone, ExpectedZones};
pub use host::{PodZones, SidecarHost, ZonePeers, ZonesOfPod};
pub use named::NamedOptions;
pub use server::{
    Entry, RequestLimits, ReviewPolicy, ServerSetup, SetupError, SidecarServer, TlsFiles,
};

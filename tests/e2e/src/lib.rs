//! What the end-to-end batteries stand on: starting real servers, speaking plain HTTP to an API.
//!
//! It must *never* be a dependency of anything that is shipped, and it *never* leaves the loopback
//! interface: every server that it starts listens on a free port there and is stopped by its pid.
#![expect(
    clippy::disallowed_methods,
    reason = "it starts programs of the machine as it is"
)]

pub mod http;
pub mod kubernetes;
pub mod process;
pub mod program;

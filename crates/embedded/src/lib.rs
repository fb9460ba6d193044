//! Kubernetes and DNS on a single machine: the embedded API, the built-in name server and the
//! processes beside them.
//!
//! It must never know a controller: whatever runs on the embedded API runs unchanged on a real one.

pub mod patch;
pub mod schema;

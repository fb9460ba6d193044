//! Kubernetes and DNS on a single machine: the embedded API, the built-in name server and the
//! processes beside them.
//!
//! It must *never* know a controller: whatever runs on the embedded API runs unchanged on a real one.
//! It must never answer a write before it is durable, and never skip an event of a watch.

pub mod api;
mod aside;
pub mod bind;
pub mod nameserver;
pub mod openapi;
pub mod patch;
mod role;
pub mod schema;
pub mod table;

pub use api::{
    ApiBody, ApiService, EmbeddedApi, Environment, Identity, IdentityError, Open, Options, Seeded,
    ServeOptions, Storage, System, host_name, is_own_host,
};
pub use role::Role;

//! What machines read: metrics, liveness and readiness.

mod objects;
mod page;
mod process;
mod readiness;

pub(crate) use page::{Sources, serve};
pub(crate) use readiness::{Gate, Readiness};

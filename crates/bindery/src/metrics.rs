//! What machines read: metrics, liveness and readiness.

mod api;
mod balancers;
mod controllers;
mod debug;
mod election;
mod encoding;
mod engine;
mod format;
mod page;
mod process;
mod readiness;

pub(crate) use page::{Sources, serve};
pub(crate) use readiness::{Gate, Readiness};

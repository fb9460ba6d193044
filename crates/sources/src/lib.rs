//! Kubernetes objects to claims: which zone an object belongs to, what it asks of DNS, and what has
//! to be written down in the object first.
//!
//! Everything here is a function of the objects seen so far. This crate must *never* hold a client,
//! read a clock, draw randomness or log.

pub mod balancers;
pub mod clusters;
pub mod meta;
pub mod reading;

mod catalog;
mod cause;
mod decision;
mod groups;
mod names;
mod recording;
pub mod rehearsal;
mod seal;
#[cfg(test)]
mod tests;
mod zones;

pub use bindery_api::Spec;
pub use bindery_core::Id;
pub use catalog::Catalog;
pub use cause::{Cause, IsGone, Stays};
pub use decision::{Decision, IsAvailable, KEPT, NextAct};
pub use groups::Groups;
pub use meta::{Life, Meta, sealed};
pub use reading::Object;
pub use recording::MetadataPatch;
pub use zones::{Precedence, ZoneView};

//! Ownership: which records in a zone are ours, and how that is known.
//!
//! Zones ask here and nowhere else. Why the objects tell and not our memory: after a crash, or on another
//! machine, they are all that is left to tell our records from those of others.

mod kept;
mod owners;

pub(crate) use self::{
    kept::Kept,
    owners::{ClaimRef, Exchange, Owners},
};

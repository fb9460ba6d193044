//! The four ways to patch an object, and who owns its fields afterwards.

mod apply;
mod compare;
mod fields;
mod json;
mod managed;
mod merge;
mod shape;
mod strategic;

#[cfg(test)]
mod apply_tests;
#[cfg(test)]
mod tests;

pub use crate::patch::apply::{ApplyRequest, Conflict, Force, conflict_message, server_side_apply};
pub use crate::patch::json::json_patch;
pub use crate::patch::managed::{UpdateRequest, track_update};
pub(crate) use crate::patch::managed::{infer_update, take_managers};
pub use crate::patch::merge::merge_patch;
pub use crate::patch::strategic::{MergeKeys, strategic_merge};

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// The patch itself cannot be read: answer 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch is longer than allowed: answer 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit the object: answer 422.
    #[error("{0}")]
    Inapplicable(String),
}

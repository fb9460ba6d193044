//! What every engine keeps of the things that it brings about: zones and record sets today, load
//! balancers and their addresses later. Pieces that know nothing of each other's insides:
//!
//! - [`Lifecycle`]: where a parent is in its life. A parent that does not exist yet buffers its children;
//!   a parent that is no longer wanted goes only when its children are gone, or when they go along.
//! - [`Children`]: what is desired below a parent, what is there, and what has to be done about it.
//! - [`References`]: which parents a child belongs to, where that may be several.
//! - [`Schedule`]: which keys have work now, which wake later, and how long those that failed wait.

mod children;
mod lifecycle;
mod references;
mod schedule;

pub use self::{
    children::{Children, InFlight, Quarantined},
    lifecycle::{Deletion, Drained, Lifecycle, ParentEnded, Phase, Signal, TRANSITIONS},
    references::References,
    schedule::{Failure, Schedule},
};

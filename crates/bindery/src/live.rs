//! The live view of zones, records and endpoints with their conditions.

mod census;
mod frame;
mod overview;
mod row;

pub(crate) use census::Census;
pub(crate) use overview::{Overview, Style};

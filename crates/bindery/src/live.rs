//! The live view of zones, records and endpoints with their conditions.

mod frame;
mod overview;
mod row;

pub(crate) use overview::{Overview, Style};

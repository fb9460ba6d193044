//! The live view of zones, records and endpoints with their conditions.

mod frame;
mod overview;
mod row;

pub(crate) use frame::Paint;
pub(crate) use overview::{Overview, Style, resource};
pub(crate) use row::{Health, ObjectRow, RowKey, ShownObject};

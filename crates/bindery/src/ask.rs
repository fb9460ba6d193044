//! `status`, `explain` and `plan`: they look at objects and zones and say what they see.
//!
//! They must *never* write: all that is asked of the API is lists, and of name servers transfers.

mod balanced;
#[cfg(test)]
mod fixture;
mod inventory;
mod listed_object;
mod listing;
mod table;

mod explain;
mod plan;
mod status;

pub(crate) use explain::explain;
pub(crate) use plan::plan;
pub(crate) use status::status;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::cli::ask::Output;
use crate::live::Paint;
use crate::out;

/// Prints an answer, as lines for people or as JSON.
fn answer<T: Serialize>(
    output: Output,
    answer: &T,
    lines: impl FnOnce(&T, Paint) -> Vec<String>,
) -> Result<()> {
    let text = match output {
        Output::Text => {
            let paint = if out::is_terminal() {
                Paint::of_terminal()
            } else {
                Paint::Plain
            };
            lines(answer, paint).join("\n")
        }
        Output::Json => serde_json::to_string_pretty(answer).context("cannot write JSON")?,
    };
    out::say(&text);
    Ok(())
}

//! The stock kubectl, as a user types it: the same words bring the same on every server.

mod reading;
mod writing;

use crate::scene::Case;

const WIDGET: &str = "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata:\n  name: a\n";

pub(crate) fn cases() -> Vec<Case> {
    reading::cases()
        .into_iter()
        .chain(writing::cases())
        .collect()
}

/// A Widget named `a` as a file would hold it.
fn manifest(spec: &str) -> String {
    format!("{WIDGET}spec: {spec}\n")
}

/// The words of a line of a table.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

//! What people read: stdout for what was asked for, stderr for what went wrong.

use std::io::{self, IsTerminal as _, Write as _};

/// Writes a line to stdout. Whoever reads it may have gone away, which is no fault of ours.
pub(crate) fn say(line: &str) {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").ok();
    stdout.flush().ok();
}

/// Writes a line to stderr.
pub(crate) fn complain(line: &str) {
    writeln!(io::stderr().lock(), "{line}").ok();
}

/// Writes text to stdout as it is, at once.
pub(crate) fn draw(text: &str) {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).ok();
    stdout.flush().ok();
}

/// Whether stdout is a terminal that can be drawn on.
pub(crate) fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !dumb
}

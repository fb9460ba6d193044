//! What people read: stdout for what was asked for, stderr for what went wrong.
//!
//! Where a view is drawn on a terminal, lines are written above it and it moves down.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use crate::surroundings;

/// The view that is on the screen now, line by line; empty where there is none.
static SHOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Writes a line to stdout. Whoever reads it may have gone away, which is no fault of ours.
pub(crate) fn say(line: &str) {
    above_view(|| {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}").ok();
        stdout.flush().ok();
    });
}

/// Writes a line to stderr.
pub(crate) fn complain(line: &str) {
    above_view(|| {
        writeln!(io::stderr().lock(), "{line}").ok();
    });
}

/// Draws a view in place of the one before. Its lines must fit the terminal.
pub(crate) fn show(view: Vec<String>) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if *shown != view {
        draw(&redrawn(shown.len(), &view));
        *shown = view;
    }
}

/// Whether stdout is a terminal that can be drawn on.
pub(crate) fn is_terminal() -> bool {
    let dumb = surroundings::variable("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !dumb
}

/// Where log lines go: to stderr, above the view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogLines;

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above_view(|| io::stderr().lock().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn above_view<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if shown.is_empty() {
        return write();
    }
    draw(&redrawn(shown.len(), &[]));
    let written = write();
    draw(&redrawn(0, &shown));
    written
}

fn draw(text: &str) {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).ok();
    stdout.flush().ok();
}

/// What to send to the terminal so that `view` takes the place of as many lines above the cursor.
/// Each line is overwritten before the rest of it is cleared, so nothing flickers.
fn redrawn(lines: usize, view: &[String]) -> String {
    let mut text = String::new();
    if lines > 0 {
        write!(text, "\x1b[{lines}A\r").ok();
    }
    for line in view {
        text += line;
        text += "\x1b[K\n";
    }
    text += "\x1b[J";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_takes_the_place_of_the_one_before() {
        let view = ["one".to_owned(), "two".to_owned()];
        assert_eq!(redrawn(0, &view), "one\x1b[K\ntwo\x1b[K\n\x1b[J");
        assert_eq!(redrawn(2, &view[..1]), "\x1b[2A\rone\x1b[K\n\x1b[J");
    }
}

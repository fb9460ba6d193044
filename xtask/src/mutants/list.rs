//! The mutants, as cargo-mutants lists them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program::Program;
use crate::tools;

/// The version of cargo-mutants; its output is read.
const VERSION: &str = "27.1.0";
/// The crates whose code is damaged: those that decide and touch nothing.
const PACKAGES: [&str; 2] = ["bindery-core", "bindery-sources"];

/// A small damage to the code.
#[derive(Deserialize)]
pub(super) struct Mutant {
    /// `file:line:column: what is done`, unlike that of every other mutant.
    pub(super) name: String,
    /// Seen from the root of the workspace.
    pub(super) file: String,
    pub(super) package: String,
    pub(super) genre: Genre,
    /// What stands there instead.
    pub(super) replacement: String,
    #[serde(rename = "span", deserialize_with = "start")]
    pub(super) start: Position,
}

/// What is damaged.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// A place in a file; both numbers begin at one, columns are characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    /// Its byte, where `lines` has the first byte of each line.
    pub(super) fn offset(self, source: &str, lines: &[usize]) -> usize {
        let line = lines.get(self.line - 1).copied().unwrap_or(source.len());
        let mut columns = source[line..].char_indices().map(|(at, _)| line + at);
        columns.nth(self.column - 1).unwrap_or(source.len())
    }
}

fn start<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Position, D::Error> {
    #[derive(Deserialize)]
    struct Span {
        start: Position,
    }
    Span::deserialize(deserializer).map(|span| span.start)
}

/// All mutants of the crates, in the order of files and lines.
///
/// # Errors
/// When cargo-mutants cannot be installed or its list cannot be read.
pub(super) fn fetch_all(root: &Path) -> Result<Vec<Mutant>> {
    let listed = Program::new(root, &tool(root)?.to_string_lossy())
        .args(["mutants", "--list", "--json"])
        .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
        .stdout()?;
    let mut mutants: Vec<Mutant> =
        serde_json::from_str(&listed).context("cargo-mutants lists in another form")?;
    mutants.sort_by(|one, other| {
        let key = |mutant: &Mutant| (mutant.start.line, mutant.start.column);
        (&one.file, key(one)).cmp(&(&other.file, key(other)))
    });
    Ok(mutants)
}

/// The program, built once into the cache of tools.
fn tool(root: &Path) -> Result<PathBuf> {
    let folder = tools::cache()?.join(format!("cargo-mutants-{VERSION}"));
    let program = folder.join("bin/cargo-mutants");
    if !program.exists() {
        Program::cargo(root, ["install", "--quiet", "--locked", "cargo-mutants"])
            .args(["--version", VERSION, "--root"])
            .args([folder.to_string_lossy()])
            .run()?;
    }
    Ok(program)
}

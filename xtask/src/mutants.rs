//! Mutation tests of the pure crates: a small damage to their code that no test notices is a hole in
//! the tests, or has its reason in the list of survivors.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::program::Program;
use crate::tools;

/// The version of cargo-mutants; its output is read.
const VERSION: &str = "27.1.0";
/// The crates whose code is damaged: those that decide and touch nothing.
const PACKAGES: [&str; 2] = ["bindery-core", "bindery-sources"];
/// The crate whose simulation tries what the unit tests of a damaged crate let pass.
const SIMULATION: &str = "bindery-testkit";
/// What survives in core, each with its reason.
const SURVIVORS: &str = "docs/mutants.md";
/// The crate that the list speaks of.
const LISTED: &str = "crates/core/";

/// Runs cargo-mutants and compares what survives in core with the list of survivors. What stands behind
/// `--` goes to cargo-mutants: `--file crates/core/src/zones/guard.rs` or `--shard 3/16` make it shorter.
///
/// # Errors
/// When a mutant of core survives that is not in the list.
pub(crate) fn run(root: &Path, rest: &[String]) -> Result<()> {
    let tool = tool(root)?;
    let output = root.join("target/mutants");
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let found = output.join("mutants.out");
    // An earlier run says nothing about today's code.
    let _ = fs::remove_dir_all(&found);
    let mutate = |more: &[&str]| {
        Program::new(root, &tool.to_string_lossy())
            .args(["mutants", "--no-shuffle", "--output"])
            .args([output.to_string_lossy()])
            .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
            .args(more.iter().copied())
            .args(rest.iter().cloned())
    };
    // It fails where something survives, which the simulation has yet to try.
    let _ = mutate(&[]).run();
    let missed = read_missed(&found)?;
    if !missed.is_empty() {
        let _ = mutate(&["--iterate", "--test-package", SIMULATION]).run();
    }
    let survivors = read_missed(&found)?;
    let list = fs::read_to_string(root.join(SURVIVORS)).context(SURVIVORS)?;
    let listed = listed(&list);
    let unlisted: Vec<&String> = survivors
        .iter()
        .filter(|mutant| mutant.starts_with(LISTED) && !listed.contains(*mutant))
        .collect();
    println!(
        "{} mutants survive; see {}",
        survivors.len(),
        found.display()
    );
    if unlisted.is_empty() {
        return Ok(());
    }
    let unlisted: Vec<&str> = unlisted.into_iter().map(String::as_str).collect();
    bail!(
        "no test notices these; write one, or give the reason in {SURVIVORS}:\n  {}",
        unlisted.join("\n  ")
    )
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

/// The mutants that survived, without line numbers, which every edit moves.
fn read_missed(found: &Path) -> Result<BTreeSet<String>> {
    let path = found.join("missed.txt");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cargo-mutants wrote no {}", path.display()))?;
    Ok(text.lines().filter_map(without_line).collect())
}

/// `file:line:column: what` as `file: what`.
fn without_line(line: &str) -> Option<String> {
    let (place, what) = line.split_once(": ")?;
    let file = place.split(':').next()?;
    Some(format!("{file}: {what}"))
}

/// The mutants of the list: the first cell of each row, between backquotes.
fn listed(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |"))
        .map(|(mutant, _)| mutant.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_is_known_by_its_file_and_what_was_done() {
        let line = "crates/core/src/plan.rs:57:9: replace Change::is_removal -> bool with true";
        let known = "crates/core/src/plan.rs: replace Change::is_removal -> bool with true";
        assert_eq!(without_line(line).as_deref(), Some(known));
        let page =
            format!("# Survivors\n\n| mutant | why |\n|---|---|\n| `{known}` | it is so |\n");
        assert_eq!(listed(&page), BTreeSet::from([known.to_owned()]));
    }
}

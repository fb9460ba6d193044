//! Mutation tests of the pure crates: a small damage to their code that no test notices is a hole in
//! the tests, or has its reason in the list of survivors.

use std::collections::BTreeMap;
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
/// Where the crate lies that the list speaks of; its paths begin there.
const LISTED: &str = "crates/core/src/";

/// Runs cargo-mutants and compares what survives in core with the list of survivors. What stands behind
/// `--` goes to cargo-mutants: `--file crates/core/src/zones/guard.rs` or `--shard 3/16` make it shorter.
///
/// The simulation, which takes a minute for each mutant, is run only where something survives that is not
/// in the list.
///
/// # Errors
/// When a mutant of core survives that is not in the list, or nothing could be tried.
pub(crate) fn run(root: &Path, rest: &[String]) -> Result<()> {
    let tool = tool(root)?;
    let output = root.join("target/mutants");
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let found = output.join("mutants.out");
    // An earlier run says nothing about today's code.
    let _ = fs::remove_dir_all(&found);
    let mutate = |more: &[&str]| {
        Program::new(root, &tool.to_string_lossy())
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            .args(["mutants", "--no-shuffle", "--output"])
            .args([output.to_string_lossy()])
            .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
            .args(more.iter().copied())
            .args(rest.iter().cloned())
    };
    let list = fs::read_to_string(root.join(SURVIVORS)).context(SURVIVORS)?;
    let listed = listed(&list);
    // It fails where something survives, which the simulation has yet to try.
    let _ = mutate(&[]).run();
    let mut tried = Tried::read(&found)?;
    if !unlisted(&tried.missed, &listed).is_empty() {
        let _ = mutate(&["--iterate", "--test-package", SIMULATION]).run();
        tried = Tried::read(&found)?;
    }
    tried.print();
    println!("see {}", found.display());
    for mutant in unlisted(&listed, &tried.missed) {
        if tried.caught.contains_key(&mutant) {
            println!("no longer survives, so that its line can go: {mutant}");
        }
    }
    let unlisted = unlisted(&tried.missed, &listed);
    if unlisted.is_empty() {
        return Ok(());
    }
    bail!(
        "no test notices these; write one, or give the reason in {SURVIVORS}:\n  {}",
        unlisted.join("\n  ")
    )
}

/// Mutants by file and what was done, without line numbers, which every edit moves; and how many are
/// alike, since one expression may hold several operators of a kind.
type Mutants = BTreeMap<String, usize>;

/// What became of the mutants of one run.
#[derive(Default)]
struct Tried {
    caught: Mutants,
    missed: Mutants,
    timeout: Mutants,
    unviable: Mutants,
}

impl Tried {
    /// Reads what cargo-mutants wrote.
    fn read(found: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = found.join(name);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cargo-mutants wrote no {}", path.display()))?;
            Ok::<_, anyhow::Error>(counted(text.lines().filter_map(without_line)))
        };
        let tried = Self {
            caught: read("caught.txt")?,
            missed: read("missed.txt")?,
            timeout: read("timeout.txt")?,
            unviable: read("unviable.txt")?,
        };
        if tried.kinds().iter().all(|(_, mutants)| mutants.is_empty()) {
            bail!("nothing was tried: the tests fail, or no code is chosen");
        }
        Ok(tried)
    }

    fn kinds(&self) -> [(&'static str, &Mutants); 4] {
        [
            ("caught", &self.caught),
            ("timed out", &self.timeout),
            ("survive", &self.missed),
            ("do not compile", &self.unviable),
        ]
    }

    /// Prints, for each file, how many became what.
    fn print(&self) {
        let mut files: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (kind, mutants) in self.kinds() {
            for (mutant, count) in mutants {
                let file = mutant.split(": ").next().unwrap_or_default();
                *files.entry(file).or_default().entry(kind).or_default() += count;
            }
        }
        for (file, counts) in files {
            let counts: Vec<String> = counts
                .iter()
                .map(|(kind, count)| format!("{count} {kind}"))
                .collect();
            println!("{file}: {}", counts.join(", "));
        }
    }
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

/// `file:line:column: what` as `file: what`, with paths of core from its sources on.
fn without_line(line: &str) -> Option<String> {
    let (place, what) = line.split_once(": ")?;
    let file = place.split(':').next()?;
    let file = file.strip_prefix(LISTED).unwrap_or(file);
    Some(format!("{file}: {what}"))
}

/// The mutants of the list: what stands first in each line of it, between backquotes.
fn listed(page: &str) -> Mutants {
    let lines = page.lines().filter_map(|line| line.strip_prefix("- `"));
    let mutants = lines.filter_map(|line| line.split_once('`'));
    counted(mutants.map(|(mutant, _)| mutant.to_owned()))
}

fn counted(mutants: impl Iterator<Item = String>) -> Mutants {
    let mut counted = Mutants::new();
    for mutant in mutants {
        *counted.entry(mutant).or_default() += 1;
    }
    counted
}

/// The mutants of core of which there are more than are known.
fn unlisted(mutants: &Mutants, known: &Mutants) -> Vec<String> {
    let of_core = mutants
        .iter()
        .filter(|(name, _)| !name.starts_with("crates/"));
    of_core
        .filter(|(name, count)| known.get(*name).is_none_or(|known| known < count))
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "crates/core/src/plan.rs:57:9: replace || with && in change";
    const KNOWN: &str = "plan.rs: replace || with && in change";

    #[test]
    fn a_survivor_is_known_by_its_file_and_what_was_done() {
        assert_eq!(without_line(LINE).as_deref(), Some(KNOWN));
        let page = format!("# Survivors\n\n- `{KNOWN}`: it is so\n- no mutant\n");
        assert_eq!(listed(&page), Mutants::from([(KNOWN.to_owned(), 1)]));
    }

    #[test]
    fn a_second_mutant_like_a_known_one_is_not_known() {
        let other = LINE.replace(":57:", ":58:");
        let missed = counted([LINE, &other].into_iter().filter_map(without_line));
        let known = listed(&format!("- `{KNOWN}`: it is so"));
        assert_eq!(unlisted(&missed, &known), [KNOWN]);
        let known = listed(&format!("- `{KNOWN}`: it is so\n- `{KNOWN}`: so is that"));
        assert!(unlisted(&missed, &known).is_empty());
    }

    #[test]
    fn survivors_of_other_crates_need_no_reason() {
        let line = "crates/sources/src/lib.rs:1:1: replace a with ()";
        let missed = counted([line].into_iter().filter_map(without_line));
        assert!(unlisted(&missed, &Mutants::new()).is_empty());
    }
}

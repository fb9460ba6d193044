//! What `cargo xtask test` runs, step by step; CI and the README run nothing else.
//!
//! The steps share one profile and one set of flags (warnings are denied by arguments, not by
//! `RUSTFLAGS`), so that no dependency is compiled twice for different steps.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::arguments::Subject;
use crate::failures::Failures;
use crate::generated::{self, Mode};
use crate::program::{self, Program};
use crate::tidy::{self, metadata::Metadata};
use crate::tools;

/// The name that stands for "show the steps" in the list of selected steps.
pub(crate) const LIST: &str = "--list";

/// Seeds of the simulation on every run; `cargo xtask sim` takes thousands.
const SEEDS_IN_TEST: u64 = 100;

/// One step: a word to select it by, what it proves, and how.
struct Step {
    name: &'static str,
    proves: &'static str,
    run: fn(&Path) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "setup",
        proves: "what the tests start is on this machine",
        run: setup,
    },
    Step {
        name: "fmt",
        proves: "the code is formatted",
        run: fmt,
    },
    Step {
        name: "clippy",
        proves: "no warning, in any target and feature set",
        run: clippy,
    },
    Step {
        name: "doc",
        proves: "the documentation builds, private items included",
        run: doc,
    },
    Step {
        name: "alone",
        proves: "core and sources build without the others",
        run: alone,
    },
    Step {
        name: "test",
        proves: "unit, property, battery and end-to-end tests",
        run: test,
    },
    Step {
        name: "tidy",
        proves: "arrows, sizes, names, links, licences",
        run: tidy::run,
    },
    Step {
        name: "crd",
        proves: "generated CRDs and reference are up to date",
        run: crd,
    },
    Step {
        name: "docs",
        proves: "generated documents are up to date",
        run: docs,
    },
    Step {
        name: "sim",
        proves: "a hundred simulated runs with faults converge",
        run: sim,
    },
];

/// Runs all steps, or those named in `only`, and ends with a summary.
///
/// # Errors
/// When a step failed; the others have run all the same, so that one run shows everything.
pub(crate) fn run(root: &Path, only: &[String]) -> Result<()> {
    if only.iter().any(|name| name == LIST) {
        for step in STEPS {
            println!("{:8} {}", step.name, step.proves);
        }
        return Ok(());
    }
    let selected = select(only)?;
    let started = Instant::now();
    let mut results = Vec::new();
    for (index, step) in selected.iter().enumerate() {
        println!(
            "\n==> [{}/{}] {}: {}",
            index + 1,
            selected.len(),
            step.name,
            step.proves
        );
        let begun = Instant::now();
        let result = (step.run)(root);
        if let Err(fault) = &result {
            eprintln!("xtask: {}: {fault:#}", step.name);
        }
        results.push((step.name, begun.elapsed(), result));
    }
    summary(&results, started.elapsed())
}

/// Runs `seeds` seeds of the simulation, optimised: for thousands of them.
pub(crate) fn simulate(root: &Path, subject: Subject, (first, seeds): (u64, u64)) -> Result<()> {
    let subject = match subject {
        Subject::Zones => &[][..],
        Subject::Balancers => &["--balancers"],
    };
    Program::cargo(
        root,
        [
            "run",
            "--release",
            "--quiet",
            "--package",
            "bindery-testkit",
        ],
    )
    .args(["--bin", "sim", "--"])
    .args(subject.iter().copied())
    .args(seed_range(first, seeds))
    .run()
}

fn seed_range(first: u64, seeds: u64) -> [String; 4] {
    [
        "--first".to_owned(),
        first.to_string(),
        "--seeds".to_owned(),
        seeds.to_string(),
    ]
}

fn select(only: &[String]) -> Result<Vec<&'static Step>> {
    if only.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    if let Some(unknown) = only
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        bail!("no step `{unknown}`; there are {}", names.join(", "));
    }
    Ok(STEPS
        .iter()
        .filter(|step| only.iter().any(|name| name == step.name))
        .collect())
}

fn summary(results: &[(&str, Duration, Result<()>)], total: Duration) -> Result<()> {
    println!();
    let mut failed = Vec::new();
    for (name, took, result) in results {
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{name:8} {:>7.1} s  {verdict}", took.as_secs_f64());
        if result.is_err() {
            failed.push(*name);
        }
    }
    println!("{:8} {:>7.1} s", "total", total.as_secs_f64());
    if failed.is_empty() {
        return Ok(());
    }
    // What went wrong may be thousands of lines above.
    for (name, _, result) in results {
        if let Err(fault) = result {
            eprintln!("xtask: {name}: {fault:#}");
        }
    }
    for name in &failed {
        eprintln!("repeat with: cargo xtask test --only {name}");
    }
    bail!("failed: {}", failed.join(", "))
}

/// Puts on this machine what the tests start.
pub(crate) fn setup(_root: &Path) -> Result<()> {
    tools::ensure(&tools::ALL)
}

fn fmt(root: &Path) -> Result<()> {
    Program::cargo(root, ["fmt", "--all", "--check"])
        .run()
        .context("`cargo fmt --all` repairs it")
}

fn clippy(root: &Path) -> Result<()> {
    let clippy = |features: &[&str]| {
        Program::cargo(root, ["clippy", "--workspace", "--all-targets", "--quiet"])
            .args(features.iter().copied())
            .args(["--", "-D", "warnings"])
            .run()
    };
    clippy(&[])?;
    if Metadata::fetch(root)?.any_member_has_features() {
        clippy(&["--all-features"])?;
    }
    Ok(())
}

fn doc(root: &Path) -> Result<()> {
    Program::cargo(
        root,
        [
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
    )
    .args(["--quiet"])
    .env("RUSTDOCFLAGS", "-D warnings")
    .run()
}

fn alone(root: &Path) -> Result<()> {
    for package in ["bindery-core", "bindery-sources"] {
        Program::cargo(root, ["check", "--quiet", "--package", package]).run()?;
    }
    Ok(())
}

fn test(root: &Path) -> Result<()> {
    let mut failures = Failures::default();
    Program::cargo(root, ["test", "--workspace", "--quiet", "--no-fail-fast"])
        .run_seen(|line| failures.look(line))
        .with_context(|| failures.to_string())
}

fn crd(root: &Path) -> Result<()> {
    generated::crd(root, Mode::Check)
}

fn docs(root: &Path) -> Result<()> {
    generated::docs(root, Mode::Check)
}

/// A hundred seeds do not pay for an optimised build: they run as the tests were built.
fn sim(root: &Path) -> Result<()> {
    let simulation = program::build(root, "--bin", "sim")?;
    Program::new(root, &simulation.to_string_lossy())
        .args(seed_range(0, SEEDS_IN_TEST))
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_their_own_order_whatever_order_they_are_asked_in() {
        let names: Vec<_> = select(&["tidy".to_owned(), "fmt".to_owned()])
            .unwrap()
            .iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(names, ["fmt", "tidy"]);
    }

    #[test]
    fn an_unknown_step_is_answered_with_the_list() {
        let message = select(&["clipy".to_owned()])
            .err()
            .map(|fault| fault.to_string());
        assert!(message.is_some_and(|text| text.contains("clipy") && text.contains("clippy")));
    }

    #[test]
    fn a_failed_step_fails_the_run_and_is_named() {
        let results = [
            ("fmt", Duration::ZERO, Ok(())),
            ("doc", Duration::ZERO, bail_with("x")),
        ];
        let message = summary(&results, Duration::ZERO).unwrap_err().to_string();
        assert_eq!(message, "failed: doc");
    }

    fn bail_with(text: &'static str) -> Result<()> {
        bail!(text)
    }
}

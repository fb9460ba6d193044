//! Mutation tests of the pure crates: a small damage to their code that no test notices is a hole in
//! the tests, or has its reason in the list of survivors.
//!
//! All mutants are compiled into one build of a copy of the workspace, each behind a number that the
//! environment chooses, so that a mutant costs a run of the tests and not a build.

mod build;
mod list;
mod places;
mod reach;
mod run;
mod splice;
mod survivors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use build::{Copied, Unbuilt};
use list::Mutant;
use run::{Outcome, Results, Suite, Tests};
use survivors::without_line;

/// What survives in core, each with its reason.
const SURVIVORS: &str = "docs/mutants.md";

/// What became of each mutant, in the folder of the mutants.
const RESULTS: &str = "results.tsv";
const SIMULATION: &str = "simulation";

const CORE: &str = "bindery-core";
const SOURCES: &str = "bindery-sources";
const TESTKIT: &str = "bindery-testkit";

/// Tests that are tried on what the stage before it let pass.
struct Stage {
    name: &'static str,
    /// Cases of each property.
    cases: u32,
    tests: &'static [Tests],
}

const STAGES: [Stage; 3] = [
    Stage {
        name: "own tests",
        cases: 4,
        tests: &[unit_tests(CORE, &[CORE]), unit_tests(SOURCES, &[SOURCES])],
    },
    Stage {
        name: "tests at length",
        cases: 64,
        tests: &[
            Tests {
                seconds_max: 30,
                ..unit_tests(CORE, &[CORE])
            },
            unit_tests(SOURCES, &[CORE, SOURCES]),
        ],
    },
    Stage {
        name: SIMULATION,
        cases: 32,
        tests: &[
            unit_tests("bindery-kube", &[CORE, SOURCES]),
            Tests {
                targets: &["--lib", "--test", "it"],
                seconds_max: 120,
                ..unit_tests(TESTKIT, &[CORE, SOURCES])
            },
            Tests {
                targets: &["--bin", "sim"],
                args: &["--first", "0", "--seeds", "25"],
                seconds_max: 120,
                ..unit_tests(TESTKIT, &[CORE, SOURCES])
            },
        ],
    },
];

const fn unit_tests(package: &'static str, mutants_of: &'static [&'static str]) -> Tests {
    Tests {
        package,
        targets: &["--lib"],
        args: &[],
        mutants_of,
        seconds_max: 5,
    }
}

/// Which mutants are tried, and with what.
#[derive(Default)]
struct Options {
    /// Only those of these files, unless there are none.
    files: Vec<String>,
    /// Only those that survived the run before, told apart without their lines.
    again: Option<BTreeSet<String>>,
    /// Leaves the simulation out.
    is_unit: bool,
}

/// Tries the mutants and compares what survives in core with the list of survivors. `--file PATH`, as
/// often as wanted, takes only those of a file; `--again` only those that survived the run before;
/// `--unit` runs the unit tests only.
///
/// A run that was interrupted goes on where it was, as long as no file changed.
///
/// # Errors
/// When a mutant of core survives that is not in the list, or the tests fail without a mutant.
pub(crate) fn run(root: &Path, rest: &[String]) -> Result<()> {
    let scratch = build::target(root).join("mutants");
    let options = Options::read(rest, &scratch.join(RESULTS))?;
    let mutants = list::fetch_all(root)?;
    let mut copied = Copied::write(root, &scratch, &mutants)?;
    copied.splice(&mutants)?;
    let mut results = Results::open(&scratch.join(RESULTS), copied.fingerprint)?;
    let numbered = || {
        mutants
            .iter()
            .enumerate()
            .map(|(at, mutant)| (at + 1, mutant))
    };
    let chosen = || numbered().filter(|(_, mutant)| options.choose(mutant));
    let mut open: Vec<_> = chosen()
        .filter(|(number, _)| !copied.unbuilt.contains_key(number))
        .collect();
    if open.is_empty() {
        bail!("there is no such mutant {}", options.files.join(", "));
    }
    let mut became = BTreeMap::new();
    for stage in options.stages() {
        try_stage(stage, &copied, &open, &mut results)?;
        open.retain(|(number, mutant)| {
            let outcome = results.get(stage.name, mutant);
            became.insert(*number, outcome);
            outcome == Some(Outcome::Survives)
        });
    }
    let told = chosen().map(|(number, mutant)| {
        let unbuilt = copied.unbuilt.get(&number).map(ToString::to_string);
        let outcome = became.get(&number).copied().flatten();
        let word = unbuilt.or_else(|| outcome.map(|outcome| outcome.to_string()));
        (mutant, word.unwrap_or_default())
    });
    print_counts(told);
    let left_over =
        |(number, _): &(usize, &Mutant)| copied.unbuilt.get(number) == Some(&Unbuilt::LeftOver);
    for (_, mutant) in chosen().filter(left_over) {
        println!("untried, since no switch can stand there: {}", mutant.name);
    }
    let survivors = open.iter().map(|(_, mutant)| &*mutant.name);
    compare(root, survivors, options.is_whole())
}

impl Options {
    fn read(rest: &[String], results: &Path) -> Result<Self> {
        let mut options = Self::default();
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match &**word {
                "--file" => {
                    let file = words.next().context("--file needs a path")?;
                    options.files.push(file.clone());
                }
                "--again" => options.again = Some(run::survivors(results)?),
                "--unit" => options.is_unit = true,
                other => bail!("`mutants` has --file PATH, --again and --unit, not `{other}`"),
            }
        }
        Ok(options)
    }

    fn choose(&self, mutant: &Mutant) -> bool {
        let survived = |again: &BTreeSet<String>| again.contains(&without_line(&mutant.name));
        (self.files.is_empty() || self.files.contains(&mutant.file))
            && self.again.as_ref().is_none_or(survived)
    }

    fn stages(&self) -> impl Iterator<Item = &'static Stage> {
        let stages = STAGES.iter();
        stages.filter(|stage| !self.is_unit || stage.name != SIMULATION)
    }

    /// Whether all that the list of survivors speaks of is tried.
    fn is_whole(&self) -> bool {
        self.files.is_empty() && self.again.is_none() && !self.is_unit
    }
}

/// Builds and runs the tests of a stage on the mutants that it has to try.
fn try_stage(
    stage: &Stage,
    copied: &Copied,
    open: &[(usize, &Mutant)],
    results: &mut Results,
) -> Result<()> {
    let untried = open
        .iter()
        .filter(|(_, mutant)| results.get(stage.name, mutant).is_none());
    let untried: Vec<_> = untried.copied().collect();
    let needed = |tests: &&Tests| {
        let mut packages = untried.iter().map(|(_, mutant)| &*mutant.package);
        packages.any(|package| tests.mutants_of.contains(&package))
    };
    let mut suites = Vec::new();
    for tests in stage.tests.iter().filter(needed) {
        for built in copied.build(tests.package, tests.targets)? {
            suites.push(Suite::try_out(&built, tests, stage.cases, &copied.scratch)?);
        }
    }
    run::stage(stage.name, &suites, &untried, results)
}

/// Prints, for each file and for all, how many mutants became what.
fn print_counts<'a>(told: impl Iterator<Item = (&'a Mutant, String)>) {
    let mut files: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for (mutant, word) in told {
        for name in [&*mutant.file, &*mutant.package] {
            *files
                .entry(name)
                .or_default()
                .entry(word.clone())
                .or_default() += 1;
        }
    }
    for (name, counts) in files {
        let counts = counts.iter().map(|(word, count)| format!("{count} {word}"));
        println!("{name}: {}", counts.collect::<Vec<_>>().join(", "));
    }
}

/// Compares what survives with the list of survivors.
fn compare<'a>(
    root: &Path,
    survivors: impl Iterator<Item = &'a str> + Clone,
    is_whole: bool,
) -> Result<()> {
    for name in survivors.clone() {
        println!("survives: {name}");
    }
    let page = fs::read_to_string(root.join(SURVIVORS)).context(SURVIVORS)?;
    let rows = survivors::rows(&page);
    let survivors = survivors::counted(survivors);
    if is_whole {
        for (row, found) in survivors::outdated(&survivors, &rows) {
            println!("only {found} survive, so that its line can change or go: {row}");
        }
    }
    let unlisted = survivors::without_reason(&survivors, &rows);
    if unlisted.is_empty() {
        return Ok(());
    }
    bail!(
        "no test notices these; write one, or give the reason in {SURVIVORS}:\n  {}",
        unlisted.join("\n  ")
    )
}

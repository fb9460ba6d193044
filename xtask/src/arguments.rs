//! The command line of xtask: a handful of words, parsed by hand to keep the build short.

use anyhow::{Context, Result, bail};

use crate::generated::Mode;
use crate::image::{self, ImageOptions};
use crate::steps;

/// What `cargo xtask --help` prints.
pub(crate) const HELP: &str = "\
Checks, generators and set-up of Bindery.

Usage: cargo xtask <TASK> [OPTIONS]

Tasks:
  test [STEP…]          everything CI runs, or just these steps, after setting the machine up; ends
                        with a summary
      --only STEP[,STEP]  run just these steps (repeatable), for example
                          cargo xtask test --only clippy,tidy
      --list              show the steps in their order
  tidy                  the rules that no compiler checks: crate arrows, file sizes, links, licences …
                        prints path:line: message for each finding
  crd [--check]         write deploy/crds/*.yaml and docs/reference.md from the types in crates/api;
                        --check only compares and fails on a difference
  docs [--check]        write the generated parts of docs/ (command line, index of decisions)
  sim                   run the whole system on virtual time with injected faults
      --seeds N           how many seeds (default 1000)
      --seed N            exactly this seed, with its trace: how a failure is replayed
      --first N           the first of the seeds (default 0)
      --balancers         load balancers, over the emulator of Azure, in place of zones
  mutants               damage core and sources in small ways, one at a time, and see that unit tests or
                        the simulation notice; all damages are in one build, behind a switch
      --file PATH         only those of this file (repeatable)
  bench [-- ARGS]       measure beside nsupdate; prints a table; not part of the tests
  image                 build an OCI image layout of the release binary and Debian's BIND, without a daemon;
                        the same bytes each time
      --out DIR           where it goes (default: image in the target folder)
      --binary FILE       this binary instead of the release build
  setup                 install what the tests start: Debian packages, and kube-apiserver, etcd and bindcar
                        built into a cache outside the checkout (minutes, once)

CARGO_TARGET_DIR is honoured. Start with: cargo xtask test
";

/// How many seeds `sim` runs unless told.
const SIM_SEEDS: u64 = 1000;

/// One parsed command line.
pub(crate) struct Arguments {
    /// What to do.
    pub(crate) task: Task,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Zones,
    Balancers,
}

/// The tasks, each with its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Test {
        only: Vec<String>,
    },
    Tidy,
    Crd(Mode),
    Docs(Mode),
    Sim {
        subject: Subject,
        first: u64,
        seeds: u64,
    },
    Mutants {
        rest: Vec<String>,
    },
    Bench {
        rest: Vec<String>,
    },
    Image(ImageOptions),
    Setup,
}

impl Arguments {
    /// Reads the words after the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let words: Vec<String> = words.collect();
        let Some((task, rest)) = words.split_first() else {
            return Ok(Self { task: Task::Help });
        };
        if rest.iter().any(|word| word == "--help" || word == "-h") {
            return Ok(Self { task: Task::Help });
        }
        let task = match task.as_str() {
            "help" | "--help" | "-h" => Task::Help,
            "test" => test(rest)?,
            "tidy" => nothing_more(rest, Task::Tidy)?,
            "crd" => Task::Crd(mode(rest)?),
            "docs" => Task::Docs(mode(rest)?),
            "sim" => sim(rest)?,
            "mutants" => Task::Mutants { rest: passed(rest) },
            "bench" => Task::Bench { rest: passed(rest) },
            "image" => Task::Image(image::options(rest)?),
            "setup" | "tools" => nothing_more(rest, Task::Setup)?,
            other => bail!("no task `{other}`; `cargo xtask --help` lists them"),
        };
        Ok(Self { task })
    }
}

fn nothing_more(rest: &[String], task: Task) -> Result<Task> {
    match rest.first() {
        None => Ok(task),
        Some(word) => bail!("unexpected `{word}`; `cargo xtask --help` lists the options"),
    }
}

fn mode(rest: &[String]) -> Result<Mode> {
    match rest {
        [] => Ok(Mode::Write),
        [word] if word == "--check" => Ok(Mode::Check),
        _ => bail!("the only option here is --check"),
    }
}

fn test(rest: &[String]) -> Result<Task> {
    let mut only = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => only.push(steps::LIST.to_owned()),
            "--only" => {
                let names = words.next().context("--only needs the name of a step")?;
                only.extend(names.split(',').map(str::to_owned));
            }
            other if other.starts_with('-') => {
                bail!("`test` has no option `{other}`; it has --only STEP and --list")
            }
            step => only.push(step.to_owned()),
        }
    }
    Ok(Task::Test { only })
}

fn sim(rest: &[String]) -> Result<Task> {
    let (mut first, mut seeds) = (0, SIM_SEEDS);
    let mut subject = Subject::Zones;
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == "--balancers" {
            subject = Subject::Balancers;
            continue;
        }
        let value = words
            .next()
            .with_context(|| format!("{word} needs a number"))?;
        let number: u64 = value
            .parse()
            .with_context(|| format!("{word} takes a number, not `{value}`"))?;
        match word.as_str() {
            "--seed" => (first, seeds) = (number, 1),
            "--seeds" => seeds = number,
            "--first" => first = number,
            other => bail!(
                "`sim` has no option `{other}`; it has --seed, --seeds, --first and --balancers"
            ),
        }
    }
    Ok(Task::Sim {
        subject,
        first,
        seeds,
    })
}

/// The words that go to another program.
fn passed(rest: &[String]) -> Vec<String> {
    rest.iter().filter(|word| *word != "--").cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task> {
        Arguments::parse(line.split_whitespace().map(str::to_owned)).map(|parsed| parsed.task)
    }

    #[test]
    fn without_a_word_the_help_is_shown() {
        assert_eq!(parse("").unwrap(), Task::Help);
        assert_eq!(parse("sim --help").unwrap(), Task::Help);
    }

    #[test]
    fn steps_may_be_listed_with_commas_or_one_by_one() {
        let expected = Task::Test {
            only: vec!["fmt".into(), "tidy".into()],
        };
        assert_eq!(parse("test --only fmt,tidy").unwrap(), expected);
        assert_eq!(parse("test --only fmt --only tidy").unwrap(), expected);
        assert_eq!(parse("test fmt tidy").unwrap(), expected);
        assert!(parse("test --fmt").is_err());
    }

    #[test]
    fn a_seed_is_replayed_alone() {
        assert_eq!(
            parse("sim --seed 7").unwrap(),
            Task::Sim {
                subject: Subject::Zones,
                first: 7,
                seeds: 1
            }
        );
        assert_eq!(
            parse("sim --seeds 5 --first 9").unwrap(),
            Task::Sim {
                subject: Subject::Zones,
                first: 9,
                seeds: 5
            }
        );
        assert_eq!(
            parse("sim --balancers --seed 3").unwrap(),
            Task::Sim {
                subject: Subject::Balancers,
                first: 3,
                seeds: 1
            }
        );
    }

    #[test]
    fn an_unknown_word_is_named_in_the_error() {
        let message = parse("crd --chek").unwrap_err().to_string();
        assert!(message.contains("--check"), "{message}");
        assert!(parse("tset").unwrap_err().to_string().contains("tset"));
        assert!(
            parse("sim --seed x")
                .unwrap_err()
                .to_string()
                .contains("`x`")
        );
    }
}

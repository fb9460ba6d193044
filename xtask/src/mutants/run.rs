//! Runs the tests with one mutant after the other switched on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::build::Built;
use super::list::Mutant;
use super::reach::Reach;
use super::survivors::without_line;
use crate::program::Program;

/// Programs that run at once.
const WORKERS: usize = 2;
/// The memory of one, in KiB: a mutant may gather without end.
const MEMORY_KIB_MAX: usize = 4 * 1024 * 1024;
/// Seconds after which one is ended that waits; those that it may work are the suite's.
const WAIT_SECONDS_MAX: u64 = 600;
/// Mutants between two words on how far it is.
const WORD_EVERY: usize = 100;
/// How `timeout` ends where the time was up, where it had to kill, and where the processor's was up.
const TIMED_OUT: [i32; 3] = [124, 128 + 9, 128 + 24];

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Caught,
    TimedOut,
    Survives,
}

impl Outcome {
    pub(super) const ALL: [Self; 3] = [Self::Caught, Self::TimedOut, Self::Survives];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caught => "caught",
            Self::TimedOut => "timed-out",
            Self::Survives => "survives",
        })
    }
}

/// Tests of a package.
pub(super) struct Tests {
    pub(super) package: &'static str,
    /// What of the package is built.
    pub(super) targets: &'static [&'static str],
    /// How it is run.
    pub(super) args: &'static [&'static str],
    /// The packages whose mutants they may notice.
    pub(super) mutants_of: &'static [&'static str],
    /// Seconds of the processor that they have: a mutant may go on for ever.
    pub(super) seconds_max: u64,
}

/// A program whose failure is a test that notices.
pub(super) struct Suite {
    program: Program,
    seconds_max: u64,
    /// The packages whose mutants it is tried on.
    packages: &'static [&'static str],
    /// What its tests reach; a program that is no set of tests is run as a whole.
    reach: Option<Reach>,
}

impl Suite {
    /// A suite that has been seen to pass without a mutant. `scratch` is for what its tests write.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn try_out(
        built: &Built,
        tests: &Tests,
        cases: u32,
        scratch: &Path,
    ) -> Result<Self> {
        let program = Program::new(&built.folder, &built.program.to_string_lossy())
            .args(tests.args.iter().copied())
            .env("PROPTEST_CASES", &cases.to_string())
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            .env("INSTA_UPDATE", "no");
        let mut suite = Self {
            program,
            seconds_max: tests.seconds_max,
            packages: tests.mutants_of,
            reach: None,
        };
        let begun = Instant::now();
        if suite.run(0)? != Outcome::Survives {
            bail!("fails without a mutant: {}", suite.program);
        }
        let took = begun.elapsed().as_secs_f64();
        println!("{} passes in {took:.1} s", built.name);
        if tests.args.is_empty() {
            suite.reach = Some(suite.fetch_reach(scratch)?);
        }
        Ok(suite)
    }

    /// Runs it once more and returns what its tests reach.
    fn fetch_reach(&self, scratch: &Path) -> Result<Reach> {
        let path = scratch.join("reached.tsv");
        if path.exists() {
            fs::remove_file(&path).context("cannot remove what an earlier run reached")?;
        }
        // With one at a time no test has a thread of its own.
        let program = self.program.clone().args(["--test-threads", "2"]);
        let program = program.env("BINDERY_MUTANTS_REACHED", &path.to_string_lossy());
        if !program.status()?.success() {
            bail!("fails when asked what it reaches: {program}");
        }
        let written = fs::read_to_string(&path).context("nothing was reached")?;
        let listed = self.program.clone().args(["--list"]).stdout()?;
        Ok(Reach::read(&written, &listed))
    }

    /// Runs the tests that may notice a mutant, until one does; with the number zero, all of them.
    fn run(&self, number: usize) -> Result<Outcome> {
        let runs = self.reach.as_ref().map(|reach| reach.runs(number));
        for args in runs.unwrap_or_else(|| vec![Vec::new()]) {
            let outcome = self.run_tests(number, &args)?;
            if outcome != Outcome::Survives {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survives)
    }

    fn run_tests(&self, number: usize, args: &[&str]) -> Result<Outcome> {
        let limits = format!(
            "ulimit -c 0; ulimit -v {MEMORY_KIB_MAX}; ulimit -t {}; \
             exec nice -n 5 timeout -k 1 {WAIT_SECONDS_MAX} \"$@\"",
            self.seconds_max
        );
        let program = self.program.clone().args(args.iter().copied());
        let status = program
            .inside("sh", ["-c", &limits, "sh"])
            .env("BINDERY_MUTANT", &number.to_string())
            .status()?;
        let killed = status.signal().map(|signal| 128 + signal);
        Ok(match status.code().or(killed) {
            Some(0) => Outcome::Survives,
            Some(code) if TIMED_OUT.contains(&code) => Outcome::TimedOut,
            Some(_) | None => Outcome::Caught,
        })
    }
}

/// What is known of the mutants, in memory and in a file, so that a run can go on.
pub(super) struct Results {
    known: BTreeMap<(String, String), Outcome>,
    file: File,
}

impl Results {
    /// Reads what is known of the code with this fingerprint; of other code nothing is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn open(path: &Path, fingerprint: u64) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let head = format!("code {fingerprint:016x}\n");
        let text = fs::read_to_string(path).unwrap_or_default();
        let known = text.strip_prefix(&head).map(read_results);
        if known.is_none() {
            fs::write(path, head).with_context(cannot)?;
        }
        let file = OpenOptions::new().append(true).open(path);
        Ok(Self {
            known: known.unwrap_or_default(),
            file: file.with_context(cannot)?,
        })
    }

    /// What a stage found of a mutant.
    pub(super) fn get(&self, stage: &str, mutant: &Mutant) -> Option<Outcome> {
        let key = (stage.to_owned(), mutant.name.clone());
        self.known.get(&key).copied()
    }

    fn add(&mut self, stage: &str, mutant: &Mutant, outcome: Outcome) -> Result<()> {
        writeln!(self.file, "{stage}\t{outcome}\t{}", mutant.name)
            .context("cannot write what became of a mutant")?;
        let key = (stage.to_owned(), mutant.name.clone());
        self.known.insert(key, outcome);
        Ok(())
    }
}

/// The mutants that survived the run whose results these are, whatever its code was.
///
/// # Errors
/// When there was no run.
pub(super) fn survivors(path: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(path).context("there was no run before")?;
    let known = read_results(&text);
    let survived = |outcome: &Outcome| *outcome == Outcome::Survives;
    let noticed = known.iter().filter(|(_, outcome)| !survived(outcome));
    let noticed: BTreeSet<&str> = noticed.map(|((_, name), _)| &**name).collect();
    let names = known.keys().map(|(_, name)| &**name);
    let left = names.filter(|name| !noticed.contains(name));
    Ok(left.map(without_line).collect())
}

fn read_results(text: &str) -> BTreeMap<(String, String), Outcome> {
    let read = |line: &str| {
        let mut words = line.splitn(3, '\t');
        let (stage, told, name) = (words.next()?, words.next()?, words.next()?);
        let outcome = Outcome::ALL
            .into_iter()
            .find(|one| one.to_string() == told)?;
        Some(((stage.to_owned(), name.to_owned()), outcome))
    };
    text.lines().filter_map(read).collect()
}

/// Runs a stage: all its suites, on these mutants, as far as no earlier run did.
///
/// # Errors
/// When a program cannot be started, or what became of it cannot be written.
pub(super) fn stage(
    name: &str,
    suites: &[Suite],
    mutants: &[(usize, &Mutant)],
    results: &mut Results,
) -> Result<()> {
    let open = mutants
        .iter()
        .filter(|(_, mutant)| results.get(name, mutant).is_none());
    let open: VecDeque<_> = open.copied().collect();
    let total = open.len();
    println!("{name}: {total} mutants to try");
    let begun = Instant::now();
    let queue = Mutex::new(open);
    let results = Mutex::new((results, 0_usize, 0_usize));
    let work = || -> Result<()> {
        loop {
            let next = lock(&queue).pop_front();
            let Some((number, mutant)) = next else {
                return Ok(());
            };
            let outcome = first_notice(suites, number, mutant)?;
            let mut guard = lock(&results);
            let (results, done, survive) = &mut *guard;
            results.add(name, mutant, outcome)?;
            *done += 1;
            *survive += usize::from(outcome == Outcome::Survives);
            if *done % WORD_EVERY == 0 {
                let left = remaining(begun.elapsed(), *done, total);
                println!("{name}: {done} of {total}, {survive} survive; {left} min left");
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let ended = worker.join();
            ended.map_err(|_| anyhow::anyhow!("a worker panicked"))??;
        }
        Ok(())
    })
}

fn first_notice(suites: &[Suite], number: usize, mutant: &Mutant) -> Result<Outcome> {
    let package = &*mutant.package;
    for suite in suites
        .iter()
        .filter(|suite| suite.packages.contains(&package))
    {
        let outcome = suite.run(number)?;
        if outcome != Outcome::Survives {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Survives)
}

/// Minutes left, if the rest takes as long as what is done.
fn remaining(elapsed: Duration, done: usize, total: usize) -> u64 {
    let left = u64::try_from(total - done).unwrap_or(u64::MAX);
    let done = u64::try_from(done).unwrap_or(1).max(1);
    elapsed.as_secs().saturating_mul(left) / done / 60
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

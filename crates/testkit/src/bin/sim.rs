//! Runs simulations from seeds; a failing seed says how to replay it.
#![expect(clippy::disallowed_methods, reason = "it reads its command line")]

use std::process::ExitCode;

use bindery_testkit::balancing;
use bindery_testkit::sim::{SimPlan, SimReport, Words, run};

const USAGE: &str = "usage: sim [--first SEED] [--seeds COUNT] [--words] [--all] [--balancers]

Runs COUNT simulations (default 100) beginning at seed SEED (default 0).
With --words, what happened in each run is printed.
With --all, a seed that fails does not keep the others from running.
With --balancers, load balancers are simulated.";

/// What the command line asks for.
struct Asked {
    first: u64,
    count: u64,
    words: Words,
    /// Whether the other seeds run though one failed.
    all: bool,
    /// The plan of a seed, what runs it, and the option that asks for it.
    subject: Simulated,
}

type Simulated = (fn(u64) -> SimPlan, fn(SimPlan) -> SimReport, &'static str);

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command speaks to its user"
)]
fn main() -> ExitCode {
    let Some(Asked {
        first,
        count,
        words,
        all,
        subject: (plan, run, option),
    }) = arguments()
    else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut writes, mut crashes, mut failed) = (0, 0, Vec::new());
    for seed in first..first.saturating_add(count) {
        let report = run(SimPlan {
            words,
            ..plan(seed)
        });
        for line in &report.words {
            println!("{line}");
        }
        if let Some(failure) = report.failure {
            println!("seed {seed} failed: {failure}");
            println!("replay it with: cargo xtask sim {option}--seed {seed}");
            failed.push(seed);
            if !all {
                return ExitCode::FAILURE;
            }
        }
        writes += report.writes;
        crashes += report.crashes;
    }
    if !failed.is_empty() {
        println!(
            "{count} seeds from {first}: {} failed: {failed:?}",
            failed.len()
        );
        return ExitCode::FAILURE;
    }
    println!("{count} seeds from {first}: all came right ({writes} writes, {crashes} crashes)");
    ExitCode::SUCCESS
}

fn arguments() -> Option<Asked> {
    let mut asked = Asked {
        first: 0,
        count: 100,
        words: Words::Dropped,
        all: false,
        subject: (SimPlan::of_seed, run, ""),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--first" => asked.first = arguments.next()?.parse().ok()?,
            "--seeds" => asked.count = arguments.next()?.parse().ok()?,
            "--words" => asked.words = Words::Kept,
            "--all" => asked.all = true,
            "--balancers" => {
                asked.subject = (balancing::plan, balancing::run, "--balancers ");
            }
            _ => return None,
        }
    }
    Some(asked)
}

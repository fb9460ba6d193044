//! Runs simulations from seeds; a failing seed says how to replay it.
#![expect(clippy::disallowed_methods, reason = "it reads its command line")]

use std::process::ExitCode;

use bindery_testkit::sim::{SimPlan, Words, run};

const USAGE: &str = "usage: sim [--first SEED] [--seeds COUNT] [--words]

Runs COUNT simulations (default 100) beginning at seed SEED (default 0).
With --words, what happened in each run is printed.";

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command speaks to its user"
)]
fn main() -> ExitCode {
    let Some((first, count, words)) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut writes, mut crashes) = (0, 0);
    for seed in first..first.saturating_add(count) {
        let report = run(SimPlan {
            words,
            ..SimPlan::of_seed(seed)
        });
        for line in &report.words {
            println!("{line}");
        }
        if let Some(failure) = report.failure {
            println!("seed {seed} failed: {failure}");
            println!("replay it with: cargo xtask sim --seed {seed}");
            return ExitCode::FAILURE;
        }
        writes += report.writes;
        crashes += report.crashes;
    }
    println!("{count} seeds from {first}: all came right ({writes} writes, {crashes} crashes)");
    ExitCode::SUCCESS
}

fn arguments() -> Option<(u64, u64, Words)> {
    let (mut first, mut count, mut words) = (0, 100, Words::Dropped);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--first" => first = arguments.next()?.parse().ok()?,
            "--seeds" => count = arguments.next()?.parse().ok()?,
            "--words" => words = Words::Kept,
            _ => return None,
        }
    }
    Some((first, count, words))
}

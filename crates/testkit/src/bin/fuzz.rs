//! Fuzzes for a while: `cargo run --release -p bindery-testkit --bin fuzz -- SECONDS [SEED]`.
#![expect(
    clippy::disallowed_methods,
    reason = "it reads its command line and stops in real time"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool speaks on the terminal"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bindery_testkit::fuzz::TARGETS;

/// Inputs between two looks at the clock.
const ROUNDS: usize = 10_000;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(seconds)), Ok(first)) = (numbers.next(), numbers.next().unwrap_or(Ok(0))) else {
        eprintln!("say for how many seconds, and from which seed on if not from 0: fuzz 60 7");
        return ExitCode::FAILURE;
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = first;
    while Instant::now() < end {
        for target in &TARGETS {
            if let Err(finding) = target.run(seed, ROUNDS) {
                eprintln!("seed {seed}: {finding}");
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    println!("seeds {first} to {seed}, {ROUNDS} inputs of each target: nothing found");
    ExitCode::SUCCESS
}

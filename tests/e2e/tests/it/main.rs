//! End-to-end suites on real servers; `cargo test -p bindery-e2e --test it -- embedded::` runs those of one subject.
//!
//! It must *never* leave a server behind: all are stopped by pid before the process ends.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time on the machine as it is"
)]

mod battery;
mod differential;
mod pods;
mod scene;
mod subject;
mod verdict;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Cases wait for servers most of the time, so more of them run at once than there are cores.
const THREADS: usize = 16;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    subject::stop_when_told();
    let conclusion = libtest_mimic::run(&arguments, trials());
    subject::stop_all();
    conclusion.exit_code()
}

/// Every suite adds its trials here.
fn trials() -> Vec<Trial> {
    [battery::trials(), differential::trials(), pods::trials()]
        .into_iter()
        .flatten()
        .collect()
}

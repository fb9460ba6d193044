//! One battery of name-server behaviour, run on a real `named` and on the built-in server:
//! `cargo test -p bindery-e2e --test nameserver -- builtin::` runs it on one of them.
//!
//! It must *never* leave a server behind: all end with the process at the latest.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time on the machine as it is"
)]

mod ask;
mod client;
mod differential;
mod edns;
mod lifecycle;
mod many;
mod mirror;
mod pair;
mod prerequisite;
mod query;
mod roles;
mod scene;
mod subject;
mod transfer;
mod update;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use scene::{Case, Scene};
use subject::Kind;

/// Cases wait for servers most of the time, so more of them run at once than there are cores.
const THREADS: usize = 8;

fn main() -> ExitCode {
    if let Some(code) = subject::child_main() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let conclusion = libtest_mimic::run(&arguments, trials());
    subject::stop_all();
    conclusion.exit_code()
}

fn trials() -> Vec<Trial> {
    let suites: [(&str, Vec<Case>); 10] = [
        ("query", query::cases()),
        ("edns", edns::cases()),
        ("update", update::cases()),
        ("prerequisite", prerequisite::cases()),
        ("transfer", transfer::cases()),
        ("client", client::cases()),
        ("lifecycle", lifecycle::cases()),
        ("named", lifecycle::named_cases()),
        ("many", many::cases()),
        ("alike", differential::cases()),
    ];
    let mut trials = Vec::new();
    for (suite, cases) in suites {
        for case in cases {
            for kind in [Kind::Named, Kind::Builtin] {
                // These concern `named` alone, or both at once.
                if matches!(suite, "named" | "many" | "alike") && kind == Kind::Builtin {
                    continue;
                }
                let name = format!("{}::{suite}::{}", kind.as_str(), case.name);
                trials.push(Trial::test(name, move || run(case, kind)));
            }
        }
    }
    for case in [roles::cases(), mirror::cases()].concat() {
        for kinds in pair::KINDS {
            let name = format!("{}::{}", pair::suite(kinds), case.name);
            trials.push(Trial::test(name, move || {
                outcome(subject::runtime().block_on((case.run)(kinds)))
            }));
        }
    }
    trials
}

fn run(case: Case, kind: Kind) -> Result<(), Failed> {
    let outcome = subject::runtime().block_on(async {
        let scene = Scene::open(kind, case.name).await?;
        (case.run)(scene).await
    });
    self::outcome(outcome)
}

fn outcome(outcome: anyhow::Result<()>) -> Result<(), Failed> {
    outcome.map_err(|error| Failed::from(format!("{error:?}")))
}

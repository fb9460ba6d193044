//! One battery over the HTTP API beside a real `named`, run with our client on our sidecar and on bindcar:
//! `cargo test -p bindery-e2e --test sidecar -- ours::` runs it on one of them.
//!
//! It must *never* leave a server behind: all end with the process at the latest.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time on the machine as it is"
)]

mod battery;
mod gate;
mod hostile;
mod ours;
mod subject;

use std::process::ExitCode;

use anyhow::Result;
use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};

use subject::{Kind, Subject};

/// A named case: its sentence, and what it does to a subject.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    name: &'static str,
    run: for<'a> fn(&'a Subject) -> BoxFuture<'a, Result<()>>,
}

/// Makes a list of cases from async functions of a subject.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::Case {
            name: stringify!($name),
            run: |subject| Box::pin($name(subject)),
        }),*]
    };
}
pub(crate) use cases;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(4));
    let trials = trials();
    let conclusion = libtest_mimic::run(&arguments, trials);
    subject::stop_all();
    conclusion.exit_code()
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in battery::cases() {
        for kind in [Kind::Ours, Kind::Bindcar] {
            trials.push(shared(case, kind));
        }
    }
    for case in [ours::cases(), hostile::cases()].concat() {
        trials.push(shared(case, Kind::Ours));
    }
    for (name, run) in gate::cases() {
        trials.push(Trial::test(format!("ours::gate::{name}"), move || {
            outcome(subject::runtime().block_on(run()))
        }));
    }
    trials
}

fn shared(case: Case, kind: Kind) -> Trial {
    let name = format!("{}::{}", kind.as_str(), case.name);
    Trial::test(name, move || {
        outcome(subject::runtime().block_on(async {
            let subject = subject::shared(kind)?;
            (case.run)(&subject).await
        }))
    })
}

fn outcome(outcome: Result<()>) -> Result<(), Failed> {
    outcome.map_err(|error| Failed::from(format!("{error:?}")))
}

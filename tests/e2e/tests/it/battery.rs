//! One battery of API behaviour for every subject: what passes on the real server must pass on ours.

mod apply;
mod builtin;
mod collection;
mod create;
mod definitions;
mod delete;
mod differences;
mod discovery;
mod dry_run;
mod kinds;
mod kubectl;
mod output;
mod own_kinds;
mod patches;
mod read;
mod refusals;
mod replace;
mod schema;
mod selectors;
mod stateful;
mod subresources;
mod watch;

use libtest_mimic::{Failed, Trial};

use crate::scene::{Case, Scene};
use crate::subject::{Subject, block_on};

/// Each case on each subject, named `subject::battery::topic::case`.
pub(crate) fn trials() -> Vec<Trial> {
    let subjects = [Subject::Embedded, Subject::Real];
    let trials = |subject| cases().into_iter().map(move |case| trial(subject, case));
    subjects.into_iter().flat_map(trials).collect()
}

fn cases() -> Vec<Case> {
    [
        create::cases(),
        read::cases(),
        selectors::cases(),
        watch::cases(),
        replace::cases(),
        patches::cases(),
        apply::cases(),
        dry_run::cases(),
        schema::cases(),
        subresources::cases(),
        delete::cases(),
        collection::cases(),
        definitions::cases(),
        kinds::cases(),
        output::cases(),
        discovery::cases(),
        builtin::cases(),
        refusals::cases(),
        own_kinds::cases(),
        differences::cases(),
        kubectl::cases(),
        stateful::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn trial(subject: Subject, case: Case) -> Trial {
    Trial::test(format!("{}::{}", subject.as_str(), case.name), move || {
        let http = subject.http().map_err(Failed::from)?;
        block_on(async move { (case.run)(Scene::new(http, subject).await).await });
        Ok(())
    })
}

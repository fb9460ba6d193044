//! How the deletions of objects came about: asked once for all objects of a kind in a namespace that were
//! seen to be deleted by then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bindery_core::{Kind, ObjectRef};
use bindery_sources::{Cause, Id};

use crate::cluster::Error;
use crate::context::Context;

/// Kinds in namespaces of which an answer is kept. Beyond that all are asked anew.
const ANSWERS_MAX: usize = 1_000;

/// The newest answer for each kind in each namespace. Sights of deletions and questions are numbered in one
/// row, so that an answer counts only for what was seen before it was asked for.
#[derive(Default)]
pub(crate) struct Deletions {
    count: u64,
    answers: BTreeMap<(Kind, Arc<str>), (u64, Cause)>,
}

impl Deletions {
    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// What was asked after a deletion was seen.
    fn answer(&self, object: &ObjectRef, seen: u64) -> Option<Cause> {
        let (asked, cause) = self.answers.get(&place(object))?;
        (*asked > seen).then_some(*cause)
    }

    fn keep(&mut self, object: &ObjectRef, asked: u64, cause: Cause) {
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.clear();
        }
        self.answers.insert(place(object), (asked, cause));
    }
}

fn place(object: &ObjectRef) -> (Kind, Arc<str>) {
    (object.kind, Arc::clone(&object.namespace))
}

/// Finds out how the deletion of an object came about.
///
/// Cancellation: nothing was written; the next reconcile asks again.
pub(crate) async fn fetch_cause(object: &Id, ctx: &Context) -> Result<Cause, Error> {
    let namespace = ctx.cluster.fetch_namespace(object).await?;
    let definition = ctx.cluster.fetch_definition(object).await?;
    Ok(Cause::of(namespace, definition))
}

/// Notes on a publishing object how its deletion came about.
///
/// Cancellation: as above.
pub(crate) async fn note_cause(object: &Id, ctx: &Context) -> Result<(), Error> {
    let (asked, known) = {
        let mut state = ctx.state();
        let progress = state.progress.get(object);
        let seen = progress.map_or(0, |progress| progress.deletion_seen());
        let known = state.deletions.answer(object, seen);
        (state.deletions.number(), known)
    };
    let cause = match known {
        Some(cause) => cause,
        None => fetch_cause(object, ctx).await?,
    };
    let mut state = ctx.state();
    if known.is_none() {
        state.deletions.keep(object, asked, cause);
    }
    if let Some(progress) = state.progress.get_mut(object) {
        progress.set_cause(cause);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bindery_core::Kind;

    use super::*;

    #[test]
    fn an_answer_counts_for_what_was_seen_before_it_was_asked_for() {
        let object = |namespace: &str| ObjectRef {
            kind: Kind::ARecord,
            namespace: namespace.into(),
            name: "www".into(),
            uid: "1".into(),
        };
        let mut deletions = Deletions::default();
        let seen = deletions.number();
        let asked = deletions.number();
        let later = deletions.number();
        deletions.keep(&object("team"), asked, Cause::ByName);
        assert_eq!(deletions.answer(&object("team"), seen), Some(Cause::ByName));
        assert_eq!(deletions.answer(&object("team"), later), None);
        assert_eq!(deletions.answer(&object("other"), seen), None);
        for number in 0..=ANSWERS_MAX {
            deletions.keep(&object(&format!("n{number}")), asked, Cause::ByName);
        }
        assert!(deletions.answers.len() <= ANSWERS_MAX);
    }
}

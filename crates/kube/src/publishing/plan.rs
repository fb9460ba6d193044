//! What is to be done next for an object.

use std::hash::{DefaultHasher, Hash, Hasher};

use bindery_core::zones::Going;
use bindery_core::{Adoption, GroupDeclaration};
use bindery_sources::{Decision, Life, MetadataPatch, NextAct};

use super::Valid;
use super::report::Report;
use crate::state::Submission;

/// What is to be done next.
pub(super) enum PublishingPlan {
    /// It is gone, and nothing is left of it.
    Forget,
    /// Its metadata has to be written before anything else.
    WriteMetadata(MetadataPatch),
    /// What it no longer owns is gone from DNS, which its metadata is to say.
    CleanUp(MetadataPatch),
    /// How its deletion came about has to be asked before this goes to the engine.
    Ask(Vec<GroupDeclaration>, u64),
    /// Its claims go to the engine; the number stands for their content.
    Submit(Vec<GroupDeclaration>, u64),
    /// Its author is to be told.
    Report(Box<Report>),
    /// Nothing, until something changes.
    Rest,
}

/// What is to be done next for an object.
pub(super) fn plan(valid: Option<Valid<'_>>) -> PublishingPlan {
    let Some(valid) = valid else {
        return PublishingPlan::Forget;
    };
    let (meta, progress) = (valid.observed.meta, valid.observed.progress);
    let submission = progress.map_or(Submission::Nothing, |progress| progress.submission);
    let content = content(&valid.decision, meta.map_or(0, |meta| meta.generation));
    let is_withdrawn = progress.is_some_and(|progress| progress.withdrawn);
    let receipt = progress.and_then(|progress| progress.receipt.clone());
    match (&valid.decision.next, submission) {
        (NextAct::WriteMetadata(patch), _) => PublishingPlan::WriteMetadata(patch.clone()),
        (NextAct::AwaitAuthor, Submission::Withheld(reported)) if reported == content => {
            PublishingPlan::Rest
        }
        (NextAct::AwaitAuthor, _) => {
            PublishingPlan::Report(Box::new(Report::withheld(valid, content)))
        }
        (NextAct::Declare(declarations), _) if is_unsaid(declarations) => {
            PublishingPlan::Ask(declarations.clone(), content)
        }
        (NextAct::Declare(_), Submission::Declared(declared)) if declared == content => {
            match (receipt, meta.map(|meta| meta.life)) {
                // What vanished has no status; it is only waited for.
                (_, None) if is_withdrawn => PublishingPlan::Forget,
                (_, None) => PublishingPlan::Rest,
                (Some(receipt), Some(_)) => {
                    PublishingPlan::Report(Box::new(Report::received(valid, content, receipt)))
                }
                (None, Some(life)) => match &valid.decision.cleanup {
                    Some(patch) if is_withdrawn => PublishingPlan::CleanUp(patch.clone()),
                    Some(_) | None if life == Life::Deleting => PublishingPlan::Rest,
                    Some(_) | None => {
                        PublishingPlan::Report(Box::new(Report::early(valid, content)))
                    }
                },
            }
        }
        (NextAct::Declare(declarations), _) => {
            PublishingPlan::Submit(declarations.clone(), content)
        }
    }
}

/// Whether something is to go, and nobody knows yet by whose word.
fn is_unsaid(declarations: &[GroupDeclaration]) -> bool {
    let mut parts = declarations.iter().map(|(_, declaration)| declaration);
    parts.any(|one| one.going == Going::Unsaid && !one.published.is_empty())
}

/// A number for what an object claims and what is reported about it.
fn content(decision: &Decision, generation: i64) -> u64 {
    let mut hasher = DefaultHasher::new();
    generation.hash(&mut hasher);
    for zone in &decision.zones {
        zone.hash(&mut hasher);
    }
    for problem in &decision.problems {
        problem.to_string().hash(&mut hasher);
        problem.reason.hash(&mut hasher);
    }
    let declarations = match &decision.next {
        NextAct::Declare(declarations) => &declarations[..],
        NextAct::AwaitAuthor | NextAct::WriteMetadata(_) => &[],
    };
    for (group, declaration) in declarations {
        group.hash(&mut hasher);
        for claim in &declaration.claims {
            claim.zone.hash(&mut hasher);
            claim.key.hash(&mut hasher);
            claim.ttl.hash(&mut hasher);
            claim.data.hash(&mut hasher);
            claim.field.hash(&mut hasher);
        }
        "published".hash(&mut hasher);
        declaration.published.hash(&mut hasher);
        declaration.since.hash(&mut hasher);
        declaration.going.hash(&mut hasher);
        (declaration.adoption == Adoption::Take).hash(&mut hasher);
    }
    hasher.finish()
}

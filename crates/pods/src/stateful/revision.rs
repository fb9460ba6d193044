//! Revisions: what the template of a StatefulSet was, kept in ControllerRevision objects.

use std::sync::Arc;

use bindery_core::backoff::jitter_seed;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::json;

use super::make;

/// Letters and digits that make no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Letters of a hash: 27^10 is about 2^47, for the few templates that a set ever has.
const HASH_LEN: usize = 10;

/// Old revisions that are kept where the set does not say how many.
const HISTORY_LEN: i32 = 10;

/// A template of a set, and the name that it goes by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) template: PodTemplateSpec,
}

/// The two revisions that pods of a set may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revisions {
    /// What pods had before the update that is under way; the same as `update` if none is.
    pub(super) current: Revision,
    /// What pods are to have.
    pub(super) update: Revision,
}

/// What the revisions of a set are, and what has to be written down or can be forgotten.
pub(super) struct RevisionHistory {
    pub(super) revisions: Revisions,
    /// The revision of the template as it is, if nobody wrote it down yet.
    pub(super) missing: Option<ControllerRevision>,
    /// Names of revisions that are beyond the limit.
    pub(super) surplus: Vec<String>,
}

/// Reads the revisions of a set from its template, its status and what was written down.
pub(super) fn history(set: &StatefulSet, kept: &[Arc<ControllerRevision>]) -> RevisionHistory {
    let update = revision(set, set.spec.template.clone());
    let named = |name: &str| {
        kept.iter()
            .find(|one| one.metadata.name.as_deref() == Some(name))
    };
    let told = set
        .status
        .as_ref()
        .and_then(|status| status.current_revision.as_deref());
    let current = told
        .and_then(named)
        .and_then(|kept| read(kept))
        .unwrap_or_else(|| update.clone());
    let missing = match named(&update.name) {
        Some(_) => None,
        None => Some(written(set, &update, kept)),
    };
    let surplus = surplus(set, kept, [&current.name, &update.name]);
    RevisionHistory {
        revisions: Revisions { current, update },
        missing,
        surplus,
    }
}

fn revision(set: &StatefulSet, template: PodTemplateSpec) -> Revision {
    let text = serde_json::to_vec(&template).unwrap_or_default();
    let mut number = jitter_seed(&text);
    let mut hash = String::new();
    for _ in 0..HASH_LEN {
        let index = usize::try_from(number % 27).unwrap_or_default();
        hash.push(char::from(ALPHABET[index]));
        number /= 27;
    }
    let set = set.metadata.name.as_deref().unwrap_or_default();
    Revision {
        name: format!("{set}-{hash}"),
        template,
    }
}

fn read(kept: &ControllerRevision) -> Option<Revision> {
    let template = kept.data.0.get("spec")?.get("template")?.clone();
    Some(Revision {
        name: kept.metadata.name.clone()?,
        template: serde_json::from_value(template).ok()?,
    })
}

fn written(
    set: &StatefulSet,
    revision: &Revision,
    kept: &[Arc<ControllerRevision>],
) -> ControllerRevision {
    let last = kept.iter().filter_map(|one| one.revision).max();
    let template = set.spec.template.metadata.as_ref();
    let labels = template.and_then(|meta| meta.labels.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision.name.clone()),
            namespace: set.metadata.namespace.clone(),
            labels,
            owner_references: Some(vec![make::owner(set)]),
            ..ObjectMeta::default()
        },
        revision: Some(last.unwrap_or(0) + 1),
        data: RawExtension(json!({"spec": {"template": revision.template}})),
    }
}

/// The oldest revisions that no pod may have any more.
fn surplus(set: &StatefulSet, kept: &[Arc<ControllerRevision>], live: [&String; 2]) -> Vec<String> {
    let limit = set.spec.revision_history_limit;
    let limit = usize::try_from(limit.unwrap_or(HISTORY_LEN)).unwrap_or_default();
    let mut old: Vec<(i64, String)> = kept
        .iter()
        .filter_map(|one| Some((one.revision?, one.metadata.name.clone()?)))
        .filter(|(_, name)| !live.contains(&name))
        .collect();
    old.sort();
    let beyond = old.len().saturating_sub(limit);
    old.into_iter().take(beyond).map(|(_, name)| name).collect()
}

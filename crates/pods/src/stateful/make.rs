//! What a StatefulSet makes: pods and claims, from its templates.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::revision::Revision;

/// The label that says by which revision a pod was made.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// The pod of an ordinal, by a revision.
pub(super) fn pod(set: &StatefulSet, ordinal: i32, revision: &Revision) -> Pod {
    let template = revision.template.clone();
    let given = template.metadata.unwrap_or_default();
    let name = pod_name(set, ordinal);
    let mut labels = given.labels.unwrap_or_default();
    labels.insert(INDEX_LABEL.to_owned(), ordinal.to_string());
    labels.insert(NAME_LABEL.to_owned(), name.clone());
    labels.insert(REVISION_LABEL.to_owned(), revision.name.clone());
    let mut spec = template.spec.unwrap_or_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|it| !it.is_empty());
    let claimed = claim_templates(set);
    let is_claimed = |volume: &Volume| claimed.iter().any(|one| one.0 == volume.name);
    let mut volumes = spec.volumes.unwrap_or_default();
    volumes.retain(|volume| !is_claimed(volume));
    let claim_volumes = claimed.iter().map(|(template, _)| Volume {
        name: template.clone(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    });
    spec.volumes = Some(claim_volumes.chain(volumes).collect());
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![owner(set)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// The claims of an ordinal.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let labels = &set.spec.selector.match_labels;
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let policy = policy.and_then(|policy| policy.when_deleted.as_deref());
    let goes_along = policy == Some("Delete");
    let templates = claim_templates(set).into_iter();
    let made = templates.map(|(name, template)| PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(set, &name, ordinal)),
            namespace: set.metadata.namespace.clone(),
            labels: labels.clone(),
            annotations: template.metadata.annotations.clone(),
            owner_references: goes_along.then(|| vec![owner(set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    });
    made.collect()
}

/// Which ordinal of the set a pod is, if it is one of its pods by name.
pub(super) fn ordinal(set: &StatefulSet, pod_name: &str) -> Option<i32> {
    let rest = pod_name.strip_prefix(set.metadata.name.as_deref()?)?;
    let digits = rest.strip_prefix('-')?;
    let number: i32 = digits.parse().ok()?;
    // `web-01` and `web-+1` are not names that we would give.
    (number.to_string() == digits).then_some(number)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!(
        "{}-{ordinal}",
        set.metadata.name.as_deref().unwrap_or_default()
    )
}

/// Says that an object is the set's.
pub(super) fn owner(set: &StatefulSet) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "StatefulSet".to_owned(),
        name: set.metadata.name.clone().unwrap_or_default(),
        uid: set.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> String {
    format!("{template}-{}", pod_name(set, ordinal))
}

fn claim_templates(set: &StatefulSet) -> Vec<(String, &PersistentVolumeClaim)> {
    let templates = set.spec.volume_claim_templates.iter();
    let named = templates.flatten().filter_map(|template| {
        let name = template.metadata.name.clone()?;
        Some((name, template))
    });
    named.collect()
}

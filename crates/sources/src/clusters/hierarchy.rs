//! From a cluster-wide declaration to its cluster, and from a cluster to its instances.

use std::collections::BTreeSet;

use bindery_api::{Bind9InstanceSpec, ClusterConfig, ServerSet};
use bindery_core::{Reason, ServerRole};
use serde_json::{Value, json};

use super::conditions::{Rollup, Said, encompassing};
use super::cover::covers;
use super::labels::{
    CLUSTER_LABEL, INDEX_ANNOTATION, MANAGED_BY_LABEL, PARENT_GENERATION_ANNOTATION, PART_OF,
    PART_OF_LABEL, ROLE_LABEL,
};
use super::pods::degraded;

const API_VERSION: &str = "bindy.firestoned.io/v1beta1";
/// How many servers of a role there are where its set says nothing.
const REPLICAS_DEFAULT: i64 = 1;

/// A cluster as its instances are planned from it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Who it is.
    pub uid: &'a str,
    /// The generation of its spec.
    pub generation: i64,
    /// What it declares.
    pub config: &'a ClusterConfig,
}

/// An instance as it stands.
#[derive(Clone, Debug, Default)]
pub struct InstanceView {
    /// Its name.
    pub name: String,
    /// The number that its annotation has.
    pub index: Option<usize>,
    /// Whether it is being deleted.
    pub is_leaving: bool,
    /// Whether its status speaks of its present spec and of the cluster that it is to follow.
    pub is_settled: bool,
    /// What its `Ready` says: whether it holds, why, and the sentence.
    pub ready: Option<(bool, Reason, String)>,
    /// How many of its pods are ready, and how many there are to be.
    pub pods: (usize, usize),
    /// The object, for what it carries.
    pub object: Value,
}

impl InstanceView {
    fn is_ready(&self) -> bool {
        self.is_settled && self.ready.as_ref().is_some_and(|(holds, ..)| *holds)
    }
}

/// What is to be done about the instances of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstancePlan {
    /// Objects to be created or changed.
    pub apply: Vec<Value>,
    /// Names of instances to be deleted now.
    pub remove: Vec<String>,
    /// How many instances there are to be.
    pub total: usize,
}

/// Plans the instances of a cluster: new ones at once, changes to old ones one after the other, and of what is
/// too many the highest number of each role first.
#[must_use]
pub fn plan_instances(cluster: &ClusterView<'_>, known: &[InstanceView]) -> InstancePlan {
    let mut plan = InstancePlan::default();
    let mut taken: BTreeSet<usize> = known.iter().filter_map(|one| one.index).collect();
    let mut wanted = BTreeSet::new();
    let mut outdated = Vec::new();
    for (role, set) in roles(cluster.config) {
        for number in 0..replicas(set) {
            let name = format!("{}-{}-{number}", cluster.name, role.as_str());
            wanted.insert(name.clone());
            let known = known.iter().find(|one| one.name == name);
            let index = known.and_then(|one| one.index).unwrap_or_else(|| {
                let free = (0..=taken.len())
                    .find(|index| !taken.contains(index))
                    .unwrap_or_default();
                taken.insert(free);
                free
            });
            let object = instance(cluster, role, &name, index);
            match known {
                None => plan.apply.push(object),
                // Its name is free when it is gone.
                Some(known) if known.is_leaving => {}
                Some(known) if !covers(&known.object, &object) => outdated.push((known, object)),
                Some(_) => {}
            }
        }
    }
    plan.total = wanted.len();
    plan.apply.extend(next_change(known, outdated));
    plan.remove = surplus(known, &wanted);
    plan
}

/// Of the instances that have to change, the one whose turn it is: one that does not serve anyway, else one
/// while all others do.
fn next_change(known: &[InstanceView], outdated: Vec<(&InstanceView, Value)>) -> Option<Value> {
    let is_steady = known
        .iter()
        .filter(|one| !one.is_leaving)
        .all(InstanceView::is_ready);
    let mut outdated = outdated.into_iter();
    if is_steady {
        return outdated.next().map(|(_, object)| object);
    }
    let broken = outdated
        .find(|(one, _)| one.is_settled && one.ready.as_ref().is_some_and(|(holds, ..)| !holds));
    broken.map(|(_, object)| object)
}

/// The next instance of each role that is too many; the one after it when that is gone.
fn surplus(known: &[InstanceView], wanted: &BTreeSet<String>) -> Vec<String> {
    let mut remove = Vec::new();
    for role in [ServerRole::Primary, ServerRole::Secondary] {
        let is_of_role = |one: &&InstanceView| one.object["spec"]["role"] == role.as_str();
        let mut extra: Vec<&InstanceView> = known
            .iter()
            .filter(|one| !wanted.contains(&one.name))
            .filter(is_of_role)
            .collect();
        extra.sort_by_key(|one| (one.index, number(&one.name)));
        let last = extra
            .last()
            .filter(|_| !extra.iter().any(|one| one.is_leaving));
        remove.extend(last.map(|one| one.name.clone()));
    }
    remove
}

fn number(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

fn roles(config: &ClusterConfig) -> [(ServerRole, Option<&ServerSet>); 2] {
    [
        (ServerRole::Primary, config.primary.as_ref()),
        (ServerRole::Secondary, config.secondary.as_ref()),
    ]
}

/// A role that is not declared has no server.
fn replicas(set: Option<&ServerSet>) -> i64 {
    set.map_or(0, |set| set.replicas.unwrap_or(REPLICAS_DEFAULT))
}

fn instance(cluster: &ClusterView<'_>, role: ServerRole, name: &str, index: usize) -> Value {
    let config = cluster.config;
    let (_, set) = roles(config)[usize::from(role == ServerRole::Secondary)];
    let mut labels = json!({
        MANAGED_BY_LABEL: "Bind9Cluster",
        CLUSTER_LABEL: cluster.name,
        ROLE_LABEL: role.as_str(),
        PART_OF_LABEL: PART_OF,
    });
    for (name, value) in set.into_iter().flat_map(|set| &set.labels) {
        // Ours are how instances are found.
        if labels.get(name).is_none() {
            labels[name] = json!(value);
        }
    }
    let key = set.and_then(|set| set.rndc_key.clone());
    let global = config.global.as_ref();
    let spec = Bind9InstanceSpec {
        cluster_ref: cluster.name.to_owned(),
        role: role.as_str().to_owned(),
        replicas: Some(1),
        version: config.version.clone(),
        image: config.image.clone(),
        config_map_refs: config.config_map_refs.clone(),
        volumes: config.volumes.clone(),
        volume_mounts: config.volume_mounts.clone(),
        rndc_secret_ref: set
            .and_then(|set| set.rndc_secret_ref.clone())
            .or_else(|| global.and_then(|global| global.rndc_secret_ref.clone())),
        rndc_key: key,
        storage: config.storage.clone(),
        bindcar_config: global.and_then(|global| global.bindcar_config.clone()),
        ..Bind9InstanceSpec::default()
    };
    json!({
        "apiVersion": API_VERSION,
        "kind": "Bind9Instance",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": labels,
            "annotations": {
                INDEX_ANNOTATION: index.to_string(),
                PARENT_GENERATION_ANNOTATION: cluster.generation.to_string(),
            },
            "ownerReferences": [owner("Bind9Cluster", cluster.name, cluster.uid)],
        },
        "spec": spec,
    })
}

/// The reference of a child to the object that made it.
pub(super) fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// The cluster of a cluster-wide declaration.
#[must_use]
pub fn cluster_of_provider(
    (kind, name, uid): (&str, &str, &str),
    namespace: &str,
    config: &ClusterConfig,
) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Bind9Cluster",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { MANAGED_BY_LABEL: kind, PART_OF_LABEL: PART_OF },
            "ownerReferences": [owner(kind, name, uid)],
        },
        "spec": config,
    })
}

/// The conditions of a cluster.
#[must_use]
pub fn cluster_rollup(total: usize, known: &[InstanceView], not_acted_on: &[String]) -> Rollup {
    let mut present: Vec<&InstanceView> = known.iter().filter(|one| !one.is_leaving).collect();
    present.sort_by_key(|one| (one.index, one.name.clone()));
    let ready = present.iter().filter(|one| one.is_ready()).count();
    let mut whole = encompassing(ready.min(total), total, "instances");
    let has_word = |one: &&InstanceView| one.ready.is_some();
    // One that has not said anything yet has just come.
    let is_scaling =
        present.len() != total || present.len() != known.len() || !present.iter().all(has_word);
    let waits = |one: &InstanceView| {
        let moving = [Reason::Progressing, Reason::PodsPending];
        // Of a single pod that is the reason as long as it only comes up: what fails says how.
        let comes = |reason: &Reason| *reason == Reason::NotReady && one.pods.1 <= 1;
        let ready = one.ready.as_ref();
        !one.is_settled
            || ready.is_none_or(|(_, reason, _)| moving.contains(reason) || comes(reason))
    };
    if is_scaling && present.iter().any(has_word) {
        whole = Said::new(
            "Ready",
            false,
            Reason::InstancesScaling,
            format!(
                "{ready}/{total} instances are ready; there are {}",
                known.len()
            ),
        );
    } else if total > 0 && !present.iter().any(has_word) {
        let names: Vec<&str> = present.iter().map(|one| one.name.as_str()).collect();
        let message = format!("{total} instances are created: {}", names.join(", "));
        whole = Said::new("Ready", false, Reason::InstancesCreated, message);
    } else if ready == 0 && total > 0 && present.iter().all(|one| waits(one)) {
        whole.reason = Reason::InstancesPending;
    }
    let mut conditions = vec![whole];
    conditions.extend(degraded(not_acted_on));
    conditions.extend(present.iter().map(|one| child(one)));
    Rollup {
        conditions,
        ready,
        total,
    }
}

fn child(one: &InstanceView) -> Said {
    let kind = format!("Bind9Instance-{}", one.index.unwrap_or_default());
    let (name, (ready, total)) = (&one.name, one.pods);
    match &one.ready {
        Some((true, ..)) if one.is_settled => {
            let message = format!("Instance {name} is ready ({ready}/{total} pods)");
            Said::new(kind, true, Reason::Ready, message)
        }
        Some((false, reason, sentence)) if *reason != Reason::PartiallyReady => {
            let message =
                format!("Instance {name} is not ready ({ready}/{total} pods): {sentence}");
            Said::new(kind, false, *reason, message)
        }
        Some((false, reason, _)) => {
            let message = format!("Instance {name} is progressing ({ready}/{total} pods)");
            Said::new(kind, false, *reason, message)
        }
        Some((true, ..)) | None => {
            let message = format!("Instance {name} is progressing ({ready}/{total} pods)");
            Said::new(kind, false, Reason::Progressing, message)
        }
    }
}

/// The conditions of a cluster-wide declaration: its clusters, by name, and whether each is ready.
#[must_use]
pub fn provider_rollup(clusters: &[(String, bool)]) -> Rollup {
    let total = clusters.len();
    let ready = clusters.iter().filter(|(_, ready)| *ready).count();
    let names = |wanted: bool| {
        let some = clusters.iter().filter(|(_, ready)| *ready == wanted);
        let names: Vec<&str> = some.map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let (holds, reason, message) = if total == 0 {
        (
            false,
            Reason::NoChildren,
            "No clusters are there yet".to_owned(),
        )
    } else if ready == total {
        let message = format!("All {total} clusters are ready: {}", names(true));
        (true, Reason::ClustersReady, message)
    } else {
        let message = format!(
            "{ready}/{total} clusters are ready; not ready: {}",
            names(false)
        );
        (false, Reason::ClustersProgressing, message)
    };
    Rollup {
        conditions: vec![Said::new("Ready", holds, reason, message)],
        ready,
        total,
    }
}

#[cfg(test)]
mod tests;

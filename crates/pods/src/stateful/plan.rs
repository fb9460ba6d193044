//! What a StatefulSet needs next, decided from what is there: no client, no clock.
//!
//! The rules are those of Kubernetes' own controller, so that a set behaves alike on both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::make::{self, REVISION_LABEL};
use super::revision::Revisions;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    CreateClaim(Box<PersistentVolumeClaim>),
    CreatePod(Box<Pod>),
    /// Only the pod with this UID.
    DeletePod {
        name: String,
        uid: String,
    },
    DeleteClaim {
        name: String,
    },
}

/// What to do for a set, in this order, and what to say of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetPlan {
    pub(super) acts: Vec<Act>,
    pub(super) status: StatefulSetStatus,
}

/// What is there of a set.
pub(super) struct SetObserved<'a> {
    pub(super) set: &'a StatefulSet,
    /// The pods that the set controls.
    pub(super) pods: &'a [Arc<Pod>],
    /// Names of claims in the namespace of the set.
    pub(super) claims: &'a BTreeSet<String>,
    pub(super) revisions: &'a Revisions,
}

/// Decides what a set needs next.
///
/// Guarantees: applying the plan and planning again leads to the declared replicas, and then to an empty plan.
pub(super) fn plan(observed: &SetObserved<'_>) -> SetPlan {
    let terms = Terms::of(observed.set);
    let mut work = Work {
        observed,
        acts: Vec::new(),
        status: counted(observed),
    };
    let mut slots: BTreeMap<i32, &Pod> = BTreeMap::new();
    let mut condemned: BTreeMap<i32, &Pod> = BTreeMap::new();
    for pod in observed.pods {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match make::ordinal(observed.set, name) {
            Some(ordinal) if terms.range().contains(&ordinal) => slots.insert(ordinal, pod),
            Some(ordinal) => condemned.insert(ordinal, pod),
            None => None,
        };
    }
    if observed.set.metadata.deletion_timestamp.is_none() {
        let settled = work.fill(&terms, &slots)
            && work.shrink(&terms, &slots, &condemned)
            && work.roll(&terms, &slots);
        if settled {
            work.forget_claims(&terms);
        }
    }
    work.complete(&terms);
    SetPlan {
        acts: work.acts,
        status: work.status,
    }
}

/// What the spec asks for, with what Kubernetes takes where it says nothing.
struct Terms {
    start: i32,
    replicas: i32,
    is_ordered: bool,
    /// The first ordinal that is updated; none if pods are updated only when somebody deletes them.
    partition: Option<i32>,
    forgets_claims: bool,
}

impl Terms {
    fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.clone();
        let start = spec
            .ordinals
            .and_then(|ordinals| ordinals.start)
            .unwrap_or(0);
        let strategy = spec.update_strategy.unwrap_or_default();
        let rolls = strategy.type_.as_deref() != Some("OnDelete");
        let partition = strategy
            .rolling_update
            .as_ref()
            .map(|it| it.partition.unwrap_or(0));
        let retention = spec
            .persistent_volume_claim_retention_policy
            .unwrap_or_default();
        Self {
            start,
            replicas: spec.replicas.unwrap_or(1).max(0),
            is_ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
            partition: rolls.then(|| start + partition.unwrap_or(0)),
            forgets_claims: retention.when_scaled.as_deref() == Some("Delete"),
        }
    }

    fn range(&self) -> std::ops::Range<i32> {
        self.start..self.start.saturating_add(self.replicas)
    }
}

struct Work<'a> {
    observed: &'a SetObserved<'a>,
    acts: Vec<Act>,
    status: StatefulSetStatus,
}

impl Work<'_> {
    /// Makes the pods that are missing, lowest ordinal first. False if something must be waited for.
    fn fill(&mut self, terms: &Terms, slots: &BTreeMap<i32, &Pod>) -> bool {
        for ordinal in terms.range() {
            let Some(pod) = slots.get(&ordinal) else {
                self.create(terms, ordinal);
                if terms.is_ordered {
                    return false;
                }
                continue;
            };
            if has_ended(pod) && !is_terminating(pod) {
                self.delete(pod);
                if terms.is_ordered {
                    return false;
                }
                continue;
            }
            self.claim(ordinal);
            if terms.is_ordered && !is_healthy(pod) {
                return false;
            }
        }
        true
    }

    /// Deletes pods beyond the replicas, highest ordinal first. False if something must be waited for.
    fn shrink(
        &mut self,
        terms: &Terms,
        slots: &BTreeMap<i32, &Pod>,
        condemned: &BTreeMap<i32, &Pod>,
    ) -> bool {
        // The unhealthy pod that must not stop its own deletion: the one of the lowest ordinal.
        let sick = slots
            .values()
            .chain(condemned.values())
            .find(|pod| !is_healthy(pod));
        for pod in condemned.values().rev() {
            if is_terminating(pod) {
                if terms.is_ordered {
                    return false;
                }
                continue;
            }
            let is_sick = sick.is_some_and(|sick| sick.metadata.name == pod.metadata.name);
            if terms.is_ordered && !is_healthy(pod) && !is_sick {
                return false;
            }
            self.delete(pod);
            if terms.is_ordered {
                return false;
            }
        }
        true
    }

    /// Deletes the next pod of an older revision, highest ordinal first and one at a time.
    fn roll(&mut self, terms: &Terms, slots: &BTreeMap<i32, &Pod>) -> bool {
        let Some(first) = terms.partition else {
            return true;
        };
        let update = &self.observed.revisions.update.name;
        for pod in slots.range(first..).rev().map(|(_, pod)| pod) {
            if revision_of(pod) != Some(update) && !is_terminating(pod) {
                self.delete(pod);
                return false;
            }
            if !is_healthy(pod) {
                return false;
            }
        }
        true
    }

    /// Once every pod has the new revision and is ready, it is the current one.
    fn complete(&mut self, terms: &Terms) {
        let status = &mut self.status;
        let (updated, ready) = (status.updated_replicas, status.ready_replicas);
        let all = Some(status.replicas);
        if terms.partition.is_some() && updated == all && ready == all {
            status.current_revision = status.update_revision.clone();
            status.current_replicas = status.updated_replicas;
        }
    }

    fn create(&mut self, terms: &Terms, ordinal: i32) {
        self.claim(ordinal);
        let revisions = self.observed.revisions;
        let is_old = terms.partition.is_some_and(|first| ordinal < first);
        let revision = if is_old {
            &revisions.current
        } else {
            &revisions.update
        };
        let pod = make::pod(self.observed.set, ordinal, revision);
        self.acts.push(Act::CreatePod(Box::new(pod)));
        self.status.replicas += 1;
        if revision.name == revisions.current.name {
            add(&mut self.status.current_replicas, 1);
        }
        if revision.name == revisions.update.name {
            add(&mut self.status.updated_replicas, 1);
        }
    }

    fn claim(&mut self, ordinal: i32) {
        for claim in make::claims(self.observed.set, ordinal) {
            let name = claim.metadata.name.clone().unwrap_or_default();
            if !self.observed.claims.contains(&name) {
                self.acts.push(Act::CreateClaim(Box::new(claim)));
            }
        }
    }

    fn delete(&mut self, pod: &Pod) {
        let revisions = self.observed.revisions;
        if revision_of(pod) == Some(&revisions.current.name) {
            add(&mut self.status.current_replicas, -1);
        }
        if revision_of(pod) == Some(&revisions.update.name) {
            add(&mut self.status.updated_replicas, -1);
        }
        self.acts.push(Act::DeletePod {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
        });
    }

    /// Deletes the claims of ordinals that are gone, where the set says so.
    fn forget_claims(&mut self, terms: &Terms) {
        if !terms.forgets_claims {
            return;
        }
        let set = self.observed.set;
        let pods: BTreeSet<i32> = self
            .observed
            .pods
            .iter()
            .filter_map(|pod| make::ordinal(set, pod.metadata.name.as_deref()?))
            .collect();
        let templates: Vec<String> = make::claims(set, 0)
            .into_iter()
            .filter_map(|claim| claim.metadata.name?.strip_suffix("-0").map(str::to_owned))
            .collect();
        for name in self.observed.claims {
            let ordinal = templates.iter().find_map(|template| {
                let digits = name.strip_prefix(template)?.strip_prefix('-')?;
                let number: i32 = digits.parse().ok()?;
                (number.to_string() == digits).then_some(number)
            });
            let is_gone = |it: &i32| !terms.range().contains(it) && !pods.contains(it);
            if ordinal.is_some_and(|it| is_gone(&it)) {
                self.acts.push(Act::DeleteClaim { name: name.clone() });
            }
        }
    }
}

/// The status before anything is done.
fn counted(observed: &SetObserved<'_>) -> StatefulSetStatus {
    let revisions = observed.revisions;
    let before = observed.set.status.clone().unwrap_or_default();
    let count = |is: &dyn Fn(&Pod) -> bool| {
        let pods = observed.pods.iter().filter(|pod| is(pod));
        i32::try_from(pods.count()).unwrap_or(i32::MAX)
    };
    let of = |name: &String| {
        count(&|pod| !is_terminating(pod) && is_created(pod) && revision_of(pod) == Some(name))
    };
    let ready = count(&is_running_and_ready);
    StatefulSetStatus {
        observed_generation: observed.set.metadata.generation,
        replicas: count(&is_created),
        ready_replicas: Some(ready),
        available_replicas: Some(ready),
        current_replicas: Some(of(&revisions.current.name)),
        updated_replicas: Some(of(&revisions.update.name)),
        current_revision: Some(revisions.current.name.clone()),
        update_revision: Some(revisions.update.name.clone()),
        collision_count: before.collision_count.or(Some(0)),
        conditions: before.conditions,
    }
}

fn add(count: &mut Option<i32>, by: i32) {
    *count = Some(count.unwrap_or(0) + by);
}

fn revision_of(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL)
}

fn phase(pod: &Pod) -> &str {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

fn is_created(pod: &Pod) -> bool {
    !phase(pod).is_empty()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn is_running_and_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    phase(pod) == "Running" && ready
}

fn is_healthy(pod: &Pod) -> bool {
    is_running_and_ready(pod) && !is_terminating(pod)
}

//! StatefulSets against a small world in which pods come up when they are told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::plan::{Act, SetObserved, plan};
use super::{make, revision};

const SET: &str = "
metadata: {name: web, namespace: dns, uid: u, generation: 1}
spec:
  serviceName: web
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: bind9, image: 'bind9:1'}]
";

/// A set and what became of it.
struct World {
    set: StatefulSet,
    pods: BTreeMap<String, Pod>,
    claims: BTreeSet<String>,
    revisions: Vec<Arc<ControllerRevision>>,
    /// What was done, in words.
    story: Vec<String>,
    uids: u32,
}

impl World {
    fn new(more: &str) -> Self {
        let set = serde_saphyr::from_str(&format!("{SET}{more}")).expect("a fixture is a set");
        Self {
            set,
            pods: BTreeMap::new(),
            claims: BTreeSet::new(),
            revisions: Vec::new(),
            story: Vec::new(),
            uids: 0,
        }
    }

    /// One round of the controller; gives how much it did.
    fn step(&mut self) -> usize {
        let history = revision::history(&self.set, &self.revisions);
        self.revisions.extend(history.missing.map(Arc::new));
        self.revisions.retain(|one| {
            let name = one.metadata.name.as_ref();
            !name.is_some_and(|name| history.surplus.contains(name))
        });
        let pods: Vec<Arc<Pod>> = self.pods.values().cloned().map(Arc::new).collect();
        let planned = plan(&SetObserved {
            set: &self.set,
            pods: &pods,
            claims: &self.claims,
            revisions: &history.revisions,
        });
        self.set.status = Some(planned.status);
        let done = planned.acts.len();
        for act in planned.acts {
            self.act(act);
        }
        done
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::CreateClaim(claim) => {
                let name = claim.metadata.name.unwrap_or_default();
                self.story.push(format!("claim {name}"));
                self.claims.insert(name);
            }
            Act::CreatePod(mut pod) => {
                let name = pod.metadata.name.clone().unwrap_or_default();
                self.story.push(format!("+{name}:{}", image(&pod)));
                self.uids += 1;
                pod.metadata.uid = Some(self.uids.to_string());
                pod.status = Some(status("Pending", "False"));
                assert!(self.pods.insert(name, *pod).is_none(), "it is made once");
            }
            Act::DeletePod { name, uid } => {
                self.story.push(format!("-{name}"));
                let pod = self.pods.get_mut(&name).expect("only what is there goes");
                assert_eq!(pod.metadata.uid, Some(uid));
                assert!(pod.metadata.deletion_timestamp.is_none(), "it goes once");
                pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            }
            Act::DeleteClaim { name } => {
                self.story.push(format!("unclaim {name}"));
                assert!(self.claims.remove(&name));
            }
        }
    }

    /// What a kubelet does: pods come up, and those that are told to go are gone.
    fn kubelet(&mut self) {
        self.pods
            .retain(|_, pod| pod.metadata.deletion_timestamp.is_none());
        for pod in self.pods.values_mut() {
            pod.status = Some(status("Running", "True"));
        }
    }

    /// Steps and kubelets until nothing happens.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.kubelet();
            let before = self.set.status.clone();
            if self.step() == 0 && before == self.set.status {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.story);
    }

    fn scale(&mut self, replicas: i32) {
        self.set.spec.replicas = Some(replicas);
    }

    fn image(&mut self, image: &str) {
        let spec = self
            .set
            .spec
            .template
            .spec
            .as_mut()
            .expect("the fixture has one");
        spec.containers[0].image = Some(image.to_owned());
    }

    fn told(&mut self) -> String {
        std::mem::take(&mut self.story).join(" ")
    }

    /// Replicas, ready, current and updated, and whether both revisions are the same.
    fn counts(&self) -> (i32, i32, i32, i32, bool) {
        let status = self.set.status.clone().unwrap_or_default();
        (
            status.replicas,
            status.ready_replicas.unwrap_or(-1),
            status.current_replicas.unwrap_or(-1),
            status.updated_replicas.unwrap_or(-1),
            status.current_revision == status.update_revision,
        )
    }
}

fn status(phase: &str, ready: &str) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(vec![PodCondition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            ..PodCondition::default()
        }]),
        ..PodStatus::default()
    }
}

fn image(pod: &Pod) -> String {
    let image = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.containers.first()?.image.clone());
    image
        .unwrap_or_default()
        .trim_start_matches("bind9:")
        .to_owned()
}

#[test]
fn pods_come_in_order_each_when_the_one_before_is_ready() {
    let mut world = World::new("");
    world.step();
    assert_eq!(world.told(), "+web-0:1");
    world.step();
    assert_eq!(world.told(), "", "web-0 is not ready");
    world.kubelet();
    world.step();
    assert_eq!(world.told(), "+web-1:1");
    world.settle();
    assert_eq!(world.told(), "+web-2:1");
    assert_eq!(world.counts(), (3, 3, 3, 3, true));
}

#[test]
fn parallel_pods_come_and_go_together() {
    let mut world = World::new("  podManagementPolicy: Parallel\n");
    world.step();
    assert_eq!(world.told(), "+web-0:1 +web-1:1 +web-2:1");
    world.settle();
    world.scale(1);
    world.step();
    assert_eq!(world.told(), "-web-2 -web-1");
}

#[test]
fn the_highest_goes_first_and_alone() {
    let mut world = World::new("");
    world.settle();
    world.told();
    world.scale(0);
    world.step();
    assert_eq!(world.told(), "-web-2");
    world.step();
    assert_eq!(world.told(), "", "it is not gone yet");
    world.settle();
    assert_eq!(world.told(), "-web-1 -web-0");
    assert_eq!(world.counts(), (0, 0, 0, 0, true));
}

#[test]
fn a_new_image_goes_from_the_highest_to_the_lowest() {
    let mut world = World::new("");
    world.settle();
    world.told();
    world.image("bind9:2");
    world.step();
    assert_eq!(world.told(), "-web-2");
    assert_eq!(world.counts(), (3, 3, 2, 0, false));
    world.settle();
    assert_eq!(world.told(), "+web-2:2 -web-1 +web-1:2 -web-0 +web-0:2");
    assert_eq!(world.counts(), (3, 3, 3, 3, true));
    assert_eq!(world.revisions.len(), 2);
}

#[test]
fn below_the_partition_pods_keep_and_regain_the_old_image() {
    let update = "  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}\n";
    let mut world = World::new(update);
    world.settle();
    world.told();
    world.image("bind9:2");
    world.settle();
    assert_eq!(world.told(), "-web-2 +web-2:2");
    assert_eq!(world.counts(), (3, 3, 2, 1, false));
    world.pods.remove("web-0");
    world.settle();
    assert_eq!(world.told(), "+web-0:1");
}

#[test]
fn on_delete_waits_for_somebody_to_delete() {
    let mut world = World::new("  updateStrategy: {type: OnDelete}\n");
    world.settle();
    world.told();
    world.image("bind9:2");
    world.settle();
    assert_eq!(world.told(), "");
    world.pods.remove("web-1");
    world.settle();
    assert_eq!(world.told(), "+web-1:2");
}

#[test]
fn a_pod_that_does_not_become_ready_stops_the_rollout() {
    let mut world = World::new("");
    world.settle();
    world.image("bind9:2");
    world.step();
    world.kubelet();
    world.step();
    world.told();
    let pod = world.pods.get_mut("web-2").expect("it was made again");
    pod.status = Some(status("Running", "False"));
    assert_eq!(world.step(), 0, "web-1 is kept: {}", world.told());
}

#[test]
fn claims_are_made_before_their_pod_and_kept() {
    let mut world = World::new("  volumeClaimTemplates: [{metadata: {name: data}}]\n");
    world.scale(1);
    world.settle();
    assert_eq!(world.told(), "claim data-web-0 +web-0:1");
    let volumes = world.pods["web-0"]
        .spec
        .clone()
        .and_then(|spec| spec.volumes);
    let claim = volumes.and_then(|all| all[0].persistent_volume_claim.clone());
    assert_eq!(
        claim.map(|claim| claim.claim_name),
        Some("data-web-0".to_owned())
    );
    world.scale(0);
    world.settle();
    assert_eq!(world.told(), "-web-0");
    assert!(world.claims.contains("data-web-0"));
}

#[test]
fn claims_go_with_their_ordinal_where_the_set_says_so() {
    let mut world = World::new(
        "  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
  volumeClaimTemplates: [{metadata: {name: data}}]\n",
    );
    world.settle();
    world.scale(2);
    world.claims.insert("data-website-9".to_owned());
    world.told();
    world.settle();
    assert_eq!(world.told(), "-web-2 unclaim data-web-2");
}

#[test]
fn a_pod_that_failed_is_made_anew() {
    let mut world = World::new("");
    world.settle();
    world.told();
    let pod = world.pods.get_mut("web-1").expect("it is there");
    pod.status = Some(status("Failed", "False"));
    world.step();
    world.settle();
    assert_eq!(world.told(), "-web-1 +web-1:1");
}

#[test]
fn a_pod_is_its_sets_and_has_its_labels() {
    let mut world = World::new("");
    world.step();
    let pod = &world.pods["web-0"];
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(labels["app"], "web");
    assert!(labels[make::REVISION_LABEL].starts_with("web-"));
    let spec = pod.spec.clone().unwrap_or_default();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("web-0"), Some("web"))
    );
}

#[test]
fn only_names_that_a_set_gives_are_its_ordinals() {
    let world = World::new("");
    let ordinal = |name: &str| make::ordinal(&world.set, name);
    assert_eq!((ordinal("web-0"), ordinal("web-12")), (Some(0), Some(12)));
    for other in [
        "web",
        "web-",
        "web-01",
        "web-+1",
        "web-x",
        "website-0",
        "other-0",
    ] {
        assert_eq!(ordinal(other), None, "{other}");
    }
}

/// What a user or the world does to a set.
#[derive(Clone, Debug)]
enum Deed {
    Scale(i32),
    Image(u8),
    /// A round of the controller.
    Step,
    Kubelet,
    /// Somebody deletes a pod.
    Lose(usize),
    /// A pod is not ready any more.
    Sicken(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (0..5).prop_map(Deed::Scale),
        (1u8..4).prop_map(Deed::Image),
        Just(Deed::Step),
        Just(Deed::Step),
        Just(Deed::Kubelet),
        (0usize..5).prop_map(Deed::Lose),
        (0usize..5).prop_map(Deed::Sicken),
    ]
}

fn run(deed: &Deed, world: &mut World) {
    let nth = |world: &World, index: &usize| world.pods.keys().nth(*index).cloned();
    match deed {
        Deed::Scale(replicas) => world.scale(*replicas),
        Deed::Image(image) => world.image(&format!("bind9:{image}")),
        Deed::Step => drop(world.step()),
        Deed::Kubelet => world.kubelet(),
        Deed::Lose(index) => {
            if let Some(name) = nth(world, index) {
                world.pods.remove(&name);
            }
        }
        Deed::Sicken(index) => {
            if let Some(name) = nth(world, index)
                && let Some(pod) = world.pods.get_mut(&name)
            {
                pod.status = Some(status("Running", "False"));
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_a_set_comes_to_what_it_declares(
        is_parallel in any::<bool>(),
        deeds in prop::collection::vec(deed(), 0..30),
    ) {
        let policy = if is_parallel { "Parallel" } else { "OrderedReady" };
        let mut world = World::new(&format!("  podManagementPolicy: {policy}\n"));
        for deed in &deeds {
            run(deed, &mut world);
        }
        world.settle();
        let replicas = world.set.spec.replicas.unwrap_or_default();
        prop_assert_eq!(world.counts(), (replicas, replicas, replicas, replicas, true));
        let spec = world.set.spec.template.spec.clone().unwrap_or_default();
        let image = spec.containers[0].image.clone();
        for (ordinal, (name, pod)) in world.pods.iter().enumerate() {
            prop_assert_eq!(name, &format!("web-{ordinal}"));
            let spec = pod.spec.clone().unwrap_or_default();
            prop_assert_eq!(&spec.containers[0].image, &image);
        }
        prop_assert_eq!(world.step(), 0);
    }

    #[test]
    fn an_ordered_set_does_one_thing_at_a_time(deeds in prop::collection::vec(deed(), 0..30)) {
        let mut world = World::new("");
        for deed in &deeds {
            world.told();
            run(deed, &mut world);
            prop_assert!(world.story.len() <= 1, "{:?}", world.story);
        }
    }
}

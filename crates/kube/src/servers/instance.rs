//! The controller of instances: each has a configuration, keys, Services and a `StatefulSet`, and its pods
//! are the servers of zones.

mod copying;
mod given;
mod pod_view;
mod rollouts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bindery_api::{
    Bind9Config, Bind9InstanceSpec, ClusterConfig, InstanceStatus, OwnerReferenceStatus, ServerSet,
};
use bindery_core::{Group, Moment, Problem, ServerRole};
use bindery_engine::work::Requeue;
use bindery_sources::clusters::{
    ConfigFiles, INDEX_ANNOTATION, INSTANCE_FINALIZER, INSTANCE_LABEL, InstanceFacts,
    PARENT_GENERATION_ANNOTATION, PART_OF, PART_OF_LABEL, PodView, Said, SigningKeys, Workload,
    covers, default_policy, has_foreign_sidecar, instance_files, instance_rollup, kept_keys,
    key_secret_name, makes_no_keys, merge_conditions, merged, not_acted_on, volume_problems,
    workload,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::ApiError;
use super::cluster::{drop_finalizer, write_status};
use super::fleet::{self, LivePod, Member};
use super::keys::{self, InstanceKeys, KeyWork};
use super::store::{ObjectPlace, Sort, Store, whole};
use super::{ServerContext, Verdict, signing_keys, watching};
use copying::copies;
use pod_view::pod_view;

pub(super) use given::GivenFiles;
pub(super) use rollouts::Rollouts;

/// How often an instance is looked at though none of its objects changes: for its deadline, its zones and what it
/// copies. Where nothing is new nothing is written.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The file of zones of others.
const ZONES: &str = "named.conf.zones";
/// How many zones a status lists; all are counted.
const ZONES_LISTED_MAX: usize = 100;

/// What is known of an instance.
struct Observed {
    place: ObjectPlace,
    object: Arc<DynamicObject>,
    spec: Bind9InstanceSpec,
    /// Its cluster, as far as the instance may follow it already.
    cluster: Option<Parent>,
    secret: Option<Arc<DynamicObject>>,
    service: Option<Arc<DynamicObject>>,
    pods: Vec<Arc<DynamicObject>>,
}

/// The cluster of an instance.
struct Parent {
    object: Arc<DynamicObject>,
    config: ClusterConfig,
    /// Whether the instance was told to follow its present generation.
    is_followed: bool,
}

/// What is to be done for an instance.
#[derive(Default)]
struct Wanted {
    /// Objects that are not as they should be.
    objects: Vec<Value>,
    /// What is wrong with its configuration.
    problem: Option<String>,
    /// Objects of its own that are not to be any more.
    surplus: Vec<Arc<DynamicObject>>,
    /// How the replacement of its key stands.
    keys: Option<Said>,
    /// Why the keys that sign its zones are not kept.
    not_kept: Option<String>,
}

/// One round: observe, plan, apply, report.
pub(super) async fn reconcile(
    shared: &ServerContext,
    place: &ObjectPlace,
) -> Result<Requeue, ApiError> {
    let Some(observed) = observe(shared, place) else {
        fleet::set_member(shared, place, None);
        shared.probes.set(place, Vec::new());
        return Ok(Requeue::OnChange);
    };
    if observed.object.metadata.deletion_timestamp.is_some() {
        return leave(shared, &observed).await;
    }
    hold(shared, &observed).await?;
    let kept = Box::pin(keys::tend(shared, &observed.key_work())).await;
    let Some(observed) = observe(shared, place) else {
        return Ok(Requeue::OnChange);
    };
    let given = given::fetch(shared, &place.namespace, &observed.spec).await;
    let mut wanted = match &given {
        Ok(given) => plan(shared, &observed, given.as_ref()).await,
        // What runs goes on until they can be read.
        Err(_) => Wanted::default(),
    };
    let given = given.map(drop);
    rollouts::hold_back(shared, &observed, &mut wanted);
    let applied = apply(shared, &wanted).await;
    let kept = kept.map(|report| {
        wanted.problem = wanted.problem.take().or(report.problem);
        wanted.keys = report.said;
    });
    follow_pods(shared, place);
    let signing = keep_signing_keys(shared, &observed).await;
    let signing = signing.map(|trouble| wanted.not_kept = trouble);
    let Some(observed) = observe(shared, place) else {
        return Ok(Requeue::OnChange);
    };
    report(shared, &observed, &wanted).await?;
    kept?;
    applied?;
    signing?;
    given?;
    Ok(Requeue::At(Instant::now() + LOOK_AGAIN))
}

fn observe(shared: &ServerContext, place: &ObjectPlace) -> Option<Observed> {
    let store = shared.store();
    let object = store.get(Sort::Instance, place)?;
    let spec: Bind9InstanceSpec =
        serde_json::from_value(object.data["spec"].clone()).unwrap_or_default();
    let here = |name: &str| ObjectPlace::new(&place.namespace, name);
    let annotations = object.metadata.annotations.clone().unwrap_or_default();
    let followed = annotations.get(PARENT_GENERATION_ANNOTATION);
    let cluster = store.get(Sort::Cluster, &here(&spec.cluster_ref));
    let cluster = cluster.map(|cluster| Parent {
        config: serde_json::from_value(cluster.data["spec"].clone()).unwrap_or_default(),
        // One that nobody tells follows at once.
        is_followed: followed.is_none_or(|followed| {
            Some(followed.as_str())
                == cluster
                    .metadata
                    .generation
                    .map(|it| it.to_string())
                    .as_deref()
        }),
        object: cluster,
    });
    let is_ours = |pod: &&Arc<DynamicObject>| {
        let labels = pod.metadata.labels.as_ref();
        let instance = labels.and_then(|labels| labels.get(INSTANCE_LABEL));
        instance.is_some_and(|instance| **instance == *place.name)
    };
    let pods = store.in_namespace(Sort::Pod, &place.namespace);
    Some(Observed {
        secret: store.get(Sort::Secret, &here(&key_secret_name(&place.name, &spec))),
        service: store.get(Sort::Service, place),
        pods: pods.filter(is_ours).cloned().collect(),
        place: place.clone(),
        object,
        spec,
        cluster,
    })
}

impl Observed {
    fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    fn role(&self) -> ServerRole {
        if self.spec.role == ServerRole::Secondary.as_str() {
            ServerRole::Secondary
        } else {
            ServerRole::Primary
        }
    }

    /// The servers of its role, as its cluster declares them.
    fn set(&self) -> Option<&ServerSet> {
        let config = self.cluster.as_ref().map(|cluster| &cluster.config)?;
        match self.role() {
            ServerRole::Primary => config.primary.as_ref(),
            ServerRole::Secondary => config.secondary.as_ref(),
        }
    }

    fn files(&self) -> Result<ConfigFiles, Vec<Problem>> {
        let config = self.cluster.as_ref().map(|cluster| &cluster.config);
        instance_files(&self.spec, config)
    }

    /// Its configuration over that of its cluster.
    fn config(&self) -> Bind9Config {
        let cluster = self.cluster.as_ref().map(|cluster| &cluster.config);
        let global = cluster.and_then(|cluster| cluster.global.as_ref());
        merged(global, self.spec.config.as_ref())
    }

    /// What it asks for and does not get.
    fn not_acted_on(&self, wanted: &Wanted) -> Vec<String> {
        let mut told = not_acted_on(&self.place.namespace, &self.spec, &self.config());
        told.extend(wanted.not_kept.clone());
        told
    }

    /// Its keys, and what becomes of them.
    fn key_work(&self) -> KeyWork<'_> {
        let secret = key_secret_name(&self.place.name, &self.spec);
        let further = self.cluster.as_ref();
        let leaves = |pod: &&Arc<DynamicObject>| pod.metadata.deletion_timestamp.is_some();
        let pods = self.pods.iter().filter(|pod| !leaves(pod));
        KeyWork {
            instance: &self.object,
            spec: &self.spec,
            place: ObjectPlace::new(&self.place.namespace, &secret),
            metadata: secret_metadata(self),
            co_owner: self.co_owner(),
            further: further.map_or(&[], |cluster| &cluster.config.rndc_secret_refs),
            pods: pods.map(|pod| ObjectPlace::of(pod)).collect(),
        }
    }

    /// Who shares the key of copying with the rest of the namespace.
    fn co_owner(&self) -> OwnerReference {
        let Some(cluster) = &self.cluster else {
            return OwnerReference {
                controller: None,
                block_owner_deletion: None,
                ..owner(self)
            };
        };
        let metadata = &cluster.object.metadata;
        OwnerReference {
            api_version: "bindy.firestoned.io/v1beta1".to_owned(),
            kind: "Bind9Cluster".to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }
    }

    /// The key that zones name, where the configuration is somebody else's or its sidecar is.
    fn zone_key(&self, current: &str) -> Option<String> {
        let is_foreign = has_foreign_sidecar(&self.spec);
        let given = self.spec.config_map_refs.as_ref();
        let is_given = given
            .is_some_and(|given| given.named_conf.is_some() || given.named_conf_options.is_some());
        (is_foreign || is_given).then(|| current.to_owned())
    }

    fn replicas(&self) -> usize {
        let replicas = self.spec.replicas.unwrap_or(1);
        usize::try_from(replicas).unwrap_or_default()
    }

    /// The groups of its clusters and of the zones that select it.
    fn groups(&self, shared: &ServerContext) -> BTreeSet<Group> {
        let mut groups = BTreeSet::new();
        if let Some(cluster) = &self.cluster {
            groups.insert(fleet::cluster_group(&ObjectPlace::of(&cluster.object)));
            let owners = cluster.object.metadata.owner_references.iter().flatten();
            let providers = owners.filter(|owner| {
                ["ClusterBind9Provider", "Bind9GlobalCluster"].contains(&owner.kind.as_str())
            });
            groups.extend(providers.map(|owner| fleet::provider_group(&owner.name)));
        }
        groups.extend(fleet::selected(shared, &self.object, &groups));
        groups
    }
}

/// Holds the object until its servers are out of use.
async fn hold(shared: &ServerContext, observed: &Observed) -> Result<(), ApiError> {
    let finalizers = observed
        .object
        .metadata
        .finalizers
        .clone()
        .unwrap_or_default();
    if finalizers.iter().any(|one| one == INSTANCE_FINALIZER) {
        return Ok(());
    }
    let mut all = finalizers;
    all.push(INSTANCE_FINALIZER.to_owned());
    let body = json!({ "metadata": {
        "finalizers": all,
        "resourceVersion": observed.object.metadata.resource_version,
    }});
    let written = shared
        .api
        .merge(Sort::Instance, &observed.place, &body)
        .await?;
    watching::take(shared, Sort::Instance, written);
    Ok(())
}

/// Takes its servers out of use, then lets it go; what it owns goes with it.
async fn leave(shared: &ServerContext, observed: &Observed) -> Result<Requeue, ApiError> {
    fleet::set_member(shared, &observed.place, None);
    shared.probes.set(&observed.place, Vec::new());
    shared.forget(&observed.key_work().place);
    drop_finalizer(shared, Sort::Instance, &observed.object, INSTANCE_FINALIZER).await?;
    Ok(Requeue::OnChange)
}

/// What is not as it should be. A configuration that does not check changes nothing that runs.
async fn plan(
    shared: &ServerContext,
    observed: &Observed,
    given: Result<&ConfigFiles, &String>,
) -> Wanted {
    let nothing = |problem: String| Wanted {
        problem: Some(problem),
        ..Wanted::default()
    };
    let is_followed = observed.cluster.as_ref().is_none_or(|one| one.is_followed);
    let keys = observed.secret.as_deref().and_then(keys::read);
    let Some(keys) = keys.filter(|_| is_followed) else {
        return Wanted::default();
    };
    let key = shared.ports.key_file(&keys.ring.current);
    let key = key.map(|text| text.fingerprint).unwrap_or_default();
    let wrong = volume_problems(&observed.spec);
    if !wrong.is_empty() {
        return nothing(Problem::summary(&wrong));
    }
    let files = match observed.files() {
        Ok(files) => files,
        Err(problems) => return nothing(Problem::summary(&problems)),
    };
    let mut checked = files.clone();
    match given {
        // Where named.conf or its options are somebody's own, the pod tells.
        Ok(given) => checked.extend(given.clone().into_iter().filter(|(file, _)| file == ZONES)),
        Err(problem) => return nothing(problem.clone()),
    }
    match shared.check(&observed.place, &checked).await {
        Ok(Verdict::Accepted) => {}
        Ok(Verdict::Refused(words)) => return nothing(words),
        Err(why) => return nothing(format!("the configuration cannot be checked: {why}")),
    }
    let config = observed.config();
    let signing = SigningKeys::of(&observed.place.name, &observed.spec, &config);
    let wanted = workload(&Workload {
        name: &observed.place.name,
        namespace: &observed.place.namespace,
        uid: observed.uid(),
        spec: &observed.spec,
        set: observed.set(),
        files: &files,
        image: &shared.settings.image,
        key: &key,
        signing: signing.as_ref(),
        makes_no_keys: makes_no_keys(&observed.spec, &config),
    });
    let store = shared.store();
    let is_missing = |object: &Value| {
        let (sort, place) = target(object);
        let known = store.get(sort, &place);
        known.is_none_or(|known| !covers(&whole(&known), object))
    };
    Wanted {
        surplus: surplus(observed, &store, &wanted),
        objects: wanted.into_iter().filter(is_missing).collect(),
        ..Wanted::default()
    }
}

/// Services that the instance made and does not ask for any more.
fn surplus(observed: &Observed, store: &Store, wanted: &[Value]) -> Vec<Arc<DynamicObject>> {
    let is_surplus = |service: &&Arc<DynamicObject>| {
        let mut owners = service.metadata.owner_references.iter().flatten();
        let is_own = owners.any(|owner| owner.uid == observed.uid());
        let place = (Sort::Service, ObjectPlace::of(service));
        is_own
            && service.metadata.deletion_timestamp.is_none()
            && !wanted.iter().any(|one| target(one) == place)
    };
    let services = store.in_namespace(Sort::Service, &observed.place.namespace);
    services.filter(is_surplus).cloned().collect()
}

/// Keeps the keys that sign its zones, where that is asked for; what stands in the way.
async fn keep_signing_keys(
    shared: &ServerContext,
    observed: &Observed,
) -> Result<Option<String>, ApiError> {
    let name = &observed.place.name;
    let Some(secret) = kept_keys(name, &observed.spec, &observed.config()) else {
        return Ok(None);
    };
    let place = ObjectPlace::new(&observed.place.namespace, &secret);
    let pods = observed.key_work().pods;
    signing_keys::keep(shared, &place, secret_metadata(observed), &pods).await
}

fn target(object: &Value) -> (Sort, ObjectPlace) {
    let sort = match object["kind"].as_str() {
        Some("ConfigMap") => Sort::ConfigMap,
        Some("Service") => Sort::Service,
        _ => Sort::StatefulSet,
    };
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    (sort, ObjectPlace::new(field("namespace"), field("name")))
}

async fn apply(shared: &ServerContext, wanted: &Wanted) -> Result<(), ApiError> {
    for object in &wanted.objects {
        let (sort, place) = target(object);
        let written = shared.api.apply(sort, &place, object).await?;
        watching::take(shared, sort, written);
    }
    for object in &wanted.surplus {
        let (place, uid) = (ObjectPlace::of(object), object.metadata.uid.clone());
        shared.api.delete(Sort::Service, &place, uid).await?;
    }
    Ok(())
}

fn secret_metadata(observed: &Observed) -> ObjectMeta {
    let labels = BTreeMap::from([
        (PART_OF_LABEL.to_owned(), PART_OF.to_owned()),
        (INSTANCE_LABEL.to_owned(), observed.place.name.to_string()),
    ]);
    ObjectMeta {
        labels: Some(labels),
        owner_references: Some(vec![owner(observed)]),
        ..ObjectMeta::default()
    }
}

/// The instance as the owner of what it makes.
fn owner(observed: &Observed) -> OwnerReference {
    OwnerReference {
        api_version: "bindy.firestoned.io/v1beta1".to_owned(),
        kind: "Bind9Instance".to_owned(),
        name: observed.place.name.to_string(),
        uid: observed.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Its pods are servers as soon as they have addresses.
fn follow_pods(shared: &ServerContext, place: &ObjectPlace) {
    let Some(observed) = observe(shared, place) else {
        return;
    };
    let groups = observed.groups(shared);
    for group in &groups {
        fleet::ensure_group(shared, group);
    }
    // One whose Secret somebody deleted is spoken to as before; it is made again.
    let secret = observed.secret.clone();
    let secret = secret.or_else(|| shared.remembered(&observed.key_work().place));
    let keys = secret.as_deref().and_then(keys::read);
    let member = keys.map(|keys| member(&observed, groups, keys));
    fleet::set_member(shared, place, member.as_ref());
    shared.probes.set(place, fleet::sidecars(shared, place));
}

fn member(observed: &Observed, groups: BTreeSet<Group>, keys: InstanceKeys) -> Member {
    let annotations = observed
        .object
        .metadata
        .annotations
        .clone()
        .unwrap_or_default();
    let index = annotations.get(INDEX_ANNOTATION);
    let config = observed.spec.bindcar_config.as_ref();
    let port = config.and_then(|config| config.port).unwrap_or(8080);
    let mut pods: Vec<(usize, LivePod)> = observed
        .pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(|pod| {
            let ip = pod.data["status"]["podIP"].as_str()?.to_owned();
            let place = ObjectPlace::of(pod);
            Some((ordinal(&place.name)?, LivePod { place, ip }))
        })
        .collect();
    pods.sort_by_key(|(ordinal, _)| *ordinal);
    Member {
        role: observed.role(),
        index: index
            .and_then(|index| index.parse().ok())
            .unwrap_or_default(),
        groups,
        pods: pods.into_iter().map(|(_, pod)| pod).collect(),
        sidecar_port: u16::try_from(port).unwrap_or(8080),
        zone_key: observed.zone_key(&keys.ring.current.name),
        takes_addresses: has_foreign_sidecar(&observed.spec),
        default_policy: default_policy(&observed.config()),
        key: keys.ring.current,
        token: keys.token,
    }
}

/// The number of a pod in its `StatefulSet`.
fn ordinal(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

/// Writes the status.
async fn report(
    shared: &ServerContext,
    observed: &Observed,
    wanted: &Wanted,
) -> Result<(), ApiError> {
    let pods: Vec<PodView> = observed
        .pods
        .iter()
        .filter_map(|pod| pod_view(shared, pod))
        .collect();
    let before: InstanceStatus =
        serde_json::from_value(observed.object.data["status"].clone()).unwrap_or_default();
    let now = shared.clock.now();
    let groups = observed.groups(shared);
    let zones = shared.zones.get();
    let zones = zones
        .map(|zones| zones.zones_on(&groups))
        .unwrap_or_default();
    let facts = InstanceFacts {
        replicas: observed.replicas(),
        config_problem: wanted.problem.clone(),
        is_overdue: is_overdue(&before, now, shared.settings.progress_deadline),
        copies: copies(shared, observed, &groups),
        keys: wanted.keys.clone(),
        not_acted_on: observed.not_acted_on(wanted),
    };
    let rollup = instance_rollup(&facts, &pods);
    let generation = observed.object.metadata.generation.unwrap_or_default();
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let annotations = observed
        .object
        .metadata
        .annotations
        .clone()
        .unwrap_or_default();
    let followed = annotations.get(PARENT_GENERATION_ANNOTATION);
    let service = observed.service.as_ref();
    let address = service.and_then(|service| service.data["spec"]["clusterIP"].as_str());
    let parent = observed.cluster.as_ref().map(|cluster| {
        let place = ObjectPlace::of(&cluster.object);
        OwnerReferenceStatus {
            api_version: "bindy.firestoned.io/v1beta1".to_owned(),
            kind: "Bind9Cluster".to_owned(),
            name: place.name.to_string(),
            namespace: Some(place.namespace.to_string()),
        }
    });
    let status = InstanceStatus {
        conditions: merge_conditions(&before.conditions, &rollup.conditions, generation, now),
        observed_generation: Some(generation),
        observed_parent_generation: followed.and_then(|followed| followed.parse().ok()),
        replicas: Some(count(observed.pods.len())),
        ready_replicas: Some(count(rollup.ready)),
        service_address: address.map(str::to_owned),
        cluster_ref: parent,
        zones_count: Some(count(zones.len())),
        zones: zones.into_iter().take(ZONES_LISTED_MAX).collect(),
        rndc_key_rotation: observed
            .secret
            .as_deref()
            .and_then(|secret| keys::rotation_status(&observed.spec, secret)),
    };
    write_status(shared, Sort::Instance, &observed.object, json!(status)).await
}

/// Whether it has not been ready for longer than it may take.
fn is_overdue(before: &InstanceStatus, now: Moment, deadline: Duration) -> bool {
    let ready = before.conditions.iter().find(|one| one.type_ == "Ready");
    let since = ready.filter(|ready| ready.status != "True");
    let since = since.map(|ready| ready.last_transition_time.0.as_second());
    let deadline = i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX);
    since.is_some_and(|since| now.0.saturating_sub(since) > deadline)
}

//! The Secrets of instances: the keys of updates and control, the token of the sidecar, and the key with which
//! the servers of a namespace copy from each other.
//!
//! A key is replaced without a failed update ([`KeyRing`]): all that is known of that stands in the Secret of the
//! instance, and each round takes one step.

mod given;
mod secret;

use std::collections::{BTreeMap, BTreeSet};

use bindery_api::{Bind9InstanceSpec, KeyRotationStatus, RndcSecretRef, time_text};
use bindery_core::{Moment, Reason};
use bindery_sources::clusters::{
    KEY_NAME, KeyFacts, KeyRing, KeyStep, KeyWish, OtherKey, PART_OF, PART_OF_LABEL, RingKey, Said,
    TRANSFER_KEY, TRANSFER_SECRET, given_secret, rotation_period,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::json;

use super::api::ApiError;
use super::store::{ObjectPlace, Sort};
use super::{PodKey, SecretText, ServerContext, watching};

pub(super) use given::GivenKeys;
pub(super) use secret::{InstanceKeys, create_at, field, read};
use secret::{KeyMarks, ROTATE_NOW};

/// The algorithm of keys where nobody says another.
const ALGORITHM_DEFAULT: &str = "hmac-sha256";

impl RingKey for PodKey {
    fn name(&self) -> &str {
        &self.name
    }
}

/// An instance as far as its keys go.
pub(super) struct KeyWork<'a> {
    pub(super) instance: &'a DynamicObject,
    pub(super) spec: &'a Bind9InstanceSpec,
    /// Its Secret.
    pub(super) place: ObjectPlace,
    /// What its Secret is to carry.
    pub(super) metadata: ObjectMeta,
    /// Who shares the key of copying: its cluster, else itself.
    pub(super) co_owner: OwnerReference,
    /// Keys of others that may change records, as its cluster names them.
    pub(super) further: &'a [RndcSecretRef],
    pub(super) pods: Vec<ObjectPlace>,
}

/// What is to be said of the keys of an instance.
#[derive(Default)]
pub(super) struct KeyReport {
    /// What its author has to mend.
    pub(super) problem: Option<String>,
    /// How the replacement of a key stands.
    pub(super) said: Option<Said>,
}

/// Takes the next step with the keys of an instance.
///
/// Cancellation: the Secret is as it was, or as it shall be.
pub(super) async fn tend(
    shared: &ServerContext,
    work: &KeyWork<'_>,
) -> Result<KeyReport, ApiError> {
    ensure_transfer_key(shared, work).await?;
    let mut report = KeyReport::default();
    let given = match given_secret(work.spec) {
        None => None,
        Some(reference) => {
            let field = "spec.rndcKey.secretRef";
            match shared
                .given
                .fetch(shared, &work.place.namespace, reference, field)
                .await?
            {
                Ok(key) => Some(key),
                Err(problem) => {
                    report.problem = Some(problem);
                    None
                }
            }
        }
    };
    let mut further = Vec::new();
    for (at, reference) in work.further.iter().enumerate() {
        let field = format!("spec.rndcSecretRefs[{at}]");
        match shared
            .given
            .fetch(shared, &work.place.namespace, reference, &field)
            .await?
        {
            Ok(key) => further.push(key),
            Err(problem) => report.problem = Some(problem),
        }
    }
    let known = shared.store().get(Sort::Secret, &work.place);
    let Some(known) = known else {
        if given.is_none() && report.problem.is_some() {
            return Ok(report);
        }
        report.problem = make(shared, work, given, &further)
            .await?
            .err()
            .or(report.problem);
        return Ok(report);
    };
    if report.problem.is_none() {
        report = advance(shared, work, &known, (given, &further)).await?;
    }
    shared.remember(&work.place, &known);
    Ok(report)
}

/// Makes the Secret of an instance: as it was before somebody deleted it, or new.
async fn make(
    shared: &ServerContext,
    work: &KeyWork<'_>,
    given: Option<PodKey>,
    further: &[PodKey],
) -> Result<Result<(), String>, ApiError> {
    if let Some(lost) = shared.remembered(&work.place) {
        secret::restore(shared, &work.place, &lost, work.metadata.clone()).await?;
        return Ok(Ok(()));
    }
    let key = match given {
        Some(key) => Ok(key),
        None => shared.ports.make_key(KEY_NAME, algorithm(work.spec)),
    };
    let ring = match key {
        Ok(key) => KeyRing::of(key),
        Err(problem) => return Ok(Err(format!("spec.rndcKey.algorithm: {problem}"))),
    };
    let fields = match secret::fields(shared, &ring, further) {
        Ok(fields) => fields,
        Err(problem) => return Ok(Err(problem)),
    };
    let marks = KeyMarks {
        created: Some(shared.clock.now()),
        ..KeyMarks::default()
    };
    secret::create(shared, work, fields, marks.planned(work.spec)).await?;
    Ok(Ok(()))
}

/// Takes the next step with a Secret that is there.
async fn advance(
    shared: &ServerContext,
    work: &KeyWork<'_>,
    known: &DynamicObject,
    (given, further): (Option<PodKey>, &[PodKey]),
) -> Result<KeyReport, ApiError> {
    let now = shared.clock.now();
    let mut marks = KeyMarks::read(known);
    let wrong = |problem: String| KeyReport {
        problem: Some(problem),
        ..KeyReport::default()
    };
    let has_given = given.is_some();
    let Some(keys) = read(known) else {
        // Somebody took fields out: they are made anew.
        return remake(shared, work, known, (given, further)).await;
    };
    let wish = match given {
        Some(key) => KeyWish::Have(key),
        None => wish(work.spec, known, (&keys.ring, &marks), now),
    };
    let (ring, says) = match next_ring(shared, work, (&keys.ring, &wish), marks.count) {
        Ok(next) => next,
        Err(problem) => return Ok(wrong(problem)),
    };
    let is_replaced = ring.current != keys.ring.current;
    if is_replaced {
        marks.created = Some(now);
        marks.replaced = Some(now);
        marks.count += 1;
    }
    marks.created = marks.created.or(Some(now));
    let marks = if has_given {
        marks
    } else {
        marks.planned(work.spec)
    };
    let fields = match secret::fields(shared, &ring, further) {
        Ok(fields) => fields,
        Err(problem) => return Ok(wrong(problem)),
    };
    let is_written = secret::write(shared, (&work.place, known), fields, &marks).await?;
    if is_written && is_replaced {
        let name = &ring.current.name;
        tracing::info!(secret = %work.place.name, key = name, "another key is used");
        let message = format!(
            "Key {name} is used in place of {}, which stays valid for a while",
            keys.ring.current.name
        );
        shared
            .api
            .tell(Sort::Instance, work.instance, ("KeyRotated", &message), now)
            .await;
    }
    Ok(KeyReport {
        problem: None,
        said: says.or_else(|| ring.beside().map(|_| overlaps(&ring))),
    })
}

/// The keys after the next step, and what is to be said of it.
fn next_ring(
    shared: &ServerContext,
    work: &KeyWork<'_>,
    (ring, wish): (&KeyRing<PodKey>, &KeyWish<PodKey>),
    count: i64,
) -> Result<(KeyRing<PodKey>, Option<Said>), String> {
    let silent = silent_pods(shared, &work.pods);
    let facts = KeyFacts {
        is_loaded: &|key| is_loaded(shared, &work.pods, key),
        now: shared.clock.now(),
    };
    let same = |said: Said| (ring.clone(), Some(said));
    Ok(match ring.step(wish, &facts) {
        KeyStep::Rest => (ring.clone(), None),
        _ if !silent.is_empty() && ring.beside().is_none() => match wish {
            // A sidecar that does not say which keys are loaded reads its key when its pod starts.
            KeyWish::Have(key) => (KeyRing::of(key.clone()), None),
            KeyWish::Keep | KeyWish::Renew => same(unsupported(&silent)),
        },
        _ if ring.beside().is_none() && !unheard_pods(shared, &work.pods).is_empty() => {
            let unheard = unheard_pods(shared, &work.pods).join(", ");
            same(under_way(format!(
                "another key is due when {unheard} can be asked"
            )))
        }
        KeyStep::AwaitPods(name) => same(awaits(shared, work, ring, &name)),
        KeyStep::AwaitOverlap => same(overlaps(ring)),
        KeyStep::Make => {
            let name = free_name(ring, wish, count);
            let made = shared.ports.make_key(&name, algorithm(work.spec));
            let made = made.map_err(|problem| format!("spec.rndcKey.algorithm: {problem}"))?;
            (ring.with_next(made), None)
        }
        KeyStep::Write(next) => (next, None),
    })
}

/// A Secret that lacks something gets what it had, or another key.
async fn remake(
    shared: &ServerContext,
    work: &KeyWork<'_>,
    known: &DynamicObject,
    (given, further): (Option<PodKey>, &[PodKey]),
) -> Result<KeyReport, ApiError> {
    let before = shared.remembered(&work.place);
    let before = before.as_deref().and_then(read).map(|keys| keys.ring);
    let key = match given {
        Some(key) => Ok(key),
        None => shared.ports.make_key(KEY_NAME, algorithm(work.spec)),
    };
    let ring = match (before, key) {
        (Some(ring), _) => Ok(ring),
        (None, key) => key.map(KeyRing::of),
    };
    let fields = ring.and_then(|ring| secret::fields(shared, &ring, further));
    match fields {
        Ok(mut fields) => {
            secret::add_token(shared, known, &mut fields);
            let mut marks = KeyMarks::read(known);
            marks.created = marks.created.or_else(|| Some(shared.clock.now()));
            secret::write(
                shared,
                (&work.place, known),
                fields,
                &marks.planned(work.spec),
            )
            .await?;
            Ok(KeyReport::default())
        }
        Err(problem) => Ok(KeyReport {
            problem: Some(problem),
            said: None,
        }),
    }
}

/// Whether a generated key is to be another.
fn wish(
    spec: &Bind9InstanceSpec,
    secret: &DynamicObject,
    (ring, marks): (&KeyRing<PodKey>, &KeyMarks),
    now: Moment,
) -> KeyWish<PodKey> {
    // What is under way is brought to its end first.
    if !matches!(ring.other, OtherKey::None) {
        return KeyWish::Keep;
    }
    let annotations = secret.metadata.annotations.as_ref();
    let is_asked = annotations.is_some_and(|all| all.contains_key(ROTATE_NOW));
    let is_other = ring.current.algorithm != algorithm(spec);
    let is_due = due_at(spec, marks).is_some_and(|due| due <= now);
    if is_asked || is_other || is_due {
        KeyWish::Renew
    } else {
        KeyWish::Keep
    }
}

/// When a generated key is replaced.
fn due_at(spec: &Bind9InstanceSpec, marks: &KeyMarks) -> Option<Moment> {
    let config = spec
        .rndc_key
        .as_ref()
        .filter(|key| key.auto_rotate == Some(true))?;
    let period = rotation_period(config.rotate_after.as_deref()).ok()?;
    let created = marks.created?;
    let period = i64::try_from(period).unwrap_or(i64::MAX);
    Some(Moment(created.0.saturating_add(period)))
}

fn algorithm(spec: &Bind9InstanceSpec) -> &str {
    let config = spec.rndc_key.as_ref();
    let told = config.and_then(|config| config.algorithm.as_deref());
    told.unwrap_or(ALGORITHM_DEFAULT)
}

/// A name that neither the ring nor the key that is wished for has.
fn free_name(ring: &KeyRing<PodKey>, wish: &KeyWish<PodKey>, count: i64) -> String {
    let mut taken: BTreeSet<&str> = BTreeSet::from([ring.current.name.as_str()]);
    taken.extend(ring.beside().map(|key| key.name.as_str()));
    if let KeyWish::Have(key) = wish {
        taken.insert(&key.name);
    }
    let mut number = count.max(0).saturating_add(2);
    loop {
        let name = format!("{KEY_NAME}-{number}");
        if !taken.contains(name.as_str()) {
            return name;
        }
        number = number.saturating_add(1);
    }
}

/// Whether every pod has loaded a key.
fn is_loaded(shared: &ServerContext, pods: &[ObjectPlace], key: &PodKey) -> bool {
    let Ok(text) = shared.ports.key_file(key) else {
        return false;
    };
    pods.iter()
        .all(|pod| has_loaded(shared, pod, &text.fingerprint))
}

fn has_loaded(shared: &ServerContext, pod: &ObjectPlace, fingerprint: &str) -> bool {
    let keys = shared.probes.keys(pod);
    keys.is_some_and(|keys| keys.iter().any(|one| one == fingerprint))
}

/// Pods that answer and do not tell which keys they have.
fn silent_pods(shared: &ServerContext, pods: &[ObjectPlace]) -> Vec<String> {
    let silent = pods.iter().filter(|pod| shared.probes.tells_no_keys(pod));
    silent.map(|pod| pod.name.to_string()).collect()
}

/// Pods of which nobody knows yet which keys they have.
fn unheard_pods(shared: &ServerContext, pods: &[ObjectPlace]) -> Vec<String> {
    let unheard = pods.iter().filter(|pod| shared.probes.keys(pod).is_none());
    unheard.map(|pod| pod.name.to_string()).collect()
}

fn unsupported(silent: &[String]) -> Said {
    Said {
        kind: "KeyRotation".to_owned(),
        holds: false,
        reason: Reason::Unsupported,
        message: format!(
            "the key is due and stays: the sidecar of {} does not say which keys are loaded",
            silent.join(", ")
        ),
    }
}

fn awaits(shared: &ServerContext, work: &KeyWork<'_>, ring: &KeyRing<PodKey>, name: &str) -> Said {
    let keys = [Some(&ring.current), ring.beside()];
    let key = keys.into_iter().flatten().find(|key| key.name == name);
    let text = key.and_then(|key| shared.ports.key_file(key).ok());
    let is_missing = |pod: &&ObjectPlace| {
        let has = |text: &super::KeyText| has_loaded(shared, pod, &text.fingerprint);
        !text.as_ref().is_some_and(has)
    };
    let missing = work.pods.iter().filter(is_missing);
    let missing: Vec<&str> = missing.map(|pod| &*pod.name).collect();
    let message = format!("key {name} waits to be loaded by {}", missing.join(", "));
    under_way(message)
}

fn overlaps(ring: &KeyRing<PodKey>) -> Said {
    let names = [Some(&ring.current), ring.beside()];
    let names: Vec<&str> = names
        .into_iter()
        .flatten()
        .map(|key| key.name.as_str())
        .collect();
    under_way(format!("keys {} are valid together", names.join(" and ")))
}

fn under_way(message: String) -> Said {
    Said {
        kind: "KeyRotation".to_owned(),
        holds: true,
        reason: Reason::Progressing,
        message,
    }
}

/// When the key was made and is replaced, as a status tells it.
pub(super) fn rotation_status(
    spec: &Bind9InstanceSpec,
    secret: &DynamicObject,
) -> Option<KeyRotationStatus> {
    let marks = KeyMarks::read(secret);
    let rotates = spec.rndc_key.as_ref().and_then(|key| key.auto_rotate) == Some(true);
    if !rotates && marks.replaced.is_none() {
        return None;
    }
    let rotate_at = due_at(spec, &marks).filter(|_| given_secret(spec).is_none());
    Some(KeyRotationStatus {
        created_at: time_text(marks.created?),
        rotate_at: rotate_at.map(time_text),
        last_rotated_at: marks.replaced.map(time_text),
        rotation_count: Some(marks.count),
    })
}

/// Makes the Secret that the servers of a namespace share. All who share it own it, so that it goes with the last.
async fn ensure_transfer_key(shared: &ServerContext, work: &KeyWork<'_>) -> Result<(), ApiError> {
    let place = ObjectPlace::new(&work.place.namespace, TRANSFER_SECRET);
    let known = shared.store().get(Sort::Secret, &place);
    if let Some(known) = known {
        shared.remember(&place, &known);
        return share(shared, &place, &known, &work.co_owner).await;
    }
    let labels = BTreeMap::from([(PART_OF_LABEL.to_owned(), PART_OF.to_owned())]);
    let metadata = ObjectMeta {
        labels: Some(labels),
        owner_references: Some(vec![work.co_owner.clone()]),
        ..ObjectMeta::default()
    };
    if let Some(lost) = shared.remembered(&place) {
        return secret::restore(shared, &place, &lost, metadata).await;
    }
    let key = shared.ports.make_key(TRANSFER_KEY, ALGORITHM_DEFAULT);
    let key = key.expect("the name and the algorithm are ours");
    let text = shared.ports.key_file(&key);
    let text = text.expect("a key that was just made is one");
    let mut fields = secret::of_key("", &key);
    fields.insert("transfer.key".to_owned(), text.file);
    create_at(shared, &place, metadata, (fields, "Opaque")).await
}

/// Adds an owner to a Secret that several have.
async fn share(
    shared: &ServerContext,
    place: &ObjectPlace,
    secret: &DynamicObject,
    holder: &OwnerReference,
) -> Result<(), ApiError> {
    let mut owners = secret.metadata.owner_references.clone().unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == holder.uid) {
        return Ok(());
    }
    owners.push(holder.clone());
    let body = json!({ "metadata": {
        "ownerReferences": owners,
        "resourceVersion": secret.metadata.resource_version,
    }});
    match shared.api.merge(Sort::Secret, place, &body).await {
        Ok(written) => watching::take(shared, Sort::Secret, written),
        // It went with its last owner in this moment; it is made again when that is seen.
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The text of a field that may be missing.
fn hidden(text: Option<String>) -> Option<SecretText> {
    text.map(SecretText::new)
}

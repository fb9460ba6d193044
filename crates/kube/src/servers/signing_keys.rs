//! The keys that sign zones, kept in a Secret: a server that lost its folder takes them from there.

use std::collections::BTreeMap;

use bindery_sources::clusters::keys_to_keep;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::api::ApiError;
use super::keys::{create_at, field};
use super::store::{ObjectPlace, Sort};
use super::{SecretText, ServerContext, watching};

/// Which keys the pods had when the Secret was written.
const SEEN: &str = "bindery.dev/signing-keys";

/// How much a Secret may have, and how much of that we fill: some 700 keys.
const LEN_MAX: usize = 1_000_000;

/// Keeps the keys of the pods of an instance. Where nothing is new nobody is asked.
///
/// # Errors
/// If the API does not do as it is asked.
///
/// Cancellation: the Secret is as it was, or as it shall be.
pub(super) async fn keep(
    shared: &ServerContext,
    place: &ObjectPlace,
    metadata: ObjectMeta,
    pods: &[ObjectPlace],
) -> Result<Option<String>, ApiError> {
    let told = pods
        .iter()
        .filter_map(|pod| shared.probes.signing_keys(pod));
    let seen: Vec<String> = told.collect();
    if seen.is_empty() {
        return Ok(None);
    }
    let seen = seen.join(",");
    let known = shared.store().get(Sort::Secret, place);
    let annotations = known
        .as_ref()
        .and_then(|known| known.metadata.annotations.as_ref());
    if annotations.and_then(|all| all.get(SEEN)) == Some(&seen) {
        return Ok(None);
    }
    let mut present = BTreeMap::new();
    for pod in pods {
        match shared.probes.fetch_signing_keys(pod).await {
            Some(Ok(keys)) => present.extend(keys),
            Some(Err(why)) => {
                return Ok(Some(format!(
                    "the keys of {} are not kept: {why}",
                    pod.name
                )));
            }
            None => {}
        }
    }
    let kept = known.as_deref().map(read).unwrap_or_default();
    let wanted = keys_to_keep(&kept, &present);
    let len: usize = wanted
        .iter()
        .map(|(name, text)| name.len() + text.expose().len())
        .sum();
    if len > LEN_MAX {
        return Ok(Some(format!(
            "{} keys do not fit into the Secret {}: have spec.storage stay instead",
            wanted.len() / 3,
            place.name
        )));
    }
    if let Some(known) = known {
        write(shared, place, (&known, kept), (wanted, &seen)).await?;
    } else {
        let metadata = ObjectMeta {
            annotations: Some(BTreeMap::from([(SEEN.to_owned(), seen)])),
            ..metadata
        };
        create_at(shared, place, metadata, (wanted, "Opaque")).await?;
    }
    tracing::info!(namespace = %place.namespace, secret = %place.name, "the keys that sign zones are kept");
    Ok(None)
}

fn read(secret: &DynamicObject) -> BTreeMap<String, SecretText> {
    let names = secret.data["data"].as_object().into_iter().flatten();
    let fields = names.filter_map(|(name, _)| {
        let text = field(secret, name)?;
        Some((name.clone(), SecretText::new(text)))
    });
    fields.collect()
}

async fn write(
    shared: &ServerContext,
    place: &ObjectPlace,
    (known, kept): (&DynamicObject, BTreeMap<String, SecretText>),
    (wanted, seen): (BTreeMap<String, SecretText>, &str),
) -> Result<(), ApiError> {
    let mut data = Map::new();
    for (name, text) in &wanted {
        if kept.get(name) != Some(text) {
            data.insert(
                name.clone(),
                json!(ByteString(text.expose().as_bytes().to_vec())),
            );
        }
    }
    let gone = kept.keys().filter(|name| !wanted.contains_key(*name));
    data.extend(gone.map(|name| (name.clone(), Value::Null)));
    let body = json!({
        "metadata": {
            "annotations": { SEEN: seen },
            // Nobody else has changed it since it was read.
            "resourceVersion": known.metadata.resource_version,
        },
        "data": data,
    });
    let written = shared.api.merge(Sort::Secret, place, &body).await?;
    watching::take(shared, Sort::Secret, written);
    Ok(())
}

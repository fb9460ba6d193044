//! Files of a configuration that somebody gives in a `ConfigMap` of his own. These are read and not watched.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_api::Bind9InstanceSpec;
use bindery_sources::clusters::{ConfigFiles, GivenFile, given_files};
use kube::api::DynamicObject;
use tokio::time::Instant;

use super::super::ServerContext;
use super::super::api::ApiError;
use super::super::store::{ObjectPlace, Sort};

/// How long what was read counts: one that appears is seen within this time. All instances that name a `ConfigMap`
/// share one look at it.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// What was read last; nothing where there is no such object.
type Read = Option<Arc<DynamicObject>>;

/// What was read last, by `ConfigMap`.
#[derive(Default)]
pub(in super::super) struct GivenFiles(Mutex<BTreeMap<ObjectPlace, (Instant, Read)>>);

impl GivenFiles {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectPlace, (Instant, Read)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, shared: &ServerContext, place: &ObjectPlace) -> Result<Read, ApiError> {
        let known = self.lock().get(place).cloned();
        if let Some((since, found)) = known
            && since.elapsed() < FRESH_FOR
        {
            return Ok(found);
        }
        let found = match shared.api.fetch(Sort::ConfigMap, place).await {
            Ok(found) => Some(Arc::new(found)),
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error),
        };
        let mut all = self.lock();
        all.retain(|_, (since, _)| since.elapsed() < FRESH_FOR * 10);
        all.insert(place.clone(), (Instant::now(), found.clone()));
        Ok(found)
    }
}

/// The files that somebody gives for an instance, or what they lack.
pub(super) async fn fetch(
    shared: &ServerContext,
    namespace: &str,
    spec: &Bind9InstanceSpec,
) -> Result<Result<ConfigFiles, String>, ApiError> {
    let mut files = ConfigFiles::new();
    for given in given_files(spec) {
        let place = ObjectPlace::new(namespace, given.config_map);
        let found = shared.given_files.fetch(shared, &place).await?;
        match text(given, found.as_deref()) {
            Ok(text) => drop(files.insert(given.file.to_owned(), text)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(files))
}

fn text(given: GivenFile<'_>, found: Option<&DynamicObject>) -> Result<String, String> {
    let GivenFile {
        file,
        field,
        config_map,
    } = given;
    let field = format!("spec.configMapRefs.{field}");
    let found = found.ok_or_else(|| {
        format!("{field}: there is no ConfigMap {config_map} yet; the server waits for it")
    })?;
    let text = found.data["data"][file].as_str();
    let text = text.ok_or_else(|| format!("{field}: ConfigMap {config_map} has no file {file}"));
    text.map(str::to_owned)
}

//! Keys in Secrets of others, which are read and not watched.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_api::RndcSecretRef;
use tokio::time::Instant;

use super::super::api::ApiError;
use super::super::store::{ObjectPlace, Sort};
use super::super::{PodKey, ServerContext};
use super::secret::{FIELD_ALGORITHM, FIELD_NAME, FIELD_SECRET, field};
use super::{ALGORITHM_DEFAULT, hidden};

/// How long what was read counts: an edit takes effect within this time. All instances that name a Secret share
/// one look at it.
const FRESH_FOR: Duration = Duration::from_secs(5);

/// What was read last, by Secret and by how it is read.
#[derive(Default)]
pub(in super::super) struct GivenKeys(Mutex<BTreeMap<GivenPlace, (Instant, GivenKey)>>);

type GivenPlace = (ObjectPlace, [Option<String>; 3]);
type GivenKey = Result<PodKey, String>;

impl GivenKeys {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GivenPlace, (Instant, GivenKey)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of a Secret, or what is wrong with it.
    pub(super) async fn fetch(
        &self,
        shared: &ServerContext,
        namespace: &str,
        reference: &RndcSecretRef,
        spec_field: &str,
    ) -> Result<GivenKey, ApiError> {
        let place = ObjectPlace::new(namespace, &reference.name);
        let how = [
            reference.key_name_key.clone(),
            reference.secret_key.clone(),
            reference.algorithm.clone(),
        ];
        let known = self.lock().get(&(place.clone(), how.clone())).cloned();
        if let Some((since, key)) = known
            && since.elapsed() < FRESH_FOR
        {
            return Ok(key.map_err(|problem| format!("{spec_field}: {problem}")));
        }
        let found = match shared.api.fetch(Sort::Secret, &place).await {
            Ok(secret) => read(shared, reference, &secret),
            Err(error) if error.is_missing() => {
                Err(format!("there is no Secret {}", reference.name))
            }
            Err(error) => return Err(error),
        };
        let mut all = self.lock();
        all.retain(|_, (since, _)| since.elapsed() < FRESH_FOR * 10);
        all.insert((place, how), (Instant::now(), found.clone()));
        Ok(found.map_err(|problem| format!("{spec_field}: {problem}")))
    }
}

fn read(
    shared: &ServerContext,
    reference: &RndcSecretRef,
    secret: &kube::api::DynamicObject,
) -> GivenKey {
    let name_field = reference.key_name_key.as_deref().unwrap_or(FIELD_NAME);
    let secret_field = reference.secret_key.as_deref().unwrap_or(FIELD_SECRET);
    let lacks = |field: &str| format!("Secret {} has no field {field:?}", reference.name);
    let told = field(secret, FIELD_ALGORITHM);
    let algorithm = reference.algorithm.clone().or(told);
    let name = field(secret, name_field).ok_or_else(|| lacks(name_field))?;
    let text = hidden(field(secret, secret_field)).ok_or_else(|| lacks(secret_field))?;
    let key = PodKey {
        name: name.trim().trim_end_matches('.').to_ascii_lowercase(),
        algorithm: algorithm.unwrap_or_else(|| ALGORITHM_DEFAULT.to_owned()),
        secret: super::SecretText::new(text.expose().trim().to_owned()),
    };
    let checked = shared.ports.key_file(&key);
    checked.map_err(|problem| format!("Secret {}: {problem}", reference.name))?;
    Ok(key)
}

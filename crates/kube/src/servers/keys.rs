//! The Secrets of instances: the key of updates and control, the token of the sidecar, and the key with which
//! the servers of a namespace copy from each other.

use std::collections::BTreeMap;

use bindery_api::RndcSecretRef;
use bindery_sources::clusters::{PART_OF, PART_OF_LABEL, TRANSFER_KEY, TRANSFER_SECRET};
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::json;

use super::api::ApiError;
use super::store::{ObjectPlace, Sort};
use super::{NewKey, PodKey, SecretText, ServerContext, watching};

/// The name of every generated key, as in bindy.
const KEY_NAME: &str = "bindy-operator";
/// Fields of a Secret of ours.
const FIELD_NAME: &str = "key-name";
const FIELD_ALGORITHM: &str = "algorithm";
const FIELD_SECRET: &str = "secret";
const FIELD_TOKEN: &str = "api-token";

/// What the Secret of an instance has.
pub(super) struct InstanceKeys {
    pub(super) key: PodKey,
    pub(super) token: SecretText,
}

fn field(secret: &DynamicObject, name: &str) -> Option<String> {
    let bytes: ByteString = serde_json::from_value(secret.data["data"][name].clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}

/// Reads the Secret of an instance.
pub(super) fn read(secret: &DynamicObject) -> Option<InstanceKeys> {
    let field = |name: &str| field(secret, name);
    Some(InstanceKeys {
        key: PodKey {
            name: field(FIELD_NAME)?,
            algorithm: field(FIELD_ALGORITHM).unwrap_or_else(|| "hmac-sha256".to_owned()),
            secret: SecretText::new(field(FIELD_SECRET)?),
        },
        token: SecretText::new(field(FIELD_TOKEN)?),
    })
}

/// Makes the Secret of an instance where there is none, and the one that its namespace shares.
pub(super) async fn ensure(
    shared: &ServerContext,
    secret: &ObjectPlace,
    metadata: ObjectMeta,
    given: Option<&RndcSecretRef>,
) -> Result<(), ApiError> {
    let transfer = ObjectPlace::new(&secret.namespace, TRANSFER_SECRET);
    if shared.store().get(Sort::Secret, &transfer).is_none() {
        let labels = BTreeMap::from([(PART_OF_LABEL.to_owned(), PART_OF.to_owned())]);
        let metadata = ObjectMeta {
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let made = shared.ports.make_key(TRANSFER_KEY);
        create(shared, &transfer, metadata, &made, None).await?;
    }
    if shared.store().get(Sort::Secret, secret).is_none() {
        let made = match given {
            None => shared.ports.make_key(KEY_NAME),
            Some(given) => match copy(shared, &secret.namespace, given).await? {
                Some(made) => made,
                None => return Ok(()),
            },
        };
        let token = shared.ports.make_token();
        create(shared, secret, metadata, &made, Some(&token)).await?;
    }
    Ok(())
}

/// The key of a Secret that somebody gives; `None` where it has none.
async fn copy(
    shared: &ServerContext,
    namespace: &str,
    given: &RndcSecretRef,
) -> Result<Option<NewKey>, ApiError> {
    let place = ObjectPlace::new(namespace, &given.name);
    let secret = shared.api.fetch(Sort::Secret, &place).await?;
    let name = given.key_name_key.as_deref().unwrap_or(FIELD_NAME);
    let text = given.secret_key.as_deref().unwrap_or(FIELD_SECRET);
    let told = field(&secret, FIELD_ALGORITHM);
    let algorithm = given.algorithm.clone().or(told);
    let (Some(name), Some(text)) = (field(&secret, name), field(&secret, text)) else {
        let secret = &given.name;
        tracing::warn!(
            namespace,
            secret,
            "the Secret of a key has no name or no key in it"
        );
        return Ok(None);
    };
    let key = PodKey {
        name,
        algorithm: algorithm.unwrap_or_else(|| "hmac-sha256".to_owned()),
        secret: SecretText::new(text),
    };
    match shared.ports.key_file(&key) {
        Ok(file) => Ok(Some(NewKey { key, file })),
        Err(why) => {
            let secret = &given.name;
            tracing::warn!(
                namespace,
                secret,
                why,
                "the Secret of a key has a key that cannot be used"
            );
            Ok(None)
        }
    }
}

async fn create(
    shared: &ServerContext,
    place: &ObjectPlace,
    metadata: ObjectMeta,
    made: &NewKey,
    token: Option<&SecretText>,
) -> Result<(), ApiError> {
    // Whoever controls a server has a token for its sidecar; the key of transfers controls none.
    let file = token.map_or("transfer.key", |_| "rndc.key");
    let mut data = json!({
        FIELD_NAME: made.key.name,
        FIELD_ALGORITHM: made.key.algorithm,
        FIELD_SECRET: made.key.secret.expose(),
        file: made.file.expose(),
    });
    if let Some(token) = token {
        data[FIELD_TOKEN] = json!(token.expose());
    }
    let mut secret = DynamicObject::new(&place.name, &Sort::Secret.resource());
    secret.metadata = ObjectMeta {
        name: Some(place.name.to_string()),
        namespace: Some(place.namespace.to_string()),
        ..metadata
    };
    secret.data = json!({ "stringData": data, "type": "Opaque" });
    match shared.api.create(Sort::Secret, place, &secret).await {
        Ok(written) => {
            watching::take(shared, Sort::Secret, written);
            Ok(())
        }
        // Another made it a moment ago; the watch tells.
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

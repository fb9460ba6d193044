//! What the Secret of an instance has in it, read and written.

use std::collections::BTreeMap;

use bindery_api::{Bind9InstanceSpec, RndcSecretConfig, time_text};
use bindery_core::{Moment, Problem};
use bindery_sources::clusters::{KeyRing, KeySlot, NamedKey, OtherKey, key_files};
use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::super::api::ApiError;
use super::super::store::{ObjectPlace, Sort};
use super::super::{PodKey, SecretText, ServerContext, watching};
use super::{KeyWork, due_at, hidden};

/// Fields of a Secret of ours: those of the key that is used, as bindy has them.
pub(super) const FIELD_NAME: &str = "key-name";
pub(super) const FIELD_ALGORITHM: &str = "algorithm";
pub(super) const FIELD_SECRET: &str = "secret";
const FIELD_TOKEN: &str = "api-token";
/// Before the fields of the key beside it.
const NEXT: &str = "next-";
const PREVIOUS: &str = "previous-";

/// When the key was made, is due, was used first; how often one was replaced. The first, second and last are
/// bindy's.
const CREATED_AT: &str = "bindy.firestoned.io/rndc-created-at";
const ROTATE_AT: &str = "bindy.firestoned.io/rndc-rotate-at";
const ROTATED_AT: &str = "bindy.firestoned.io/rndc-rotated-at";
const COUNT: &str = "bindy.firestoned.io/rndc-rotation-count";
/// Whoever writes it has the key replaced now; it goes as that begins.
pub(super) const ROTATE_NOW: &str = "bindery.dev/rotate-key";

/// Fields of a Secret.
pub(in super::super) type SecretFields = BTreeMap<String, SecretText>;

/// What the Secret of an instance has.
pub(in super::super) struct InstanceKeys {
    pub(in super::super) ring: KeyRing<PodKey>,
    pub(in super::super) token: SecretText,
}

/// What is written on a Secret about its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyMarks {
    pub(super) created: Option<Moment>,
    pub(super) due: Option<Moment>,
    pub(super) replaced: Option<Moment>,
    pub(super) count: i64,
}

impl KeyMarks {
    pub(super) fn read(secret: &DynamicObject) -> Self {
        let annotations = secret.metadata.annotations.clone().unwrap_or_default();
        let moment = |name: &str| {
            let time: Timestamp = annotations.get(name)?.parse().ok()?;
            Some(Moment(time.as_second()))
        };
        let count = annotations.get(COUNT).and_then(|count| count.parse().ok());
        Self {
            created: moment(CREATED_AT),
            due: moment(ROTATE_AT),
            replaced: moment(ROTATED_AT),
            count: count.unwrap_or_default(),
        }
    }

    /// With when the key is due.
    pub(super) fn planned(mut self, spec: &Bind9InstanceSpec) -> Self {
        self.due = due_at(spec, &self);
        self
    }

    /// The annotations; what does not hold is taken out.
    fn annotations(&self) -> BTreeMap<&'static str, Value> {
        let time = |moment: Option<Moment>| moment.map_or(Value::Null, |it| time_text(it).into());
        BTreeMap::from([
            (CREATED_AT, time(self.created)),
            (ROTATE_AT, time(self.due)),
            (ROTATED_AT, time(self.replaced)),
            (COUNT, self.count.to_string().into()),
        ])
    }
}

pub(in super::super) fn field(secret: &DynamicObject, name: &str) -> Option<String> {
    // What is not there would be read as an empty field.
    let value = secret.data["data"]
        .get(name)
        .filter(|value| value.is_string())?;
    let bytes: ByteString = serde_json::from_value(value.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}

/// Reads the Secret of an instance.
pub(in super::super) fn read(secret: &DynamicObject) -> Option<InstanceKeys> {
    let key = |prefix: &str| {
        let field = |name: &str| field(secret, &format!("{prefix}{name}"));
        Some(PodKey {
            name: field(FIELD_NAME)?,
            algorithm: field(FIELD_ALGORITHM).unwrap_or_else(|| "hmac-sha256".to_owned()),
            secret: hidden(field(FIELD_SECRET))?,
        })
    };
    let replaced = KeyMarks::read(secret).replaced.unwrap_or_default();
    let other = match (key(NEXT), key(PREVIOUS)) {
        (Some(next), _) => OtherKey::Next(next),
        (None, Some(previous)) => OtherKey::Previous(previous, replaced),
        (None, None) => OtherKey::None,
    };
    Some(InstanceKeys {
        ring: KeyRing {
            current: key("")?,
            other,
        },
        token: hidden(field(secret, FIELD_TOKEN))?,
    })
}

/// The fields of one key.
pub(super) fn of_key(prefix: &str, key: &PodKey) -> SecretFields {
    let fields = [
        (FIELD_NAME, key.name.clone()),
        (FIELD_ALGORITHM, key.algorithm.clone()),
        (FIELD_SECRET, key.secret.expose().to_owned()),
    ];
    let fields = fields.map(|(name, text)| (format!("{prefix}{name}"), SecretText::new(text)));
    fields.into()
}

/// Everything that follows from the keys of a server.
pub(super) fn fields(
    shared: &ServerContext,
    ring: &KeyRing<PodKey>,
    further: &[PodKey],
) -> Result<SecretFields, String> {
    let mut fields = of_key("", &ring.current);
    let name_of = |slot, key: &PodKey| NamedKey {
        slot,
        name: key.name.clone(),
    };
    let mut names = vec![name_of(KeySlot::Current, &ring.current)];
    let text = |key: &PodKey| shared.ports.key_file(key).map(|text| text.file);
    fields.insert("rndc.key".to_owned(), text(&ring.current)?);
    let mut beside = SecretText::new(String::new());
    if let Some(key) = ring.beside() {
        names.push(name_of(KeySlot::Previous, key));
        beside = text(key)?;
    }
    match &ring.other {
        OtherKey::None => {}
        OtherKey::Next(key) => fields.extend(of_key(NEXT, key)),
        OtherKey::Previous(key, _) => fields.extend(of_key(PREVIOUS, key)),
    }
    fields.insert("previous.key".to_owned(), beside);
    let mut statements = String::new();
    for (at, key) in further.iter().enumerate() {
        names.push(name_of(KeySlot::Further(at), key));
        statements.push_str(text(key)?.expose());
    }
    fields.insert("further.key".to_owned(), SecretText::new(statements));
    let files = key_files(&names).map_err(|problems| Problem::summary(&problems))?;
    fields.extend(
        files
            .into_iter()
            .map(|(name, text)| (name, SecretText::new(text))),
    );
    Ok(fields)
}

/// The token that a Secret has, or another.
pub(super) fn add_token(shared: &ServerContext, known: &DynamicObject, fields: &mut SecretFields) {
    let token = hidden(field(known, FIELD_TOKEN));
    let token = token.unwrap_or_else(|| shared.ports.make_token());
    fields.insert(FIELD_TOKEN.to_owned(), token);
}

/// Writes what differs; whether there was something to write. What is not a field of ours stays.
pub(super) async fn write(
    shared: &ServerContext,
    (place, known): (&ObjectPlace, &DynamicObject),
    wanted: SecretFields,
    marks: &KeyMarks,
) -> Result<bool, ApiError> {
    let mut data = serde_json::Map::new();
    for (name, text) in &wanted {
        if field(known, name).as_deref() != Some(text.expose()) {
            let bytes = ByteString(text.expose().as_bytes().to_vec());
            data.insert(name.clone(), json!(bytes));
        }
    }
    let present = known.data["data"].as_object().into_iter().flatten();
    let outdated = present.filter(|(name, _)| {
        (name.starts_with(NEXT) || name.starts_with(PREVIOUS)) && !wanted.contains_key(*name)
    });
    data.extend(outdated.map(|(name, _)| (name.clone(), Value::Null)));
    let annotations = known.metadata.annotations.clone().unwrap_or_default();
    let mut notes = serde_json::Map::new();
    for (name, value) in marks.annotations() {
        let before = annotations
            .get(name)
            .map_or(Value::Null, |text| text.clone().into());
        if before != value {
            notes.insert(name.to_owned(), value);
        }
    }
    let begins = data.keys().any(|name| name.starts_with(NEXT));
    if begins && annotations.contains_key(ROTATE_NOW) {
        notes.insert(ROTATE_NOW.to_owned(), Value::Null);
    }
    if data.is_empty() && notes.is_empty() {
        return Ok(false);
    }
    let body = json!({
        "metadata": {
            "annotations": notes,
            // Nobody else has changed it since it was read.
            "resourceVersion": known.metadata.resource_version,
        },
        "data": data,
    });
    let written = shared.api.merge(Sort::Secret, place, &body).await?;
    shared.remember(place, &written);
    watching::take(shared, Sort::Secret, written);
    Ok(true)
}

/// Makes the Secret of an instance.
pub(super) async fn create(
    shared: &ServerContext,
    work: &KeyWork<'_>,
    mut fields: SecretFields,
    marks: KeyMarks,
) -> Result<(), ApiError> {
    fields.insert(FIELD_TOKEN.to_owned(), shared.ports.make_token());
    let mut metadata = work.metadata.clone();
    let config = work.spec.rndc_key.as_ref();
    let config = config.and_then(|key| key.secret.clone());
    let RndcSecretConfig {
        metadata: asked,
        kind,
        string_data,
        data,
    } = config.unwrap_or_default();
    let asked = asked.unwrap_or_default();
    let mut labels = asked.labels;
    labels.extend(metadata.labels.take().unwrap_or_default());
    metadata.labels = Some(labels);
    let mut annotations = asked.annotations;
    for (name, value) in marks.annotations() {
        if let Value::String(text) = value {
            annotations.insert(name.to_owned(), text);
        }
    }
    metadata.annotations = Some(annotations);
    // What it is to carry beside; the fields of the key are ours.
    let encoded = data.into_iter().filter_map(|(name, text)| {
        let bytes: ByteString = serde_json::from_value(text.into()).ok()?;
        Some((name, String::from_utf8(bytes.0).ok()?))
    });
    for (name, text) in encoded.chain(string_data) {
        fields.entry(name).or_insert_with(|| SecretText::new(text));
    }
    let kind = kind.unwrap_or_else(|| "Opaque".to_owned());
    create_at(shared, &work.place, metadata, (fields, &kind)).await
}

/// Makes a Secret.
pub(in super::super) async fn create_at(
    shared: &ServerContext,
    place: &ObjectPlace,
    metadata: ObjectMeta,
    (fields, kind): (SecretFields, &str),
) -> Result<(), ApiError> {
    let mut secret = DynamicObject::new(&place.name, &Sort::Secret.resource());
    secret.metadata = ObjectMeta {
        name: Some(place.name.to_string()),
        namespace: Some(place.namespace.to_string()),
        ..metadata
    };
    let fields = fields
        .iter()
        .map(|(name, text)| (name.as_str(), text.expose()));
    let fields: BTreeMap<&str, &str> = fields.collect();
    secret.data = json!({ "stringData": fields, "type": kind });
    put(shared, place, &secret).await
}

/// Makes a Secret that somebody deleted as it was: whoever has its keys goes on with them. The metadata says whose
/// it is now: one that named an owner of before would be collected with that owner at once.
pub(super) async fn restore(
    shared: &ServerContext,
    place: &ObjectPlace,
    lost: &DynamicObject,
    metadata: ObjectMeta,
) -> Result<(), ApiError> {
    let mut secret = lost.clone();
    secret.metadata = ObjectMeta {
        name: lost.metadata.name.clone(),
        namespace: lost.metadata.namespace.clone(),
        labels: lost.metadata.labels.clone(),
        annotations: lost.metadata.annotations.clone(),
        ..metadata
    };
    tracing::warn!(namespace = %place.namespace, secret = %place.name, "a Secret is gone and made again as it was");
    put(shared, place, &secret).await
}

async fn put(
    shared: &ServerContext,
    place: &ObjectPlace,
    secret: &DynamicObject,
) -> Result<(), ApiError> {
    match shared.api.create(Sort::Secret, place, secret).await {
        Ok(written) => {
            shared.remember(place, &written);
            watching::take(shared, Sort::Secret, written);
            Ok(())
        }
        // Another made it a moment ago; the watch tells.
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

//! Objects as the API lists them, and the ways to spell their kinds.

use anyhow::{Context as _, Result, bail};
use bindery_api::{RawObject, info};
use bindery_core::Kind;
use bindery_sources::Object;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::live::{ObjectRow, RowKey, ShownObject};

/// One object as it was listed.
#[derive(Clone, Debug)]
pub(super) struct ListedObject {
    pub(super) kind: Kind,
    pub(super) metadata: ObjectMeta,
    /// All of it but the metadata.
    body: Value,
    pub(super) spec: Value,
    pub(super) status: Value,
    /// How its status sums up.
    pub(super) row: ObjectRow,
}

/// A server as a zone's status tells of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct ListedServer {
    pub(super) address: String,
    pub(super) role: String,
    pub(super) serial: Option<i64>,
    pub(super) ready: bool,
}

/// Which object a user means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectQuery {
    /// `None` for a Service.
    pub(super) kind: Option<Kind>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl ListedObject {
    /// An object from its parts.
    ///
    /// # Errors
    /// Where its status has another shape than the definitions say.
    pub(super) fn new(kind: Kind, metadata: ObjectMeta, data: &Value) -> Result<Self> {
        let part = |name: &str| data.get(name).cloned().unwrap_or_default();
        let (spec, status) = (part("spec"), part("status"));
        let mut whole = json!({ "metadata": metadata });
        for (name, value) in [("spec", &spec), ("status", &status)] {
            if value.is_object() {
                whole[name] = value.clone();
            }
        }
        let glimpse: ShownObject = serde_json::from_value(whole).with_context(|| {
            let name = metadata.name.as_deref().unwrap_or_default();
            format!("the status of {}/{name} cannot be read", kind.as_str())
        })?;
        let key = RowKey::new(kind, &glimpse);
        Ok(Self {
            kind,
            row: ObjectRow::new(key.role, &glimpse),
            metadata,
            body: data.clone(),
            spec,
            status,
        })
    }

    /// What decisions need of it.
    pub(super) fn read(&self) -> Option<Object> {
        let fields = self.body.as_object().into_iter().flatten();
        let fields = fields.map(|(name, value)| (name.as_str(), value));
        let object = RawObject::new(self.metadata.clone(), fields);
        let object = Object::read(info(self.kind), &object)?;
        Some(object.with_status(&self.status))
    }

    /// Its namespace.
    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The servers in a zone's status.
    pub(super) fn servers(&self) -> Vec<ListedServer> {
        let listed = self.status.get("servers").cloned().unwrap_or_default();
        serde_json::from_value(listed).unwrap_or_default()
    }

    /// A text in its spec or status.
    pub(super) fn text<'a>(part: &'a Value, field: &str) -> Option<&'a str> {
        part.get(field)?.as_str()
    }
}

/// Every kind with its definition, zones first.
pub(super) fn definitions() -> Vec<(Kind, CustomResourceDefinition)> {
    let defined = bindery_api::crds().into_iter().filter_map(|crd| {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == crd.spec.names.kind)?;
        Some((kind, crd))
    });
    defined.collect()
}

/// Reads `KIND/NAME` or `KIND/NAMESPACE/NAME`.
pub(super) fn wanted(text: &str) -> Result<ObjectQuery> {
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] => (kind, None, name),
        [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
        _ => bail!("{text:?} is no object; write KIND/NAME, for example arecord/www"),
    };
    if name.is_empty() {
        bail!("{text:?} has no name; write KIND/NAME, for example arecord/www");
    }
    let is_service = ["service", "services", "svc"].contains(&kind.to_lowercase().as_str());
    Ok(ObjectQuery {
        kind: if is_service {
            None
        } else {
            Some(spelled(kind)?)
        },
        namespace,
        name: name.to_owned(),
    })
}

/// The kind that a user means: as kubectl takes it, with or without its group.
fn spelled(text: &str) -> Result<Kind> {
    let lower = text.to_lowercase();
    let word = lower.split('.').next().unwrap_or_default();
    let mut defined = definitions().into_iter();
    let found = defined.find_map(|(kind, crd)| {
        let names = crd.spec.names;
        let mut short = names.short_names.iter().flatten();
        let same = names.kind.to_lowercase() == word
            || names.plural == word
            || names.singular.as_deref() == Some(word)
            || short.any(|short| short == word);
        same.then_some(kind)
    });
    found.with_context(|| {
        let kinds: Vec<String> = Kind::ALL
            .iter()
            .map(|kind| kind.as_str().to_lowercase())
            .collect();
        format!(
            "{text:?} is no kind of ours; write service or one of {}",
            kinds.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_as_for_kubectl() {
        for text in [
            "ARecord",
            "arecord",
            "arecords",
            "arecord.bindy.firestoned.io",
        ] {
            assert_eq!(spelled(text).ok(), Some(Kind::ARecord), "{text}");
        }
        for text in ["dnszone", "dnszones", "zone", "zones", "dz"] {
            assert_eq!(spelled(text).ok(), Some(Kind::DnsZone), "{text}");
        }
        let defined = definitions();
        assert_eq!(defined.len(), Kind::ALL.len());
        for (kind, crd) in defined {
            for short in crd.spec.names.short_names.unwrap_or_default() {
                assert_eq!(spelled(&short).ok(), Some(kind), "{short}");
            }
        }
        let message = spelled("pod").expect_err("not ours").to_string();
        assert!(message.contains("arecord"), "{message}");
    }

    #[test]
    fn an_object_may_carry_its_namespace() {
        let found = wanted("a/www").expect("it is one");
        assert_eq!((found.kind, found.namespace), (Some(Kind::ARecord), None));
        let found = wanted("arecord/web/www").expect("it is one");
        assert_eq!(found.namespace.as_deref(), Some("web"));
        assert_eq!(found.name, "www");
        for text in ["service/web", "svc/web", "Services/web"] {
            assert_eq!(wanted(text).expect(text).kind, None, "{text}");
        }
        for bad in ["www", "a/b/c/d", "arecord/", ""] {
            wanted(bad).expect_err(bad);
        }
    }
}

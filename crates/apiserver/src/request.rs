//! What a request asks for: its path, its query and the form of the answer it accepts.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use super::failure::{Failure, Fault, Subject};
use super::kinds::{Kind, Kinds};
use super::object::ObjectId;

/// Where a request about objects points to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) part: Part,
}

/// Which part of an object is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    Scale,
    /// Only namespaces have it.
    Finalize,
}

/// The form an answer is wanted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Metadata,
    Table,
}

/// How unknown and duplicate fields are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options every write takes.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
}

/// The decoded query of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Target {
    /// Finds what a path such as `/apis/apps/v1/namespaces/a/deployments/b/status` means.
    pub(crate) fn find(kinds: &Kinds, segments: &[Cow<'_, str>]) -> Result<Self, Failure> {
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let (group, version, rest) = match segments.as_slice() {
            // `watch` is the old way to ask for a watch.
            ["api", version, "watch", rest @ ..] | ["api", version, rest @ ..] => {
                ("", *version, rest)
            }
            ["apis", group, version, "watch", rest @ ..] | ["apis", group, version, rest @ ..] => {
                (*group, *version, rest)
            }
            _ => return Err(Failure::no_resource()),
        };
        let found = |plural: &str| kinds.find(group, version, plural).cloned();
        let (kind, namespace, name, part) = match *rest {
            ["namespaces", namespace, plural, ref rest @ ..]
                if !(group.is_empty() && rest.is_empty() && is_namespace_part(plural)) =>
            {
                let kind = found(plural).filter(|kind| kind.namespaced);
                match *rest {
                    [] => (kind, Some(namespace), None, None),
                    [name] => (kind, Some(namespace), Some(name), None),
                    [name, part] => (kind, Some(namespace), Some(name), Some(part)),
                    _ => return Err(Failure::no_resource()),
                }
            }
            [plural] => (found(plural), None, None, None),
            [plural, name] => (
                found(plural).filter(|kind| !kind.namespaced),
                None,
                Some(name),
                None,
            ),
            [plural, name, part] => (
                found(plural).filter(|kind| !kind.namespaced),
                None,
                Some(name),
                Some(part),
            ),
            _ => return Err(Failure::no_resource()),
        };
        let kind = kind.ok_or_else(Failure::no_resource)?;
        let part = Part::find(&kind, part)?;
        Ok(Self {
            kind,
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
            part,
        })
    }

    /// Whether objects of all namespaces are meant.
    pub(crate) fn is_scattered(&self) -> bool {
        self.kind.namespaced && self.namespace.is_none()
    }

    /// Whether the path has `watch` before the resource.
    pub(crate) fn is_old_watch(&self, segments: &[Cow<'_, str>]) -> bool {
        let index = if self.kind.group.is_empty() { 2 } else { 3 };
        segments
            .get(index)
            .is_some_and(|segment| segment == "watch")
    }

    /// The identity of the object named `name` under this target.
    pub(crate) fn id_of(&self, name: &str) -> ObjectId {
        ObjectId {
            resource: Arc::clone(&self.kind.resource),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.into(),
        }
    }
}

impl Part {
    /// The subresource's name, empty for the object itself.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
        }
    }

    fn find(kind: &Kind, part: Option<&str>) -> Result<Self, Failure> {
        match part {
            None => Ok(Self::Whole),
            Some("status") if kind.status => Ok(Self::Status),
            Some("scale") if kind.scale.is_some() => Ok(Self::Scale),
            Some("finalize") if &*kind.resource == "namespaces" => Ok(Self::Finalize),
            Some(_) => Err(Failure::no_resource()),
        }
    }
}

fn is_namespace_part(word: &str) -> bool {
    matches!(word, "status" | "finalize")
}

impl Form {
    /// The first form of the `Accept` header that this server can give.
    pub(crate) fn accepted(headers: &HeaderMap) -> Result<Self, Failure> {
        let Some(accept) = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
        else {
            return Ok(Self::Object);
        };
        accept
            .split(',')
            .find_map(Self::of_media_type)
            .ok_or_else(|| {
                let message = "only the following media types are accepted: application/json";
                Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
            })
    }

    /// Whether the first type that this server can give is YAML.
    pub(crate) fn is_yaml(headers: &HeaderMap) -> bool {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        let mut known = accept.into_iter().flat_map(|accept| accept.split(','));
        let first = known.find(|text| Self::of_media_type(text).is_some());
        first.is_some_and(|text| text.trim_start().starts_with("application/yaml"))
    }

    fn of_media_type(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        if !matches!(
            parts.next()?,
            "application/json" | "application/*" | "*/*" | "application/yaml"
        ) {
            return None;
        }
        match parts.find_map(|parameter| parameter.strip_prefix("as=")) {
            None => Some(Self::Object),
            Some("Table") => Some(Self::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
            Some(_) => None,
        }
    }
}

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of a parameter, unless it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(key, _)| key != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax ({name})"
            ))
        })
    }
}

impl WriteOptions {
    /// Reads and checks the options of a write; `options` names their kind in messages.
    pub(crate) fn read(query: &Query, headers: &HeaderMap, options: &str) -> Result<Self, Failure> {
        let subject = Subject {
            group: "meta.k8s.io",
            plural: "",
            kind: options,
        };
        let unsupported = |field: &str, given: &str, supported: &str| {
            let message = format!("Unsupported value: {given:?}: supported values: {supported}");
            let reason = "FieldValueNotSupported";
            Failure::invalid(
                subject,
                "",
                &[Fault {
                    reason,
                    message,
                    field: field.to_owned(),
                }],
            )
        };
        let dry_run = match query.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => return Err(unsupported("dryRun", other, "\"All\"")),
        };
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                return Err(unsupported("fieldValidation", other, supported));
            }
        };
        let manager = query
            .get("fieldManager")
            .map_or_else(|| agent(headers), ToOwned::to_owned);
        if manager.len() > 128 {
            let fault = Fault::too_long("fieldManager", "may not be more than 128 bytes");
            return Err(Failure::invalid(subject, "", &[fault]));
        }
        Ok(Self {
            dry_run,
            manager,
            validation,
        })
    }
}

/// The name a client goes by when it gives no field manager: its user agent up to the slash.
fn agent(headers: &HeaderMap) -> String {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let name = agent
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.chars().take(128).collect()
    }
}

/// The decoded segments of a path.
pub(crate) fn segments(path: &str) -> Vec<Cow<'_, str>> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| {
            // Hardly any path has something to decode, and looking for it is cheap.
            if segment.contains('%') {
                percent_encoding::percent_decode_str(segment).decode_utf8_lossy()
            } else {
                Cow::Borrowed(segment)
            }
        })
        .collect()
}

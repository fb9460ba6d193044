//! The rules of `metadata`: names, labels, annotations, finalizers and owner references.

use serde_json::{Value, json};

use super::failure::Fault;

/// Bytes that all annotations of an object may have together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// How deep an object may be nested; serde reads at most 128 levels back.
const DEPTH_MAX: usize = 100;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
    regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Which names a resource allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    PathSegment,
}

impl NameRule {
    pub(crate) fn of(resource: &str) -> Self {
        match resource {
            "namespaces" | "services" => Self::Label,
            resource if resource.ends_with("rbac.authorization.k8s.io") => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    fn problem(self, name: &str) -> Option<String> {
        match self {
            Self::Subdomain => subdomain_problem(name),
            Self::Label => {
                if name.len() > 63 {
                    Some("must be no more than 63 characters".to_owned())
                } else {
                    (!is_label(name)).then(|| LABEL.to_owned())
                }
            }
            Self::PathSegment => {
                let bad = matches!(name, "." | "..") || name.contains(['/', '%']);
                bad.then(|| "may not contain '/' or '%' or be '.' or '..'".to_owned())
            }
        }
    }
}

/// What is wrong with the metadata of a new object.
pub(crate) fn problems(value: &Value, rule: NameRule) -> Vec<Fault> {
    let metadata = &value["metadata"];
    let mut faults = Vec::new();
    let name = &metadata["name"];
    if let Some(why) = name.as_str().and_then(|name| rule.problem(name)) {
        faults.push(Fault::invalid("metadata.name", name, &why));
    }
    label_problems(&metadata["labels"], "metadata.labels", &mut faults);
    annotation_problems(&metadata["annotations"], &mut faults);
    finalizer_problems(&metadata["finalizers"], &mut faults);
    owner_problems(&metadata["ownerReferences"], &mut faults);
    if depth(value, DEPTH_MAX).is_none() {
        let why = format!("may not be nested deeper than {DEPTH_MAX} levels");
        faults.push(Fault::too_long("<root>", &why));
    }
    faults
}

/// What must not change from one version of an object to the next.
pub(crate) fn transition_problems(old: &Value, new: &Value) -> Vec<Fault> {
    const IMMUTABLE: [&str; 6] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let mut faults = Vec::new();
    let (held, given) = (&old["metadata"], &new["metadata"]);
    for field in IMMUTABLE {
        let (before, after) = (&held[field], &given[field]);
        if before != after {
            let path = format!("metadata.{field}");
            faults.push(Fault::invalid(path, after, "field is immutable"));
        }
    }
    if held.get("deletionTimestamp").is_some() {
        let held: Vec<&str> = super::object::finalizers(old).collect();
        let mut added: Vec<&str> = super::object::finalizers(new)
            .filter(|finalizer| !held.contains(finalizer))
            .collect();
        added.sort_unstable();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                quoted.join(", ")
            );
            faults.push(Fault::forbidden("metadata.finalizers", &why));
        }
    }
    faults
}

/// What is wrong with a label key, if anything.
pub(crate) fn label_key_problem(key: &str) -> Option<String> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(a, b)| (Some(a), b));
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if let Some(why) = subdomain_problem(prefix) {
            return Some(format!("prefix part {why}"));
        }
    }
    if name.is_empty() {
        return Some(format!("name part must be non-empty; {QUALIFIED}"));
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 characters".to_owned());
    }
    (!is_word(name)).then(|| QUALIFIED.to_owned())
}

/// What is wrong with a label value, if anything.
pub(crate) fn label_value_problem(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE.to_owned())
}

fn subdomain_problem(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    (!name.split('.').all(is_label)).then(|| SUBDOMAIN.to_owned())
}

fn is_label(text: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    framed(text, ok) && text.bytes().all(|byte| ok(byte) || byte == b'-')
}

fn is_word(text: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric();
    framed(text, ok)
        && text
            .bytes()
            .all(|byte| ok(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

fn framed(text: &str, ok: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&byte| ok(byte)) && bytes.last().is_some_and(|&byte| ok(byte))
}

fn label_problems(labels: &Value, field: &str, faults: &mut Vec<Fault>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(why) = label_key_problem(key) {
            faults.push(Fault::invalid(field, &json!(key), &why));
        }
        if let Some(why) = value.as_str().and_then(label_value_problem) {
            faults.push(Fault::invalid(field, value, &why));
        }
    }
}

fn annotation_problems(annotations: &Value, faults: &mut Vec<Fault>) {
    let field = "metadata.annotations";
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if let Some(why) = label_key_problem(&key.to_lowercase()) {
            faults.push(Fault::invalid(field, &json!(key), &why));
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        let why = format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes");
        faults.push(Fault::too_long(field, &why));
    }
}

fn finalizer_problems(finalizers: &Value, faults: &mut Vec<Fault>) {
    for finalizer in finalizers.as_array().into_iter().flatten() {
        let field = "metadata.finalizers";
        let name = finalizer.as_str().unwrap_or_default();
        if let Some(why) = label_key_problem(name) {
            faults.push(Fault::invalid(field, finalizer, &why));
        }
    }
}

fn owner_problems(owners: &Value, faults: &mut Vec<Fault>) {
    let owners = owners.as_array().map_or(&[][..], Vec::as_slice);
    for owner in owners {
        for (field, name) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "kind must not be empty"),
            ("name", "name must not be empty"),
            ("uid", "uid must not be empty"),
        ] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let path = format!("metadata.ownerReferences.{field}");
                faults.push(Fault::invalid(path, &json!(""), name));
            }
        }
    }
    let controllers = owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .count();
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true.";
        faults.push(Fault::invalid(
            "metadata.ownerReferences",
            &json!(owners),
            why,
        ));
    }
}

/// The depth of a value, unless it exceeds `left`.
fn depth(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| depth(item, left))
            .try_fold(1, deeper),
        Value::Object(fields) => fields
            .values()
            .map(|item| depth(item, left))
            .try_fold(1, deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(1),
    }
}

fn deeper(deepest: usize, next: Option<usize>) -> Option<usize> {
    Some(deepest.max(next? + 1))
}

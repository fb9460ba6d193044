//! Documents of manifest files, and what is wrong with those that are none.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bindery_sources::meta::{PUBLISHED, PUBLISHED_CHECK};
use serde_json::Value;
use serde_saphyr::{Options, Spanned};
use sha2::{Digest as _, Sha256};

use super::{FILE, FILE_HASH, NO_LONGER_DECLARED};

/// Documents that one file may have. A document of 250 bytes 20,000 times fills a file.
const DOCUMENTS_MAX: usize = 20_000;
/// Nodes that one file may have: a record has about 25, a file at most 20,000 of them.
const NODES_MAX: usize = 1_000_000;
/// Nodes that aliases may add to one file. Each alias copies what it stands for, so this is what
/// keeps a "YAML bomb" small.
const ALIASED_NODES_MAX: usize = 100_000;
/// Bytes of a hash that are kept: enough to tell versions of one document apart.
const HASH_BYTES: usize = 8;
/// Fields of `metadata` that only the server writes; a file made by `kubectl get -o yaml` has them.
const SERVER_FIELDS: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Annotations that only Bindery writes, and that such a file has too.
const OUR_ANNOTATIONS: [&str; 5] = [
    FILE,
    FILE_HASH,
    NO_LONGER_DECLARED,
    PUBLISHED,
    PUBLISHED_CHECK,
];

/// Which object is meant, whatever the version. Kinds without namespaces are taken to be in
/// `default`, so that a manifest and the object it made have the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One object as a file declares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) key: ObjectKey,
    pub(crate) api_version: String,
    /// Where it begins, counted from 1.
    pub(crate) line: u64,
    /// Changes when the document does.
    pub(crate) hash: String,
    pub(crate) value: Value,
}

/// Something in the folder that has to be put right by its author.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileProblem {
    /// Relative to the folder; empty where it is about the folder as a whole.
    pub(crate) file: String,
    pub(crate) line: Option<u64>,
    pub(crate) text: String,
}

impl ObjectKey {
    /// The key of an object that has a kind, a name and perhaps a namespace.
    pub(crate) fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace
                .filter(|name| !name.is_empty())
                .unwrap_or("default")
                .to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl FileProblem {
    /// A problem with a whole file.
    pub(crate) fn with_file(file: &str, text: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            text: text.into(),
        }
    }

    /// A problem at some line.
    pub(crate) fn at(file: &str, line: u64, text: impl Into<String>) -> Self {
        Self {
            line: Some(line).filter(|line| *line > 0),
            ..Self::with_file(file, text)
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => write!(f, "{}", self.text),
            (file, Some(line)) => write!(f, "{file}:{line}: {}", self.text),
            (file, None) => write!(f, "{file}: {}", self.text),
        }
    }
}

/// The documents of one file, `List`s taken apart.
pub(crate) fn documents(file: &str, text: &str) -> Result<Vec<Arc<Document>>, FileProblem> {
    let mut documents = Vec::new();
    for (line, value) in values(file, text)? {
        add(file, line, value, &mut documents)?;
    }
    Ok(documents)
}

fn values(file: &str, text: &str) -> Result<Vec<(u64, Value)>, FileProblem> {
    let extension = Path::new(file).extension();
    if extension.is_some_and(|found| found.eq_ignore_ascii_case("json")) {
        return match serde_json::from_str(text) {
            Ok(value) => Ok(vec![(1, value)]),
            Err(_) if text.trim().is_empty() => Ok(Vec::new()),
            Err(error) => {
                let line = u64::try_from(error.line()).unwrap_or_default();
                Err(FileProblem::at(file, line, format!("not JSON: {error}")))
            }
        };
    }
    match serde_saphyr::from_multiple_with_options::<Spanned<Value>>(text, options()) {
        Ok(values) => Ok(values
            .into_iter()
            .map(|found| (found.referenced.line(), found.value))
            .collect()),
        Err(error) => {
            let line = error.location().map_or(0, |location| location.line());
            let rendered = error.without_snippet().to_string();
            let text = rendered.lines().next().unwrap_or_default();
            let text = text.split_once(" at line ").map_or(text, |(text, _)| text);
            Err(FileProblem::at(file, line, format!("not YAML: {text}")))
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: DOCUMENTS_MAX,
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_NODES_MAX,
        },
        // YAML 1.1 takes y, no and on for booleans; as names they are meant as written.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn add(
    file: &str,
    line: u64,
    value: Value,
    documents: &mut Vec<Arc<Document>>,
) -> Result<(), FileProblem> {
    if value.is_null() {
        return Ok(());
    }
    let kind = text(&value, "/kind").unwrap_or_default();
    let is_list = kind == "List" || (kind.ends_with("List") && value.get("items").is_some());
    if is_list && let Some(Value::Array(items)) = value.get("items") {
        for item in items {
            add(file, line, item.clone(), documents)?;
        }
        return Ok(());
    }
    documents.push(Arc::new(document(file, line, value)?));
    Ok(())
}

fn document(file: &str, line: u64, mut value: Value) -> Result<Document, FileProblem> {
    if !value.is_object() {
        return Err(FileProblem::at(
            file,
            line,
            "not a Kubernetes object: it has no fields",
        ));
    }
    let need = |pointer: &str, field: &str| {
        let found = text(&value, pointer)
            .filter(|found| !found.is_empty())
            .map(str::to_owned);
        found.ok_or_else(|| {
            FileProblem::at(file, line, format!("{field} is missing or not a string"))
        })
    };
    let api_version = need("/apiVersion", "apiVersion")?;
    let kind = need("/kind", "kind")?;
    let name = need("/metadata/name", "metadata.name")?;
    let key = ObjectKey::new(
        &api_version,
        &kind,
        text(&value, "/metadata/namespace"),
        &name,
    );
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_FIELDS {
            metadata.remove(field);
        }
        if let Some(notes) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            for name in OUR_ANNOTATIONS {
                notes.remove(name);
            }
        }
    }
    let hash = hash(&value);
    Ok(Document {
        key,
        api_version,
        line,
        hash,
        value,
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A hash of the document that is the same tomorrow and on another machine.
fn hash(value: &Value) -> String {
    use fmt::Write as _;
    let digest = Sha256::digest(value.to_string());
    digest
        .iter()
        .take(HASH_BYTES)
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").ok();
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, text: &str) -> Result<Vec<String>, String> {
        let found = documents(file, text).map_err(|problem| problem.to_string())?;
        Ok(found
            .iter()
            .map(|one| format!("{}:{}", one.line, one.key))
            .collect())
    }

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "\
# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: other}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
";
        assert_eq!(
            check("a.yaml", text),
            Ok(vec![
                "2:ConfigMap default/a".to_owned(),
                "7:ConfigMap other/b".to_owned(),
                "7:ConfigMap default/c".to_owned(),
            ])
        );
    }

    #[test]
    fn a_mistake_is_told_with_file_and_line() {
        for (text, wanted) in [
            (
                "apiVersion: v1\nkind: [\n",
                "a.yaml:2: not YAML: unclosed bracket",
            ),
            (
                "apiVersion: v1\nkind: ConfigMap\n",
                "a.yaml:1: metadata.name is missing",
            ),
            ("kind: ConfigMap\nkind: Secret\n", "a.yaml:2: not YAML"),
            ("just text\n", "a.yaml:1: not a Kubernetes object"),
            ("a: b\n---\nx: [}\n", "a.yaml:3: not YAML"),
        ] {
            let message = check("a.yaml", text).expect_err(text);
            assert!(message.starts_with(wanted), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        let message = check("a.json", "{\n\"a\": }").expect_err("it is no JSON");
        assert!(message.starts_with("a.json:2: not JSON"), "{message}");
    }

    #[test]
    fn a_yaml_bomb_stays_small() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let above = level - 1;
            let aliases = vec![format!("*a{above}"); 10].join(", ");
            bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
        }
        let message = check("bomb.yaml", &bomb).expect_err("it is too much");
        assert!(message.starts_with("bomb.yaml:"), "{message}");
    }

    #[test]
    fn what_the_server_or_bindery_wrote_does_not_count() {
        let plain = "{apiVersion: v1, kind: A, metadata: {name: a, annotations: {x: y}}}";
        let dumped = "{apiVersion: v1, kind: A, metadata: {name: a, uid: u, annotations: \
                      {x: y, bindery.dev/file: b.yaml, bindery.dev/file-hash: '1', \
                      bindery.dev/no-longer-declared: b.yaml, bindery.dev/published: z}}, \
                      status: {x: y}}";
        let hash = |text| documents("a.yaml", text).map(|found| found[0].hash.clone());
        assert_eq!(hash(plain), hash(dumped));
    }
}

//! `OpenAPI` v3 documents: what clients need to explain, validate and apply objects.

mod builtin;
mod operations;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// A resource in one version.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The group, empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name in paths.
    pub plural: &'a str,
    /// Where its objects live.
    pub scope: ResourceScope,
    /// Subresources by name: `status`, `scale`.
    pub subresources: &'a [&'a str],
    /// The `openAPIV3Schema` of a custom resource; built-in kinds are known.
    pub schema: Option<&'a Value>,
}

/// Where objects live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// In the cluster as a whole.
    Cluster,
    /// In namespaces.
    Namespaced,
}

/// The document of one group version, served below `/openapi/v3/`.
#[must_use]
pub fn document(resources: &[Resource<'_>]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources {
        operations::add(&mut paths, *resource);
        let name = resource.schema_name();
        schemas.insert(format!("{name}List"), list_schema(*resource));
        schemas.insert(name, schema(*resource));
    }
    schemas.insert(OBJECT_META.to_owned(), builtin::object_meta());
    schemas.insert(LIST_META.to_owned(), builtin::list_meta());
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The index at `/openapi/v3`, of group version paths (`api/v1`, `apis/apps/v1`) and their
/// documents' texts.
#[must_use]
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, text)| {
            let url = format!("/openapi/v3/{path}?hash={}", hash(text));
            (path.to_owned(), json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The hash by which clients recognize a document they already have.
#[must_use]
pub fn hash(text: &[u8]) -> String {
    let mut printed = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        write!(printed, "{byte:02X}").expect("writing to a string cannot fail");
    }
    printed
}

impl Resource<'_> {
    /// `group/version`, or the version alone in the core group.
    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name of its schema among the components.
    fn schema_name(&self) -> String {
        let (version, kind) = (self.version, self.kind);
        if self.schema.is_some() {
            let reversed: Vec<&str> = self.group.split('.').rev().collect();
            return format!("{}.{version}.{kind}", reversed.join("."));
        }
        match self.group {
            "" => format!("io.k8s.api.core.{version}.{kind}"),
            "apiextensions.k8s.io" => {
                format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}")
            }
            group => {
                let short = group.split('.').next().unwrap_or(group);
                format!("io.k8s.api.{short}.{version}.{kind}")
            }
        }
    }

    fn kind_mark(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

fn schema(resource: Resource<'_>) -> Value {
    let mut schema = match resource.schema {
        Some(declared) => declared.clone(),
        None => builtin::kind(resource.kind),
    };
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    let mut properties = match schema.get_mut("properties") {
        Some(Value::Object(properties)) => std::mem::take(properties),
        _ => Map::new(),
    };
    add_type(&mut properties);
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "Name, labels and all else that every object has.",
            "allOf": [reference(OBJECT_META)], "default": {},
        }),
    );
    schema["properties"] = Value::Object(properties);
    schema["x-kubernetes-group-version-kind"] = json!([resource.kind_mark()]);
    schema
}

fn list_schema(resource: Resource<'_>) -> Value {
    let mut properties = Map::new();
    add_type(&mut properties);
    properties.insert(
        "metadata".to_owned(),
        json!({"description": "What belongs to the list as a whole.", "allOf": [reference(LIST_META)], "default": {}}),
    );
    properties.insert(
        "items".to_owned(),
        json!({
            "description": format!("List of {}.", resource.plural), "type": "array",
            "items": {"allOf": [reference(&resource.schema_name())], "default": {}},
        }),
    );
    let mut mark = resource.kind_mark();
    mark["kind"] = json!(format!("{}List", resource.kind));
    json!({
        "description": format!("A list of {}.", resource.kind), "type": "object",
        "required": ["items"], "properties": properties,
        "x-kubernetes-group-version-kind": [mark],
    })
}

fn add_type(properties: &mut Map<String, Value>) {
    let described = [
        (
            "apiVersion",
            "The group and version of the API that the object is written in.",
        ),
        ("kind", "The kind of the object, in CamelCase."),
    ];
    for (name, description) in described {
        properties.insert(
            name.to_owned(),
            json!({"type": "string", "description": description}),
        );
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

//! Paths and operations of a resource.

use serde_json::{Map, Value, json};

use crate::openapi::{Resource, ResourceScope, reference};

/// Query parameters of all writes. kubectl leaves validation to servers whose PATCH takes
/// `fieldValidation`.
const WRITE_PARAMETERS: [(&str, &str); 4] = [
    ("pretty", "Print the answer for people to read."),
    (
        "dryRun",
        "With the value All, do everything but store the result.",
    ),
    (
        "fieldManager",
        "The name under which ownership of fields is recorded.",
    ),
    (
        "fieldValidation",
        "What becomes of unknown or repeated fields: Ignore, Warn or Strict.",
    ),
];
const LIST_PARAMETERS: [(&str, &str); 6] = [
    ("labelSelector", "Only objects whose labels match."),
    ("fieldSelector", "Only objects whose fields match."),
    ("limit", "At most this many objects; ask on with continue."),
    ("continue", "Where the last answer ended."),
    ("resourceVersion", "How fresh the answer must be."),
    ("watch", "Report changes instead of listing."),
];

/// Adds all paths of a resource.
pub(crate) fn add(paths: &mut Map<String, Value>, resource: Resource<'_>) {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}", resource.api_version())
    };
    let plural = resource.plural;
    let collection = match resource.scope {
        ResourceScope::Cluster => format!("{root}/{plural}"),
        ResourceScope::Namespaced => {
            let list = operation(resource, "list", Answer::List, "AllNamespaces");
            paths.insert(format!("{root}/{plural}"), json!({ "get": list }));
            format!("{root}/namespaces/{{namespace}}/{plural}")
        }
    };
    let item = format!("{collection}/{{name}}");
    paths.insert(
        collection,
        json!({
            "get": operation(resource, "list", Answer::List, ""),
            "post": operation(resource, "post", Answer::Object, ""),
            "delete": operation(resource, "deletecollection", Answer::Status, ""),
            "parameters": path_parameters(resource.scope, &[]),
        }),
    );
    paths.insert(
        item.clone(),
        json!({
            "get": operation(resource, "get", Answer::Object, ""),
            "put": operation(resource, "put", Answer::Object, ""),
            "patch": operation(resource, "patch", Answer::Object, ""),
            "delete": operation(resource, "delete", Answer::Status, ""),
            "parameters": path_parameters(resource.scope, &["name"]),
        }),
    );
    if resource.subresources.contains(&"status") {
        paths.insert(
            format!("{item}/status"),
            json!({
                "get": operation(resource, "get", Answer::Object, "Status"),
                "put": operation(resource, "put", Answer::Object, "Status"),
                "patch": operation(resource, "patch", Answer::Object, "Status"),
                "parameters": path_parameters(resource.scope, &["name"]),
            }),
        );
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Object,
    List,
    Status,
}

fn operation(resource: Resource<'_>, action: &str, answer: Answer, suffix: &str) -> Value {
    let object = resource.schema_name();
    let schema = match answer {
        Answer::Object => reference(&object),
        Answer::List => reference(&format!("{object}List")),
        Answer::Status => json!({"type": "object"}),
    };
    let parameters: &[(&str, &str)] = match action {
        "list" | "deletecollection" => &LIST_PARAMETERS,
        "get" => &WRITE_PARAMETERS[..1],
        _ => &WRITE_PARAMETERS,
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, description)| parameter(name, "query", description))
        .collect();
    let group = resource.group.split('.').next().unwrap_or_default();
    let tag = if group.is_empty() { "core" } else { group };
    let mut operation = json!({
        "tags": [format!("{tag}_{}", resource.version)],
        "operationId": format!("{action}{tag}{}{}{suffix}", resource.version, resource.kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": resource.kind_mark(),
    });
    // Strategic merge is left out on purpose: without merge keys in the schemas kubectl would
    // compute wrong patches from them; this way it uses the types that it was built with.
    let content = match action {
        "post" | "put" => json!({"application/json": {"schema": reference(&object)}}),
        "patch" => json!({
            "application/apply-patch+yaml": {"schema": {"type": "object"}},
            "application/json-patch+json": {"schema": {"type": "object"}},
            "application/merge-patch+json": {"schema": {"type": "object"}},
        }),
        _ => return operation,
    };
    operation["requestBody"] = json!({"required": true, "content": content});
    operation
}

fn path_parameters(scope: ResourceScope, names: &[&str]) -> Vec<Value> {
    let namespace = (scope == ResourceScope::Namespaced).then_some("namespace");
    names
        .iter()
        .copied()
        .chain(namespace)
        .map(|name| {
            let mut parameter = parameter(name, "path", &format!("The {name} of the object."));
            parameter["required"] = json!(true);
            parameter
        })
        .collect()
}

fn parameter(name: &str, place: &str, description: &str) -> Value {
    json!({
        "name": name, "in": place, "description": description,
        "schema": {"type": "string", "uniqueItems": true},
    })
}

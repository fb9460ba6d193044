//! Documents have what kubectl looks for.

use serde_json::json;

use crate::openapi::{Resource, Scope, document, index};

#[test]
fn a_custom_resource_can_be_explained_and_validated() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let document = document(&[Resource {
        group: "bindy.firestoned.io",
        version: "v1beta1",
        kind: "ARecord",
        plural: "arecords",
        scope: Scope::Namespaced,
        subresources: &["status"],
        schema: Some(&schema),
    }]);
    let item = "/apis/bindy.firestoned.io/v1beta1/namespaces/{namespace}/arecords/{name}";
    let patch = &document["paths"][item]["patch"];
    let mark = json!({"group": "bindy.firestoned.io", "version": "v1beta1", "kind": "ARecord"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], mark);
    let takes_validation = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .any(|parameter| parameter["name"] == "fieldValidation" && parameter["in"] == "query");
    assert!(takes_validation);
    let schemas = &document["components"]["schemas"];
    let named = &schemas["io.firestoned.bindy.v1beta1.ARecord"];
    assert_eq!(named["x-kubernetes-group-version-kind"], json!([mark]));
    assert!(named["properties"]["metadata"].is_object());
    assert!(schemas["io.firestoned.bindy.v1beta1.ARecordList"].is_object());
}

#[test]
fn built_in_kinds_are_described() {
    let document = document(&[Resource {
        group: "",
        version: "v1",
        kind: "Service",
        plural: "services",
        scope: Scope::Namespaced,
        subresources: &[],
        schema: None,
    }]);
    let schema = &document["components"]["schemas"]["io.k8s.api.core.v1.Service"];
    let ports = &schema["properties"]["spec"]["properties"]["ports"];
    assert_eq!(ports["items"]["required"], json!(["port"]));
    assert_eq!(ports["items"]["properties"]["port"]["type"], "integer");
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/services"]["get"].is_object());
}

#[test]
fn every_listed_field_has_a_place() {
    for (kind, _, fields) in super::builtin::KINDS {
        let schema = super::builtin::builtin_schema(kind);
        for line in fields
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let path = line.split(' ').next().unwrap();
            let mut here = &schema;
            for step in path.split('.') {
                if here["type"] == "array" {
                    here = &here["items"];
                }
                here = &here["properties"][step];
            }
            assert!(here["type"].is_string(), "{kind} {path}");
        }
    }
}

#[test]
fn the_index_changes_with_the_documents() {
    let one = index([("api/v1", b"a".as_slice())]);
    let other = index([("api/v1", b"b".as_slice())]);
    assert_ne!(one, other);
    let url = one["paths"]["api/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    assert!(url.starts_with("/openapi/v3/api/v1?hash="), "{url}");
}

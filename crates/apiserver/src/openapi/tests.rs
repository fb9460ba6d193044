//! Documents have what kubectl looks for.

use serde_json::json;

use crate::openapi::{Resource, ResourceScope, document, index};

#[test]
fn a_custom_resource_can_be_explained_and_validated() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let document = document(&[Resource {
        group: "bindy.firestoned.io",
        version: "v1beta1",
        kind: "ARecord",
        plural: "arecords",
        scope: ResourceScope::Namespaced,
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
fn a_built_in_kind_has_metadata_and_takes_any_field() {
    let document = document(&[Resource {
        group: "",
        version: "v1",
        kind: "Service",
        plural: "services",
        scope: ResourceScope::Namespaced,
        subresources: &[],
        schema: None,
    }]);
    let schemas = &document["components"]["schemas"];
    let schema = &schemas["io.k8s.api.core.v1.Service"];
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], json!(true));
    assert!(schema["properties"]["metadata"].is_object());
    let meta = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    let owners = &meta["properties"]["ownerReferences"]["items"];
    assert_eq!(
        owners["required"],
        json!(["apiVersion", "kind", "name", "uid"])
    );
    assert_eq!(owners["properties"]["controller"]["type"], "boolean");
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/services"]["get"].is_object());
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

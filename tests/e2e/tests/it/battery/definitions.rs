//! The life of a CustomResourceDefinition.

use bindery_e2e::http::Call;
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

cases![
    a_definition_is_served_soon_after_its_creation,
    a_definition_tells_its_conditions_and_names,
    a_definition_fills_in_names_that_are_left_out,
    a_deleted_definition_takes_its_objects_along,
    a_deleted_definition_comes_back_empty,
    a_name_that_does_not_fit_is_refused,
    a_definition_without_a_schema_is_refused,
    a_definition_without_a_stored_version_is_refused,
    a_definition_with_two_stored_versions_is_refused,
    a_schema_that_is_not_structural_is_refused,
    a_default_that_does_not_fit_is_refused,
    a_rule_that_does_not_compile_is_refused,
    a_pattern_that_is_none_is_refused,
    a_list_map_without_keys_is_refused,
    a_bad_scope_is_refused,
    the_group_cannot_be_changed,
    a_new_version_is_served_soon,
    a_version_that_is_no_longer_served_is_gone,
    a_stricter_schema_holds_for_new_writes,
    names_of_another_definition_are_a_conflict,
    a_list_kind_can_be_chosen,
    a_definition_can_be_applied,
    definitions_can_be_listed,
    a_definition_of_a_protected_group_is_refused,
];

/// A definition in a group of its own, with one stored version.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                }},
            }],
        },
    })
}

fn group() -> String {
    format!("{}.bindery.dev", unique("group"))
}

fn thing(group: &str, name: &str, number: i64) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": name}, "spec": {"n": number},
    })
}

/// Installs a definition and waits until it is served; gives the path of its objects.
async fn install(t: &Scene, body: &Value) -> String {
    t.post(DEFINITIONS, body).await.is(201);
    let group = body["spec"]["group"].as_str().expect("it has a group");
    let target = format!("/apis/{group}/v1/namespaces/{}/things", t.ns);
    t.until(&target, |answer| answer.code == 200).await;
    target
}

async fn refuse(t: &Scene, body: &Value) -> Value {
    t.post(DEFINITIONS, body).await.refused(422, "Invalid")
}

async fn a_definition_is_served_soon_after_its_creation(t: Scene) {
    let group = group();
    let things = install(&t, &definition(&group)).await;
    let made = t.post(&things, &thing(&group, "a", 1)).await.is(201);
    assert_eq!(made["spec"]["n"], 1);
    let root = t
        .until(&format!("/apis/{group}/v1"), |answer| answer.code == 200)
        .await;
    assert_eq!(root["resources"][0]["kind"], "Thing");
}

async fn a_definition_tells_its_conditions_and_names(t: Scene) {
    let group = group();
    install(&t, &definition(&group)).await;
    let seen = t
        .get(&format!("{DEFINITIONS}/things.{group}"))
        .await
        .is(200);
    for kind in ["Established", "NamesAccepted"] {
        let conditions = seen["status"]["conditions"]
            .as_array()
            .expect("it has conditions")
            .clone();
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == kind);
        assert_eq!(
            found.map(|condition| &condition["status"]),
            Some(&json!("True")),
            "{seen}"
        );
    }
    assert_eq!(seen["status"]["acceptedNames"]["plural"], "things");
    assert_eq!(seen["status"]["storedVersions"], json!(["v1"]));
}

async fn a_definition_fills_in_names_that_are_left_out(t: Scene) {
    let group = group();
    let made = t.post(DEFINITIONS, &definition(&group)).await.is(201);
    assert_eq!(made["spec"]["names"]["singular"], "thing");
    assert_eq!(made["spec"]["names"]["listKind"], "ThingList");
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
}

async fn a_deleted_definition_takes_its_objects_along(t: Scene) {
    let group = group();
    let things = install(&t, &definition(&group)).await;
    t.post(&things, &thing(&group, "a", 1)).await.is(201);
    let target = format!("{DEFINITIONS}/things.{group}");
    t.delete(&target).await.is(200);
    t.until(&target, |answer| answer.code == 404).await;
    t.until(&things, |answer| answer.code == 404).await;
}

async fn a_deleted_definition_comes_back_empty(t: Scene) {
    let group = group();
    let things = install(&t, &definition(&group)).await;
    t.post(&things, &thing(&group, "a", 1)).await.is(201);
    let target = format!("{DEFINITIONS}/things.{group}");
    t.delete(&target).await.is(200);
    t.until(&target, |answer| answer.code == 404).await;
    t.until(&things, |answer| answer.code == 404).await;
    let things = install(&t, &definition(&group)).await;
    assert_eq!(t.get(&things).await.is(200)["items"], json!([]));
}

async fn a_name_that_does_not_fit_is_refused(t: Scene) {
    let mut body = definition(&group());
    body["metadata"]["name"] = json!("other.example.com");
    cause(
        &refuse(&t, &body).await,
        "FieldValueInvalid",
        "metadata.name",
    );
}

async fn a_definition_without_a_schema_is_refused(t: Scene) {
    let mut body = definition(&group());
    body["spec"]["versions"][0]["schema"] = json!({});
    let status = refuse(&t, &body).await;
    cause(
        &status,
        "FieldValueRequired",
        "spec.versions[0].schema.openAPIV3Schema",
    );
}

async fn a_definition_without_a_stored_version_is_refused(t: Scene) {
    let mut body = definition(&group());
    body["spec"]["versions"][0]["storage"] = json!(false);
    cause(
        &refuse(&t, &body).await,
        "FieldValueInvalid",
        "spec.versions",
    );
}

async fn a_definition_with_two_stored_versions_is_refused(t: Scene) {
    let mut body = definition(&group());
    let mut second = body["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    body["spec"]["versions"]
        .as_array_mut()
        .expect("versions are a list")
        .push(second);
    cause(
        &refuse(&t, &body).await,
        "FieldValueInvalid",
        "spec.versions",
    );
}

fn with_property(property: Value) -> Value {
    let mut body = definition(&group());
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["x"] = property;
    body
}

async fn a_schema_that_is_not_structural_is_refused(t: Scene) {
    let status = refuse(&t, &with_property(json!({"description": "no type"}))).await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("properties[x].type: Required value"),
        "{status}"
    );
}

async fn a_default_that_does_not_fit_is_refused(t: Scene) {
    let status = refuse(
        &t,
        &with_property(json!({"type": "integer", "default": "one"})),
    )
    .await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("properties[x].default"), "{status}");
}

async fn a_rule_that_does_not_compile_is_refused(t: Scene) {
    let property = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self +"}]});
    let status = refuse(&t, &with_property(property)).await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("properties[x].x-kubernetes-validations[0].rule"),
        "{status}"
    );
}

async fn a_pattern_that_is_none_is_refused(t: Scene) {
    let status = refuse(
        &t,
        &with_property(json!({"type": "string", "pattern": "(("})),
    )
    .await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("properties[x].pattern"), "{status}");
}

async fn a_list_map_without_keys_is_refused(t: Scene) {
    let property = json!({
        "type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"},
    });
    let status = refuse(&t, &with_property(property)).await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("properties[x].x-kubernetes-list-map-keys"),
        "{status}"
    );
}

async fn a_bad_scope_is_refused(t: Scene) {
    let mut body = definition(&group());
    body["spec"]["scope"] = json!("Galactic");
    cause(
        &refuse(&t, &body).await,
        "FieldValueNotSupported",
        "spec.scope",
    );
}

async fn the_group_cannot_be_changed(t: Scene) {
    let group = group();
    install(&t, &definition(&group)).await;
    let change = json!({"spec": {"group": "other.bindery.dev"}});
    let target = format!("{DEFINITIONS}/things.{group}");
    t.patch(&target, Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    let change = json!({"spec": {"scope": "Cluster"}});
    let status = t
        .patch(&target, Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "spec.scope");
}

async fn a_new_version_is_served_soon(t: Scene) {
    let group = group();
    let mut body = definition(&group);
    let things = install(&t, &body).await;
    t.post(&things, &thing(&group, "a", 1)).await.is(201);
    let mut second = body["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    let versions = body["spec"]["versions"]
        .as_array_mut()
        .expect("versions are a list");
    versions.push(second);
    let change = json!({"spec": {"versions": versions}});
    t.patch(
        &format!("{DEFINITIONS}/things.{group}"),
        Patch::Merge,
        &change,
    )
    .await
    .is(200);
    let target = format!("/apis/{group}/v2/namespaces/{}/things/a", t.ns);
    let seen = t.until(&target, |answer| answer.code == 200).await;
    assert_eq!(seen["apiVersion"], format!("{group}/v2"));
}

async fn a_version_that_is_no_longer_served_is_gone(t: Scene) {
    let group = group();
    let things = install(&t, &definition(&group)).await;
    let change = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    t.patch(
        &format!("{DEFINITIONS}/things.{group}"),
        Patch::Json,
        &change,
    )
    .await
    .is(200);
    t.until(&things, |answer| answer.code == 404).await;
}

async fn a_stricter_schema_holds_for_new_writes(t: Scene) {
    let group = group();
    let things = install(&t, &definition(&group)).await;
    t.post(&things, &thing(&group, "a", 9)).await.is(201);
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/maximum";
    let change = json!([{"op": "add", "path": path, "value": 5}]);
    t.patch(
        &format!("{DEFINITIONS}/things.{group}"),
        Patch::Json,
        &change,
    )
    .await
    .is(200);
    let probe = Call::new(Method::POST, format!("{things}?dryRun=All"));
    t.until_call(probe.json(&thing(&group, "b", 9)), |answer| {
        answer.code == 422
    })
    .await;
    // What is stored already can still be read, and changed elsewhere.
    assert_eq!(t.get(&format!("{things}/a")).await.is(200)["spec"]["n"], 9);
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    t.patch(&format!("{things}/a"), Patch::Merge, &change)
        .await
        .is(200);
}

async fn names_of_another_definition_are_a_conflict(t: Scene) {
    let group = group();
    install(&t, &definition(&group)).await;
    let mut other = definition(&group);
    other["metadata"]["name"] = json!(format!("stuff.{group}"));
    other["spec"]["names"] = json!({"plural": "stuff", "kind": "Thing"});
    t.post(DEFINITIONS, &other).await.is(201);
    let target = format!("{DEFINITIONS}/stuff.{group}");
    let refused = |answer: &bindery_e2e::http::Answer| {
        let conditions = answer.json["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .iter()
            .any(|c| c["type"] == "NamesAccepted" && c["status"] == "False")
    };
    t.until(&target, refused).await;
    let target = format!("/apis/{group}/v1/namespaces/{}/stuff", t.ns);
    assert_eq!(t.get(&target).await.code, 404);
}

async fn a_list_kind_can_be_chosen(t: Scene) {
    let group = group();
    let mut body = definition(&group);
    body["spec"]["names"]["listKind"] = json!("HeapOfThings");
    let things = install(&t, &body).await;
    assert_eq!(t.get(&things).await.is(200)["kind"], "HeapOfThings");
}

async fn a_definition_can_be_applied(t: Scene) {
    let group = group();
    let target = format!("{DEFINITIONS}/things.{group}?fieldManager=battery");
    t.patch(&target, Patch::Apply, &definition(&group))
        .await
        .is(201);
    let things = format!("/apis/{group}/v1/namespaces/{}/things", t.ns);
    t.until(&things, |answer| answer.code == 200).await;
    t.patch(&target, Patch::Apply, &definition(&group))
        .await
        .is(200);
}

async fn definitions_can_be_listed(t: Scene) {
    let list = t.get(DEFINITIONS).await.is(200);
    assert_eq!(list["kind"], "CustomResourceDefinitionList");
    let names = crate::scene::names(&list);
    assert!(
        names.contains(&"widgets.battery.bindery.dev".to_owned()),
        "{names:?}"
    );
}

async fn a_definition_of_a_protected_group_is_refused(t: Scene) {
    let body = definition(&format!("{}.k8s.io", unique("mine")));
    let status = refuse(&t, &body).await;
    cause(
        &status,
        "FieldValueRequired",
        "metadata.annotations[api-approved.kubernetes.io]",
    );
}

//! Dry runs of every write, and what is made of unknown and doubled fields.

use bindery_e2e::http::Call;
use http::Method;
use serde_json::json;

use crate::scene::{Expect, Patch, Scene, cases, cause, config_map, names, version, widget};

cases![
    a_dry_creation_stores_nothing,
    a_dry_creation_is_validated,
    a_dry_creation_of_an_existing_name_already_exists,
    a_dry_replacement_stores_nothing,
    a_dry_patch_stores_nothing,
    a_dry_deletion_deletes_nothing,
    a_dry_deletion_by_options_deletes_nothing,
    a_dry_deletion_of_a_collection_deletes_nothing,
    a_dry_status_write_stores_nothing,
    a_dry_run_brings_no_event,
    another_dry_run_value_is_refused,
    an_unknown_field_is_dropped_when_ignored,
    an_unknown_field_is_dropped_with_a_warning_by_default,
    an_unknown_field_is_refused_when_strict,
    a_doubled_field_is_refused_when_strict,
    a_doubled_field_warns_by_default,
    an_unknown_metadata_field_is_refused_when_strict,
    an_unknown_field_in_a_patch_is_refused_when_strict,
    another_field_validation_is_refused,
    a_built_in_kind_warns_of_unknown_fields,
    a_built_in_kind_refuses_unknown_fields_when_strict,
];

async fn a_dry_creation_stores_nothing(t: Scene) {
    let target = format!("{}?dryRun=All", t.widgets());
    let made = t
        .post(&target, &widget("a", json!({"size": 1})))
        .await
        .is(201);
    assert_eq!(made["spec"]["color"], "red");
    assert!(made["metadata"]["uid"].is_string());
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_dry_creation_is_validated(t: Scene) {
    let target = format!("{}?dryRun=All", t.widgets());
    let status = t
        .post(&target, &widget("a", json!({"size": -1})))
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "spec.size");
}

async fn a_dry_creation_of_an_existing_name_already_exists(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = format!("{}?dryRun=All", t.widgets());
    let answer = t.post(&target, &widget("a", json!({"size": 1}))).await;
    answer.refused(409, "AlreadyExists");
}

async fn a_dry_replacement_stores_nothing(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let mut body = made.clone();
    body["spec"]["size"] = json!(2);
    let after = t
        .put(&format!("{}?dryRun=All", t.widget("a")), &body)
        .await
        .is(200);
    assert_eq!(
        (&after["spec"]["size"], &after["metadata"]["generation"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_dry_patch_stores_nothing(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let target = format!("{}?dryRun=All", t.widget("a"));
    let after = t
        .patch(&target, Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    assert_eq!(after["spec"]["size"], 2);
    let operations = json!([{"op": "replace", "path": "/spec/size", "value": 3}]);
    assert_eq!(
        t.patch(&target, Patch::Json, &operations).await.is(200)["spec"]["size"],
        3
    );
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_dry_deletion_deletes_nothing(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    t.delete(&format!("{}?dryRun=All", t.widget("a")))
        .await
        .is(200);
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_dry_deletion_by_options_deletes_nothing(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
    t.delete_with(&t.widget("a"), &options).await.is(200);
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_dry_deletion_of_a_collection_deletes_nothing(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.delete(&format!("{}?dryRun=All", t.widgets()))
        .await
        .is(200);
    assert_eq!(names(&t.get(&t.widgets()).await.is(200)), ["a"]);
}

async fn a_dry_status_write_stores_nothing(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let target = format!("{}?dryRun=All", t.widget("a/status"));
    let after = t
        .patch(&target, Patch::Merge, &json!({"status": {"phase": "x"}}))
        .await
        .is(200);
    assert_eq!(after["status"]["phase"], "x");
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_dry_run_brings_no_event(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    let target = format!("{}?dryRun=All", t.widget("a"));
    t.patch(&target, Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    t.delete(&target).await.is(200);
    t.make("b", json!({"size": 1})).await;
    events.expect("ADDED", "b").await;
}

async fn another_dry_run_value_is_refused(t: Scene) {
    let target = format!("{}?dryRun=Some", t.widgets());
    let status = t
        .post(&target, &widget("a", json!({"size": 1})))
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueNotSupported", "dryRun");
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn an_unknown_field_is_dropped_when_ignored(t: Scene) {
    let target = format!("{}?fieldValidation=Ignore", t.widgets());
    let answer = t
        .post(&target, &widget("a", json!({"size": 1, "unknown": 5})))
        .await;
    assert_eq!(answer.warnings(), Vec::<String>::new());
    assert!(answer.is(201)["spec"].get("unknown").is_none());
}

async fn an_unknown_field_is_dropped_with_a_warning_by_default(t: Scene) {
    for (name, query) in [("a", ""), ("b", "?fieldValidation=Warn")] {
        let target = format!("{}{query}", t.widgets());
        let body = widget(name, json!({"size": 1, "unknown": 5, "nested": {"odd": 1}}));
        let answer = t.post(&target, &body).await;
        let warnings = answer.warnings();
        assert!(
            warnings.contains(&"299 - \"unknown field \\\"spec.nested.odd\\\"\"".to_owned()),
            "{warnings:?}"
        );
        assert!(
            warnings.contains(&"299 - \"unknown field \\\"spec.unknown\\\"\"".to_owned()),
            "{warnings:?}"
        );
        assert!(answer.is(201)["spec"].get("unknown").is_none());
    }
}

async fn an_unknown_field_is_refused_when_strict(t: Scene) {
    let target = format!("{}?fieldValidation=Strict", t.widgets());
    let body = widget("a", json!({"size": 1, "unknown": 5}));
    let status = t.post(&target, &body).await.refused(400, "BadRequest");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("strict decoding error: unknown field \"spec.unknown\""),
        "{status}"
    );
}

const DOUBLED: &str = "{\"apiVersion\": \"battery.bindery.dev/v1\", \"kind\": \"Widget\", \
    \"metadata\": {\"name\": \"a\"}, \"spec\": {\"size\": 1, \"size\": 2}}";

async fn a_doubled_field_is_refused_when_strict(t: Scene) {
    let call = Call::new(
        Method::POST,
        format!("{}?fieldValidation=Strict", t.widgets()),
    );
    let status = t
        .call(call.body("application/json", DOUBLED))
        .await
        .refused(400, "BadRequest");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("duplicate field \"spec.size\""), "{status}");
}

async fn a_doubled_field_warns_by_default(t: Scene) {
    let call = Call::new(Method::POST, t.widgets()).body("application/json", DOUBLED);
    let answer = t.call(call).await;
    let warnings = answer.warnings();
    assert_eq!(warnings, ["299 - \"duplicate field \\\"spec.size\\\"\""]);
    assert_eq!(answer.is(201)["spec"]["size"], 2);
}

async fn an_unknown_metadata_field_is_refused_when_strict(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["nonsense"] = json!(1);
    let target = format!("{}?fieldValidation=Strict", t.widgets());
    let status = t.post(&target, &body).await.refused(400, "BadRequest");
    assert!(
        status["message"]
            .as_str()
            .unwrap_or_default()
            .contains("metadata.nonsense"),
        "{status}"
    );
}

async fn an_unknown_field_in_a_patch_is_refused_when_strict(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = format!("{}?fieldValidation=Strict", t.widget("a"));
    let answer = t
        .patch(&target, Patch::Merge, &json!({"spec": {"unknown": 1}}))
        .await;
    assert!(
        [400, 422].contains(&answer.code) && answer.text.contains("spec.unknown"),
        "{}",
        answer.text
    );
}

async fn another_field_validation_is_refused(t: Scene) {
    let target = format!("{}?fieldValidation=Maybe", t.widgets());
    let status = t
        .post(&target, &widget("a", json!({"size": 1})))
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueNotSupported", "fieldValidation");
}

async fn a_built_in_kind_warns_of_unknown_fields(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["nonsense"] = json!(1);
    let answer = t.post(&t.core("configmaps"), &body).await;
    assert_eq!(
        answer.warnings(),
        ["299 - \"unknown field \\\"nonsense\\\"\""]
    );
    assert!(answer.is(201).get("nonsense").is_none());
}

async fn a_built_in_kind_refuses_unknown_fields_when_strict(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["nonsense"] = json!(1);
    let target = format!("{}?fieldValidation=Strict", t.core("configmaps"));
    t.post(&target, &body).await.refused(400, "BadRequest");
}

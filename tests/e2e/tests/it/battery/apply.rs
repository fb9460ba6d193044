//! Server-side apply: managers, conflicts, removal, lists.

use bindery_e2e::http::{Answer, Call};
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, config_map, version, widget};

cases![
    apply_makes_a_missing_object,
    apply_needs_a_manager,
    apply_of_the_same_again_changes_nothing,
    apply_records_what_the_manager_owns,
    another_manager_in_conflict_is_told_which_field,
    force_takes_the_field_over,
    the_same_value_is_owned_by_both,
    a_field_that_is_no_longer_applied_is_removed,
    a_field_that_another_manager_owns_too_is_kept,
    an_update_of_an_applied_field_takes_it_over,
    apply_over_an_updated_field_is_a_conflict,
    a_list_map_is_merged_by_key,
    an_element_of_a_list_map_is_removed_by_its_owner,
    a_conflict_in_a_list_map_names_its_key,
    a_set_is_merged,
    an_element_of_a_set_is_removed_by_its_owner,
    an_atomic_list_is_replaced_and_conflicts_as_one,
    an_atomic_map_conflicts_as_one,
    defaults_are_not_owned,
    managed_fields_in_an_applied_object_are_refused,
    apply_with_another_name_is_refused,
    apply_without_a_kind_is_refused,
    apply_takes_yaml,
    apply_of_a_built_in_kind_works,
    apply_is_validated,
    apply_with_a_stale_version_is_a_conflict,
    apply_of_an_unknown_field_fails,
    status_is_owned_apart_from_the_main_resource,
    dry_run_apply_stores_nothing,
    managed_fields_can_be_cleared,
    a_status_update_is_tracked_under_its_subresource,
    labels_of_several_managers_live_together,
    the_last_label_is_removed_by_its_owner,
    two_updates_by_one_manager_share_an_entry,
    duplicate_keys_in_a_list_map_are_refused,
];

async fn apply_query(t: &Scene, query: &str, spec: Value) -> Answer {
    let target = format!("{}?{query}", t.widget("a"));
    t.patch(&target, Patch::Apply, &widget("a", spec)).await
}

async fn apply(t: &Scene, manager: &str, spec: Value) -> Answer {
    apply_query(t, &format!("fieldManager={manager}"), spec).await
}

async fn force(t: &Scene, manager: &str, spec: Value) -> Value {
    apply_query(t, &format!("fieldManager={manager}&force=true"), spec)
        .await
        .is(200)
}

fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let found = entries.and_then(|list| list.iter().find(|entry| entry["manager"] == manager));
    found.map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

async fn apply_makes_a_missing_object(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1})).await.is(201);
    assert_eq!(made["spec"]["size"], 1);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn apply_needs_a_manager(t: Scene) {
    let answer = t
        .patch(
            &t.widget("a"),
            Patch::Apply,
            &widget("a", json!({"size": 1})),
        )
        .await;
    let status = answer.refused(422, "Invalid");
    cause(&status, "FieldValueRequired", "fieldManager");
}

async fn apply_of_the_same_again_changes_nothing(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1})).await.is(201);
    let again = apply(&t, "one", json!({"size": 1})).await.is(200);
    assert_eq!(again, made);
}

async fn apply_records_what_the_manager_owns(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1, "nested": {"label": "x"}}))
        .await
        .is(201);
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "one");
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(entry["apiVersion"], "battery.bindery.dev/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert!(entry["time"].is_string());
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {"f:nested": {"f:label": {}}, "f:size": {}}})
    );
}

async fn another_manager_in_conflict_is_told_which_field(t: Scene) {
    apply(&t, "one", json!({"size": 1})).await.is(201);
    let status = apply(&t, "two", json!({"size": 2}))
        .await
        .refused(409, "Conflict");
    let message = cause(&status, "FieldManagerConflict", ".spec.size");
    assert_eq!(message, "conflict with \"one\"");
    let text = status["message"].as_str().unwrap_or_default();
    assert_eq!(
        text,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.size"
    );
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 1);
}

async fn force_takes_the_field_over(t: Scene) {
    apply(&t, "one", json!({"size": 1, "code": "abc"}))
        .await
        .is(201);
    let after = force(&t, "two", json!({"size": 2})).await;
    assert_eq!(after["spec"]["size"], 2);
    assert_eq!(fields(&after, "two"), &json!({"f:spec": {"f:size": {}}}));
    assert_eq!(fields(&after, "one"), &json!({"f:spec": {"f:code": {}}}));
}

async fn the_same_value_is_owned_by_both(t: Scene) {
    apply(&t, "one", json!({"size": 1})).await.is(201);
    let after = apply(&t, "two", json!({"size": 1})).await.is(200);
    for manager in ["one", "two"] {
        assert_eq!(fields(&after, manager), &json!({"f:spec": {"f:size": {}}}));
    }
}

async fn a_field_that_is_no_longer_applied_is_removed(t: Scene) {
    apply(
        &t,
        "one",
        json!({"size": 1, "code": "abc", "map": {"x": "1", "y": "2"}}),
    )
    .await
    .is(201);
    let after = apply(&t, "one", json!({"size": 1, "map": {"y": "2"}}))
        .await
        .is(200);
    assert!(after["spec"].get("code").is_none());
    assert_eq!(after["spec"]["map"], json!({"y": "2"}));
}

async fn a_field_that_another_manager_owns_too_is_kept(t: Scene) {
    apply(&t, "one", json!({"size": 1, "code": "abc"}))
        .await
        .is(201);
    apply(&t, "two", json!({"size": 1, "code": "abc"}))
        .await
        .is(200);
    let after = apply(&t, "one", json!({"size": 1})).await.is(200);
    assert_eq!(after["spec"]["code"], "abc");
    assert_eq!(fields(&after, "one"), &json!({"f:spec": {"f:size": {}}}));
}

async fn an_update_of_an_applied_field_takes_it_over(t: Scene) {
    apply(&t, "one", json!({"size": 1, "code": "abc"}))
        .await
        .is(201);
    let target = format!("{}?fieldManager=two", t.widget("a"));
    let after = t
        .patch(&target, Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    assert_eq!(fields(&after, "one"), &json!({"f:spec": {"f:code": {}}}));
    assert_eq!(fields(&after, "two"), &json!({"f:spec": {"f:size": {}}}));
}

async fn apply_over_an_updated_field_is_a_conflict(t: Scene) {
    let target = format!("{}?fieldManager=editor", t.widgets());
    t.post(&target, &widget("a", json!({"size": 1})))
        .await
        .is(201);
    let status = apply(&t, "one", json!({"size": 2}))
        .await
        .refused(409, "Conflict");
    let message = cause(&status, "FieldManagerConflict", ".spec.size");
    assert!(
        message.starts_with("conflict with \"editor\" using battery.bindery.dev/v1"),
        "{message}"
    );
}

async fn a_list_map_is_merged_by_key(t: Scene) {
    apply(
        &t,
        "one",
        json!({"size": 1, "ports": [{"name": "a", "port": 1}]}),
    )
    .await
    .is(201);
    let spec = json!({"size": 1, "ports": [{"name": "b", "port": 2}]});
    let after = apply(&t, "two", spec).await.is(200);
    let ports = json!([
        {"name": "a", "port": 1, "protocol": "TCP"}, {"name": "b", "port": 2, "protocol": "TCP"},
    ]);
    assert_eq!(after["spec"]["ports"], ports);
    let owned = json!({".": {}, "f:name": {}, "f:port": {}});
    assert_eq!(
        fields(&after, "two")["f:spec"]["f:ports"]["k:{\"name\":\"b\"}"],
        owned
    );
}

async fn an_element_of_a_list_map_is_removed_by_its_owner(t: Scene) {
    let both = json!({"size": 1, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    apply(&t, "one", both).await.is(201);
    let spec = json!({"size": 1, "ports": [{"name": "b", "port": 2}]});
    let after = apply(&t, "one", spec).await.is(200);
    assert_eq!(
        after["spec"]["ports"],
        json!([{"name": "b", "port": 2, "protocol": "TCP"}])
    );
}

async fn a_conflict_in_a_list_map_names_its_key(t: Scene) {
    apply(
        &t,
        "one",
        json!({"size": 1, "ports": [{"name": "a", "port": 1}]}),
    )
    .await
    .is(201);
    let spec = json!({"size": 1, "ports": [{"name": "a", "port": 2}]});
    let status = apply(&t, "two", spec).await.refused(409, "Conflict");
    cause(
        &status,
        "FieldManagerConflict",
        ".spec.ports[name=\"a\"].port",
    );
}

async fn a_set_is_merged(t: Scene) {
    apply(&t, "one", json!({"size": 1, "tags": ["a", "b"]}))
        .await
        .is(201);
    let after = apply(&t, "two", json!({"size": 1, "tags": ["b", "c"]}))
        .await
        .is(200);
    assert_eq!(after["spec"]["tags"], json!(["a", "b", "c"]));
    let owned = json!({"v:\"b\"": {}, "v:\"c\"": {}});
    assert_eq!(fields(&after, "two")["f:spec"]["f:tags"], owned);
}

async fn an_element_of_a_set_is_removed_by_its_owner(t: Scene) {
    apply(&t, "one", json!({"size": 1, "tags": ["a", "b"]}))
        .await
        .is(201);
    apply(&t, "two", json!({"size": 1, "tags": ["b", "c"]}))
        .await
        .is(200);
    let after = apply(&t, "one", json!({"size": 1, "tags": []}))
        .await
        .is(200);
    assert_eq!(after["spec"]["tags"], json!(["b", "c"]));
}

async fn an_atomic_list_is_replaced_and_conflicts_as_one(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1, "plain": [1, 2]}))
        .await
        .is(201);
    assert_eq!(fields(&made, "one")["f:spec"]["f:plain"], json!({}));
    let status = apply(&t, "two", json!({"size": 1, "plain": [1, 2, 3]})).await;
    cause(
        &status.refused(409, "Conflict"),
        "FieldManagerConflict",
        ".spec.plain",
    );
    let after = force(&t, "two", json!({"size": 1, "plain": [3]})).await;
    assert_eq!(after["spec"]["plain"], json!([3]));
}

async fn an_atomic_map_conflicts_as_one(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1, "bundle": {"a": "1"}}))
        .await
        .is(201);
    assert_eq!(fields(&made, "one")["f:spec"]["f:bundle"], json!({}));
    let status = apply(&t, "two", json!({"size": 1, "bundle": {"b": "2"}})).await;
    cause(
        &status.refused(409, "Conflict"),
        "FieldManagerConflict",
        ".spec.bundle",
    );
    let after = force(&t, "two", json!({"size": 1, "bundle": {"b": "2"}})).await;
    assert_eq!(after["spec"]["bundle"], json!({"b": "2"}));
}

async fn defaults_are_not_owned(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1})).await.is(201);
    assert_eq!(made["spec"]["color"], "red");
    assert_eq!(fields(&made, "one"), &json!({"f:spec": {"f:size": {}}}));
    let after = apply(&t, "two", json!({"size": 1, "color": "blue"}))
        .await
        .is(200);
    assert_eq!(after["spec"]["color"], "blue");
}

async fn managed_fields_in_an_applied_object_are_refused(t: Scene) {
    let made = apply(&t, "one", json!({"size": 1})).await.is(201);
    let target = format!("{}?fieldManager=one", t.widget("a"));
    t.patch(&target, Patch::Apply, &made)
        .await
        .refused(400, "BadRequest");
}

async fn apply_with_another_name_is_refused(t: Scene) {
    let target = format!("{}?fieldManager=one", t.widget("a"));
    let answer = t
        .patch(&target, Patch::Apply, &widget("b", json!({"size": 1})))
        .await;
    answer.refused(400, "BadRequest");
}

async fn apply_without_a_kind_is_refused(t: Scene) {
    let target = format!("{}?fieldManager=one", t.widget("a"));
    let answer = t
        .patch(&target, Patch::Apply, &json!({"spec": {"size": 1}}))
        .await;
    answer.refused(400, "BadRequest");
}

async fn apply_takes_yaml(t: Scene) {
    let text = "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 5\n";
    let call = Call::new(Method::PATCH, format!("{}?fieldManager=one", t.widget("a")));
    let made = t
        .call(call.body("application/apply-patch+yaml", text))
        .await
        .is(201);
    assert_eq!(made["spec"]["size"], 5);
}

async fn apply_of_a_built_in_kind_works(t: Scene) {
    let target = format!("{}?fieldManager=one", t.core("configmaps/a"));
    let made = t
        .patch(
            &target,
            Patch::Apply,
            &config_map("a", json!({"x": "1", "y": "2"})),
        )
        .await
        .is(201);
    assert_eq!(
        fields(&made, "one"),
        &json!({"f:data": {"f:x": {}, "f:y": {}}})
    );
    let after = t
        .patch(&target, Patch::Apply, &config_map("a", json!({"y": "3"})))
        .await
        .is(200);
    assert_eq!(after["data"], json!({"y": "3"}));
    let other = format!("{}?fieldManager=two", t.core("configmaps/a"));
    let status = t
        .patch(&other, Patch::Apply, &config_map("a", json!({"y": "4"})))
        .await;
    cause(
        &status.refused(409, "Conflict"),
        "FieldManagerConflict",
        ".data.y",
    );
}

async fn apply_is_validated(t: Scene) {
    let status = apply(&t, "one", json!({"size": 1000}))
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "spec.size");
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn apply_with_a_stale_version_is_a_conflict(t: Scene) {
    let rv = version(&apply(&t, "one", json!({"size": 1})).await.is(201));
    apply(&t, "one", json!({"size": 2})).await.is(200);
    let mut body = widget("a", json!({"size": 3}));
    body["metadata"]["resourceVersion"] = json!(rv);
    let target = format!("{}?fieldManager=one", t.widget("a"));
    t.patch(&target, Patch::Apply, &body)
        .await
        .refused(409, "Conflict");
}

async fn apply_of_an_unknown_field_fails(t: Scene) {
    let spec = json!({"size": 1, "unknown": true});
    let answer = apply_query(&t, "fieldManager=one&fieldValidation=Strict", spec).await;
    assert!(
        (400..=500).contains(&answer.code) && answer.text.contains("unknown"),
        "{}",
        answer.text
    );
}

async fn status_is_owned_apart_from_the_main_resource(t: Scene) {
    apply(&t, "one", json!({"size": 1})).await.is(201);
    let mut body = widget("a", json!({"size": 99}));
    body["status"] = json!({"phase": "Done"});
    let target = format!("{}?fieldManager=one", t.widget("a/status"));
    let after = t.patch(&target, Patch::Apply, &body).await.is(200);
    assert_eq!(
        (&after["spec"]["size"], &after["status"]["phase"]),
        (&json!(1), &json!("Done"))
    );
    let entries = after["metadata"]["managedFields"]
        .as_array()
        .expect("fields are tracked")
        .clone();
    let entry = entries
        .iter()
        .find(|entry| entry["subresource"] == "status");
    let owned = entry.map(|entry| entry["fieldsV1"].clone());
    assert_eq!(owned, Some(json!({"f:status": {"f:phase": {}}})));
    // Applying the main resource again does not remove what was applied to the status.
    let after = apply(&t, "one", json!({"size": 2})).await.is(200);
    assert_eq!(after["status"]["phase"], "Done");
}

async fn dry_run_apply_stores_nothing(t: Scene) {
    let made = apply_query(&t, "fieldManager=one&dryRun=All", json!({"size": 1}))
        .await
        .is(201);
    assert_eq!(made["spec"]["color"], "red");
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn managed_fields_can_be_cleared(t: Scene) {
    apply(&t, "one", json!({"size": 1})).await.is(201);
    let change = json!({"metadata": {"managedFields": [{}]}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert!(
        after["metadata"]["managedFields"]
            .as_array()
            .is_none_or(Vec::is_empty),
        "{after}"
    );
}

async fn a_status_update_is_tracked_under_its_subresource(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = format!("{}?fieldManager=reporter", t.widget("a/status"));
    let change = json!({"status": {"phase": "Done"}});
    let after = t.patch(&target, Patch::Merge, &change).await.is(200);
    let entries = after["metadata"]["managedFields"]
        .as_array()
        .expect("fields are tracked")
        .clone();
    let entry = entries
        .iter()
        .find(|entry| entry["manager"] == "reporter")
        .expect("it is there");
    assert_eq!(
        (&entry["subresource"], &entry["operation"]),
        (&json!("status"), &json!("Update"))
    );
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {".": {}, "f:phase": {}}})
    );
}

async fn labels_of_several_managers_live_together(t: Scene) {
    for (manager, code) in [("one", 201), ("two", 200)] {
        let mut body = widget("a", json!({"size": 1}));
        body["metadata"]["labels"] = json!({manager: "x"});
        let target = format!("{}?fieldManager={manager}", t.widget("a"));
        t.patch(&target, Patch::Apply, &body).await.is(code);
    }
    let after = apply(&t, "one", json!({"size": 1})).await.is(200);
    assert_eq!(after["metadata"]["labels"], json!({"two": "x"}));
}

async fn the_last_label_is_removed_by_its_owner(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"mine": "x"});
    let target = format!("{}?fieldManager=one", t.widget("a"));
    t.patch(&target, Patch::Apply, &body).await.is(201);
    let after = apply(&t, "one", json!({"size": 1})).await.is(200);
    assert!(after["metadata"].get("labels").is_none(), "{after}");
}

async fn two_updates_by_one_manager_share_an_entry(t: Scene) {
    let target = format!("{}?fieldManager=me", t.widgets());
    t.post(&target, &widget("a", json!({"size": 1})))
        .await
        .is(201);
    let target = format!("{}?fieldManager=me", t.widget("a"));
    let after = t
        .patch(&target, Patch::Merge, &json!({"spec": {"code": "abc"}}))
        .await
        .is(200);
    assert_eq!(
        after["metadata"]["managedFields"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(fields(&after, "me")["f:spec"]["f:code"], json!({}));
}

async fn duplicate_keys_in_a_list_map_are_refused(t: Scene) {
    let spec = json!({"size": 1, "ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]});
    let answer = apply(&t, "one", spec).await;
    assert!((400..=500).contains(&answer.code), "{}", answer.text);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

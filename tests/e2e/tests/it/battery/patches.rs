//! JSON, merge and strategic-merge patches.

use bindery_e2e::http::Call;
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, version};

cases![
    a_merge_patch_merges_and_null_removes,
    a_merge_patch_replaces_lists,
    a_merge_patch_drops_nulls_in_what_it_adds,
    a_merge_patch_with_a_stale_version_is_a_conflict,
    a_merge_patch_with_the_right_version_is_applied,
    a_merge_patch_of_a_missing_object_is_not_found,
    a_merge_patch_that_is_no_object_is_refused,
    a_merge_patch_is_validated,
    a_merge_patch_cannot_rename,
    a_merge_patch_cannot_touch_the_status_of_the_main_resource,
    a_json_patch_adds_replaces_and_removes,
    a_json_patch_tests_before_it_changes,
    a_json_patch_copies_and_moves,
    a_json_patch_on_a_missing_path_is_refused,
    a_json_patch_with_an_unknown_operation_is_refused,
    a_json_patch_that_is_no_list_is_refused,
    a_json_patch_appends_to_a_list,
    a_json_patch_understands_escapes,
    a_json_patch_is_atomic,
    a_json_patch_with_too_many_operations_is_too_large,
    a_strategic_patch_merges_lists_by_key,
    a_strategic_patch_deletes_an_element,
    a_strategic_patch_replaces_on_demand,
    a_strategic_patch_removes_a_key_with_null,
    a_strategic_patch_deletes_from_a_primitive_list,
    a_strategic_patch_keeps_the_element_order,
    a_strategic_patch_of_a_custom_kind_is_not_supported,
    an_unknown_patch_type_is_not_supported,
    a_patch_without_a_type_is_not_supported,
    a_patch_that_changes_nothing_changes_no_version,
    a_patch_grows_the_generation,
    a_deep_json_patch_is_refused,
];

async fn a_merge_patch_merges_and_null_removes(t: Scene) {
    t.make(
        "a",
        json!({"size": 1, "code": "abc", "map": {"x": "1", "y": "2"}}),
    )
    .await;
    let change = json!({"spec": {"code": null, "map": {"x": "9", "z": "3"}}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert!(after["spec"].get("code").is_none());
    assert_eq!(after["spec"]["map"], json!({"x": "9", "y": "2", "z": "3"}));
}

async fn a_merge_patch_replaces_lists(t: Scene) {
    t.make("a", json!({"size": 1, "tags": ["a", "b"]})).await;
    let after = t
        .patch(
            &t.widget("a"),
            Patch::Merge,
            &json!({"spec": {"tags": ["c"]}}),
        )
        .await;
    assert_eq!(after.is(200)["spec"]["tags"], json!(["c"]));
}

async fn a_merge_patch_drops_nulls_in_what_it_adds(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let anything = json!({"x": null, "l": [1, null, {"b": null, "c": 2}], "d": {"e": null}});
    let change = json!({"spec": {"anything": anything}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert_eq!(
        after["spec"]["anything"],
        json!({"l": [1, null, {"c": 2}], "d": {}})
    );
    let change = json!({"spec": {"anything": {"l": [null, {"b": null}]}}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert_eq!(after["spec"]["anything"]["l"], json!([null, {}]));
}

async fn a_merge_patch_with_a_stale_version_is_a_conflict(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    let change = json!({"metadata": {"resourceVersion": rv}, "spec": {"size": 3}});
    t.patch(&t.widget("a"), Patch::Merge, &change)
        .await
        .refused(409, "Conflict");
}

async fn a_merge_patch_with_the_right_version_is_applied(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    let change = json!({"metadata": {"resourceVersion": rv}, "spec": {"size": 3}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert_eq!(after["spec"]["size"], 3);
}

async fn a_merge_patch_of_a_missing_object_is_not_found(t: Scene) {
    let answer = t
        .patch(&t.widget("a"), Patch::Merge, &json!({"spec": {}}))
        .await;
    answer.refused(404, "NotFound");
}

async fn a_merge_patch_that_is_no_object_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t.patch(&t.widget("a"), Patch::Merge, &json!([1])).await;
    assert!([400, 422].contains(&answer.code), "{}", answer.text);
    let call = Call::new(Method::PATCH, t.widget("a"));
    let answer = t.call(call.body("application/merge-patch+json", "{")).await;
    answer.refused(400, "BadRequest");
}

async fn a_merge_patch_is_validated(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t
        .patch(
            &t.widget("a"),
            Patch::Merge,
            &json!({"spec": {"size": 1000}}),
        )
        .await;
    cause(
        &answer.refused(422, "Invalid"),
        "FieldValueInvalid",
        "spec.size",
    );
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 1);
}

async fn a_merge_patch_cannot_rename(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t
        .patch(
            &t.widget("a"),
            Patch::Merge,
            &json!({"metadata": {"name": "b"}}),
        )
        .await;
    answer.refused(400, "BadRequest");
}

async fn a_merge_patch_cannot_touch_the_status_of_the_main_resource(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"phase": "Forged"}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    assert!(after.get("status").is_none());
    assert_eq!(version(&after), version(&made));
}

async fn json_patch(t: &Scene, operations: Value) -> bindery_e2e::http::Answer {
    t.patch(&t.widget("a"), Patch::Json, &operations).await
}

async fn a_json_patch_adds_replaces_and_removes(t: Scene) {
    t.make("a", json!({"size": 1, "code": "abc"})).await;
    let operations = json!([
        {"op": "add", "path": "/spec/map", "value": {"x": "1"}},
        {"op": "replace", "path": "/spec/size", "value": 2},
        {"op": "remove", "path": "/spec/code"},
    ]);
    let after = json_patch(&t, operations).await.is(200);
    assert_eq!(
        (&after["spec"]["size"], &after["spec"]["map"]),
        (&json!(2), &json!({"x": "1"}))
    );
    assert!(after["spec"].get("code").is_none());
}

async fn a_json_patch_tests_before_it_changes(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let good = json!([
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec/size", "value": 2},
    ]);
    json_patch(&t, good.clone()).await.is(200);
    json_patch(&t, good).await.refused(422, "Invalid");
}

async fn a_json_patch_copies_and_moves(t: Scene) {
    t.make("a", json!({"size": 1, "map": {"x": "1", "y": "2"}}))
        .await;
    let operations = json!([
        {"op": "copy", "from": "/spec/map/x", "path": "/spec/map/z"},
        {"op": "move", "from": "/spec/map/y", "path": "/spec/map/x"},
    ]);
    let after = json_patch(&t, operations).await.is(200);
    assert_eq!(after["spec"]["map"], json!({"x": "2", "z": "1"}));
}

async fn a_json_patch_on_a_missing_path_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    for operation in [
        json!([{"op": "remove", "path": "/spec/map/x"}]),
        json!([{"op": "replace", "path": "/spec/code", "value": "x"}]),
        json!([{"op": "add", "path": "/spec/no/where", "value": "x"}]),
    ] {
        json_patch(&t, operation).await.refused(422, "Invalid");
    }
}

async fn a_json_patch_with_an_unknown_operation_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = json_patch(&t, json!([{"op": "conjure", "path": "/spec/size"}])).await;
    assert!([400, 422].contains(&answer.code), "{}", answer.text);
}

async fn a_json_patch_that_is_no_list_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    json_patch(&t, json!({"op": "add"}))
        .await
        .refused(400, "BadRequest");
}

async fn a_json_patch_appends_to_a_list(t: Scene) {
    t.make("a", json!({"size": 1, "tags": ["a"]})).await;
    let operations = json!([
        {"op": "add", "path": "/spec/tags/-", "value": "c"},
        {"op": "add", "path": "/spec/tags/1", "value": "b"},
    ]);
    assert_eq!(
        json_patch(&t, operations).await.is(200)["spec"]["tags"],
        json!(["a", "b", "c"])
    );
}

async fn a_json_patch_understands_escapes(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let operations = json!([
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1key", "value": "v"},
    ]);
    let after = json_patch(&t, operations).await.is(200);
    assert_eq!(
        after["metadata"]["annotations"],
        json!({"example.com/key": "v"})
    );
}

async fn a_json_patch_is_atomic(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let operations = json!([
        {"op": "replace", "path": "/spec/size", "value": 9},
        {"op": "remove", "path": "/spec/missing"},
    ]);
    json_patch(&t, operations).await.refused(422, "Invalid");
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 1);
}

async fn a_json_patch_with_too_many_operations_is_too_large(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let operation = json!({"op": "replace", "path": "/spec/size", "value": 2});
    let operations = Value::Array(vec![operation; 10_001]);
    json_patch(&t, operations)
        .await
        .refused(413, "RequestEntityTooLarge");
}

async fn service(t: &Scene) {
    let body = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "finalizers": ["example.com/x", "example.com/y"]},
        "spec": {"clusterIP": "None", "selector": {"app": "a", "tier": "b"}, "ports": [
            {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
            {"name": "dns", "port": 53, "protocol": "TCP", "targetPort": 53},
        ]},
    });
    t.post(&t.core("services"), &body).await.is(201);
}

async fn strategic(t: &Scene, change: Value) -> Value {
    t.patch(&t.core("services/a"), Patch::Strategic, &change)
        .await
        .is(200)
}

async fn a_strategic_patch_merges_lists_by_key(t: Scene) {
    service(&t).await;
    let change = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"name": "tls", "port": 443}]}});
    let after = strategic(&t, change).await;
    let ports = after["spec"]["ports"]
        .as_array()
        .expect("ports are a list")
        .clone();
    let seen: Vec<_> = ports
        .iter()
        .map(|port| (port["name"].clone(), port["targetPort"].clone()))
        .collect();
    assert_eq!(seen.len(), 3);
    assert!(seen.contains(&(json!("http"), json!(8080))), "{seen:?}");
    assert!(seen.contains(&(json!("dns"), json!(53))), "{seen:?}");
    assert!(seen.contains(&(json!("tls"), json!(443))), "{seen:?}");
}

async fn a_strategic_patch_deletes_an_element(t: Scene) {
    service(&t).await;
    let after = strategic(
        &t,
        json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
    )
    .await;
    assert_eq!(after["spec"]["ports"].as_array().map(Vec::len), Some(1));
    assert_eq!(after["spec"]["ports"][0]["name"], "dns");
}

async fn a_strategic_patch_replaces_on_demand(t: Scene) {
    service(&t).await;
    let change = json!({"spec": {
        "ports": [{"name": "only", "port": 99}, {"$patch": "replace"}],
        "selector": {"$patch": "replace", "only": "this"},
    }});
    let after = strategic(&t, change).await;
    assert_eq!(after["spec"]["ports"].as_array().map(Vec::len), Some(1));
    assert_eq!(after["spec"]["selector"], json!({"only": "this"}));
}

async fn a_strategic_patch_removes_a_key_with_null(t: Scene) {
    service(&t).await;
    let after = strategic(&t, json!({"spec": {"selector": {"tier": null}}})).await;
    assert_eq!(after["spec"]["selector"], json!({"app": "a"}));
}

async fn a_strategic_patch_deletes_from_a_primitive_list(t: Scene) {
    service(&t).await;
    let change = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["example.com/x"], "finalizers": ["example.com/z"],
    }});
    let after = strategic(&t, change).await;
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["example.com/z", "example.com/y"])
    );
}

async fn a_strategic_patch_keeps_the_element_order(t: Scene) {
    service(&t).await;
    let change = json!({"spec": {
        "$setElementOrder/ports": [{"port": 53}, {"port": 443}, {"port": 80}],
        "ports": [{"name": "tls", "port": 443}],
    }});
    let after = strategic(&t, change).await;
    let ports = after["spec"]["ports"]
        .as_array()
        .expect("ports are a list")
        .clone();
    let order: Vec<_> = ports.iter().map(|port| port["port"].clone()).collect();
    assert_eq!(order, [json!(53), json!(443), json!(80)]);
}

async fn a_strategic_patch_of_a_custom_kind_is_not_supported(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t
        .patch(
            &t.widget("a"),
            Patch::Strategic,
            &json!({"spec": {"size": 2}}),
        )
        .await;
    answer.refused(415, "UnsupportedMediaType");
}

async fn an_unknown_patch_type_is_not_supported(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    for content_type in ["application/json", "text/plain"] {
        let call = Call::new(Method::PATCH, t.widget("a")).body(content_type, "{}");
        t.call(call).await.refused(415, "UnsupportedMediaType");
    }
}

async fn a_patch_without_a_type_is_not_supported(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t.call(Call::new(Method::PATCH, t.widget("a"))).await;
    answer.refused(415, "UnsupportedMediaType");
}

async fn a_patch_that_changes_nothing_changes_no_version(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let after = json_patch(&t, json!([])).await.is(200);
    assert_eq!(after, made);
    let after = t
        .patch(&t.widget("a"), Patch::Merge, &json!({}))
        .await
        .is(200);
    assert_eq!(after, made);
}

async fn a_patch_grows_the_generation(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let after = t
        .patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await;
    assert_eq!(after.is(200)["metadata"]["generation"], 2);
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await;
    assert_eq!(after.is(200)["metadata"]["generation"], 2);
}

async fn a_deep_json_patch_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let body = format!("[{{\"op\":\"add\",\"path\":\"/spec/anything\",\"value\":{deep}}}]");
    let call = Call::new(Method::PATCH, t.widget("a")).body("application/json-patch+json", body);
    let answer = t.call(call).await;
    assert!(
        (400..500).contains(&answer.code),
        "{} {}",
        answer.code,
        answer.text
    );
    t.get(&t.widget("a")).await.is(200);
}

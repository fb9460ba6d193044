//! Replacing objects: conflicts, immutable metadata, generation.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, config_map, unique, version, widget};

cases![
    a_replacement_changes_the_object,
    a_stale_version_is_a_conflict,
    a_custom_object_without_a_version_is_refused,
    a_built_in_object_without_a_version_is_replaced,
    a_missing_built_in_object_is_not_made,
    a_missing_object_is_not_replaced,
    another_name_in_the_body_is_refused,
    another_uid_is_a_conflict,
    the_creation_time_cannot_be_changed,
    the_generation_grows_with_the_spec,
    the_generation_stays_with_metadata,
    the_generation_stays_without_a_change,
    a_given_generation_is_ignored,
    labels_can_be_removed,
    a_replacement_keeps_the_status,
    a_deletion_time_cannot_be_set,
    a_kind_without_status_grows_its_generation_with_everything,
    an_immutable_config_map_cannot_be_changed,
    an_immutable_secret_cannot_be_changed,
    the_type_of_a_secret_cannot_be_changed,
    a_namespace_cannot_be_moved,
    a_put_on_a_collection_is_not_allowed,
    the_loser_of_two_writers_sees_a_conflict,
];

async fn a_replacement_changes_the_object(t: Scene) {
    let mut object = t.make("a", json!({"size": 1, "code": "abc"})).await;
    let before = version(&object);
    object["spec"] = json!({"size": 2});
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert_eq!(after["spec"]["size"], 2);
    assert!(after["spec"].get("code").is_none());
    assert_ne!(version(&after), before);
    assert_eq!(after["metadata"]["uid"], object["metadata"]["uid"]);
}

async fn a_stale_version_is_a_conflict(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    object["spec"]["size"] = json!(3);
    let status = t
        .put(&t.widget("a"), &object)
        .await
        .refused(409, "Conflict");
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on widgets.battery.bindery.dev \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(status["details"]["name"], "a");
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 2);
}

async fn a_custom_object_without_a_version_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let body = widget("a", json!({"size": 2}));
    let status = t.put(&t.widget("a"), &body).await.refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.resourceVersion");
}

async fn a_built_in_object_without_a_version_is_replaced(t: Scene) {
    t.make_map("a", json!({"k": "1"})).await;
    let after = t
        .put(&t.core("configmaps/a"), &config_map("a", json!({"k": "2"})))
        .await
        .is(200);
    assert_eq!(after["data"]["k"], "2");
}

async fn a_missing_built_in_object_is_not_made(t: Scene) {
    let answer = t
        .put(&t.core("configmaps/a"), &config_map("a", json!({})))
        .await;
    answer.refused(404, "NotFound");
}

async fn a_missing_object_is_not_replaced(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["resourceVersion"] = json!("1");
    let answer = t.put(&t.widget("a"), &body).await;
    assert!([404, 409].contains(&answer.code), "{}", answer.text);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn another_name_in_the_body_is_refused(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["name"] = json!("b");
    let status = t
        .put(&t.widget("a"), &object)
        .await
        .refused(400, "BadRequest");
    let message = "the name of the object (b) does not match the name on the URL (a)";
    assert_eq!(status["message"], message);
}

async fn another_uid_is_a_conflict(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let status = t
        .put(&t.widget("a"), &object)
        .await
        .refused(409, "Conflict");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("Precondition failed: UID in precondition"),
        "{status}"
    );
}

async fn the_creation_time_cannot_be_changed(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    let time = object["metadata"]["creationTimestamp"].clone();
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let after = t.put(&t.widget("a"), &object).await;
    // Either it is put back or it is refused; it never changes.
    assert!([200, 422].contains(&after.code), "{}", after.text);
    assert_eq!(
        t.get(&t.widget("a")).await.is(200)["metadata"]["creationTimestamp"],
        time
    );
}

async fn the_generation_grows_with_the_spec(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["spec"]["size"] = json!(2);
    assert_eq!(
        t.put(&t.widget("a"), &object).await.is(200)["metadata"]["generation"],
        2
    );
}

async fn the_generation_stays_with_metadata(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["labels"] = json!({"a": "b"});
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert_eq!(after["metadata"]["generation"], 1);
    assert_ne!(version(&after), version(&object));
}

async fn the_generation_stays_without_a_change(t: Scene) {
    let object = t.make("a", json!({"size": 1})).await;
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert_eq!(after, object);
}

async fn a_given_generation_is_ignored(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["generation"] = json!(77);
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert_eq!(after["metadata"]["generation"], 1);
}

async fn labels_can_be_removed(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"a": "b"});
    let mut object = t.post(&t.widgets(), &body).await.is(201);
    object["metadata"]["labels"] = json!({});
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert!(
        after["metadata"]["labels"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    );
}

async fn a_replacement_keeps_the_status(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"phase": "Done"}});
    let mut object = t
        .patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    object["status"] = json!({"phase": "Forged"});
    object["spec"]["size"] = json!(2);
    let after = t.put(&t.widget("a"), &object).await.is(200);
    assert_eq!(
        (&after["status"]["phase"], &after["spec"]["size"]),
        (&json!("Done"), &json!(2))
    );
}

async fn a_deletion_time_cannot_be_set(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    let status = t.put(&t.widget("a"), &object).await.refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.deletionTimestamp");
}

async fn a_kind_without_status_grows_its_generation_with_everything(t: Scene) {
    let name = unique("g");
    let gadgets = "/apis/battery.bindery.dev/v1/gadgets";
    let body = json!({
        "apiVersion": "battery.bindery.dev/v1", "kind": "Gadget", "metadata": {"name": name},
        "free": {"form": [1, "two", null]}, "status": {"kept": true},
    });
    let mut object = t.post(gadgets, &body).await.is(201);
    assert_eq!(
        (&object["status"]["kept"], &object["metadata"]["generation"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(object["free"], json!({"form": [1, "two", null]}));
    object["status"]["kept"] = json!(false);
    let after = t.put(&format!("{gadgets}/{name}"), &object).await.is(200);
    assert_eq!(after["metadata"]["generation"], 2);
    t.get(&format!("{gadgets}/{name}/status"))
        .await
        .refused(404, "NotFound");
}

async fn frozen(t: &Scene, plural: &str, kind: &str) -> Value {
    let body = json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "immutable": true,
        "data": {"k": "dg=="},
    });
    let mut object = t.post(&t.core(plural), &body).await.is(201);
    object["data"]["k"] = json!("dw==");
    t.put(&t.core(&format!("{plural}/a")), &object)
        .await
        .refused(422, "Invalid")
}

async fn an_immutable_config_map_cannot_be_changed(t: Scene) {
    cause(
        &frozen(&t, "configmaps", "ConfigMap").await,
        "FieldValueForbidden",
        "data",
    );
}

async fn an_immutable_secret_cannot_be_changed(t: Scene) {
    cause(
        &frozen(&t, "secrets", "Secret").await,
        "FieldValueForbidden",
        "data",
    );
}

async fn the_type_of_a_secret_cannot_be_changed(t: Scene) {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let mut object = t.post(&t.core("secrets"), &body).await.is(201);
    object["type"] = json!("example.com/other");
    let status = t
        .put(&t.core("secrets/a"), &object)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "type");
}

async fn a_namespace_cannot_be_moved(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["metadata"]["namespace"] = json!("default");
    let status = t
        .put(&t.widget("a"), &object)
        .await
        .refused(400, "BadRequest");
    assert_eq!(
        status["message"],
        "the namespace of the provided object does not match the namespace sent on the request"
    );
}

async fn a_put_on_a_collection_is_not_allowed(t: Scene) {
    let answer = t
        .put(&t.core("configmaps"), &config_map("a", json!({})))
        .await;
    answer.refused(405, "MethodNotAllowed");
}

async fn the_loser_of_two_writers_sees_a_conflict(t: Scene) {
    let object = t.make("a", json!({"size": 1})).await;
    let (mut one, mut two) = (object.clone(), object);
    one["spec"]["size"] = json!(10);
    two["spec"]["size"] = json!(20);
    let target = t.widget("a");
    let (one, two) = tokio::join!(t.put(&target, &one), t.put(&target, &two));
    let mut codes = [one.code, two.code];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
}

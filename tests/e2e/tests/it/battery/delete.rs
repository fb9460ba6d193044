//! Deleting: options, preconditions, finalizers, collections.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, names, version, widget};

cases![
    a_deletion_removes_the_object,
    a_deletion_of_a_custom_object_answers_with_a_status,
    a_deletion_of_a_missing_object_is_not_found,
    a_finalizer_holds_the_object,
    a_second_deletion_of_a_held_object_changes_nothing,
    removing_the_last_finalizer_deletes,
    a_finalizer_cannot_be_added_while_deleting,
    a_held_object_can_be_changed,
    a_held_object_still_blocks_its_name,
    a_uid_precondition_that_fails_is_a_conflict,
    a_uid_precondition_that_holds_deletes,
    a_version_precondition_that_fails_is_a_conflict,
    a_version_precondition_that_holds_deletes,
    an_unknown_propagation_is_refused,
    propagation_and_orphan_dependents_together_are_refused,
    a_collection_is_deleted,
    a_collection_is_deleted_by_label,
    a_collection_is_deleted_by_field,
    a_collection_with_a_held_object_keeps_it,
    a_deletion_with_a_broken_body_is_refused,
    a_deletion_with_an_empty_object_works,
    a_deletion_of_all_namespaces_is_not_allowed,
    a_name_is_free_after_deletion,
    a_grace_period_is_told_of_custom_objects,
];

async fn held(t: &Scene, name: &str) -> Value {
    let mut body = widget(name, json!({"size": 1}));
    body["metadata"]["finalizers"] = json!(["battery.bindery.dev/hold"]);
    t.post(&t.widgets(), &body).await.is(201)
}

async fn release(t: &Scene, name: &str) {
    let change = json!({"metadata": {"finalizers": []}});
    t.patch(&t.widget(name), Patch::Merge, &change)
        .await
        .is(200);
}

async fn a_deletion_removes_the_object(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.delete(&t.widget("a")).await.is(200);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
    t.make_map("a", json!({})).await;
    t.delete(&t.core("configmaps/a")).await.is(200);
    t.get(&t.core("configmaps/a"))
        .await
        .refused(404, "NotFound");
}

async fn a_deletion_of_a_custom_object_answers_with_a_status(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let answer = t.delete(&t.widget("a")).await.is(200);
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    let details = json!({
        "name": "a", "group": "battery.bindery.dev", "kind": "widgets",
        "uid": made["metadata"]["uid"],
    });
    assert_eq!(answer["details"], details);
}

async fn a_deletion_of_a_missing_object_is_not_found(t: Scene) {
    t.delete(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_finalizer_holds_the_object(t: Scene) {
    let made = held(&t, "a").await;
    let answer = t.delete(&t.widget("a")).await.is(200);
    assert_eq!(answer["kind"], "Widget");
    let after = t.get(&t.widget("a")).await.is(200);
    assert!(after["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(after["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(after["metadata"]["generation"], 2);
    assert_eq!(after["metadata"]["uid"], made["metadata"]["uid"]);
    release(&t, "a").await;
}

async fn a_second_deletion_of_a_held_object_changes_nothing(t: Scene) {
    held(&t, "a").await;
    t.delete(&t.widget("a")).await.is(200);
    let before = t.get(&t.widget("a")).await.is(200);
    t.delete(&t.widget("a")).await.is(200);
    assert_eq!(t.get(&t.widget("a")).await.is(200), before);
}

async fn removing_the_last_finalizer_deletes(t: Scene) {
    held(&t, "a").await;
    t.delete(&t.widget("a")).await.is(200);
    release(&t, "a").await;
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_finalizer_cannot_be_added_while_deleting(t: Scene) {
    held(&t, "a").await;
    t.delete(&t.widget("a")).await.is(200);
    let change = json!({"metadata": {"finalizers": ["battery.bindery.dev/hold", "battery.bindery.dev/more"]}});
    let status = t
        .patch(&t.widget("a"), Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    crate::scene::cause(&status, "FieldValueForbidden", "metadata.finalizers");
    release(&t, "a").await;
}

async fn a_held_object_can_be_changed(t: Scene) {
    held(&t, "a").await;
    t.delete(&t.widget("a")).await.is(200);
    let after = t
        .patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 5}}))
        .await
        .is(200);
    assert_eq!(after["spec"]["size"], 5);
    let change = json!({"status": {"phase": "Leaving"}});
    t.patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    release(&t, "a").await;
}

async fn a_held_object_still_blocks_its_name(t: Scene) {
    held(&t, "a").await;
    t.delete(&t.widget("a")).await.is(200);
    let answer = t.post(&t.widgets(), &widget("a", json!({"size": 1}))).await;
    let status = answer.refused(409, "AlreadyExists");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("object is being deleted: widgets.battery.bindery.dev \"a\""),
        "{text}"
    );
    release(&t, "a").await;
}

async fn a_uid_precondition_that_fails_is_a_conflict(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    t.delete_with(&t.widget("a"), &options)
        .await
        .refused(409, "Conflict");
    t.get(&t.widget("a")).await.is(200);
}

async fn a_uid_precondition_that_holds_deletes(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let options = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
    t.delete_with(&t.widget("a"), &options).await.is(200);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_version_precondition_that_fails_is_a_conflict(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    let options = json!({"preconditions": {"resourceVersion": rv}});
    t.delete_with(&t.widget("a"), &options)
        .await
        .refused(409, "Conflict");
}

async fn a_version_precondition_that_holds_deletes(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    let options = json!({"preconditions": {"resourceVersion": rv}});
    t.delete_with(&t.widget("a"), &options).await.is(200);
}

async fn an_unknown_propagation_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let options = json!({"propagationPolicy": "Sideways"});
    t.delete_with(&t.widget("a"), &options)
        .await
        .refused(422, "Invalid");
    let target = format!("{}?propagationPolicy=Sideways", t.widget("a"));
    t.delete(&target).await.refused(422, "Invalid");
    t.get(&t.widget("a")).await.is(200);
}

async fn propagation_and_orphan_dependents_together_are_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let options = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    t.delete_with(&t.widget("a"), &options)
        .await
        .refused(422, "Invalid");
}

async fn a_collection_is_deleted(t: Scene) {
    for name in ["a", "b"] {
        t.make(name, json!({"size": 1})).await;
    }
    let answer = t.delete(&t.widgets()).await.is(200);
    assert_eq!(answer["kind"], "WidgetList");
    assert_eq!(
        names(&t.get(&t.widgets()).await.is(200)),
        Vec::<String>::new()
    );
}

async fn a_collection_is_deleted_by_label(t: Scene) {
    for (name, app) in [("a", "x"), ("b", "y")] {
        let mut body = widget(name, json!({"size": 1}));
        body["metadata"]["labels"] = json!({"app": app});
        t.post(&t.widgets(), &body).await.is(201);
    }
    t.delete(&format!("{}?labelSelector=app%3Dx", t.widgets()))
        .await
        .is(200);
    assert_eq!(names(&t.get(&t.widgets()).await.is(200)), ["b"]);
}

async fn a_collection_is_deleted_by_field(t: Scene) {
    for name in ["a", "b"] {
        t.make(name, json!({"size": 1})).await;
    }
    t.delete(&format!("{}?fieldSelector=metadata.name%3Da", t.widgets()))
        .await
        .is(200);
    assert_eq!(names(&t.get(&t.widgets()).await.is(200)), ["b"]);
}

async fn a_collection_with_a_held_object_keeps_it(t: Scene) {
    held(&t, "a").await;
    t.make("b", json!({"size": 1})).await;
    t.delete(&t.widgets()).await.is(200);
    let list = t.get(&t.widgets()).await.is(200);
    assert_eq!(names(&list), ["a"]);
    assert!(list["items"][0]["metadata"]["deletionTimestamp"].is_string());
    release(&t, "a").await;
}

async fn a_deletion_with_a_broken_body_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let call = bindery_e2e::http::Call::new(http::Method::DELETE, t.widget("a"));
    t.call(call.body("application/json", "{\"x\""))
        .await
        .refused(400, "BadRequest");
    t.get(&t.widget("a")).await.is(200);
}

async fn a_deletion_with_an_empty_object_works(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.delete_with(&t.widget("a"), &json!({})).await.is(200);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_deletion_of_all_namespaces_is_not_allowed(t: Scene) {
    t.delete("/api/v1/configmaps")
        .await
        .refused(405, "MethodNotAllowed");
}

async fn a_name_is_free_after_deletion(t: Scene) {
    let first = t.make("a", json!({"size": 1})).await;
    t.delete(&t.widget("a")).await.is(200);
    let second = t.make("a", json!({"size": 1})).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

async fn a_grace_period_is_told_of_custom_objects(t: Scene) {
    held(&t, "a").await;
    t.delete_with(&t.widget("a"), &json!({"gracePeriodSeconds": 30}))
        .await
        .is(200);
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(after["metadata"]["deletionGracePeriodSeconds"], 0);
    release(&t, "a").await;
}

//! `/status` and `/scale`: what each may and may not touch.

use serde_json::json;

use crate::scene::{Expect, Patch, Scene, cases, cause, config_map, version};

cases![
    a_status_replacement_changes_only_the_status,
    a_status_write_keeps_the_generation,
    a_status_patch_cannot_touch_the_spec,
    a_status_write_ignores_labels,
    a_status_write_with_a_stale_version_is_a_conflict,
    a_status_write_of_a_missing_object_is_not_found,
    a_status_can_be_read,
    unknown_status_fields_are_pruned,
    a_json_patch_of_the_status_works,
    creation_on_a_status_is_not_allowed,
    a_kind_without_status_has_no_status_resource,
    a_scale_shows_replicas,
    a_scale_patch_changes_replicas_and_the_generation,
    a_scale_replacement_changes_replicas,
    a_scale_shows_the_selector_of_the_status,
    a_negative_scale_is_refused,
    a_dry_scale_shows_what_would_be,
    a_scale_of_zero_is_left_out,
    a_scale_with_a_stale_version_is_a_conflict,
    a_version_without_scale_has_no_scale_resource,
    an_unknown_subresource_is_not_found,
];

async fn a_status_replacement_changes_only_the_status(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    object["status"] = json!({"phase": "Done"});
    object["spec"]["size"] = json!(99);
    let after = t.put(&t.widget("a/status"), &object).await.is(200);
    assert_eq!(
        (&after["status"]["phase"], &after["spec"]["size"]),
        (&json!("Done"), &json!(1))
    );
}

async fn a_status_write_keeps_the_generation(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"phase": "Done"}});
    let after = t
        .patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(after["metadata"]["generation"], 1);
    assert_ne!(version(&after), version(&made));
}

async fn a_status_patch_cannot_touch_the_spec(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let change = json!({"spec": {"size": 50}});
    let after = t
        .patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(after["spec"]["size"], 1);
    assert_eq!(version(&after), version(&made));
}

async fn a_status_write_ignores_labels(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Done"}});
    let after = t
        .patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert!(after["metadata"].get("labels").is_none(), "{after}");
}

async fn a_status_write_with_a_stale_version_is_a_conflict(t: Scene) {
    let mut object = t.make("a", json!({"size": 1})).await;
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    object["status"] = json!({"phase": "Late"});
    t.put(&t.widget("a/status"), &object)
        .await
        .refused(409, "Conflict");
}

async fn a_status_write_of_a_missing_object_is_not_found(t: Scene) {
    let change = json!({"status": {"phase": "x"}});
    t.patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .refused(404, "NotFound");
}

async fn a_status_can_be_read(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    assert_eq!(t.get(&t.widget("a/status")).await.is(200), made);
}

async fn unknown_status_fields_are_pruned(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"phase": "Done", "odd": 1}});
    let after = t
        .patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(after["status"], json!({"phase": "Done"}));
}

async fn a_json_patch_of_the_status_works(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let operations = json!([{"op": "add", "path": "/status", "value": {"phase": "Done"}}]);
    let after = t
        .patch(&t.widget("a/status"), Patch::Json, &operations)
        .await
        .is(200);
    assert_eq!(after["status"]["phase"], "Done");
}

async fn creation_on_a_status_is_not_allowed(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    t.post(&t.widget("a/status"), &made)
        .await
        .refused(405, "MethodNotAllowed");
    t.delete(&t.widget("a/status"))
        .await
        .refused(405, "MethodNotAllowed");
}

async fn a_kind_without_status_has_no_status_resource(t: Scene) {
    t.make_map("a", json!({})).await;
    t.get(&t.core("configmaps/a/status"))
        .await
        .refused(404, "NotFound");
    let answer = t
        .put(&t.core("configmaps/a/status"), &config_map("a", json!({})))
        .await;
    assert_eq!(answer.code, 404, "{}", answer.text);
}

async fn a_scale_shows_replicas(t: Scene) {
    let made = t.make("a", json!({"size": 1, "replicas": 3})).await;
    let scale = t.get(&t.widget("a/scale")).await.is(200);
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(scale["status"]["replicas"], 0);
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        assert_eq!(scale["metadata"][field], made["metadata"][field]);
    }
}

async fn a_scale_patch_changes_replicas_and_the_generation(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"spec": {"replicas": 5}});
    let scale = t
        .patch(&t.widget("a/scale"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(5))
    );
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(
        (&after["spec"]["replicas"], &after["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
}

async fn a_scale_replacement_changes_replicas(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let mut scale = t.get(&t.widget("a/scale")).await.is(200);
    scale["spec"]["replicas"] = json!(4);
    t.put(&t.widget("a/scale"), &scale).await.is(200);
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(
        (&after["spec"]["replicas"], &after["spec"]["size"]),
        (&json!(4), &json!(1))
    );
}

async fn a_scale_shows_the_selector_of_the_status(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"status": {"replicas": 2, "selector": "app=a"}});
    t.patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    let scale = t.get(&t.widget("a/scale")).await.is(200);
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=a"}));
}

async fn a_dry_scale_shows_what_would_be(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let target = format!("{}?dryRun=All", t.widget("a/scale"));
    let scale = t
        .patch(&target, Patch::Merge, &json!({"spec": {"replicas": 5}}))
        .await
        .is(200);
    assert_eq!(scale["spec"]["replicas"], 5);
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_scale_of_zero_is_left_out(t: Scene) {
    t.make("a", json!({"size": 1, "replicas": 0})).await;
    assert_eq!(t.get(&t.widget("a/scale")).await.is(200)["spec"], json!({}));
}

async fn a_negative_scale_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let change = json!({"spec": {"replicas": -1}});
    let status = t
        .patch(&t.widget("a/scale"), Patch::Merge, &change)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "spec.replicas");
}

async fn a_scale_with_a_stale_version_is_a_conflict(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let mut scale = t.get(&t.widget("a/scale")).await.is(200);
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    scale["spec"]["replicas"] = json!(9);
    t.put(&t.widget("a/scale"), &scale)
        .await
        .refused(409, "Conflict");
}

async fn a_version_without_scale_has_no_scale_resource(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = format!(
        "/apis/battery.bindery.dev/v1beta1/namespaces/{}/widgets/a/scale",
        t.ns
    );
    t.get(&target).await.refused(404, "NotFound");
}

async fn an_unknown_subresource_is_not_found(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.get(&t.widget("a/wings")).await.refused(404, "NotFound");
    t.make_map("a", json!({})).await;
    t.get(&t.core("configmaps/a/wings"))
        .await
        .refused(404, "NotFound");
}

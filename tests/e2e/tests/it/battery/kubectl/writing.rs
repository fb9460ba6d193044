//! Commands that change: create, apply, edit, patch, label, scale, delete.

use serde_json::json;

use super::manifest;
use crate::scene::{Expect, Scene, cases};

cases![
    create_makes_objects_from_a_file,
    create_of_a_config_map_from_literals_works,
    client_side_apply_makes_changes_and_prunes_fields,
    server_side_apply_makes_changes_and_reports_conflicts,
    apply_of_a_bad_object_names_the_field,
    apply_of_an_unknown_field_fails,
    apply_dry_run_on_the_server_stores_nothing,
    edit_changes_the_object,
    patch_of_every_type_works,
    label_and_annotate_change_metadata,
    delete_removes_and_waits,
    delete_by_label_removes_all,
    scale_changes_replicas,
    a_status_can_be_patched,
    replace_works,
    a_definition_is_installed_and_used_at_once,
    a_list_is_applied_item_by_item,
    what_get_prints_can_be_applied,
    what_get_prints_of_many_can_be_applied_when_they_are_gone,
];

async fn create_makes_objects_from_a_file(t: Scene) {
    let text = t
        .kubectl(&["create", "-f", "-"], &manifest("{size: 1}"))
        .await
        .ok();
    assert_eq!(text, "widget.battery.bindery.dev/a created\n");
    let complaint = t
        .kubectl(&["create", "-f", "-"], &manifest("{size: 1}"))
        .await
        .failed();
    assert!(complaint.contains("(AlreadyExists)"), "{complaint}");
}

async fn create_of_a_config_map_from_literals_works(t: Scene) {
    t.kubectl(&["create", "configmap", "m", "--from-literal=k=v"], "")
        .await
        .ok();
    assert_eq!(
        t.get(&t.core("configmaps/m")).await.is(200)["data"],
        json!({"k": "v"})
    );
    t.kubectl(
        &["create", "secret", "generic", "s", "--from-literal=k=v"],
        "",
    )
    .await
    .ok();
    assert_eq!(
        t.get(&t.core("secrets/s")).await.is(200)["data"],
        json!({"k": "dg=="})
    );
}

async fn client_side_apply_makes_changes_and_prunes_fields(t: Scene) {
    let apply = ["apply", "-f", "-"];
    let text = t
        .kubectl(&apply, &manifest("{size: 1, code: abc}"))
        .await
        .ok();
    assert_eq!(text, "widget.battery.bindery.dev/a created\n");
    let text = t
        .kubectl(&apply, &manifest("{size: 1, code: abc}"))
        .await
        .ok();
    assert_eq!(text, "widget.battery.bindery.dev/a unchanged\n");
    let text = t.kubectl(&apply, &manifest("{size: 2}")).await.ok();
    assert_eq!(text, "widget.battery.bindery.dev/a configured\n");
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(after["spec"]["size"], 2);
    assert!(after["spec"].get("code").is_none());
}

async fn server_side_apply_makes_changes_and_reports_conflicts(t: Scene) {
    let apply = ["apply", "--server-side", "-f", "-"];
    let text = t.kubectl(&apply, &manifest("{size: 1}")).await.ok();
    assert_eq!(text, "widget.battery.bindery.dev/a serverside-applied\n");
    let other = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    let complaint = t.kubectl(&other, &manifest("{size: 2}")).await.failed();
    assert!(
        complaint.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size"),
        "{complaint}"
    );
    let force = [
        "apply",
        "--server-side",
        "--field-manager=other",
        "--force-conflicts",
        "-f",
        "-",
    ];
    t.kubectl(&force, &manifest("{size: 2}")).await.ok();
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 2);
}

async fn apply_of_a_bad_object_names_the_field(t: Scene) {
    let complaint = t
        .kubectl(&["apply", "-f", "-"], &manifest("{size: 1000}"))
        .await
        .failed();
    let expected = "The Widget \"a\" is invalid: spec.size: Invalid value: 1000";
    assert!(complaint.contains(expected), "{complaint}");
}

async fn apply_of_an_unknown_field_fails(t: Scene) {
    let complaint = t
        .kubectl(&["apply", "-f", "-"], &manifest("{size: 1, sise: 2}"))
        .await
        .failed();
    assert!(
        complaint.contains("unknown field \"spec.sise\""),
        "{complaint}"
    );
}

async fn apply_dry_run_on_the_server_stores_nothing(t: Scene) {
    let command = [
        "apply",
        "--dry-run=server",
        "-f",
        "-",
        "-o",
        "jsonpath={.spec.color}",
    ];
    assert_eq!(
        t.kubectl(&command, &manifest("{size: 1}")).await.ok(),
        "red"
    );
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn edit_changes_the_object(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.kubectl(&["edit", "widget", "a"], "").await.ok();
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 2);
}

async fn patch_of_every_type_works(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.make_map("m", json!({"x": "1"})).await;
    let merge = [
        "patch",
        "widget",
        "a",
        "--type=merge",
        "-p",
        "{\"spec\":{\"size\":5}}",
    ];
    t.kubectl(&merge, "").await.ok();
    let patch = "[{\"op\":\"replace\",\"path\":\"/spec/color\",\"value\":\"blue\"}]";
    t.kubectl(&["patch", "widget", "a", "--type=json", "-p", patch], "")
        .await
        .ok();
    t.kubectl(
        &["patch", "configmap", "m", "-p", "{\"data\":{\"y\":\"2\"}}"],
        "",
    )
    .await
    .ok();
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(
        (&after["spec"]["size"], &after["spec"]["color"]),
        (&json!(5), &json!("blue"))
    );
    assert_eq!(
        t.get(&t.core("configmaps/m")).await.is(200)["data"],
        json!({"x": "1", "y": "2"})
    );
}

async fn label_and_annotate_change_metadata(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.kubectl(&["label", "widget", "a", "app=x"], "").await.ok();
    t.kubectl(&["annotate", "widget", "a", "note=hello"], "")
        .await
        .ok();
    let after = t.get(&t.widget("a")).await.is(200);
    assert_eq!(after["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(after["metadata"]["annotations"]["note"], "hello");
    t.kubectl(&["label", "widget", "a", "app-"], "").await.ok();
    let after = t.get(&t.widget("a")).await.is(200);
    assert!(
        after["metadata"]
            .get("labels")
            .is_none_or(|labels| labels == &json!({}))
    );
}

async fn delete_removes_and_waits(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let text = t.kubectl(&["delete", "widget", "a"], "").await.ok();
    assert!(
        text.starts_with("widget.battery.bindery.dev \"a\" deleted"),
        "{text}"
    );
    t.get(&t.widget("a")).await.refused(404, "NotFound");
    t.kubectl(&["delete", "widget", "a"], "").await.failed();
    t.kubectl(&["delete", "widget", "a", "--ignore-not-found"], "")
        .await
        .ok();
}

async fn delete_by_label_removes_all(t: Scene) {
    for name in ["a", "b"] {
        t.make(name, json!({"size": 1})).await;
        t.kubectl(&["label", "widget", name, "app=x"], "")
            .await
            .ok();
    }
    t.kubectl(&["delete", "widgets", "-l", "app=x"], "")
        .await
        .ok();
    assert_eq!(t.get(&t.widgets()).await.is(200)["items"], json!([]));
}

async fn scale_changes_replicas(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.kubectl(&["scale", "widget/a", "--replicas=4"], "")
        .await
        .ok();
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["replicas"], 4);
}

async fn a_status_can_be_patched(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let patch = "{\"status\":{\"phase\":\"Done\"}}";
    let command = [
        "patch",
        "widget",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
    ];
    t.kubectl(&command, "").await.ok();
    assert_eq!(
        t.get(&t.widget("a")).await.is(200)["status"]["phase"],
        "Done"
    );
}

async fn replace_works(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let text = t
        .kubectl(&["get", "widget", "a", "-o", "yaml"], "")
        .await
        .ok();
    let text = text.replace("size: 1", "size: 9");
    t.kubectl(&["replace", "-f", "-"], &text).await.ok();
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["size"], 9);
}

async fn a_definition_is_installed_and_used_at_once(t: Scene) {
    let group = format!("{}.bindery.dev", crate::scene::unique("kubectl"));
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: toys.{group}}}\nspec:\n  group: {group}\n  scope: Namespaced\n  \
         names: {{plural: toys, kind: Toy}}\n  versions:\n  - name: v1\n    served: true\n    \
         storage: true\n    schema: {{openAPIV3Schema: {{type: object, \
         x-kubernetes-preserve-unknown-fields: true}}}}\n"
    );
    t.kubectl(&["apply", "-f", "-"], &definition).await.ok();
    let established = format!("crd/toys.{group}");
    let wait = [
        "wait",
        "--for=condition=Established",
        &established,
        "--timeout=20s",
    ];
    t.kubectl(&wait, "").await.ok();
    let toy = format!("apiVersion: {group}/v1\nkind: Toy\nmetadata: {{name: a}}\nfree: form\n");
    let target = format!("/apis/{group}/v1");
    t.until(&target, |answer| answer.code == 200).await;
    t.kubectl(&["apply", "--validate=false", "-f", "-"], &toy)
        .await
        .ok();
    let target = format!("/apis/{group}/v1/namespaces/{}/toys/a", t.ns);
    assert_eq!(t.get(&target).await.is(200)["free"], "form");
}

async fn a_list_is_applied_item_by_item(t: Scene) {
    let list = "apiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: battery.bindery.dev/v1, kind: Widget, metadata: {name: a}, spec: {size: 1}}\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: v}}\n";
    for apply in [
        &["apply", "-f", "-"][..],
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
    ] {
        let text = t.kubectl(apply, list).await.ok();
        assert!(text.contains("widget.battery.bindery.dev/a "), "{text}");
        assert!(text.contains("configmap/b "), "{text}");
    }
    let own = "apiVersion: battery.bindery.dev/v1\nkind: WidgetList\nitems:\n\
        - {apiVersion: battery.bindery.dev/v1, kind: Widget, metadata: {name: c}, spec: {size: 1}}\n";
    let text = t.kubectl(&["apply", "-f", "-"], own).await.ok();
    assert_eq!(text, "widget.battery.bindery.dev/c created\n");
}

async fn what_get_prints_can_be_applied(t: Scene) {
    t.kubectl(&["apply", "-f", "-"], &manifest("{size: 1}"))
        .await
        .ok();
    for what in [
        &["get", "widget", "a", "-o", "yaml"][..],
        &["get", "widgets", "-o", "yaml"],
        &["get", "widgets", "-o", "json"],
    ] {
        let printed = t.kubectl(what, "").await.ok();
        let text = t.kubectl(&["apply", "-f", "-"], &printed).await.ok();
        assert!(text.starts_with("widget.battery.bindery.dev/a "), "{text}");
    }
    // What was made without kubectl has no annotation yet, and gets it with a warning.
    t.make("b", json!({"size": 2})).await;
    let get = ["get", "widget", "b", "-o", "yaml"];
    let printed = t.kubectl(&get, "").await.ok();
    let run = t.kubectl(&["apply", "-f", "-"], &printed).await;
    let warned = run.stderr.contains("last-applied-configuration");
    assert!(warned, "{}", run.stderr);
    assert_eq!(run.ok(), "widget.battery.bindery.dev/b configured\n");
    // Somebody wrote meanwhile: what was printed is old, and says so.
    let complaint = t.kubectl(&["apply", "-f", "-"], &printed).await.failed();
    assert!(complaint.contains("(Conflict)"), "{complaint}");
}

async fn what_get_prints_of_many_can_be_applied_when_they_are_gone(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.make("b", json!({"size": 2})).await;
    let printed = t.kubectl(&["get", "widgets", "-o", "yaml"], "").await.ok();
    t.kubectl(&["delete", "widgets", "--all"], "").await.ok();
    let text = t.kubectl(&["apply", "-f", "-"], &printed).await.ok();
    assert_eq!(
        text,
        "widget.battery.bindery.dev/a created\nwidget.battery.bindery.dev/b created\n"
    );
}

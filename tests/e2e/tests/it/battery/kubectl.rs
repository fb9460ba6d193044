//! The stock kubectl, as a user types it: the same words bring the same on every server.

use serde_json::json;

use crate::scene::{Expect, Patch, Scene, cases};

cases![
    get_prints_the_columns_of_the_kind,
    get_wide_prints_more_columns,
    get_yaml_prints_the_object,
    get_by_short_name_and_category_works,
    get_selects_by_label_and_field,
    get_of_all_namespaces_names_them,
    get_watches,
    get_with_chunks_prints_everything,
    get_sorts_and_formats,
    get_of_a_missing_object_fails,
    describe_tells_the_object_and_its_events,
    create_makes_objects_from_a_file,
    create_of_a_config_map_from_literals_works,
    client_side_apply_makes_changes_and_prunes_fields,
    server_side_apply_makes_changes_and_reports_conflicts,
    apply_of_a_bad_object_names_the_field,
    apply_of_an_unknown_field_fails,
    apply_dry_run_on_the_server_stores_nothing,
    diff_shows_what_would_change,
    edit_changes_the_object,
    patch_of_every_type_works,
    label_and_annotate_change_metadata,
    delete_removes_and_waits,
    delete_by_label_removes_all,
    wait_for_a_condition_returns,
    wait_for_deletion_returns,
    scale_changes_replicas,
    api_resources_lists_kinds,
    api_versions_lists_groups,
    explain_knows_the_schema,
    explain_of_a_built_in_kind_works,
    events_are_listed,
    a_status_can_be_patched,
    replace_works,
    a_definition_is_installed_and_used_at_once,
    version_tells_the_server,
    can_i_is_answered,
];

const WIDGET: &str = "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata:\n  name: a\n";

fn manifest(spec: &str) -> String {
    format!("{WIDGET}spec: {spec}\n")
}

/// The words of a line of a table.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

async fn get_prints_the_columns_of_the_kind(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let text = t.kubectl(&["get", "widgets"], "").await.ok();
    let lines: Vec<_> = text.lines().map(words).collect();
    assert_eq!(lines[0], ["NAME", "SIZE", "COLOR", "READY", "AGE"]);
    assert_eq!(lines[1][..3], ["a", "3", "red"]);
}

async fn get_wide_prints_more_columns(t: Scene) {
    t.make("a", json!({"size": 3, "ratio": 0.5})).await;
    let text = t
        .kubectl(&["get", "widget", "a", "-o", "wide"], "")
        .await
        .ok();
    let first = text.lines().next().map(words);
    assert_eq!(
        first,
        Some(vec![
            "NAME", "SIZE", "COLOR", "READY", "RATIO", "ENABLED", "AGE"
        ])
    );
}

async fn get_yaml_prints_the_object(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let text = t.kubectl(&["get", "widget/a", "-o", "yaml"], "").await.ok();
    let object = crate::subject::yaml(&text);
    assert_eq!(
        (&object["kind"], &object["spec"]["size"]),
        (&json!("Widget"), &json!(3))
    );
}

async fn get_by_short_name_and_category_works(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    assert_eq!(
        t.kubectl(&["get", "wd", "-o", "name"], "").await.ok(),
        "widget.battery.bindery.dev/a\n"
    );
    let text = t.kubectl(&["get", "battery", "-o", "name"], "").await.ok();
    assert_eq!(text, "widget.battery.bindery.dev/a\n");
}

async fn get_selects_by_label_and_field(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    t.make("b", json!({"size": 3, "color": "blue"})).await;
    let change = json!({"metadata": {"labels": {"app": "x"}}});
    t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    let text = t
        .kubectl(&["get", "widgets", "-l", "app in (x,y)", "-o", "name"], "")
        .await
        .ok();
    assert_eq!(text, "widget.battery.bindery.dev/a\n");
    let field = [
        "get",
        "widgets",
        "--field-selector",
        "spec.color=blue",
        "-o",
        "name",
    ];
    assert_eq!(
        t.kubectl(&field, "").await.ok(),
        "widget.battery.bindery.dev/b\n"
    );
}

async fn get_of_all_namespaces_names_them(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let text = t.kubectl(&["get", "widgets", "-A"], "").await.ok();
    assert!(
        text.lines()
            .any(|line| words(line).starts_with(&[t.ns.as_str(), "a"])),
        "{text}"
    );
}

async fn get_watches(t: Scene) {
    t.make("a", json!({"size": 3})).await;
    let command = [
        "get",
        "widgets",
        "--watch",
        "--request-timeout=2s",
        "-o",
        "name",
    ];
    let run = t.kubectl(&command, "").await;
    assert!(
        run.stdout.starts_with("widget.battery.bindery.dev/a\n"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

async fn get_with_chunks_prints_everything(t: Scene) {
    for index in 0..5 {
        t.make(&format!("w{index}"), json!({"size": 3})).await;
    }
    let text = t
        .kubectl(&["get", "widgets", "--chunk-size=2", "--no-headers"], "")
        .await
        .ok();
    assert_eq!(text.lines().count(), 5);
}

async fn get_sorts_and_formats(t: Scene) {
    for (name, size) in [("a", 3), ("b", 1)] {
        t.make(name, json!({"size": size})).await;
    }
    let path = "jsonpath={.items[*].metadata.name}";
    let command = ["get", "widgets", "--sort-by=.spec.size", "-o", path];
    assert_eq!(t.kubectl(&command, "").await.ok(), "b a");
    let columns = [
        "get",
        "widget",
        "a",
        "-o",
        "custom-columns=S:.spec.size",
        "--no-headers",
    ];
    assert_eq!(t.kubectl(&columns, "").await.ok().trim(), "3");
}

async fn get_of_a_missing_object_fails(t: Scene) {
    let complaint = t.kubectl(&["get", "widget", "none"], "").await.failed();
    let expected = "Error from server (NotFound): widgets.battery.bindery.dev \"none\" not found";
    assert!(complaint.contains(expected), "{complaint}");
    let complaint = t.kubectl(&["get", "gizmos"], "").await.failed();
    assert!(
        complaint.contains("doesn't have a resource type \"gizmos\""),
        "{complaint}"
    );
}

async fn describe_tells_the_object_and_its_events(t: Scene) {
    let made = t.make("a", json!({"size": 3})).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1"},
        "involvedObject": {
            "apiVersion": "battery.bindery.dev/v1", "kind": "Widget", "name": "a",
            "namespace": t.ns, "uid": made["metadata"]["uid"],
        },
        "reason": "Tested", "message": "it was tested", "type": "Normal",
    });
    t.post(&t.core("events"), &event).await.is(201);
    let text = t.kubectl(&["describe", "widget", "a"], "").await.ok();
    for part in [
        "Name:         a",
        "Kind:         Widget",
        "Size:",
        "Tested",
        "it was tested",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

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

async fn diff_shows_what_would_change(t: Scene) {
    t.kubectl(&["apply", "-f", "-"], &manifest("{size: 1}"))
        .await
        .ok();
    t.kubectl(&["diff", "-f", "-"], &manifest("{size: 1}"))
        .await
        .ok();
    let run = t
        .kubectl(&["diff", "-f", "-"], &manifest("{size: 2}"))
        .await;
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("-  size: 1") && run.stdout.contains("+  size: 2"),
        "{}",
        run.stdout
    );
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

async fn wait_for_a_condition_returns(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let command = ["wait", "--for=condition=Ready", "widget/a", "--timeout=20s"];
    let change = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let report = async {
        t.patch(&t.widget("a/status"), Patch::Merge, &change)
            .await
            .is(200);
    };
    let (run, ()) = tokio::join!(t.kubectl(&command, ""), report);
    assert_eq!(run.ok(), "widget.battery.bindery.dev/a condition met\n");
}

async fn wait_for_deletion_returns(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = t.widget("a");
    let command = ["wait", "--for=delete", "widget/a", "--timeout=20s"];
    let (run, answer) = tokio::join!(t.kubectl(&command, ""), t.delete(&target));
    run.ok();
    answer.is(200);
}

async fn scale_changes_replicas(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.kubectl(&["scale", "widget/a", "--replicas=4"], "")
        .await
        .ok();
    assert_eq!(t.get(&t.widget("a")).await.is(200)["spec"]["replicas"], 4);
}

async fn api_resources_lists_kinds(t: Scene) {
    let command = [
        "api-resources",
        "--api-group=battery.bindery.dev",
        "--no-headers",
    ];
    let text = t.kubectl(&command, "").await.ok();
    let lines: Vec<_> = text.lines().map(words).collect();
    assert!(
        lines.contains(&vec![
            "widgets",
            "wd",
            "battery.bindery.dev/v1",
            "true",
            "Widget"
        ]),
        "{text}"
    );
    assert!(
        lines.contains(&vec![
            "gadgets",
            "battery.bindery.dev/v1",
            "false",
            "Gadget"
        ]),
        "{text}"
    );
}

async fn api_versions_lists_groups(t: Scene) {
    let text = t.kubectl(&["api-versions"], "").await.ok();
    for line in [
        "v1",
        "apps/v1",
        "battery.bindery.dev/v1",
        "battery.bindery.dev/v1beta1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in {text}"
        );
    }
}

async fn explain_knows_the_schema(t: Scene) {
    let text = t.kubectl(&["explain", "widget"], "").await.ok();
    assert!(
        text.contains("KIND:       Widget") && text.contains("A thing to test with."),
        "{text}"
    );
    let text = t.kubectl(&["explain", "widget.spec.color"], "").await.ok();
    assert!(
        text.contains("FIELD: color <string>")
            && text.contains("ENUM:\n    red\n    green\n    blue"),
        "{text}"
    );
}

async fn explain_of_a_built_in_kind_works(t: Scene) {
    let text = t.kubectl(&["explain", "configmap.data"], "").await.ok();
    assert!(text.contains("FIELD: data <map[string]string>"), "{text}");
}

async fn events_are_listed(t: Scene) {
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1"},
        "involvedObject": {"kind": "Widget", "name": "a", "namespace": t.ns},
        "reason": "Tested", "message": "it was tested", "type": "Normal",
        "lastTimestamp": "2026-01-02T03:04:05Z",
    });
    t.post(&t.core("events"), &event).await.is(201);
    let text = t.kubectl(&["events"], "").await.ok();
    assert!(
        text.contains("Tested") && text.contains("Widget/a"),
        "{text}"
    );
    let text = t.kubectl(&["get", "events"], "").await.ok();
    let first = text.lines().next().map(words);
    assert_eq!(
        first,
        Some(vec!["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"])
    );
    assert!(text.contains("widget/a"), "{text}");
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

async fn version_tells_the_server(t: Scene) {
    let text = t.kubectl(&["version", "-o", "json"], "").await.ok();
    let version: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(version["serverVersion"]["minor"], "36");
}

async fn can_i_is_answered(t: Scene) {
    assert_eq!(
        t.kubectl(&["auth", "can-i", "create", "widgets"], "")
            .await
            .ok(),
        "yes\n"
    );
}

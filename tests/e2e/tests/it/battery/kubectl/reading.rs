//! Commands that look: get, describe, diff, wait, explain and their like.

use serde_json::json;

use super::{manifest, words};
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
    diff_shows_what_would_change,
    wait_for_a_condition_returns,
    wait_for_deletion_returns,
    api_resources_lists_kinds,
    api_versions_lists_groups,
    explain_knows_the_schema,
    events_are_listed,
    version_tells_the_server,
    can_i_is_answered,
];

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

//! Label and field selectors: every operator, and the bad ones.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, names, widget};

cases![
    equality_selects,
    double_equals_selects,
    inequality_includes_objects_without_the_label,
    a_set_selects,
    the_complement_of_a_set_selects,
    existence_selects,
    absence_selects,
    requirements_are_joined_with_and,
    greater_than_compares_numbers,
    less_than_compares_numbers,
    an_empty_value_selects_the_empty_value,
    an_empty_selector_selects_everything,
    an_unknown_operator_is_refused,
    an_unclosed_set_is_refused,
    a_bad_key_in_a_selector_is_refused,
    a_bad_value_in_a_selector_is_refused,
    a_comparison_with_a_word_is_refused,
    a_field_selects_by_name,
    a_field_selects_by_namespace,
    a_field_inequality_selects,
    fields_are_joined_with_and,
    a_declared_field_of_a_custom_kind_selects,
    a_declared_number_field_selects,
    a_field_that_is_not_declared_is_refused,
    a_field_selector_without_an_operator_is_refused,
    label_and_field_selectors_are_joined,
    a_kind_of_the_whole_cluster_is_listed_and_watched_by_both_selectors,
    an_event_is_selected_by_its_object,
    a_secret_is_selected_by_its_type,
    a_namespace_is_selected_by_its_phase,
];

async fn fill(t: &Scene) {
    let table = [
        ("a", json!({"app": "web", "tier": "1"})),
        ("b", json!({"app": "db", "tier": "2"})),
        ("c", json!({"app": "web", "tier": "10", "empty": ""})),
        ("d", json!({})),
    ];
    for (name, labels) in table {
        let color = if name == "b" { "blue" } else { "green" };
        let mut body = widget(name, json!({"size": name.len(), "color": color}));
        body["metadata"]["labels"] = labels;
        t.post(&t.widgets(), &body).await.is(201);
    }
}

async fn check(t: Scene, selector: &str, expected: &[&str]) {
    fill(&t).await;
    let target = format!("{}?labelSelector={}", t.widgets(), encode(selector));
    assert_eq!(names(&t.get(&target).await.is(200)), expected, "{selector}");
}

async fn check_fields(t: Scene, selector: &str, expected: &[&str]) {
    fill(&t).await;
    let target = format!("{}?fieldSelector={}", t.widgets(), encode(selector));
    assert_eq!(names(&t.get(&target).await.is(200)), expected, "{selector}");
}

async fn refuse(t: &Scene, query: &str, selector: &str) -> Value {
    let target = format!("{}?{query}={}", t.widgets(), encode(selector));
    t.get(&target).await.refused(400, "BadRequest")
}

fn encode(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(byte).collect()
}

async fn equality_selects(t: Scene) {
    check(t, "app=web", &["a", "c"]).await;
}

async fn double_equals_selects(t: Scene) {
    check(t, "app==web", &["a", "c"]).await;
}

async fn inequality_includes_objects_without_the_label(t: Scene) {
    check(t, "app!=web", &["b", "d"]).await;
}

async fn a_set_selects(t: Scene) {
    check(t, "app in (web, db)", &["a", "b", "c"]).await;
}

async fn the_complement_of_a_set_selects(t: Scene) {
    check(t, "app notin (web)", &["b", "d"]).await;
}

async fn existence_selects(t: Scene) {
    check(t, "app", &["a", "b", "c"]).await;
}

async fn absence_selects(t: Scene) {
    check(t, "!app", &["d"]).await;
}

async fn requirements_are_joined_with_and(t: Scene) {
    check(t, "app=web,tier!=1", &["c"]).await;
}

async fn greater_than_compares_numbers(t: Scene) {
    check(t, "tier>1", &["b", "c"]).await;
}

async fn less_than_compares_numbers(t: Scene) {
    check(t, "tier<10", &["a", "b"]).await;
}

async fn an_empty_value_selects_the_empty_value(t: Scene) {
    check(t, "empty=", &["c"]).await;
}

async fn an_empty_selector_selects_everything(t: Scene) {
    check(t, "", &["a", "b", "c", "d"]).await;
}

async fn an_unknown_operator_is_refused(t: Scene) {
    let status = refuse(&t, "labelSelector", "app ~ web").await;
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains('~')),
        "{status}"
    );
    refuse(&t, "labelSelector", "app like web").await;
}

async fn an_unclosed_set_is_refused(t: Scene) {
    refuse(&t, "labelSelector", "app in (web").await;
}

async fn a_bad_key_in_a_selector_is_refused(t: Scene) {
    refuse(&t, "labelSelector", "-app-=web").await;
}

async fn a_bad_value_in_a_selector_is_refused(t: Scene) {
    refuse(&t, "labelSelector", "app=-web-").await;
}

async fn a_comparison_with_a_word_is_refused(t: Scene) {
    refuse(&t, "labelSelector", "tier>high").await;
}

async fn a_field_selects_by_name(t: Scene) {
    check_fields(t, "metadata.name=b", &["b"]).await;
}

async fn a_field_selects_by_namespace(t: Scene) {
    let selector = format!("metadata.namespace={}", t.ns);
    check_fields(t, &selector, &["a", "b", "c", "d"]).await;
}

async fn a_field_inequality_selects(t: Scene) {
    check_fields(t, "metadata.name!=b", &["a", "c", "d"]).await;
}

async fn fields_are_joined_with_and(t: Scene) {
    check_fields(t, "metadata.name!=b,metadata.name!=a", &["c", "d"]).await;
}

async fn a_declared_field_of_a_custom_kind_selects(t: Scene) {
    check_fields(t, "spec.color=blue", &["b"]).await;
}

async fn a_declared_number_field_selects(t: Scene) {
    check_fields(t, "spec.size==1,spec.color!=blue", &["a", "c", "d"]).await;
}

async fn a_field_that_is_not_declared_is_refused(t: Scene) {
    let status = refuse(&t, "fieldSelector", "spec.code=x").await;
    let text = status["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("field label not supported: spec.code"),
        "{status}"
    );
}

async fn a_field_selector_without_an_operator_is_refused(t: Scene) {
    refuse(&t, "fieldSelector", "metadata.name").await;
}

async fn label_and_field_selectors_are_joined(t: Scene) {
    fill(&t).await;
    let query = "labelSelector=app%3Dweb&fieldSelector=metadata.name%3Dc";
    let list = t.get(&format!("{}?{query}", t.widgets())).await.is(200);
    assert_eq!(names(&list), ["c"]);
}

async fn an_event_is_selected_by_its_object(t: Scene) {
    for name in ["x", "y"] {
        let body = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.1")},
            "involvedObject": {"kind": "Widget", "name": name, "namespace": t.ns},
            "reason": "Tested", "type": "Normal", "message": "m",
        });
        t.post(&t.core("events"), &body).await.is(201);
    }
    for query in [
        "involvedObject.name%3Dy",
        "involvedObject.name%3Dy,involvedObject.kind%3DWidget",
    ] {
        let list = t
            .get(&format!("{}?fieldSelector={query}", t.core("events")))
            .await
            .is(200);
        assert_eq!(names(&list), ["y.1"]);
    }
}

async fn a_secret_is_selected_by_its_type(t: Scene) {
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/other")] {
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind,
        });
        t.post(&t.core("secrets"), &body).await.is(201);
    }
    let target = format!(
        "{}?fieldSelector=type%3Dexample.com%2Fother",
        t.core("secrets")
    );
    assert_eq!(names(&t.get(&target).await.is(200)), ["b"]);
}

async fn a_namespace_is_selected_by_its_phase(t: Scene) {
    let query = format!(
        "fieldSelector=status.phase%3DActive,metadata.name%3D{}",
        t.ns
    );
    let list = t.get(&format!("/api/v1/namespaces?{query}")).await.is(200);
    assert_eq!(names(&list), std::slice::from_ref(&t.ns));
}

/// As the controllers ask for a kind whose row says so.
async fn a_kind_of_the_whole_cluster_is_listed_and_watched_by_both_selectors(t: Scene) {
    let gadgets = "/apis/battery.bindery.dev/v1/gadgets";
    let name = |one: &str| format!("{}-{one}", t.ns);
    for (one, light) in [("dark", "on"), ("east", "on"), ("off", "off")] {
        let body = json!({
            "apiVersion": "battery.bindery.dev/v1", "kind": "Gadget",
            "metadata": {"name": name(one), "labels": {"case": t.ns, "light": light}},
            "data": {"host": one},
        });
        t.post(gadgets, &body).await.is(201);
    }
    let labels = encode(&format!("case={},light=on", t.ns));
    let fields = encode(&format!("metadata.name!={}", name("dark")));
    let selectors = format!("labelSelector={labels}&fieldSelector={fields}");
    let list = t.get(&format!("{gadgets}?limit=500&{selectors}")).await;
    let list = list.is(200);
    assert_eq!(names(&list), [name("east")]);
    assert_eq!(list["items"][0]["data"], json!({"host": "east"}));

    let watch = format!("{gadgets}?watch=true&allowWatchBookmarks=true&{selectors}");
    let mut events = t.watch(&watch).await;
    events.expect("ADDED", &name("east")).await;
    let switch = async |one: &str, light: &str| {
        let target = format!("{gadgets}/{}", name(one));
        let body = json!({"metadata": {"labels": {"light": light}}});
        t.patch(&target, Patch::Merge, &body).await.is(200);
    };
    switch("off", "on").await;
    events.expect("ADDED", &name("off")).await;
    switch("east", "off").await;
    events.expect("DELETED", &name("east")).await;
    for one in ["dark", "east", "off"] {
        t.delete(&format!("{gadgets}/{}", name(one))).await.is(200);
    }
}

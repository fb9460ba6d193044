//! Bad requests: sizes, depths, methods, and the shape of every refusal.

use bindery_e2e::http::Call;
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, config_map, widget};

cases![
    a_body_over_three_mebibytes_is_too_large,
    an_object_over_the_storage_limit_is_refused,
    a_deeply_nested_body_is_refused,
    a_deeply_nested_merge_patch_is_refused,
    a_status_has_the_same_shape_for_every_code,
    an_unknown_method_is_not_allowed,
    a_deletion_of_a_collection_of_namespaces_is_not_allowed,
    a_name_with_a_slash_is_not_found,
    a_body_that_is_a_list_is_refused,
    a_body_that_is_a_word_is_refused,
    a_body_without_a_kind_is_refused,
    a_null_name_is_no_name,
    a_number_as_a_name_is_refused,
    labels_must_be_strings,
    a_yaml_bomb_is_refused,
    total_annotations_have_a_limit,
    a_long_query_is_survived,
    the_server_lives_on_after_bad_input,
];

async fn a_body_over_three_mebibytes_is_too_large(t: Scene) {
    let body = config_map("a", json!({"k": "x".repeat(3 * 1024 * 1024 + 1)}));
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(413, "RequestEntityTooLarge");
    let body = widget(
        "a",
        json!({"size": 1, "anything": {"k": "x".repeat(3 * 1024 * 1024 + 1)}}),
    );
    t.post(&t.widgets(), &body)
        .await
        .refused(413, "RequestEntityTooLarge");
}

async fn an_object_over_the_storage_limit_is_refused(t: Scene) {
    let body = widget(
        "a",
        json!({"size": 1, "anything": {"k": "x".repeat(2_500_000)}}),
    );
    let answer = t.post(&t.widgets(), &body).await;
    assert!(
        answer.code >= 400,
        "{} {}",
        answer.code,
        &answer.text[..200]
    );
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

fn deep() -> String {
    format!("{}1{}", "{\"a\":".repeat(20_000), "}".repeat(20_000))
}

async fn a_deeply_nested_body_is_refused(t: Scene) {
    let body = format!(
        "{{\"apiVersion\": \"battery.bindery.dev/v1\", \"kind\": \"Widget\", \
         \"metadata\": {{\"name\": \"a\"}}, \"spec\": {{\"size\": 1, \"anything\": {}}}}}",
        deep()
    );
    let call = Call::new(Method::POST, t.widgets()).body("application/json", body);
    let answer = t.call(call).await;
    assert!((400..500).contains(&answer.code), "{}", answer.code);
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_deeply_nested_merge_patch_is_refused(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let body = format!("{{\"spec\": {{\"anything\": {}}}}}", deep());
    let call = Call::new(Method::PATCH, t.widget("a")).body("application/merge-patch+json", body);
    let answer = t.call(call).await;
    assert!((400..=500).contains(&answer.code), "{}", answer.code);
    t.get(&t.widget("a")).await.is(200);
}

async fn a_status_has_the_same_shape_for_every_code(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    t.get(&t.widget("none")).await.refused(404, "NotFound");
    t.post(&t.widgets(), &widget("a", json!({"size": 1})))
        .await
        .refused(409, "AlreadyExists");
    t.post(&t.widgets(), &widget("b", json!({})))
        .await
        .refused(422, "Invalid");
    t.get(&format!("{}?labelSelector=%7E", t.widgets()))
        .await
        .refused(400, "BadRequest");
    t.put(&t.core("configmaps"), &made)
        .await
        .refused(405, "MethodNotAllowed");
    t.patch(&t.widget("a"), Patch::Strategic, &json!({}))
        .await
        .refused(415, "UnsupportedMediaType");
    t.get_as(&t.widget("a"), "image/png")
        .await
        .refused(406, "NotAcceptable");
    let answer = t.get(&t.widget("none")).await;
    let content_type = answer
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok());
    assert_eq!(content_type, Some("application/json"));
    assert_eq!(answer.json["metadata"], json!({}));
}

async fn an_unknown_method_is_not_allowed(t: Scene) {
    let call = Call::new(Method::TRACE, t.core("configmaps"));
    assert_eq!(t.call(call).await.code, 405);
}

async fn a_deletion_of_a_collection_of_namespaces_is_not_allowed(t: Scene) {
    t.delete("/api/v1/namespaces")
        .await
        .refused(405, "MethodNotAllowed");
}

async fn a_name_with_a_slash_is_not_found(t: Scene) {
    assert_eq!(t.get(&t.widget("a/b/c")).await.code, 404);
    assert!([400, 404].contains(&t.get(&t.widget("a%2Fb")).await.code));
}

async fn a_body_that_is_a_list_is_refused(t: Scene) {
    for target in [t.widgets(), t.core("configmaps")] {
        t.post(&target, &json!([1, 2]))
            .await
            .refused(400, "BadRequest");
    }
}

async fn a_body_that_is_a_word_is_refused(t: Scene) {
    for target in [t.widgets(), t.core("configmaps")] {
        t.post(&target, &json!("hello"))
            .await
            .refused(400, "BadRequest");
    }
}

async fn a_body_without_a_kind_is_refused(t: Scene) {
    let body = json!({"metadata": {"name": "a"}, "spec": {"size": 1}});
    t.post(&t.widgets(), &body).await.refused(400, "BadRequest");
}

async fn a_null_name_is_no_name(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["name"] = Value::Null;
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
}

async fn a_number_as_a_name_is_refused(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["name"] = json!(5);
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(400, "BadRequest");
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["name"] = json!(5);
    t.post(&t.widgets(), &body).await.refused(400, "BadRequest");
}

async fn labels_must_be_strings(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"n": 5});
    t.post(&t.widgets(), &body).await.refused(400, "BadRequest");
    let mut body = config_map("a", json!({}));
    body["metadata"]["labels"] = json!({"n": true});
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(400, "BadRequest");
}

async fn a_yaml_bomb_is_refused(t: Scene) {
    let mut text = String::from(
        "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata: {name: a}\n\
         spec:\n  size: 1\n  anything:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n",
    );
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let line = [below.as_str(); 10].join(", ");
        text.extend([format!("    a{level}: &a{level} [{line}]\n")]);
    }
    let call = Call::new(Method::POST, t.widgets()).body("application/yaml", text);
    let answer = t.call(call).await;
    assert!((400..500).contains(&answer.code), "{}", answer.code);
}

async fn total_annotations_have_a_limit(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["annotations"] = json!({"k": "x".repeat(256 * 1024)});
    let status = t.post(&t.widgets(), &body).await.refused(422, "Invalid");
    crate::scene::cause(&status, "FieldValueTooLong", "metadata.annotations");
}

async fn a_long_query_is_survived(t: Scene) {
    let selector = (0..200)
        .map(|index| format!("key{index}%3Dv"))
        .collect::<Vec<_>>()
        .join(",");
    let list = t
        .get(&format!("{}?labelSelector={selector}", t.widgets()))
        .await
        .is(200);
    assert_eq!(list["items"], json!([]));
}

async fn the_server_lives_on_after_bad_input(t: Scene) {
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\u{0}",
        "{\"kind\":{}}",
        "{\"metadata\":[]}",
    ] {
        let call = Call::new(Method::POST, t.widgets()).body("application/json", body);
        let answer = t.call(call).await;
        assert!(
            (400..500).contains(&answer.code),
            "{body:?}: {} {}",
            answer.code,
            answer.text
        );
    }
    t.make("a", json!({"size": 1})).await;
}

//! The API called as a client calls it, without a socket.

mod deletion;
mod durable;
mod watching;

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, BodyStream, Full};
use serde_json::{Value, json};
use tower::Service as _;

use super::{ApiBody, EmbeddedApi, Options};

pub(super) fn api() -> EmbeddedApi {
    EmbeddedApi::open(Options::in_memory()).unwrap()
}

/// One call; the body's media type follows from the method.
pub(super) async fn call(
    api: &EmbeddedApi,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let media_type = match method {
        "PATCH" if body.is_array() => "application/json-patch+json",
        "PATCH" if path.contains("fieldManager=") => "application/apply-patch+yaml",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = api.service().call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub(super) async fn ok(api: &EmbeddedApi, method: &str, path: &str, body: &Value) -> Value {
    let (code, answer) = call(api, method, path, body).await;
    assert!(code < 300, "{method} {path}: {answer}");
    answer
}

/// The body of a watch.
pub(super) async fn watch(api: &EmbeddedApi, path: &str) -> BodyStream<ApiBody> {
    let request = Request::builder()
        .uri(path)
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = api.service().call(request).await.unwrap();
    assert_eq!(response.status(), 200);
    BodyStream::new(response.into_body())
}

pub(super) async fn next_event(watch: &mut BodyStream<ApiBody>) -> Option<Value> {
    let frame = watch.next().await?.unwrap();
    Some(serde_json::from_slice(&frame.into_data().unwrap()).unwrap())
}

pub(super) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "color": {"type": "string", "default": "red"},
                    }},
                    "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

pub(super) fn thing(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name},
        "spec": {"size": 3},
    })
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_gone_with_its_objects() {
    let api = api();
    let created = ok(&api, "POST", CRDS, &definition()).await;
    assert_eq!(created["status"]["conditions"][1]["type"], "Established");
    let made = ok(&api, "POST", THINGS, &thing("one")).await;
    assert_eq!(made["spec"]["color"], "red");
    assert_eq!(made["metadata"]["generation"], 1);
    ok(
        &api,
        "DELETE",
        &format!("{CRDS}/things.example.com"),
        &Value::Null,
    )
    .await;
    let (code, _) = call(&api, "GET", &format!("{THINGS}/one"), &Value::Null).await;
    assert_eq!(code, 404);
    ok(&api, "POST", CRDS, &definition()).await;
    let listed = ok(&api, "GET", THINGS, &Value::Null).await;
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn a_bad_field_is_refused_with_its_path() {
    let api = api();
    ok(&api, "POST", CRDS, &definition()).await;
    let mut bad = thing("one");
    bad["spec"]["size"] = json!(0);
    let (code, status) = call(&api, "POST", THINGS, &bad).await;
    assert_eq!(code, 422, "{status}");
    assert_eq!(status["reason"], "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.size");
}

#[tokio::test]
async fn spec_and_status_are_written_through_their_own_endpoints() {
    let api = api();
    ok(&api, "POST", CRDS, &definition()).await;
    ok(&api, "POST", THINGS, &thing("one")).await;
    let one = format!("{THINGS}/one");
    let both = json!({"spec": {"size": 5}, "status": {"seen": 1}});
    let changed = ok(&api, "PATCH", &one, &both).await;
    assert_eq!(
        (&changed["spec"]["size"], changed.get("status")),
        (&json!(5), None)
    );
    assert_eq!(changed["metadata"]["generation"], 2);
    let both = json!({"spec": {"size": 7}, "status": {"seen": 1}});
    let changed = ok(&api, "PATCH", &format!("{one}/status"), &both).await;
    assert_eq!(
        (&changed["spec"]["size"], &changed["status"]["seen"]),
        (&json!(5), &json!(1))
    );
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_write_without_change_leaves_the_version() {
    let api = api();
    let made = ok(&api, "POST", MAPS, &config_map("a")).await;
    let path = format!("{MAPS}/a");
    let same = ok(&api, "PATCH", &path, &json!({"data": {"a": "1"}})).await;
    assert_eq!(
        made["metadata"]["resourceVersion"],
        same["metadata"]["resourceVersion"]
    );
    let apply = format!("{path}?fieldManager=me&force=true");
    let first = ok(&api, "PATCH", &apply, &config_map("a")).await;
    let again = ok(&api, "PATCH", &apply, &config_map("a")).await;
    assert_eq!(
        first["metadata"]["resourceVersion"],
        again["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn a_stale_replace_is_a_conflict() {
    let api = api();
    let made = ok(&api, "POST", MAPS, &config_map("a")).await;
    let path = format!("{MAPS}/a");
    ok(&api, "PATCH", &path, &json!({"data": {"a": "2"}})).await;
    let (code, status) = call(&api, "PUT", &path, &made).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let api = api();
    ok(
        &api,
        "POST",
        &format!("{MAPS}?dryRun=All"),
        &config_map("a"),
    )
    .await;
    assert_eq!(
        call(&api, "GET", &format!("{MAPS}/a"), &Value::Null)
            .await
            .0,
        404
    );
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let patched = ok(
        &api,
        "PATCH",
        &format!("{MAPS}/a?dryRun=All"),
        &json!({"data": {"b": "2"}}),
    )
    .await;
    assert_eq!(patched["data"]["b"], "2");
    ok(
        &api,
        "DELETE",
        &format!("{MAPS}/a?dryRun=All"),
        &Value::Null,
    )
    .await;
    let read = ok(&api, "GET", &format!("{MAPS}/a"), &Value::Null).await;
    assert_eq!(read["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn pages_show_the_moment_the_list_began() {
    let api = api();
    for index in 0..5 {
        ok(&api, "POST", MAPS, &config_map(&format!("m{index}"))).await;
    }
    let first = ok(&api, "GET", &format!("{MAPS}?limit=2"), &Value::Null).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    ok(&api, "DELETE", &format!("{MAPS}/m3"), &Value::Null).await;
    ok(&api, "POST", MAPS, &config_map("m9")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = ok(
        &api,
        "GET",
        &format!("{MAPS}?continue={token}"),
        &Value::Null,
    )
    .await;
    let names: Vec<&str> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn a_page_looks_only_at_its_own_objects() {
    let api = api();
    for index in 0..60 {
        ok(&api, "POST", MAPS, &config_map(&format!("m{index:02}"))).await;
    }
    let mut path = format!("{MAPS}?limit=10");
    let mut names = Vec::new();
    for page in 0..6 {
        let before = api.core.store.visited();
        let listed = ok(&api, "GET", &path, &Value::Null).await;
        let visited = api.core.store.visited() - before;
        // The first page counts what follows; the others know it.
        assert!(
            page == 0 || visited <= 11,
            "page {page} looked at {visited}"
        );
        let items = listed["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| item["metadata"]["name"].clone()));
        let left = listed["metadata"]["remainingItemCount"].as_u64();
        assert_eq!(left, (page < 5).then_some(50 - 10 * page));
        // What happens meanwhile, before and behind the page, is not in the list.
        let (gone, new) = (format!("{MAPS}/m{}5", page + 1), format!("m{page}5x"));
        call(&api, "DELETE", &gone, &Value::Null).await;
        ok(&api, "POST", MAPS, &config_map(&new)).await;
        let token = listed["metadata"]["continue"].as_str();
        path = format!("{MAPS}?limit=10&continue={}", token.unwrap_or_default());
    }
    let expected: Vec<Value> = (0..60).map(|index| json!(format!("m{index:02}"))).collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn kube_s_finalizer_patch_applies() {
    let api = api();
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let patch = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]},
    ]);
    let changed = ok(&api, "PATCH", &format!("{MAPS}/a"), &patch).await;
    assert_eq!(changed["metadata"]["finalizers"], json!(["example.com/x"]));
}

#[tokio::test]
async fn events_are_one_set_under_both_groups() {
    let api = api();
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"}, "note": "hello", "reason": "R",
        "type": "Normal", "action": "A", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    ok(
        &api,
        "POST",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        &event,
    )
    .await;
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp";
    let listed = ok(&api, "GET", path, &Value::Null).await;
    assert_eq!(listed["items"][0]["message"], "hello");
}

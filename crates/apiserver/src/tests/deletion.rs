//! Finalizers, owners, namespaces.

use serde_json::{Value, json};

use super::{MAPS, api, call, config_map, next_event, ok, watch};

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    let mut map = config_map(name);
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    }]);
    map
}

async fn exists(api: &crate::EmbeddedApi, name: &str) -> bool {
    call(api, "GET", &format!("{MAPS}/{name}"), &Value::Null)
        .await
        .0
        == 200
}

#[tokio::test]
async fn an_object_with_finalizers_goes_when_the_last_is_removed() {
    let api = api();
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["example.com/x"]);
    ok(&api, "POST", MAPS, &map).await;
    let path = format!("{MAPS}/a");
    let marked = ok(&api, "DELETE", &path, &Value::Null).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    assert_eq!(call(&api, "PATCH", &path, &more).await.0, 422);
    ok(
        &api,
        "PATCH",
        &path,
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert!(!exists(&api, "a").await);
}

#[tokio::test]
async fn dependents_go_with_their_last_owner() {
    let api = api();
    let owner = ok(&api, "POST", MAPS, &config_map("owner")).await;
    let other = ok(&api, "POST", MAPS, &config_map("other")).await;
    ok(&api, "POST", MAPS, &owned("child", &owner, false)).await;
    let mut shared = owned("shared", &owner, false);
    let second = owned("", &other, false)["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(second);
    ok(&api, "POST", MAPS, &shared).await;
    ok(&api, "DELETE", &format!("{MAPS}/owner"), &Value::Null).await;
    assert!(!exists(&api, "child").await);
    let shared = ok(&api, "GET", &format!("{MAPS}/shared"), &Value::Null).await;
    assert_eq!(
        shared["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    ok(&api, "DELETE", &format!("{MAPS}/other"), &Value::Null).await;
    assert!(!exists(&api, "shared").await);
}

#[tokio::test]
async fn orphaned_dependents_stay() {
    let api = api();
    let owner = ok(&api, "POST", MAPS, &config_map("owner")).await;
    ok(&api, "POST", MAPS, &owned("child", &owner, false)).await;
    let orphan = json!({"propagationPolicy": "Orphan"});
    ok(&api, "DELETE", &format!("{MAPS}/owner"), &orphan).await;
    let child = ok(&api, "GET", &format!("{MAPS}/child"), &Value::Null).await;
    assert_eq!(child["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let api = api();
    let owner = ok(&api, "POST", MAPS, &config_map("owner")).await;
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["example.com/x"]);
    ok(&api, "POST", MAPS, &child).await;
    let foreground = json!({"propagationPolicy": "Foreground"});
    let marked = ok(&api, "DELETE", &format!("{MAPS}/owner"), &foreground).await;
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert!(exists(&api, "owner").await);
    let path = format!("{MAPS}/child");
    ok(
        &api,
        "PATCH",
        &path,
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert!(!exists(&api, "child").await);
    assert!(!exists(&api, "owner").await);
}

#[tokio::test]
async fn an_object_whose_owner_never_existed_is_collected() {
    let api = api();
    let missing = json!({"metadata": {"name": "ghost", "uid": "0000"}});
    ok(&api, "POST", MAPS, &owned("child", &missing, false)).await;
    assert!(!exists(&api, "child").await);
}

#[tokio::test]
async fn a_long_chain_of_owners_is_collected() {
    let api = api();
    let first = ok(&api, "POST", MAPS, &config_map("c0")).await;
    let mut owner = first;
    for index in 1..300 {
        owner = ok(
            &api,
            "POST",
            MAPS,
            &owned(&format!("c{index}"), &owner, true),
        )
        .await;
    }
    let foreground = json!({"propagationPolicy": "Foreground"});
    ok(&api, "DELETE", &format!("{MAPS}/c0"), &foreground).await;
    let listed = ok(&api, "GET", MAPS, &Value::Null).await;
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn a_namespace_goes_after_its_content() {
    let api = api();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    ok(&api, "POST", "/api/v1/namespaces", &namespace).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    ok(&api, "POST", maps, &config_map("plain")).await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    ok(&api, "POST", maps, &held).await;
    let mut events = watch(
        &api,
        "/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dteam",
    )
    .await;
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "ADDED");

    let marked = ok(&api, "DELETE", "/api/v1/namespaces/team", &Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let (code, status) = call(&api, "POST", maps, &config_map("late")).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    assert_eq!(
        call(&api, "GET", &format!("{maps}/plain"), &Value::Null)
            .await
            .0,
        404
    );
    let path = format!("{maps}/held");
    ok(
        &api,
        "PATCH",
        &path,
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(
        call(&api, "GET", "/api/v1/namespaces/team", &Value::Null)
            .await
            .0,
        404
    );
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "MODIFIED");
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "DELETED");
}

#[tokio::test]
async fn an_empty_namespace_goes_at_once() {
    let api = api();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    ok(&api, "POST", "/api/v1/namespaces", &namespace).await;
    ok(&api, "DELETE", "/api/v1/namespaces/team", &Value::Null).await;
    assert_eq!(
        call(&api, "GET", "/api/v1/namespaces/team", &Value::Null)
            .await
            .0,
        404
    );
    assert_eq!(
        call(&api, "DELETE", "/api/v1/namespaces/default", &Value::Null)
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn deletion_preconditions_are_kept() {
    let api = api();
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let other = json!({"preconditions": {"uid": "other"}});
    assert_eq!(
        call(&api, "DELETE", &format!("{MAPS}/a"), &other).await.0,
        409
    );
    let other = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(
        call(&api, "DELETE", &format!("{MAPS}/a"), &other).await.0,
        409
    );
    assert!(exists(&api, "a").await);
}

#[tokio::test]
async fn a_definition_with_many_objects_goes_with_them() {
    let api = api();
    ok(&api, "POST", super::CRDS, &super::definition()).await;
    for index in 0..500 {
        ok(
            &api,
            "POST",
            super::THINGS,
            &super::thing(&format!("t{index}")),
        )
        .await;
    }
    let path = format!("{}/things.example.com", super::CRDS);
    ok(&api, "DELETE", &path, &Value::Null).await;
    assert_eq!(call(&api, "GET", &path, &Value::Null).await.0, 404);
    assert_eq!(call(&api, "GET", super::THINGS, &Value::Null).await.0, 404);
}

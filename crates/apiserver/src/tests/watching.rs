//! Watches.

use serde_json::{Value, json};

use super::{MAPS, api, config_map, next_event, ok, watch};

fn labelled(name: &str, app: &str) -> Value {
    let mut map = config_map(name);
    map["metadata"]["labels"] = json!({"app": app});
    map
}

#[tokio::test]
async fn a_watch_resumes_where_a_list_ended() {
    let api = api();
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let listed = ok(&api, "GET", MAPS, &Value::Null).await;
    let version = listed["metadata"]["resourceVersion"].as_str().unwrap();
    ok(&api, "POST", MAPS, &config_map("b")).await;
    ok(&api, "DELETE", &format!("{MAPS}/a"), &Value::Null).await;
    let mut events = watch(&api, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let event = next_event(&mut events).await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("b"))
    );
    let event = next_event(&mut events).await.unwrap();
    assert_eq!(event["type"], "DELETED");
}

#[tokio::test]
async fn leaving_a_selection_looks_like_a_deletion() {
    let api = api();
    let mut events = watch(&api, &format!("{MAPS}?watch=1&labelSelector=app%3Dweb")).await;
    ok(&api, "POST", MAPS, &labelled("a", "db")).await;
    let path = format!("{MAPS}/a");
    for app in ["web", "web2"] {
        ok(
            &api,
            "PATCH",
            &path,
            &json!({"metadata": {"labels": {"app": app}}}),
        )
        .await;
    }
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "ADDED");
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "DELETED");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_sends_bookmarks_and_ends_in_time() {
    let api = api();
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=90");
    let mut events = watch(&api, &path).await;
    let event = next_event(&mut events).await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert!(event["object"]["metadata"]["resourceVersion"].is_string());
    assert_eq!(next_event(&mut events).await, None);
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let api = api();
    ok(&api, "POST", MAPS, &config_map("a")).await;
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true"
    );
    let mut events = watch(&api, &path).await;
    assert_eq!(next_event(&mut events).await.unwrap()["type"], "ADDED");
    let event = next_event(&mut events).await.unwrap();
    let mark = &event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!((&event["type"], mark), (&json!("BOOKMARK"), &json!("true")));
}

#[tokio::test]
async fn a_watch_that_never_reads_ends_with_410_and_skips_nothing() {
    let api = api();
    let made = ok(&api, "POST", MAPS, &config_map("a")).await;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut slow = watch(&api, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let path = format!("{MAPS}/a");
    for index in 0..550 {
        ok(
            &api,
            "PATCH",
            &path,
            &json!({"data": {"a": index.to_string()}}),
        )
        .await;
    }
    let event = next_event(&mut slow).await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(next_event(&mut slow).await, None);
}

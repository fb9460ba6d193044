//! Watching: replay, bookmarks, selectors, ends and refusals.

use serde_json::json;

use crate::scene::{Expect, Patch, Scene, cases, version, widget};

cases![
    a_watch_from_a_version_replays_what_came_after,
    a_watch_from_zero_begins_with_what_exists,
    a_watch_without_a_version_begins_with_what_exists,
    a_deletion_brings_the_last_state_with_a_new_version,
    a_write_that_changes_nothing_brings_no_event,
    an_event_carries_the_version_of_its_write,
    a_deletion_with_finalizers_is_a_change_first,
    an_object_that_leaves_the_selector_is_deleted,
    an_object_that_enters_the_selector_is_added,
    an_object_outside_the_selector_brings_nothing,
    a_field_selector_narrows_a_watch,
    a_declared_field_narrows_a_watch,
    a_watch_of_one_name_sees_only_that,
    a_timeout_ends_the_watch,
    bookmarks_come_when_asked_for,
    initial_events_end_with_a_marked_bookmark,
    initial_events_without_bookmarks_end_unmarked,
    initial_events_without_a_match_are_refused,
    initial_events_on_a_list_are_refused,
    a_watch_from_a_forgotten_version_is_gone,
    a_watch_with_a_bad_version_is_refused,
    a_watch_from_the_future_waits,
    a_watch_of_all_namespaces_sees_each,
    a_status_write_is_an_event,
    two_watches_see_the_same_order,
    the_old_watch_path_is_served,
    a_watch_with_a_bad_selector_is_refused,
    a_watch_can_be_read_as_partial_objects,
    a_watch_can_be_read_as_tables,
];

async fn start(t: &Scene) -> String {
    version(&t.get(&t.widgets()).await.is(200))
}

async fn a_watch_from_a_version_replays_what_came_after(t: Scene) {
    t.make("before", json!({"size": 1})).await;
    let rv = start(&t).await;
    t.make("a", json!({"size": 1})).await;
    t.patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 2}}))
        .await
        .is(200);
    t.delete(&t.widget("a")).await.is(200);
    let target = format!("{}?watch=true&resourceVersion={rv}", t.widgets());
    let mut events = t.watch(&target).await;
    assert_eq!(events.expect("ADDED", "a").await["spec"]["size"], 1);
    assert_eq!(events.expect("MODIFIED", "a").await["spec"]["size"], 2);
    events.expect("DELETED", "a").await;
    t.make("live", json!({"size": 1})).await;
    events.expect("ADDED", "live").await;
}

async fn a_watch_from_zero_begins_with_what_exists(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let target = format!("{}?watch=true&resourceVersion=0", t.widgets());
    let mut events = t.watch(&target).await;
    assert_eq!(events.expect("ADDED", "a").await, made);
}

async fn a_watch_without_a_version_begins_with_what_exists(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let mut events = t.watch(&format!("{}?watch=1", t.widgets())).await;
    events.expect("ADDED", "a").await;
    t.make("b", json!({"size": 1})).await;
    events.expect("ADDED", "b").await;
}

async fn a_deletion_brings_the_last_state_with_a_new_version(t: Scene) {
    let made = t.make("a", json!({"size": 7})).await;
    let rv = version(&made);
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    t.delete(&t.widget("a")).await.is(200);
    let last = events.expect("DELETED", "a").await;
    assert_eq!(last["spec"]["size"], 7);
    let number = |text: String| text.parse::<u64>().expect("versions are numbers");
    assert!(number(version(&last)) > number(rv));
}

async fn a_write_that_changes_nothing_brings_no_event(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let rv = version(&made);
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    let same = t.put(&t.widget("a"), &made).await.is(200);
    assert_eq!(version(&same), rv);
    let same = t
        .patch(&t.widget("a"), Patch::Merge, &json!({"spec": {"size": 1}}))
        .await
        .is(200);
    assert_eq!(version(&same), rv);
    t.make("b", json!({"size": 1})).await;
    events.expect("ADDED", "b").await;
}

async fn an_event_carries_the_version_of_its_write(t: Scene) {
    let rv = start(&t).await;
    let made = t.make("a", json!({"size": 1})).await;
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    assert_eq!(version(&events.expect("ADDED", "a").await), version(&made));
}

async fn a_deletion_with_finalizers_is_a_change_first(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["finalizers"] = json!(["battery.bindery.dev/hold"]);
    let rv = version(&t.post(&t.widgets(), &body).await.is(201));
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    t.delete(&t.widget("a")).await.is(200);
    let seen = events.expect("MODIFIED", "a").await;
    assert!(seen["metadata"]["deletionTimestamp"].is_string());
    let free = json!({"metadata": {"finalizers": null}});
    t.patch(&t.widget("a"), Patch::Merge, &free).await.is(200);
    events.expect("DELETED", "a").await;
}

async fn an_object_that_leaves_the_selector_is_deleted(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"app": "x"});
    let rv = version(&t.post(&t.widgets(), &body).await.is(201));
    let query = format!("watch=1&resourceVersion={rv}&labelSelector=app%3Dx");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    let change = json!({"metadata": {"labels": {"app": "y"}}});
    let after = t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    let seen = events.expect("DELETED", "a").await;
    // It is shown as it was when it still matched, under the version of the write.
    assert_eq!(seen["metadata"]["labels"]["app"], "x");
    assert_eq!(version(&seen), version(&after));
}

async fn an_object_that_enters_the_selector_is_added(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    let query = format!("watch=1&resourceVersion={rv}&labelSelector=app%3Dx");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    let change = json!({"metadata": {"labels": {"app": "x"}}});
    t.patch(&t.widget("a"), Patch::Merge, &change).await.is(200);
    events.expect("ADDED", "a").await;
}

async fn an_object_outside_the_selector_brings_nothing(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&labelSelector=app%3Dx");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    t.make("outside", json!({"size": 1})).await;
    let mut body = widget("inside", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"app": "x"});
    t.post(&t.widgets(), &body).await.is(201);
    events.expect("ADDED", "inside").await;
}

async fn a_field_selector_narrows_a_watch(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&fieldSelector=metadata.name%3Db");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    t.make("a", json!({"size": 1})).await;
    t.make("b", json!({"size": 1})).await;
    events.expect("ADDED", "b").await;
}

async fn a_declared_field_narrows_a_watch(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&fieldSelector=spec.color%3Dblue");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    t.make("a", json!({"size": 1})).await;
    t.make("b", json!({"size": 1, "color": "blue"})).await;
    events.expect("ADDED", "b").await;
    t.patch(
        &t.widget("b"),
        Patch::Merge,
        &json!({"spec": {"color": "red"}}),
    )
    .await
    .is(200);
    events.expect("DELETED", "b").await;
}

async fn a_watch_of_one_name_sees_only_that(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.make("b", json!({"size": 1})).await;
    let query = "watch=1&fieldSelector=metadata.name%3Db&timeoutSeconds=1";
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    events.expect("ADDED", "b").await;
    assert_eq!(events.rest().await, Vec::<serde_json::Value>::new());
}

async fn a_timeout_ends_the_watch(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&timeoutSeconds=1");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    assert_eq!(events.rest().await, Vec::<serde_json::Value>::new());
}

async fn bookmarks_come_when_asked_for(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&allowWatchBookmarks=true&timeoutSeconds=3");
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    let (kind, object) = events.next().await;
    assert_eq!(kind, "BOOKMARK", "{object}");
    assert_eq!(object["kind"], "Widget");
    assert_eq!(object["apiVersion"], "battery.bindery.dev/v1");
    assert!(version(&object).parse::<u64>().is_ok());
}

async fn initial_events_end_with_a_marked_bookmark(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.make("b", json!({"size": 1})).await;
    let query =
        "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    events.expect("ADDED", "a").await;
    events.expect("ADDED", "b").await;
    let (kind, object) = events.next().await;
    assert_eq!(kind, "BOOKMARK", "{object}");
    assert_eq!(
        object["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    t.make("c", json!({"size": 1})).await;
    events.expect("ADDED", "c").await;
}

async fn initial_events_without_bookmarks_end_unmarked(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let target = format!("{}?{query}&timeoutSeconds=1", t.widgets());
    let mut events = t.watch(&target).await;
    events.expect("ADDED", "a").await;
    assert_eq!(events.rest().await, Vec::<serde_json::Value>::new());
}

async fn initial_events_without_a_match_are_refused(t: Scene) {
    let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true";
    let answer = t.try_watch(&format!("{}?{query}", t.widgets())).await;
    answer.err().expect("it is refused").refused(422, "Invalid");
}

async fn initial_events_on_a_list_are_refused(t: Scene) {
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    t.get(&format!("{}?{query}", t.widgets()))
        .await
        .refused(422, "Invalid");
}

async fn a_watch_from_a_forgotten_version_is_gone(t: Scene) {
    let query = "watch=1&resourceVersion=1";
    let mut events = t.watch(&format!("{}?{query}", t.widgets())).await;
    let (kind, status) = events.next().await;
    assert_eq!(
        (kind.as_str(), &status["kind"]),
        ("ERROR", &json!("Status")),
        "{status}"
    );
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("too old resource version: 1"))
    );
}

async fn a_watch_with_a_bad_version_is_refused(t: Scene) {
    let answer = t
        .try_watch(&format!("{}?watch=1&resourceVersion=soon", t.widgets()))
        .await;
    let answer = answer.err().expect("it is refused");
    assert!(
        answer.code >= 400 && answer.text.contains("soon"),
        "{}",
        answer.text
    );
}

async fn a_watch_from_the_future_waits(t: Scene) {
    let query = "watch=1&resourceVersion=99999999&timeoutSeconds=1";
    match t.try_watch(&format!("{}?{query}", t.widgets())).await {
        Ok(mut events) => assert_eq!(events.rest().await, Vec::<serde_json::Value>::new()),
        Err(answer) => assert_eq!(answer.code, 504, "{}", answer.text),
    }
}

async fn a_watch_of_all_namespaces_sees_each(t: Scene) {
    let rv = start(&t).await;
    let query = format!("watch=1&resourceVersion={rv}&labelSelector=only%3D{}", t.ns);
    let mut events = t
        .watch(&format!("/apis/battery.bindery.dev/v1/widgets?{query}"))
        .await;
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["labels"] = json!({"only": t.ns});
    t.post(&t.widgets(), &body).await.is(201);
    assert_eq!(
        events.expect("ADDED", "a").await["metadata"]["namespace"],
        t.ns
    );
}

async fn a_status_write_is_an_event(t: Scene) {
    let rv = version(&t.make("a", json!({"size": 1})).await);
    let mut events = t
        .watch(&format!("{}?watch=1&resourceVersion={rv}", t.widgets()))
        .await;
    let change = json!({"status": {"phase": "Done"}});
    t.patch(&t.widget("a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(
        events.expect("MODIFIED", "a").await["status"]["phase"],
        "Done"
    );
}

async fn two_watches_see_the_same_order(t: Scene) {
    let rv = start(&t).await;
    let target = format!("{}?watch=1&resourceVersion={rv}", t.widgets());
    let (mut one, mut two) = (t.watch(&target).await, t.watch(&target).await);
    for index in 0..10 {
        t.make(&format!("w{index}"), json!({"size": 1})).await;
    }
    for _ in 0..10 {
        assert_eq!(one.next().await, two.next().await);
    }
}

async fn the_old_watch_path_is_served(t: Scene) {
    t.make_map("a", json!({})).await;
    let target = format!("/api/v1/watch/namespaces/{}/configmaps", t.ns);
    let (kind, _) = t.watch(&target).await.next().await;
    assert_eq!(kind, "ADDED");
}

async fn a_watch_with_a_bad_selector_is_refused(t: Scene) {
    let target = format!("{}?watch=1&labelSelector=a%7Eb", t.widgets());
    let answer = t.try_watch(&target).await;
    answer
        .err()
        .expect("it is refused")
        .refused(400, "BadRequest");
}

async fn a_watch_can_be_read_as_partial_objects(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let target = format!("{}?watch=1&timeoutSeconds=1", t.widgets());
    let text = t.get_as(&target, accept).await.text;
    let line = text.lines().next().expect("one event comes");
    let event: serde_json::Value = serde_json::from_str(line).expect("an event is JSON");
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert!(event["object"].get("spec").is_none());
}

async fn a_watch_can_be_read_as_tables(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
    let target = format!("{}?watch=1&timeoutSeconds=1", t.widgets());
    let text = t.get_as(&target, accept).await.text;
    let line = text.lines().next().expect("one event comes");
    let event: serde_json::Value = serde_json::from_str(line).expect("an event is JSON");
    assert_eq!(event["object"]["kind"], "Table");
    assert_eq!(event["object"]["rows"][0]["cells"][0], "a");
}

//! Reading: get, list, pages, versions.

use std::collections::BTreeSet;

use serde_json::json;

use crate::scene::{Expect, Scene, cases, names, version, widget};

cases![
    a_missing_object_is_not_found,
    a_missing_kind_is_not_found,
    a_missing_group_is_not_found,
    a_missing_version_of_a_group_is_not_found,
    a_path_outside_the_api_is_not_found,
    an_object_of_another_namespace_is_not_found,
    a_list_has_kind_version_and_items,
    an_empty_list_has_an_empty_array,
    a_list_of_all_namespaces_contains_each,
    items_of_a_list_come_in_the_order_of_their_keys,
    a_limit_cuts_the_list_and_a_token_goes_on,
    pages_see_the_state_of_the_first_page,
    a_page_of_exactly_the_rest_has_no_token,
    the_remaining_count_is_told,
    the_remaining_count_is_not_told_with_a_selector,
    a_broken_token_is_a_bad_request,
    a_token_with_a_resource_version_is_refused,
    an_expired_token_is_gone,
    a_negative_limit_is_no_limit,
    a_list_at_version_zero_is_served,
    a_list_not_older_than_a_version_is_served,
    a_list_exactly_at_a_version_shows_the_past,
    a_match_without_a_version_is_refused,
    an_unknown_match_is_refused,
    an_exact_match_at_zero_is_refused,
    a_version_that_is_no_number_is_refused,
    a_get_at_version_zero_is_served,
    a_list_version_is_not_older_than_its_items,
    versions_grow_over_all_kinds,
    a_query_that_is_no_number_is_refused,
    head_is_not_allowed,
    another_served_version_shows_the_same_object,
    a_deprecated_version_warns,
    a_pretty_answer_is_indented,
];

async fn a_missing_object_is_not_found(t: Scene) {
    let status = t.get(&t.widget("none")).await.refused(404, "NotFound");
    assert_eq!(
        status["message"],
        "widgets.battery.bindery.dev \"none\" not found"
    );
    assert_eq!(
        status["details"],
        json!({"name": "none", "group": "battery.bindery.dev", "kind": "widgets"})
    );
    let status = t
        .get(&t.core("configmaps/none"))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["message"], "configmaps \"none\" not found");
    assert_eq!(
        status["details"],
        json!({"name": "none", "kind": "configmaps"})
    );
}

async fn a_missing_kind_is_not_found(t: Scene) {
    let status = t.get("/api/v1/gizmos").await.refused(404, "NotFound");
    assert_eq!(
        status["message"],
        "the server could not find the requested resource"
    );
    assert_eq!(t.get("/apis/battery.bindery.dev/v1/gizmos").await.code, 404);
}

async fn a_missing_group_is_not_found(t: Scene) {
    assert_eq!(t.get("/apis/nowhere.example/v1/things").await.code, 404);
    assert_eq!(t.get("/apis/nowhere.example").await.code, 404);
}

async fn a_missing_version_of_a_group_is_not_found(t: Scene) {
    assert_eq!(
        t.get("/apis/battery.bindery.dev/v9/widgets").await.code,
        404
    );
}

async fn a_path_outside_the_api_is_not_found(t: Scene) {
    assert_eq!(t.get("/nonsense").await.code, 404);
}

async fn an_object_of_another_namespace_is_not_found(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = "/apis/battery.bindery.dev/v1/namespaces/default/widgets/a";
    t.get(target).await.refused(404, "NotFound");
}

async fn a_list_has_kind_version_and_items(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let list = t.get(&t.widgets()).await.is(200);
    assert_eq!(list["kind"], "WidgetList");
    assert_eq!(list["apiVersion"], "battery.bindery.dev/v1");
    assert_eq!(list["items"][0]["kind"], "Widget");
    assert!(version(&list).parse::<u64>().is_ok());
    let list = t.get(&t.core("configmaps")).await.is(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("ConfigMapList"), &json!("v1"))
    );
}

async fn an_empty_list_has_an_empty_array(t: Scene) {
    assert_eq!(t.get(&t.widgets()).await.is(200)["items"], json!([]));
    assert_eq!(t.get(&t.core("secrets")).await.is(200)["items"], json!([]));
    // A namespace that does not exist has nothing in it, which is no error.
    let list = t.get("/api/v1/namespaces/nowhere/configmaps").await.is(200);
    assert_eq!(list["items"], json!([]));
}

async fn a_list_of_all_namespaces_contains_each(t: Scene) {
    let made = t.make("everywhere", json!({"size": 1})).await;
    let list = t.get("/apis/battery.bindery.dev/v1/widgets").await.is(200);
    let items = list["items"].as_array().expect("a list has items");
    assert!(
        items
            .iter()
            .any(|item| item["metadata"]["uid"] == made["metadata"]["uid"])
    );
}

async fn items_of_a_list_come_in_the_order_of_their_keys(t: Scene) {
    for name in ["c", "a", "b-1", "b"] {
        t.make(name, json!({"size": 1})).await;
    }
    assert_eq!(
        names(&t.get(&t.widgets()).await.is(200)),
        ["a", "b", "b-1", "c"]
    );
}

async fn fill(t: &Scene, count: usize) {
    for index in 0..count {
        t.make(&format!("w{index}"), json!({"size": 1})).await;
    }
}

async fn a_limit_cuts_the_list_and_a_token_goes_on(t: Scene) {
    fill(&t, 5).await;
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let target = format!("{}?limit=2&continue={token}", t.widgets());
        let page = t.get(&target).await.is(200);
        assert!(names(&page).len() <= 2);
        seen.extend(names(&page));
        let Some(next) = page["metadata"]["continue"].as_str() else {
            break;
        };
        if next.is_empty() {
            break;
        }
        next.clone_into(&mut token);
    }
    assert_eq!(seen, ["w0", "w1", "w2", "w3", "w4"]);
}

async fn pages_see_the_state_of_the_first_page(t: Scene) {
    fill(&t, 3).await;
    let page = t.get(&format!("{}?limit=1", t.widgets())).await.is(200);
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("there is more")
        .to_owned();
    t.delete(&t.widget("w1")).await.is(200);
    t.make("w9", json!({"size": 1})).await;
    let rest = t
        .get(&format!("{}?continue={token}", t.widgets()))
        .await
        .is(200);
    assert_eq!(names(&rest), ["w1", "w2"]);
    assert_eq!(version(&rest), version(&page));
}

async fn a_page_of_exactly_the_rest_has_no_token(t: Scene) {
    fill(&t, 2).await;
    let page = t.get(&format!("{}?limit=2", t.widgets())).await.is(200);
    assert_eq!(
        page["metadata"]["continue"].as_str().unwrap_or_default(),
        ""
    );
    assert!(page["metadata"].get("remainingItemCount").is_none());
}

async fn the_remaining_count_is_told(t: Scene) {
    fill(&t, 3).await;
    let page = t.get(&format!("{}?limit=1", t.widgets())).await.is(200);
    assert_eq!(page["metadata"]["remainingItemCount"], 2);
}

async fn the_remaining_count_is_not_told_with_a_selector(t: Scene) {
    for name in ["a", "b"] {
        let mut body = widget(name, json!({"size": 1}));
        body["metadata"]["labels"] = json!({"app": "x"});
        t.post(&t.widgets(), &body).await.is(201);
    }
    let page = t
        .get(&format!("{}?limit=1&labelSelector=app%3Dx", t.widgets()))
        .await
        .is(200);
    assert_eq!(names(&page), ["a"]);
    assert!(page["metadata"].get("remainingItemCount").is_none());
    assert!(
        page["metadata"]["continue"]
            .as_str()
            .is_some_and(|token| !token.is_empty())
    );
}

async fn a_broken_token_is_a_bad_request(t: Scene) {
    let answer = t
        .get(&format!("{}?limit=1&continue=nonsense", t.widgets()))
        .await;
    answer.refused(400, "BadRequest");
}

async fn a_token_with_a_resource_version_is_refused(t: Scene) {
    fill(&t, 2).await;
    let page = t.get(&format!("{}?limit=1", t.widgets())).await.is(200);
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("there is more");
    let target = format!("{}?limit=1&resourceVersion=5&continue={token}", t.widgets());
    t.get(&target).await.refused(400, "BadRequest");
}

async fn an_expired_token_is_gone(t: Scene) {
    let gadgets = "/apis/battery.bindery.dev/v1/gadgets";
    for index in 0..2 {
        let name = format!("{}-{index}", t.ns);
        let body = json!({
            "apiVersion": "battery.bindery.dev/v1", "kind": "Gadget",
            "metadata": {"name": name, "labels": {"case": t.ns}},
        });
        t.post(gadgets, &body).await.is(201);
    }
    let list = format!("{gadgets}?labelSelector=case%3D{}&limit=1", t.ns);
    let page = t.get(&list).await.is(200);
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("there is more")
        .to_owned();
    t.forget_gadgets().await;
    let target = format!("{list}&continue={token}");
    t.until(&target, |answer| answer.code == 410).await;
    let status = t.get(&target).await.refused(410, "Expired");
    // The answer brings a token that goes on in the present.
    let token = status["metadata"]["continue"]
        .as_str()
        .expect("a fresh token comes with it");
    let rest = t.get(&format!("{list}&continue={token}")).await.is(200);
    assert_eq!(names(&rest), [format!("{}-1", t.ns)]);
}

async fn a_negative_limit_is_no_limit(t: Scene) {
    fill(&t, 2).await;
    assert_eq!(
        names(&t.get(&format!("{}?limit=-1", t.widgets())).await.is(200)).len(),
        2
    );
}

async fn a_list_at_version_zero_is_served(t: Scene) {
    let list = t
        .get(&format!("{}?resourceVersion=0", t.widgets()))
        .await
        .is(200);
    assert_eq!(list["kind"], "WidgetList");
}

async fn a_list_not_older_than_a_version_is_served(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let rv = version(&made);
    let query = format!("resourceVersion={rv}&resourceVersionMatch=NotOlderThan");
    let list = t.get(&format!("{}?{query}", t.widgets())).await.is(200);
    assert_eq!(names(&list), ["a"]);
}

async fn a_list_exactly_at_a_version_shows_the_past(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let rv = version(&t.get(&t.widgets()).await.is(200));
    t.make("b", json!({"size": 1})).await;
    let query = format!("resourceVersion={rv}&resourceVersionMatch=Exact");
    let list = t.get(&format!("{}?{query}", t.widgets())).await.is(200);
    assert_eq!((names(&list), version(&list)), (vec!["a".to_owned()], rv));
}

async fn a_match_without_a_version_is_refused(t: Scene) {
    let answer = t
        .get(&format!("{}?resourceVersionMatch=Exact", t.widgets()))
        .await;
    answer.refused(422, "Invalid");
}

async fn an_unknown_match_is_refused(t: Scene) {
    let query = "resourceVersion=1&resourceVersionMatch=Roughly";
    t.get(&format!("{}?{query}", t.widgets()))
        .await
        .refused(422, "Invalid");
}

async fn an_exact_match_at_zero_is_refused(t: Scene) {
    let query = "resourceVersion=0&resourceVersionMatch=Exact";
    t.get(&format!("{}?{query}", t.widgets()))
        .await
        .refused(422, "Invalid");
}

async fn a_version_that_is_no_number_is_refused(t: Scene) {
    let answer = t.get(&format!("{}?resourceVersion=abc", t.widgets())).await;
    assert!([400, 422].contains(&answer.code), "{}", answer.text);
}

async fn a_get_at_version_zero_is_served(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let target = format!("{}?resourceVersion=0", t.widget("a"));
    t.until(&target, |answer| answer.code == 200).await;
}

async fn a_list_version_is_not_older_than_its_items(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let list = t.get(&t.widgets()).await.is(200);
    let number = |text: String| text.parse::<u64>().expect("versions are numbers");
    assert!(number(version(&list)) >= number(version(&made)));
}

async fn versions_grow_over_all_kinds(t: Scene) {
    let mut seen = BTreeSet::new();
    let mut last = 0;
    for index in 0..3 {
        for made in [
            t.make(&format!("w{index}"), json!({"size": 1})).await,
            t.make_map(&format!("m{index}"), json!({})).await,
        ] {
            let number = version(&made).parse::<u64>().expect("versions are numbers");
            assert!(number > last && seen.insert(number));
            last = number;
        }
    }
}

async fn a_query_that_is_no_number_is_refused(t: Scene) {
    t.get(&format!("{}?limit=many", t.widgets()))
        .await
        .refused(400, "BadRequest");
}

async fn head_is_not_allowed(t: Scene) {
    t.make_map("a", json!({})).await;
    let call = bindery_e2e::http::Call::new(http::Method::HEAD, t.core("configmaps/a"));
    let answer = t.call(call).await;
    assert_eq!((answer.code, answer.text.as_str()), (405, ""));
}

async fn another_served_version_shows_the_same_object(t: Scene) {
    let made = t.make("a", json!({"size": 4})).await;
    let target = format!(
        "/apis/battery.bindery.dev/v1beta1/namespaces/{}/widgets/a",
        t.ns
    );
    let seen = t.get(&target).await.is(200);
    assert_eq!(seen["apiVersion"], "battery.bindery.dev/v1beta1");
    assert_eq!(seen["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(seen["spec"], made["spec"]);
}

async fn a_deprecated_version_warns(t: Scene) {
    let target = format!(
        "/apis/battery.bindery.dev/v1beta1/namespaces/{}/widgets",
        t.ns
    );
    let warnings = t.get(&target).await.warnings();
    assert!(
        warnings.iter().any(|text| text.contains("deprecated")),
        "{warnings:?}"
    );
}

async fn a_pretty_answer_is_indented(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let answer = t.get(&format!("{}?pretty=true", t.widget("a"))).await;
    assert!(
        answer.text.contains("\n  \"metadata\": {"),
        "{}",
        answer.text
    );
}

//! Owners and what goes with them; namespaces and what is in them.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, config_map, names, unique, widget};

cases![
    background_deletion_takes_dependents_along,
    foreground_deletion_waits_for_blocking_dependents,
    orphans_lose_their_owner_reference,
    a_dependent_of_two_owners_lives_while_one_does,
    dependents_go_down_to_the_last_generation,
    a_dependent_whose_owner_never_existed_is_collected,
    a_dependent_of_an_owner_in_another_namespace_is_collected,
    a_foreground_deletion_is_marked_by_a_finalizer,
    an_owner_of_the_cluster_takes_namespaced_dependents_along,
    a_deletion_by_policy_in_the_query_works,
    a_namespace_takes_its_objects_along,
    nothing_is_created_in_a_namespace_that_ends,
    a_namespace_that_ends_waits_for_finalizers,
    a_namespace_has_phase_label_and_finalizer,
    the_default_namespace_exists,
    the_default_namespace_cannot_be_deleted,
    a_namespace_that_ends_can_be_updated_inside,
];

fn owned(name: &str, owner: &Value, blocking: bool) -> Value {
    let mut body = config_map(name, json!({}));
    body["metadata"]["ownerReferences"] = json!([reference(owner, blocking)]);
    body
}

fn reference(owner: &Value, blocking: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "blockOwnerDeletion": blocking,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    })
}

async fn gone(t: &Scene, target: &str) {
    t.until(target, |answer| answer.code == 404).await;
}

async fn background_deletion_takes_dependents_along(t: Scene) {
    let owner = t.make("owner", json!({"size": 1})).await;
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    let options = json!({"propagationPolicy": "Background"});
    t.delete_with(&t.widget("owner"), &options).await.is(200);
    t.get(&t.widget("owner")).await.refused(404, "NotFound");
    gone(&t, &t.core("configmaps/child")).await;
}

async fn foreground_deletion_waits_for_blocking_dependents(t: Scene) {
    let owner = t.make("owner", json!({"size": 1})).await;
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["battery.bindery.dev/hold"]);
    t.post(&t.core("configmaps"), &child).await.is(201);
    let options = json!({"propagationPolicy": "Foreground"});
    t.delete_with(&t.widget("owner"), &options).await.is(200);
    let deleting = |answer: &bindery_e2e::http::Answer| {
        answer.json["metadata"]["deletionTimestamp"].is_string()
    };
    t.until(&t.core("configmaps/child"), deleting).await;
    t.get(&t.widget("owner")).await.is(200);
    let free = json!({"metadata": {"finalizers": null}});
    t.patch(&t.core("configmaps/child"), Patch::Merge, &free)
        .await
        .is(200);
    gone(&t, &t.widget("owner")).await;
}

async fn a_foreground_deletion_is_marked_by_a_finalizer(t: Scene) {
    let owner = t.make("owner", json!({"size": 1})).await;
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["battery.bindery.dev/hold"]);
    t.post(&t.core("configmaps"), &child).await.is(201);
    let options = json!({"propagationPolicy": "Foreground"});
    t.delete_with(&t.widget("owner"), &options).await.is(200);
    let after = t.get(&t.widget("owner")).await.is(200);
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    let free = json!({"metadata": {"finalizers": null}});
    t.patch(&t.core("configmaps/child"), Patch::Merge, &free)
        .await
        .is(200);
    gone(&t, &t.widget("owner")).await;
}

async fn orphans_lose_their_owner_reference(t: Scene) {
    let owner = t.make("owner", json!({"size": 1})).await;
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    t.delete_with(&t.widget("owner"), &json!({"propagationPolicy": "Orphan"}))
        .await
        .is(200);
    gone(&t, &t.widget("owner")).await;
    let child = t.get(&t.core("configmaps/child")).await.is(200);
    assert!(
        child["metadata"].get("ownerReferences").is_none(),
        "{child}"
    );
    assert!(
        child["metadata"].get("deletionTimestamp").is_none(),
        "{child}"
    );
}

async fn a_dependent_of_two_owners_lives_while_one_does(t: Scene) {
    let one = t.make("one", json!({"size": 1})).await;
    let two = t.make("two", json!({"size": 1})).await;
    let mut child = config_map("child", json!({}));
    child["metadata"]["ownerReferences"] = json!([reference(&one, false), reference(&two, false)]);
    t.post(&t.core("configmaps"), &child).await.is(201);
    t.delete(&t.widget("one")).await.is(200);
    let one_left = |answer: &bindery_e2e::http::Answer| {
        answer.json["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|list| list.len() == 1)
    };
    t.until(&t.core("configmaps/child"), one_left).await;
    t.delete(&t.widget("two")).await.is(200);
    gone(&t, &t.core("configmaps/child")).await;
}

async fn dependents_go_down_to_the_last_generation(t: Scene) {
    let top = t.make("top", json!({"size": 1})).await;
    let mut middle = widget("middle", json!({"size": 1}));
    middle["metadata"]["ownerReferences"] = json!([reference(&top, false)]);
    let middle = t.post(&t.widgets(), &middle).await.is(201);
    t.post(&t.core("configmaps"), &owned("leaf", &middle, false))
        .await
        .is(201);
    t.delete(&t.widget("top")).await.is(200);
    gone(&t, &t.widget("middle")).await;
    gone(&t, &t.core("configmaps/leaf")).await;
}

async fn a_dependent_whose_owner_never_existed_is_collected(t: Scene) {
    let mut owner = widget("ghost", json!({"size": 1}));
    owner["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    gone(&t, &t.core("configmaps/child")).await;
}

async fn a_dependent_of_an_owner_in_another_namespace_is_collected(t: Scene) {
    let mut owner = widget("ghost", json!({"size": 1}));
    let target = "/apis/battery.bindery.dev/v1/namespaces/default/widgets";
    owner["metadata"]["name"] = json!(unique("far"));
    let owner = t.post(target, &owner).await.is(201);
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    gone(&t, &t.core("configmaps/child")).await;
}

async fn an_owner_of_the_cluster_takes_namespaced_dependents_along(t: Scene) {
    let name = unique("g");
    let gadgets = "/apis/battery.bindery.dev/v1/gadgets";
    let body = json!({
        "apiVersion": "battery.bindery.dev/v1", "kind": "Gadget", "metadata": {"name": name},
    });
    let owner = t.post(gadgets, &body).await.is(201);
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    t.delete(&format!("{gadgets}/{name}")).await.is(200);
    gone(&t, &t.core("configmaps/child")).await;
}

async fn a_deletion_by_policy_in_the_query_works(t: Scene) {
    let owner = t.make("owner", json!({"size": 1})).await;
    t.post(&t.core("configmaps"), &owned("child", &owner, false))
        .await
        .is(201);
    t.delete(&format!("{}?propagationPolicy=Orphan", t.widget("owner")))
        .await
        .is(200);
    gone(&t, &t.widget("owner")).await;
    let child = t.get(&t.core("configmaps/child")).await.is(200);
    assert!(
        child["metadata"].get("ownerReferences").is_none(),
        "{child}"
    );
}

async fn a_namespace_takes_its_objects_along(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    t.make_map("a", json!({})).await;
    let answer = t
        .delete(&format!("/api/v1/namespaces/{}", t.ns))
        .await
        .is(200);
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    gone(&t, &format!("/api/v1/namespaces/{}", t.ns)).await;
    assert_eq!(
        names(&t.get(&t.widgets()).await.is(200)),
        Vec::<String>::new()
    );
    t.get(&t.core("configmaps/a"))
        .await
        .refused(404, "NotFound");
}

async fn hold(t: &Scene) {
    let mut body = config_map("held", json!({}));
    body["metadata"]["finalizers"] = json!(["battery.bindery.dev/hold"]);
    t.post(&t.core("configmaps"), &body).await.is(201);
    t.delete(&format!("/api/v1/namespaces/{}", t.ns))
        .await
        .is(200);
}

async fn release(t: &Scene) {
    let free = json!({"metadata": {"finalizers": null}});
    t.patch(&t.core("configmaps/held"), Patch::Merge, &free)
        .await
        .is(200);
    gone(t, &format!("/api/v1/namespaces/{}", t.ns)).await;
}

async fn nothing_is_created_in_a_namespace_that_ends(t: Scene) {
    hold(&t).await;
    let status = t
        .post(&t.core("configmaps"), &config_map("late", json!({})))
        .await;
    let status = status.refused(403, "Forbidden");
    let text = status["message"].as_str().unwrap_or_default();
    let expected = format!(
        "unable to create new content in namespace {} because it is being terminated",
        t.ns
    );
    assert!(text.contains(&expected), "{text}");
    crate::scene::cause(&status, "NamespaceTerminating", "metadata.namespace");
    let late = t
        .post(&t.widgets(), &widget("late", json!({"size": 1})))
        .await;
    late.refused(403, "Forbidden");
    release(&t).await;
}

async fn a_namespace_that_ends_waits_for_finalizers(t: Scene) {
    hold(&t).await;
    let deleting = |answer: &bindery_e2e::http::Answer| {
        answer.json["metadata"]["deletionTimestamp"].is_string()
    };
    t.until(&t.core("configmaps/held"), deleting).await;
    let namespace = t.get(&format!("/api/v1/namespaces/{}", t.ns)).await.is(200);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    release(&t).await;
}

async fn a_namespace_that_ends_can_be_updated_inside(t: Scene) {
    hold(&t).await;
    let change = json!({"data": {"x": "y"}});
    let after = t
        .patch(&t.core("configmaps/held"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(after["data"]["x"], "y");
    release(&t).await;
}

async fn a_namespace_has_phase_label_and_finalizer(t: Scene) {
    let namespace = t.get(&format!("/api/v1/namespaces/{}", t.ns)).await.is(200);
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"],
        t.ns
    );
}

async fn the_default_namespace_exists(t: Scene) {
    for name in ["default", "kube-system"] {
        let target = format!("/api/v1/namespaces/{name}");
        t.until(&target, |answer| answer.code == 200).await;
    }
}

async fn the_default_namespace_cannot_be_deleted(t: Scene) {
    t.delete("/api/v1/namespaces/default")
        .await
        .refused(403, "Forbidden");
}

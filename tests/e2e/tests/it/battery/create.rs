//! Creating objects: names, refusals, what the server fills in.

use serde_json::json;

use crate::scene::{Expect, Scene, cases, cause, config_map, unique, widget};

cases![
    the_server_fills_in_metadata,
    a_second_creation_already_exists,
    generate_name_makes_a_fresh_name,
    a_name_wins_over_generate_name,
    neither_name_nor_generate_name_is_refused,
    a_name_with_capitals_is_refused_with_its_field,
    a_name_that_is_too_long_is_refused,
    a_custom_object_with_a_bad_name_is_refused,
    a_namespace_name_must_be_a_label,
    another_namespace_in_the_body_is_refused,
    a_namespace_is_filled_in_from_the_path,
    another_kind_in_the_body_is_refused,
    another_version_in_the_body_is_refused,
    a_resource_version_on_creation_is_refused,
    a_given_uid_and_creation_time_are_replaced,
    a_namespace_that_does_not_exist_is_not_found,
    a_body_that_is_no_json_is_a_bad_request,
    an_empty_body_is_refused,
    a_bad_label_value_is_refused_with_its_field,
    a_bad_label_key_is_refused_with_its_field,
    a_bad_annotation_key_is_refused_with_its_field,
    a_bad_finalizer_is_refused,
    a_bad_owner_reference_is_refused,
    status_in_a_creation_is_dropped,
    a_deletion_time_in_a_creation_is_dropped,
    creation_in_a_collection_of_all_namespaces_is_not_allowed,
    posting_to_a_name_is_not_allowed,
    a_yaml_body_is_accepted,
    booleans_in_yaml_are_those_of_yaml_1_1,
    creation_names_its_field_manager,
    every_bad_label_is_reported_at_once,
];

async fn the_server_fills_in_metadata(t: Scene) {
    let made = t.make("a", json!({"size": 1})).await;
    let metadata = &made["metadata"];
    assert_eq!(metadata["namespace"], t.ns);
    assert_eq!(metadata["generation"], 1);
    let uid = metadata["uid"].as_str().expect("an object has a uid");
    assert_eq!((uid.len(), uid.split('-').count()), (36, 5));
    let time = metadata["creationTimestamp"]
        .as_str()
        .expect("an object has a creation time");
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(
        metadata["resourceVersion"]
            .as_str()
            .is_some_and(|v| v.parse::<u64>().is_ok())
    );
    assert_eq!(t.get(&t.widget("a")).await.is(200), made);
}

async fn a_second_creation_already_exists(t: Scene) {
    t.make("a", json!({"size": 1})).await;
    let again = t.post(&t.widgets(), &widget("a", json!({"size": 2}))).await;
    let status = again.refused(409, "AlreadyExists");
    assert_eq!(
        status["message"],
        "widgets.battery.bindery.dev \"a\" already exists"
    );
    assert_eq!(status["details"]["name"], "a");
    assert_eq!(status["details"]["group"], "battery.bindery.dev");
    assert_eq!(status["details"]["kind"], "widgets");
}

async fn generate_name_makes_a_fresh_name(t: Scene) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}});
    let first = t.post(&t.core("configmaps"), &body).await.is(201);
    let second = t.post(&t.core("configmaps"), &body).await.is(201);
    let name = first["metadata"]["name"].as_str().expect("a name is made");
    assert!(name.starts_with("x-") && name.len() == 7, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["generateName"], "x-");
}

async fn a_name_wins_over_generate_name(t: Scene) {
    let mut body = config_map("chosen", json!({}));
    body["metadata"]["generateName"] = json!("x-");
    let made = t.post(&t.core("configmaps"), &body).await.is(201);
    assert_eq!(made["metadata"]["name"], "chosen");
}

async fn neither_name_nor_generate_name_is_refused(t: Scene) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueRequired", "metadata.name");
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"] = json!({});
    let status = t.post(&t.widgets(), &body).await.refused(422, "Invalid");
    cause(&status, "FieldValueRequired", "metadata.name");
}

async fn a_name_with_capitals_is_refused_with_its_field(t: Scene) {
    let status = t
        .post(&t.core("configmaps"), &config_map("Bad", json!({})))
        .await;
    let status = status.refused(422, "Invalid");
    let message = cause(&status, "FieldValueInvalid", "metadata.name");
    assert!(
        message.starts_with("Invalid value: \"Bad\": a lowercase RFC 1123 subdomain"),
        "{message}"
    );
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("ConfigMap \"Bad\" is invalid: metadata.name: ")),
        "{status}"
    );
    assert_eq!(status["details"]["kind"], "ConfigMap");
    assert_eq!(status["details"]["name"], "Bad");
}

async fn a_name_that_is_too_long_is_refused(t: Scene) {
    let name = "a".repeat(254);
    let status = t
        .post(&t.core("configmaps"), &config_map(&name, json!({})))
        .await;
    cause(
        &status.refused(422, "Invalid"),
        "FieldValueInvalid",
        "metadata.name",
    );
}

async fn a_custom_object_with_a_bad_name_is_refused(t: Scene) {
    let status = t
        .post(&t.widgets(), &widget("not_good", json!({"size": 1})))
        .await;
    cause(
        &status.refused(422, "Invalid"),
        "FieldValueInvalid",
        "metadata.name",
    );
}

async fn a_namespace_name_must_be_a_label(t: Scene) {
    let name = format!("{}.dotted", unique("n"));
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let status = t
        .post("/api/v1/namespaces", &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.name");
}

async fn another_namespace_in_the_body_is_refused(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["namespace"] = json!("elsewhere");
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(400, "BadRequest");
    assert_eq!(
        status["message"],
        "the namespace of the provided object does not match the namespace sent on the request"
    );
}

async fn a_namespace_is_filled_in_from_the_path(t: Scene) {
    let made = t.make_map("a", json!({})).await;
    assert_eq!(made["metadata"]["namespace"], t.ns);
}

async fn another_kind_in_the_body_is_refused(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["kind"] = json!("Gadget");
    let status = t.post(&t.widgets(), &body).await.refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "kind");
    let mut body = config_map("a", json!({}));
    body["kind"] = json!("Secret");
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(400, "BadRequest");
}

async fn another_version_in_the_body_is_refused(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["apiVersion"] = json!("battery.bindery.dev/v7");
    t.post(&t.widgets(), &body).await.refused(400, "BadRequest");
}

async fn a_resource_version_on_creation_is_refused(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["resourceVersion"] = json!("5");
    let answer = t.post(&t.widgets(), &body).await;
    assert!(answer.code >= 400, "{}", answer.text);
    assert!(
        answer
            .text
            .contains("resourceVersion should not be set on objects to be created")
    );
    t.get(&t.widget("a")).await.refused(404, "NotFound");
}

async fn a_given_uid_and_creation_time_are_replaced(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    body["metadata"]["generation"] = json!(44);
    let made = t.post(&t.widgets(), &body).await.is(201);
    assert_ne!(made["metadata"]["uid"], "mine");
    assert_ne!(
        made["metadata"]["creationTimestamp"],
        "2001-01-01T00:00:00Z"
    );
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn a_namespace_that_does_not_exist_is_not_found(t: Scene) {
    let target = "/api/v1/namespaces/nowhere/configmaps";
    let status = t
        .post(target, &config_map("a", json!({})))
        .await
        .refused(404, "NotFound");
    assert_eq!(status["message"], "namespaces \"nowhere\" not found");
    assert_eq!(status["details"]["kind"], "namespaces");
    assert_eq!(status["details"]["name"], "nowhere");
}

async fn a_body_that_is_no_json_is_a_bad_request(t: Scene) {
    for target in [t.widgets(), t.core("configmaps")] {
        let call = bindery_e2e::http::Call::new(http::Method::POST, target);
        t.call(call.body("application/json", "{\"kind\": "))
            .await
            .refused(400, "BadRequest");
    }
}

async fn an_empty_body_is_refused(t: Scene) {
    for target in [t.widgets(), t.core("configmaps")] {
        let call = bindery_e2e::http::Call::new(http::Method::POST, target);
        t.call(call.body("application/json", ""))
            .await
            .refused(400, "BadRequest");
    }
}

async fn a_bad_label_value_is_refused_with_its_field(t: Scene) {
    for (target, mut body) in [
        (t.widgets(), widget("a", json!({"size": 1}))),
        (t.core("configmaps"), config_map("a", json!({}))),
    ] {
        body["metadata"]["labels"] = json!({"good": "with space"});
        let status = t.post(&target, &body).await.refused(422, "Invalid");
        cause(&status, "FieldValueInvalid", "metadata.labels");
    }
}

async fn a_bad_label_key_is_refused_with_its_field(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["labels"] = json!({"-bad-": "x"});
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.labels");
}

async fn a_bad_annotation_key_is_refused_with_its_field(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["annotations"] = json!({"a/b/c": "x"});
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.annotations");
}

async fn a_bad_finalizer_is_refused(t: Scene) {
    for (target, mut body) in [
        (t.widgets(), widget("a", json!({"size": 1}))),
        (t.core("configmaps"), config_map("a", json!({}))),
    ] {
        body["metadata"]["finalizers"] = json!(["not a name"]);
        let status = t.post(&target, &body).await.refused(422, "Invalid");
        cause(&status, "FieldValueInvalid", "metadata.finalizers");
    }
}

async fn a_bad_owner_reference_is_refused(t: Scene) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": ""}]);
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
    cause(
        &status,
        "FieldValueInvalid",
        "metadata.ownerReferences.name",
    );
    cause(&status, "FieldValueInvalid", "metadata.ownerReferences.uid");
}

async fn status_in_a_creation_is_dropped(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["status"] = json!({"phase": "Done"});
    let made = t.post(&t.widgets(), &body).await.is(201);
    assert!(made.get("status").is_none(), "{made}");
}

async fn a_deletion_time_in_a_creation_is_dropped(t: Scene) {
    let mut body = widget("a", json!({"size": 1}));
    body["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
    body["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    let made = t.post(&t.widgets(), &body).await.is(201);
    assert!(
        made["metadata"].get("deletionTimestamp").is_none(),
        "{made}"
    );
}

async fn creation_in_a_collection_of_all_namespaces_is_not_allowed(t: Scene) {
    let body = config_map("a", json!({}));
    t.post("/api/v1/configmaps", &body)
        .await
        .refused(405, "MethodNotAllowed");
    let body = widget("a", json!({"size": 1}));
    let answer = t.post("/apis/battery.bindery.dev/v1/widgets", &body).await;
    assert!([404, 405].contains(&answer.code), "{}", answer.text);
}

async fn posting_to_a_name_is_not_allowed(t: Scene) {
    let body = config_map("a", json!({}));
    let answer = t.post(&t.core("configmaps/a"), &body).await;
    let status = answer.refused(405, "MethodNotAllowed");
    let message = "the server does not allow this method on the requested resource";
    assert_eq!(status["message"], message);
}

async fn a_yaml_body_is_accepted(t: Scene) {
    let text =
        "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3}\n";
    let call = bindery_e2e::http::Call::new(http::Method::POST, t.widgets());
    let made = t.call(call.body("application/yaml", text)).await.is(201);
    assert_eq!(made["spec"]["size"], 3);
}

async fn booleans_in_yaml_are_those_of_yaml_1_1(t: Scene) {
    for (name, word, verdict) in [("a", "yes", true), ("b", "off", false), ("c", "y", true)] {
        let text = format!(
            "apiVersion: battery.bindery.dev/v1\nkind: Widget\nmetadata: {{name: {name}}}\n\
             spec: {{size: 3, enabled: {word}, note: \"{word}\"}}\n"
        );
        let call = bindery_e2e::http::Call::new(http::Method::POST, t.widgets());
        let made = t.call(call.body("application/yaml", text)).await.is(201);
        assert_eq!(
            (&made["spec"]["enabled"], &made["spec"]["note"]),
            (&json!(verdict), &json!(word))
        );
    }
}

async fn creation_names_its_field_manager(t: Scene) {
    let target = format!("{}?fieldManager=me", t.widgets());
    let made = t
        .post(&target, &widget("a", json!({"size": 1})))
        .await
        .is(201);
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "me");
    assert_eq!(entry["operation"], "Update");
    assert_eq!(entry["apiVersion"], "battery.bindery.dev/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["fieldsV1"]["f:spec"]["f:size"], json!({}));
}

async fn every_bad_label_is_reported_at_once(t: Scene) {
    let mut body = config_map("Bad", json!({}));
    body["metadata"]["labels"] = json!({"x": "a b"});
    let status = t
        .post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "metadata.name");
    cause(&status, "FieldValueInvalid", "metadata.labels");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains("is invalid: [")),
        "{status}"
    );
}

//! What the embedded API does otherwise than the real server, asserted on both sides.
//!
//! Each name here is a line of the table in docs/embedded-api.md.

use bindery_e2e::http::Call;
use http::Method;
use serde_json::json;

use crate::scene::{Expect, Patch, Scene, cases, unique, widget};
use crate::subject::Subject;

cases![
    protobuf,
    openapi_v2,
    schemas_of_built_in_kinds,
    kinds_that_are_not_served,
    formats_that_are_not_checked,
    words_of_a_patch_with_a_wrong_type,
    fields_of_a_service_that_changes_its_type,
    workload_controllers,
    authorization,
    admission_extensions,
    conversion_webhooks,
    rule_cost_limits,
    post_to_a_custom_name,
    watch_bad_version,
    deep_checks_of_built_in_kinds,
    pod_log_and_exec,
    scale_ownership,
    apply_null,
    apply_wrong_type,
];

/// Protobuf is a faster form of the built-in kinds; JSON is served to everybody.
async fn protobuf(t: Scene) {
    t.make_map("a", json!({})).await;
    let answer = t
        .get_as(
            &t.core("configmaps/a"),
            "application/vnd.kubernetes.protobuf",
        )
        .await;
    match t.known_difference("protobuf") {
        Subject::Real => assert!(
            answer.code == 200 && answer.text.starts_with("k8s"),
            "{}",
            answer.text
        ),
        Subject::Embedded => {
            answer.refused(406, "NotAcceptable");
        }
    }
}

async fn openapi_v2(t: Scene) {
    let answer = t.get("/openapi/v2").await;
    match t.known_difference("openapi_v2") {
        Subject::Real => assert!(
            answer.is(200)["definitions"]
                .as_object()
                .is_some_and(|all| !all.is_empty())
        ),
        Subject::Embedded => {
            let document = answer.is(200);
            assert_eq!(document["swagger"], "2.0");
            assert_eq!(document["definitions"], json!({}));
        }
    }
}

async fn schemas_of_built_in_kinds(t: Scene) {
    let document = t.get("/openapi/v3/api/v1").await.is(200);
    let schema = &document["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
    let data = &schema["properties"]["data"];
    let explained = t.kubectl(&["explain", "configmap.data"], "").await;
    match t.known_difference("schemas_of_built_in_kinds") {
        Subject::Real => {
            assert_eq!(data["additionalProperties"]["type"], "string");
            explained.ok();
        }
        Subject::Embedded => {
            assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
            assert!(data.is_null());
        }
    }
}

async fn kinds_that_are_not_served(t: Scene) {
    let answer = t.get("/apis/batch/v1/jobs").await;
    match t.known_difference("kinds_that_are_not_served") {
        Subject::Real => assert_eq!(answer.code, 200, "{}", answer.text),
        Subject::Embedded => assert_eq!(answer.code, 404, "{}", answer.text),
    }
}

async fn words_of_a_patch_with_a_wrong_type(t: Scene) {
    t.make_map("a", json!({"k": "v"})).await;
    let target = t.core("configmaps/a");
    let change = json!({"data": {"k": 5}});
    let status = t.patch(&target, Patch::Merge, &change).await;
    let status = status.refused(422, "Invalid");
    let words = match t.known_difference("words_of_a_patch_with_a_wrong_type") {
        Subject::Real => "json: cannot unmarshal number into Go struct field ConfigMap.data",
        Subject::Embedded => "invalid type: integer `5`, expected a string",
    };
    let told = status["message"].as_str().unwrap_or_default();
    assert!(told.contains(words), "{told}");
}

async fn fields_of_a_service_that_changes_its_type(t: Scene) {
    let body = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    t.post(&t.core("services"), &body).await.is(201);
    let change = json!({"spec": {"type": "ClusterIP"}});
    let target = t.core("services/a");
    let after = t.patch(&target, Patch::Merge, &change).await.is(200);
    assert!(after["spec"]["externalTrafficPolicy"].is_null());
    let owned = &after["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    let still_owned = owned["f:externalTrafficPolicy"].is_object();
    match t.known_difference("fields_of_a_service_that_changes_its_type") {
        Subject::Real => assert!(still_owned, "{owned}"),
        Subject::Embedded => assert!(!still_owned, "{owned}"),
    }
}

async fn workload_controllers(t: Scene) {
    let target = format!("/apis/apps/v1/namespaces/{}/deployments", t.ns);
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    });
    t.post(&target, &body).await.is(201);
    let sets = format!("/apis/apps/v1/namespaces/{}/replicasets", t.ns);
    match t.known_difference("workload_controllers") {
        Subject::Real => {
            t.until(&sets, |answer| {
                answer.json["items"]
                    .as_array()
                    .is_some_and(|i| i.len() == 1)
            })
            .await;
        }
        Subject::Embedded => assert_eq!(t.get(&sets).await.is(200)["items"], json!([])),
    }
}

async fn authorization(t: Scene) {
    let call = Call::new(Method::GET, t.widgets()).header("authorization", "Bearer nobody");
    let answer = t.call(call).await;
    match t.known_difference("authorization") {
        Subject::Real => {
            answer.refused(401, "Unauthorized");
        }
        Subject::Embedded => {
            answer.is(200);
        }
    }
}

async fn admission_extensions(t: Scene) {
    let answer = t
        .get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        .await;
    match t.known_difference("admission_extensions") {
        Subject::Real => assert_eq!(answer.code, 200, "{}", answer.text),
        Subject::Embedded => assert_eq!(answer.code, 404, "{}", answer.text),
    }
}

/// A definition whose objects have a text of the format.
async fn define_text(t: &Scene, format: &str) -> String {
    let group = format!("{}.bindery.dev", unique("text"));
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("texts.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "texts", "kind": "Text"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"text": {"type": "string", "format": format}},
            }}}],
        },
    });
    t.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &body,
    )
    .await
    .is(201);
    let target = format!("/apis/{group}/v1/namespaces/{}/texts", t.ns);
    t.until(&target, |answer| answer.code == 200).await;
    target
}

async fn formats_that_are_not_checked(t: Scene) {
    let target = define_text(&t, "isbn").await;
    let group = target.split('/').nth(2).unwrap_or_default();
    let body = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Text", "metadata": {"name": "a"}, "text": "x",
    });
    let answer = t.post(&target, &body).await;
    match t.known_difference("formats_that_are_not_checked") {
        Subject::Real => {
            answer.refused(422, "Invalid");
        }
        Subject::Embedded => {
            answer.is(201);
        }
    }
}

async fn conversion_webhooks(t: Scene) {
    let group = format!("{}.bindery.dev", unique("hook"));
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("hooks.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "hooks", "kind": "Hook"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/c"},
            }},
        },
    });
    let target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = t.post(target, &body).await;
    match t.known_difference("conversion_webhooks") {
        Subject::Real => {
            answer.is(201);
        }
        Subject::Embedded => {
            let status = answer.refused(422, "Invalid");
            crate::scene::cause(
                &status,
                "FieldValueNotSupported",
                "spec.conversion.strategy",
            );
        }
    }
}

async fn rule_cost_limits(t: Scene) {
    let group = format!("{}.bindery.dev", unique("costly"));
    let lists = json!({
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.all(a, a.all(b, self.all(c, c.all(d, b != d))))"}],
    });
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("rules.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "rules", "kind": "Rule"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": lists}}},
            }],
        },
    });
    let target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = t.post(target, &body).await;
    match t.known_difference("rule_cost_limits") {
        Subject::Real => {
            answer.refused(422, "Invalid");
        }
        Subject::Embedded => {
            answer.is(201);
        }
    }
}

async fn post_to_a_custom_name(t: Scene) {
    let answer = t
        .post(&t.widget("a"), &widget("a", json!({"size": 1})))
        .await;
    match t.known_difference("post_to_a_custom_name") {
        Subject::Real => {
            answer.is(201);
        }
        Subject::Embedded => {
            answer.refused(405, "MethodNotAllowed");
        }
    }
}

async fn watch_bad_version(t: Scene) {
    let answer = t
        .get(&format!("{}?watch=1&resourceVersion=soon", t.widgets()))
        .await;
    match t.known_difference("watch_bad_version") {
        Subject::Real => assert_eq!(answer.code, 500, "{}", answer.text),
        Subject::Embedded => {
            answer.refused(422, "Invalid");
        }
    }
}

async fn deep_checks_of_built_in_kinds(t: Scene) {
    let target = format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses", t.ns);
    let body = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"rules": [{"host": "not a host"}]},
    });
    let answer = t.post(&target, &body).await;
    match t.known_difference("deep_checks_of_built_in_kinds") {
        Subject::Real => {
            answer.refused(422, "Invalid");
        }
        Subject::Embedded => {
            answer.is(201);
        }
    }
}

async fn pod_log_and_exec(t: Scene) {
    let answer = t.get("/api/v1").await.is(200);
    let resources = answer["resources"]
        .as_array()
        .expect("it has resources")
        .clone();
    let served = resources
        .iter()
        .any(|resource| resource["name"] == "pods/log");
    assert_eq!(
        served,
        t.known_difference("pod_log_and_exec") == Subject::Real
    );
}

/// The real server tracks who scaled only where somebody owned the replicas before.
async fn scale_ownership(t: Scene) {
    let target = format!("{}?fieldManager=one", t.widget("a"));
    t.patch(&target, Patch::Apply, &widget("a", json!({"size": 1})))
        .await
        .is(201);
    let change = json!({"spec": {"replicas": 5}});
    let target = format!("{}?fieldManager=two", t.widget("a/scale"));
    t.patch(&target, Patch::Merge, &change).await.is(200);
    let after = t.get(&t.widget("a")).await.is(200);
    let entries = after["metadata"]["managedFields"].as_array().map(Vec::len);
    match t.known_difference("scale_ownership") {
        Subject::Real => assert_eq!(entries, Some(1), "{after}"),
        Subject::Embedded => assert_eq!(entries, Some(2), "{after}"),
    }
}

async fn apply_null(t: Scene) {
    let body = widget("a", json!({"size": 1, "minSize": null}));
    let target = format!("{}?fieldManager=one", t.widget("a"));
    let answer = t.patch(&target, Patch::Apply, &body).await;
    match t.known_difference("apply_null") {
        Subject::Real => {
            let status = answer.refused(422, "Invalid");
            crate::scene::cause(&status, "FieldValueTypeInvalid", "spec.minSize");
        }
        Subject::Embedded => assert!(answer.is(201)["spec"].get("minSize").is_none()),
    }
}

async fn apply_wrong_type(t: Scene) {
    let body = widget("a", json!({"size": "big"}));
    let target = format!("{}?fieldManager=one", t.widget("a"));
    let answer = t.patch(&target, Patch::Apply, &body).await;
    match t.known_difference("apply_wrong_type") {
        Subject::Real => assert_eq!(answer.code, 500, "{}", answer.text),
        Subject::Embedded => {
            let status = answer.refused(422, "Invalid");
            crate::scene::cause(&status, "FieldValueTypeInvalid", "spec.size");
        }
    }
}

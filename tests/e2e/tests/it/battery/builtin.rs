//! Kinds that every cluster has.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases, cause, config_map, unique};

cases![
    a_config_map_keeps_data_and_binary_data,
    a_config_map_key_must_be_a_file_name,
    a_config_map_value_must_be_a_string,
    a_key_in_data_and_binary_data_is_refused,
    a_secret_turns_string_data_into_data,
    a_secret_is_opaque_unless_it_says_otherwise,
    a_secret_value_must_be_base64,
    a_tls_secret_needs_its_keys,
    a_service_fills_in_defaults,
    a_service_without_ports_is_refused,
    a_service_with_a_bad_port_is_refused,
    a_service_status_takes_addresses,
    a_lease_keeps_micro_times,
    a_lease_is_renewed_under_its_version,
    an_event_of_the_old_kind_is_kept,
    an_event_of_the_new_group_shows_the_same,
    an_event_in_another_namespace_than_its_object_is_refused,
    a_node_can_be_made_and_takes_a_status,
    a_pod_is_pending,
    an_endpoint_slice_is_kept,
    an_ingress_is_kept,
    a_deployment_grows_its_generation,
    a_service_account_is_kept,
    a_role_is_kept,
    a_config_map_has_no_generation,
    a_config_map_over_its_limit_is_refused,
    a_kind_without_status_ignores_nothing,
    an_access_review_is_answered,
];

async fn a_config_map_keeps_data_and_binary_data(t: Scene) {
    let mut body = config_map("a", json!({"k": "v", "file.txt": "line\n"}));
    body["binaryData"] = json!({"b": "AAEC"});
    let made = t.post(&t.core("configmaps"), &body).await.is(201);
    assert_eq!(
        (&made["data"], &made["binaryData"]),
        (&body["data"], &body["binaryData"])
    );
}

async fn a_config_map_key_must_be_a_file_name(t: Scene) {
    let answer = t
        .post(&t.core("configmaps"), &config_map("a", json!({"a/b": "x"})))
        .await;
    cause(
        &answer.refused(422, "Invalid"),
        "FieldValueInvalid",
        "data[a/b]",
    );
}

async fn a_config_map_value_must_be_a_string(t: Scene) {
    let answer = t
        .post(&t.core("configmaps"), &config_map("a", json!({"n": 5})))
        .await;
    answer.refused(400, "BadRequest");
}

async fn a_key_in_data_and_binary_data_is_refused(t: Scene) {
    let mut body = config_map("a", json!({"k": "v"}));
    body["binaryData"] = json!({"k": "AAEC"});
    t.post(&t.core("configmaps"), &body)
        .await
        .refused(422, "Invalid");
}

fn secret(fields: &Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    for (name, value) in fields.as_object().expect("fields are an object") {
        body[name] = value.clone();
    }
    body
}

async fn a_secret_turns_string_data_into_data(t: Scene) {
    let body = secret(&json!({"data": {"x": "b2xk", "y": "eQ=="}, "stringData": {"x": "new"}}));
    let made = t.post(&t.core("secrets"), &body).await.is(201);
    assert_eq!(made["data"], json!({"x": "bmV3", "y": "eQ=="}));
    assert!(made.get("stringData").is_none());
    let change = json!({"stringData": {"z": "z"}});
    let after = t
        .patch(&t.core("secrets/a"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(
        after["data"],
        json!({"x": "bmV3", "y": "eQ==", "z": "eg=="})
    );
}

async fn a_secret_is_opaque_unless_it_says_otherwise(t: Scene) {
    let made = t
        .post(&t.core("secrets"), &secret(&json!({})))
        .await
        .is(201);
    assert_eq!(made["type"], "Opaque");
}

async fn a_secret_value_must_be_base64(t: Scene) {
    let body = secret(&json!({"data": {"x": "%%%"}}));
    t.post(&t.core("secrets"), &body)
        .await
        .refused(400, "BadRequest");
}

async fn a_tls_secret_needs_its_keys(t: Scene) {
    let body = secret(&json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}));
    let status = t
        .post(&t.core("secrets"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueRequired", "data[tls.key]");
}

fn service(spec: Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}});
    body["spec"] = spec;
    body
}

async fn a_service_fills_in_defaults(t: Scene) {
    let body = service(json!({"clusterIP": "None", "ports": [{"port": 80}]}));
    let made = t.post(&t.core("services"), &body).await.is(201);
    assert_eq!(made["spec"]["type"], "ClusterIP");
    assert_eq!(made["spec"]["sessionAffinity"], "None");
    assert_eq!(
        made["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
}

async fn a_service_without_ports_is_refused(t: Scene) {
    let answer = t
        .post(&t.core("services"), &service(json!({"type": "ClusterIP"})))
        .await;
    cause(
        &answer.refused(422, "Invalid"),
        "FieldValueRequired",
        "spec.ports",
    );
}

async fn a_service_with_a_bad_port_is_refused(t: Scene) {
    let body = service(json!({"ports": [{"port": 70000}]}));
    let status = t
        .post(&t.core("services"), &body)
        .await
        .refused(422, "Invalid");
    cause(&status, "FieldValueInvalid", "spec.ports[0].port");
}

async fn a_service_status_takes_addresses(t: Scene) {
    let body = service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    t.post(&t.core("services"), &body).await.is(201);
    let change = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}});
    let after = t
        .patch(&t.core("services/a/status"), Patch::Merge, &change)
        .await
        .is(200);
    assert_eq!(
        after["status"]["loadBalancer"]["ingress"][0]["ip"],
        "192.0.2.7"
    );
}

fn leases(t: &Scene) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", t.ns)
}

async fn lease(t: &Scene) -> Value {
    let body = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T03:04:05.678901Z",
        },
    });
    t.post(&leases(t), &body).await.is(201)
}

async fn a_lease_keeps_micro_times(t: Scene) {
    let made = lease(&t).await;
    assert_eq!(made["spec"]["renewTime"], "2026-01-02T03:04:05.678901Z");
}

async fn a_lease_is_renewed_under_its_version(t: Scene) {
    let mut mine = lease(&t).await;
    let mut theirs = mine.clone();
    let target = format!("{}/a", leases(&t));
    mine["spec"]["renewTime"] = json!("2026-01-02T03:04:06.000000Z");
    t.put(&target, &mine).await.is(200);
    theirs["spec"]["holderIdentity"] = json!("thief");
    t.put(&target, &theirs).await.refused(409, "Conflict");
}

fn event(t: &Scene, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": t.ns},
        "reason": "Tested", "message": "it works", "type": "Normal",
        "source": {"component": "battery"}, "count": 3,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:05:05Z",
    })
}

async fn an_event_of_the_old_kind_is_kept(t: Scene) {
    let made = t.post(&t.core("events"), &event(&t, "e")).await.is(201);
    assert_eq!(
        (&made["reason"], &made["count"]),
        (&json!("Tested"), &json!(3))
    );
    assert_eq!(made["involvedObject"]["name"], "x");
}

async fn an_event_of_the_new_group_shows_the_same(t: Scene) {
    t.post(&t.core("events"), &event(&t, "e")).await.is(201);
    let target = format!("/apis/events.k8s.io/v1/namespaces/{}/events/e", t.ns);
    let seen = t.get(&target).await.is(200);
    assert_eq!(seen["apiVersion"], "events.k8s.io/v1");
    assert_eq!(
        (&seen["note"], &seen["regarding"]["name"]),
        (&json!("it works"), &json!("x"))
    );
    assert_eq!(seen["deprecatedCount"], 3);
}

async fn an_event_in_another_namespace_than_its_object_is_refused(t: Scene) {
    let mut body = event(&t, "e");
    body["involvedObject"]["namespace"] = json!("elsewhere");
    t.post(&t.core("events"), &body)
        .await
        .refused(422, "Invalid");
}

async fn a_node_can_be_made_and_takes_a_status(t: Scene) {
    let name = unique("node");
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    t.post("/api/v1/nodes", &body).await.is(201);
    let change = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}]}});
    let target = format!("/api/v1/nodes/{name}/status");
    let after = t.patch(&target, Patch::Strategic, &change).await.is(200);
    assert_eq!(after["status"]["addresses"][0]["address"], "192.0.2.9");
}

async fn a_pod_is_pending(t: Scene) {
    let service_account = t.core("serviceaccounts/default");
    let known = t.known_difference("service-accounts");
    if known == crate::subject::Subject::Real {
        t.until(&service_account, |answer| answer.code == 200).await;
    } else {
        t.get(&service_account).await.refused(404, "NotFound");
    }
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    });
    let made = t.post(&t.core("pods"), &body).await.is(201);
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(made["spec"]["restartPolicy"], "Always");
}

async fn an_endpoint_slice_is_kept(t: Scene) {
    let target = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
        t.ns
    );
    let body = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"port": 80}],
    });
    let made = t.post(&target, &body).await.is(201);
    assert_eq!(made["endpoints"][0]["addresses"], json!(["192.0.2.1"]));
}

async fn an_ingress_is_kept(t: Scene) {
    let target = format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses", t.ns);
    let body = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"rules": [{"host": "www.example.com"}]},
    });
    let made = t.post(&target, &body).await.is(201);
    assert_eq!(made["spec"]["rules"][0]["host"], "www.example.com");
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn a_deployment_grows_its_generation(t: Scene) {
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
    let made = t.post(&target, &body).await.is(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let change = json!({"spec": {"paused": true}});
    let after = t
        .patch(&format!("{target}/a"), Patch::Strategic, &change)
        .await
        .is(200);
    assert_eq!(after["metadata"]["generation"], 2);
}

async fn a_service_account_is_kept(t: Scene) {
    let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    t.post(&t.core("serviceaccounts"), &body).await.is(201);
    assert_eq!(
        t.get(&t.core("serviceaccounts/robot")).await.is(200)["kind"],
        "ServiceAccount"
    );
}

async fn a_role_is_kept(t: Scene) {
    let target = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
        t.ns
    );
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let body = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "reader"}, "rules": rules,
    });
    assert_eq!(t.post(&target, &body).await.is(201)["rules"], rules);
}

async fn a_config_map_has_no_generation(t: Scene) {
    let made = t.make_map("a", json!({})).await;
    assert!(made["metadata"].get("generation").is_none());
}

async fn a_config_map_over_its_limit_is_refused(t: Scene) {
    let data = json!({"k": "x".repeat((1 << 20) + 1)});
    let status = t
        .post(&t.core("configmaps"), &config_map("a", data))
        .await
        .refused(422, "Invalid");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("Too long"), "{text}");
}

async fn a_kind_without_status_ignores_nothing(t: Scene) {
    let made = t.make_map("a", json!({"x": "1"})).await;
    let change = json!({"data": {"x": null, "y": "2"}});
    let after = t
        .patch(&t.core("configmaps/a"), Patch::Strategic, &change)
        .await
        .is(200);
    assert_eq!(after["data"], json!({"y": "2"}));
    assert_eq!(after["metadata"]["uid"], made["metadata"]["uid"]);
}

async fn an_access_review_is_answered(t: Scene) {
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(
        t.post(target, &body).await.is(201)["status"]["allowed"],
        true
    );
}

//! What definitions of ours promise beyond single fields: defaults, strictness, merging.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases};

cases![
    an_endpoint_without_a_spec_gets_an_empty_one,
    unknown_fields_of_our_kinds_are_refused_when_asked,
    status_conditions_are_merged_by_type,
];

/// Installs our definitions, as often as it is called, and waits until they are served.
async fn install(t: &Scene) {
    for crd in bindery_api::crds() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let target = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}\
             ?fieldManager=battery&force=true"
        );
        let body = serde_json::to_value(&crd).expect("a definition is JSON");
        let answer = t.patch(&target, Patch::Apply, &body).await;
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text);
        let served = format!(
            "/apis/{}/{}/{}",
            crd.spec.group, crd.spec.versions[0].name, crd.spec.names.plural
        );
        t.until(&served, |answer| answer.code == 200).await;
    }
}

async fn an_endpoint_without_a_spec_gets_an_empty_one(t: Scene) {
    install(&t).await;
    let target = format!(
        "/apis/externaldns.k8s.io/v1alpha1/namespaces/{}/dnsendpoints",
        t.ns
    );
    let body = json!({
        "apiVersion": "externaldns.k8s.io/v1alpha1", "kind": "DNSEndpoint",
        "metadata": {"name": "bare"},
    });
    let made = t.post(&target, &body).await.is(201);
    assert_eq!(made["spec"], json!({}));
}

async fn unknown_fields_of_our_kinds_are_refused_when_asked(t: Scene) {
    install(&t).await;
    let target = format!(
        "/apis/bindy.firestoned.io/v1beta1/namespaces/{}/arecords",
        t.ns
    );
    let body = json!({
        "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "ARecord",
        "metadata": {"name": "typo"},
        "spec": {"name": "www", "ipv4Address": "192.0.2.1", "tll": 300},
    });
    let strict = format!("{target}?fieldValidation=Strict");
    let status = t.post(&strict, &body).await.refused(400, "BadRequest");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("unknown field \"spec.tll\""), "{message}");
}

async fn status_conditions_are_merged_by_type(t: Scene) {
    install(&t).await;
    let target = format!(
        "/apis/bindy.firestoned.io/v1beta1/namespaces/{}/arecords",
        t.ns
    );
    let mut body = json!({
        "apiVersion": "bindy.firestoned.io/v1beta1", "kind": "ARecord",
        "metadata": {"name": "www"},
        "spec": {"name": "www", "ipv4Address": "192.0.2.1"},
    });
    t.post(&target, &body).await.is(201);
    body.as_object_mut().expect("an object").remove("spec");
    for (manager, kind) in [("one", "Ready"), ("two", "Audited")] {
        body["status"] = json!({"conditions": [{
            "type": kind, "status": "True", "reason": "Because", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        let status = format!("{target}/www/status?fieldManager={manager}");
        t.patch(&status, Patch::Apply, &body).await.is(200);
    }
    let seen = t.get(&format!("{target}/www")).await.is(200);
    let conditions = seen["status"]["conditions"].as_array();
    let kinds: Vec<&Value> = conditions
        .into_iter()
        .flatten()
        .map(|one| &one["type"])
        .collect();
    assert_eq!(kinds, ["Ready", "Audited"], "{seen}");
}

//! Bindery's own kinds: every server accepts and refuses the same objects.

use serde_json::{Value, json};

use crate::scene::{Case, Expect, Scene};
use crate::subject::yaml;

/// One case per entry of the fixture, and one that everything is installed.
pub(crate) fn cases() -> Vec<Case> {
    let entries = yaml(include_str!("../../../fixtures/records.yaml"));
    let entries = entries.as_array().cloned().expect("the fixture is a list");
    let mut cases: Vec<_> = entries.into_iter().map(case).collect();
    cases.push(Case {
        name: "battery::own_kinds::the_definitions_are_established".to_owned(),
        run: Box::new(|t| Box::pin(the_definitions_are_established(t))),
    });
    cases
}

fn case(entry: Value) -> Case {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let verdict = if entry["refused"].is_string() {
        "refuses"
    } else {
        "accepts"
    };
    let kind = text("kind").to_lowercase();
    let name = format!(
        "battery::own_kinds::{kind}_{verdict}_{}",
        text("case").replace(' ', "_")
    );
    Case {
        name,
        run: Box::new(move |t| Box::pin(check(t, entry))),
    }
}

async fn check(t: Scene, entry: Value) {
    let kind = entry["kind"].as_str().expect("every entry has a kind");
    let version = match kind {
        "DNSEndpoint" => "externaldns.k8s.io/v1alpha1",
        _ => "bindy.firestoned.io/v1beta1",
    };
    let body = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": entry["spec"],
    });
    let target = format!(
        "/apis/{version}/namespaces/{}/{}s",
        t.ns,
        kind.to_lowercase()
    );
    let answer = t.post(&target, &body).await;
    let Some(field) = entry["refused"].as_str() else {
        let made = answer.is(201);
        assert_eq!(made["spec"], entry["spec"]);
        return;
    };
    let status = answer.refused(422, "Invalid");
    let causes = status["details"]["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let says = entry["says"].as_str().unwrap_or_default();
    let named = causes.iter().any(|cause| {
        let message = cause["message"].as_str().unwrap_or_default();
        cause["field"] == field && message.contains(says)
    });
    assert!(named, "no {says:?} on {field} in {status}");
}

async fn the_definitions_are_established(t: Scene) {
    for plural in crate::subject::own_definitions() {
        let name = plural["metadata"]["name"]
            .as_str()
            .expect("a definition has a name")
            .to_owned();
        let target = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let seen = t.get(&target).await.is(200);
        let conditions = seen["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let bad = |kind: &str, status: &str| {
            conditions
                .iter()
                .any(|held| held["type"] == kind && held["status"] == status)
        };
        assert!(bad("Established", "True"), "{seen}");
        assert!(!bad("NonStructuralSchema", "True"), "{seen}");
    }
}

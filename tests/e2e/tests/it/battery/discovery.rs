//! What the server says about itself: groups, resources, versions, schemas, health.

use serde_json::{Value, json};

use crate::scene::{Expect, Scene, cases};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

cases![
    the_version_is_told,
    the_server_is_live_and_ready,
    the_core_versions_are_listed,
    the_groups_are_listed,
    a_group_tells_its_versions_and_the_preferred_one,
    the_resources_of_a_version_are_listed,
    verbs_of_a_resource_are_listed,
    subresources_are_listed,
    the_core_resources_are_listed,
    aggregated_discovery_lists_groups_at_once,
    aggregated_discovery_tells_scope_and_short_names,
    aggregated_discovery_of_the_core_group_is_served,
    openapi_lists_a_document_per_group_version,
    openapi_of_a_custom_kind_has_its_schema,
    openapi_of_a_custom_kind_has_its_operations,
    the_root_lists_paths,
];

async fn the_version_is_told(t: Scene) {
    let version = t.get("/version").await.is(200);
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&json!("1"), &json!("36"))
    );
    assert!(
        version["gitVersion"]
            .as_str()
            .is_some_and(|text| text.starts_with("v1.36.")),
        "{version}"
    );
    for field in [
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ] {
        assert!(version[field].is_string(), "{field} in {version}");
    }
}

async fn the_server_is_live_and_ready(t: Scene) {
    for target in ["/healthz", "/livez", "/readyz"] {
        let answer = t.get(target).await;
        assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{target}");
    }
}

async fn the_core_versions_are_listed(t: Scene) {
    let versions = t.get("/api").await.is(200);
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
}

async fn the_groups_are_listed(t: Scene) {
    let list = t.get("/apis").await.is(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupList"), &json!("v1"))
    );
    let groups = list["groups"].as_array().expect("it has groups").clone();
    for name in [
        "apps",
        "coordination.k8s.io",
        "apiextensions.k8s.io",
        "battery.bindery.dev",
    ] {
        assert!(groups.iter().any(|group| group["name"] == name), "{name}");
    }
}

async fn a_group_tells_its_versions_and_the_preferred_one(t: Scene) {
    let group = t.get("/apis/battery.bindery.dev").await.is(200);
    assert_eq!(
        (&group["kind"], &group["apiVersion"]),
        (&json!("APIGroup"), &json!("v1"))
    );
    let expected = json!([
        {"groupVersion": "battery.bindery.dev/v1", "version": "v1"},
        {"groupVersion": "battery.bindery.dev/v1beta1", "version": "v1beta1"},
    ]);
    assert_eq!(group["versions"], expected);
    assert_eq!(group["preferredVersion"], expected[0]);
}

async fn resource(t: &Scene, name: &str) -> Value {
    let list = t.get("/apis/battery.bindery.dev/v1").await.is(200);
    assert_eq!(list["kind"], "APIResourceList");
    assert_eq!(list["groupVersion"], "battery.bindery.dev/v1");
    let resources = list["resources"]
        .as_array()
        .expect("it has resources")
        .clone();
    let found = resources
        .into_iter()
        .find(|resource| resource["name"] == name);
    found.expect("the resource is listed")
}

async fn the_resources_of_a_version_are_listed(t: Scene) {
    let widgets = resource(&t, "widgets").await;
    assert_eq!(widgets["kind"], "Widget");
    assert_eq!(widgets["namespaced"], true);
    assert_eq!(widgets["singularName"], "widget");
    assert_eq!(widgets["shortNames"], json!(["wd"]));
    assert_eq!(widgets["categories"], json!(["battery"]));
    assert_eq!(resource(&t, "gadgets").await["namespaced"], false);
}

async fn verbs_of_a_resource_are_listed(t: Scene) {
    let mut verbs = resource(&t, "widgets").await["verbs"]
        .as_array()
        .expect("it has verbs")
        .clone();
    verbs.sort_by_key(ToString::to_string);
    let expected = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    assert_eq!(verbs, expected);
}

async fn subresources_are_listed(t: Scene) {
    let status = resource(&t, "widgets/status").await;
    assert_eq!(
        (&status["kind"], &status["verbs"]),
        (&json!("Widget"), &json!(["get", "patch", "update"]))
    );
    let scale = resource(&t, "widgets/scale").await;
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(
        (&scale["group"], &scale["version"]),
        (&json!("autoscaling"), &json!("v1"))
    );
}

async fn the_core_resources_are_listed(t: Scene) {
    let list = t.get("/api/v1").await.is(200);
    assert_eq!(list["groupVersion"], "v1");
    let resources = list["resources"]
        .as_array()
        .expect("it has resources")
        .clone();
    for (name, short) in [
        ("configmaps", json!(["cm"])),
        ("namespaces", json!(["ns"])),
        ("services", json!(["svc"])),
        ("events", json!(["ev"])),
        ("nodes", json!(["no"])),
        ("pods", json!(["po"])),
    ] {
        let found = resources.iter().find(|resource| resource["name"] == name);
        assert_eq!(
            found.map(|resource| &resource["shortNames"]),
            Some(&short),
            "{name}"
        );
    }
    assert!(
        resources
            .iter()
            .any(|resource| resource["name"] == "namespaces/finalize")
    );
}

async fn aggregated(t: &Scene, target: &str) -> Vec<Value> {
    let answer = t
        .get_as(target, &format!("{AGGREGATED},application/json"))
        .await;
    let content_type = answer
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok());
    assert_eq!(
        content_type,
        Some("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    );
    let list = answer.is(200);
    assert_eq!(list["kind"], "APIGroupDiscoveryList");
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    list["items"].as_array().expect("it has items").clone()
}

async fn aggregated_discovery_lists_groups_at_once(t: Scene) {
    let groups = aggregated(&t, "/apis").await;
    for name in ["apps", "coordination.k8s.io", "apiextensions.k8s.io"] {
        assert!(
            groups.iter().any(|group| group["metadata"]["name"] == name),
            "{name}"
        );
    }
}

async fn aggregated_discovery_tells_scope_and_short_names(t: Scene) {
    let groups = aggregated(&t, "/apis").await;
    let group = groups
        .iter()
        .find(|group| group["metadata"]["name"] == "battery.bindery.dev");
    let version = &group.expect("our group is there")["versions"][0];
    assert_eq!(
        (&version["version"], &version["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    let resources = version["resources"]
        .as_array()
        .expect("it has resources")
        .clone();
    let widgets = resources
        .iter()
        .find(|resource| resource["resource"] == "widgets");
    let widgets = widgets.expect("widgets are there");
    assert_eq!(widgets["scope"], "Namespaced");
    assert_eq!(widgets["singularResource"], "widget");
    assert_eq!(widgets["shortNames"], json!(["wd"]));
    let kind = json!({"group": "battery.bindery.dev", "version": "v1", "kind": "Widget"});
    assert_eq!(widgets["responseKind"], kind);
    let parts = widgets["subresources"]
        .as_array()
        .expect("it has subresources")
        .clone();
    assert!(parts.iter().any(|part| part["subresource"] == "status"));
    assert!(parts.iter().any(|part| part["subresource"] == "scale"));
}

async fn aggregated_discovery_of_the_core_group_is_served(t: Scene) {
    let groups = aggregated(&t, "/api").await;
    assert_eq!(groups.len(), 1);
    let resources = groups[0]["versions"][0]["resources"]
        .as_array()
        .expect("resources")
        .clone();
    assert!(
        resources
            .iter()
            .any(|resource| resource["resource"] == "configmaps")
    );
}

async fn openapi_lists_a_document_per_group_version(t: Scene) {
    let seen = |answer: &bindery_e2e::http::Answer| {
        answer.json["paths"]
            .get("apis/battery.bindery.dev/v1")
            .is_some()
    };
    let root = t.until("/openapi/v3", seen).await;
    for path in ["api/v1", "apis/apps/v1", "apis/battery.bindery.dev/v1"] {
        let target = root["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or_default();
        assert!(
            target.starts_with(&format!("/openapi/v3/{path}?hash=")),
            "{path}: {target}"
        );
    }
}

async fn document(t: &Scene) -> Value {
    let seen = |answer: &bindery_e2e::http::Answer| {
        answer.code == 200
            && answer.json["paths"]
                .as_object()
                .is_some_and(|paths| !paths.is_empty())
    };
    t.until("/openapi/v3/apis/battery.bindery.dev/v1", seen)
        .await
}

async fn openapi_of_a_custom_kind_has_its_schema(t: Scene) {
    let document = document(&t).await;
    assert!(
        document["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3."))
    );
    let schema = &document["components"]["schemas"]["dev.bindery.battery.v1.Widget"];
    assert_eq!(schema["description"], "A thing to test with.");
    let kind = json!([{"group": "battery.bindery.dev", "kind": "Widget", "version": "v1"}]);
    assert_eq!(schema["x-kubernetes-group-version-kind"], kind);
    let spec = &schema["properties"]["spec"];
    assert_eq!(
        spec["properties"]["color"]["enum"],
        json!(["red", "green", "blue"])
    );
    assert_eq!(spec["required"], json!(["size"]));
    assert!(schema["properties"]["metadata"].is_object());
    assert_eq!(schema["properties"]["kind"]["type"], "string");
}

async fn openapi_of_a_custom_kind_has_its_operations(t: Scene) {
    let document = document(&t).await;
    let path = "/apis/battery.bindery.dev/v1/namespaces/{namespace}/widgets/{name}";
    let operations = document["paths"][path]
        .as_object()
        .expect("the path is there")
        .clone();
    for verb in ["get", "put", "patch", "delete"] {
        assert!(operations.contains_key(verb), "{verb}");
    }
    assert_eq!(operations["get"]["x-kubernetes-action"], "get");
    let kind = json!({"group": "battery.bindery.dev", "kind": "Widget", "version": "v1"});
    assert_eq!(operations["get"]["x-kubernetes-group-version-kind"], kind);
}

async fn the_root_lists_paths(t: Scene) {
    let root = t.get("/").await.is(200);
    let paths = root["paths"].as_array().expect("it has paths").clone();
    for path in ["/api", "/apis", "/version"] {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

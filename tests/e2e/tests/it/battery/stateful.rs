//! StatefulSets: the controller of Kubernetes on the real server, ours on the embedded one. The case itself is the
//! kubelet, so that each step is seen.

use serde_json::{Value, json};

use crate::scene::{Expect, Patch, Scene, cases};

cases![
    pods_come_in_order_each_when_the_one_before_is_ready,
    parallel_pods_come_together,
    a_new_image_goes_from_the_highest_to_the_lowest,
    below_the_partition_pods_keep_and_regain_the_old_image,
    on_delete_waits_for_somebody_to_delete,
    a_set_shrinks_from_the_highest_and_grows_again,
    claims_stay_when_their_pods_go,
    a_deleted_set_takes_its_pods_along,
];

fn sets(t: &Scene) -> String {
    format!("/apis/apps/v1/namespaces/{}/statefulsets", t.ns)
}

fn set(t: &Scene) -> String {
    format!("{}/web", sets(t))
}

/// Creates the set `web`, with some fields of its spec.
async fn make(t: &Scene, more: Value) {
    let account = t.core("serviceaccounts/default");
    if t.known_difference("service-accounts") == crate::subject::Subject::Real {
        t.until(&account, |answer| answer.code == 200).await;
    }
    let labels = json!({"app": "web", "app.kubernetes.io/part-of": "bindy"});
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "c", "image": "example.com/c:1"}],
                    // Nobody but the case plays scheduler and kubelet.
                    "schedulerName": "nobody",
                },
            },
        },
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut body["spec"], more) {
        spec.extend(more);
    }
    t.post(&sets(t), &body).await.is(201);
}

async fn change(t: &Scene, spec: Value) {
    let body = json!({"spec": spec});
    t.patch(&set(t), Patch::Merge, &body).await.is(200);
}

async fn change_image(t: &Scene, tag: u8) {
    let container = json!({"name": "c", "image": format!("example.com/c:{tag}")});
    change(
        t,
        json!({"template": {"spec": {"containers": [container]}}}),
    )
    .await;
}

/// Waits until the pods are these, in order of their names: `web-0:1` has the image of tag 1.
async fn pods_are(t: &Scene, wanted: &[&str]) {
    let seen = |list: &Value| -> Vec<String> {
        let pods = list["items"].as_array().into_iter().flatten();
        pods.map(|pod| {
            let image = pod["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap_or_default();
            let tag = image.rsplit(':').next().unwrap_or_default();
            format!(
                "{}:{tag}",
                pod["metadata"]["name"].as_str().unwrap_or_default()
            )
        })
        .collect()
    };
    t.until(&t.core("pods"), |answer| seen(&answer.json) == wanted)
        .await;
}

/// What a kubelet would say of a pod that is well.
async fn ready(t: &Scene, name: &str) {
    let body = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let target = t.core(&format!("pods/{name}/status"));
    t.patch(&target, Patch::Merge, &body).await.is(200);
}

/// Waits until the status has these counts: replicas, ready, current and updated.
async fn counts_are(t: &Scene, wanted: [i64; 4]) -> Value {
    let fields = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
    ];
    let found = t
        .until(&set(t), |answer| {
            let status = &answer.json["status"];
            let generation = &answer.json["metadata"]["generation"];
            let count = |field: &str| status[field].as_i64().unwrap_or(0);
            status["observedGeneration"] == *generation && fields.map(count) == wanted
        })
        .await;
    found["status"].clone()
}

async fn all_ready(t: &Scene, names: &[&str]) {
    for name in names {
        t.until(&t.core(&format!("pods/{name}")), |answer| {
            answer.code == 200
        })
        .await;
        ready(t, name).await;
    }
}

async fn pods_come_in_order_each_when_the_one_before_is_ready(t: Scene) {
    make(&t, json!({})).await;
    pods_are(&t, &["web-0:1"]).await;
    counts_are(&t, [1, 0, 1, 1]).await;
    ready(&t, "web-0").await;
    pods_are(&t, &["web-0:1", "web-1:1"]).await;
    all_ready(&t, &["web-1", "web-2"]).await;
    let status = counts_are(&t, [3, 3, 3, 3]).await;
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let pod = t.get(&t.core("pods/web-1")).await.is(200);
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(
        labels["controller-revision-hash"],
        status["currentRevision"]
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("StatefulSet"), &json!(true))
    );
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-1"), &json!("web"))
    );
}

async fn parallel_pods_come_together(t: Scene) {
    make(&t, json!({"podManagementPolicy": "Parallel"})).await;
    pods_are(&t, &["web-0:1", "web-1:1", "web-2:1"]).await;
    counts_are(&t, [3, 0, 3, 3]).await;
    change(&t, json!({"replicas": 1})).await;
    pods_are(&t, &["web-0:1"]).await;
    counts_are(&t, [1, 0, 1, 1]).await;
}

async fn a_new_image_goes_from_the_highest_to_the_lowest(t: Scene) {
    make(&t, json!({})).await;
    all_ready(&t, &["web-0", "web-1", "web-2"]).await;
    counts_are(&t, [3, 3, 3, 3]).await;
    change_image(&t, 2).await;
    pods_are(&t, &["web-0:1", "web-1:1", "web-2:2"]).await;
    let status = counts_are(&t, [3, 2, 2, 1]).await;
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    ready(&t, "web-2").await;
    pods_are(&t, &["web-0:1", "web-1:2", "web-2:2"]).await;
    ready(&t, "web-1").await;
    pods_are(&t, &["web-0:2", "web-1:2", "web-2:2"]).await;
    ready(&t, "web-0").await;
    let status = counts_are(&t, [3, 3, 3, 3]).await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let target = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", t.ns);
    let kept = t.get(&target).await.is(200);
    assert_eq!(kept["items"].as_array().map(Vec::len), Some(2));
}

async fn below_the_partition_pods_keep_and_regain_the_old_image(t: Scene) {
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    make(&t, json!({"updateStrategy": update})).await;
    all_ready(&t, &["web-0", "web-1", "web-2"]).await;
    counts_are(&t, [3, 3, 3, 3]).await;
    change_image(&t, 2).await;
    pods_are(&t, &["web-0:1", "web-1:1", "web-2:2"]).await;
    ready(&t, "web-2").await;
    counts_are(&t, [3, 3, 2, 1]).await;
    let before = t.get(&t.core("pods/web-0")).await.is(200);
    t.delete(&t.core("pods/web-0")).await.is(200);
    t.until(&t.core("pods/web-0"), |answer| {
        answer.code == 200 && answer.json["metadata"]["uid"] != before["metadata"]["uid"]
    })
    .await;
    pods_are(&t, &["web-0:1", "web-1:1", "web-2:2"]).await;
}

async fn on_delete_waits_for_somebody_to_delete(t: Scene) {
    make(&t, json!({"updateStrategy": {"type": "OnDelete"}})).await;
    all_ready(&t, &["web-0", "web-1", "web-2"]).await;
    counts_are(&t, [3, 3, 3, 3]).await;
    change_image(&t, 2).await;
    counts_are(&t, [3, 3, 3, 0]).await;
    t.delete(&t.core("pods/web-1")).await.is(200);
    pods_are(&t, &["web-0:1", "web-1:2", "web-2:1"]).await;
}

async fn a_set_shrinks_from_the_highest_and_grows_again(t: Scene) {
    make(&t, json!({})).await;
    all_ready(&t, &["web-0", "web-1", "web-2"]).await;
    change(&t, json!({"replicas": 1})).await;
    pods_are(&t, &["web-0:1"]).await;
    counts_are(&t, [1, 1, 1, 1]).await;
    change(&t, json!({"replicas": 0})).await;
    pods_are(&t, &[]).await;
    counts_are(&t, [0, 0, 0, 0]).await;
    change(&t, json!({"replicas": 2})).await;
    all_ready(&t, &["web-0", "web-1"]).await;
    counts_are(&t, [2, 2, 2, 2]).await;
}

async fn claims_stay_when_their_pods_go(t: Scene) {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    make(&t, json!({"replicas": 1, "volumeClaimTemplates": [claim]})).await;
    all_ready(&t, &["web-0"]).await;
    let claim = t
        .get(&t.core("persistentvolumeclaims/data-web-0"))
        .await
        .is(200);
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web"}));
    let pod = t.get(&t.core("pods/web-0")).await.is(200);
    let volumes = pod["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut volumes = volumes.iter().filter(|volume| volume["name"] == "data");
    let source = volumes
        .next()
        .map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
    assert_eq!(source, Some(&json!("data-web-0")));
    change(&t, json!({"replicas": 0})).await;
    pods_are(&t, &[]).await;
    t.get(&t.core("persistentvolumeclaims/data-web-0"))
        .await
        .is(200);
}

async fn a_deleted_set_takes_its_pods_along(t: Scene) {
    make(&t, json!({"podManagementPolicy": "Parallel"})).await;
    pods_are(&t, &["web-0:1", "web-1:1", "web-2:1"]).await;
    t.delete(&set(&t)).await.is(200);
    pods_are(&t, &[]).await;
}

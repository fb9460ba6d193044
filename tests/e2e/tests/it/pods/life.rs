//! How pods come, fall, heal and go.

use std::net::Ipv4Addr;

use serde_json::json;

use super::{
    address, ask, conf, container, folder, is_ready, is_running, make, pid, pod, restarts, scale,
    send_signal,
};
use crate::scene::{Expect, Patch, Scene, cases};

cases![
    a_pod_comes_up_and_answers_on_its_own_address,
    a_killed_server_is_started_again,
    a_stopped_server_is_killed_and_started_again,
    a_server_that_does_not_start_is_told_and_tried_again,
    what_is_not_run_here_is_told,
    a_pod_for_another_node_is_not_scheduled,
    a_set_grows_and_shrinks_and_leaves_nothing_behind,
    a_change_is_rolled_out_one_pod_at_a_time,
    a_container_that_prepares_comes_first,
];

const WWW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

async fn a_pod_comes_up_and_answers_on_its_own_address(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 2, |_| ()).await;
    let first = pod(&t, "web-0", is_ready).await;
    let second = pod(&t, "web-1", is_ready).await;
    assert_ne!(address(&first), address(&second));
    for one in [&first, &second] {
        assert_eq!(ask(address(one)), Some(WWW));
        assert_eq!(one["spec"]["nodeName"], "bindery");
        assert_eq!(one["status"]["phase"], "Running");
        assert_eq!(
            one["status"]["podIPs"],
            json!([{"ip": address(one).to_string()}])
        );
        assert!(one["status"]["startTime"].is_string());
    }
    let node = t.get("/api/v1/nodes/bindery").await.is(200);
    assert_eq!(node["status"]["conditions"][0]["type"], "Ready");
}

async fn a_killed_server_is_started_again(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |_| ()).await;
    let before = pod(&t, "web-0", is_ready).await;
    send_signal("-9", &pid(&before));
    let after = pod(&t, "web-0", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    let last = &container(&after)["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["signal"]),
        (&json!(137), &json!(9))
    );
    assert_eq!(address(&before), address(&after));
    assert_eq!(ask(address(&after)), Some(WWW));
    let since = |pod: &serde_json::Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut initialized = conditions.filter(|one| one["type"] == "Initialized");
        initialized
            .next()
            .map(|one| one["lastTransitionTime"].clone())
    };
    assert_eq!(
        since(&before),
        since(&after),
        "what did not change has its time"
    );
}

async fn a_stopped_server_is_killed_and_started_again(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |_| ()).await;
    let before = pod(&t, "web-0", is_ready).await;
    send_signal("-STOP", &pid(&before));
    let after = pod(&t, "web-0", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    let message = container(&after)["lastState"]["terminated"]["message"].as_str();
    assert!(
        message.is_some_and(|it| it.contains("Liveness probe failed")),
        "{after}"
    );
    assert!(!is_running(&pid(&before)));
    assert_eq!(ask(address(&after)), Some(WWW));
}

async fn a_server_that_does_not_start_is_told_and_tried_again(t: Scene) {
    let mut broken = conf("192.0.2.1");
    broken["named.conf"] = json!("options { this is no configuration };");
    t.make_map("conf", broken).await;
    make(&t, 1, |_| ()).await;
    let looping = pod(&t, "web-0", |pod| {
        container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    })
    .await;
    assert!(!is_ready(&looping) && restarts(&looping) >= 1);
    let log = std::fs::read_to_string(folder(&t, "web-0").join("containers/bind9/log"));
    assert!(
        log.is_ok_and(|log| log.contains("named.conf")),
        "its words are kept"
    );
    let mended = json!({"data": conf("192.0.2.1")});
    let target = t.core("configmaps/conf");
    t.patch(&target, Patch::Merge, &mended).await.is(200);
    let after = pod(&t, "web-0", is_ready).await;
    assert_eq!(ask(address(&after)), Some(WWW));
}

async fn what_is_not_run_here_is_told(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |spec| {
        spec["template"]["spec"]["containers"][0]["command"] = json!(["sh", "-c", "true"]);
    })
    .await;
    let told = pod(&t, "web-0", |pod| {
        container(pod)["state"]["waiting"]["reason"] == "CreateContainerError"
    })
    .await;
    let message = container(&told)["state"]["waiting"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("named and bindery"), "{message}");
    assert_eq!(told["status"]["phase"], "Pending");
}

async fn a_pod_for_another_node_is_not_scheduled(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |spec| {
        spec["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
    })
    .await;
    let told = pod(&t, "web-0", |pod| {
        pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    })
    .await;
    assert_eq!(told["status"]["conditions"][0]["type"], "PodScheduled");
    assert!(told["spec"]["nodeName"].is_null());
}

async fn a_set_grows_and_shrinks_and_leaves_nothing_behind(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 0, |_| ()).await;
    scale(&t, 3).await;
    let mut pids = Vec::new();
    for name in ["web-0", "web-1", "web-2"] {
        pids.push(pid(&pod(&t, name, is_ready).await));
    }
    scale(&t, 1).await;
    for name in ["web-1", "web-2"] {
        let target = t.core(&format!("pods/{name}"));
        t.until(&target, |answer| answer.code == 404).await;
    }
    pod(&t, "web-0", is_ready).await;
    scale(&t, 0).await;
    t.until(&t.core("pods/web-0"), |answer| answer.code == 404)
        .await;
    for name in ["web-0", "web-1", "web-2"] {
        let folder = folder(&t, name);
        t.until("/version", |_| !folder.exists()).await;
    }
    for pid in pids {
        assert!(!is_running(&pid), "{pid} is left behind");
    }
}

async fn a_change_is_rolled_out_one_pod_at_a_time(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 2, |_| ()).await;
    let before = pod(&t, "web-0", is_ready).await;
    pod(&t, "web-1", is_ready).await;
    t.make_map("other", conf("192.0.2.2")).await;
    let volumes = json!([
        {"name": "conf", "configMap": {"name": "other"}}, {"name": "cache", "emptyDir": {}},
    ]);
    let body = json!({"spec": {"template": {"spec": {"volumes": volumes}}}});
    t.patch(&super::set_target(&t), Patch::Merge, &body)
        .await
        .is(200);
    let uid = &before["metadata"]["uid"];
    let after = pod(&t, "web-0", |pod| {
        pod["metadata"]["uid"] != *uid && is_ready(pod)
    })
    .await;
    let other = pod(&t, "web-1", is_ready).await;
    for one in [&after, &other] {
        assert_eq!(ask(address(one)), Some(Ipv4Addr::new(192, 0, 2, 2)));
    }
    assert_eq!(
        address(&before),
        address(&after),
        "its name has its address"
    );
    t.until(&super::set_target(&t), |answer| {
        let status = &answer.json["status"];
        status["updatedReplicas"] == 2 && status["currentRevision"] == status["updateRevision"]
    })
    .await;
}

async fn a_container_that_prepares_comes_first(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |spec| {
        let mut check = super::bind9();
        check["name"] = json!("check");
        // Prints its version and ends.
        check["command"] = json!(["named", "-v"]);
        for field in ["ports", "readinessProbe", "livenessProbe"] {
            check.as_object_mut().map(|fields| fields.remove(field));
        }
        spec["template"]["spec"]["initContainers"] = json!([check]);
    })
    .await;
    let after = pod(&t, "web-0", is_ready).await;
    let init = &after["status"]["initContainerStatuses"][0];
    assert_eq!(init["state"]["terminated"]["exitCode"], 0);
    let log = std::fs::read_to_string(folder(&t, "web-0").join("containers/check/log"));
    assert!(log.is_ok_and(|log| log.contains("BIND")));
}

//! What pods find in their volumes.

use std::fs;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{
    address, ask, bind9, conf, container, folder, is_ready, make, pid, pod, restarts, send_signal,
};
use crate::scene::{Expect, Patch, Scene, cases};

cases![
    a_missing_config_map_is_named_and_waited_for,
    a_changed_config_map_reaches_the_files_without_a_restart,
    a_claim_outlives_its_pod_and_an_empty_folder_does_not,
    a_lost_folder_is_made_anew_and_its_server_started_again,
    a_touched_file_is_written_again,
    secrets_variables_and_tokens_are_given,
];

async fn a_missing_config_map_is_named_and_waited_for(t: Scene) {
    make(&t, 1, |_| ()).await;
    let waiting = pod(&t, "web-0", |pod| pod["status"]["message"].is_string()).await;
    let message = waiting["status"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("configmap \"conf\" not found"),
        "{message}"
    );
    assert_eq!(
        container(&waiting)["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    t.until(&t.core("events"), |answer| {
        answer.text.contains("FailedMount")
    })
    .await;
    t.make_map("conf", conf("192.0.2.1")).await;
    let after = pod(&t, "web-0", is_ready).await;
    assert!(after["status"]["message"].is_null(), "{after}");
}

async fn a_changed_config_map_reaches_the_files_without_a_restart(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |_| ()).await;
    let before = pod(&t, "web-0", is_ready).await;
    let body = json!({"data": {"zone.db": super::zone("192.0.2.7").replace(" 1 60", " 2 60")}});
    t.patch(&t.core("configmaps/conf"), Patch::Merge, &body)
        .await
        .is(200);
    let file = folder(&t, "web-0").join("volumes/conf/zone.db");
    t.until("/version", |_| {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("192.0.2.7"))
    })
    .await;
    send_signal("-HUP", &pid(&before));
    let server = address(&before);
    t.until("/version", |_| {
        ask(server) == Some(Ipv4Addr::new(192, 0, 2, 7))
    })
    .await;
    let after = pod(&t, "web-0", is_ready).await;
    assert_eq!(restarts(&after), 0);
}

async fn a_claim_outlives_its_pod_and_an_empty_folder_does_not(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |spec| {
        spec["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }]);
        let mount = json!({"name": "data", "mountPath": "/var/lib/bind"});
        let container = &mut spec["template"]["spec"]["containers"][0];
        push(&mut container["volumeMounts"], mount);
    })
    .await;
    let before = pod(&t, "web-0", is_ready).await;
    let claim = t.core("persistentvolumeclaims/data-web-0");
    let claim = t
        .until(&claim, |answer| answer.json["status"]["phase"] == "Bound")
        .await;
    let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
    let root = super::node_folder(t.subject()).join(".claims").join(&t.ns);
    let claimed = root.join(format!("data-web-0.{uid}"));
    let cache = folder(&t, "web-0").join("volumes/cache");
    for folder in [&claimed, &cache] {
        fs::write(folder.join("mark"), "x").expect("the volume is there");
    }
    t.delete(&t.core("pods/web-0")).await.is(200);
    let uid = &before["metadata"]["uid"];
    pod(&t, "web-0", |pod| {
        pod["metadata"]["uid"] != *uid && is_ready(pod)
    })
    .await;
    assert!(claimed.join("mark").exists());
    assert!(!cache.join("mark").exists());
    t.delete(&super::set_target(&t)).await.is(200);
    t.until(&t.core("pods/web-0"), |answer| answer.code == 404)
        .await;
    t.delete(&t.core("persistentvolumeclaims/data-web-0"))
        .await
        .is(200);
    t.until("/version", |_| !claimed.exists()).await;
}

async fn a_lost_folder_is_made_anew_and_its_server_started_again(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |_| ()).await;
    pod(&t, "web-0", is_ready).await;
    let cache = folder(&t, "web-0").join("volumes/cache");
    fs::remove_dir_all(&cache).expect("it is there");
    let after = pod(&t, "web-0", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    assert!(cache.is_dir());
    let message = container(&after)["lastState"]["terminated"]["message"].as_str();
    assert!(message.is_some_and(|it| it.contains("volume")), "{after}");
}

async fn a_touched_file_is_written_again(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    make(&t, 1, |_| ()).await;
    pod(&t, "web-0", is_ready).await;
    let file = folder(&t, "web-0").join("volumes/conf/zone.db");
    fs::write(&file, "garbage").expect("it is there");
    t.until("/version", |_| {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("SOA"))
    })
    .await;
}

async fn secrets_variables_and_tokens_are_given(t: Scene) {
    t.make_map("conf", conf("192.0.2.1")).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
        "stringData": {"rndc.key": "include \"/etc/bind/x\";", "word": "swordfish"},
    });
    t.post(&t.core("secrets"), &secret).await.is(201);
    make(&t, 1, |spec| {
        let spec = &mut spec["template"]["spec"];
        let mut server = bind9();
        server["env"] = json!([
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "word"}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "BOTH", "value": "$(NAME)=$(WORD)"},
        ]);
        push(
            &mut server["volumeMounts"],
            json!({"name": "all", "mountPath": "/all"}),
        );
        spec["containers"] = json!([server]);
        let all = json!({"name": "all", "projected": {"sources": [
            {"secret": {"name": "key", "items": [{"key": "rndc.key", "path": "keys/rndc.key"}]}},
            {"serviceAccountToken": {"path": "token", "audience": "bindcar"}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
            ]}},
        ]}});
        push(&mut spec["volumes"], all);
    })
    .await;
    let found = pod(&t, "web-0", is_ready).await;
    let environment = fs::read(format!("/proc/{}/environ", pid(&found))).unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    assert!(
        environment
            .split('\0')
            .any(|one| one == "BOTH=web-0=swordfish"),
        "{environment}"
    );
    let volume = folder(&t, "web-0").join("volumes/all");
    let read = |name: &str| fs::read_to_string(volume.join(name)).unwrap_or_default();
    assert_eq!(read("namespace"), t.ns);
    assert!(read("token").len() >= 32);
    let conf = folder(&t, "web-0").join("volumes/conf/x");
    assert_eq!(
        read("keys/rndc.key"),
        format!("include \"{}\";", conf.display())
    );
}

fn push(list: &mut Value, one: Value) {
    list.as_array_mut()
        .expect("the fixture has a list")
        .push(one);
}

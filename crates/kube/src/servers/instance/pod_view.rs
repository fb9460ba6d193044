//! Pods of an instance, as Kubernetes and their sidecars tell of them.

use bindery_sources::clusters::PodView;
use kube::api::DynamicObject;
use serde_json::Value;

use super::super::ServerContext;
use super::super::store::ObjectPlace;
use super::ordinal;

/// A pod as conditions of its instance speak of it.
pub(super) fn pod_view(shared: &ServerContext, pod: &DynamicObject) -> Option<PodView> {
    let place = ObjectPlace::of(pod);
    let status = &pod.data["status"];
    let condition = |kind: &str| {
        let conditions = status["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .find(|one| one["type"] == kind)
    };
    let is_ready = condition("Ready").is_some_and(|one| one["status"] == "True")
        && pod.metadata.deletion_timestamp.is_none();
    let unscheduled = condition("PodScheduled").filter(|one| one["status"] == "False");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let containers = status["containerStatuses"].as_array();
    let containers: Vec<&Value> = containers.into_iter().flatten().collect();
    let crashing = containers.iter().find_map(|one| crash(one));
    let waiting = containers.iter().find_map(|one| {
        let waiting = one["state"].get("waiting")?;
        let (reason, message) = (text(&waiting["reason"]), text(&waiting["message"]));
        Some(
            format!("container {} {reason} {message}", text(&one["name"]))
                .trim()
                .to_owned(),
        )
    });
    let has_ip = status["podIP"].as_str().is_some();
    Some(PodView {
        ordinal: ordinal(&place.name)?,
        name: place.name.to_string(),
        is_ready,
        unscheduled: unscheduled.map(|one| text(&one["message"])),
        crashing,
        waiting: waiting.or_else(|| (!has_ip).then(|| "it has no address yet".to_owned())),
        sidecar: shared.probes.said(&place),
    })
}

/// How a container that ends again and again ended last.
fn crash(container: &Value) -> Option<String> {
    if container["state"]["waiting"]["reason"] != "CrashLoopBackOff" {
        return None;
    }
    let ended = &container["lastState"]["terminated"];
    let code = match (&ended["signal"], &ended["exitCode"]) {
        (Value::Number(signal), _) if signal.as_i64() != Some(0) => format!("signal {signal}"),
        (_, code) => format!("exit code {code}"),
    };
    let name = container["name"].as_str().unwrap_or_default();
    let restarts = &container["restartCount"];
    Some(format!(
        "container {name} ended with {code} ({restarts} restarts)"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_crash_of_a_container_is_told_with_its_code() {
        let container = json!({
            "name": "bind9", "restartCount": 4,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 1 } },
        });
        assert_eq!(
            crash(&container).as_deref(),
            Some("container bind9 ended with exit code 1 (4 restarts)")
        );
        let running = json!({ "name": "bind9", "state": { "running": {} } });
        assert_eq!(crash(&running), None);
    }
}

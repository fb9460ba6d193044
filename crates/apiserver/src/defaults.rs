//! What the server fills in on built-in kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::addresses;

/// Completes an object of a built-in kind; `before` is what it replaces.
pub(crate) fn fill(resource: &str, value: &mut Value, before: Option<&Value>) {
    match resource {
        "namespaces" => namespace(value, before),
        "secrets" => secret(value),
        "services" => service(value, before),
        "deployments.apps" => deployment(value),
        "statefulsets.apps" => stateful_set(value),
        "pods" => pod(value, before),
        "customresourcedefinitions.apiextensions.k8s.io" => definition(value),
        _ => {}
    }
}

fn namespace(value: &mut Value, before: Option<&Value>) {
    let name = value["metadata"]["name"].clone();
    let metadata = &mut value["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"]["kubernetes.io/metadata.name"] = name;
    if before.is_none() {
        value["spec"] = json!({"finalizers": ["kubernetes"]});
        value["status"] = json!({"phase": "Active"});
    }
}

/// `stringData` is a convenience of writers; what is stored is `data`.
fn secret(value: &mut Value) {
    default(value, "type", &json!("Opaque"));
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if !data.is_object() {
        *data = json!({});
    }
    for (key, text) in plain {
        data[key] = json!(STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

fn service(value: &mut Value, before: Option<&Value>) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    default(spec, "type", &json!("ClusterIP"));
    default(spec, "sessionAffinity", &json!("None"));
    if spec["type"] != "ExternalName" {
        default(spec, "internalTrafficPolicy", &json!("Cluster"));
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let number = port["port"].clone();
        default(port, "protocol", &json!("TCP"));
        if port["targetPort"] == 0 {
            port["targetPort"] = Value::Null;
        }
        default(port, "targetPort", &number);
    }
    if let Some(before) = before {
        addresses::keep(spec, &before["spec"]);
    }
    if addresses::has_node_ports(spec) {
        default(spec, "externalTrafficPolicy", &json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", &json!(true));
    }
    if value["status"].is_null() {
        value["status"] = json!({"loadBalancer": {}});
    }
}

fn deployment(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    default(spec, "replicas", &json!(1));
    default(spec, "progressDeadlineSeconds", &json!(600));
    default(spec, "revisionHistoryLimit", &json!(10));
    let rolling = json!({
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    });
    default(spec, "strategy", &rolling);
    if let Some(template) = spec
        .get_mut("template")
        .and_then(|template| template.get_mut("spec"))
    {
        pod_spec(template);
    }
}

fn stateful_set(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    default(spec, "replicas", &json!(1));
    default(spec, "revisionHistoryLimit", &json!(10));
    default(spec, "podManagementPolicy", &json!("OrderedReady"));
    default(spec, "updateStrategy", &json!({}));
    let strategy = &mut spec["updateStrategy"];
    default(strategy, "type", &json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", &json!({}));
        default(&mut strategy["rollingUpdate"], "partition", &json!(0));
    }
    default(spec, "persistentVolumeClaimRetentionPolicy", &json!({}));
    for field in ["whenDeleted", "whenScaled"] {
        default(
            &mut spec["persistentVolumeClaimRetentionPolicy"],
            field,
            &json!("Retain"),
        );
    }
    if let Some(template) = spec
        .get_mut("template")
        .and_then(|template| template.get_mut("spec"))
    {
        pod_spec(template);
    }
}

fn pod(value: &mut Value, before: Option<&Value>) {
    pod_spec(&mut value["spec"]);
    if before.is_none() {
        value["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
    }
}

fn pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default(spec, "restartPolicy", &json!("Always"));
    default(spec, "dnsPolicy", &json!("ClusterFirst"));
    default(spec, "schedulerName", &json!("default-scheduler"));
    default(spec, "terminationGracePeriodSeconds", &json!(30));
    default(spec, "securityContext", &json!({}));
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        let image = container["image"].as_str().unwrap_or_default();
        let last = image.rsplit('/').next().unwrap_or_default();
        let floating = !last.contains(':') || last.ends_with(":latest");
        let policy = if floating { "Always" } else { "IfNotPresent" };
        default(container, "imagePullPolicy", &json!(policy));
        default(container, "resources", &json!({}));
        default(
            container,
            "terminationMessagePath",
            &json!("/dev/termination-log"),
        );
        default(container, "terminationMessagePolicy", &json!("File"));
    }
}

fn definition(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() || !spec["names"].is_object() {
        return;
    }
    let kind = spec["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    default(&mut spec["names"], "singular", &json!(kind.to_lowercase()));
    default(
        &mut spec["names"],
        "listKind",
        &json!(format!("{kind}List")),
    );
    default(spec, "conversion", &json!({"strategy": "None"}));
}

fn default(object: &mut Value, field: &str, text: &Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let missing = fields
        .get(field)
        .is_none_or(|held| held.is_null() || held == "");
    if missing {
        fields.insert(field.to_owned(), text.clone());
    }
}

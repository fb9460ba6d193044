//! What the server fills in on built-in kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::failure::Fault;

/// What is wrong with an object of a built-in kind.
pub(crate) fn problems(resource: &str, value: &Value, before: Option<&Value>) -> Vec<Fault> {
    match resource {
        "configmaps" | "secrets" => stored_data_problems(value, before),
        "services" => service_problems(value),
        "events" | "events.events.k8s.io" => event_problems(value),
        _ => Vec::new(),
    }
}

/// Completes an object of a built-in kind; `before` is what it replaces.
pub(crate) fn fill(resource: &str, value: &mut Value, before: Option<&Value>) {
    match resource {
        "namespaces" => namespace(value, before),
        "secrets" => secret(value),
        "services" => service(value),
        "deployments.apps" => deployment(value),
        "pods" => pod(value),
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

fn service(value: &mut Value) {
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
        default(port, "targetPort", &number);
    }
    if value["status"].is_null() {
        value["status"] = json!({"loadBalancer": {}});
    }
}

/// Without scheduler and kubelet a pod waits for ever; whoever runs it reports its status.
fn pod(value: &mut Value) {
    let spec = &mut value["spec"];
    if !spec.is_object() {
        return;
    }
    default(spec, "restartPolicy", &json!("Always"));
    default(spec, "dnsPolicy", &json!("ClusterFirst"));
    default(spec, "schedulerName", &json!("default-scheduler"));
    default(spec, "terminationGracePeriodSeconds", &json!(30));
    default(spec, "securityContext", &json!({}));
    default(spec, "enableServiceLinks", &json!(true));
    if value["status"].is_null() {
        value["status"] = json!({"phase": "Pending"});
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

/// Keys are file names; an immutable object does not change any more.
fn stored_data_problems(value: &Value, before: Option<&Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for field in ["data", "binaryData"] {
        for key in value[field]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            let ok = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if !key.bytes().all(ok) || key.is_empty() || key == "." || key == ".." {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or \
                           '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                           validation is '[-._a-zA-Z0-9]+')";
                faults.push(Fault::invalid(format!("{field}[{key}]"), &json!(key), why));
            }
        }
    }
    faults.extend(content_problems(value));
    let Some(before) = before else { return faults };
    if before["type"] != value["type"] {
        faults.push(Fault::invalid("type", &value["type"], "field is immutable"));
    }
    if before["immutable"] == true {
        for field in ["immutable", "data", "binaryData"] {
            if before[field] != value[field] {
                let why = "field is immutable when `immutable` is set";
                faults.push(Fault::forbidden(field, why));
            }
        }
    }
    faults
}

/// Bytes that the values of one object may have together, as in the real server.
const DATA_BYTES_MAX: usize = 1 << 20;

fn content_problems(value: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let fields = |field: &str| value[field].as_object().into_iter().flatten();
    for (key, _) in
        fields("binaryData").filter(|(key, _)| value["data"].get(key.as_str()).is_some())
    {
        let why = "duplicate of key present in data";
        faults.push(Fault::invalid(
            format!("binaryData[{key}]"),
            &json!(key),
            why,
        ));
    }
    let sizes = fields("data").chain(fields("binaryData"));
    let size: usize = sizes
        .map(|(_, text)| text.as_str().map_or(0, str::len))
        .sum();
    if size > DATA_BYTES_MAX {
        let why = format!("may not be more than {DATA_BYTES_MAX} bytes");
        faults.push(Fault::too_long("", &why));
    }
    if value["type"] == "kubernetes.io/tls" {
        for key in ["tls.crt", "tls.key"] {
            if value["data"].get(key).is_none() {
                faults.push(Fault::required(format!("data[{key}]"), ""));
            }
        }
    }
    faults
}

/// An event lives beside the object that it speaks of.
fn event_problems(value: &Value) -> Vec<Fault> {
    let object = if value["regarding"].is_object() {
        "regarding"
    } else {
        "involvedObject"
    };
    let namespace = &value[object]["namespace"];
    let cluster_wide = namespace.as_str().is_none_or(str::is_empty);
    let expected = if cluster_wide {
        &json!("default")
    } else {
        namespace
    };
    if value["metadata"]["namespace"] == *expected
        || (cluster_wide && value["metadata"]["namespace"] == "kube-system")
    {
        return Vec::new();
    }
    let why = "does not match event.namespace";
    vec![Fault::invalid(
        format!("{object}.namespace"),
        namespace,
        why,
    )]
}

fn service_problems(value: &Value) -> Vec<Fault> {
    let spec = &value["spec"];
    let mut faults = Vec::new();
    let headless = spec["clusterIP"] == "None";
    let named = spec["type"] == "ExternalName";
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && !headless && !named {
        faults.push(Fault::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let number = &port["port"];
        if !number
            .as_i64()
            .is_some_and(|number| (1..=65_535).contains(&number))
        {
            let field = format!("spec.ports[{index}].port");
            faults.push(Fault::invalid(
                field,
                number,
                "must be between 1 and 65535, inclusive",
            ));
        }
        if ports.len() > 1 && port["name"].as_str().is_none_or(str::is_empty) {
            faults.push(Fault::required(format!("spec.ports[{index}].name"), ""));
        }
    }
    if named && spec["externalName"].as_str().is_none_or(str::is_empty) {
        faults.push(Fault::required("spec.externalName", ""));
    }
    faults
}

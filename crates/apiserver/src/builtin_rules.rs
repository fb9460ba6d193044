//! Rules of built-in kinds that their types do not express.

use serde_json::{Value, json};

use super::failure::Fault;

/// Bytes that the data of a `ConfigMap` or `Secret` may have.
const DATA_BYTES_MAX: usize = 1 << 20;

/// What is wrong with an object of a built-in kind.
pub(crate) fn problems(resource: &str, value: &Value, before: Option<&Value>) -> Vec<Fault> {
    match resource {
        "configmaps" | "secrets" => stored_data_problems(value, before),
        "services" => service_problems(value, before),
        "events" => event_problems(value),
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            workload_problems(value)
        }
        "pods" => pod_problems(value),
        _ => Vec::new(),
    }
}

/// Keys are file names; an immutable object does not change any more.
fn stored_data_problems(value: &Value, before: Option<&Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        for (key, content) in value[field].as_object().into_iter().flatten() {
            bytes += content.as_str().map_or(0, str::len);
            let ok = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if !key.bytes().all(ok) || key.is_empty() || key == "." || key == ".." {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or \
                           '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                           validation is '[-._a-zA-Z0-9]+')";
                faults.push(Fault::invalid(format!("{field}[{key}]"), &json!(key), why));
            }
            if field == "data" && value["binaryData"].get(key).is_some() {
                let why = "duplicate of key present in binaryData";
                faults.push(Fault::invalid(format!("data[{key}]"), &json!(key), why));
            }
        }
    }
    if bytes > DATA_BYTES_MAX {
        let why = format!("may not be more than {DATA_BYTES_MAX} bytes");
        faults.push(Fault::too_long("data", &why));
    }
    for key in required_keys(value["type"].as_str().unwrap_or_default()) {
        if value["data"].get(key).is_none() {
            faults.push(Fault::required(format!("data[{key}]"), ""));
        }
    }
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

/// The keys a Secret of a known type must have.
fn required_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    }
}

fn service_problems(value: &Value, before: Option<&Value>) -> Vec<Fault> {
    let spec = &value["spec"];
    let mut faults = Vec::new();
    let headless = spec["clusterIP"] == "None";
    let named = spec["type"] == "ExternalName";
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if ports.is_empty() && !headless && !named {
        faults.push(Fault::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 && port["name"].as_str().is_none_or(str::is_empty) {
            faults.push(Fault::required(format!("{path}.name"), ""));
        }
        faults.extend(port_problems(&path, port));
    }
    faults.extend(address_problems(spec, before.map(|before| &before["spec"])));
    if named && spec["externalName"].as_str().is_none_or(str::is_empty) {
        faults.push(Fault::required("spec.externalName", ""));
    }
    faults
}

fn port_problems(path: &str, port: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let is_port = |number: &Value| {
        let number = number.as_i64();
        number.is_some_and(|number| (1..=65_535).contains(&number))
    };
    let why = "must be between 1 and 65535, inclusive";
    // A number that is missing is 0 to the real server.
    let number = |field: &Value| {
        if field.is_null() {
            json!(0)
        } else {
            field.clone()
        }
    };
    if !is_port(&port["port"]) {
        let field = format!("{path}.port");
        faults.push(Fault::invalid(field, &number(&port["port"]), why));
    }
    let protocol = &port["protocol"];
    if !["SCTP", "TCP", "UDP"].iter().any(|known| protocol == known) {
        let field = format!("{path}.protocol");
        faults.push(Fault::unsupported(field, protocol, &["SCTP", "TCP", "UDP"]));
    }
    let (target, field) = (&port["targetPort"], format!("{path}.targetPort"));
    if let Some(name) = target.as_str() {
        let whys = port_name_problems(name).into_iter();
        faults.extend(whys.map(|why| Fault::invalid(field.clone(), target, why)));
    } else if !is_port(target) {
        faults.push(Fault::invalid(field, &number(target), why));
    }
    faults
}

/// What is wrong with the name of a port (RFC 6335 section 5.1, lower case).
fn port_name_problems(name: &str) -> Vec<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_plain),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !name.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    let broken = rules.iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, why)| *why).collect()
}

/// An address is one, and stays.
fn address_problems(spec: &Value, before: Option<&Value>) -> Vec<Fault> {
    let first = |spec: &Value| {
        let listed = spec.pointer("/clusterIPs/0");
        listed.unwrap_or_else(|| &spec["clusterIP"]).clone()
    };
    let address = first(spec);
    let Some(text) = address.as_str().filter(|text| !text.is_empty()) else {
        return Vec::new();
    };
    let field = "spec.clusterIPs[0]";
    let held = before.map(first).unwrap_or_default();
    if held.is_string() && held != address && spec["type"] != "ExternalName" {
        let why = "may not change once set";
        return vec![Fault::invalid(field, &json!([text]), why)];
    }
    if text != "None" && text.parse::<std::net::IpAddr>().is_err() {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return vec![Fault::invalid(field, &address, why)];
    }
    Vec::new()
}

/// An event lives beside the object it tells about; those of cluster-wide objects in `default`.
fn event_problems(value: &Value) -> Vec<Fault> {
    let about = value
        .get("involvedObject")
        .or_else(|| value.get("regarding"));
    let about = about.map_or(&Value::Null, |about| &about["namespace"]);
    let about_text = about.as_str().unwrap_or_default();
    let own = value["metadata"]["namespace"].as_str().unwrap_or_default();
    let fits =
        about_text == own || (about_text.is_empty() && matches!(own, "default" | "kube-system"));
    if fits {
        return Vec::new();
    }
    vec![Fault::invalid(
        "involvedObject.namespace",
        about,
        "does not match event.namespace",
    )]
}

fn workload_problems(value: &Value) -> Vec<Fault> {
    let spec = &value["spec"];
    let mut faults = Vec::new();
    let selector = &spec["selector"];
    let labels = &selector["matchLabels"];
    if !selector.is_object() {
        faults.push(Fault::required("spec.selector", ""));
    }
    let given = &spec["template"]["metadata"]["labels"];
    let wanted = labels.as_object().into_iter().flatten();
    if wanted.into_iter().any(|(key, value)| given[key] != *value) {
        let why = "`selector` does not match template `labels`";
        faults.push(Fault::invalid("spec.template.metadata.labels", given, why));
    }
    faults.extend(container_problems(
        &spec["template"]["spec"],
        "spec.template.spec",
    ));
    faults
}

fn pod_problems(value: &Value) -> Vec<Fault> {
    container_problems(&value["spec"], "spec")
}

fn container_problems(spec: &Value, path: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let containers = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        faults.push(Fault::required(format!("{path}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                faults.push(Fault::required(
                    format!("{path}.containers[{index}].{field}"),
                    "",
                ));
            }
        }
    }
    faults
}

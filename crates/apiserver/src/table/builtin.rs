//! Columns of built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table::{Column, name_column, plain_age_column, typed};

/// The columns of a built-in kind, in the real server's order; of unknown kinds name and age.
#[must_use]
pub fn builtin_columns(kind: &str) -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    let mut columns = vec![name_column()];
    match kind {
        "Namespace" => columns.push(text("Status", |item, _| item["status"]["phase"].clone())),
        "ConfigMap" => columns.push(Column::cell("Data", "string", data_count)),
        "Secret" => columns.extend([
            text("Type", |item, _| item["type"].clone()),
            Column::cell("Data", "string", data_count),
        ]),
        "Lease" => columns.push(text("Holder", |item, _| {
            item["spec"]["holderIdentity"].clone()
        })),
        "ServiceAccount" => columns.push(Column::cell("Secrets", "string", |item, _| {
            json!(item["secrets"].as_array().map_or(0, Vec::len))
        })),
        "EndpointSlice" => columns.extend([
            text("AddressType", |item, _| item["addressType"].clone()),
            text("Ports", slice_ports),
            text("Endpoints", slice_endpoints),
        ]),
        "CustomResourceDefinition" => {
            columns.push(Column::cell("Created At", "date", |item, _| {
                item["metadata"]["creationTimestamp"].clone()
            }));
            return columns;
        }
        "Ingress" => columns.extend(ingress()),
        "Service" => return service(),
        "Event" => return event(),
        "Node" => return node(),
        "Pod" => return pod(),
        "Deployment" => return deployment(),
        _ => {}
    }
    columns.push(plain_age_column());
    columns
}

fn service() -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    vec![
        name_column(),
        text("Type", |item, _| item["spec"]["type"].clone()),
        text("Cluster-IP", |item, _| or_none(&item["spec"]["clusterIP"])),
        text("External-IP", external_ip),
        text("Port(s)", |item, _| {
            listed(&item["spec"]["ports"], |port| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                match port["nodePort"].as_i64().filter(|node| *node > 0) {
                    Some(node) => format!("{}:{node}/{protocol}", port["port"]),
                    None => format!("{}/{protocol}", port["port"]),
                }
            })
        }),
        plain_age_column(),
        text("Selector", |item, _| labels(&item["spec"]["selector"])).wide(),
    ]
}

fn event() -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    vec![
        text("Last Seen", |item, now| {
            let series = &item["series"]["lastObservedTime"];
            seen(&[series, &item["lastTimestamp"], &item["eventTime"]], now)
        }),
        text("Type", |item, _| item["type"].clone()),
        text("Reason", |item, _| item["reason"].clone()),
        text("Object", |item, _| {
            let object = event_object(item);
            let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
            json!(format!("{kind}/{}", plain(&object["name"])))
        }),
        text("Subobject", |item, _| {
            event_object(item)["fieldPath"].clone()
        })
        .wide(),
        text("Source", |item, _| {
            let component = &item["source"]["component"];
            let component = component
                .as_str()
                .or_else(|| item["reportingComponent"].as_str())
                .or_else(|| item["reportingController"].as_str());
            let host = item["source"]["host"].as_str();
            let parts: Vec<&str> = component.into_iter().chain(host).collect();
            json!(parts.join(", "))
        })
        .wide(),
        text("Message", |item, _| {
            let message = item["message"].as_str().or_else(|| item["note"].as_str());
            json!(message.unwrap_or_default().trim())
        }),
        text("First Seen", |item, now| {
            seen(&[&item["firstTimestamp"], &item["eventTime"]], now)
        })
        .wide(),
        Column::cell("Count", "string", |item, _| {
            let count = item["series"]["count"].as_i64();
            json!(count.or_else(|| item["count"].as_i64()).unwrap_or(1))
        })
        .wide(),
        name_column().wide(),
    ]
}

fn node() -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    let mut columns = vec![
        name_column(),
        text("Status", |item, _| {
            let mut words = vec![match condition(item, "Ready") {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            }];
            if item["spec"]["unschedulable"] == json!(true) {
                words.push("SchedulingDisabled");
            }
            json!(words.join(","))
        }),
        text("Roles", |item, _| {
            let labels = item["metadata"]["labels"].as_object();
            let roles: Vec<&str> = labels
                .into_iter()
                .flat_map(|labels| labels.keys())
                .filter_map(|label| label.strip_prefix("node-role.kubernetes.io/"))
                .collect();
            if roles.is_empty() {
                json!("<none>")
            } else {
                json!(roles.join(","))
            }
        }),
        plain_age_column(),
        text("Version", |item, _| {
            item["status"]["nodeInfo"]["kubeletVersion"].clone()
        }),
    ];
    columns.extend([
        text("Internal-IP", |item, _| address(item, "InternalIP")).wide(),
        text("External-IP", |item, _| address(item, "ExternalIP")).wide(),
    ]);
    columns
}

fn pod() -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    vec![
        name_column(),
        text("Ready", |item, _| {
            let statuses = item["status"]["containerStatuses"].as_array();
            let ready = statuses
                .into_iter()
                .flatten()
                .filter(|status| status["ready"] == json!(true))
                .count();
            let all = item["spec"]["containers"].as_array().map_or(0, Vec::len);
            json!(format!("{ready}/{all}"))
        }),
        text("Status", |item, _| {
            if item["metadata"]["deletionTimestamp"].is_string() {
                return json!("Terminating");
            }
            let reason = &item["status"]["reason"];
            if reason.is_string() {
                reason.clone()
            } else {
                or_unknown(&item["status"]["phase"])
            }
        }),
        text("Restarts", |item, _| {
            let statuses = item["status"]["containerStatuses"].as_array();
            let restarts: i64 = statuses
                .into_iter()
                .flatten()
                .filter_map(|status| status["restartCount"].as_i64())
                .sum();
            json!(restarts.to_string())
        }),
        plain_age_column(),
        text("IP", |item, _| or_none(&item["status"]["podIP"])).wide(),
        text("Node", |item, _| or_none(&item["spec"]["nodeName"])).wide(),
    ]
}

fn deployment() -> Vec<Column> {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    vec![
        name_column(),
        text("Ready", |item, _| {
            let ready = item["status"]["readyReplicas"].as_i64().unwrap_or(0);
            let wanted = item["spec"]["replicas"].as_i64().unwrap_or(1);
            json!(format!("{ready}/{wanted}"))
        }),
        Column::cell("Up-to-date", "string", |item, _| {
            json!(item["status"]["updatedReplicas"].as_i64().unwrap_or(0))
        }),
        Column::cell("Available", "string", |item, _| {
            json!(item["status"]["availableReplicas"].as_i64().unwrap_or(0))
        }),
        plain_age_column(),
    ]
}

fn ingress() -> [Column; 4] {
    let text = |name: &str, cell| Column::cell(name, "string", cell);
    [
        text("Class", |item, _| {
            or_none(&item["spec"]["ingressClassName"])
        }),
        text("Hosts", |item, _| {
            let hosts = listed(&item["spec"]["rules"], |rule| plain(&rule["host"]));
            if hosts == json!("<none>") || hosts == json!("") {
                json!("*")
            } else {
                hosts
            }
        }),
        text("Address", |item, _| {
            match ingress_addresses(item).as_str() {
                "" => json!(""),
                some => json!(some),
            }
        }),
        text("Ports", |item, _| {
            let is_tls = item["spec"]["tls"]
                .as_array()
                .is_some_and(|tls| !tls.is_empty());
            json!(if is_tls { "80, 443" } else { "80" })
        }),
    ]
}

fn data_count(item: &Value, _: Timestamp) -> Value {
    let count = |name: &str| item[name].as_object().map_or(0, serde_json::Map::len);
    json!(count("data") + count("binaryData"))
}

fn slice_ports(item: &Value, _: Timestamp) -> Value {
    match item["ports"].as_array() {
        Some(ports) if !ports.is_empty() => listed(&item["ports"], |port| {
            let number = &port["port"];
            if number.is_null() {
                "*".to_owned()
            } else {
                number.to_string()
            }
        }),
        _ => json!("<unset>"),
    }
}

fn slice_endpoints(item: &Value, _: Timestamp) -> Value {
    const SHOWN_MAX: usize = 3;
    let endpoints = item["endpoints"].as_array().into_iter().flatten();
    let addresses: Vec<&str> = endpoints
        .filter_map(|endpoint| endpoint["addresses"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match addresses.len() {
        0 => json!("<unset>"),
        count if count > SHOWN_MAX => {
            let shown = addresses[..SHOWN_MAX].join(",");
            json!(format!("{shown} + {} more...", count - SHOWN_MAX))
        }
        _ => json!(addresses.join(",")),
    }
}

fn external_ip(item: &Value, _: Timestamp) -> Value {
    let spec = &item["spec"];
    let external = spec["externalIPs"].as_array().into_iter().flatten();
    let mut found: Vec<String> = external.map(plain).collect();
    match spec["type"].as_str() {
        Some("ExternalName") => return spec["externalName"].clone(),
        Some("LoadBalancer") => {
            let balanced = ingress_addresses(item);
            if !balanced.is_empty() {
                found.insert(0, balanced);
            } else if found.is_empty() {
                return json!("<pending>");
            }
        }
        _ => {}
    }
    if found.is_empty() {
        json!("<none>")
    } else {
        json!(found.join(","))
    }
}

fn ingress_addresses(item: &Value) -> String {
    let ingress = item["status"]["loadBalancer"]["ingress"].as_array();
    let addresses: Vec<&str> = ingress
        .into_iter()
        .flatten()
        .filter_map(|one| one["ip"].as_str().or_else(|| one["hostname"].as_str()))
        .collect();
    addresses.join(",")
}

fn event_object(item: &Value) -> &Value {
    let core = &item["involvedObject"];
    if core.is_null() {
        &item["regarding"]
    } else {
        core
    }
}

fn seen(times: &[&Value], now: Timestamp) -> Value {
    let found = times.iter().find(|time| time.is_string());
    found.map_or_else(|| json!("<unknown>"), |time| typed("date", time, now))
}

fn condition<'a>(item: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = item["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["status"].as_str()
}

fn address(item: &Value, kind: &str) -> Value {
    let addresses = item["status"]["addresses"].as_array();
    let found = addresses
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind);
    found.map_or_else(|| json!("<none>"), |one| one["address"].clone())
}

fn listed(value: &Value, print: impl Fn(&Value) -> String) -> Value {
    match value.as_array() {
        Some(items) if !items.is_empty() => {
            let printed: Vec<String> = items.iter().map(print).collect();
            json!(printed.join(","))
        }
        _ => json!("<none>"),
    }
}

fn labels(value: &Value) -> Value {
    match value.as_object() {
        Some(labels) if !labels.is_empty() => {
            let pairs: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}={}", plain(value)))
                .collect();
            json!(pairs.join(","))
        }
        _ => json!("<none>"),
    }
}

fn or_none(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => value.clone(),
        _ => json!("<none>"),
    }
}

fn or_unknown(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => value.clone(),
        _ => json!("<unknown>"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

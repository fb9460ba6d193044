//! Addresses and ports that a Service is given. Nothing answers there: there is no cluster network.
//!
//! What was given once is kept until the Service no longer needs it, as on the real server.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Core;

/// The range that clusters usually have: 10.96.0.0/12.
const ADDRESSES: (u32, u32) = (0x0a60_0000, 1 << 20);
/// Ports that every node of a cluster would listen on.
const NODE_PORTS: (u32, u32) = (30_000, 2_768);
/// How often a number that is taken is drawn again; with the ranges half full, one in 65,536 fails.
const DRAWS_MAX: usize = 16;

/// What a Service keeps while it has an address.
const ADDRESS_FIELDS: [&str; 4] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// Puts back what a change did not mean to take away, and takes away what the type no longer has.
pub(crate) fn keep(spec: &mut Value, before: &Value) {
    if before["type"] == "ExternalName" && spec["type"] == "ExternalName" {
        return;
    }
    if spec["type"] == "ExternalName" {
        drop_same(spec, before, &ADDRESS_FIELDS);
        drop_same(spec, before, &["internalTrafficPolicy"]);
    } else {
        // Of the two forms of the address the one that was changed counts.
        if !is_missing(&spec["clusterIP"])
            && spec["clusterIP"] != before["clusterIP"]
            && spec["clusterIPs"] == before["clusterIPs"]
        {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        for field in ADDRESS_FIELDS {
            if is_missing(&spec[field]) && !before[field].is_null() {
                spec[field] = before[field].clone();
            }
        }
    }
    let has_ports = has_node_ports(spec);
    if !has_ports && has_node_ports(before) {
        drop_same(spec, before, &["externalTrafficPolicy"]);
    }
    if spec["type"] != "LoadBalancer" {
        drop_same(spec, before, &["allocateLoadBalancerNodePorts"]);
    }
    let old = before["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let same =
            |one: &&Value| one["port"] == port["port"] && one["protocol"] == port["protocol"];
        let held = old.iter().find(same).map(|one| one["nodePort"].clone());
        let held = held.filter(|held| !held.is_null());
        match (has_ports, held) {
            (true, Some(held)) if is_missing(&port["nodePort"]) => port["nodePort"] = held,
            (false, Some(held)) if port["nodePort"] == held => drop_field(port, "nodePort"),
            (true | false, _) => {}
        }
    }
}

/// Whether the type of a Service opens ports on nodes.
pub(crate) fn has_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort" || spec["type"] == "LoadBalancer"
}

impl Core {
    /// Gives a Service what it lacks. Nobody owns these fields, so it happens after ownership was worked
    /// out.
    pub(crate) fn give_addresses(&self, resource: &str, value: &mut Value) {
        let spec = value.get_mut("spec").filter(|spec| spec.is_object());
        let Some(spec) = spec.filter(|_| resource == "services") else {
            return;
        };
        if spec["type"] == "ExternalName" {
            return;
        }
        if is_missing(&spec["clusterIP"]) {
            let address = self.draw(ADDRESSES, |number| {
                format!("\"clusterIP\":\"{}\"", Ipv4Addr::from_bits(number))
            });
            spec["clusterIP"] = json!(Ipv4Addr::from_bits(address).to_string());
        }
        if is_missing(&spec["clusterIPs"]) {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        let is_headless = spec["clusterIP"] == "None";
        let is_ipv6 = spec["clusterIP"]
            .as_str()
            .is_some_and(|ip| ip.contains(':'));
        let (families, policy) = if is_headless && is_missing(&spec["selector"]) {
            (json!(["IPv4", "IPv6"]), "RequireDualStack")
        } else if is_ipv6 {
            (json!(["IPv6"]), "SingleStack")
        } else {
            (json!(["IPv4"]), "SingleStack")
        };
        if is_missing(&spec["ipFamilies"]) {
            spec["ipFamilies"] = families;
        }
        if is_missing(&spec["ipFamilyPolicy"]) {
            spec["ipFamilyPolicy"] = json!(policy);
        }
        if !has_node_ports(spec) || spec["allocateLoadBalancerNodePorts"] == false {
            return;
        }
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if is_missing(&port["nodePort"]) || port["nodePort"] == 0 {
                let number = self.draw(NODE_PORTS, |number| format!("\"nodePort\":{number},"));
                port["nodePort"] = json!(number);
            }
        }
    }

    /// A number of a range that, written down like this, stands in no Service.
    fn draw(&self, (first, len): (u32, u32), written: impl Fn(u32) -> String) -> u32 {
        let (services, _) = self.store.list("services", None);
        let is_taken = |number: u32| {
            let text = written(number);
            services.iter().any(|service| {
                service
                    .text()
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            })
        };
        let draw = || {
            let random = self.environment.random() % u128::from(len - 2);
            // The first and the last of a network are no addresses of machines.
            first + 1 + u32::try_from(random).unwrap_or_default()
        };
        let mut number = draw();
        for _ in 0..DRAWS_MAX {
            if !is_taken(number) {
                break;
            }
            number = draw();
        }
        number
    }
}

fn is_missing(field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn drop_same(spec: &mut Value, before: &Value, fields: &[&str]) {
    for field in fields {
        if spec.get(field) == before.get(field) {
            drop_field(spec, field);
        }
    }
}

fn drop_field(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

//! Resources of the network: they are written, read, listed and removed.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Asked, AzureState, EmulatedAnswer, SUBSCRIPTION, ZERO_ID};

/// The kinds that there are.
const KINDS: [&str; 5] = [
    "virtualNetworks",
    "serviceGateways",
    "publicIPAddresses",
    "loadBalancers",
    "natGateways",
];

/// Why a resource cannot be written: a code and words.
type Refusal = (&'static str, String);

impl AzureState {
    /// A request about the network of a group. `segments` begins with the provider.
    pub(super) fn network(&mut self, asked: &Asked, segments: &[&str]) -> EmulatedAnswer {
        let (Some(kind), name) = (segments.get(1), segments.get(2)) else {
            return EmulatedAnswer::error(404, "InvalidResourceType", "there is nothing like this");
        };
        let Some(kind) = KINDS.iter().find(|one| one.eq_ignore_ascii_case(kind)) else {
            return EmulatedAnswer::error(404, "InvalidResourceType", "there is nothing like this");
        };
        let path = asked.path.to_ascii_lowercase();
        match (asked.method.as_str(), name, segments.get(3)) {
            ("GET", None, None) => {
                let told = self.list(asked, &path);
                self.age();
                told
            }
            ("GET", Some(name), None) => {
                let told = self.show(asked, kind, name);
                self.age();
                told
            }
            ("PUT", Some(name), None) => self.put(asked, kind, name),
            ("PATCH", Some(name), None) => self.patch(asked, kind, name),
            ("DELETE", Some(_), None) => self.delete(&path),
            (method, Some(name), Some(act)) if *kind == "serviceGateways" => {
                let Some(at) = path.rfind('/') else {
                    return EmulatedAnswer::empty(404);
                };
                let gateway = &path[..at];
                if !self.resources.contains_key(gateway) {
                    return missing(asked, kind, name);
                }
                self.gateway_act(asked, gateway, &format!("{method} {act}"))
            }
            _ => EmulatedAnswer::error(405, "MethodNotAllowed", "that cannot be done"),
        }
    }

    fn show(&self, asked: &Asked, kind: &str, name: &str) -> EmulatedAnswer {
        match self.seen(&asked.path.to_ascii_lowercase()) {
            Some(resource) => {
                EmulatedAnswer::new(200, resource).header("etag", format!("W/\"{ZERO_ID}\""))
            }
            None => missing(asked, kind, name),
        }
    }

    /// A resource as it is shown: while an operation on it is under way, it says so.
    fn seen(&self, path: &str) -> Option<Value> {
        let mut resource = self.resources.get(path)?.clone();
        if self.is_under_way(path) {
            resource["properties"]["provisioningState"] = json!("Updating");
        }
        Some(resource)
    }

    fn list(&self, asked: &Asked, path: &str) -> EmulatedAnswer {
        let start = format!("{path}/");
        let is_inside = |key: &&String| {
            let tail = key.strip_prefix(&start);
            tail.is_some_and(|tail| !tail.contains('/'))
        };
        let paths = self.resources.keys().filter(is_inside);
        let all = paths.filter_map(|path| self.seen(path)).collect();
        self.page(asked, all)
    }

    /// One page of a list, and where the next one is.
    pub(super) fn page(&self, asked: &Asked, all: Vec<Value>) -> EmulatedAnswer {
        let skip = asked.query.get("$skiptoken");
        let skip: usize = skip.and_then(|text| text.parse().ok()).unwrap_or_default();
        let len = match self.page_len {
            0 => all.len(),
            len => len,
        };
        let left = all.len().saturating_sub(skip.saturating_add(len));
        let value: Vec<Value> = all.into_iter().skip(skip).take(len).collect();
        let mut body = json!({ "value": value });
        if left > 0 {
            let (base, path, next) = (&self.base, &asked.path, skip + len);
            let url = format!("{base}{path}?api-version=2025-05-01&$skiptoken={next}");
            body["nextLink"] = json!(url);
        }
        EmulatedAnswer::new(200, body)
    }

    fn put(&mut self, asked: &Asked, kind: &'static str, name: &str) -> EmulatedAnswer {
        let body = match asked.json() {
            Ok(body) => body,
            Err(told) => return told,
        };
        let path = asked.path.to_ascii_lowercase();
        let before = self.resources.get(&path).cloned();
        if let Err((code, why)) = self.check(kind, &body, before.as_ref()) {
            return EmulatedAnswer::error(400, code, &why);
        }
        let resource = self.made(asked, (kind, name), &body, before.as_ref());
        let is_same = before.as_ref() == Some(&resource) && !self.is_under_way(&path);
        self.resources.insert(path.clone(), resource);
        if kind == "serviceGateways" {
            self.gateways.entry(path.clone()).or_default();
        }
        let id = self.begin(Some(path.clone()));
        let status = if before.is_none() { 201 } else { 200 };
        let mut shown = self.seen(&path).unwrap_or_default();
        let state = if is_same { "Succeeded" } else { "Updating" };
        set_state(&mut shown, state);
        self.with_operation(EmulatedAnswer::new(status, shown), id)
    }

    /// A resource as it stands when its operation has ended.
    fn made(
        &mut self,
        asked: &Asked,
        (kind, name): (&'static str, &str),
        body: &Value,
        before: Option<&Value>,
    ) -> Value {
        let id = canonical(&asked.path, kind, name);
        let mut properties = body["properties"].as_object().cloned().unwrap_or_default();
        properties.insert("provisioningState".to_owned(), json!("Succeeded"));
        match kind {
            "virtualNetworks" => complete_network(&mut properties, &id),
            "serviceGateways" => {
                properties.insert("services".to_owned(), json!([]));
            }
            "publicIPAddresses" => {
                let known = before.map(|one| one["properties"]["ipAddress"].clone());
                let address = known.unwrap_or_else(|| self.new_address(&properties));
                properties.insert("ipAddress".to_owned(), address);
            }
            "natGateways" => {
                properties.retain(|_, value| !value.is_null());
            }
            _ => complete_parts(&mut properties, &id),
        }
        let mut resource = json!({
            "name": name, "id": id, "etag": format!("W/\"{ZERO_ID}\""),
            "type": format!("Microsoft.Network/{kind}"), "location": body["location"],
            "properties": properties,
        });
        for field in ["sku", "tags"] {
            if !body[field].is_null() {
                resource[field] = body[field].clone();
            }
        }
        resource
    }

    fn new_address(&mut self, properties: &Map<String, Value>) -> Value {
        self.next += 1;
        let next = self.next;
        let is_v6 = properties.get("publicIPAddressVersion") == Some(&json!("IPv6"));
        json!(if is_v6 {
            format!("2001:db8:ffff::{next:x}")
        } else {
            format!(
                "20.{}.{}.{}",
                (next >> 16) & 255,
                (next >> 8) & 255,
                next & 255
            )
        })
    }

    fn patch(&mut self, asked: &Asked, kind: &str, name: &str) -> EmulatedAnswer {
        let path = asked.path.to_ascii_lowercase();
        let Some(resource) = self.resources.get_mut(&path) else {
            return missing(asked, kind, name);
        };
        if let Ok(body) = asked.json() {
            resource["tags"] = body["tags"].clone();
        }
        self.show(asked, kind, name)
    }

    fn delete(&mut self, path: &str) -> EmulatedAnswer {
        if !self.resources.contains_key(path) {
            return EmulatedAnswer::empty(204);
        }
        if let Some(user) = self.user(path) {
            let why = format!("{path} is used by {user}");
            let code = match path.rsplit('/').nth(1) {
                Some("publicipaddresses") => "PublicIPAddressCannotBeDeleted",
                Some("natgateways") => "InUseNatGatewayCannotBeDeleted",
                _ => "InUseLoadBalancerCannotBeDeleted",
            };
            return EmulatedAnswer::error(400, code, &why);
        }
        self.resources.remove(path);
        self.gateways.remove(path);
        let id = self.begin(None);
        let url = self.operation_url("operationResults", id);
        self.with_operation(EmulatedAnswer::empty(202), id)
            .header("location", url)
    }

    /// What uses a resource.
    fn user(&self, path: &str) -> Option<String> {
        let quoted = format!("\"{path}\"");
        let beneath = format!("\"{path}/");
        let refers = |value: &Value| {
            let text = value["properties"].to_string().to_ascii_lowercase();
            text.contains(&quoted) || text.contains(&beneath)
        };
        let others = self.resources.iter().filter(|(other, _)| *other != path);
        // A network is used by its gateway, which may go with it.
        let others = others.filter(|_| !path.contains("/virtualnetworks/"));
        // A gateway does not hold up its NAT gateways.
        let others = others.filter(|_| !path.contains("/servicegateways/"));
        let mut users = others
            .filter(|(_, value)| refers(value))
            .map(|(path, _)| path);
        let service = self.gateways.values().find_map(|gateway| {
            let mut services = gateway.services.iter();
            services.find_map(|(name, service)| refers(service).then(|| format!("service {name}")))
        });
        let own = self.resources.get(path);
        let linked = own.is_some_and(|own| !own["properties"]["serviceGateway"].is_null());
        let linked = linked.then(|| "its service gateway".to_owned());
        users.next().cloned().or(service).or(linked)
    }

    /// Whether a resource may be written.
    fn check(&self, kind: &str, body: &Value, before: Option<&Value>) -> Result<(), Refusal> {
        if body["location"].as_str().is_none_or(str::is_empty) {
            return refuse("LocationRequired", "the location is missing");
        }
        let sku = body["sku"]["name"].as_str().unwrap_or_default();
        let properties = &body["properties"];
        match kind {
            "publicIPAddresses" => {
                if sku != "StandardV2" || properties["publicIPAllocationMethod"] != "Static" {
                    return refuse("InvalidPublicIPSku", "use StandardV2 and Static");
                }
                let version = &properties["publicIPAddressVersion"];
                let known = before.map(|one| &one["properties"]["publicIPAddressVersion"]);
                if known.is_some_and(|known| known != version) {
                    let why = "the version of a public IP stays as it is";
                    return refuse("PublicIPAddressVersionCannotBeChanged", why);
                }
                Ok(())
            }
            "loadBalancers" => self.check_balancer(sku, properties),
            "natGateways" => {
                if sku != "StandardV2" {
                    return refuse("InvalidNatGatewaySku", "use StandardV2");
                }
                for field in ["publicIpAddresses", "publicIpAddressesV6"] {
                    let all = properties[field].as_array();
                    for one in all.into_iter().flatten() {
                        self.check_reference(&one["id"])?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_balancer(&self, sku: &str, properties: &Value) -> Result<(), Refusal> {
        if sku != "Service" {
            return refuse(
                "InvalidLoadBalancerSku",
                "the pools of others are not filled",
            );
        }
        let frontends = properties["frontendIPConfigurations"].as_array();
        for one in frontends.into_iter().flatten() {
            self.check_reference(&one["properties"]["publicIPAddress"]["id"])?;
        }
        let mut backends = BTreeSet::new();
        let rules = properties["loadBalancingRules"].as_array();
        for one in rules.into_iter().flatten() {
            let rule = &one["properties"];
            let idle = rule["idleTimeoutInMinutes"].as_u64().unwrap_or_default();
            let port = rule["frontendPort"].as_u64().unwrap_or_default();
            if !(4..=30).contains(&idle) || !(1..=65_534).contains(&port) {
                return refuse("InvalidLoadBalancingRule", "a number is out of range");
            }
            let backend = (
                rule["protocol"].to_string(),
                rule["backendPort"].to_string(),
            );
            if !backends.insert(backend) {
                let why = "two rules have the same backend port";
                return refuse("RulesUseSameBackendPortProtocolAndPool", why);
            }
        }
        Ok(())
    }

    /// Whether what is referred to is there.
    pub(super) fn check_reference(&self, id: &Value) -> Result<(), Refusal> {
        let id = id.as_str().unwrap_or_default();
        let path = id.to_ascii_lowercase();
        let owner = path.split("/backendaddresspools/").next();
        let is_there = owner.is_some_and(|path| self.resources.contains_key(path));
        if is_there {
            return Ok(());
        }
        Err(("InvalidResourceReference", format!("{id} is not there")))
    }
}

fn refuse(code: &'static str, why: &str) -> Result<(), Refusal> {
    Err((code, why.to_owned()))
}

/// A resource's path as Azure writes it.
fn canonical(path: &str, kind: &str, name: &str) -> String {
    let group = path.split('/').nth(4).unwrap_or_default();
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Network/{kind}/{name}"
    )
}

fn set_state(resource: &mut Value, state: &str) {
    resource["properties"]["provisioningState"] = json!(state);
    let subnets = resource["properties"].get_mut("subnets");
    let subnets = subnets.and_then(Value::as_array_mut);
    for subnet in subnets.into_iter().flatten() {
        subnet["properties"]["provisioningState"] = json!(state);
    }
}

/// What Azure adds to a network.
fn complete_network(properties: &mut Map<String, Value>, id: &str) {
    for (field, value) in [
        ("resourceGuid", json!(ZERO_ID)),
        ("privateEndpointVNetPolicies", json!("Disabled")),
        ("virtualNetworkPeerings", json!([])),
        ("enableDdosProtection", json!(false)),
    ] {
        properties.insert(field.to_owned(), value);
    }
    let subnets = properties.get_mut("subnets").and_then(Value::as_array_mut);
    for subnet in subnets.into_iter().flatten() {
        let name = subnet["name"].as_str().unwrap_or_default();
        subnet["id"] = json!(format!("{id}/subnets/{name}"));
        subnet["etag"] = json!(format!("W/\"{ZERO_ID}\""));
        subnet["type"] = json!("Microsoft.Network/virtualNetworks/subnets");
        let properties = &mut subnet["properties"];
        properties["provisioningState"] = json!("Succeeded");
        properties["delegations"] = json!([]);
        properties["privateEndpointNetworkPolicies"] = json!("Disabled");
        properties["privateLinkServiceNetworkPolicies"] = json!("Enabled");
    }
}

/// What Azure adds to the parts of a load balancer.
fn complete_parts(properties: &mut Map<String, Value>, id: &str) {
    for field in [
        "frontendIPConfigurations",
        "backendAddressPools",
        "loadBalancingRules",
    ] {
        let parts = properties.get_mut(field).and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten() {
            let name = part["name"].as_str().unwrap_or_default();
            part["id"] = json!(format!("{id}/{field}/{name}"));
            part["properties"]["provisioningState"] = json!("Succeeded");
        }
    }
}

fn missing(asked: &Asked, kind: &str, name: &str) -> EmulatedAnswer {
    let group = asked.path.split('/').nth(4).unwrap_or_default();
    let why = format!(
        "The Resource 'Microsoft.Network/{kind}/{name}' under resource group '{group}' was not found. For more \
         details please go to https://aka.ms/ARMResourceNotFoundFix"
    );
    EmulatedAnswer::error(404, "ResourceNotFound", &why).header("x-ms-failure-cause", "gateway")
}

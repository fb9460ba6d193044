//! The Service Gateway: services, and addresses at locations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Asked, AzureState, EmulatedAnswer};

/// What a gateway has.
#[derive(Clone, Debug, Default)]
pub struct GatewayContent {
    /// Services by name.
    pub services: BTreeMap<String, Value>,
    /// The services of addresses at locations.
    pub locations: BTreeMap<IpAddr, BTreeMap<IpAddr, BTreeSet<String>>>,
}

/// Why a request is refused: a status, a code and words.
type Objection = (u16, &'static str, String);

impl AzureState {
    pub(super) fn gateway_act(
        &mut self,
        asked: &Asked,
        gateway: &str,
        act: &str,
    ) -> EmulatedAnswer {
        let content = self.gateways.get(gateway).cloned().unwrap_or_default();
        match act {
            "GET services" => self.page(asked, content.services.into_values().collect()),
            "GET addressLocations" => self.page(asked, shown_locations(&content)),
            "POST updateServices" | "POST updateAddressLocations" => {
                let body = match asked.json() {
                    Ok(body) => body,
                    Err(told) => return told,
                };
                let changed = if act == "POST updateServices" {
                    self.update_services(content, &body)
                } else {
                    self.update_locations(content, &body)
                };
                match changed {
                    Ok(content) => {
                        self.gateways.insert(gateway.to_owned(), content);
                        // It is done, and the header leads nowhere: that is what Azure does.
                        let url = self.operation_url("operationResults", 0);
                        EmulatedAnswer::empty(200).header("location", url)
                    }
                    Err((status, code, why)) => EmulatedAnswer::error(status, code, &why),
                }
            }
            _ => EmulatedAnswer::error(405, "MethodNotAllowed", "that cannot be done"),
        }
    }

    fn update_services(
        &self,
        mut content: GatewayContent,
        body: &Value,
    ) -> Result<GatewayContent, Objection> {
        if body["action"] == "FullUpdate" {
            content.services.clear();
        }
        for request in array(body, "serviceRequests")? {
            let service = &request["service"];
            let name = service["name"].as_str().unwrap_or_default().to_owned();
            let stands = content.services.get(&name);
            if stands.is_some_and(|one| one["properties"]["isDefault"] == true) {
                let why = format!("{name} is the default service");
                let code = "MultipleDefaultServicesNotAllowedInServiceGateway";
                return Err((400, code, why));
            }
            if request["isDelete"] == true {
                if stands.is_none() {
                    return Err((404, "ResourceNotFound", format!("{name} is not there")));
                }
                let mut bound = content.locations.values().flat_map(BTreeMap::values);
                if bound.any(|services| services.contains(&name)) {
                    let why = format!("{name} has addresses");
                    return Err((400, "ServiceWithOverlayMappingsCannotBeDeleted", why));
                }
                content.services.remove(&name);
                continue;
            }
            let merged = self.merged(stands, service)?;
            content.services.insert(name, merged);
        }
        Ok(content)
    }

    /// A service after a change: what the request leaves out stays.
    fn merged(&self, stands: Option<&Value>, service: &Value) -> Result<Value, Objection> {
        let asked = service["properties"].as_object();
        let mut merged = stands.cloned().unwrap_or_else(|| {
            let properties = json!({"isDefault": false, "loadBalancerBackendPools": []});
            json!({"name": service["name"], "properties": properties})
        });
        for (field, value) in asked.into_iter().flatten() {
            if field == "loadBalancerBackendPools" {
                let Some(pools) = value.as_array() else {
                    return Err((400, "InvalidRequestFormat", "pools are a list".to_owned()));
                };
                for pool in pools {
                    self.check_reference(&pool["id"])
                        .map_err(|(code, why)| (400, code, why))?;
                }
            }
            if field == "publicNatGatewayId" && !value.is_null() {
                self.check_reference(value)
                    .map_err(|(code, why)| (400, code, why))?;
            }
            merged["properties"][field] = value.clone();
        }
        Ok(merged)
    }

    fn update_locations(
        &self,
        mut content: GatewayContent,
        body: &Value,
    ) -> Result<GatewayContent, Objection> {
        if body["action"] == "FullUpdate" {
            content.locations.clear();
        }
        let mut seen = BTreeSet::new();
        for entry in array(body, "addressLocations")? {
            let location = address(&entry["addressLocation"])?;
            if !seen.insert(location) {
                let why = format!("{location} stands there twice");
                return Err((400, "DuplicateLocationsInRequest", why));
            }
            let asked = array(entry, "addresses")?;
            let stands = content.locations.entry(location).or_default();
            if entry["addressUpdateAction"] == "FullUpdate" || asked.is_empty() {
                stands.clear();
            }
            for one in asked {
                let address = address(&one["address"])?;
                self.check_address(location, address)?;
                let services = array(one, "services")?;
                let services: BTreeSet<String> = services
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned))
                    .collect();
                let unknown = services
                    .iter()
                    .find(|name| !content.services.contains_key(*name));
                if let Some(name) = unknown {
                    let why = format!("there is no service {name}");
                    return Err((400, "ServiceNotFoundInServiceGateway", why));
                }
                if services.is_empty() {
                    stands.remove(&address);
                } else {
                    stands.insert(address, services);
                }
            }
        }
        content
            .locations
            .retain(|_, addresses| !addresses.is_empty());
        Ok(content)
    }

    fn check_address(&self, location: IpAddr, address: IpAddr) -> Result<(), Objection> {
        if location.is_ipv4() != address.is_ipv4() {
            let why = format!("{address} cannot be at {location}");
            return Err((400, "IPv4LocationCannotContainIPv6Addresses", why));
        }
        if self.poison.contains(&address) {
            let why = format!("{address} is not in the network");
            return Err((400, "AddressNotInVirtualNetwork", why));
        }
        Ok(())
    }
}

fn array<'a>(body: &'a Value, field: &str) -> Result<&'a Vec<Value>, Objection> {
    let why = || format!("{field} is no list");
    body[field]
        .as_array()
        .ok_or_else(|| (400, "InvalidRequestFormat", why()))
}

fn address(text: &Value) -> Result<IpAddr, Objection> {
    let text = text.as_str().unwrap_or_default();
    let why = || format!("{text} is no address");
    text.parse()
        .map_err(|_| (400, "InvalidIPAddressFormat", why()))
}

fn shown_locations(content: &GatewayContent) -> Vec<Value> {
    let shown = |(location, addresses): (&IpAddr, &BTreeMap<IpAddr, BTreeSet<String>>)| {
        let addresses: Vec<Value> = addresses
            .iter()
            .map(|(address, services)| json!({"address": address, "services": services}))
            .collect();
        json!({"addressLocation": location, "addresses": addresses})
    };
    content.locations.iter().map(shown).collect()
}

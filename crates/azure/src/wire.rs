//! Resources and requests as Azure's REST API has them (version 2025-05-01).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The version of every request.
pub(crate) const API_VERSION: &str = "2025-05-01";

/// Tags of a resource.
pub(crate) type Tags = BTreeMap<String, String>;

/// A resource of a resource group.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ArmResource<P> {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) location: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) sku: Sku,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
    #[serde(default)]
    pub(crate) properties: P,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sku {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) tier: String,
}

/// A reference to another resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    #[serde(default)]
    pub(crate) id: String,
}

/// A part of a resource that has a name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ArmPart<P> {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) properties: P,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PublicIpProperties {
    #[serde(rename = "publicIPAllocationMethod", default)]
    pub(crate) allocation: String,
    #[serde(rename = "publicIPAddressVersion", default)]
    pub(crate) version: String,
    #[serde(rename = "ipAddress", default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(
        rename = "provisioningState",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) state: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LoadBalancerProperties {
    #[serde(default)]
    pub(crate) scope: String,
    #[serde(
        rename = "frontendIPConfigurations",
        default,
        deserialize_with = "or_default"
    )]
    pub(crate) frontends: Vec<ArmPart<FrontendProperties>>,
    #[serde(
        rename = "backendAddressPools",
        default,
        deserialize_with = "or_default"
    )]
    pub(crate) pools: Vec<ArmPart<EmptyProperties>>,
    #[serde(
        rename = "loadBalancingRules",
        default,
        deserialize_with = "or_default"
    )]
    pub(crate) rules: Vec<ArmPart<RuleProperties>>,
    #[serde(
        rename = "provisioningState",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) state: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EmptyProperties {}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FrontendProperties {
    #[serde(rename = "publicIPAddress", default, deserialize_with = "or_default")]
    pub(crate) public_ip: Reference,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleProperties {
    pub(crate) protocol: String,
    pub(crate) frontend_port: u16,
    pub(crate) backend_port: u16,
    #[serde(rename = "enableFloatingIP")]
    pub(crate) floating: bool,
    pub(crate) idle_timeout_in_minutes: u16,
    pub(crate) enable_tcp_reset: bool,
    #[serde(rename = "frontendIPConfiguration")]
    pub(crate) frontend: Reference,
    pub(crate) backend_address_pool: Reference,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NatGatewayProperties {
    /// Written as `null` where there is none: a field that is left out stays as it is.
    #[serde(rename = "serviceGateway", default)]
    pub(crate) gateway: Option<Reference>,
    #[serde(rename = "publicIpAddresses", default, deserialize_with = "or_default")]
    pub(crate) public_ips: Vec<Reference>,
    #[serde(
        rename = "publicIpAddressesV6",
        default,
        deserialize_with = "or_default"
    )]
    pub(crate) public_ips_v6: Vec<Reference>,
    #[serde(
        rename = "provisioningState",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) state: String,
}

pub(crate) type PublicIp = ArmResource<PublicIpProperties>;
pub(crate) type AzureLoadBalancer = ArmResource<LoadBalancerProperties>;
pub(crate) type NatGateway = ArmResource<NatGatewayProperties>;

/// A service of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GatewayService {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) properties: GatewayServiceProperties,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewayServiceProperties {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_default: bool,
    pub(crate) service_type: String,
    /// Written also where it is empty: that takes the pools away.
    #[serde(deserialize_with = "or_default")]
    pub(crate) load_balancer_backend_pools: Vec<PoolReference>,
    /// Written as `null` where there is none: a field that is left out stays as it is.
    pub(crate) public_nat_gateway_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolReference {
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) properties: PoolProperties,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolProperties {
    #[serde(rename = "virtualNetwork", default, deserialize_with = "or_default")]
    pub(crate) network: Reference,
}

/// A request to change services of the gateway.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicesUpdate<'a> {
    pub(crate) action: &'static str,
    pub(crate) service_requests: &'a [ServiceRequest],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRequest {
    pub(crate) is_delete: bool,
    pub(crate) service: GatewayService,
}

/// A request to change addresses of the gateway.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocationsUpdate {
    pub(crate) action: &'static str,
    pub(crate) address_locations: Vec<LocationEntry>,
}

/// A location with the addresses in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LocationEntry {
    pub(crate) address_location: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) address_update_action: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) addresses: Vec<AddressEntry>,
}

/// An address with the services that it belongs to. Without any it is taken out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AddressEntry {
    pub(crate) address: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) services: Vec<String>,
}

/// Only what is named changes.
pub(crate) const PARTIAL: &str = "PartialUpdate";
/// Traffic from outside.
pub(crate) const INBOUND: &str = "Inbound";
/// Traffic to the outside.
pub(crate) const OUTBOUND: &str = "Outbound";

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct ArmPage<T> {
    #[serde(default = "Vec::new")]
    pub(crate) value: Vec<T>,
    #[serde(rename = "nextLink", default)]
    pub(crate) next: Option<String>,
}

/// What is wrong, in Azure's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorBody {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) details: Vec<ErrorDetail>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorDetail {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// An answer that may be an error, or how an operation is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Outcome {
    pub(crate) error: Option<ErrorBody>,
    pub(crate) status: Option<String>,
    pub(crate) properties: OutcomeProperties,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct OutcomeProperties {
    #[serde(rename = "provisioningState")]
    pub(crate) state: Option<String>,
}

/// What a state means: of a resource, or of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArmProgress {
    Done,
    Failed,
    UnderWay,
}

impl ArmProgress {
    pub(crate) fn of(state: &str) -> Self {
        if state.eq_ignore_ascii_case("Succeeded") {
            return Self::Done;
        }
        let ends = ["Failed", "Canceled", "Cancelled"];
        if ends.iter().any(|one| state.eq_ignore_ascii_case(one)) {
            Self::Failed
        } else {
            Self::UnderWay
        }
    }
}

/// Azure writes `null` at times where there is nothing.
fn or_default<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_read_as_nothing_and_written_where_they_count() {
        let text = r#"{"name":"a","properties":{"loadBalancerBackendPools":null,"publicNatGatewayId":null}}"#;
        let service: GatewayService = serde_json::from_str(text).expect("it is read");
        let written = serde_json::to_value(&service).expect("it is written");
        let wanted = serde_json::json!({"name": "a", "properties": {
            "serviceType": "", "loadBalancerBackendPools": [], "publicNatGatewayId": null,
        }});
        assert_eq!(written, wanted);
        let text = r#"{"addressLocation":"192.0.2.1","addresses":null}"#;
        let entry: LocationEntry = serde_json::from_str(text).expect("it is read");
        assert!(entry.addresses.is_empty());
        let text = r#"{"name":"n","tags":null,"properties":{"publicIpAddresses":null}}"#;
        let gateway: NatGateway = serde_json::from_str(text).expect("it is read");
        let written = serde_json::to_value(&gateway.properties).expect("it is written");
        // What is left out stays as it is, so that a link is taken away in words.
        assert_eq!(written["serviceGateway"], serde_json::Value::Null);
    }
}

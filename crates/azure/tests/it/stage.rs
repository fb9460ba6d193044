//! An emulator with a group and a gateway, a provider of it, and what tests ask for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bindery_azure::{
    AzureBalancer, AzureCredential, AzureEndpoints, AzureSecret, AzureSettings, AzureTimes,
};
use bindery_core::balancers::{
    AddressChange, BalancerKey, BalancerSpec, Binding, Bindings, EgressFront, Family, Front,
    FrontPort, FrontProtocol, TrafficPolicy,
};
use bindery_testkit::azure::{AzureEmulator, AzureFate, AzureFault, GatewayContent, SUBSCRIPTION};
use serde_json::{Value, json};

/// The group that everything is in.
pub(crate) const GROUP: &str = "group";
/// The name of the cluster.
pub(crate) const CLUSTER: &str = "blue";

/// An emulator with a group, a gateway, and things of others in it.
pub(crate) struct Stage {
    pub(crate) azure: AzureEmulator,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let azure = AzureEmulator::start().await.expect("loopback has ports");
        {
            let mut state = azure.lock();
            state.polls = 1;
            state.page_len = 3;
            state.token_seconds = 3600;
            let group = (GROUP.to_owned(), "eastus2".to_owned());
            state.groups.insert(GROUP.to_owned(), group);
            let gateway = lower("serviceGateways/servicegateway");
            let shown = json!({"name": "servicegateway", "properties": {}});
            state.resources.insert(gateway.clone(), shown);
            state.gateways.insert(gateway, foreign_content());
            for (path, resource) in foreign_resources() {
                state.resources.insert(path, resource);
            }
        }
        Self { azure }
    }

    pub(crate) fn settings(&self) -> AzureSettings {
        let base = self.azure.base();
        AzureSettings {
            subscription: SUBSCRIPTION.to_owned(),
            resource_group: GROUP.to_owned(),
            location: "eastus2".to_owned(),
            service_gateway: "servicegateway".to_owned(),
            virtual_network: "vnet".to_owned(),
            virtual_network_group: GROUP.to_owned(),
            cluster: CLUSTER.to_owned(),
            endpoints: AzureEndpoints {
                management: base.clone(),
                authority: base.clone(),
                metadata: base.clone(),
                audience: base,
            },
            credential: AzureCredential::ClientSecret {
                tenant: "tenant".to_owned(),
                client: "client".to_owned(),
                secret: AzureSecret::new("right"),
            },
            authorities: None,
            times: AzureTimes {
                connect: Duration::from_secs(5),
                request: Duration::from_secs(5),
                poll_first: Duration::from_millis(1),
                poll_max: Duration::from_millis(5),
                operation: Duration::from_secs(10),
            },
        }
    }

    pub(crate) fn provider(&self) -> AzureBalancer {
        AzureBalancer::new(self.settings()).expect("the settings are right")
    }

    /// The next request that begins like this has this fate.
    pub(crate) fn fail(&self, request: &str, fate: AzureFate) {
        let fault = AzureFault::new(request, fate);
        self.azure.lock().faults.push_back(fault);
    }

    /// Names of resources that are ours, sorted, by kind.
    pub(crate) fn own(&self) -> Vec<String> {
        let foreign: Vec<String> = foreign_resources().into_iter().map(|one| one.0).collect();
        let state = self.azure.lock();
        let own = state.resources.keys().filter(|path| {
            let is_gateway = path.contains("/servicegateways/");
            !is_gateway && !foreign.contains(path)
        });
        own.map(|path| path.split("network/").last().unwrap_or(path).to_owned())
            .collect()
    }

    /// The names of services at the gateway that are ours.
    pub(crate) fn services(&self) -> Vec<String> {
        let content = self.content();
        let names = content.services.keys();
        names
            .filter(|name| !foreign_content().services.contains_key(*name))
            .cloned()
            .collect()
    }

    /// What the gateway has at addresses, as `LOCATION ADDRESS SERVICES`.
    pub(crate) fn bound(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (location, addresses) in self.content().locations {
            for (address, services) in addresses {
                let services: Vec<String> = services.into_iter().collect();
                lines.push(format!("{location} {address} {}", services.join(",")));
            }
        }
        lines
    }

    pub(crate) fn content(&self) -> GatewayContent {
        let state = self.azure.lock();
        let gateway = state.gateways.get(&lower("serviceGateways/servicegateway"));
        gateway.cloned().expect("the gateway is there")
    }

    pub(crate) fn resource(&self, tail: &str) -> Value {
        let state = self.azure.lock();
        let resource = state.resources.get(&lower(tail)).cloned();
        resource.expect(tail)
    }

    /// Fails if anything of others changed.
    pub(crate) fn check_foreign(&self) {
        let state = self.azure.lock();
        for (path, resource) in foreign_resources() {
            assert_eq!(state.resources.get(&path), Some(&resource), "{path}");
        }
        drop(state);
        let content = self.content();
        for (name, service) in foreign_content().services {
            assert_eq!(content.services.get(&name), Some(&service), "{name}");
        }
        let place = |text: &str| text.parse::<IpAddr>().expect("an address");
        let there = content.locations.get(&place("192.0.2.9"));
        let services = there.and_then(|one| one.get(&place("10.9.0.1")));
        let services = services.expect("what others bound stays");
        assert!(services.contains("theirs"), "{services:?}");
    }
}

/// The path of something in the group, as the emulator keeps it.
pub(crate) fn lower(tail: &str) -> String {
    let path = format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Network/{tail}"
    );
    path.to_ascii_lowercase()
}

/// What others have in the group: the default NAT gateway, another cluster's, and some without tags.
fn foreign_resources() -> BTreeMap<String, Value> {
    let of =
        |cluster: &str, key: &str| json!({"bindery-cluster": cluster, "bindery-balancer": key});
    let resource = |name: &str, tags: Value| {
        let properties = json!({"provisioningState": "Succeeded", "ipAddress": "20.99.0.1",
            "publicIPAddressVersion": "IPv4"});
        json!({"id": "x", "name": name, "tags": tags, "properties": properties})
    };
    BTreeMap::from([
        (
            lower("natGateways/default-natgw"),
            resource("default-natgw", of(CLUSTER, "egress/default-natgw")),
        ),
        (
            lower("publicIPAddresses/default-natgw-pip"),
            resource("default-natgw-pip", json!({})),
        ),
        // Of a kind that nobody here knows.
        (
            lower("loadBalancers/odd"),
            json!({"name": "odd", "tags": null, "properties": {"loadBalancingRules": 7}}),
        ),
        (
            lower("publicIPAddresses/stray-pip"),
            resource("stray-pip", json!({})),
        ),
        (
            lower("loadBalancers/theirs"),
            resource("theirs", of("green", "theirs")),
        ),
        (
            lower("publicIPAddresses/theirs-pip"),
            resource("theirs-pip", of("green", "theirs")),
        ),
        (
            lower("natGateways/untagged"),
            resource("untagged", json!({})),
        ),
    ])
}

fn foreign_content() -> GatewayContent {
    let service = |name: &str, is_default: bool| {
        let properties = json!({"isDefault": is_default, "serviceType": "Outbound",
            "publicNatGatewayId": lower("natGateways/default-natgw")});
        (
            name.to_owned(),
            json!({"name": name, "properties": properties}),
        )
    };
    let at = |text: &str| text.parse::<IpAddr>().expect("an address");
    let bound = [(at("10.9.0.1"), ["theirs".to_owned()].into())];
    GatewayContent {
        services: [service("default", true), service("theirs", false)].into(),
        locations: [(at("192.0.2.9"), bound.into())].into(),
    }
}

pub(crate) fn service(uid: &str) -> BalancerKey {
    BalancerKey::Service(uid.into())
}

pub(crate) fn egress(label: &str) -> BalancerKey {
    BalancerKey::Egress(label.into())
}

/// The front of a Service with these ports, each of which leads to the one eight thousand above.
pub(crate) fn inbound(ports: &[u16]) -> BalancerSpec {
    let port = |port: &u16| FrontPort {
        protocol: FrontProtocol::Tcp,
        port: *port,
        name: format!("p{port}").into(),
        target: Some(port + 8000),
        node_port: None,
    };
    BalancerSpec::Inbound(Front {
        namespace: "default".into(),
        name: "web".into(),
        labels: BTreeMap::new(),
        ports: ports.iter().map(port).collect(),
        families: vec![Family::V4],
        affinity: None,
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        requested: Vec::new(),
        options: BTreeMap::new(),
    })
}

pub(crate) fn outbound(families: &[Family]) -> BalancerSpec {
    let families = families.to_vec();
    BalancerSpec::Egress(EgressFront { families })
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn binding(location: &str, key: &BalancerKey) -> Binding {
    Binding {
        location: Some(address(location)),
        balancer: key.clone(),
        targets: [].into(),
    }
}

/// A change of one address; places are `LOCATION KEY`.
pub(crate) fn change(at: &str, stood: &[Binding], wanted: &[Binding]) -> AddressChange {
    AddressChange {
        address: address(at),
        stood: stood.iter().cloned().collect::<Bindings>(),
        wanted: wanted.iter().cloned().collect::<Bindings>(),
    }
}

//! What resources are to look like, and a digest by which one that somebody else changed is known.

use std::fmt::Write as _;

use bindery_core::balancers::{BalancerKey, Family, Front, FrontPort, FrontProtocol};
use sha2::{Digest as _, Sha256};

use crate::admission::idle_minutes;
use crate::names::{Names, SHAPE_TAG, SPEC_TAG, tags};
use crate::settings::AzureSettings;
use crate::wire::{
    ArmPart, AzureLoadBalancer, EmptyProperties, FrontendProperties, GatewayService,
    GatewayServiceProperties, INBOUND, LoadBalancerProperties, NatGateway, NatGatewayProperties,
    OUTBOUND, PoolProperties, PoolReference, PublicIp, PublicIpProperties, Reference,
    RuleProperties, Sku,
};

/// The kind of load balancer whose pools a Service Gateway fills. Its case counts.
const BALANCER_SKU: &str = "Service";
/// The kind of public IPs and NAT gateways.
const ADDRESS_SKU: &str = "StandardV2";
/// The name of the one frontend.
const FRONTEND: &str = "frontend";
/// Digits of a digest.
const DIGEST_LEN: usize = 16;

/// A public IP of a balancer.
pub(crate) fn public_ip(settings: &AzureSettings, key: &BalancerKey, family: Family) -> PublicIp {
    PublicIp {
        location: settings.location.clone(),
        sku: sku(ADDRESS_SKU),
        tags: tags(&settings.cluster, key),
        properties: PublicIpProperties {
            allocation: "Static".to_owned(),
            version: family.to_string(),
            ..PublicIpProperties::default()
        },
        ..PublicIp::default()
    }
}

/// The load balancer of a Service.
pub(crate) fn load_balancer(
    settings: &AzureSettings,
    key: &BalancerKey,
    names: &Names,
    front: &Front,
    digest: &str,
) -> AzureLoadBalancer {
    let own = settings.path(&format!("loadBalancers/{}", names.service));
    let frontend = Reference {
        id: format!("{own}/frontendIPConfigurations/{FRONTEND}"),
    };
    let pool = Reference {
        id: pool_path(settings, names),
    };
    let minutes = idle_minutes(front).unwrap_or_default();
    let rule = |port: &FrontPort| ArmPart {
        id: String::new(),
        name: format!("rule-{}-{}", word(port.protocol), port.port),
        properties: RuleProperties {
            protocol: match port.protocol {
                FrontProtocol::Tcp => "Tcp".to_owned(),
                FrontProtocol::Udp => "Udp".to_owned(),
            },
            frontend_port: port.port,
            backend_port: port.target.unwrap_or(port.port),
            floating: false,
            idle_timeout_in_minutes: minutes,
            enable_tcp_reset: port.protocol == FrontProtocol::Tcp,
            frontend: frontend.clone(),
            backend_address_pool: pool.clone(),
        },
    };
    let mut balancer = AzureLoadBalancer {
        location: settings.location.clone(),
        sku: sku(BALANCER_SKU),
        tags: tags(&settings.cluster, key),
        properties: LoadBalancerProperties {
            scope: "Public".to_owned(),
            frontends: vec![ArmPart {
                id: String::new(),
                name: FRONTEND.to_owned(),
                properties: FrontendProperties {
                    public_ip: Reference {
                        id: public_ip_path(settings, &names.public_ip),
                    },
                },
            }],
            pools: vec![ArmPart {
                id: String::new(),
                name: names.service.clone(),
                properties: EmptyProperties {},
            }],
            rules: front.ports.iter().map(rule).collect(),
            state: String::new(),
        },
        ..AzureLoadBalancer::default()
    };
    let shape = load_balancer_shape(&balancer);
    balancer.tags.insert(SHAPE_TAG.to_owned(), shape);
    balancer.tags.insert(SPEC_TAG.to_owned(), digest.to_owned());
    balancer
}

/// The NAT gateway of a label.
pub(crate) fn nat_gateway(
    settings: &AzureSettings,
    key: &BalancerKey,
    names: &Names,
    families: &[Family],
    digest: &str,
) -> NatGateway {
    let of_family = |family: Family, name: &str| {
        let wanted = families.contains(&family);
        let id = public_ip_path(settings, name);
        wanted.then_some(Reference { id }).into_iter().collect()
    };
    let mut gateway = NatGateway {
        location: settings.location.clone(),
        sku: sku(ADDRESS_SKU),
        tags: tags(&settings.cluster, key),
        properties: NatGatewayProperties {
            gateway: Some(Reference {
                id: settings.gateway_path(""),
            }),
            public_ips: of_family(Family::V4, &names.public_ip),
            public_ips_v6: of_family(Family::V6, &names.public_ip_v6),
            state: String::new(),
        },
        ..NatGateway::default()
    };
    let shape = nat_gateway_shape(&gateway);
    gateway.tags.insert(SHAPE_TAG.to_owned(), shape);
    gateway.tags.insert(SPEC_TAG.to_owned(), digest.to_owned());
    gateway
}

/// The service at the gateway by which a load balancer gets its backends.
pub(crate) fn inbound_service(settings: &AzureSettings, names: &Names) -> GatewayService {
    let pool = PoolReference {
        id: pool_path(settings, names),
        name: names.service.clone(),
        properties: PoolProperties {
            network: Reference {
                id: settings.network_path(),
            },
        },
    };
    service(names, INBOUND, vec![pool], None)
}

/// The service at the gateway by which pods get their NAT gateway.
pub(crate) fn outbound_service(settings: &AzureSettings, names: &Names) -> GatewayService {
    let gateway = nat_path(settings, names);
    service(names, OUTBOUND, Vec::new(), Some(gateway))
}

/// The same service, bound to nothing.
pub(crate) fn detached(service: &GatewayService) -> GatewayService {
    GatewayService {
        name: service.name.clone(),
        properties: GatewayServiceProperties {
            service_type: service.properties.service_type.clone(),
            ..GatewayServiceProperties::default()
        },
    }
}

/// Whether a service at the gateway is bound to what it is to be bound to.
pub(crate) fn is_registered(stands: &GatewayService, wanted: &GatewayService) -> bool {
    let pools = |service: &GatewayService| -> Vec<String> {
        let pools = service.properties.load_balancer_backend_pools.iter();
        pools.map(|pool| pool.id.to_ascii_lowercase()).collect()
    };
    let gateway = |service: &GatewayService| {
        let gateway = service.properties.public_nat_gateway_id.as_ref();
        gateway.map(|id| id.to_ascii_lowercase())
    };
    pools(stands) == pools(wanted) && gateway(stands) == gateway(wanted)
}

/// The path of a public IP.
pub(crate) fn public_ip_path(settings: &AzureSettings, name: &str) -> String {
    settings.path(&format!("publicIPAddresses/{name}"))
}

/// The path of a load balancer.
pub(crate) fn balancer_path(settings: &AzureSettings, names: &Names) -> String {
    settings.path(&format!("loadBalancers/{}", names.service))
}

/// The path of a NAT gateway.
pub(crate) fn nat_path(settings: &AzureSettings, names: &Names) -> String {
    settings.path(&format!("natGateways/{}", names.service))
}

/// A digest of what counts of a load balancer.
pub(crate) fn load_balancer_shape(balancer: &AzureLoadBalancer) -> String {
    let properties = &balancer.properties;
    let mut text = String::new();
    for frontend in &properties.frontends {
        let id = frontend.properties.public_ip.id.to_ascii_lowercase();
        let _ = writeln!(text, "{} {id}", frontend.name);
    }
    for pool in &properties.pools {
        let _ = writeln!(text, "{}", pool.name.to_ascii_lowercase());
    }
    let mut rules: Vec<String> = properties.rules.iter().map(rule_text).collect();
    rules.sort();
    digest(&(text + &rules.join("\n")))
}

/// A digest of what counts of a NAT gateway.
pub(crate) fn nat_gateway_shape(gateway: &NatGateway) -> String {
    let properties = &gateway.properties;
    let ids = |references: &[Reference]| -> Vec<String> {
        let ids = references.iter().map(|one| one.id.to_ascii_lowercase());
        ids.collect()
    };
    let linked = ids(properties.gateway.as_slice());
    let (v4, v6) = (ids(&properties.public_ips), ids(&properties.public_ips_v6));
    digest(&format!("{linked:?} {v4:?} {v6:?}"))
}

fn rule_text(rule: &ArmPart<RuleProperties>) -> String {
    let RuleProperties {
        protocol,
        frontend_port,
        backend_port,
        floating,
        idle_timeout_in_minutes,
        enable_tcp_reset,
        frontend: _,
        backend_address_pool: _,
    } = &rule.properties;
    let protocol = protocol.to_ascii_lowercase();
    format!(
        "{protocol} {frontend_port} {backend_port} {floating} {idle_timeout_in_minutes} {enable_tcp_reset}"
    )
}

fn service(
    names: &Names,
    kind: &str,
    pools: Vec<PoolReference>,
    gateway: Option<String>,
) -> GatewayService {
    GatewayService {
        name: names.service.clone(),
        properties: GatewayServiceProperties {
            is_default: false,
            service_type: kind.to_owned(),
            load_balancer_backend_pools: pools,
            public_nat_gateway_id: gateway,
        },
    }
}

fn pool_path(settings: &AzureSettings, names: &Names) -> String {
    let own = balancer_path(settings, names);
    format!("{own}/backendAddressPools/{}", names.service)
}

fn sku(name: &str) -> Sku {
    Sku {
        name: name.to_owned(),
        tier: "Regional".to_owned(),
    }
}

fn word(protocol: FrontProtocol) -> &'static str {
    match protocol {
        FrontProtocol::Tcp => "tcp",
        FrontProtocol::Udp => "udp",
    }
}

fn digest(text: &str) -> String {
    let mut digits = String::with_capacity(DIGEST_LEN);
    for byte in Sha256::digest(text).iter().take(DIGEST_LEN / 2) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

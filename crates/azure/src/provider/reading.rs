//! Reading everything of ours: what is made for which balancer, and what addresses are bound to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bindery_core::Fault;
use bindery_core::balancers::{BalancerKey, Binding, Bindings, Frontage, HeldBalancer, Holdings};
use futures::try_join;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{AzureBalancer, Known, address, egress, inbound};
use crate::failure::malformed;
use crate::gateway::ForeignServices;
use crate::names::{Names, SPEC_TAG, owner, service_name, tag};
use crate::settings::AzureSettings;
use crate::shape::{inbound_service, is_registered, outbound_service};
use crate::wire::{
    ArmResource, AzureLoadBalancer, GatewayService, LoadBalancerProperties, LocationEntry,
    NatGateway, NatGatewayProperties, PublicIp, PublicIpProperties, Tags,
};

/// Everything that stands for one balancer.
#[derive(Default)]
struct Standing {
    balancer: Option<AzureLoadBalancer>,
    gateway: Option<NatGateway>,
    ips: BTreeMap<String, PublicIp>,
}

impl AzureBalancer {
    /// Reads everything; what others have is seen and not shown.
    pub(super) async fn fetch_holdings(&self) -> Result<Holdings, Fault> {
        self.known().disturbed = Some(BTreeSet::new());
        let lists = [
            self.settings.path("publicIPAddresses"),
            self.settings.path("loadBalancers"),
            self.settings.path("natGateways"),
        ];
        let (ips, balancers, gateways, services, locations) = try_join!(
            self.arm.fetch_list::<Value>(&lists[0]),
            self.arm.fetch_list::<Value>(&lists[1]),
            self.arm.fetch_list::<Value>(&lists[2]),
            self.gateway.fetch_services(),
            self.gateway.fetch_locations(),
        )?;
        let mut standing: BTreeMap<BalancerKey, Standing> = BTreeMap::new();
        for (key, one) in self.own::<PublicIpProperties>(ips)? {
            let ips = &mut standing.entry(key).or_default().ips;
            ips.insert(one.id.to_ascii_lowercase(), one);
        }
        for (key, one) in self.own::<LoadBalancerProperties>(balancers)? {
            standing.entry(key).or_default().balancer = Some(one);
        }
        for (key, one) in self.own::<NatGatewayProperties>(gateways)? {
            standing.entry(key).or_default().gateway = Some(one);
        }
        let services = services
            .into_iter()
            .filter(|one| !one.properties.is_default);
        let services: BTreeMap<String, GatewayService> = services
            .map(|one| (one.name.to_ascii_lowercase(), one))
            .collect();
        let owners: BTreeMap<String, BalancerKey> = standing
            .keys()
            .map(|key| (service_name(key), key.clone()))
            .collect();
        let (addresses, foreign) = bindings(locations, &owners);
        let balancers = standing.iter().filter_map(|(key, one)| {
            let held = held(&self.settings, key, one, &services)?;
            Some((key.clone(), held))
        });
        let balancers = balancers.collect();
        self.known().take_in(services, foreign);
        Ok(Holdings {
            balancers,
            addresses,
        })
    }

    /// Those of this cluster. What others have may be of a kind that nobody here knows.
    fn own<P: DeserializeOwned + Default>(
        &self,
        all: Vec<Value>,
    ) -> Result<Vec<(BalancerKey, ArmResource<P>)>, Fault> {
        let mut own = Vec::new();
        for one in all {
            let tags = Tags::deserialize(&one["tags"]).unwrap_or_default();
            let name = one["name"].as_str().unwrap_or_default();
            let Some(key) = owner(&self.settings.cluster, name, &tags) else {
                continue;
            };
            let what = format!("reading {name}");
            let read = ArmResource::deserialize(one).map_err(|error| malformed(&what, &error))?;
            own.push((key, read));
        }
        Ok(own)
    }
}

impl Known {
    /// Takes in what was read, but for services that were written meanwhile.
    fn take_in(&mut self, read: BTreeMap<String, GatewayService>, foreign: ForeignServices) {
        let disturbed = self.disturbed.take().unwrap_or_default();
        let before = std::mem::take(&mut self.services);
        let is_kept = |name: &String| disturbed.contains(name);
        self.services = read
            .into_iter()
            .filter(|(name, _)| !is_kept(name))
            .collect();
        let kept = before.into_iter().filter(|(name, _)| is_kept(name));
        self.services.extend(kept);
        // A service without anything behind it gets no addresses.
        self.services.retain(|_, service| {
            let properties = &service.properties;
            let has_pool = !properties.load_balancer_backend_pools.is_empty();
            has_pool || properties.public_nat_gateway_id.is_some()
        });
        self.foreign = Arc::new(foreign);
    }
}

/// How a balancer stands. Its digest is told only if all of it stands as it was last sent.
fn held(
    settings: &AzureSettings,
    key: &BalancerKey,
    standing: &Standing,
    services: &BTreeMap<String, GatewayService>,
) -> Option<HeldBalancer> {
    let names = Names::of(key).ok()?;
    let Standing {
        balancer,
        gateway,
        ips,
    } = standing;
    let mut used: Vec<String> = Vec::new();
    let (spec, wanted) = match key {
        BalancerKey::Service(_) => {
            let balancer = balancer.as_ref().filter(|one| inbound::is_intact(one));
            let frontends = balancer.iter().flat_map(|one| &one.properties.frontends);
            used.extend(frontends.map(|one| one.properties.public_ip.id.clone()));
            let spec = balancer.and_then(|one| tag(&one.tags, SPEC_TAG));
            (spec, inbound_service(settings, &names))
        }
        BalancerKey::Egress(_) => {
            let gateway = gateway.as_ref().filter(|one| egress::is_intact(one));
            let properties = gateway.map(|one| &one.properties);
            let v4 = properties.iter().flat_map(|one| &one.public_ips);
            let v6 = properties.iter().flat_map(|one| &one.public_ips_v6);
            used.extend(v4.chain(v6).map(|one| one.id.clone()));
            let spec = gateway.and_then(|one| tag(&one.tags, SPEC_TAG));
            (spec, outbound_service(settings, &names))
        }
    };
    let used: BTreeSet<String> = used.iter().map(|id| id.to_ascii_lowercase()).collect();
    let addresses: BTreeMap<&String, IpAddr> = ips
        .iter()
        .filter_map(|(id, ip)| Some((id, address(ip)?)))
        .collect();
    let service = services.get(&names.service);
    let is_whole = used.iter().eq(addresses.keys().copied())
        && addresses.len() == ips.len()
        && service.is_some_and(|one| is_registered(one, &wanted));
    let mut shown: Vec<IpAddr> = addresses.into_values().collect();
    shown.sort();
    Some(HeldBalancer {
        frontage: Frontage {
            addresses: shown,
            hostname: None,
        },
        digest: spec.filter(|_| is_whole).map(str::to_owned),
    })
}

/// What addresses are bound to of ours, and of others.
fn bindings(
    locations: Vec<LocationEntry>,
    owners: &BTreeMap<String, BalancerKey>,
) -> (BTreeMap<IpAddr, Bindings>, ForeignServices) {
    let mut ours: BTreeMap<IpAddr, Vec<Binding>> = BTreeMap::new();
    let mut foreign = ForeignServices::new();
    for entry in locations {
        let Ok(location) = entry.address_location.parse::<IpAddr>() else {
            continue;
        };
        let location = location.to_canonical();
        for one in entry.addresses {
            let Ok(address) = one.address.parse::<IpAddr>() else {
                continue;
            };
            let address = address.to_canonical();
            for name in one.services {
                if let Some(key) = owners.get(&name.to_ascii_lowercase()) {
                    ours.entry(address).or_default().push(Binding {
                        location: Some(location),
                        balancer: key.clone(),
                        targets: [].into(),
                    });
                } else {
                    let others = foreign.entry((location, address)).or_default();
                    others.insert(name);
                }
            }
        }
    }
    let ours = ours.into_iter();
    let ours = ours.map(|(address, all)| (address, all.into_iter().collect()));
    (ours.collect(), foreign)
}

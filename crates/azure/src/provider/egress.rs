//! NAT gateways of labels: public IPs, a NAT gateway, and a service at the gateway.

use std::net::IpAddr;

use bindery_core::balancers::{BalancerKey, Family};
use bindery_core::{Fault, FaultKind};
use futures::try_join;

use super::{AzureBalancer, Found, is_done, keep_tags, not_addresses};
use crate::names::{Names, SHAPE_TAG, SPEC_TAG, foreign, tag};
use crate::shape::{
    detached, nat_gateway, nat_gateway_shape, nat_path, outbound_service, public_ip_path,
};
use crate::wire::{NatGateway, PublicIp};

/// Everything that stands for a label.
struct FoundGateway {
    gateway: Found<NatGateway>,
    ip: Found<PublicIp>,
    ip_v6: Found<PublicIp>,
}

impl AzureBalancer {
    /// Makes a NAT gateway with a public IP of each family. What stands as wanted is not sent again.
    pub(super) async fn write_egress(
        &self,
        key: &BalancerKey,
        names: &Names,
        families: &[Family],
        digest: &str,
    ) -> Result<Vec<IpAddr>, Fault> {
        let families = if families.is_empty() {
            &[Family::V4]
        } else {
            families
        };
        let found = self.find_gateway(key, names).await?;
        self.check_service(&found, names)?;
        let FoundGateway { gateway, ip, ip_v6 } = found;
        let cluster = &self.settings.cluster;
        let gateway = gateway.ours("NAT gateway", &names.service, cluster)?;
        let (v4, v6) = try_join!(
            self.write_family(key, (&names.public_ip, Family::V4), families, ip),
            self.write_family(key, (&names.public_ip_v6, Family::V6), families, ip_v6),
        )?;
        let mut wanted = nat_gateway(&self.settings, key, names, families, digest);
        if !gateway.as_ref().is_some_and(|one| is_same(one, &wanted)) {
            keep_tags(&mut wanted, gateway.as_ref());
            let path = nat_path(&self.settings, names);
            let _: NatGateway = self.arm.write(&path, &wanted).await?;
        }
        self.register(outbound_service(&self.settings, names))
            .await?;
        for (name, address) in [(&names.public_ip, &v4), (&names.public_ip_v6, &v6)] {
            if let Wished::Unneeded = address {
                let path = public_ip_path(&self.settings, name);
                self.arm.remove(&path).await?;
            }
        }
        let of = |family: &Family| match family {
            Family::V4 => v4.address(),
            Family::V6 => v6.address(),
        };
        Ok(families.iter().filter_map(of).collect())
    }

    /// Removes a NAT gateway with what was made for it. Public IPs go last: as long as one is there, its tags tell
    /// that there is something left.
    pub(super) async fn remove_egress(
        &self,
        key: &BalancerKey,
        names: &Names,
    ) -> Result<(), Fault> {
        let FoundGateway { gateway, ip, ip_v6 } = self.find_gateway(key, names).await?;
        let has_something = gateway.is_ours() || ip.is_ours() || ip_v6.is_ours();
        // A NAT gateway of somebody else has a service of somebody else.
        if has_something && !gateway.is_foreign() {
            let service = detached(&outbound_service(&self.settings, names));
            self.note(&names.service, None);
            match self.gateway.write_service(service.clone()).await {
                Ok(()) => {}
                // There is no gateway any more.
                Err(fault) if fault.kind == FaultKind::Missing => {}
                Err(fault) => return Err(not_addresses(fault)),
            }
            let path = nat_path(&self.settings, names);
            if let Found::Ours(mut gateway) = gateway {
                if gateway.properties.gateway.take().is_some() {
                    let written = self.arm.write(&path, &gateway).await;
                    let _: NatGateway = written.map_err(not_addresses)?;
                }
                self.gateway.remove_service(service).await?;
                self.arm.remove(&path).await.map_err(not_addresses)?;
            } else {
                self.gateway.remove_service(service).await?;
            }
        }
        for (name, found) in [(&names.public_ip, &ip), (&names.public_ip_v6, &ip_v6)] {
            if found.is_ours() {
                let path = public_ip_path(&self.settings, name);
                self.arm.remove(&path).await.map_err(not_addresses)?;
            }
        }
        Ok(())
    }

    async fn find_gateway(&self, key: &BalancerKey, names: &Names) -> Result<FoundGateway, Fault> {
        let path = nat_path(&self.settings, names);
        let (gateway, ip, ip_v6) = try_join!(
            self.find(key, &names.service, &path),
            self.find_public_ip(key, &names.public_ip),
            self.find_public_ip(key, &names.public_ip_v6),
        )?;
        Ok(FoundGateway { gateway, ip, ip_v6 })
    }

    /// A label may be the name of a service that somebody else has at the gateway.
    fn check_service(&self, found: &FoundGateway, names: &Names) -> Result<(), Fault> {
        let FoundGateway { gateway, ip, ip_v6 } = found;
        let is_begun = gateway.is_ours() || ip.is_ours() || ip_v6.is_ours();
        let is_there = self.known().services.contains_key(&names.service);
        if is_there && !is_begun {
            let (name, cluster) = (&names.service, &self.settings.cluster);
            return Err(foreign("service at the gateway", name, cluster));
        }
        Ok(())
    }

    async fn write_family(
        &self,
        key: &BalancerKey,
        (name, family): (&str, Family),
        families: &[Family],
        found: Found<PublicIp>,
    ) -> Result<Wished, Fault> {
        if families.contains(&family) {
            let address = self.write_public_ip(key, (name, family), found).await?;
            return Ok(Wished::Address(address));
        }
        Ok(if found.is_ours() {
            Wished::Unneeded
        } else {
            Wished::Nothing
        })
    }
}

/// What is to be with the public IP of a family.
enum Wished {
    Nothing,
    /// It is there and is to go, once nothing uses it.
    Unneeded,
    Address(IpAddr),
}

impl Wished {
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Nothing | Self::Unneeded => None,
        }
    }
}

/// Whether a NAT gateway stands as it was last sent, whatever is wanted now.
pub(super) fn is_intact(gateway: &NatGateway) -> bool {
    let shape = nat_gateway_shape(gateway);
    is_done(&gateway.properties.state) && tag(&gateway.tags, SHAPE_TAG) == Some(&shape)
}

fn is_same(stands: &NatGateway, wanted: &NatGateway) -> bool {
    let same = |name: &str| tag(&stands.tags, name) == tag(&wanted.tags, name);
    is_intact(stands) && same(SHAPE_TAG) && same(SPEC_TAG)
}

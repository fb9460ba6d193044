//! Load balancers of Services: a public IP, a load balancer, and a service at the gateway.

use std::net::IpAddr;

use bindery_core::balancers::{BalancerKey, Family, Front};
use bindery_core::{Fault, FaultKind};
use futures::try_join;

use super::{AzureBalancer, Found, is_done, keep_tags, not_addresses};
use crate::names::{Names, SHAPE_TAG, SPEC_TAG, tag};
use crate::shape::{
    balancer_path, detached, inbound_service, load_balancer, load_balancer_shape, public_ip_path,
};
use crate::wire::AzureLoadBalancer;

impl AzureBalancer {
    /// Makes a load balancer what its front says. What stands as wanted is not sent again.
    pub(super) async fn write_inbound(
        &self,
        key: &BalancerKey,
        names: &Names,
        front: &Front,
        digest: &str,
    ) -> Result<Vec<IpAddr>, Fault> {
        let (ip, balancer) = try_join!(
            self.find_public_ip(key, &names.public_ip),
            self.find_balancer(key, names),
        )?;
        let balancer = balancer.ours("load balancer", &names.service, &self.settings.cluster)?;
        let family = front.families.first().copied().unwrap_or(Family::V4);
        let place = (names.public_ip.as_str(), family);
        let address = self.write_public_ip(key, place, ip).await?;
        let mut wanted = load_balancer(&self.settings, key, names, front, digest);
        if !balancer.as_ref().is_some_and(|one| is_same(one, &wanted)) {
            keep_tags(&mut wanted, balancer.as_ref());
            let path = balancer_path(&self.settings, names);
            let _: AzureLoadBalancer = self.arm.write(&path, &wanted).await?;
        }
        self.register(inbound_service(&self.settings, names))
            .await?;
        Ok(vec![address])
    }

    /// Removes a load balancer with what was made for it. The public IP goes last: as long as it is there, its tags
    /// tell that there is something left.
    pub(super) async fn remove_inbound(
        &self,
        key: &BalancerKey,
        names: &Names,
    ) -> Result<(), Fault> {
        let (ip, balancer) = try_join!(
            self.find_public_ip(key, &names.public_ip),
            self.find_balancer(key, names),
        )?;
        let service = detached(&inbound_service(&self.settings, names));
        let has_something = balancer.is_ours() || ip.is_ours();
        // A load balancer of somebody else has a service of somebody else.
        if !balancer.is_foreign() {
            self.note(&names.service, None);
            // To detach a service that is gone would make it again, and nothing would tell that it is ours.
            if has_something {
                match self.gateway.write_service(service.clone()).await {
                    Ok(()) => {}
                    // There is no gateway any more.
                    Err(fault) if fault.kind == FaultKind::Missing => {}
                    Err(fault) => return Err(not_addresses(fault)),
                }
            }
            if balancer.is_ours() {
                let path = balancer_path(&self.settings, names);
                self.arm.remove(&path).await.map_err(not_addresses)?;
            }
            self.gateway.remove_service(service).await?;
        }
        if ip.is_ours() {
            let path = public_ip_path(&self.settings, &names.public_ip);
            self.arm.remove(&path).await.map_err(not_addresses)?;
        }
        Ok(())
    }

    async fn find_balancer(
        &self,
        key: &BalancerKey,
        names: &Names,
    ) -> Result<Found<AzureLoadBalancer>, Fault> {
        let path = balancer_path(&self.settings, names);
        self.find(key, &names.service, &path).await
    }
}

/// Whether a load balancer stands as it was last sent, whatever is wanted now.
pub(super) fn is_intact(balancer: &AzureLoadBalancer) -> bool {
    let shape = load_balancer_shape(balancer);
    is_done(&balancer.properties.state) && tag(&balancer.tags, SHAPE_TAG) == Some(&shape)
}

fn is_same(stands: &AzureLoadBalancer, wanted: &AzureLoadBalancer) -> bool {
    let same = |name: &str| tag(&stands.tags, name) == tag(&wanted.tags, name);
    is_intact(stands) && same(SHAPE_TAG) && same(SPEC_TAG)
}

//! Pods that are gone, and for whose addresses somebody waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{BalancerKey, Balancers, EndpointsKey};

/// Pods that are gone, with the addresses that may still be bound to their gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct LeavingPods {
    pods: BTreeMap<EndpointsKey, LeavingPod>,
    by_address: BTreeMap<IpAddr, BTreeSet<EndpointsKey>>,
}

#[derive(Clone, Debug)]
struct LeavingPod {
    /// `None` where nobody knows: then it is every gateway.
    gateway: Option<BalancerKey>,
    addresses: BTreeSet<IpAddr>,
    /// Nobody knows which addresses it had.
    had_none: bool,
}

impl LeavingPods {
    pub(super) fn add(
        &mut self,
        key: &EndpointsKey,
        gateway: Option<BalancerKey>,
        addresses: BTreeSet<IpAddr>,
    ) {
        let pod = LeavingPod {
            gateway,
            had_none: addresses.is_empty(),
            addresses: BTreeSet::new(),
        };
        self.pods.insert(key.clone(), pod);
        self.wait_for(key, addresses);
    }

    pub(super) fn forget(&mut self, key: &EndpointsKey) {
        let Some(pod) = self.pods.remove(key) else {
            return;
        };
        for address in pod.addresses {
            self.forget_at(key, address);
        }
    }

    /// Every pod that somebody waits for.
    pub(super) fn pods(&self) -> Vec<EndpointsKey> {
        self.pods.keys().cloned().collect()
    }

    fn wait_for(&mut self, key: &EndpointsKey, addresses: BTreeSet<IpAddr>) {
        for address in &addresses {
            let pods = self.by_address.entry(*address).or_default();
            pods.insert(key.clone());
        }
        if let Some(pod) = self.pods.get_mut(key) {
            pod.addresses = addresses;
        }
    }

    fn forget_at(&mut self, key: &EndpointsKey, address: IpAddr) {
        if let Some(pods) = self.by_address.get_mut(&address) {
            pods.remove(key);
            if pods.is_empty() {
                self.by_address.remove(&address);
            }
        }
        if let Some(pod) = self.pods.get_mut(key) {
            pod.addresses.remove(&address);
        }
    }
}

impl Balancers {
    /// An address may have left its gateway: pods that waited for that are released.
    pub(super) fn look_at_leaving(&mut self, address: IpAddr) {
        if !self.reading.is_read() {
            return;
        }
        let pods = self.leaving.by_address.get(&address);
        for key in pods.cloned().unwrap_or_default() {
            let Some(pod) = self.leaving.pods.get(&key) else {
                continue;
            };
            if !self.is_left_behind(address, pod.gateway.as_ref()) {
                self.leaving.forget_at(&key, address);
                self.release_if_done(&key);
            }
        }
    }

    /// A pod may have nothing left behind.
    pub(super) fn look_at_pod(&mut self, key: &EndpointsKey) {
        if !self.reading.is_read() {
            return;
        }
        let Some(pod) = self.leaving.pods.get(key) else {
            return;
        };
        let (gateway, had_none) = (pod.gateway.clone(), pod.had_none);
        let mut addresses = pod.addresses.clone();
        if had_none {
            let gateway = gateway.as_ref();
            addresses.extend(
                gateway
                    .into_iter()
                    .flat_map(|one| self.standing.children(one)),
            );
            addresses.retain(|address| self.is_left_behind(*address, gateway));
            self.leaving.wait_for(key, addresses.clone());
        }
        for address in addresses {
            self.look_at_leaving(address);
        }
        self.release_if_done(key);
    }

    /// Whether an address is bound to a gateway, or may be, for no pod that is there. Where another pod has
    /// the address by now, what is bound is that one's.
    fn is_left_behind(&self, address: IpAddr, gateway: Option<&BalancerKey>) -> bool {
        let is_its = |key: &BalancerKey| match gateway {
            Some(gateway) => key == gateway,
            None => matches!(key, BalancerKey::Egress(_)),
        };
        let asked = self.book.bindings(address, is_its);
        let mut bound = self.standing.parents(&address).filter(|key| is_its(key));
        bound.any(|key| asked.iter().all(|one| one.balancer != *key))
    }

    fn release_if_done(&mut self, key: &EndpointsKey) {
        let pod = self.leaving.pods.get(key);
        if pod.is_some_and(|pod| pod.addresses.is_empty()) {
            self.leaving.forget(key);
            self.released.push(key.clone());
        }
    }
}

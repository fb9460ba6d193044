//! Services and pods as they were last seen, and what was told of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_core::balancers::{BalancerKey, BalancerReport, EndpointsKey};
use bindery_core::tracker::Phase;
use bindery_sources::balancers::EgressPod;
use k8s_openapi::api::core::v1::{Pod, Service};

use super::BalancerObject;
use super::names::is_published;

/// Everything that is kept.
#[derive(Default)]
pub(super) struct Seen {
    /// Services that have, or had, a balancer of ours.
    services: BTreeMap<BalancerObject, SeenService>,
    /// The Service of each balancer.
    places: BTreeMap<BalancerKey, BalancerObject>,
    /// Pods with a gateway.
    pods: BTreeMap<BalancerObject, SeenPod>,
    pod_places: BTreeMap<EndpointsKey, BalancerObject>,
    /// Pods whose addresses are bound to nothing any more.
    released: BTreeSet<EndpointsKey>,
    /// Services that somebody took away past our finalizer, and whose names may be left: their UIDs.
    left: BTreeMap<BalancerObject, String>,
}

/// A Service.
pub(super) struct SeenService {
    pub(super) object: Arc<Service>,
    pub(super) key: BalancerKey,
    /// Its balancer was told to go, and may not be declared again as long as it leaves.
    pub(super) is_retired: bool,
    pub(super) report: Option<BalancerReport>,
    /// What was last told by an Event.
    pub(super) told: BTreeSet<String>,
}

/// A pod.
pub(super) struct SeenPod {
    pub(super) object: Arc<Pod>,
    pub(super) egress: EgressPod,
    /// It has the label, so that a watch tells what becomes of it.
    pub(super) is_watched: bool,
}

impl Seen {
    pub(super) fn service(&self, place: &BalancerObject) -> Option<&SeenService> {
        self.services.get(place)
    }

    pub(super) fn service_mut(&mut self, place: &BalancerObject) -> Option<&mut SeenService> {
        self.services.get_mut(place)
    }

    pub(super) fn pod(&self, place: &BalancerObject) -> Option<&SeenPod> {
        self.pods.get(place)
    }

    pub(super) fn is_released(&self, key: &EndpointsKey) -> bool {
        self.released.contains(key)
    }

    /// Takes in a Service with a balancer; returns the balancer of another Service that had its name.
    pub(super) fn put_service(
        &mut self,
        place: &BalancerObject,
        key: &BalancerKey,
        object: Arc<Service>,
    ) -> Option<BalancerKey> {
        let before = match self.services.get_mut(place) {
            Some(known) if known.key == *key => {
                known.object = object;
                return None;
            }
            Some(known) => Some(known.key.clone()),
            None => None,
        };
        self.services.insert(
            place.clone(),
            SeenService {
                object,
                key: key.clone(),
                is_retired: false,
                report: None,
                told: BTreeSet::new(),
            },
        );
        self.places.insert(key.clone(), place.clone());
        before
    }

    /// A Service is gone, or has nothing to do with us; returns its balancer.
    pub(super) fn drop_service(&mut self, place: &BalancerObject) -> Option<BalancerKey> {
        let known = self.services.remove(place)?;
        self.places.remove(&known.key);
        if is_published(&known.object) {
            let uid = known.object.metadata.uid.clone();
            self.left.insert(place.clone(), uid.unwrap_or_default());
        }
        Some(known.key)
    }

    /// The UID of a Service that somebody took away, and whose names may be left.
    pub(super) fn left(&self, place: &BalancerObject) -> Option<String> {
        self.left.get(place).cloned()
    }

    /// The names of a Service that somebody took away are gone.
    pub(super) fn forget_left(&mut self, place: &BalancerObject) {
        self.left.remove(place);
    }

    /// Takes in how a balancer is; returns its Service.
    pub(super) fn take_report(&mut self, report: BalancerReport) -> Option<BalancerObject> {
        let place = self.places.get(&report.key)?.clone();
        let service = self.services.get_mut(&place)?;
        // That nothing is left counts only for who was told to go.
        if report.phase != Phase::Gone || service.is_retired {
            service.report = Some(report);
        }
        Some(place)
    }

    /// A pod has no gateway any more; returns what is known of it.
    pub(super) fn lose_pod(
        &mut self,
        place: &BalancerObject,
        version: Option<String>,
    ) -> Option<EgressPod> {
        let pod = self.pods.get_mut(place)?;
        pod.egress.group = None;
        pod.is_watched = false;
        if version.is_some() {
            let mut object = (*pod.object).clone();
            object.metadata.resource_version = version;
            pod.object = Arc::new(object);
        }
        Some(pod.egress.clone())
    }

    pub(super) fn put_pod(&mut self, place: &BalancerObject, object: Arc<Pod>, egress: EgressPod) {
        let known = self.pods.get(place).map(|one| one.egress.key.clone());
        if known.is_some_and(|known| known != egress.key) {
            self.drop_pod(place);
        }
        self.pod_places.insert(egress.key.clone(), place.clone());
        let is_watched = !egress.label.is_empty();
        let pod = SeenPod {
            object,
            egress,
            is_watched,
        };
        self.pods.insert(place.clone(), pod);
    }

    /// What has become of a pod that no watch tells of.
    pub(super) fn refresh_pod(&mut self, place: &BalancerObject, object: Pod) {
        let Some(pod) = self.pods.get_mut(place).filter(|pod| !pod.is_watched) else {
            return;
        };
        if pod.object.metadata.uid == object.metadata.uid {
            pod.object = Arc::new(object);
        } else {
            self.drop_pod(place);
        }
    }

    pub(super) fn drop_pod(&mut self, place: &BalancerObject) -> Option<EndpointsKey> {
        let known = self.pods.remove(place)?;
        self.pod_places.remove(&known.egress.key);
        self.released.remove(&known.egress.key);
        Some(known.egress.key)
    }

    pub(super) fn take_released(&mut self, key: EndpointsKey) -> Option<BalancerObject> {
        let place = self.pod_places.get(&key)?.clone();
        self.released.insert(key);
        Some(place)
    }

    /// A pod has a gateway again.
    pub(super) fn unrelease(&mut self, key: &EndpointsKey) {
        self.released.remove(key);
    }
}

//! The Service Gateway: services are registered many at a time, and addresses get their services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bindery_core::balancers::AddressChange;
use bindery_core::{Fault, FaultKind};
use tokio::sync::oneshot;

use crate::arm::Arm;
use crate::names::service_name;
use crate::settings::AzureSettings;
use crate::wire::{
    AddressEntry, GatewayService, LocationEntry, LocationsUpdate, PARTIAL, ServiceRequest,
    ServicesUpdate,
};

/// Services in one request: an entry takes about 700 bytes, so that it is of 70 kB.
const SERVICES_MAX: usize = 100;

/// A client of one gateway.
pub(crate) struct Gateway {
    arm: Arc<Arm>,
    path: String,
    /// Changes of services that wait for the next request.
    waiting: Mutex<Vec<WaitingService>>,
    /// Held while a request is on its way; meanwhile the next one gathers.
    turn: tokio::sync::Mutex<()>,
}

struct WaitingService {
    request: ServiceRequest,
    answer: oneshot::Sender<Result<(), Fault>>,
}

/// What somebody else has at an address: it stays whatever we change there.
pub(crate) type ForeignServices = BTreeMap<(IpAddr, IpAddr), BTreeSet<String>>;

impl Gateway {
    pub(crate) fn new(arm: Arc<Arm>, settings: &AzureSettings) -> Self {
        Self {
            arm,
            path: settings.gateway_path(""),
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Every service.
    pub(crate) async fn fetch_services(&self) -> Result<Vec<GatewayService>, Fault> {
        let path = format!("{}/services", self.path);
        self.arm.fetch_list(&path).await
    }

    /// Every location with its addresses.
    pub(crate) async fn fetch_locations(&self) -> Result<Vec<LocationEntry>, Fault> {
        let path = format!("{}/addressLocations", self.path);
        self.arm.fetch_list(&path).await
    }

    /// Registers a service, or changes what it is bound to. Where several wait, one request has them all.
    ///
    /// Cancellation: dropped, it may be done by others that wait.
    pub(crate) async fn write_service(&self, service: GatewayService) -> Result<(), Fault> {
        let is_delete = false;
        self.write(ServiceRequest { is_delete, service }).await
    }

    /// Takes a service out; one that is not there is no fault.
    ///
    /// Cancellation: dropped, it may be done by others that wait.
    pub(crate) async fn remove_service(&self, service: GatewayService) -> Result<(), Fault> {
        let is_delete = true;
        match self.write(ServiceRequest { is_delete, service }).await {
            Err(fault) if fault.kind == FaultKind::Missing => Ok(()),
            done => done,
        }
    }

    /// Gives addresses the services that they are to have.
    ///
    /// Cancellation: dropped, it may be done.
    pub(crate) async fn write_addresses(
        &self,
        changes: &[AddressChange],
        foreign: &ForeignServices,
    ) -> Result<(), Fault> {
        let update = locations_update(changes, foreign);
        if update.address_locations.is_empty() {
            return Ok(());
        }
        let path = format!("{}/updateAddressLocations", self.path);
        self.arm.ask(&path, &update).await
    }

    async fn write(&self, request: ServiceRequest) -> Result<(), Fault> {
        let (sender, mut answer) = oneshot::channel();
        self.waiting().push(WaitingService {
            request,
            answer: sender,
        });
        let turn = tokio::select! {
            biased;
            answered = &mut answer => return answered.unwrap_or_else(|_| Err(unanswered())),
            turn = self.turn.lock() => turn,
        };
        loop {
            if let Ok(answered) = answer.try_recv() {
                drop(turn);
                return answered;
            }
            let batch: Vec<WaitingService> = {
                let mut waiting = self.waiting();
                let len = waiting.len().min(SERVICES_MAX);
                waiting.drain(..len).collect()
            };
            if batch.is_empty() {
                // Whoever took ours was dropped.
                return Err(unanswered());
            }
            self.write_batch(batch).await;
        }
    }

    /// Sends changes; where one of them may have caused a refusal, they are halved until it stands alone.
    async fn write_batch(&self, batch: Vec<WaitingService>) {
        let path = format!("{}/updateServices", self.path);
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            let requests: Vec<ServiceRequest> =
                part.iter().map(|one| one.request.clone()).collect();
            let update = ServicesUpdate {
                action: PARTIAL,
                service_requests: &requests,
            };
            let answer = self.arm.ask(&path, &update).await;
            let may_be_one = answer.as_ref().is_err_and(|fault| {
                let is_missing = fault.kind == FaultKind::Missing;
                is_missing || fault.kind.may_be_one_child()
            });
            if may_be_one && part.len() > 1 {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
                continue;
            }
            for one in part {
                // Who asked may have left.
                let _ = one.answer.send(answer.clone());
            }
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<WaitingService>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request for all changes: each location once, each address in it once.
fn locations_update(changes: &[AddressChange], foreign: &ForeignServices) -> LocationsUpdate {
    let mut locations: BTreeMap<IpAddr, BTreeMap<IpAddr, BTreeSet<String>>> = BTreeMap::new();
    for change in changes {
        let address = change.address.to_canonical();
        let stood = change.stood.iter().map(|one| (one.location, None));
        let wanted = change.wanted.iter();
        let wanted = wanted.map(|one| (one.location, Some(service_name(&one.balancer))));
        for (location, service) in stood.chain(wanted) {
            let Some(location) = location.map(|one| one.to_canonical()) else {
                continue;
            };
            let kept = || foreign.get(&(location, address)).cloned();
            let addresses = locations.entry(location).or_default();
            let services = addresses.entry(address);
            let services = services.or_insert_with(|| kept().unwrap_or_default());
            services.extend(service);
        }
    }
    let entries = locations.into_iter().map(|(location, addresses)| {
        let addresses = addresses
            .into_iter()
            .map(|(address, services)| AddressEntry {
                address: address.to_string(),
                services: services.into_iter().collect(),
            });
        LocationEntry {
            address_location: location.to_string(),
            address_update_action: PARTIAL.to_owned(),
            addresses: addresses.collect(),
        }
    });
    LocationsUpdate {
        action: PARTIAL,
        address_locations: entries.collect(),
    }
}

/// Nobody says what became of a change.
fn unanswered() -> Fault {
    Fault::new(
        FaultKind::Lost,
        "nobody can tell whether the gateway did it",
    )
}

#[cfg(test)]
mod tests {
    use bindery_core::balancers::{BalancerKey, Binding, Bindings};

    use super::*;

    fn binding(location: &str, balancer: BalancerKey) -> Binding {
        Binding {
            location: location.parse().ok(),
            balancer,
            targets: [].into(),
        }
    }

    fn change(address: &str, stood: Vec<Binding>, wanted: Vec<Binding>) -> AddressChange {
        AddressChange {
            address: address.parse().expect("an address"),
            stood: stood.into_iter().collect::<Bindings>(),
            wanted: wanted.into_iter().collect::<Bindings>(),
        }
    }

    #[test]
    fn a_request_has_each_location_once_and_empties_in_words() {
        let web = || BalancerKey::Service("UID-1".into());
        let out = || BalancerKey::Egress("team-a".into());
        let changes = [
            change(
                "10.0.0.1",
                vec![],
                vec![binding("192.0.2.1", web()), binding("192.0.2.1", out())],
            ),
            // It moved from one node to another.
            change(
                "10.0.0.2",
                vec![binding("192.0.2.1", web())],
                vec![binding("192.0.2.2", web())],
            ),
            change("2001:db8::1", vec![binding("2001:db8:1::1", web())], vec![]),
        ];
        let place = |location: &str, address: &str| {
            let parsed = (location.parse(), address.parse());
            (parsed.0.expect("an address"), parsed.1.expect("an address"))
        };
        let foreign = ForeignServices::from([(
            place("192.0.2.1", "10.0.0.2"),
            BTreeSet::from(["theirs".to_owned()]),
        )]);
        let update = locations_update(&changes, &foreign);
        let text = serde_json::to_value(update).expect("it is plain");
        let wanted = serde_json::json!({
            "action": "PartialUpdate",
            "addressLocations": [
                {"addressLocation": "192.0.2.1", "addressUpdateAction": "PartialUpdate", "addresses": [
                    {"address": "10.0.0.1", "services": ["team-a", "uid-1"]},
                    {"address": "10.0.0.2", "services": ["theirs"]},
                ]},
                {"addressLocation": "192.0.2.2", "addressUpdateAction": "PartialUpdate", "addresses": [
                    {"address": "10.0.0.2", "services": ["uid-1"]},
                ]},
                {"addressLocation": "2001:db8:1::1", "addressUpdateAction": "PartialUpdate", "addresses": [
                    {"address": "2001:db8::1", "services": []},
                ]},
            ],
        });
        assert_eq!(text, wanted);
    }
}

//! The provider: balancers of the engine as resources of Azure.

mod egress;
mod inbound;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bindery_core::balancers::{
    AddressChange, AddressOutcome, BalancerKey, BalancerLimits, BalancerSpec, Family, Frontage,
    Holdings,
};
use bindery_core::{Fault, FaultKind, Problem};
use bindery_engine::balancing::LoadBalancer;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::admission;
use crate::arm::Arm;
use crate::gateway::{ForeignServices, Gateway};
use crate::names::{Names, foreign, owner, service_name};
use crate::settings::{AzureSettings, AzureSetupError};
use crate::shape::{is_registered, public_ip, public_ip_path};
use crate::transport::{AzureTransport, AzureWire};
use crate::wire::{ArmProgress, ArmResource, GatewayService, PublicIp};

/// Addresses in one request: each takes about 100 bytes, so that it is of 100 kB.
const CHUNK_LEN_MAX: usize = 1000;
/// Balancers that are worked on at the same time. Each waits for operations that take seconds; where Azure throttles, the
/// engine works on fewer.
const BALANCERS_MAX: usize = 20;

/// Load balancers and NAT gateways of Azure.
pub struct AzureBalancer {
    settings: AzureSettings,
    arm: Arc<Arm>,
    gateway: Gateway,
    known: Mutex<Known>,
}

/// What is known of the gateway.
#[derive(Default)]
struct Known {
    /// Its services by name, as they were last read or written.
    services: BTreeMap<String, GatewayService>,
    /// What others have at addresses.
    foreign: Arc<ForeignServices>,
    /// Services that were written while everything is read, so that the read says nothing of them.
    disturbed: Option<BTreeSet<String>>,
}

/// What stands where a resource of ours is to be.
enum Found<T> {
    Nothing,
    Ours(T),
    Foreign,
}

impl AzureBalancer {
    /// A provider; nothing is sent yet.
    ///
    /// # Errors
    /// If settings are wrong.
    pub fn new(settings: AzureSettings) -> Result<Self, AzureSetupError> {
        let arm = Arm::new(&settings)?;
        Self::with(settings, arm)
    }

    /// A provider whose requests go over this wire; nothing is sent yet.
    ///
    /// # Errors
    /// If settings are wrong.
    pub fn over(
        settings: AzureSettings,
        wire: Arc<dyn AzureWire>,
    ) -> Result<Self, AzureSetupError> {
        let transport = AzureTransport::over(wire, &settings.times);
        let arm = Arm::over(transport, &settings);
        Self::with(settings, arm)
    }

    fn with(settings: AzureSettings, arm: Arm) -> Result<Self, AzureSetupError> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(AzureSetupError::Settings { problems });
        }
        let arm = Arc::new(arm);
        Ok(Self {
            gateway: Gateway::new(Arc::clone(&arm), &settings),
            arm,
            settings,
            known: Mutex::default(),
        })
    }

    /// The name of its gateway.
    #[must_use]
    pub fn gateway(&self) -> &str {
        &self.settings.service_gateway
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands at a path.
    async fn find<P: DeserializeOwned + Default>(
        &self,
        key: &BalancerKey,
        name: &str,
        path: &str,
    ) -> Result<Found<ArmResource<P>>, Fault> {
        let found: Option<ArmResource<P>> = self.arm.fetch(path).await?;
        Ok(match found {
            None => Found::Nothing,
            Some(one) if owner(&self.settings.cluster, name, &one.tags).as_ref() == Some(key) => {
                Found::Ours(one)
            }
            Some(_) => Found::Foreign,
        })
    }

    async fn find_public_ip(
        &self,
        key: &BalancerKey,
        name: &str,
    ) -> Result<Found<PublicIp>, Fault> {
        let path = public_ip_path(&self.settings, name);
        self.find(key, name, &path).await
    }

    /// The address of a public IP, which is made where it is not there.
    async fn write_public_ip(
        &self,
        key: &BalancerKey,
        (name, family): (&str, Family),
        found: Found<PublicIp>,
    ) -> Result<IpAddr, Fault> {
        let found = found.ours("public IP", name, &self.settings.cluster)?;
        let other = found
            .as_ref()
            .map(|ip| ip.properties.version.as_str())
            .filter(|version| !version.eq_ignore_ascii_case(&family.to_string()));
        if let Some(version) = other {
            let text = format!("public IP {name} is {version} and cannot become {family}");
            return Err(Fault::new(FaultKind::Invalid, text));
        }
        let standing = found.as_ref().filter(|ip| is_done(&ip.properties.state));
        if let Some(address) = standing.and_then(address) {
            return Ok(address);
        }
        let mut wanted = public_ip(&self.settings, key, family);
        keep_tags(&mut wanted, found.as_ref());
        let path = public_ip_path(&self.settings, name);
        let written: PublicIp = self.arm.write(&path, &wanted).await?;
        address(&written).ok_or_else(|| {
            let text = format!("public IP {name} has no address yet");
            Fault::new(FaultKind::ServerFailed, text)
        })
    }

    /// Has the gateway know a service as wanted.
    async fn register(&self, wanted: GatewayService) -> Result<(), Fault> {
        let name = wanted.name.clone();
        let stands = self.known().services.get(&name).cloned();
        if stands.is_some_and(|stands| is_registered(&stands, &wanted)) {
            return Ok(());
        }
        self.note(&name, None);
        self.gateway.write_service(wanted.clone()).await?;
        self.note(&name, Some(wanted));
        Ok(())
    }

    /// Notes what became of a service; nothing where that is not known.
    fn note(&self, name: &str, service: Option<GatewayService>) {
        let mut known = self.known();
        if let Some(disturbed) = &mut known.disturbed {
            disturbed.insert(name.to_owned());
        }
        match service {
            Some(service) => known.services.insert(name.to_owned(), service),
            None => known.services.remove(name),
        };
    }

    async fn write_removal(&self, key: &BalancerKey) -> Result<(), Fault> {
        // What Azure has no names for was never made.
        let Ok(names) = Names::of(key) else {
            return Ok(());
        };
        match key {
            BalancerKey::Service(_) => self.remove_inbound(key, &names).await,
            BalancerKey::Egress(_) => self.remove_egress(key, &names).await,
        }
    }

    async fn write_front(&self, key: &BalancerKey, spec: &BalancerSpec) -> Result<Frontage, Fault> {
        let names = Names::of(key)?;
        let digest = spec.digest();
        let addresses = match (key, spec) {
            (BalancerKey::Service(_), BalancerSpec::Inbound(front)) => {
                self.write_inbound(key, &names, front, &digest).await?
            }
            (BalancerKey::Egress(_), BalancerSpec::Egress(front)) => {
                self.write_egress(key, &names, &front.families, &digest)
                    .await?
            }
            (BalancerKey::Service(_) | BalancerKey::Egress(_), _) => {
                let text = format!("{key} asks for what is of another kind");
                return Err(Fault::new(FaultKind::Invalid, text));
            }
        };
        Ok(Frontage {
            addresses,
            hostname: None,
        })
    }

    async fn write_addresses(
        &self,
        changes: &[AddressChange],
    ) -> Result<Vec<AddressOutcome>, Fault> {
        let (ready, foreign): (Vec<bool>, Arc<ForeignServices>) = {
            let known = self.known();
            let is_ready = |change: &AddressChange| {
                let mut wanted = change.wanted.iter();
                wanted.all(|one| known.services.contains_key(&service_name(&one.balancer)))
            };
            let ready = changes.iter().map(is_ready).collect();
            (ready, Arc::clone(&known.foreign))
        };
        let marked = || changes.iter().zip(&ready);
        let sent: Vec<AddressChange> = marked()
            .filter(|(_, is_ready)| **is_ready)
            .map(|(change, _)| change.clone())
            .collect();
        self.gateway.write_addresses(&sent, &foreign).await?;
        let outcome = |(change, is_ready): (&AddressChange, &bool)| AddressOutcome {
            address: change.address,
            result: if *is_ready {
                Ok(())
            } else {
                let text = "the gateway does not have the service yet";
                Err(Fault::new(FaultKind::Missing, text))
            },
        };
        Ok(marked().map(outcome).collect())
    }
}

impl LoadBalancer for AzureBalancer {
    fn limits(&self) -> BalancerLimits {
        BalancerLimits {
            chunk_len_max: CHUNK_LEN_MAX,
            balancers_max: BALANCERS_MAX,
            needs_location: true,
            binds_ports: false,
            ..BalancerLimits::default()
        }
    }

    fn problems(&self, spec: &BalancerSpec) -> Vec<Problem> {
        admission::problems(spec)
    }

    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        _previous: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        // Azure gives no address back that was let go: what it has is kept with its public IP.
        Box::pin(self.write_front(key, spec))
    }

    fn remove<'a>(&'a self, key: &'a BalancerKey) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.write_removal(key))
    }

    fn bind<'a>(
        &'a self,
        changes: &'a [AddressChange],
    ) -> BoxFuture<'a, Result<Vec<AddressOutcome>, Fault>> {
        Box::pin(self.write_addresses(changes))
    }

    fn read(&self) -> BoxFuture<'_, Result<Holdings, Fault>> {
        Box::pin(self.fetch_holdings())
    }
}

impl<T> Found<T> {
    /// What is ours; what is not is a fault.
    fn ours(self, what: &str, name: &str, cluster: &str) -> Result<Option<T>, Fault> {
        match self {
            Self::Nothing => Ok(None),
            Self::Ours(one) => Ok(Some(one)),
            Self::Foreign => Err(foreign(what, name, cluster)),
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign)
    }
}

/// Tags that somebody else gave a resource stay.
fn keep_tags<P>(wanted: &mut ArmResource<P>, found: Option<&ArmResource<P>>) {
    for (name, value) in found.iter().flat_map(|one| &one.tags) {
        let ours = wanted.tags.keys().any(|key| key.eq_ignore_ascii_case(name));
        if !ours {
            wanted.tags.insert(name.clone(), value.clone());
        }
    }
}

fn is_done(state: &str) -> bool {
    ArmProgress::of(state) == ArmProgress::Done
}

fn address(ip: &PublicIp) -> Option<IpAddr> {
    ip.properties.address.as_deref()?.parse().ok()
}

/// A step of a removal before the service is taken out cannot fail because of addresses.
fn not_addresses(fault: Fault) -> Fault {
    if fault.kind == FaultKind::Conflict {
        let kind = FaultKind::Refused;
        return Fault { kind, ..fault };
    }
    fault
}

//! The provider of this machine: addresses from pools, forwarded by a data plane.

mod book;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bindery_core::balancers::{
    AddressChange, AddressOutcome, BalancerKey, BalancerLimits, BalancerSpec, Frontage,
    HeldBalancer, Holdings,
};
use bindery_core::pools::PoolReport;
use bindery_core::{Fault, FaultKind, Pool, Problem, Reason};
use bindery_engine::balancing::LoadBalancer;
use bindery_engine::pools::PoolKeeper;
use futures::future::BoxFuture;
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use self::book::{Book, Decided};
use crate::forwarding::DataPlane;

/// Addresses in one transaction of a data plane; the kernel takes many more.
const CHUNK_LEN_MAX: usize = 500;
/// Balancers that are worked on at the same time: more would only wait for the data plane.
const BALANCERS_MAX: usize = 16;

/// How long a first Service waits for pools to be read.
const POOLS_WAIT: Duration = Duration::from_secs(5);

/// The load balancers of this machine.
pub struct LocalBalancer {
    plane: Arc<dyn DataPlane>,
    /// Pools, addresses, and what is forwarded.
    book: std::sync::Mutex<Book>,
    /// What is decided is applied in the order of decisions.
    turn: Mutex<()>,
    changed: Notify,
    usage_changed: Notify,
    /// Cancelled when pools were told for the first time.
    pools_known: CancellationToken,
}

impl LocalBalancer {
    /// A provider with a data plane and no pools yet.
    #[must_use]
    pub fn new(plane: Arc<dyn DataPlane>) -> Self {
        Self {
            plane,
            book: std::sync::Mutex::default(),
            turn: Mutex::new(()),
            changed: Notify::new(),
            usage_changed: Notify::new(),
            pools_known: CancellationToken::new(),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        work(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn write_front(
        &self,
        key: &BalancerKey,
        spec: &BalancerSpec,
        previous: &[IpAddr],
    ) -> Result<Frontage, Fault> {
        let BalancerSpec::Inbound(front) = spec else {
            let text = "this machine has no gateways for egress";
            return Err(Fault::new(FaultKind::Invalid, text));
        };
        // Nobody is told that there is no pool because pools are read a moment later than Services.
        let known = self.pools_known.cancelled();
        let _told_or_not = tokio::time::timeout(POOLS_WAIT, known).await;
        let _turn = self.turn.lock().await;
        let decided = self.with(|book| book.decide_front(key, front, previous));
        self.usage_changed.notify_one();
        let (decided, frontage) = decided?;
        for address in &frontage.addresses {
            if let Some(objection) = self.plane.objection(*address) {
                return Err(Fault::new(FaultKind::Refused, objection));
            }
        }
        self.write_forwardings(&decided).await?;
        self.with(|book| book.commit(decided, Some(&spec.digest())));
        Ok(frontage)
    }

    /// Has the data plane forward what was decided.
    async fn write_forwardings(&self, decided: &Decided) -> Result<(), Fault> {
        let mut is_here = is_here_cached();
        let changes: Vec<_> = decided
            .iter()
            // What a process before this one left stays as it is until it is known what it is to be.
            .filter(|(_, entry)| entry.is_known())
            .map(|(key, entry)| {
                let forwarding = Arc::new(entry.forwarding(&mut is_here));
                (key.clone(), Some(forwarding))
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        self.plane.apply(&changes).await
    }

    async fn write_removal(&self, key: &BalancerKey) -> Result<(), Fault> {
        let _turn = self.turn.lock().await;
        self.plane.apply(&[(key.clone(), None)]).await?;
        if self.with(|book| book.removed(key)) {
            self.changed.notify_one();
            self.usage_changed.notify_one();
        }
        Ok(())
    }

    async fn write_addresses(
        &self,
        changes: &[AddressChange],
    ) -> Result<Vec<AddressOutcome>, Fault> {
        let _turn = self.turn.lock().await;
        let (decided, outcomes) = self.with(|book| book.decide_addresses(changes));
        self.write_forwardings(&decided).await?;
        self.with(|book| book.commit(decided, None));
        Ok(outcomes)
    }

    async fn fetch_holdings(&self) -> Result<Holdings, Fault> {
        let _turn = self.turn.lock().await;
        let found = self.plane.read().await?;
        Ok(self.with(|book| book.holdings(found)))
    }
}

impl LoadBalancer for LocalBalancer {
    fn limits(&self) -> BalancerLimits {
        BalancerLimits {
            chunk_len_max: CHUNK_LEN_MAX,
            balancers_max: BALANCERS_MAX,
            ..BalancerLimits::default()
        }
    }

    fn notice(&self, key: &BalancerKey) -> Option<(Reason, String)> {
        self.with(|book| book.notice(key))
    }

    fn problems(&self, spec: &BalancerSpec) -> Vec<Problem> {
        match spec {
            BalancerSpec::Inbound(_) => Vec::new(),
            BalancerSpec::Egress(_) => {
                let message = "this machine has no gateways for egress: take the label off, or use a provider \
                               that has them";
                vec![Problem::invalid("metadata.labels", message)]
            }
        }
    }

    fn remember(&self, known: &[(BalancerKey, Vec<IpAddr>)]) {
        self.with(|book| book.remember(known));
    }

    fn ensure<'a>(
        &'a self,
        key: &'a BalancerKey,
        spec: &'a BalancerSpec,
        previous: &'a [IpAddr],
    ) -> BoxFuture<'a, Result<Frontage, Fault>> {
        Box::pin(self.write_front(key, spec, previous))
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

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }
}

impl PoolKeeper for LocalBalancer {
    fn set_pools(&self, pools: BTreeMap<String, Pool>) {
        self.with(|book| book.set_pools(pools));
        self.pools_known.cancel();
        self.changed.notify_one();
        self.usage_changed.notify_one();
    }

    fn reports(&self) -> BTreeMap<String, PoolReport> {
        self.with(|book| book.pool_reports())
    }

    fn usage_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.usage_changed.notified())
    }
}

/// Whether this machine has an address: what can be bound to is here. Asked once for each address of a request.
fn is_here_cached() -> impl FnMut(IpAddr) -> bool {
    let mut known: BTreeMap<IpAddr, bool> = BTreeMap::new();
    move |address| {
        *known
            .entry(address)
            .or_insert_with(|| UdpSocket::bind((address, 0)).is_ok())
    }
}

/// A balancer as the engine is told of it.
fn held(addresses: Vec<IpAddr>, digest: Option<String>) -> HeldBalancer {
    let frontage = Frontage {
        addresses,
        hostname: None,
    };
    HeldBalancer { frontage, digest }
}

//! Address pools: which Service has which address.
//!
//! An address that a Service has stays its own until the Service lets it go: over restarts, in whatever order
//! events come, and though its pool shrinks or goes. New addresses are the lowest free ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use crate::balancers::Family;
use crate::condition::Moment;
use crate::reason::Reason;
use crate::selector::{Labels, Selector};

mod choosing;
mod range;
#[cfg(test)]
mod tests;

pub use range::{AddressRange, AddressSet};

/// A pool as its object declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// When its object was created; of pools that overlap, the older one has the addresses.
    pub created: Moment,
    /// Its addresses.
    pub addresses: AddressSet,
    /// Whether Services get addresses of it that do not ask for it.
    pub auto_assign: bool,
    /// The Services that it is for; `None` for all.
    pub selector: Option<Selector>,
}

/// What a Service asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRequest {
    /// When its object was created; the older Service comes first.
    pub created: Moment,
    /// Its labels, which selectors of pools look at.
    pub labels: Labels,
    /// One address of each of these versions or nothing.
    pub needs: BTreeSet<Family>,
    /// One address of each of these versions where there is one.
    pub prefers: BTreeSet<Family>,
    /// These addresses and no others, at most one of a version.
    pub asked: Vec<IpAddr>,
    /// Addresses of this pool.
    pub pool: Option<String>,
    /// The addresses that it is known to have, looked at when it is first heard of.
    pub has: Vec<IpAddr>,
}

/// What a Service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Its addresses, IPv4 first; none where it waits.
    pub addresses: Vec<IpAddr>,
    /// Why it has none, or others than it asks for, or what its author should know.
    pub problem: Option<AddressProblem>,
}

/// Why a Service does not have what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressProblem {
    /// Not all pools and Services are known yet.
    Starting,
    /// No pool is for it.
    NoPool(Family),
    /// The pools that are for it have no free address.
    UsedUp(Family, Vec<String>),
    /// The address that it asks for is in no pool that is for it.
    Outside(IpAddr),
    /// The address that it asks for belongs to another Service, whose name follows.
    Taken(IpAddr, String),
    /// It asks for two addresses of one version.
    AskedTwice(Family),
    /// It keeps an address that is in no pool that is for it.
    Kept(IpAddr),
    /// An address that its status had belongs to another Service, whose name follows; it has another one.
    Moved(IpAddr, String),
}

/// How much of a pool is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Its addresses, without those that an older pool has too.
    pub total: u128,
    /// Those of them that Services have.
    pub used: u128,
}

/// Addresses that two pools declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The older pool, which has them.
    pub older: String,
    /// The first of them.
    pub range: AddressRange,
}

/// How a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// How much of it is used.
    pub usage: PoolUsage,
    /// The addresses that an older pool has.
    pub overlap: Option<Overlap>,
}

/// All pools, and the addresses of all Services.
///
/// # Guarantees
/// No address belongs to two Services. Before [`open`](Self::open) nobody gets anything; what it makes of the
/// Services and pools that are known by then does not depend on the order in which they became known.
///
/// # Limits
/// A Service costs what it and the pools' ranges are, a change of a pool as much as all Services.
#[derive(Clone, Debug)]
pub struct AddressPools<K> {
    pools: BTreeMap<String, Declared>,
    services: BTreeMap<K, Tenant>,
    taken: BTreeMap<IpAddr, K>,
    /// The same addresses, for finding free ones.
    occupied: AddressSet,
    /// Services with a problem, oldest first.
    unsatisfied: BTreeSet<(Moment, K)>,
    changed: BTreeSet<K>,
    is_open: bool,
}

/// A pool, and what is left of it beside older ones.
#[derive(Clone, Debug)]
struct Declared {
    pool: Pool,
    effective: AddressSet,
    overlap: Option<Overlap>,
}

/// A Service with what it asked for and what it has.
#[derive(Clone, Debug)]
struct Tenant {
    request: AddressRequest,
    allocation: Allocation,
}

impl<K> Default for AddressPools<K> {
    fn default() -> Self {
        Self {
            pools: BTreeMap::new(),
            services: BTreeMap::new(),
            taken: BTreeMap::new(),
            occupied: AddressSet::default(),
            unsatisfied: BTreeSet::new(),
            changed: BTreeSet::new(),
            is_open: false,
        }
    }
}

impl<K: Ord + Clone + fmt::Display> AddressPools<K> {
    /// Declares a pool, new or changed.
    pub fn declare(&mut self, name: &str, pool: Pool) {
        let before = self.pools.get(name);
        if before.is_some_and(|declared| declared.pool == pool) {
            return;
        }
        let effective = AddressSet::default();
        let declared = Declared {
            pool,
            effective,
            overlap: None,
        };
        self.pools.insert(name.to_owned(), declared);
        self.pools_changed();
    }

    /// Forgets a pool. Services keep the addresses that they have of it.
    pub fn withdraw(&mut self, name: &str) {
        if self.pools.remove(name).is_some() {
            self.pools_changed();
        }
    }

    /// Begins to give out addresses, once every pool and every Service is known.
    pub fn open(&mut self) {
        if self.is_open {
            return;
        }
        self.is_open = true;
        let mut ranked: Vec<(Moment, K)> = self
            .services
            .iter()
            .map(|(key, tenant)| (tenant.request.created, key.clone()))
            .collect();
        ranked.sort();
        // First what they have, then what they ask for by name, then the rest.
        for (_, key) in &ranked {
            self.take_over(key);
        }
        let asks = |pools: &Self, key: &K| {
            let tenant = pools.services.get(key);
            tenant.is_some_and(|tenant| !tenant.request.asked.is_empty())
        };
        let (asking, others): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(_, key)| asks(self, key));
        if self.choose_all(asking.iter().chain(&others).map(|(_, key)| key)) {
            self.wake();
        }
    }

    /// Takes in what a Service asks for, new or changed.
    pub fn request(&mut self, key: &K, request: AddressRequest) {
        let allocation = match self.services.remove(key) {
            Some(tenant) if tenant.request == request => {
                self.services.insert(key.clone(), tenant);
                return;
            }
            Some(tenant) => {
                let rank = (tenant.request.created, key.clone());
                self.unsatisfied.remove(&rank);
                Some(tenant.allocation)
            }
            None => None,
        };
        let is_new = allocation.is_none();
        let allocation = allocation.unwrap_or_default();
        let tenant = Tenant {
            request,
            allocation,
        };
        self.services.insert(key.clone(), tenant);
        if !self.is_open {
            let starting = Some(AddressProblem::Starting);
            return self.settle(key, Vec::new(), starting);
        }
        if is_new {
            self.take_over(key);
        }
        if self.choose(key) {
            self.wake();
        }
    }

    /// Takes the addresses of a Service back that is gone.
    pub fn release(&mut self, key: &K) {
        let Some(tenant) = self.services.remove(key) else {
            return;
        };
        self.unsatisfied
            .remove(&(tenant.request.created, key.clone()));
        self.changed.remove(key);
        for address in &tenant.allocation.addresses {
            self.vacate(*address);
        }
        if !tenant.allocation.addresses.is_empty() {
            self.wake();
        }
    }

    /// What a Service has; `None` for one that was never heard of.
    #[must_use]
    pub fn allocation(&self, key: &K) -> Option<&Allocation> {
        self.services.get(key).map(|tenant| &tenant.allocation)
    }

    /// The Services whose allocation changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }

    /// Whose an address is.
    #[must_use]
    pub fn holder(&self, address: IpAddr) -> Option<&K> {
        self.taken.get(&address)
    }

    /// How much of a pool is used.
    #[must_use]
    pub fn usage(&self, name: &str) -> PoolUsage {
        let Some(declared) = self.pools.get(name) else {
            return PoolUsage::default();
        };
        let used = declared.effective.ranges().map(|range| {
            let within = self.taken.range(range.first()..=range.last());
            within.count() as u128
        });
        PoolUsage {
            total: declared.effective.count(),
            used: used.sum(),
        }
    }

    /// The addresses that a pool declares and an older one has.
    #[must_use]
    pub fn overlap(&self, name: &str) -> Option<&Overlap> {
        self.pools.get(name)?.overlap.as_ref()
    }

    /// The names of all pools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// Works out again what each pool has, and what that means for every Service.
    fn pools_changed(&mut self) {
        let mut ranked: Vec<(Moment, String)> = self
            .pools
            .iter()
            .map(|(name, declared)| (declared.pool.created, name.clone()))
            .collect();
        ranked.sort();
        let mut older: Vec<(String, AddressSet)> = Vec::new();
        for (_, name) in ranked {
            let Some(declared) = self.pools.get_mut(&name) else {
                continue;
            };
            declared.trim(&older);
            older.push((name, declared.effective.clone()));
        }
        if !self.is_open {
            return;
        }
        let mut services: Vec<(Moment, K)> = self
            .services
            .iter()
            .map(|(key, tenant)| (tenant.request.created, key.clone()))
            .collect();
        services.sort();
        if self.choose_all(services.iter().map(|(_, key)| key)) {
            self.wake();
        }
    }
}

impl Declared {
    /// Takes out what older pools have.
    fn trim(&mut self, older: &[(String, AddressSet)]) {
        self.effective = self.pool.addresses.clone();
        self.overlap = None;
        for (name, addresses) in older {
            let common = self
                .pool
                .addresses
                .ranges()
                .find_map(|range| addresses.common(range));
            let Some(range) = common else {
                continue;
            };
            addresses
                .ranges()
                .for_each(|range| self.effective.remove(range));
            self.overlap.get_or_insert_with(|| Overlap {
                older: name.clone(),
                range,
            });
        }
    }
}

impl PoolUsage {
    /// How many addresses are free.
    #[must_use]
    pub const fn free(&self) -> u128 {
        self.total.saturating_sub(self.used)
    }
}

impl AddressProblem {
    /// The reason that a condition gives.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Starting => Reason::Pending,
            Self::NoPool(_) => Reason::NoAddressPool,
            Self::UsedUp(..) => Reason::AddressPoolUsedUp,
            Self::Outside(_) | Self::Taken(..) => Reason::AddressUnavailable,
            Self::AskedTwice(_) => Reason::Invalid,
            Self::Kept(_) => Reason::AddressKept,
            Self::Moved(..) => Reason::Conflict,
        }
    }
}

impl fmt::Display for AddressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("not all address pools and Services are known yet"),
            Self::NoPool(family) => write!(
                f,
                "no address pool with {family} addresses is for this Service: create an AddressPool whose \
                 serviceSelector matches it, with autoAssign, or name one"
            ),
            Self::UsedUp(family, pools) => write!(
                f,
                "no {family} address is free in {}: add addresses, or delete Services that have them",
                pools.join(", ")
            ),
            Self::Outside(address) => write!(
                f,
                "{address} is in no address pool that is for this Service: ask for another address, or add it \
                 to a pool"
            ),
            Self::Taken(address, other) => {
                write!(f, "{address} belongs to {other}: ask for another address")
            }
            Self::AskedTwice(family) => {
                write!(
                    f,
                    "asks for two {family} addresses: ask for one of each version"
                )
            }
            Self::Kept(address) => write!(
                f,
                "{address} is in no address pool that is for this Service any more; it is kept as long as the \
                 Service has it"
            ),
            Self::Moved(address, other) => write!(
                f,
                "{address}, which its status had, belongs to {other}; this Service has another address"
            ),
        }
    }
}

//! Which addresses one Service gets.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::{AddressPools, AddressProblem, AddressRange, AddressRequest, AddressSet};
use crate::balancers::Family;

/// What is decided for one version of IP.
struct Choice {
    address: Option<IpAddr>,
    problem: Option<AddressProblem>,
}

impl<K: Ord + Clone + fmt::Display> AddressPools<K> {
    /// Gives a Service that is first heard of the addresses that it is known to have.
    pub(super) fn take_over(&mut self, key: &K) {
        let Some(tenant) = self.services.get(key) else {
            return;
        };
        let mut kept: Vec<IpAddr> = Vec::new();
        let mut lost = None;
        for &address in &tenant.request.has {
            let is_first = !kept
                .iter()
                .any(|one| Family::of(*one) == Family::of(address));
            match self.taken.get(&address) {
                None if is_first => {
                    self.taken.insert(address, key.clone());
                    self.occupied.insert(AddressRange::one(address));
                    kept.push(address);
                }
                Some(other) if other != key => {
                    lost = Some(AddressProblem::Moved(address, other.to_string()));
                }
                _ => {}
            }
        }
        kept.sort();
        self.settle(key, kept, lost);
    }

    /// Decides again what a Service has, and says whether that freed an address. Nothing that it has goes unless
    /// it asks for something else.
    pub(super) fn choose(&mut self, key: &K) -> bool {
        let Some(tenant) = self.services.get(key) else {
            return false;
        };
        let request = tenant.request.clone();
        let before = tenant.allocation.clone();
        // What was said when it was taken over is said until something else is to be said.
        let mut problem = before
            .problem
            .filter(|problem| matches!(problem, AddressProblem::Moved(..)));
        let mut addresses = Vec::new();
        let mut is_complete = true;
        let families: BTreeSet<Family> = request.needs.union(&request.prefers).copied().collect();
        for family in families {
            let current = before
                .addresses
                .iter()
                .copied()
                .find(|one| Family::of(*one) == family);
            let choice = self.choice(key, &request, family, current);
            is_complete &= choice.address.is_some() || !request.needs.contains(&family);
            addresses.extend(choice.address);
            if choice.problem.is_some() {
                problem = choice.problem;
            }
        }
        if !is_complete {
            // Half of what it needs is of no use to it, but what it has stays.
            addresses.retain(|one| before.addresses.contains(one));
        }
        let is_freed = before.addresses.iter().any(|one| !addresses.contains(one));
        for address in &before.addresses {
            self.vacate(*address);
        }
        for address in &addresses {
            self.taken.insert(*address, key.clone());
            self.occupied.insert(AddressRange::one(*address));
        }
        self.settle(key, addresses, problem);
        is_freed
    }

    /// Decides for several, and says whether that freed an address.
    pub(super) fn choose_all<'a>(&mut self, keys: impl Iterator<Item = &'a K>) -> bool
    where
        K: 'a,
    {
        keys.fold(false, |is_freed, key| self.choose(key) | is_freed)
    }

    /// Keeps what was decided for a Service.
    pub(super) fn settle(
        &mut self,
        key: &K,
        addresses: Vec<IpAddr>,
        problem: Option<AddressProblem>,
    ) {
        let Some(tenant) = self.services.get_mut(key) else {
            return;
        };
        let rank = (tenant.request.created, key.clone());
        if problem.is_some() {
            self.unsatisfied.insert(rank);
        } else {
            self.unsatisfied.remove(&rank);
        }
        let allocation = super::Allocation { addresses, problem };
        if tenant.allocation != allocation {
            tenant.allocation = allocation;
            self.changed.insert(key.clone());
        }
    }

    /// Looks again at those that do not have what they ask for, since an address became free.
    pub(super) fn wake(&mut self) {
        if !self.is_open {
            return;
        }
        // Who moves to the address that it asks for frees another one, and asks for nothing else after that.
        let mut is_freed = true;
        while is_freed {
            let waiting: Vec<K> = self
                .unsatisfied
                .iter()
                .map(|(_, key)| key.clone())
                .collect();
            is_freed = self.choose_all(waiting.iter());
        }
    }

    pub(super) fn vacate(&mut self, address: IpAddr) {
        self.taken.remove(&address);
        self.occupied.remove(AddressRange::one(address));
    }

    fn choice(
        &self,
        key: &K,
        request: &AddressRequest,
        family: Family,
        current: Option<IpAddr>,
    ) -> Choice {
        let mut asked = request
            .asked
            .iter()
            .filter(|one| Family::of(**one) == family);
        match (asked.next(), asked.next()) {
            (Some(_), Some(_)) => Choice {
                address: current,
                problem: Some(AddressProblem::AskedTwice(family)),
            },
            (Some(&wanted), None) => self.asked(key, request, wanted, current),
            (None, _) => self.any(request, family, current),
        }
    }

    /// The address that its author asks for, or the one that it has.
    fn asked(
        &self,
        key: &K,
        request: &AddressRequest,
        wanted: IpAddr,
        current: Option<IpAddr>,
    ) -> Choice {
        let problem = match self.taken.get(&wanted) {
            Some(other) if other != key => Some(AddressProblem::Taken(wanted, other.to_string())),
            _ if self.may_have(request, wanted) => None,
            _ if current == Some(wanted) => Some(AddressProblem::Kept(wanted)),
            _ => Some(AddressProblem::Outside(wanted)),
        };
        let address = if problem.is_some() {
            current
        } else {
            Some(wanted)
        };
        Choice { address, problem }
    }

    /// The address that it has, or the lowest free one of the pools that are for it.
    fn any(&self, request: &AddressRequest, family: Family, current: Option<IpAddr>) -> Choice {
        let kept = current.filter(|address| self.may_have(request, *address));
        if kept.is_some() {
            return Choice {
                address: kept,
                problem: None,
            };
        }
        if let Some(address) = current {
            // An author who names a pool wants an address of it; nobody else is moved.
            let moved = request
                .pool
                .as_ref()
                .and_then(|_| self.lowest_free(request, family).ok());
            let problem = moved.is_none().then_some(AddressProblem::Kept(address));
            return Choice {
                address: moved.or(current),
                problem,
            };
        }
        match self.lowest_free(request, family) {
            Ok(address) => Choice {
                address: Some(address),
                problem: None,
            },
            Err(problem) => Choice {
                address: None,
                problem: Some(problem),
            },
        }
    }

    /// Whether an address is in a pool that is for this Service.
    fn may_have(&self, request: &AddressRequest, address: IpAddr) -> bool {
        self.pools_for(request)
            .iter()
            .any(|(_, addresses, _)| addresses.contains(address))
    }

    fn lowest_free(
        &self,
        request: &AddressRequest,
        family: Family,
    ) -> Result<IpAddr, AddressProblem> {
        let mut full = Vec::new();
        for (name, addresses, auto_assign) in self.pools_for(request) {
            if !auto_assign && request.pool.is_none() {
                continue;
            }
            let mut ranges = addresses
                .ranges()
                .filter(|range| range.family() == family)
                .peekable();
            if ranges.peek().is_none() {
                continue;
            }
            if let Some(address) = ranges.find_map(|range| self.occupied.lowest_outside(range)) {
                return Ok(address);
            }
            full.push(name.to_owned());
        }
        Err(if full.is_empty() {
            AddressProblem::NoPool(family)
        } else {
            AddressProblem::UsedUp(family, full)
        })
    }

    /// The pools that are for a Service: those that select it first, then by name.
    fn pools_for(&self, request: &AddressRequest) -> Vec<(&str, &AddressSet, bool)> {
        let mut pools: Vec<_> = self
            .pools
            .iter()
            .filter(|(name, _)| request.pool.as_ref().is_none_or(|wanted| wanted == *name))
            .filter(|(_, declared)| {
                let selector = declared.pool.selector.as_ref();
                selector.is_none_or(|selector| selector.matches(&request.labels))
            })
            .collect();
        pools.sort_by_key(|(_, declared)| declared.pool.selector.is_none());
        pools
            .into_iter()
            .map(|(name, declared)| {
                (
                    name.as_str(),
                    &declared.effective,
                    declared.pool.auto_assign,
                )
            })
            .collect()
    }
}

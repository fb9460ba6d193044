//! Load balancers: a Service gets addresses of its own, pods get a way out.
//!
//! What a *provider* of load balancers has is of two kinds. A *balancer* stands for one Service
//! ([`Front`]: addresses, ports) or for the pods of one egress label ([`EgressFront`]). An *address* of an
//! endpoint is bound to balancers ([`Binding`]), at the node where it lives.
//!
//! [`Balancers`] is the state machine of both. It keeps what was last told by each Service, slice, node and
//! pod, and what the provider is known to have; a step makes the one like the other. Every event costs what
//! it concerns: no step looks at everything, but for the periodic look at what the provider has.

mod addresses;
mod balancer;
mod binding;
mod completions;
mod endpoints;
mod front;
mod holdings;
mod leaving;
mod protocol;
mod reading;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use self::{balancer::Balancer, endpoints::EndpointBook, leaving::LeavingPods, reading::ReadState};
use crate::{
    fault::Fault,
    tracker::{Children, Phase, References, Schedule},
};

pub use self::{
    binding::{AddressChange, AddressOutcome, Binding, Bindings, PortTarget},
    endpoints::{
        EndpointGroup, EndpointPort, EndpointState, EndpointsKey, GroupEndpoint, GroupOwner,
        Whereabouts,
    },
    front::{
        BalancerKey, BalancerSpec, EgressFront, Family, Front, FrontPort, FrontProtocol,
        SourceRange, TrafficPolicy,
    },
    holdings::{BalancerLimits, Frontage, HeldBalancer, Holdings},
    protocol::{
        BalancerDeclaration, BalancerEnd, BalancerNews, BalancerReport, BalancerStep,
        BalancerTimes, BalancerWork,
    },
};

/// The state machine of load balancers.
///
/// Guarantees: nothing is sent before it is known what is asked for and what the provider has; an address
/// is bound to a balancer only while that stands and is wanted; a balancer is removed only when no address
/// is bound to it, or may be; what the provider has of ours and nobody asks for is left alone for a while.
#[derive(Clone, Debug)]
pub struct Balancers {
    limits: BalancerLimits,
    times: BalancerTimes,
    parents: BTreeMap<BalancerKey, Balancer>,
    book: EndpointBook,
    addresses: Children<IpAddr, Bindings, Fault>,
    /// What addresses may be bound to beside what is known, since an answer was lost.
    unknown: BTreeMap<IpAddr, Bindings>,
    /// Which balancers an address is bound to, or may be.
    standing: References<IpAddr, BalancerKey>,
    /// Which balancers wait for something to happen to an address.
    unsettled: References<IpAddr, BalancerKey>,
    /// Which balancers have an address that the provider refuses.
    refused: References<IpAddr, BalancerKey>,
    leaving: LeavingPods,
    reading: ReadState,
    /// Everything that is asked for was told.
    is_synced: bool,
    /// Nothing is sent before, since the provider asked to wait.
    gate: Duration,
    /// Steps of balancers on their way, those that wait for room, and how many may run.
    running_len: usize,
    waiting: BTreeSet<BalancerKey>,
    running_max: usize,
    /// Requests with addresses on their way, and those in a row that failed as a whole.
    chunks_len: usize,
    chunk_failures: u32,
    schedule: Schedule<BalancerWork>,
    changed: BTreeSet<BalancerKey>,
    gone: Vec<BalancerReport>,
    released: Vec<EndpointsKey>,
}

/// What is asked for.
impl Balancers {
    /// A machine for a provider that takes so much at a time.
    #[must_use]
    pub fn new(limits: BalancerLimits, times: BalancerTimes) -> Self {
        let mut machine = Self {
            limits,
            times,
            parents: BTreeMap::new(),
            book: EndpointBook::default(),
            addresses: Children::default(),
            unknown: BTreeMap::new(),
            standing: References::default(),
            unsettled: References::default(),
            refused: References::default(),
            leaving: LeavingPods::default(),
            reading: ReadState::default(),
            is_synced: false,
            gate: Duration::ZERO,
            running_len: 0,
            waiting: BTreeSet::new(),
            running_max: limits.balancers_max.max(1),
            chunks_len: 0,
            chunk_failures: 0,
            schedule: Schedule::default(),
            changed: BTreeSet::new(),
            gone: Vec::new(),
            released: Vec::new(),
        };
        machine.schedule.push(BalancerWork::Holdings);
        machine
    }

    /// A Service asks for a balancer, or for another one than before.
    pub fn declare(&mut self, key: &BalancerKey, declaration: BalancerDeclaration) {
        let BalancerDeclaration {
            owner,
            spec,
            previous,
        } = declaration;
        let is_new = !self.parents.contains_key(key);
        let seen = self.reading.forgive(key);
        let balancer = self.parents.entry(key.clone()).or_default();
        let mut is_changed = is_new || !balancer.lifecycle.is_wanted();
        balancer.lifecycle.want();
        balancer.is_orphan = false;
        balancer.owner = Some(owner.clone());
        if balancer.previous.is_empty() {
            balancer.previous = previous;
        }
        if let Some(spec) = spec
            && balancer.spec.as_deref() != Some(&spec)
        {
            balancer.digest = spec.digest();
            balancer.spec = Some(Arc::new(spec));
            is_changed = true;
        }
        if let Some(seen) = seen {
            balancer.adopt(&seen);
        }
        let ports = match balancer.spec.as_deref() {
            Some(BalancerSpec::Inbound(front)) => front.ports.clone(),
            Some(BalancerSpec::Egress(_)) | None => Vec::new(),
        };
        let mut touched = self.book.set_service(&owner, Some((key.clone(), ports)));
        if is_changed {
            // What failed before may work now.
            self.schedule.succeed(&BalancerWork::Balancer(key.clone()));
            touched.extend(self.book.addresses_of(&owner));
            touched.extend(self.standing.children(key).copied());
        }
        self.desire_all(touched);
        if is_changed {
            self.touch(key);
        }
    }

    /// A Service, by name or by what it is, asks for no balancer any more. [`Phase::Gone`] is told when
    /// nothing of it is left.
    pub fn retire(&mut self, key: &BalancerKey) {
        let is_read = self.reading.is_read();
        let is_orphan = self.reading.forgive(key).is_some();
        if !self.parents.contains_key(key) && is_read && !is_orphan {
            let report = self.report(key);
            self.gone.push(report);
            return;
        }
        let balancer = self.parents.entry(key.clone()).or_default();
        balancer.may_stand |= is_orphan;
        if !balancer.lifecycle.is_wanted() {
            return;
        }
        balancer.retire(is_read);
        let owner = balancer.owner.clone();
        let mut touched: BTreeSet<IpAddr> = self.standing.children(key).copied().collect();
        if let Some(owner) = owner
            && self.book.balancer(&owner).as_ref() == Some(key)
        {
            touched.extend(self.book.addresses_of(&owner));
            touched.extend(self.book.set_service(&owner, None));
        }
        self.schedule.succeed(&BalancerWork::Balancer(key.clone()));
        self.desire_all(touched);
        self.touch(key);
    }

    /// A slice or a pod tells of its endpoints; `None` where it is gone.
    pub fn set_endpoints(&mut self, key: &EndpointsKey, group: Option<EndpointGroup>) {
        let owners = [
            self.book.owner(key).cloned(),
            group.as_ref().map(|group| group.owner.clone()),
        ];
        self.leaving.forget(key);
        let touched = self.book.set_group(key, group);
        for owner in BTreeSet::from(owners).into_iter().flatten() {
            self.want_gateway(&owner);
            // How many endpoints wait may have changed.
            let key = self.book.balancer(&owner);
            self.changed
                .extend(key.filter(|key| self.parents.contains_key(key)));
        }
        for address in touched {
            self.desire(address);
            // Somebody else may have the address of a pod that left.
            self.look_at_leaving(address);
        }
    }

    /// A pod is gone, or leaves its gateway, and somebody waits for its addresses to be bound to nothing of
    /// the gateway any more.
    ///
    /// `addresses` has those that the pod is known to have had. Of one that is known to have had none, all
    /// addresses are waited for that the gateway has and no pod asks for. Where the label is empty nobody knows
    /// which gateway it was: its addresses are waited for at every one.
    pub fn release(&mut self, key: &EndpointsKey, label: &Arc<str>, addresses: &[IpAddr]) {
        let mut all: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        all.extend(self.book.addresses_in(key));
        self.set_endpoints(key, None);
        let gateway = (!label.is_empty()).then(|| BalancerKey::Egress(Arc::clone(label)));
        // A process before this one may have made the gateway for it.
        if gateway.is_some() {
            self.want_gateway(&GroupOwner::Egress(Arc::clone(label)));
        }
        self.leaving.add(key, gateway, all);
        self.look_at_pod(key);
    }

    /// A node has these addresses, of each family the one that counts first; none where it is gone.
    pub fn set_node(&mut self, name: &Arc<str>, addresses: Vec<IpAddr>) {
        let touched = self.book.set_node(name, addresses);
        self.desire_all(touched);
    }

    /// Everything that is asked for was told: from now on what nobody asks for is known to be so.
    pub fn set_synced(&mut self) {
        if !self.is_synced {
            self.is_synced = true;
            self.begin_if_ready();
        }
    }

    /// Something changed at the provider: what failed is tried again, and everything is read again.
    pub fn hasten(&mut self) {
        self.gate = Duration::ZERO;
        for key in self.parents.keys() {
            let work = BalancerWork::Balancer(key.clone());
            self.schedule.hasten(&work);
            self.schedule.push(work);
        }
        self.schedule.hasten(&BalancerWork::Addresses);
        self.schedule.push(BalancerWork::Addresses);
        self.read_soon();
    }

    /// A gateway is wanted as long as it has pods.
    fn want_gateway(&mut self, owner: &GroupOwner) {
        let GroupOwner::Egress(label) = owner else {
            return;
        };
        let key = BalancerKey::Egress(Arc::clone(label));
        if !self.book.has_groups(owner) {
            self.retire(&key);
            return;
        }
        let families = self.book.families(owner);
        let spec = BalancerSpec::Egress(EgressFront { families });
        let declaration = BalancerDeclaration {
            owner: owner.clone(),
            spec: Some(spec),
            previous: Vec::new(),
        };
        self.declare(&key, declaration);
    }
}

/// What there is to tell.
impl Balancers {
    /// What there is to tell since the last call.
    pub fn take_news(&mut self) -> BalancerNews {
        let changed = std::mem::take(&mut self.changed);
        let mut reports = std::mem::take(&mut self.gone);
        reports.extend(changed.iter().map(|key| self.report(key)));
        BalancerNews {
            reports,
            released: std::mem::take(&mut self.released),
        }
    }

    /// How a balancer is.
    #[must_use]
    pub fn report(&self, key: &BalancerKey) -> BalancerReport {
        /// More would make a status hard to read; the rest is counted.
        const REFUSED_SHOWN_MAX: usize = 5;
        let balancer = self.parents.get(key);
        let why = |address: &IpAddr| {
            let quarantined = self.addresses.quarantined(address)?;
            Some((*address, quarantined.why.clone()))
        };
        let refused = self.refused.children(key).filter_map(why);
        BalancerReport {
            key: key.clone(),
            owner: balancer.and_then(|one| one.owner.clone()),
            phase: self.phase(key),
            frontage: balancer
                .filter(|one| one.stands)
                .map(|one| one.frontage.clone())
                .unwrap_or_default(),
            is_programmed: balancer.is_some_and(Balancer::is_programmed),
            bound_len: self.standing.children_len(key),
            waiting_len: self.unsettled.children_len(key),
            buffered_len: balancer.map_or(0, |one| self.buffered_len(key, one)),
            fault: balancer.and_then(|one| one.fault.clone()),
            refused: (
                refused.take(REFUSED_SHOWN_MAX).collect(),
                self.refused.children_len(key),
            ),
            is_orphan: balancer.is_some_and(|one| one.is_orphan),
        }
    }

    /// Where a balancer is in its life.
    #[must_use]
    pub fn phase(&self, key: &BalancerKey) -> Phase {
        let balancer = self.parents.get(key);
        balancer.map_or(Phase::Gone, |one| one.lifecycle.phase())
    }

    /// Every balancer that is known.
    pub fn keys(&self) -> impl Iterator<Item = &BalancerKey> {
        self.parents.keys()
    }

    /// How long the step of a balancer that was last begun had waited for others to end.
    #[must_use]
    pub fn queued_for(&self, key: &BalancerKey) -> Duration {
        let balancer = self.parents.get(key);
        balancer.map_or(Duration::ZERO, |one| one.queued_for)
    }

    /// Whether addresses wait for a request to be made.
    #[must_use]
    pub fn has_pending_addresses(&self) -> bool {
        self.addresses.pending().next().is_some()
    }

    /// Endpoints that wait for a balancer to stand. Of one that stays as it is, those that it has do not.
    fn buffered_len(&self, key: &BalancerKey, balancer: &Balancer) -> usize {
        if balancer.is_open() || !balancer.lifecycle.is_wanted() {
            return 0;
        }
        let owner = balancer.owner.as_ref();
        let owner = owner.filter(|owner| self.book.balancer(owner).as_ref() == Some(key));
        let len = owner.map_or(0, |owner| self.book.len(owner));
        len.saturating_sub(self.standing.children_len(key))
    }

    /// Something of a balancer changed: it is told, looked at, and forgotten where it is gone.
    fn touch(&mut self, key: &BalancerKey) {
        let Some(balancer) = self.parents.get(key) else {
            return;
        };
        let work = BalancerWork::Balancer(key.clone());
        if balancer.lifecycle.phase() == Phase::Gone {
            self.parents.remove(key);
            self.changed.remove(key);
            self.schedule.forget(&work);
            self.waiting.remove(key);
            let report = self.report(key);
            self.gone.push(report);
        } else {
            self.changed.insert(key.clone());
            self.schedule.push(work);
        }
    }
}

#[cfg(test)]
mod tests;

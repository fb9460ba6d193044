//! What tells states apart, as numbers, whatever services, addresses and nodes are called.
//!
//! Left out is what no step depends on while time stands still: the times and numbers of failures (whether something
//! waits is in), what was told, words. What the machine derives is in as well, so that a mistake in it is a state
//! of its own.

use std::hash::{DefaultHasher, Hasher};

use super::super::*;
use super::{NODES, SERVICES, Setting, State};
use crate::balancers::reading::Disturbed;

/// Other names for services, addresses and nodes, after which the setting is the same.
#[derive(Clone, Debug)]
struct Renaming {
    services: Vec<usize>,
    addresses: Vec<usize>,
    nodes: Vec<usize>,
}

/// All renamings of a setting.
pub(super) struct Symmetries {
    all: Vec<Renaming>,
    keys: Vec<BalancerKey>,
    owners: Vec<GroupOwner>,
    addresses: Vec<IpAddr>,
    nodes: Vec<IpAddr>,
}

impl Symmetries {
    pub(super) fn of(setting: &Setting) -> Self {
        let len = setting.services.len();
        let ips = setting.services.iter().copied().flatten().copied();
        let addresses: BTreeSet<IpAddr> = ips.map(address).collect();
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        let mut all = Vec::new();
        for services in permutations(len) {
            for renamed in permutations(addresses.len()) {
                let is_same = (0..len).all(|at| {
                    let of = |service: usize| -> BTreeSet<usize> {
                        let ips = setting.services[service].iter().map(|ip| address(ip));
                        ips.filter_map(|ip| addresses.iter().position(|one| *one == ip))
                            .collect()
                    };
                    let there: BTreeSet<usize> = of(at).into_iter().map(|ip| renamed[ip]).collect();
                    there == of(services[at])
                });
                if !is_same {
                    continue;
                }
                all.extend(
                    permutations(setting.nodes)
                        .into_iter()
                        .map(|nodes| Renaming {
                            services: services.clone(),
                            addresses: renamed.clone(),
                            nodes,
                        }),
                );
            }
        }
        let names = SERVICES.iter().take(len);
        Self {
            all,
            keys: names.clone().map(|name| service_key(name)).collect(),
            owners: names
                .map(|name| GroupOwner::Service("default".into(), (*name).into()))
                .collect(),
            addresses,
            nodes: (0..setting.nodes)
                .map(|at| [192, 0, 2, u8::try_from(at + 1).expect("they are few")].into())
                .collect(),
        }
    }

    /// The same for states that differ in names only.
    pub(super) fn fingerprint(&self, one: &State) -> u64 {
        let all = self.all.iter();
        let all = all.map(|renaming| number(&self.encode(one, renaming)));
        all.min().expect("nothing is renamed in one of them")
    }

    fn encode(&self, one: &State, renaming: &Renaming) -> Vec<u64> {
        let stage = &one.0;
        let machine = &stage.machine;
        let mut words = Vec::with_capacity(64);
        let is_waiting = |work: &BalancerWork| !machine.schedule.is_due(work, stage.now);
        let next = match machine.reading.next {
            None => 0,
            Some(at) if at <= stage.now => 1,
            Some(_) => 2,
        };
        words.push(bits([
            machine.is_synced,
            machine.reading.is_read(),
            machine.reading.running.is_some(),
            is_waiting(&BalancerWork::Addresses),
            is_waiting(&BalancerWork::Holdings),
            machine.gate > stage.now,
        ]));
        let numbers = [machine.running_len, machine.running_max, machine.chunks_len];
        words.extend(numbers.map(|one| u64::try_from(one).expect("they are few")));
        words.extend([next, machine.chunk_failures.into()]);
        let mut services = vec![[0; 2]; self.keys.len()];
        for (at, to) in renaming.services.iter().enumerate() {
            services[*to] = self.service(one, at, renaming);
        }
        words.extend(services.into_iter().flatten());
        let mut addresses = vec![[0; 8]; self.addresses.len()];
        for (at, to) in renaming.addresses.iter().enumerate() {
            addresses[*to] = self.address(stage, self.addresses[at], renaming);
        }
        words.extend(addresses.into_iter().flatten());
        words
    }

    /// A service: what is wished, its balancer, and what the provider has.
    fn service(&self, one: &State, at: usize, renaming: &Renaming) -> [u64; 2] {
        let stage = &one.0;
        let machine = &stage.machine;
        let (name, key) = (SERVICES[at], &self.keys[at]);
        let work = BalancerWork::Balancer(key.clone());
        let node = one.node_of(name).map_or(0, |node| 1 + renaming.nodes[node]);
        let of = |disturbed: &Disturbed| disturbed.balancers.contains(key);
        let held = stage.world.holdings.balancers.get(key);
        let flying = |is_ensure: bool| {
            stage.flying.iter().any(|(_, step)| match step {
                BalancerStep::Ensure { key: one, .. } => is_ensure && one == key,
                BalancerStep::Remove(one) => !is_ensure && one == key,
                BalancerStep::Bind(_) | BalancerStep::Read => false,
            })
        };
        let around = bits([
            stage.services.contains_key(name),
            stage.retiring.contains(name),
            machine.book.balancer(&self.owners[at]).is_some(),
            machine.reading.running.as_ref().is_some_and(of),
            machine.reading.orphans.contains_key(key),
            machine.waiting.contains(key),
            machine.changed.contains(key),
            !machine.schedule.is_due(&work, stage.now),
            held.is_some(),
            held.is_some_and(|held| held.digest.is_some()),
            flying(true),
            flying(false),
        ]);
        let node = u64::try_from(node).expect("they are few") << 32;
        let balancer = machine.parents.get(key).map_or(u64::MAX, own);
        [around | node, balancer]
    }

    fn address(&self, stage: &Stage, address: IpAddr, renaming: &Renaming) -> [u64; 8] {
        let machine = &stage.machine;
        let set = |bindings: Option<&Bindings>| self.bindings(bindings, renaming);
        let of = |disturbed: &Disturbed| disturbed.addresses.contains(&address);
        let in_flight = machine.addresses.in_flight().get(&address);
        let on_its_way = in_flight.map_or(u64::MAX, |one| set(one.desired.as_ref()));
        let change = stage.flying.iter().find_map(|(_, step)| match step {
            BalancerStep::Bind(changes) => changes.iter().find(|one| one.address == address),
            BalancerStep::Ensure { .. } | BalancerStep::Remove(_) | BalancerStep::Read => None,
        });
        let stood = change.map_or(u64::MAX, |one| set(Some(&one.stood)));
        let flags = bits([
            machine.addresses.is_unsettled(&address),
            machine.addresses.quarantined(&address).is_some(),
            machine.reading.running.as_ref().is_some_and(of),
        ]);
        let parents = |references: &References<IpAddr, BalancerKey>| {
            let parents = references.parents(&address);
            parents.fold(0, |mask, key| mask | 1 << self.place(key, renaming))
        };
        let derived = parents(&machine.standing)
            | parents(&machine.unsettled) << 8
            | parents(&machine.refused) << 16;
        [
            set(machine.addresses.desired(&address)),
            set(machine.addresses.actual(&address)),
            set(machine.unknown.get(&address)),
            set(stage.world.holdings.addresses.get(&address)),
            on_its_way,
            stood,
            flags,
            derived,
        ]
    }

    fn place(&self, key: &BalancerKey, renaming: &Renaming) -> usize {
        let at = self.keys.iter().position(|one| one == key);
        renaming.services[at.expect("there are no others")]
    }

    /// A set of bindings as bits; all of one service have the same ports.
    fn bindings(&self, bindings: Option<&Bindings>, renaming: &Renaming) -> u64 {
        let bindings = bindings.into_iter().flatten();
        bindings.fold(0, |mask, one| {
            let at = self
                .nodes
                .iter()
                .position(|node| Some(*node) == one.location);
            let at = at.map_or(NODES.len(), |at| renaming.nodes[at]);
            mask | 1 << (self.place(&one.balancer, renaming) * (NODES.len() + 1) + at)
        })
    }
}

/// What is known of a balancer.
fn own(balancer: &Balancer) -> u64 {
    let Balancer {
        lifecycle,
        owner,
        spec,
        digest,
        sent,
        applied,
        stands,
        may_stand,
        frontage,
        previous,
        fault,
        is_orphan,
        queued_since,
        queued_for,
    } = balancer;
    let flags = bits([
        lifecycle.is_wanted(),
        owner.is_some(),
        spec.is_some(),
        digest.is_empty(),
        sent.is_empty(),
        sent == digest,
        applied.is_some(),
        applied.as_ref() == Some(digest),
        *stands,
        *may_stand,
        frontage.addresses.is_empty(),
        previous.is_empty(),
        fault.is_some(),
        *is_orphan,
        queued_since.is_some(),
        !queued_for.is_zero(),
    ]);
    flags << 8 | lifecycle.phase() as u64
}

fn number(words: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for word in words {
        hasher.write_u64(*word);
    }
    hasher.finish()
}

fn bits<const N: usize>(all: [bool; N]) -> u64 {
    let all = all.into_iter().enumerate();
    all.fold(0, |bits, (at, one)| bits | u64::from(one) << at)
}

/// Every order of so many things.
fn permutations(len: usize) -> Vec<Vec<usize>> {
    (0..len).fold(vec![Vec::new()], |shorter, last| {
        let longer = shorter.iter().flat_map(|one| {
            (0..=one.len()).map(move |at| {
                let mut one = one.clone();
                one.insert(at, last);
                one
            })
        });
        longer.collect()
    })
}

//! Rules of the kernel: they forward without this process, and stay when it ends.
//!
//! Everything of ours stands in the table `inet bindery`. What is to be is compared with what was read back, and
//! the difference is one transaction.

mod content;
mod names;
mod program;
mod reading;
mod ruleset;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bindery_core::Fault;
use bindery_core::balancers::{BalancerKey, Family};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::content::{FAMILY, TABLE, TableContent, commands, element_command};
use self::program::{Interfaces, KernelPrograms};
use self::reading::{FoundTable, forwarding, is_base_whole};
use self::ruleset::{base, closed_set, fronts, section};
use crate::forwarding::{DataPlane, Forwarding, FoundForwarding};

pub use self::program::NftablesSettings;

/// Forwards traffic with rules of the kernel.
///
/// # Assumptions
/// It may change rules and addresses (root, or `CAP_NET_ADMIN`), and nobody else works in its table: what others
/// change there is put right.
pub struct Nftables {
    programs: KernelPrograms,
    state: Mutex<KernelState>,
}

/// What is known of the kernel.
#[derive(Default)]
struct KernelState {
    /// The table as it was last read or written; `None` where that is not known.
    table: Option<FoundTable>,
    /// The addresses of this machine when they were last looked at, and what became of ours since.
    interfaces: Interfaces,
    /// What this process has written for each balancer.
    applied: BTreeMap<BalancerKey, TableContent>,
}

impl Nftables {
    /// A data plane that has not looked at the kernel yet.
    #[must_use]
    pub fn new(settings: NftablesSettings) -> Self {
        Self {
            programs: KernelPrograms::new(settings),
            state: Mutex::default(),
        }
    }

    /// Whether this process can use it.
    ///
    /// # Errors
    /// What is missing: the program, or the permission.
    pub async fn check(&self) -> Result<(), Fault> {
        self.programs.fetch_table().await.map(drop)
    }

    async fn write(&self, changes: &[(BalancerKey, Option<Arc<Forwarding>>)]) -> Result<(), Fault> {
        let mut state = self.state.lock().await;
        let was_known = state.table.is_some();
        let written = self.attempt(&mut state, changes).await;
        if written.is_ok() || !was_known {
            return written;
        }
        // Somebody else changed the table meanwhile: look, and try once more.
        self.attempt(&mut state, changes).await
    }

    async fn attempt(
        &self,
        state: &mut KernelState,
        changes: &[(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> Result<(), Fault> {
        let table = match state.table.take() {
            Some(table) => table,
            None => self.programs.fetch_table().await?,
        };
        let wanted = changes.iter().filter_map(|(_, one)| one.as_ref());
        let mut wanted = wanted.flat_map(|one| &one.addresses);
        if !wanted.all(|address| state.interfaces.addresses.contains_key(address)) {
            state.interfaces = self.programs.fetch_interfaces().await?;
        }
        let plan = TablePlan::new(&table, state, changes);
        for address in &plan.unplaced {
            if let Some(interface) = state.interfaces.addresses.remove(address) {
                self.programs
                    .send_address("del", *address, &interface)
                    .await?;
            }
        }
        if !plan.commands.is_empty() {
            self.programs.send_commands(&plan.commands).await?;
        }
        for address in &plan.placed {
            let interface = state.interfaces.home(*address).to_owned();
            self.programs
                .send_address("add", *address, &interface)
                .await?;
            state.interfaces.addresses.insert(*address, interface);
        }
        state.keep(table, plan.sections);
        Ok(())
    }

    async fn found(&self) -> Result<BTreeMap<BalancerKey, FoundForwarding>, Fault> {
        let mut state = self.state.lock().await;
        state.table = None;
        let table = self.programs.fetch_table().await?;
        state.interfaces = self.programs.fetch_interfaces().await?;
        let is_base_whole = is_base_whole(&table);
        let found = |(key, section): (&BalancerKey, &TableContent)| {
            let forwarding = forwarding(section);
            let mut addresses = forwarding.addresses.iter();
            let is_whole = is_base_whole
                && state.applied.get(key) == Some(section)
                && addresses.all(|address| state.interfaces.addresses.contains_key(address));
            let found = FoundForwarding {
                is_whole,
                ..forwarding
            };
            (key.clone(), found)
        };
        let all = table.sections.iter().map(found).collect();
        state.table = Some(table);
        Ok(all)
    }
}

impl DataPlane for Nftables {
    fn apply<'a>(
        &'a self,
        changes: &'a [(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.write(changes))
    }

    fn read(&self) -> BoxFuture<'_, Result<BTreeMap<BalancerKey, FoundForwarding>, Fault>> {
        Box::pin(self.found())
    }

    fn objection(&self, address: IpAddr) -> Option<String> {
        // The kernel sends no packet with such an address out of the machine.
        address.is_loopback().then(|| {
            format!(
                "nftables forwards no loopback addresses such as {address}: use a pool of other addresses, or \
                 --load-balancer proxy"
            )
        })
    }
}

impl KernelState {
    /// Keeps what was written.
    fn keep(&mut self, mut table: FoundTable, sections: Vec<(BalancerKey, Option<TableContent>)>) {
        table.base = base();
        table.strays = TableContent::default();
        for (key, section) in sections {
            if let Some(section) = section {
                table.sections.insert(key.clone(), section.clone());
                self.applied.insert(key, section);
            } else {
                table.sections.remove(&key);
                self.applied.remove(&key);
            }
        }
        self.table = Some(table);
    }
}

/// One transaction, and what has to be done around it.
struct TablePlan {
    commands: Vec<Value>,
    sections: Vec<(BalancerKey, Option<TableContent>)>,
    /// Addresses that an interface gets, after it.
    placed: BTreeSet<IpAddr>,
    /// Addresses of ours that an interface loses, before it: else nobody would know any more that they are ours.
    unplaced: BTreeSet<IpAddr>,
}

impl TablePlan {
    fn new(
        table: &FoundTable,
        state: &KernelState,
        changes: &[(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> Self {
        let (mut before, mut after) = (table.base.clone(), base());
        before.extend(table.strays.clone());
        // A table that somebody deleted does not tell any more what we placed; this process still knows.
        let known = table.sections.values().chain(state.applied.values());
        let ours: BTreeSet<IpAddr> = known.flat_map(placed).collect();
        let is_present = |address: &IpAddr| state.interfaces.addresses.contains_key(address);
        let mut sections = Vec::new();
        for (key, forwarding) in changes {
            if let Some(section) = table.sections.get(key) {
                before.extend(section.clone());
            }
            let section = forwarding.as_ref().map(|forwarding| {
                let to_place = forwarding.addresses.iter().copied();
                let to_place = to_place
                    .filter(|address| ours.contains(address) || !is_present(address))
                    .collect();
                section(key, forwarding, &to_place)
            });
            after.extend(section.clone().unwrap_or_default());
            sections.push((key.clone(), section));
        }
        let (mut old, new) = (placed(&before), placed(&after));
        let applied = changes.iter().filter_map(|(key, _)| state.applied.get(key));
        old.extend(applied.flat_map(placed));
        let mut all = Vec::new();
        if table.base.chains.is_empty() {
            all.push(json!({ "add": { "table": { "family": FAMILY, "name": TABLE } } }));
        }
        all.extend(commands(&before, &after));
        all.extend(closing(&before, &after));
        Self {
            commands: all,
            sections,
            placed: new
                .iter()
                .filter(|address| !is_present(address))
                .copied()
                .collect(),
            unplaced: old
                .difference(&new)
                .filter(|address| is_present(address))
                .copied()
                .collect(),
        }
    }
}

/// The addresses of a content that we gave to an interface.
fn placed(content: &TableContent) -> BTreeSet<IpAddr> {
    ["placed-4", "placed-6"]
        .iter()
        .filter_map(|name| content.sets.get(*name))
        .flat_map(|set| set.elements.values())
        .filter_map(|element| element.as_str()?.parse().ok())
        .collect()
}

/// Has the connections of fronts that go ended, and those of fronts that come not.
fn closing(before: &TableContent, after: &TableContent) -> Vec<Value> {
    let (old, new) = (fronts(before), fronts(after));
    let mut commands = Vec::new();
    let mut command = |verbs: &[&str], (address, (protocol, port)): (IpAddr, _)| {
        let set = closed_set(protocol, Family::of(address));
        let port: u16 = port;
        let element = json!({ "concat": [address.to_string(), port] });
        for verb in verbs {
            commands.push(element_command(verb, &set, &[&element]));
        }
    };
    for front in old.difference(&new) {
        command(&["add"], *front);
    }
    // What is not there cannot be deleted, what is there can be added.
    for front in new.difference(&old) {
        command(&["add", "delete"], *front);
    }
    commands
}

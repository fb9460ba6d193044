//! Which servers do not have what the leader has, zone by zone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bindery_core::{Name, Role, ServerId, ServerInfo};

/// The servers of a group, and the zones in which some of them are behind.
///
/// Limits: one entry per zone in which a server is behind.
#[derive(Debug, Default)]
pub(crate) struct Behind(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    servers: Vec<ServerInfo>,
    zones: BTreeMap<Name, Vec<ServerId>>,
}

impl Behind {
    /// Takes in which servers there are.
    pub(crate) fn set_servers(&self, servers: Vec<ServerInfo>) {
        self.lock().servers = servers;
    }

    /// Whether there is nobody who could be behind.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().servers.len() < 2
    }

    /// Takes in which servers are behind in a zone.
    pub(crate) fn note(&self, zone: &Name, servers: Vec<ServerId>) {
        let zones = &mut self.lock().zones;
        if servers.is_empty() {
            zones.remove(zone);
        } else {
            zones.insert(zone.clone(), servers);
        }
    }

    /// In how many zones each server is behind that does not lead them all.
    pub(crate) fn counts(&self) -> Vec<(ServerInfo, usize)> {
        let State { servers, zones } = &*self.lock();
        let first = servers.iter().position(|one| one.role == Role::Primary);
        let counts = servers.iter().enumerate().map(|(position, info)| {
            let behind = zones.values().filter(|one| one.contains(&info.id)).count();
            (position, info, behind)
        });
        counts
            .filter(|(position, _, behind)| Some(*position) != first || *behind > 0)
            .map(|(_, info, behind)| (info.clone(), behind))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_counted_for_each_server() {
        let info = |address, role| ServerInfo::at(address, role);
        let (one, two) = (info("one", Role::Secondary), info("two", Role::Secondary));
        let behind = Behind::default();
        behind.set_servers(vec![info("zero", Role::Primary), one.clone(), two.clone()]);
        let name = |text: &str| Name::parse(text).expect("the fixture is a name");
        behind.note(&name("a.example"), vec![one.id.clone(), two.id.clone()]);
        behind.note(&name("b.example"), vec![two.id.clone()]);
        assert_eq!(behind.counts(), [(one.clone(), 1), (two.clone(), 2)]);
        behind.note(&name("a.example"), Vec::new());
        assert_eq!(behind.counts(), [(one, 0), (two, 1)]);
    }
}

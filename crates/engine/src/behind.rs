//! Which servers do not have what the leader has, zone by zone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bindery_core::{Name, fleet::ServerInfo};

/// The followers, and the zones in which some of them are behind.
///
/// Limits: one entry per zone in which a server is behind.
#[derive(Debug)]
pub(crate) struct Behind {
    followers: Box<[ServerInfo]>,
    zones: Mutex<BTreeMap<Name, Vec<usize>>>,
}

impl Behind {
    pub(crate) fn new(followers: Box<[ServerInfo]>) -> Self {
        Self {
            followers,
            zones: Mutex::default(),
        }
    }

    /// Whether there is nobody who could be behind.
    pub(crate) fn is_idle(&self) -> bool {
        self.followers.is_empty()
    }

    /// Takes in which followers, by their position, are behind in a zone.
    pub(crate) fn note(&self, zone: &Name, positions: Vec<usize>) {
        let mut zones = self.lock();
        if positions.is_empty() {
            zones.remove(zone);
        } else {
            zones.insert(zone.clone(), positions);
        }
    }

    /// In how many zones each follower is behind.
    pub(crate) fn counts(&self) -> Vec<(ServerInfo, usize)> {
        let zones = self.lock();
        let followers = self.followers.iter().enumerate();
        followers
            .map(|(position, info)| {
                let behind = zones.values().filter(|one| one.contains(&position));
                (info.clone(), behind.count())
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Vec<usize>>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bindery_core::fleet::Role;

    use super::*;

    #[test]
    fn zones_are_counted_for_each_server() {
        let info = |address: &str| ServerInfo {
            address: address.into(),
            role: Role::Secondary,
        };
        let behind = Behind::new(Box::new([info("one"), info("two")]));
        let name = |text: &str| Name::parse(text).expect("the fixture is a name");
        behind.note(&name("a.example"), vec![0, 1]);
        behind.note(&name("b.example"), vec![1]);
        assert_eq!(behind.counts(), [(info("one"), 1), (info("two"), 2)]);
        behind.note(&name("a.example"), Vec::new());
        assert_eq!(behind.counts(), [(info("one"), 0), (info("two"), 1)]);
    }
}

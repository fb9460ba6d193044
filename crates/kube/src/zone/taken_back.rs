//! Zones that were seen to be gone from their servers.

use std::collections::BTreeSet;

use bindery_core::{Group, ZoneKey};

/// Zones that are remembered. Beyond that all are forgotten, which is the safe side: what objects had in them
/// is remembered for longer than it stands.
const ZONES_MAX: usize = 100_000;

/// Zones that this process took back, or gave up, and that nobody declared since. Of every other zone that
/// nobody declares it is not known whether it is served.
#[derive(Debug, Default)]
pub(crate) struct TakenBack(BTreeSet<(Group, Box<[u8]>)>);

impl TakenBack {
    /// Notes that a zone is gone.
    pub(crate) fn note(&mut self, zone: &ZoneKey) {
        if self.0.len() >= ZONES_MAX {
            self.0.clear();
        }
        self.0.insert(key(&zone.group, zone.name.as_wire()));
    }

    /// Notes that a zone is declared.
    pub(crate) fn forget(&mut self, zone: &ZoneKey) {
        if !self.0.is_empty() {
            self.0.remove(&key(&zone.group, zone.name.as_wire()));
        }
    }

    /// Whether the zone of this name is gone.
    pub(crate) fn has(&self, group: &Group, name: &[u8]) -> bool {
        self.0.contains(&key(group, name))
    }
}

fn key(group: &Group, name: &[u8]) -> (Group, Box<[u8]>) {
    (group.clone(), name.into())
}

#[cfg(test)]
mod tests {
    use bindery_core::Name;

    use super::*;

    #[test]
    fn a_zone_is_gone_until_it_is_declared_again() {
        let zone = |name: &str| ZoneKey {
            name: Name::parse(name).expect("the name is sound"),
            group: Group::UNNAMED,
        };
        let (one, other) = (zone("example.com"), zone("example.net"));
        let mut gone = TakenBack::default();
        gone.note(&one);
        assert!(gone.has(&Group::UNNAMED, one.name.as_wire()));
        assert!(!gone.has(&Group::UNNAMED, other.name.as_wire()));
        gone.forget(&one);
        assert!(!gone.has(&Group::UNNAMED, one.name.as_wire()));
    }
}

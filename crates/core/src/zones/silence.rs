//! Servers that do not answer: what that means for every zone, and when they are back.

use std::time::Duration;

use super::{Zone, Zones};
use crate::{
    fault::{Fault, FaultKind},
    name::Name,
};

impl Zones {
    /// A zone that any server may be asked about, to see whether it answers.
    #[must_use]
    pub fn probe(&self) -> Option<Name> {
        let mut known = self.known.iter();
        let found = known.find(|(_, zone)| zone.declared.is_some());
        found.map(|(name, _)| name.clone())
    }

    /// Takes in whether a server answers, by position, the leader being 0.
    pub fn hear(&mut self, server: usize, answer: Result<(), Fault>, now: Duration) {
        match answer {
            Ok(()) if self.silent.remove(&server).is_none() => return,
            Ok(()) => self.revive(now),
            Err(fault) => {
                if self.silent.insert(server, fault).is_some() {
                    return;
                }
            }
        }
        let names: Vec<Name> = self.known.keys().cloned().collect();
        for name in &names {
            self.touch_waiting_owners(name);
        }
        self.zone_news.extend(names);
    }

    /// What failed because a server was silent is tried at once.
    fn revive(&mut self, now: Duration) {
        for (name, zone) in &mut self.known {
            let fault = zone.fault.as_ref();
            if fault.is_some_and(|fault| fault.kind.is_silence()) {
                zone.not_before = now;
            }
            zone.fleet.revive(now);
            self.work.insert(name.clone());
        }
    }

    /// Why a zone cannot be read or written, if it cannot.
    pub(super) fn fault_of<'a>(&'a self, zone: &'a Zone) -> Option<&'a Fault> {
        zone.fault.as_ref().or_else(|| self.silent.get(&0))
    }

    /// Why not every server of a zone has what is declared, if that is known.
    pub(super) fn lateness_of(&self, zone: &Zone) -> Option<Fault> {
        let silent = self.silent.range(1..).next().map(|(_, fault)| fault);
        let silent = silent.map(|fault| Fault::new(FaultKind::Behind, fault.message.clone()));
        zone.losses
            .fault()
            .or_else(|| zone.propagation.late.clone())
            .or(silent)
    }
}

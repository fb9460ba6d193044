//! Lines that a process before this one may have sent and that were not there yet when the zone was first read.
//!
//! An object owns its lines before they are sent. So what objects own and the zone does not have, when this
//! process reads it for the first time, may be on its way: from a replica that led before, or from this one
//! before it crashed. Where its object lets go of such a line, nothing is left to take away, and the line would
//! come afterwards and be nobody's. For a while it is known as ours, and goes.

use std::{collections::BTreeSet, time::Duration};

use super::{Zone, Zones};
use crate::{
    name::Name,
    ownership::Kept,
    record::{RecordData, RecordKey},
};

/// How long a message may be on its way: a system gives up to send it again after a quarter of an hour.
const HORIZON: Duration = Duration::from_mins(20);

/// Lines that are remembered of a zone: about 200 bytes each, so 200 kB where a server lost a large zone. A
/// message has 500 sets, and two are on their way at most.
const LINES_MAX: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Belated {
    lines: BTreeSet<(RecordKey, RecordData)>,
    /// When the zone was first read.
    noted: Option<Duration>,
}

impl Belated {
    /// Whether this record may be one that was on its way.
    pub(super) fn has(&self, key: &RecordKey, data: &RecordData) -> bool {
        // Looked at for every record that nobody owns, so first for the usual case.
        !self.lines.is_empty() && self.lines.contains(&(key.clone(), data.clone()))
    }

    /// Forgets what would have come by now.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.noted.is_some_and(|noted| now > noted + HORIZON) {
            self.lines.clear();
        }
    }
}

impl Zones {
    /// Takes note, once, of what objects own and a zone that was just read does not have.
    pub(super) fn note_belated(&mut self, name: &Name, now: Duration) {
        let Some(zone) = self.known.get(name) else {
            return;
        };
        if zone.belated.noted.is_some() {
            return;
        }
        let claimed = self.claimed_lines(name, zone);
        let leaving = self.leaving_lines(name);
        let is_missing = |(key, data): &(RecordKey, RecordData)| {
            let standing = zone.children.actual(key);
            standing.is_none_or(|set| !set.data().contains(data))
        };
        let lines = leaving.chain(claimed).filter(is_missing);
        let lines = lines.take(LINES_MAX).collect();
        if let Some(zone) = self.known.get_mut(name) {
            zone.belated = Belated {
                lines,
                noted: Some(now),
            };
        }
    }

    /// What objects ask for in a zone and own.
    fn claimed_lines<'a>(
        &'a self,
        name: &'a Name,
        zone: &'a Zone,
    ) -> impl Iterator<Item = (RecordKey, RecordData)> + 'a {
        let claims = zone.nodes.values().flatten();
        let claims = claims.filter_map(|claim| {
            let kept = self.owners.get(&claim.0)?;
            let claim = self.owners.claim(claim)?;
            (claim.zone == *name).then_some((kept, claim))
        });
        claims.flat_map(|(kept, claim)| {
            let data = claim.data.iter();
            let owned = data.filter(|data| kept.owns(&claim.key.name, data));
            owned.map(|data| (claim.key.clone(), data.clone()))
        })
    }

    /// What objects own in a zone and do not ask for.
    fn leaving_lines(&self, name: &Name) -> impl Iterator<Item = (RecordKey, RecordData)> {
        let owners = self.owners.leaving(name);
        let kept = owners.filter_map(|owner| self.owners.get(owner));
        let lines = kept.flat_map(Kept::stale_records);
        let inside = lines.filter(|line| line.name.is_in(name));
        inside.map(|line| (line.key(), line.data.clone()))
    }
}

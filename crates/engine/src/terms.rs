//! Which steps were begun under which leader, so that none counts, or writes, after another one leads.

use std::collections::BTreeMap;

use bindery_core::{Name, zones::Term};
use tokio_util::sync::CancellationToken;

/// The steps on their way, zone by zone.
///
/// Limits: one entry per zone with a step on its way.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    zones: BTreeMap<Name, Running>,
    ended: usize,
}

#[derive(Debug)]
struct Running {
    term: Term,
    turn: CancellationToken,
    steps: usize,
}

impl Terms {
    /// A step of a zone begins. What it returns is cancelled when another server leads the zone.
    pub(crate) fn begin(&mut self, zone: &Name, term: &Term) -> CancellationToken {
        self.end_zone(zone, |before| before != term);
        let running = self.zones.entry(zone.clone()).or_insert_with(|| Running {
            term: term.clone(),
            turn: CancellationToken::new(),
            steps: 0,
        });
        running.steps += 1;
        running.turn.clone()
    }

    /// A step ended; returns whether it counts.
    pub(crate) fn complete(&mut self, zone: &Name, term: &Term) -> bool {
        let running = self.zones.get_mut(zone);
        let Some(running) = running.filter(|running| running.term == *term) else {
            self.ended = self.ended.saturating_sub(1);
            return false;
        };
        running.steps -= 1;
        if running.steps == 0 {
            self.zones.remove(zone);
        }
        true
    }

    /// Ends every term that is over.
    pub(crate) fn end(&mut self, is_over: impl Fn(&Name, &Term) -> bool) {
        let over = self.zones.iter();
        let over = over.filter(|(zone, running)| is_over(zone, &running.term));
        let over: Vec<Name> = over.map(|(zone, _)| zone.clone()).collect();
        for zone in over {
            self.end_zone(&zone, |_| true);
        }
    }

    /// How many steps are on their way whose term is over.
    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    fn end_zone(&mut self, zone: &Name, is_over: impl Fn(&Term) -> bool) {
        let running = self.zones.get(zone);
        if running.is_some_and(|running| is_over(&running.term))
            && let Some(running) = self.zones.remove(zone)
        {
            running.turn.cancel();
            self.ended += running.steps;
        }
    }
}

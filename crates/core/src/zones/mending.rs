//! What others wrote over our sets: it is put right, less and less often where they go on, and told.

use std::time::Duration;

use super::{ClaimStatus, Zone, Zones, all_types};
use crate::{
    backoff::{Backoff, jitter_seed},
    fault::{Fault, FaultKind},
    guard::{Judgement, Policy},
    name::Name,
    plan::PlannedChange,
    record::{RecordData, RecordKey, RecordType},
};

/// How long to wait before a set that others wrote over is put right once more; the first time it is done
/// at once.
const MENDING: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// After so long without them, it is as if they had never written.
const CALM: Duration = Duration::from_mins(10);

/// Values of others that are told of one set.
const FOUND_MAX: usize = 4;

/// What others did to a set of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// How often it was put right.
    pub times: u32,
    /// The set in which they wrote.
    pub key: RecordKey,
    /// Some of the values that they had put there.
    pub found: Vec<RecordData>,
}

/// A set that was put right.
#[derive(Clone, Debug)]
pub(super) struct Mend {
    times: u32,
    in_a_row: u32,
    not_before: Duration,
    found: Vec<RecordData>,
}

impl Zones {
    /// A set stands as it is asked for: whoever asks for it has had it from now on.
    pub(super) fn confirm(&mut self, name: &Name, key: &RecordKey) {
        let zone = self.known.get(name);
        if let Some(zone) = zone.filter(|zone| zone.children.desired(key).is_some()) {
            self.owners.confirm(zone.claims_at(&key.name), key);
        }
    }

    /// Whether an object that asks for this set has had it, so that what stands there instead was put there
    /// by others.
    pub(super) fn is_had(&self, zone: &Zone, key: &RecordKey) -> bool {
        self.owners.has_had(zone.claims_at(&key.name), key)
    }

    /// Whether a set that nobody of ours asks for stands at a name in place of one that we have had.
    pub(super) fn is_usurper(&self, zone: &Zone, key: &RecordKey) -> bool {
        let wanted = zone.children.all_desired();
        !wanted.contains_key(key)
            && wanted
                .range(all_types(&key.name))
                .any(|(ours, _)| excludes(ours, key) && self.is_had(zone, ours))
    }

    /// What stands in the way of a set that is about to be written, and is not on its way already.
    pub(super) fn usurpers<'a>(
        &'a self,
        zone: &'a Zone,
        key: &'a RecordKey,
    ) -> impl Iterator<Item = &'a RecordKey> {
        let others = zone.children.all_actual().range(all_types(&key.name));
        let others = others.map(|(other, _)| other);
        others.filter(move |other| {
            excludes(key, other)
                && self.is_usurper(zone, other)
                && !zone.children.in_flight().contains_key(*other)
        })
    }

    /// A set that others write over again and again waits until it is put right once more.
    pub(super) fn contest(
        &mut self,
        name: &Name,
        key: &RecordKey,
        found: &[RecordData],
        not_before: Duration,
    ) {
        if let Some(zone) = self.known.get_mut(name) {
            let status = ClaimStatus::Failing(contested(key, found));
            // Whoever asks for something at the name is told, be it of another type.
            let wanted = zone.children.all_desired().range(all_types(&key.name));
            let wanted: Vec<RecordKey> = wanted.map(|(key, _)| key.clone()).collect();
            for ours in wanted.into_iter().filter(|ours| excludes(ours, key)) {
                zone.children
                    .quarantine_until(&ours, status.clone(), not_before);
            }
            zone.children.quarantine_until(key, status, not_before);
        }
        self.touch_owners(key);
    }
}

/// A set that others write over is put right less and less often.
pub(super) struct Mending<'a> {
    pub(super) zone: &'a mut Zone,
    pub(super) now: Duration,
}

impl Policy for Mending<'_> {
    fn judge(&mut self, planned: &PlannedChange) -> Judgement {
        let (key, found, now) = (&planned.change.key, &planned.intruders, self.now);
        if found.is_empty() {
            return Judgement::Pass;
        }
        match self.zone.mend(key, found, now) {
            Ok(()) => Judgement::Pass,
            Err(until) => Judgement::Defer(until),
        }
    }
}

impl Zone {
    /// Notes that a set is about to be put right.
    ///
    /// # Errors
    /// The time before which it is not to be done again.
    pub(super) fn mend(
        &mut self,
        key: &RecordKey,
        found: &[RecordData],
        now: Duration,
    ) -> Result<(), Duration> {
        let last = self.mends.get(key).map(|mend| mend.not_before);
        if let Some(until) = last.filter(|until| now < *until) {
            return Err(until);
        }
        self.mends.retain(|_, mend| now < mend.not_before + CALM);
        let mend = self.mends.entry(key.clone()).or_insert_with(|| Mend {
            times: 0,
            in_a_row: 0,
            not_before: now,
            found: Vec::new(),
        });
        mend.times += 1;
        mend.in_a_row += 1;
        mend.not_before = now + MENDING.delay(mend.in_a_row, jitter_seed(key.name.as_wire()));
        mend.found = found.iter().take(FOUND_MAX).cloned().collect();
        Ok(())
    }

    /// What others did to the sets of a name.
    pub(super) fn mended(&self, key: &RecordKey) -> Option<Mended> {
        let mut mends = self.mends.range(all_types(&key.name));
        let (key, mend) = mends.find(|(one, _)| *one == key || excludes(one, key))?;
        Some(Mended {
            times: mend.times,
            key: key.clone(),
            found: mend.found.clone(),
        })
    }

    /// Looks again at everything that is wanted at the name of a set that others touched: it may have stood
    /// in the way.
    pub(super) fn look_again(&mut self, key: &RecordKey) {
        let wanted = self.children.all_desired().range(all_types(&key.name));
        let wanted: Vec<RecordKey> = wanted.map(|(key, _)| key.clone()).collect();
        for key in wanted.into_iter().chain([key.clone()]) {
            self.children.reconsider(key);
        }
    }
}

/// Whether two sets of one name cannot stand beside each other (RFC 1034 section 3.6.2).
pub(super) fn excludes(one: &RecordKey, other: &RecordKey) -> bool {
    let types = [one.rtype, other.rtype];
    one.rtype != other.rtype
        && types.contains(&RecordType::Cname)
        && !types.iter().any(|rtype| rtype.stands_beside_cname())
}

fn contested(key: &RecordKey, found: &[RecordData]) -> Fault {
    let found: Vec<String> = found
        .iter()
        .take(FOUND_MAX)
        .map(ToString::to_string)
        .collect();
    let message = format!(
        "somebody else writes {key} as {} again and again: find out who, and let one of the two write it",
        found.join(", ")
    );
    Fault::new(FaultKind::Malformed, message)
}

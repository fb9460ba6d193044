//! What an object has to record in its metadata before its claims reach DNS, and after what it had is gone.

use std::collections::{BTreeMap, BTreeSet};

use bindery_api::{Role, role};
use bindery_core::{
    Claim, Group, Name, Problem, Record, RecordData, RecordKey, ZoneKey, reason::Reason,
};
use serde_json::{Value, json};

use crate::meta::{
    FINALIZER, Life, Meta, PUBLISHED, PUBLISHED_CHECK, ZONE, owned_zones_text, parse_records, text,
};
use crate::seal::{check_text, seal};

/// The longest text of lines in one object. Kubernetes allows 256 KiB for all annotations of an
/// object together; the rest is left to others.
pub(crate) const PUBLISHED_LEN_MAX: usize = 200 * 1024;

/// One change of an object's finalizers and annotations.
///
/// Guarantees: it applies to the version that it was made for only, so finalizers that others added
/// meanwhile are never lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPatch {
    version: u64,
    finalizers: Vec<Box<str>>,
    annotations: BTreeMap<&'static str, Option<String>>,
    /// What the object owns once it is written.
    owned: Option<Box<str>>,
}

impl MetadataPatch {
    /// The body of a merge patch.
    #[must_use]
    pub fn body(&self) -> Value {
        let finalizers = match self.finalizers.as_slice() {
            [] => Value::Null,
            finalizers => json!(finalizers),
        };
        json!({
            "metadata": {
                "resourceVersion": self.version.to_string(),
                "finalizers": finalizers,
                "annotations": self.annotations,
            }
        })
    }

    /// The patch that records the zones which a zone object owns, and keeps our finalizer as long as there
    /// are any.
    #[must_use]
    pub fn owned_zones(meta: &Meta, zones: &BTreeSet<ZoneKey>) -> Self {
        let text = owned_zones_text(zones);
        let finalizer = if zones.is_empty() {
            Finalizer::Remove
        } else {
            Finalizer::Keep
        };
        Self::new(meta, finalizer, text, meta.zone.as_deref())
    }

    /// The records, or of a zone object the zones, that the object owns once the patch is written; `None`
    /// where the patch does not change them.
    #[must_use]
    pub fn owned(&self) -> Option<&str> {
        self.owned.as_deref()
    }

    /// The same for an object that goes on recording these lines; `None` where nothing is left to write then.
    #[must_use]
    pub fn keeping(self, meta: &Meta, kept: &[(Group, Record)]) -> Option<Self> {
        if kept.is_empty() {
            return Some(self);
        }
        let mut lines = parse_records(self.owned().unwrap_or_default());
        let value =
            |(group, record): &(Group, Record)| (group.clone(), record.key(), record.data.clone());
        let known: BTreeSet<_> = lines.iter().map(value).collect();
        let more = kept.iter().filter(|line| !known.contains(&value(line)));
        lines.extend(more.cloned());
        let text = text(lines);
        let zone = self.zone_after(meta.zone.as_deref());
        let is_exact = meta.is_recorded() && meta.has_finalizer && *meta.published == *text;
        (!is_exact || meta.zone.as_deref() != zone)
            .then(|| Self::new(meta, Finalizer::Keep, text, zone))
    }

    /// Whether the object has our finalizer once the patch is written.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|one| **one == *FINALIZER)
    }

    /// The annotation [`ZONE`] once the patch is written to an object that has this one.
    pub(crate) fn zone_after<'a>(&'a self, before: Option<&'a str>) -> Option<&'a str> {
        let after = self.annotations.get(ZONE);
        after.map_or(before, Option::as_deref)
    }

    /// The patch that takes our finalizer from an object and nothing more.
    #[must_use]
    pub fn release(meta: &Meta) -> Self {
        Self {
            version: meta.version,
            finalizers: meta.other_finalizers().into(),
            annotations: BTreeMap::new(),
            owned: None,
        }
    }

    /// The patch that writes back what somebody else changed; `None` where nobody did, or where an object that
    /// is being deleted lacks our finalizer, which it cannot be given any more.
    pub(crate) fn written_back(meta: &Meta) -> Option<Self> {
        let is_held = meta.has_finalizer || meta.life == Life::Alive;
        let is_lost = meta.is_tampered() && !meta.published.is_empty();
        (is_held && is_lost).then(|| {
            let lines = meta.published.to_string();
            Self::new(meta, Finalizer::Keep, lines, meta.zone.as_deref())
        })
    }

    fn new(meta: &Meta, finalizer: Finalizer, lines: String, zone: Option<&str>) -> Self {
        let ours = match finalizer {
            Finalizer::Keep => Some(FINALIZER.into()),
            Finalizer::Remove => None,
        };
        let mut annotations = BTreeMap::new();
        let is_zone = role(meta.object.kind) == Role::Zone;
        if !lines.is_empty() {
            annotations.insert(PUBLISHED, Some(seal(&meta.object, &lines)));
            if !is_zone {
                let check = check_text(&meta.object, &lines);
                annotations.insert(PUBLISHED_CHECK, Some(check));
            }
        } else if !meta.published.is_empty() || !meta.is_recorded() || meta.is_wiped() {
            annotations.insert(PUBLISHED, None);
            if !is_zone {
                annotations.insert(PUBLISHED_CHECK, None);
            }
        }
        if meta.zone.as_deref() != zone {
            annotations.insert(ZONE, zone.map(str::to_owned));
        }
        Self {
            version: meta.version,
            finalizers: meta
                .other_finalizers()
                .iter()
                .cloned()
                .chain(ours)
                .collect(),
            annotations,
            owned: Some(lines.into()),
        }
    }
}

#[derive(Clone, Copy)]
enum Finalizer {
    Keep,
    Remove,
}

/// The patch that has to be written before these claims may reach DNS, to metadata that records these
/// lines; `None` where the metadata records all of them already.
///
/// # Errors
/// A problem where it would be too long.
pub(crate) fn before_publishing(
    meta: &Meta,
    recorded: &[(Group, Record)],
    claims: &[(Group, Claim)],
    zone: Option<&str>,
) -> Result<Option<MetadataPatch>, Problem> {
    let known: BTreeSet<(&Group, RecordKey, &RecordData)> = recorded
        .iter()
        .map(|(group, record)| (group, record.key(), &record.data))
        .collect();
    let is_durable = |(group, claim): &(Group, Claim)| {
        let is_known = |data: &RecordData| known.contains(&(group, claim.key.clone(), data));
        let mut first = meta.ownership().durable_first(claim, is_known);
        first.next().is_none()
    };
    let is_written = meta.has_finalizer && meta.is_recorded() && !meta.is_wiped();
    if claims.is_empty() || (is_written && claims.iter().all(is_durable)) {
        return Ok(None);
    }
    let wanted = records(claims);
    let present: BTreeSet<(&Group, &Name, &RecordData)> = wanted
        .iter()
        .map(|(group, record)| (group, &record.name, &record.data))
        .collect();
    let leaving = recorded
        .iter()
        .filter(|(group, record)| !present.contains(&(group, &record.name, &record.data)))
        .cloned();
    let text = text(wanted.iter().cloned().chain(leaving).collect());
    if text.len() > PUBLISHED_LEN_MAX {
        return Err(too_long(text.len()));
    }
    Ok(Some(MetadataPatch::new(meta, Finalizer::Keep, text, zone)))
}

/// The patch that makes metadata record just these claims, once nothing else is left in DNS; `None` where
/// it does so already.
pub(crate) fn after_withdrawal(
    meta: &Meta,
    claims: &[(Group, Claim)],
    zone: Option<&str>,
) -> Option<MetadataPatch> {
    let is_recorded = meta.is_recorded() && meta.zone.as_deref() == zone;
    if claims.is_empty() {
        let is_clean = is_recorded && !meta.has_finalizer && meta.published.is_empty();
        return (!is_clean)
            .then(|| MetadataPatch::new(meta, Finalizer::Remove, String::new(), zone));
    }
    let text = text(records(claims));
    let is_exact = is_recorded && meta.has_finalizer && *meta.published == *text;
    (!is_exact).then(|| MetadataPatch::new(meta, Finalizer::Keep, text, zone))
}

/// The lines of these claims.
pub(crate) fn records(claims: &[(Group, Claim)]) -> Vec<(Group, Record)> {
    let records = claims.iter().flat_map(|(group, claim)| {
        let records = claim.records();
        records.map(move |record| (group.clone(), record))
    });
    records.collect()
}

fn too_long(len: usize) -> Problem {
    Problem {
        field: "spec".to_owned(),
        reason: Reason::Invalid,
        message: format!(
            "its records take {len} bytes as zone-file lines, more than the {PUBLISHED_LEN_MAX} \
             that fit into one object: split it into several"
        ),
    }
}

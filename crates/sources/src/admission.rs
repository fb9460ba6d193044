//! What has to be written down in an object before, and after, its records stand in DNS.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::{
    Claim, Group, Name, Problem, Record, RecordData, RecordKey, ZoneKey, reason::Reason,
};
use serde_json::{Value, json};

use crate::meta::{FINALIZER, Meta, PUBLISHED, ZONE, places_text, text};
use crate::seal::seal;

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
    /// The lines that are known once it is written.
    lines: Option<Box<str>>,
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

    /// The patch after which a zone object says that it may have these zones on servers, and is held
    /// as long as there are any.
    #[must_use]
    pub fn places(meta: &Meta, places: &BTreeSet<ZoneKey>) -> Self {
        let text = places_text(places);
        let hold = if places.is_empty() {
            Hold::Release
        } else {
            Hold::Keep
        };
        Self::new(meta, hold, text, meta.zone.as_deref())
    }

    /// The lines, or a zone's places, that are left when it is written, if it speaks of them.
    #[must_use]
    pub fn lines(&self) -> Option<&str> {
        self.lines.as_deref()
    }

    /// The patch that takes our finalizer from an object and nothing more.
    #[must_use]
    pub fn release(meta: &Meta) -> Self {
        Self {
            version: meta.version,
            finalizers: meta.others().into(),
            annotations: BTreeMap::new(),
            lines: None,
        }
    }

    fn new(meta: &Meta, hold: Hold, lines: String, zone: Option<&str>) -> Self {
        let ours = match hold {
            Hold::Keep => Some(FINALIZER.into()),
            Hold::Release => None,
        };
        let mut annotations = BTreeMap::new();
        if !lines.is_empty() {
            annotations.insert(PUBLISHED, Some(seal(&meta.object, &lines)));
        } else if !meta.published.is_empty() || !meta.is_noted() {
            annotations.insert(PUBLISHED, None);
        }
        if meta.zone.as_deref() != zone {
            annotations.insert(ZONE, zone.map(str::to_owned));
        }
        Self {
            version: meta.version,
            finalizers: meta.others().iter().cloned().chain(ours).collect(),
            annotations,
            lines: Some(lines.into()),
        }
    }
}

#[derive(Clone, Copy)]
enum Hold {
    Keep,
    Release,
}

/// What the object's metadata, which carries these lines, must say before these claims may reach DNS;
/// `None` where it does.
///
/// # Errors
/// A problem where it would be too long.
pub(crate) fn before(
    meta: &Meta,
    carried: &[(Group, Record)],
    claims: &[(Group, Claim)],
    zone: Option<&str>,
) -> Result<Option<MetadataPatch>, Problem> {
    let known: BTreeSet<(&Group, RecordKey, &RecordData)> = carried
        .iter()
        .map(|(group, record)| (group, record.key(), &record.data))
        .collect();
    let mut claimed = claims.iter().flat_map(|(group, claim)| {
        let data = claim.data.iter();
        data.map(move |data| (group, claim.key.clone(), data))
    });
    let is_written = meta.held && meta.is_noted();
    if claims.is_empty() || (is_written && claimed.all(|line| known.contains(&line))) {
        return Ok(None);
    }
    let wanted = lines(claims);
    let present: BTreeSet<(&Group, &Name, &RecordData)> = wanted
        .iter()
        .map(|(group, record)| (group, &record.name, &record.data))
        .collect();
    let leaving = carried
        .iter()
        .filter(|(group, record)| !present.contains(&(group, &record.name, &record.data)))
        .cloned();
    let text = text(wanted.iter().cloned().chain(leaving).collect());
    if text.len() > PUBLISHED_LEN_MAX {
        return Err(too_long(text.len()));
    }
    Ok(Some(MetadataPatch::new(meta, Hold::Keep, text, zone)))
}

/// What the object's metadata must say once nothing but these claims is left in DNS; `None` where
/// it does.
pub(crate) fn after(
    meta: &Meta,
    claims: &[(Group, Claim)],
    zone: Option<&str>,
) -> Option<MetadataPatch> {
    let is_noted = meta.is_noted() && meta.zone.as_deref() == zone;
    if claims.is_empty() {
        let is_clean = is_noted && !meta.held && meta.published.is_empty();
        return (!is_clean).then(|| MetadataPatch::new(meta, Hold::Release, String::new(), zone));
    }
    let text = text(lines(claims));
    let is_exact = is_noted && meta.held && *meta.published == *text;
    (!is_exact).then(|| MetadataPatch::new(meta, Hold::Keep, text, zone))
}

fn lines(claims: &[(Group, Claim)]) -> Vec<(Group, Record)> {
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

//! What has to be written down in an object before, and after, its records stand in DNS.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::{
    Claim, Group, Name, Problem, Record, RecordData, RecordKey, ZoneKey, reason::Reason,
};
use serde_json::{Value, json};

use crate::meta::{FINALIZER, Meta, ON_CLUSTER, PUBLISHED, ZONE};

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
        let line = |place: &ZoneKey| match place.group.name() {
            Some(cluster) => format!("{} {cluster}", place.name),
            None => place.name.to_string(),
        };
        let text = places.iter().map(line).collect::<Vec<_>>().join("\n");
        let (hold, text) = if places.is_empty() {
            (Hold::Release, None)
        } else {
            (Hold::Keep, Some(text))
        };
        Self::new(meta, hold, notes(text, meta, meta.zone.as_deref()))
    }

    /// The patch that takes our finalizer from an object and nothing more.
    #[must_use]
    pub fn release(meta: &Meta) -> Self {
        Self::new(meta, Hold::Release, BTreeMap::new())
    }

    fn new(meta: &Meta, hold: Hold, annotations: BTreeMap<&'static str, Option<String>>) -> Self {
        let ours = match hold {
            Hold::Keep => Some(FINALIZER.into()),
            Hold::Release => None,
        };
        Self {
            version: meta.version,
            finalizers: meta.others().iter().cloned().chain(ours).collect(),
            annotations,
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
    if claims.is_empty() || (meta.held && claimed.all(|line| known.contains(&line))) {
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
    Ok(Some(MetadataPatch::new(
        meta,
        Hold::Keep,
        notes(Some(text), meta, zone),
    )))
}

/// What the object's metadata must say once nothing but these claims is left in DNS; `None` where
/// it does.
pub(crate) fn after(
    meta: &Meta,
    claims: &[(Group, Claim)],
    zone: Option<&str>,
) -> Option<MetadataPatch> {
    if claims.is_empty() {
        let clean = !meta.held && meta.published.is_empty() && meta.zone.is_none();
        let annotations = notes(None, meta, None);
        return (!clean).then(|| MetadataPatch::new(meta, Hold::Release, annotations));
    }
    let text = text(lines(claims));
    let exact = meta.held && *meta.published == *text && meta.zone.as_deref() == zone;
    (!exact).then(|| MetadataPatch::new(meta, Hold::Keep, notes(Some(text), meta, zone)))
}

fn notes(
    published: Option<String>,
    meta: &Meta,
    zone: Option<&str>,
) -> BTreeMap<&'static str, Option<String>> {
    let mut notes = BTreeMap::new();
    if published.is_some() || !meta.published.is_empty() {
        notes.insert(PUBLISHED, published);
    }
    if meta.zone.as_deref() != zone {
        notes.insert(ZONE, zone.map(str::to_owned));
    }
    notes
}

fn lines(claims: &[(Group, Claim)]) -> Vec<(Group, Record)> {
    let records = claims.iter().flat_map(|(group, claim)| {
        let records = claim.records();
        records.map(move |record| (group.clone(), record))
    });
    records.collect()
}

fn text(mut lines: Vec<(Group, Record)>) -> String {
    lines.sort();
    lines.dedup();
    let mut text: Vec<String> = Vec::with_capacity(lines.len());
    let mut above = &Group::UNNAMED;
    for (group, record) in &lines {
        if group != above {
            let name = group.name().unwrap_or_default();
            text.push(format!("{ON_CLUSTER}{name}"));
            above = group;
        }
        text.push(record.to_string());
    }
    text.join("\n")
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

//! Dynamic updates on a zone's content, as RFC 2136 section 3 has them processed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_core::{Name, RecordData, RecordSet, RecordType, Serial};
use bindery_dns::wire::{WireRecord, class, rcode, rtype};

use super::content::Content;

/// A refusal: the response code that says why.
pub(super) type Refusal = u8;

/// What an update made of a zone.
pub(super) struct Updated {
    /// The zone afterwards, its serial raised.
    pub(super) content: Content,
    /// The sets that differ; empty if the update changed nothing.
    pub(super) changed: BTreeSet<(Name, RecordType)>,
}

/// Checks the prerequisites (section 3.2).
pub(super) fn check(content: &Content, prerequisites: &[WireRecord]) -> Result<(), Refusal> {
    let mut exact: BTreeMap<(Name, RecordType), BTreeSet<RecordData>> = BTreeMap::new();
    for row in prerequisites {
        if row.ttl != 0 {
            return Err(rcode::FORMERR);
        }
        if !row.name.is_in(content.apex()) {
            return Err(rcode::NOTZONE);
        }
        let rtype = RecordType::from_code(row.rtype);
        let any = row.rtype == rtype::ANY;
        match row.class {
            class::ANY | class::NONE if !row.rdata.is_empty() => return Err(rcode::FORMERR),
            class::ANY if any && content.node(&row.name).is_none() => {
                return Err(rcode::NXDOMAIN);
            }
            class::ANY if !any && content.set(&row.name, rtype).is_none() => {
                return Err(rcode::NXRRSET);
            }
            class::NONE if any && content.node(&row.name).is_some() => {
                return Err(rcode::YXDOMAIN);
            }
            class::NONE if !any && content.set(&row.name, rtype).is_some() => {
                return Err(rcode::YXRRSET);
            }
            class::ANY | class::NONE => {}
            class::IN if is_meta(row.rtype) => return Err(rcode::FORMERR),
            class::IN => {
                let data = row.data().map_err(|_| rcode::FORMERR)?;
                exact
                    .entry((row.name.clone(), rtype))
                    .or_default()
                    .insert(data);
            }
            _ => return Err(rcode::FORMERR),
        }
    }
    for ((name, rtype), wanted) in exact {
        let found = content.set(&name, rtype).ok_or(rcode::NXRRSET)?;
        if !found.data().iter().eq(wanted.iter()) {
            return Err(rcode::NXRRSET);
        }
    }
    Ok(())
}

/// Looks an update through before any of it is done (section 3.4.1), and reads its data.
pub(super) fn prescan(
    apex: &Name,
    updates: &[WireRecord],
) -> Result<Vec<Option<RecordData>>, Refusal> {
    let mut data = Vec::with_capacity(updates.len());
    for row in updates {
        if !row.name.is_in(apex) {
            return Err(rcode::NOTZONE);
        }
        let any = row.rtype == rtype::ANY;
        data.push(match row.class {
            class::IN if !is_meta(row.rtype) => Some(row.data().map_err(|_| rcode::FORMERR)?),
            class::ANY if row.ttl == 0 && row.rdata.is_empty() && (any || !is_meta(row.rtype)) => {
                None
            }
            class::NONE if row.ttl == 0 && !is_meta(row.rtype) => {
                Some(row.data().map_err(|_| rcode::FORMERR)?)
            }
            _ => return Err(rcode::FORMERR),
        });
    }
    Ok(data)
}

/// Applies an update that has been looked through (section 3.4.2) and raises the serial if
/// something changed and the update did not do so itself.
pub(super) fn apply(
    before: &Content,
    updates: &[WireRecord],
    data: Vec<Option<RecordData>>,
) -> Updated {
    let mut content = before.clone();
    let mut touched = BTreeSet::new();
    for (row, data) in updates.iter().zip(data) {
        match (row.class, data) {
            (class::IN, Some(data)) => add(&mut content, row, data, &mut touched),
            (class::NONE, Some(data)) => remove(&mut content, row, &data, &mut touched),
            _ => remove_sets(&mut content, row, &mut touched),
        }
    }
    let mut changed: BTreeSet<(Name, RecordType)> = touched
        .into_iter()
        .filter(|(name, rtype)| before.set(name, *rtype) != content.set(name, *rtype))
        .collect();
    let soa = (content.apex().clone(), RecordType::Soa);
    if !changed.is_empty() && !changed.contains(&soa) {
        raise_serial(&mut content);
        changed.insert(soa);
    }
    Updated { content, changed }
}

type Touched = BTreeSet<(Name, RecordType)>;

fn add(content: &mut Content, row: &WireRecord, data: RecordData, touched: &mut Touched) {
    let rtype = data.rtype();
    let apex = row.name == *content.apex();
    if rtype == RecordType::Ns && row.name.is_wildcard() {
        // A delegation of whatever is missing means nothing (RFC 4592 section 4.2); BIND
        // ignores it too.
        return;
    }
    if let RecordData::Soa(soa) = &data {
        // Only the zone's own SOA, and only forwards.
        let newer = content
            .serial()
            .is_none_or(|now| Serial(soa.serial).newer_than(now));
        if !apex || !newer {
            return;
        }
    } else if let Some(node) = content.node(&row.name) {
        // A CNAME stands alone; what does not fit is ignored without an error.
        let has_cname = node.set(RecordType::Cname).is_some();
        let is_cname = rtype == RecordType::Cname;
        if has_cname != is_cname && (has_cname || !node.sets.is_empty()) {
            return;
        }
    }
    let single = matches!(rtype, RecordType::Soa | RecordType::Cname);
    let standing = content.set(&row.name, rtype).filter(|_| !single);
    let all = standing
        .map_or(&[][..], |set| set.data())
        .iter()
        .cloned()
        .chain([data]);
    let set = RecordSet::new(row.ttl, all);
    content.put(&row.name, rtype, Some(Arc::new(set)));
    touched.insert((row.name.clone(), rtype));
}

fn remove(content: &mut Content, row: &WireRecord, data: &RecordData, touched: &mut Touched) {
    let rtype = data.rtype();
    let Some(set) = content.set(&row.name, rtype) else {
        return;
    };
    let apex = row.name == *content.apex();
    let last_server = apex && rtype == RecordType::Ns && set.len() == 1;
    if rtype == RecordType::Soa || last_server || !set.contains(data) {
        return;
    }
    let rest = set
        .data()
        .iter()
        .filter(|standing| *standing != data)
        .cloned();
    let rest = RecordSet::new(set.ttl, rest);
    content.put(&row.name, rtype, Some(Arc::new(rest)));
    touched.insert((row.name.clone(), rtype));
}

fn remove_sets(content: &mut Content, row: &WireRecord, touched: &mut Touched) {
    let Some(node) = content.node(&row.name) else {
        return;
    };
    let apex = row.name == *content.apex();
    let going: Vec<RecordType> = node
        .sets
        .keys()
        .copied()
        .filter(|rtype| row.rtype == rtype::ANY || rtype.code() == row.rtype)
        .filter(|rtype| !(apex && matches!(rtype, RecordType::Soa | RecordType::Ns)))
        .collect();
    for rtype in going {
        content.put(&row.name, rtype, None);
        touched.insert((row.name.clone(), rtype));
    }
}

fn raise_serial(content: &mut Content) {
    let Some((soa, ttl)) = content.soa() else {
        return;
    };
    let mut soa = soa.clone();
    // Zero means "no serial" to some secondaries, so it is passed over.
    soa.serial = Serial(soa.serial).next().0.max(1);
    let set = RecordSet::new(ttl, [RecordData::Soa(Box::new(soa))]);
    let apex = content.apex().clone();
    content.put(&apex, RecordType::Soa, Some(Arc::new(set)));
}

/// Types that are questions or signatures, never data (RFC 6895 section 3.1), OPT among them.
fn is_meta(code: u16) -> bool {
    code == 0 || code == rtype::OPT || (128..=255).contains(&code)
}

#[cfg(test)]
mod tests;

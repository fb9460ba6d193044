//! The records of a zone in memory, and what RFC 2136 makes of them.

use std::collections::BTreeMap;

use bindery_core::{
    Change, Expect, Fault, FaultKind, Name, Record, RecordData, RecordKey, RecordSet, RecordType,
    Serial, Soa, zones::ZoneContent,
};

/// Response code of a refused request (RFC 1035).
pub(super) const REFUSED: u16 = 5;
/// Response code of a set that exists though it should not (RFC 2136).
const YXRRSET: u16 = 7;
/// Response code of a set that does not exist as it should (RFC 2136).
pub(super) const NXRRSET: u16 = 8;

pub(super) fn find<'a>(
    zones: &'a mut BTreeMap<Name, ZoneContent>,
    zone: &Name,
) -> Result<&'a mut ZoneContent, Fault> {
    let message = format!("the server does not have the zone {zone}; create it there");
    zones
        .get_mut(zone)
        .ok_or_else(|| Fault::new(FaultKind::NoSuchZone, message))
}

pub(super) fn soa_of(zone: &Name, content: &ZoneContent) -> Result<Record, Fault> {
    let set = content
        .sets
        .get(&RecordKey::new(zone.clone(), RecordType::Soa));
    let data = set.and_then(|set| Some((set.ttl, set.data().first()?.clone())));
    let (ttl, data) = data.ok_or_else(|| Fault::new(FaultKind::Malformed, "no SOA"))?;
    Ok(Record {
        name: zone.clone(),
        ttl,
        data,
    })
}

pub(super) fn content(records: &[Record]) -> ZoneContent {
    let mut content = ZoneContent {
        serial: Serial(1),
        sets: BTreeMap::new(),
    };
    for record in records {
        let key = RecordKey {
            name: record.name.clone(),
            rtype: record.data.rtype(),
        };
        add(
            &mut content,
            &key,
            record.ttl,
            std::slice::from_ref(&record.data),
        );
        if let RecordData::Soa(soa) = &record.data {
            content.serial = Serial(soa.serial);
        }
    }
    content
}

/// Gives a zone a serial, in its SOA too.
pub(super) fn advance(content: &mut ZoneContent, serial: Serial) {
    content.serial = serial;
    for set in content.sets.values_mut() {
        let Some(RecordData::Soa(soa)) = set.data().first() else {
            continue;
        };
        let soa = RecordData::Soa(Box::new(Soa {
            serial: serial.0,
            ..(**soa).clone()
        }));
        *set = RecordSet::new(set.ttl, [soa]);
    }
}

/// Checks a precondition, and a rule that stands for any server's policy: names with the label
/// `refused` are not accepted.
pub(super) fn check(content: &ZoneContent, change: &Change) -> Result<(), Fault> {
    if change.key.name.labels().any(|label| label == b"refused") {
        return Err(Fault::new(
            FaultKind::Refused(REFUSED),
            "REFUSED: not allowed by policy",
        ));
    }
    let standing = content
        .sets
        .get(&change.key)
        .map_or(&[][..], RecordSet::data);
    match &change.expect {
        Expect::Absent if !standing.is_empty() => Err(Fault::new(
            FaultKind::Prerequisite(YXRRSET),
            "YXRRSET: the set exists",
        )),
        Expect::Exactly(data) if data != standing => Err(Fault::new(
            FaultKind::Prerequisite(NXRRSET),
            "NXRRSET: the set is another",
        )),
        Expect::Absent | Expect::Exactly(_) | Expect::Anything => Ok(()),
    }
}

pub(super) fn remove(content: &mut ZoneContent, key: &RecordKey, gone: &[RecordData]) {
    if let Some(set) = content.sets.get(key) {
        let left: Vec<RecordData> = set
            .data()
            .iter()
            .filter(|data| !gone.contains(data))
            .cloned()
            .collect();
        if left.is_empty() {
            content.sets.remove(key);
        } else {
            let left = RecordSet::new(set.ttl, left);
            content.sets.insert(key.clone(), left);
        }
    }
}

/// Adds records; what may not stand beside a CNAME is left out silently (RFC 2136 section 3.4.2.2).
pub(super) fn add(content: &mut ZoneContent, key: &RecordKey, ttl: u32, data: &[RecordData]) {
    if data.is_empty() {
        return;
    }
    let is_cname = key.rtype == RecordType::Cname;
    let clash = content.sets.keys().any(|other| {
        other.name == key.name
            && other.rtype != key.rtype
            && (is_cname || other.rtype == RecordType::Cname)
    });
    if clash {
        return;
    }
    let standing = content.sets.get(key).filter(|_| !is_cname);
    let all = standing
        .map_or(&[][..], RecordSet::data)
        .iter()
        .chain(data)
        .cloned();
    let set = RecordSet::new(ttl, all.collect::<Vec<_>>());
    content.sets.insert(key.clone(), set);
}

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
        .ok_or_else(|| Fault::new(FaultKind::Missing, message))
}

pub(super) fn soa_of(zone: &Name, content: &ZoneContent) -> Result<Record, Fault> {
    let key = RecordKey::new(zone.clone(), RecordType::Soa);
    let soa = content.sets.get(&key);
    let soa = soa.and_then(|set| set.records(&key).next());
    soa.ok_or_else(|| Fault::new(FaultKind::Malformed, "no SOA"))
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
        let fault = Fault::new(FaultKind::Refused, "REFUSED: not allowed by policy");
        return Err(fault.with_code(REFUSED));
    }
    if content.meets(change) {
        return Ok(());
    }
    let (code, message) = match change.expect {
        Expect::Absent => (YXRRSET, "YXRRSET: the set exists"),
        Expect::Exactly(_) | Expect::Anything => (NXRRSET, "NXRRSET: the set is another"),
    };
    Err(Fault::new(FaultKind::Conflict, message).with_code(code))
}

/// Removes one record, or adds it, whatever stands there.
pub(super) fn put(content: &mut ZoneContent, record: &Record, comes: Comes) {
    let data = vec![record.data.clone()];
    let (remove, add) = match comes {
        Comes::Yes => (Vec::new(), data),
        Comes::No => (data, Vec::new()),
    };
    content.apply(&Change {
        key: record.key(),
        expect: Expect::Anything,
        remove,
        add,
        ttl: record.ttl,
    });
}

/// Whether a record comes or goes.
#[derive(Clone, Copy)]
pub(super) enum Comes {
    Yes,
    No,
}

//! Changes as one RFC 2136 message: prerequisites first, then deletions, then additions.

use std::collections::BTreeSet;

use bindery_core::{Change, Expect, Name, Record, RecordData, RecordType};

use crate::wire::{Head, Message, Question, WireRecord, class, opcode};
use bindery_core::delta::Difference;

/// The update of `zone` that makes all `changes` or none.
pub(crate) fn message(id: u16, zone: &Name, changes: &[Change]) -> Message {
    let mut message = Message {
        head: Head {
            id,
            opcode: opcode::UPDATE,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), RecordType::Soa.code())],
        ..Message::default()
    };
    for change in changes {
        prerequisites(change, &mut message.answer);
    }
    // The records are processed in order (RFC 2136 section 3.4.2). Deletions of all sets come
    // before additions, or an A record that makes way for a CNAME would suppress it. The
    // zone's own NS set is the exception: its last record cannot be deleted, so new ones come
    // before.
    let (apex_ns, others): (Vec<_>, Vec<_>) = changes
        .iter()
        .partition(|change| change.key.rtype == RecordType::Ns && change.key.name == *zone);
    for change in &apex_ns {
        additions(change, &mut message.authority);
    }
    for change in changes {
        deletions(change, &mut message.authority);
    }
    for change in &others {
        additions(change, &mut message.authority);
    }
    message
}

/// The update that takes `zone` from the SOA `from` to the SOA of `steps` with all between them,
/// or does nothing if the zone has another SOA by now.
pub(crate) fn mirror(id: u16, zone: &Name, from: &Record, steps: &Difference) -> Message {
    let comes = |record: &&Record| WireRecord::new(record.name.clone(), record.ttl, &record.data);
    let apex_ns = |record: &&Record| record.name == *zone && record.data.rtype() == RecordType::Ns;
    let staying: BTreeSet<(&Name, &RecordData)> = steps
        .added
        .iter()
        .map(|record| (&record.name, &record.data))
        .collect();
    // Order as in `message`. What goes and comes again has another TTL, which adding it sets; to
    // delete it would be to lose it where additions come first.
    let (first, last): (Vec<&Record>, Vec<&Record>) = steps.added.iter().partition(apex_ns);
    let mut rows: Vec<WireRecord> = first.iter().map(comes).collect();
    let going = steps
        .removed
        .iter()
        .filter(|record| !staying.contains(&(&record.name, &record.data)));
    rows.extend(going.map(|record| WireRecord {
        class: class::NONE,
        ..WireRecord::new(record.name.clone(), 0, &record.data)
    }));
    rows.extend(last.iter().map(comes));
    rows.push(comes(&&steps.to));
    Message {
        head: Head {
            id,
            opcode: opcode::UPDATE,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), RecordType::Soa.code())],
        answer: vec![WireRecord::new(zone.clone(), 0, &from.data)],
        authority: rows,
        ..Message::default()
    }
}

/// A message that changes nothing and is answered with success only if the set exists.
pub(crate) fn existence(id: u16, zone: &Name, name: &Name, rtype: RecordType) -> Message {
    Message {
        head: Head {
            id,
            opcode: opcode::UPDATE,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), RecordType::Soa.code())],
        answer: vec![WireRecord::empty(name.clone(), rtype, class::ANY)],
        ..Message::default()
    }
}

fn prerequisites(change: &Change, rows: &mut Vec<WireRecord>) {
    let name = &change.key.name;
    match &change.expect {
        Expect::Anything => {}
        Expect::Exactly(data) if !data.is_empty() => {
            rows.extend(
                data.iter()
                    .map(|data| WireRecord::new(name.clone(), 0, data)),
            );
        }
        Expect::Absent | Expect::Exactly(_) => {
            rows.push(WireRecord::empty(
                name.clone(),
                change.key.rtype,
                class::NONE,
            ));
        }
    }
}

fn deletions(change: &Change, rows: &mut Vec<WireRecord>) {
    let name = &change.key.name;
    let takes_all = match &change.expect {
        Expect::Exactly(known) => {
            change.add.is_empty()
                && !known.is_empty()
                && known.iter().all(|data| change.remove.contains(data))
        }
        Expect::Absent | Expect::Anything => false,
    };
    if takes_all {
        rows.push(WireRecord::empty(
            name.clone(),
            change.key.rtype,
            class::ANY,
        ));
        return;
    }
    rows.extend(change.remove.iter().map(|data| WireRecord {
        class: class::NONE,
        ..WireRecord::new(name.clone(), 0, data)
    }));
}

fn additions(change: &Change, rows: &mut Vec<WireRecord>) {
    let name = &change.key.name;
    rows.extend(
        change
            .add
            .iter()
            .map(|data| WireRecord::new(name.clone(), change.ttl, data)),
    );
}

#[cfg(test)]
mod tests;

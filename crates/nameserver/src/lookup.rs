//! Answering a question from a zone's content (RFC 1034 section 4.3.2, RFC 4592, RFC 8482).

use std::sync::Arc;

use bindery_core::{Name, RecordData, RecordSet, RecordType};
use bindery_dns::wire::{WireRecord, rcode, rtype};

use super::content::{Content, Node, Path};

/// How many CNAMEs of a chain are followed.
const CHAIN_LEN_MAX: usize = 16;

/// The type of a delegation's signer, which the parent answers for.
const DS: u16 = 43;

/// What a zone has to say to one question.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) rcode: u8,
    pub(super) authoritative: bool,
    pub(super) answer: Vec<WireRecord>,
    pub(super) authority: Vec<WireRecord>,
    pub(super) additional: Vec<WireRecord>,
}

/// Where a name leads in a zone.
enum Place<'a> {
    /// The name is there, or a wildcard stands for it.
    Node(&'a Node),
    /// The name exists only because something lies below it.
    Empty,
    /// A delegation is in the way.
    Cut(&'a Node),
    /// No such name.
    Nothing,
}

/// The answer of `content` to a question for `asked`, which lies in the zone.
pub(super) fn answer(content: &Content, asked: &Name, rtype: u16) -> Sections {
    let mut answer = Sections {
        authoritative: true,
        ..Sections::default()
    };
    let mut name = asked.clone();
    for _ in 0..CHAIN_LEN_MAX {
        let node = match find(content, &name, rtype) {
            Place::Node(node) => node,
            Place::Empty => {
                deny(content, &mut answer);
                return answer;
            }
            Place::Cut(node) => {
                refer(content, node, &mut answer);
                return answer;
            }
            Place::Nothing => {
                answer.rcode = rcode::NXDOMAIN;
                deny(content, &mut answer);
                return answer;
            }
        };
        if let Some(set) = of_type(node, rtype) {
            push(&mut answer.answer, &name, set);
            return answer;
        }
        let Some(set) = node.set(RecordType::Cname) else {
            deny(content, &mut answer);
            return answer;
        };
        push(&mut answer.answer, &name, set);
        match set.data().first() {
            Some(RecordData::Cname(target))
                if target.is_in(content.apex()) && !is_answered(&answer, target) =>
            {
                name = target.clone();
            }
            // The chain leaves the zone, where the asker follows it, or bites its tail.
            Some(_) | None => return answer,
        }
    }
    answer
}

/// Whether a chain has been at this name already.
fn is_answered(answer: &Sections, name: &Name) -> bool {
    answer.answer.iter().any(|row| row.name == *name)
}

/// The set that answers for a type; for ANY one of them is enough (RFC 8482 section 4.1).
fn of_type(node: &Node, rtype: u16) -> Option<&Arc<RecordSet>> {
    if rtype == rtype::ANY {
        return node.sets.values().next();
    }
    node.set(RecordType::from_code(rtype))
}

fn find<'a>(content: &'a Content, name: &Name, rtype: u16) -> Place<'a> {
    let path = Path::of(name);
    let apex_labels = content.apex().labels().count();
    let mut encloser = apex_labels;
    for labels in apex_labels + 1..=path.labels() {
        let at = path.ancestor(labels);
        if let Some(node) = content.at(at) {
            let whole = labels == path.labels();
            if node.set(RecordType::Ns).is_some() && !(whole && rtype == DS) {
                return Place::Cut(node);
            }
        } else if !content.exists(at) {
            break;
        }
        encloser = labels;
    }
    if encloser == path.labels() {
        return content
            .at(path.ancestor(encloser))
            .map_or(Place::Empty, |node| Place::Node(node));
    }
    let mut wildcard = path.ancestor(encloser).to_vec();
    wildcard.extend_from_slice(b"\x01*");
    match content.at(&wildcard) {
        Some(node) => Place::Node(node),
        None if content.exists(&wildcard) => Place::Empty,
        None => Place::Nothing,
    }
}

/// Says that there is nothing, with the SOA that says for how long (RFC 2308 section 3).
fn deny(content: &Content, answer: &mut Sections) {
    if let Some((soa, ttl)) = content.soa() {
        let data = RecordData::Soa(Box::new(soa.clone()));
        answer.authority.push(WireRecord::new(
            content.apex().clone(),
            ttl.min(soa.minimum),
            &data,
        ));
    }
}

/// Points to the servers of a delegation, with the addresses this zone knows of them.
fn refer(content: &Content, cut: &Node, answer: &mut Sections) {
    // What was found before the cut is still ours to vouch for.
    answer.authoritative = !answer.answer.is_empty();
    let Some(servers) = cut.set(RecordType::Ns) else {
        return;
    };
    push(&mut answer.authority, &cut.name, servers);
    for server in servers.data() {
        let RecordData::Ns(host) = server else {
            continue;
        };
        if !host.is_in(content.apex()) {
            continue;
        }
        for rtype in [RecordType::A, RecordType::Aaaa] {
            if let Some(set) = content.set(host, rtype) {
                push(&mut answer.additional, host, set);
            }
        }
    }
}

fn push(rows: &mut Vec<WireRecord>, name: &Name, set: &RecordSet) {
    rows.extend(
        set.data()
            .iter()
            .map(|data| WireRecord::new(name.clone(), set.ttl, data)),
    );
}

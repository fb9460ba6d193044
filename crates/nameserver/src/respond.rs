//! From a received message to what is sent back: signatures, EDNS, sizes, and who answers.

use std::net::IpAddr;
use std::sync::Arc;

use bindery_core::{RecordData, RecordType, Serial};
use bindery_dns::wire::{
    self, Head, MESSAGE_LEN_MAX, Message, WireRecord, class, opcode, rcode, rtype,
};
use domain::rdata::tsig::Time48;
use domain::tsig::{self, ServerTransaction};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::BuiltinServer;
use super::lookup;
use super::transfer::{Body, Transfer};
use super::zone::UpdateOutcome;

mod signature;

/// The UDP size that fits any path without fragments (DNS flag day 2020).
const UDP_LEN_MAX: u16 = 1232;

/// The UDP size every client takes (RFC 1035 section 4.2.1).
const UDP_LEN_MIN: u16 = 512;

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// What to send back.
pub(super) enum Reply {
    /// Nothing: the message is an answer itself, or too short to be answered.
    Silence,
    /// This message.
    Now(Vec<u8>),
    /// The message this future gives, once the disk has the update.
    Later(BoxFuture<'static, Vec<u8>>),
    /// The messages of a transfer.
    Stream(Box<Transfer>),
}

/// The signature state of a request; `None` if it was not signed.
pub(super) type Signed = Option<ServerTransaction<Arc<tsig::Key>>>;

/// A request that was read, with what its answer needs.
pub(super) struct Request {
    pub(super) message: Message,
    signed: Signed,
    /// The largest answer the asker takes.
    limit: usize,
    edns: bool,
}

/// The reply to a message that came in.
pub(super) fn respond(
    server: &BuiltinServer,
    bytes: Vec<u8>,
    by: Transport,
    from: IpAddr,
) -> Reply {
    let Ok(mut raw) = domain::base::Message::from_octets(bytes) else {
        return Reply::Silence;
    };
    if raw.header().qr() {
        return Reply::Silence;
    }
    let now = server.now();
    let signed = match ServerTransaction::request(&server.signing_key(), &mut raw, now) {
        Ok(signed) => signed,
        Err(error) => return Reply::Now(signature::refuse(server, error, &raw)),
    };
    let Ok(message) = Message::parse(raw.as_slice()) else {
        return Reply::Now(bare(
            raw.header().id(),
            raw.header().opcode().to_int(),
            rcode::FORMERR,
        ));
    };
    let (limit, edns) = match size_of(&message, by) {
        Ok(size) => size,
        Err(code) => return Reply::Now(bare(message.head.id, message.head.opcode, code)),
    };
    let request = Request {
        message,
        signed,
        limit,
        edns: edns.is_some(),
    };
    if edns.is_some_and(|version| version > 0) {
        return Reply::Now(request.bad_version(now));
    }
    match request.message.head.opcode {
        opcode::QUERY => query(server, request, by),
        opcode::UPDATE => update(server, request),
        opcode::NOTIFY => {
            let code = notified(server, &request, from);
            Reply::Now(request.code(code, now))
        }
        _ => Reply::Now(request.code(rcode::NOTIMP, now)),
    }
}

fn query(server: &BuiltinServer, request: Request, by: Transport) -> Reply {
    let now = server.now();
    let [question] = request.message.question.as_slice() else {
        return Reply::Now(request.code(rcode::FORMERR, now));
    };
    let is_transfer = matches!(question.rtype, rtype::AXFR | rtype::IXFR);
    if question.class != class::IN {
        return Reply::Now(request.code(rcode::REFUSED, now));
    }
    if is_transfer && by == Transport::Tcp {
        return transfer(server, request);
    }
    if question.rtype == rtype::AXFR {
        return Reply::Now(request.code(rcode::FORMERR, now));
    }
    let Some(zone) = server.zone_of(&question.name) else {
        return Reply::Now(request.code(rcode::REFUSED, now));
    };
    if !zone.is_served(server.seconds()) {
        return Reply::Now(request.code(rcode::SERVFAIL, now));
    }
    // An incremental transfer that does not fit is answered with the SOA alone, and the asker
    // comes again by TCP (RFC 1995 section 2).
    let rtype = if is_transfer {
        RecordType::Soa.code()
    } else {
        question.rtype
    };
    let found = lookup::answer(&zone.content(), &question.name, rtype);
    let mut answer = request.answer(found.rcode);
    answer.head.authoritative = found.authoritative;
    answer.answer = found.answer;
    answer.authority = found.authority;
    answer.additional.splice(0..0, found.additional);
    Reply::Now(request.finish(answer, now))
}

fn transfer(server: &BuiltinServer, request: Request) -> Reply {
    let now = server.now();
    let [question] = request.message.question.as_slice() else {
        return Reply::Now(request.code(rcode::FORMERR, now));
    };
    let Some(zone) = server.zone(&question.name) else {
        return Reply::Now(request.code(rcode::NOTAUTH, now));
    };
    if request.signed.is_none() {
        return Reply::Now(request.code(rcode::REFUSED, now));
    }
    let snapshot = zone.snapshot();
    let ours = snapshot.content.serial();
    let Some(ours) = ours.filter(|_| zone.is_served(server.seconds())) else {
        // What is not there must not be taken for an empty zone.
        return Reply::Now(request.code(rcode::SERVFAIL, now));
    };
    let theirs = known_serial(&request.message).filter(|_| question.rtype == rtype::IXFR);
    let mut answer = request.answer(rcode::NOERROR);
    if theirs.is_some_and(|theirs| !ours.newer_than(theirs)) {
        answer.head.authoritative = true;
        answer.answer.extend(snapshot.content.soa_row());
        return Reply::Now(request.finish(answer, now));
    }
    let content = Arc::clone(&snapshot.content);
    let body = match theirs.and_then(|theirs| snapshot.history.since(theirs, ours)) {
        Some(steps) => Body::Steps(content, steps),
        None => Body::Whole(content),
    };
    Reply::Stream(Box::new(Transfer::new(body, answer, request.signed)))
}

/// The serial that the asker of an incremental transfer has.
fn known_serial(message: &Message) -> Option<Serial> {
    message.authority.iter().find_map(|row| match row.data() {
        Ok(RecordData::Soa(soa)) => Some(Serial(soa.serial)),
        Ok(_) | Err(_) => None,
    })
}

/// The answer to word of a change; it is believed if the key or a primary's address stands for
/// it, and then only makes us ask.
fn notified(server: &BuiltinServer, request: &Request, from: IpAddr) -> u8 {
    let Some(primaries) = server.primaries() else {
        return rcode::REFUSED;
    };
    let [question] = request.message.question.as_slice() else {
        return rcode::FORMERR;
    };
    if server.zone(&question.name).is_none() {
        return rcode::NOTAUTH;
    }
    if request.signed.is_none() && !primaries.iter().any(|primary| primary.ip() == from) {
        return rcode::REFUSED;
    }
    server.inner.asked.add(&question.name);
    rcode::NOERROR
}

fn update(server: &BuiltinServer, request: Request) -> Reply {
    let now = server.now();
    let zone = match request.message.question.as_slice() {
        [zone] if zone.rtype == RecordType::Soa.code() && zone.class == class::IN => {
            server.zone(&zone.name)
        }
        _ => return Reply::Now(request.code(rcode::FORMERR, now)),
    };
    let Some(zone) = zone else {
        return Reply::Now(request.code(rcode::NOTAUTH, now));
    };
    if server.primaries().is_some() {
        // BIND says the same of copies that pass nothing on.
        return Reply::Now(request.code(rcode::NOTIMP, now));
    }
    if request.signed.is_none() {
        return Reply::Now(request.code(rcode::REFUSED, now));
    }
    let server = server.clone();
    let commit = async move {
        let mut request = request;
        let prerequisites = std::mem::take(&mut request.message.answer);
        let updates = std::mem::take(&mut request.message.authority);
        let code = match zone.update(prerequisites, updates).await {
            Ok(UpdateOutcome::Changed) => {
                server.announce(&zone.name);
                rcode::NOERROR
            }
            Ok(UpdateOutcome::Unchanged) => rcode::NOERROR,
            Err(refusal) => refusal,
        };
        request.code(code, server.now())
    };
    Reply::Later(commit.boxed())
}

impl Request {
    /// An answer with nothing in it yet.
    fn answer(&self, code: u8) -> Message {
        let head = Head {
            id: self.message.head.id,
            response: true,
            opcode: self.message.head.opcode,
            recursion_desired: self.message.head.recursion_desired,
            rcode: code,
            ..Head::default()
        };
        let additional = if self.edns {
            vec![edns_row(0)]
        } else {
            Vec::new()
        };
        Message {
            head,
            question: self.message.question.clone(),
            additional,
            ..Message::default()
        }
    }

    fn code(self, code: u8, now: Time48) -> Vec<u8> {
        let answer = self.answer(code);
        self.finish(answer, now)
    }

    fn bad_version(self, now: Time48) -> Vec<u8> {
        let mut answer = self.answer(rcode::NOERROR);
        answer.additional = vec![edns_row(u32::from(rcode::BADVERS >> 4))];
        self.finish(answer, now)
    }

    /// The bytes of an answer, cut down to what the asker takes, and signed.
    fn finish(self, mut answer: Message, now: Time48) -> Vec<u8> {
        let tsig_len = self
            .signed
            .as_ref()
            .map_or(0, |signed| signed.key().compose_len());
        let limit = self.limit.saturating_sub(usize::from(tsig_len));
        let composed = answer.compose(limit).or_else(|_| {
            answer.head.truncated = true;
            answer.answer.clear();
            answer.authority.clear();
            answer.additional.retain(|row| row.rtype == rtype::OPT);
            answer.compose(MESSAGE_LEN_MAX)
        });
        let Ok(mut composed) = composed else {
            return bare(answer.head.id, answer.head.opcode, rcode::SERVFAIL);
        };
        if let Some(signed) = self.signed
            && signed.answer(&mut composed, now).is_err()
        {
            return bare(answer.head.id, answer.head.opcode, rcode::SERVFAIL);
        }
        wire::datagram_bytes(composed)
    }
}

/// The largest answer the asker takes, and the EDNS version it speaks.
fn size_of(message: &Message, by: Transport) -> Result<(usize, Option<u8>), u8> {
    let mut options = message
        .additional
        .iter()
        .filter(|row| row.rtype == rtype::OPT);
    let option = options.next();
    if options.next().is_some() {
        return Err(rcode::FORMERR);
    }
    let version = option.map(|row| row.ttl.to_be_bytes()[1]);
    let limit = match (by, option) {
        (Transport::Tcp, _) => MESSAGE_LEN_MAX,
        (Transport::Udp, None) => usize::from(UDP_LEN_MIN),
        (Transport::Udp, Some(row)) => usize::from(row.class.clamp(UDP_LEN_MIN, UDP_LEN_MAX)),
    };
    Ok((limit, version))
}

fn edns_row(extended_rcode: u32) -> WireRecord {
    WireRecord {
        name: bindery_core::Name::root(),
        rtype: rtype::OPT,
        class: UDP_LEN_MAX,
        ttl: extended_rcode << 24,
        rdata: Vec::new(),
    }
}

/// A header alone, for requests that cannot be read.
fn bare(id: u16, opcode: u8, rcode: u8) -> Vec<u8> {
    let message = Message {
        head: Head {
            id,
            response: true,
            opcode,
            rcode,
            ..Head::default()
        },
        ..Message::default()
    };
    message
        .compose(MESSAGE_LEN_MAX)
        .map(wire::datagram_bytes)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;

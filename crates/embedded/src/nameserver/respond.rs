//! From a received message to what is sent back: signatures, EDNS, sizes, and who answers.

use std::sync::Arc;

use bindery_core::{RecordData, RecordType};
use bindery_dns::wire::{
    self, Head, MESSAGE_LEN_MAX, Message, Question, Row, class, opcode, rcode, rtype,
};
use domain::base::MessageBuilder;
use domain::base::message_builder::{HashCompressor, StreamTarget};
use domain::rdata::tsig::Time48;
use domain::tsig::{self, ServerError, ServerTransaction};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::lookup;
use super::transfer::Transfer;
use super::zone::Outcome;
use super::{BuiltinServer, Zone};

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
pub(super) fn respond(server: &BuiltinServer, bytes: Vec<u8>, by: Transport) -> Reply {
    let Ok(mut raw) = domain::base::Message::from_octets(bytes) else {
        return Reply::Silence;
    };
    if raw.header().qr() {
        return Reply::Silence;
    }
    let now = server.now();
    let signed = match ServerTransaction::request(&server.signing_key(), &mut raw, now) {
        Ok(signed) => signed,
        Err(error) => return Reply::Now(refuse_signature(server, error, &raw)),
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
        opcode::NOTIFY => Reply::Now(request.code(rcode::REFUSED, now)),
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
    let content = zone.content();
    if question.rtype == rtype::IXFR && is_current(&zone, &request.message) {
        let mut answer = request.answer(rcode::NOERROR);
        answer.head.authoritative = true;
        answer.answer = lookup::answer(&content, &zone.name, RecordType::Soa.code()).answer;
        return Reply::Now(request.finish(answer, now));
    }
    let answer = request.answer(rcode::NOERROR);
    Reply::Stream(Box::new(Transfer::new(content, answer, request.signed)))
}

/// Whether the asker of an incremental transfer has what we have, or more.
fn is_current(zone: &Zone, message: &Message) -> bool {
    let theirs = message.authority.iter().find_map(|row| match row.data() {
        Ok(RecordData::Soa(soa)) => Some(bindery_core::Serial(soa.serial)),
        Ok(_) | Err(_) => None,
    });
    match (theirs, zone.content().serial()) {
        (Some(theirs), Some(ours)) => !ours.newer_than(theirs),
        (None | Some(_), _) => false,
    }
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
    if request.signed.is_none() {
        return Reply::Now(request.code(rcode::REFUSED, now));
    }
    let server = server.clone();
    let commit = async move {
        let mut request = request;
        let prerequisites = std::mem::take(&mut request.message.answer);
        let updates = std::mem::take(&mut request.message.authority);
        let code = match zone.update(prerequisites, updates).await {
            Ok(Outcome::Changed) => {
                server.announce(&zone.name);
                rcode::NOERROR
            }
            Ok(Outcome::Unchanged) => rcode::NOERROR,
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

fn edns_row(extended_rcode: u32) -> Row {
    Row {
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

/// The answer to a request whose signature does not hold (RFC 8945 section 5.2).
fn refuse_signature(
    server: &BuiltinServer,
    error: ServerError<Arc<tsig::Key>>,
    raw: &domain::base::Message<Vec<u8>>,
) -> Vec<u8> {
    let header = raw.header();
    if error.error() == domain::base::iana::TsigRcode::FORMERR {
        // `domain` reports a wrong signature like one it cannot read.
        return bad_signature(server, raw.as_slice())
            .unwrap_or_else(|| bare(header.id(), header.opcode().to_int(), rcode::FORMERR));
    }
    let target = HashCompressor::new(StreamTarget::new_vec());
    MessageBuilder::from_target(target)
        .ok()
        .and_then(|builder| error.build_message(raw, builder).ok())
        .map_or_else(
            || bare(header.id(), header.opcode().to_int(), rcode::SERVFAIL),
            wire::datagram_bytes,
        )
}

/// The BADSIG answer: the request's own TSIG record without its MAC, not signed.
fn bad_signature(server: &BuiltinServer, bytes: &[u8]) -> Option<Vec<u8>> {
    let request = Message::parse(bytes).ok()?;
    let row = request
        .additional
        .last()
        .filter(|row| row.rtype == rtype::TSIG)?;
    let key = server.signing_key();
    if row.name.to_string().trim_end_matches('.') != key.name().to_string() {
        return None;
    }
    let (_, rest) = bindery_core::Name::read_wire(&row.rdata).ok()?;
    let algorithm = &row.rdata[..row.rdata.len() - rest.len()];
    let (time_and_fudge, _) = rest.split_first_chunk::<8>()?;
    let mut rdata = algorithm.to_vec();
    rdata.extend_from_slice(time_and_fudge);
    rdata.extend_from_slice(&0_u16.to_be_bytes());
    rdata.extend_from_slice(&request.head.id.to_be_bytes());
    rdata.extend_from_slice(&rcode::BADSIG.to_be_bytes());
    rdata.extend_from_slice(&0_u16.to_be_bytes());
    let question: Vec<Question> = request.question.clone();
    let answer = Message {
        head: Head {
            id: request.head.id,
            response: true,
            opcode: request.head.opcode,
            rcode: rcode::NOTAUTH,
            ..Head::default()
        },
        question,
        additional: vec![Row {
            rdata,
            ttl: 0,
            class: class::ANY,
            ..row.clone()
        }],
        ..Message::default()
    };
    answer
        .compose(MESSAGE_LEN_MAX)
        .map(wire::datagram_bytes)
        .ok()
}

#[cfg(test)]
mod tests;

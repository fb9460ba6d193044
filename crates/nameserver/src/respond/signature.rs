//! Answers to requests whose signature does not hold.

use std::sync::Arc;

use bindery_dns::wire::{
    self, Head, MESSAGE_LEN_MAX, Message, Question, WireRecord, class, rcode, rtype,
};
use domain::base::MessageBuilder;
use domain::base::message_builder::{HashCompressor, StreamTarget};
use domain::tsig::{self, ServerError};

use super::bare;
use crate::BuiltinServer;

/// The answer to a request whose signature does not hold (RFC 8945 section 5.2).
pub(super) fn refuse(
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
        additional: vec![WireRecord {
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

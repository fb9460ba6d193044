//! DNS messages as values: core's names on one side, the wire format on the other.

use bindery_core::{Name, RecordData, RecordType};
use domain::base::iana::{Class as DomainClass, Opcode, Rcode};
use domain::base::message::RecordSection;
use domain::base::message_builder::{AdditionalBuilder, HashCompressor, StreamTarget};
use domain::base::name::ToName;
use domain::base::rdata::{ComposeRecordData, ParseRecordData, UnknownRecordData};
use domain::base::record::ParsedRecord;
use domain::base::{MessageBuilder, Name as DomainName, ParsedName, Rtype};
use domain::rdata;
use thiserror::Error;

pub mod rcode;

/// Operation codes of the header.
pub mod opcode {
    /// An ordinary query.
    pub const QUERY: u8 = 0;
    /// A zone has changed (RFC 1996).
    pub const NOTIFY: u8 = 4;
    /// A dynamic update (RFC 2136).
    pub const UPDATE: u8 = 5;
}

/// Record classes; in updates `NONE` and `ANY` are verbs (RFC 2136 section 2).
pub mod class {
    /// The Internet.
    pub const IN: u16 = 1;
    /// "Not", in prerequisites; "delete this one", in updates.
    pub const NONE: u16 = 254;
    /// "Whatever it is".
    pub const ANY: u16 = 255;
}

/// Type codes that only occur in messages, never in zones.
pub mod rtype {
    /// The EDNS pseudo-record.
    pub const OPT: u16 = 41;
    /// A transaction signature.
    pub const TSIG: u16 = 250;
    /// Incremental transfer.
    pub const IXFR: u16 = 251;
    /// Full transfer.
    pub const AXFR: u16 = 252;
    /// All types.
    pub const ANY: u16 = 255;
}

/// The largest message TCP can carry: its length prefix has 16 bits.
pub const MESSAGE_LEN_MAX: usize = 65_535;

/// The fixed part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the header of RFC 1035 is made of flags"
)]
pub struct Head {
    /// Pairs an answer with its question.
    pub id: u16,
    /// QR: this is an answer.
    pub response: bool,
    /// What is asked for, one of [`opcode`].
    pub opcode: u8,
    /// AA: the sender owns the zone.
    pub authoritative: bool,
    /// TC: more did not fit.
    pub truncated: bool,
    /// RD: the asker wants recursion.
    pub recursion_desired: bool,
    /// How it went, one of [`rcode`]; only the low four bits (the rest is in EDNS).
    pub rcode: u8,
}

/// One entry of the question section (the zone section in updates).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name asked for.
    pub name: Name,
    /// The name as the asker spelled it, in wire form: answers repeat it (RFC 5452 section 9).
    pub spelled: Box<[u8]>,
    /// Type code.
    pub rtype: u16,
    /// Class.
    pub class: u16,
}

impl Question {
    /// A question in class IN.
    #[must_use]
    pub fn new(name: Name, rtype: u16) -> Self {
        Self {
            spelled: name.as_wire().into(),
            name,
            rtype,
            class: class::IN,
        }
    }
}

/// One record of a message, whatever it means there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRecord {
    /// Owner.
    pub name: Name,
    /// Type code.
    pub rtype: u16,
    /// Class, or a verb in updates, or a size in EDNS.
    pub class: u16,
    /// Time to live, or flags in EDNS.
    pub ttl: u32,
    /// Record data with names written out in full.
    pub rdata: Vec<u8>,
}

impl WireRecord {
    /// A record of class IN.
    #[must_use]
    pub fn new(name: Name, ttl: u32, data: &RecordData) -> Self {
        Self {
            name,
            rtype: data.rtype().code(),
            class: class::IN,
            ttl,
            rdata: data.to_wire(),
        }
    }

    /// A row without data, as prerequisites and deletions have it.
    #[must_use]
    pub fn empty(name: Name, rtype: RecordType, class: u16) -> Self {
        Self {
            name,
            rtype: rtype.code(),
            class,
            ttl: 0,
            rdata: Vec::new(),
        }
    }

    /// The typed data.
    ///
    /// # Errors
    /// If the data is not what the type demands.
    pub fn data(&self) -> Result<RecordData, Malformed> {
        RecordData::from_wire(self.rtype, &self.rdata).map_err(|_| Malformed)
    }
}

/// A whole message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The fixed part.
    pub head: Head,
    /// What is asked; the zone of an update.
    pub question: Vec<Question>,
    /// Answers; the prerequisites of an update.
    pub answer: Vec<WireRecord>,
    /// Who knows; the changes of an update.
    pub authority: Vec<WireRecord>,
    /// What else may help; EDNS. Signatures are taken off before parsing.
    pub additional: Vec<WireRecord>,
}

/// The bytes are not a DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a well-formed DNS message")]
pub struct Malformed;

/// The message does not fit its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the message does not fit its limit")]
pub struct TooLong;

/// A composed message that can still be signed.
pub type Composed = AdditionalBuilder<HashCompressor<StreamTarget<Vec<u8>>>>;

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// If any part of it is not well-formed.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let message = domain::base::Message::from_slice(bytes).map_err(|_| Malformed)?;
        let head = head_of(message);
        let (question, answer, authority, additional) =
            message.sections().map_err(|_| Malformed)?;
        let mut questions = Vec::new();
        for entry in question {
            let entry = entry.map_err(|_| Malformed)?;
            let spelled = entry.qname().to_vec();
            questions.push(Question {
                name: Name::from_wire(spelled.as_slice()).map_err(|_| Malformed)?,
                spelled: spelled.as_slice().into(),
                rtype: entry.qtype().to_int(),
                class: entry.qclass().to_int(),
            });
        }
        Ok(Self {
            head,
            question: questions,
            answer: rows(answer)?,
            authority: rows(authority)?,
            additional: rows(additional)?,
        })
    }

    /// Writes the message, owner names compressed.
    ///
    /// # Errors
    /// If it would be longer than `limit` bytes.
    pub fn compose(&self, limit: usize) -> Result<Composed, TooLong> {
        let target = HashCompressor::new(StreamTarget::new_vec());
        let mut builder = MessageBuilder::from_target(target).map_err(|_| TooLong)?;
        builder.set_push_limit(limit.min(MESSAGE_LEN_MAX));
        let header = builder.header_mut();
        header.set_id(self.head.id);
        header.set_qr(self.head.response);
        header.set_opcode(Opcode::from_int(self.head.opcode));
        header.set_aa(self.head.authoritative);
        header.set_tc(self.head.truncated);
        header.set_rd(self.head.recursion_desired);
        header.set_rcode(Rcode::masked_from_int(self.head.rcode));
        let mut questions = builder.question();
        for entry in &self.question {
            let name = DomainName::from_slice(&entry.spelled).map_err(|_| TooLong)?;
            let asked = (
                name,
                Rtype::from_int(entry.rtype),
                DomainClass::from_int(entry.class),
            );
            questions.push(asked).map_err(|_| TooLong)?;
        }
        let mut answer = questions.answer();
        for row in &self.answer {
            answer.push(composable(row)?).map_err(|_| TooLong)?;
        }
        let mut authority = answer.authority();
        for row in &self.authority {
            authority.push(composable(row)?).map_err(|_| TooLong)?;
        }
        let mut additional = authority.additional();
        for row in &self.additional {
            additional.push(composable(row)?).map_err(|_| TooLong)?;
        }
        additional.clear_push_limit();
        Ok(additional)
    }
}

/// The bytes of a composed message with its length in front, as TCP carries it.
#[must_use]
pub fn stream_bytes(message: Composed) -> Vec<u8> {
    message.finish().into_target().into_target()
}

/// The bytes of a composed message, as UDP carries it.
#[must_use]
pub fn datagram_bytes(message: Composed) -> Vec<u8> {
    message.finish().into_target().as_dgram_slice().to_vec()
}

type ComposableRow<'a> = (
    &'a DomainName<[u8]>,
    DomainClass,
    u32,
    UnknownRecordData<&'a [u8]>,
);

fn composable(row: &WireRecord) -> Result<ComposableRow<'_>, TooLong> {
    let name = DomainName::from_slice(row.name.as_wire()).map_err(|_| TooLong)?;
    let data = UnknownRecordData::from_octets(Rtype::from_int(row.rtype), row.rdata.as_slice())
        .map_err(|_| TooLong)?;
    Ok((name, DomainClass::from_int(row.class), row.ttl, data))
}

fn head_of(message: &domain::base::Message<[u8]>) -> Head {
    let header = message.header();
    Head {
        id: header.id(),
        response: header.qr(),
        opcode: header.opcode().to_int(),
        authoritative: header.aa(),
        truncated: header.tc(),
        recursion_desired: header.rd(),
        rcode: header.rcode().to_int(),
    }
}

fn rows(section: RecordSection<'_, [u8]>) -> Result<Vec<WireRecord>, Malformed> {
    let mut rows = Vec::new();
    for record in section {
        let record = record.map_err(|_| Malformed)?;
        let owner = record.owner().to_vec();
        rows.push(WireRecord {
            name: Name::from_wire(owner.as_slice()).map_err(|_| Malformed)?,
            rtype: record.rtype().to_int(),
            class: record.class().to_int(),
            ttl: record.ttl().as_secs(),
            rdata: flat_rdata(&record)?,
        });
    }
    Ok(rows)
}

/// Record data with compressed names written out; only the types of RFC 1035 and SRV may
/// carry compressed names (RFC 3597 section 4), all others are taken as they are.
fn flat_rdata(record: &ParsedRecord<'_, [u8]>) -> Result<Vec<u8>, Malformed> {
    // Deletions and prerequisites have no data whatever their type.
    if record.rdlen() == 0 {
        return Ok(Vec::new());
    }
    match record.rtype() {
        Rtype::CNAME => flat::<rdata::Cname<ParsedName<&[u8]>>>(record),
        Rtype::NS => flat::<rdata::Ns<ParsedName<&[u8]>>>(record),
        Rtype::PTR => flat::<rdata::Ptr<ParsedName<&[u8]>>>(record),
        Rtype::MX => flat::<rdata::Mx<ParsedName<&[u8]>>>(record),
        Rtype::SRV => flat::<rdata::Srv<ParsedName<&[u8]>>>(record),
        Rtype::SOA => flat::<rdata::Soa<ParsedName<&[u8]>>>(record),
        _ => raw(record),
    }
}

fn flat<'a, Data>(record: &ParsedRecord<'a, [u8]>) -> Result<Vec<u8>, Malformed>
where
    Data: ParseRecordData<'a, [u8]> + ComposeRecordData,
{
    let record = record
        .to_record::<Data>()
        .map_err(|_| Malformed)?
        .ok_or(Malformed)?;
    let mut bytes = Vec::new();
    record
        .data()
        .compose_rdata(&mut bytes)
        .map_err(|_| Malformed)?;
    Ok(bytes)
}

fn raw(record: &ParsedRecord<'_, [u8]>) -> Result<Vec<u8>, Malformed> {
    let record = record
        .to_record::<UnknownRecordData<&[u8]>>()
        .map_err(|_| Malformed)?
        .ok_or(Malformed)?;
    Ok(record.data().data().to_vec())
}

#[cfg(test)]
mod tests;

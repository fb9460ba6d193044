//! Outgoing zone transfers: a snapshot (RFC 5936), or the steps towards it (RFC 1995), in messages
//! of moderate size.

use std::sync::Arc;

use bindery_core::RecordType;
use bindery_dns::wire::{self, MESSAGE_LEN_MAX, Message, WireRecord};
use domain::rdata::tsig::Time48;
use domain::tsig::{self, ServerSequence};
use tokio::sync::mpsc;

use super::content::Content;
use super::history::CommitDiff;
use super::respond::Signed;

/// Bytes of records per message, names uncompressed. Half of what fits, so that a long record
/// after many short ones still does.
const RECORDS_LEN: usize = 32_000;

/// The longest record: a name, its fixed part and 65,535 bytes of data.
const FIXED_LEN: usize = 10;

/// What is sent.
pub(super) enum Body {
    /// All of a zone.
    Whole(Arc<Content>),
    /// The steps that lead to this content.
    Steps(Arc<Content>, Vec<Arc<CommitDiff>>),
}

impl Body {
    /// The SOA that begins and ends it, and what stands between.
    fn rows(&self) -> Option<(WireRecord, Box<dyn Iterator<Item = WireRecord> + '_>)> {
        match self {
            Self::Whole(content) => {
                let others = content
                    .sets()
                    .filter(|(_, rtype, _)| *rtype != RecordType::Soa)
                    .flat_map(|(name, _, set)| {
                        set.data()
                            .iter()
                            .map(|data| WireRecord::new(name.clone(), set.ttl, data))
                    });
                Some((content.soa_row()?, Box::new(others)))
            }
            Self::Steps(content, steps) => {
                let rows = steps.iter().flat_map(|step| step.rows());
                Some((content.soa_row()?, Box::new(rows)))
            }
        }
    }
}

/// A transfer that is to be sent.
pub(super) struct Transfer {
    body: Body,
    envelope: Envelope,
}

/// What is around the rows of each message.
struct Envelope {
    head: Message,
    sequence: Option<ServerSequence<Arc<tsig::Key>>>,
}

impl Transfer {
    /// The transfer of `body`, each message beginning with what `head` has.
    pub(super) fn new(body: Body, mut head: Message, signed: Signed) -> Self {
        head.head.authoritative = true;
        Self {
            body,
            envelope: Envelope {
                head,
                sequence: signed.map(ServerSequence::from),
            },
        }
    }

    /// Writes the messages, with their lengths, into `out`; ends early if nobody takes them.
    pub(super) fn write(self, now: impl Fn() -> Time48, out: &mpsc::Sender<Vec<u8>>) {
        let Self { body, mut envelope } = self;
        let Some((soa, between)) = body.rows() else {
            return;
        };
        let all = std::iter::once(soa.clone()).chain(between).chain([soa]);
        let mut rows = Vec::new();
        let mut length = 0;
        for row in all {
            let row_len = row.name.as_wire().len() + FIXED_LEN + row.rdata.len();
            if length + row_len > RECORDS_LEN && !rows.is_empty() {
                let Some(message) = envelope.message(std::mem::take(&mut rows), now()) else {
                    return;
                };
                if out.blocking_send(message).is_err() {
                    return;
                }
                length = 0;
            }
            length += row_len;
            rows.push(row);
        }
        if let Some(message) = envelope.message(rows, now()) {
            // Whoever asked has gone if this fails, and nothing is left to do.
            drop(out.blocking_send(message));
        }
    }
}

impl Envelope {
    fn message(&mut self, rows: Vec<WireRecord>, now: Time48) -> Option<Vec<u8>> {
        self.head.answer = rows;
        let mut composed = self.head.compose(MESSAGE_LEN_MAX).ok()?;
        if let Some(sequence) = &mut self.sequence {
            sequence.answer(&mut composed, now).ok()?;
        }
        Some(wire::stream_bytes(composed))
    }
}

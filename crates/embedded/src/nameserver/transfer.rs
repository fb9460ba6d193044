//! Outgoing zone transfers: a snapshot in messages of moderate size (RFC 5936).

use std::sync::Arc;

use bindery_core::{RecordData, RecordType};
use bindery_dns::wire::{self, MESSAGE_LEN_MAX, Message, Row};
use domain::rdata::tsig::Time48;
use domain::tsig::{self, ServerSequence};
use tokio::sync::mpsc;

use super::content::Content;
use super::respond::Signed;

/// Bytes of records per message, names uncompressed. Half of what fits, so that a long record
/// after many short ones still does.
const RECORDS_LEN: usize = 32_000;

/// The longest record: a name, its fixed part and 65,535 bytes of data.
const FIXED_LEN: usize = 10;

/// A transfer that is to be sent.
pub(super) struct Transfer {
    content: Arc<Content>,
    head: Message,
    sequence: Option<ServerSequence<Arc<tsig::Key>>>,
}

impl Transfer {
    /// The transfer of `content`, each message beginning with what `head` has.
    pub(super) fn new(content: Arc<Content>, mut head: Message, signed: Signed) -> Self {
        head.head.authoritative = true;
        Self {
            content,
            head,
            sequence: signed.map(ServerSequence::from),
        }
    }

    /// Writes the messages, with their lengths, into `out`; ends early if nobody takes them.
    pub(super) fn write(mut self, now: impl Fn() -> Time48, out: &mpsc::Sender<Vec<u8>>) {
        let content = Arc::clone(&self.content);
        let Some((soa, ttl)) = content.soa() else {
            return;
        };
        let soa = Row::new(
            content.apex().clone(),
            ttl,
            &RecordData::Soa(Box::new(soa.clone())),
        );
        let others = content
            .sets()
            .filter(|(_, rtype, _)| *rtype != RecordType::Soa)
            .flat_map(|(name, _, set)| {
                set.data()
                    .iter()
                    .map(|data| Row::new(name.clone(), set.ttl, data))
            });
        let all = std::iter::once(soa.clone()).chain(others).chain([soa]);
        let mut rows = Vec::new();
        let mut length = 0;
        for row in all {
            let row_len = row.name.as_wire().len() + FIXED_LEN + row.rdata.len();
            if length + row_len > RECORDS_LEN && !rows.is_empty() {
                let Some(message) = self.message(std::mem::take(&mut rows), now()) else {
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
        if let Some(message) = self.message(rows, now()) {
            // Whoever asked has gone if this fails, and nothing is left to do.
            drop(out.blocking_send(message));
        }
    }

    fn message(&mut self, rows: Vec<Row>, now: Time48) -> Option<Vec<u8>> {
        self.head.answer = rows;
        let mut composed = self.head.compose(MESSAGE_LEN_MAX).ok()?;
        if let Some(sequence) = &mut self.sequence {
            sequence.answer(&mut composed, now).ok()?;
        }
        Some(wire::stream_bytes(composed))
    }
}

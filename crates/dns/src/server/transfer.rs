//! Zone transfers, each on a connection of its own so that queries need not wait behind one.

use std::collections::BTreeMap;

use bindery_core::zones::ZoneContent;
use bindery_core::{Fault, Name, RecordData, RecordKey, RecordSet, RecordType, Serial};
use domain::tsig::ClientSequence;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CONNECT_TIMEOUT, Server};
use crate::link::MessageReader;
use crate::wire::{
    self, Head, MESSAGE_LEN_MAX, Message, Question, WireRecord, opcode, rcode, rtype,
};

/// Records of one zone. Ten million take some gigabytes; a server that sends more is broken.
pub(super) const RECORDS_MAX: usize = 10_000_000;

/// The serial of an SOA record.
pub(super) fn serial_of(row: &WireRecord) -> Option<Serial> {
    match row.data() {
        Ok(RecordData::Soa(soa)) => Some(Serial(soa.serial)),
        Ok(_) | Err(_) => None,
    }
}

/// A full transfer as far as it has come.
#[derive(Default)]
pub(super) struct Incoming {
    serial: Option<Serial>,
    sets: BTreeMap<RecordKey, (u32, Vec<RecordData>)>,
    records: usize,
    complete: bool,
}

/// A transfer that does not follow RFC 5936 section 2.2 or RFC 1995 section 4.
pub(super) struct OutOfOrder;

/// What the rows of a transfer are given to, one by one.
pub(super) trait Rows {
    /// Takes the next row.
    fn take(&mut self, zone: &Name, row: &WireRecord) -> Result<(), OutOfOrder>;

    /// Whether the last row has come.
    fn is_complete(&self) -> bool;
}

impl Rows for Incoming {
    fn take(&mut self, zone: &Name, row: &WireRecord) -> Result<(), OutOfOrder> {
        let soa = row.rtype == RecordType::Soa.code();
        if self.complete || (self.serial.is_none() && !soa) || self.records >= RECORDS_MAX {
            return Err(OutOfOrder);
        }
        if soa {
            if row.name != *zone {
                return Err(OutOfOrder);
            }
            if self.serial.is_some() {
                self.complete = true;
                return Ok(());
            }
            self.serial = Some(serial_of(row).ok_or(OutOfOrder)?);
        }
        if !row.name.is_in(zone) {
            return Err(OutOfOrder);
        }
        let key = RecordKey::new(row.name.clone(), RecordType::from_code(row.rtype));
        let data = row.data().map_err(|_| OutOfOrder)?;
        self.records += 1;
        self.sets
            .entry(key)
            .or_insert_with(|| (row.ttl, Vec::new()))
            .1
            .push(data);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Incoming {
    pub(super) fn content(self) -> Option<ZoneContent> {
        let sets = self
            .sets
            .into_iter()
            .map(|(key, (ttl, data))| (key, RecordSet::new(ttl, data)))
            .collect();
        Some(ZoneContent {
            serial: self.serial?,
            sets,
        })
    }
}

/// The question for a transfer.
pub(super) fn request(zone: &Name, rtype: u16) -> Message {
    Message {
        head: Head {
            id: 1,
            opcode: opcode::QUERY,
            ..Head::default()
        },
        question: vec![Question::new(zone.clone(), rtype)],
        ..Message::default()
    }
}

impl Server {
    /// Everything in `zone`, as it was at one serial.
    ///
    /// # Limits
    /// Ten million records; the server may take the answer timeout for each message.
    pub(super) async fn fetch_transfer(&self, zone: &Name) -> Result<ZoneContent, Fault> {
        let mut incoming = Incoming::default();
        self.fetch_rows(zone, &request(zone, rtype::AXFR), &mut incoming)
            .await?;
        incoming.content().ok_or_else(|| self.malformed())
    }

    /// Sends `request` and gives the rows of all its answers to `rows`, signatures checked.
    pub(super) async fn fetch_rows(
        &self,
        zone: &Name,
        request: &Message,
        rows: &mut (impl Rows + Send),
    ) -> Result<(), Fault> {
        // Nobody closes it.
        let _turn = self.transfers.acquire().await;
        let mut composed = request
            .compose(MESSAGE_LEN_MAX)
            .map_err(|_| self.too_long())?;
        let mut sequence = match &self.key {
            Some(key) => Some(
                ClientSequence::request(key.signing(), &mut composed, self.now())
                    .map_err(|_| self.too_long())?,
            ),
            None => None,
        };
        let mut reader = self.start_transfer(&wire::stream_bytes(composed)).await?;
        while !rows.is_complete() {
            let bytes = match timeout(self.answer_timeout, reader.next()).await {
                Ok(read) => read.map_err(|error| self.lost(&error.to_string()))?,
                Err(_) => return Err(self.lost("the transfer stopped half-way")),
            };
            let mut message =
                domain::base::Message::from_octets(bytes).map_err(|_| self.malformed())?;
            let code = message.header().rcode().to_int();
            if let Some(sequence) = &mut sequence {
                sequence
                    .answer(&mut message, self.now())
                    .map_err(|error| self.bad_signature(error, message.as_slice()))?;
            }
            if code != rcode::NOERROR {
                return Err(self.transfer_refused(zone, code));
            }
            let message = Message::parse(message.as_slice()).map_err(|_| self.malformed())?;
            if message.answer.is_empty() {
                return Err(self.malformed());
            }
            for row in &message.answer {
                rows.take(zone, row)
                    .map_err(|OutOfOrder| self.malformed())?;
            }
        }
        if let Some(sequence) = sequence {
            sequence
                .done()
                .map_err(|error| self.bad_signature(error, &[]))?;
        }
        Ok(())
    }

    async fn start_transfer(&self, request: &[u8]) -> Result<MessageReader<TcpStream>, Fault> {
        let connect = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            stream.write_all(request).await?;
            Ok::<_, std::io::Error>(stream)
        };
        match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok(stream)) => Ok(MessageReader::new(stream)),
            Ok(Err(error)) => Err(self.unreachable(&error.to_string())),
            Err(_) => Err(self.unreachable("no connection within 5 seconds")),
        }
    }
}

//! Incremental transfers: what changed since a serial (RFC 1995), and how to make another server
//! change likewise.

use bindery_core::delta::{Delta, Difference, Net};
use bindery_core::{Fault, FaultKind, Name, Record, RecordData, RecordType, Serial, Soa};

use super::Server;
use super::transfer::{Incoming, OutOfOrder, RECORDS_MAX, Rows, request};
use crate::update;
use crate::wire::{WireRecord, rtype};

impl Server {
    /// What changed in `zone` since `serial`.
    ///
    /// # Errors
    /// If the server does not answer, or does not let this key transfer the zone.
    ///
    /// # Limits
    /// Ten million records; the server may take the answer timeout for each message.
    pub(super) async fn fetch_changes(&self, zone: &Name, serial: Serial) -> Result<Delta, Fault> {
        let mut request = request(zone, rtype::IXFR);
        // Only the serial is read (RFC 1995 section 3).
        let known = RecordData::Soa(Box::new(Soa {
            mname: Name::root(),
            rname: Name::root(),
            serial: serial.0,
            refresh: 0,
            retry: 0,
            expire: 0,
            minimum: 0,
        }));
        request
            .authority
            .push(WireRecord::new(zone.clone(), 0, &known));
        let mut answer = Answer::since(serial);
        self.fetch_rows(zone, &request, &mut answer).await?;
        answer.delta().ok_or_else(|| self.malformed())
    }

    /// Makes `zone` here what it has become elsewhere: one update from the SOA `from`, which must
    /// be the very one the zone has here, to that of `steps`.
    ///
    /// # Guarantees
    /// All of it happens or nothing, and the zone ends with exactly the SOA of `steps`.
    ///
    /// # Errors
    /// `Prerequisite` if the zone has another SOA by now; `TooLong` if the steps do not fit into
    /// one message; `Malformed` if they do not lead forwards, since a server would choose a
    /// serial of its own then.
    ///
    /// # Cancellation
    /// If dropped after the message was sent, the server may have acted on it.
    pub(super) async fn send_steps(
        &self,
        zone: &Name,
        from: &Record,
        steps: &Difference,
    ) -> Result<(), Fault> {
        let serials = (serial_of(&from.data), serial_of(&steps.to.data));
        let (Some(standing), Some(wanted)) = serials else {
            return Err(backwards(zone, "they do not lead from an SOA to an SOA"));
        };
        if !wanted.newer_than(standing) {
            let why = format!("serial {wanted} does not come after {standing}");
            return Err(backwards(zone, &why));
        }
        self.write(zone, |id| update::mirror(id, zone, from, steps))
            .await
    }
}

fn backwards(zone: &Name, why: &str) -> Fault {
    Fault::new(
        FaultKind::Malformed,
        format!("zone {zone} cannot be mirrored by these steps: {why}"),
    )
}

fn serial_of(data: &RecordData) -> Option<Serial> {
    let RecordData::Soa(soa) = data else {
        return None;
    };
    Some(Serial(soa.serial))
}

/// The answer to an incremental request as far as it has come.
struct Answer {
    since: Serial,
    /// The SOA it began with, which is the one it leads to.
    head: Option<(WireRecord, Record)>,
    stage: Stage,
    net: Net,
    records: usize,
}

enum Stage {
    /// Before the first or after the only SOA.
    Head,
    /// The changes to the next version, deletions first.
    Removing,
    /// Additions of the version with this serial.
    Adding(Serial),
    /// The whole zone comes instead.
    Whole(Incoming),
    UpToDate(Serial),
    Complete,
}

impl Answer {
    fn since(since: Serial) -> Self {
        Self {
            since,
            head: None,
            stage: Stage::Head,
            net: Net::default(),
            records: 0,
        }
    }

    /// The second row tells changes from a whole zone (RFC 1995 section 4).
    fn second(
        &mut self,
        zone: &Name,
        row: &WireRecord,
        head: &WireRecord,
    ) -> Result<(), OutOfOrder> {
        if soa_serial(zone, row)? == Some(self.since) {
            self.stage = Stage::Removing;
            return Ok(());
        }
        let mut incoming = Incoming::default();
        incoming.take(zone, head)?;
        incoming.take(zone, row)?;
        self.stage = Stage::Whole(incoming);
        Ok(())
    }

    /// The next row of changes that end with `last`.
    fn change(&mut self, zone: &Name, row: &WireRecord, last: Serial) -> Result<(), OutOfOrder> {
        let serial = soa_serial(zone, row)?;
        match (&self.stage, serial) {
            (Stage::Removing, Some(serial)) => self.stage = Stage::Adding(serial),
            (Stage::Removing, None) => self.net.remove(record(zone, row)?),
            (Stage::Adding(_), None) => self.net.add(record(zone, row)?),
            (Stage::Adding(at), Some(serial)) if *at == serial && serial == last => {
                self.stage = Stage::Complete;
            }
            (Stage::Adding(at), Some(serial)) if *at == serial => self.stage = Stage::Removing,
            _ => return Err(OutOfOrder),
        }
        Ok(())
    }

    fn delta(self) -> Option<Delta> {
        match self.stage {
            Stage::UpToDate(serial) => Some(Delta::UpToDate(serial)),
            Stage::Whole(incoming) => incoming.content().map(Delta::Whole),
            Stage::Complete => {
                let (_, to) = self.head?;
                Some(Delta::Difference(self.net.steps(to)))
            }
            Stage::Head | Stage::Removing | Stage::Adding(_) => None,
        }
    }
}

impl Rows for Answer {
    fn take(&mut self, zone: &Name, row: &WireRecord) -> Result<(), OutOfOrder> {
        if let Stage::Whole(incoming) = &mut self.stage {
            return incoming.take(zone, row);
        }
        self.records += 1;
        if self.records > RECORDS_MAX || self.is_complete() {
            return Err(OutOfOrder);
        }
        let Some((head, to)) = &self.head else {
            let serial = soa_serial(zone, row)?.ok_or(OutOfOrder)?;
            if !serial.newer_than(self.since) {
                self.stage = Stage::UpToDate(serial);
            }
            self.head = Some((row.clone(), record(zone, row)?));
            return Ok(());
        };
        if matches!(self.stage, Stage::Head) {
            let head = head.clone();
            return self.second(zone, row, &head);
        }
        let last = serial_of(&to.data).ok_or(OutOfOrder)?;
        self.change(zone, row, last)
    }

    fn is_complete(&self) -> bool {
        match &self.stage {
            Stage::UpToDate(_) | Stage::Complete => true,
            Stage::Whole(incoming) => incoming.is_complete(),
            Stage::Head | Stage::Removing | Stage::Adding(_) => false,
        }
    }
}

/// The serial of an SOA row of the zone; `None` for any other row.
fn soa_serial(zone: &Name, row: &WireRecord) -> Result<Option<Serial>, OutOfOrder> {
    if row.rtype != RecordType::Soa.code() {
        return Ok(None);
    }
    let serial = super::transfer::serial_of(row).filter(|_| row.name == *zone);
    serial.map(Some).ok_or(OutOfOrder)
}

fn record(zone: &Name, row: &WireRecord) -> Result<Record, OutOfOrder> {
    if !row.name.is_in(zone) {
        return Err(OutOfOrder);
    }
    Ok(Record {
        name: row.name.clone(),
        ttl: row.ttl,
        data: row.data().map_err(|_| OutOfOrder)?,
    })
}

#[cfg(test)]
mod tests;

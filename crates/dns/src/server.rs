//! A name server as the engine sees it: signed messages over one kept TCP connection.

use std::sync::Arc;
use std::time::Duration;

use bindery_core::delta::{Delta, Difference};
use bindery_core::zones::{ReadBack, ZoneContent};
use bindery_core::{Change, Fault, Name, Record, RecordKey, RecordType, Serial};
use bindery_engine::Fence;
use bindery_engine::ports::NameServer;
use domain::rdata::tsig::Time48;
use domain::tsig::{self, ClientTransaction};
use futures::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use crate::key::Key;
use crate::link::{Down, Link, Ticket};
use crate::update;
use crate::wire::{self, Head, MESSAGE_LEN_MAX, Message, Question, WireRecord, opcode, rcode};

mod fault;
mod incremental;
mod read;
mod transfer;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to answer one message. Two fsyncs on a busy disk take tens of
/// milliseconds; after ten seconds something is wrong.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to tell a serial, which costs it nothing: one that does not is stopped, cut off
/// or overloaded, and that is worth knowing soon.
const SERIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Transfers from one server at a time. Each has a connection of its own, and of more that arrive together
/// than the system queues for a server (ten, as BIND is set up by itself) some wait for a second.
const TRANSFERS_MAX: usize = 8;

/// What time it is, in seconds since 1970; signatures carry it.
pub type SigningClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One authoritative server: its address, the key we share with it, and a kept connection.
///
/// Guarantees: a [`Fault`] of kind `Unreachable` means that nothing was written; `Lost` means
/// that the message left and its outcome is unknown.
pub struct Server {
    address: String,
    key: Option<Key>,
    clock: SigningClock,
    answer_timeout: Duration,
    link: Mutex<Option<Arc<Link>>>,
    fence: Fence,
    transfers: Semaphore,
}

type Transaction = ClientTransaction<Arc<tsig::Key>>;

impl Server {
    /// A server at `address` (`HOST:PORT`, resolved at each connect); nothing is sent yet.
    #[must_use]
    pub fn new(address: impl Into<String>, key: Option<Key>) -> Self {
        Self {
            address: address.into(),
            key,
            clock: Arc::new(|| u64_of(Time48::now())),
            answer_timeout: ANSWER_TIMEOUT,
            link: Mutex::new(None),
            fence: Fence::none(),
            transfers: Semaphore::new(TRANSFERS_MAX),
        }
    }

    /// The same server, with another clock for signatures.
    #[must_use]
    pub fn with_clock(self, clock: SigningClock) -> Self {
        Self { clock, ..self }
    }

    /// The same server, with another limit for the wait for one answer.
    #[must_use]
    pub fn with_answer_timeout(self, answer_timeout: Duration) -> Self {
        Self {
            answer_timeout,
            ..self
        }
    }

    /// The same server, to which nothing is written while the fence is closed.
    #[must_use]
    pub fn with_fence(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// The address it was made with.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    fn now(&self) -> Time48 {
        Time48::from_u64((self.clock)())
    }

    /// The kept connection, or a new one where there is none that can be used.
    async fn link(&self) -> Result<Arc<Link>, Fault> {
        let mut kept = self.link.lock().await;
        if let Some(link) = kept.as_ref().filter(|link| link.is_usable()) {
            return Ok(Arc::clone(link));
        }
        *kept = None;
        let link = match timeout(CONNECT_TIMEOUT, Link::connect(&self.address)).await {
            Ok(Ok(link)) => Arc::new(link),
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string())),
            Err(_) => return Err(self.unreachable("no connection within 5 seconds")),
        };
        *kept = Some(Arc::clone(&link));
        tracing::debug!(server = self.address, "connected");
        Ok(link)
    }

    /// Composes and signs a message.
    fn signed(&self, message: &Message) -> Result<(Vec<u8>, Option<Transaction>), Fault> {
        let tsig_len = self.key.as_ref().map_or(0, Key::tsig_len);
        let limit = MESSAGE_LEN_MAX - tsig_len;
        let mut composed = message.compose(limit).map_err(|_| self.too_long())?;
        let transaction = match &self.key {
            Some(key) => Some(
                ClientTransaction::request(key.signing(), &mut composed, self.now())
                    .map_err(|_| self.too_long())?,
            ),
            None => None,
        };
        Ok((wire::stream_bytes(composed), transaction))
    }

    /// Checks the signature of an answer and reads it.
    fn verified(&self, bytes: Vec<u8>, with: Option<&Transaction>) -> Result<Message, Fault> {
        let mut message =
            domain::base::Message::from_octets(bytes).map_err(|_| self.malformed())?;
        if let Some(transaction) = with {
            transaction
                .answer(&mut message, self.now())
                .map_err(|error| self.bad_signature(error, message.as_slice()))?;
        }
        Message::parse(message.as_slice()).map_err(|_| self.malformed())
    }

    /// Sends one message and returns its verified answer.
    ///
    /// # Cancellation
    /// If dropped after the message was sent, the server may have acted on it.
    async fn exchange(
        &self,
        build: impl FnOnce(u16) -> Message,
        fence: &Fence,
    ) -> Result<Message, Fault> {
        let link = self.link().await?;
        let ticket = link.enlist().map_err(|down| self.down(&down))?;
        let (bytes, transaction) = self.signed(&build(ticket.id))?;
        self.send(&link, &bytes, fence).await?;
        let answer = self.answer(&link, ticket).await?;
        self.verified(answer, transaction.as_ref())
    }

    /// Like [`Self::exchange`] for what may be asked twice: a connection that the server closed
    /// in the meantime costs one more try, not a fault.
    async fn ask(&self, build: impl Fn(u16) -> Message) -> Result<Message, Fault> {
        let open = Fence::none();
        match self.exchange(&build, &open).await {
            Err(fault) if self.is_gone(&fault).await => self.exchange(&build, &open).await,
            answer => answer,
        }
    }

    async fn send(&self, link: &Link, bytes: &[u8], fence: &Fence) -> Result<(), Fault> {
        let Ok(sent) = timeout(self.answer_timeout, link.send(bytes, fence)).await else {
            link.retire();
            return Err(self.unreachable("the server does not read what is sent to it"));
        };
        sent.map_err(|down| self.down(&down))
    }

    async fn answer(&self, link: &Link, ticket: Ticket<'_>) -> Result<Vec<u8>, Fault> {
        let Ok(answer) = timeout(self.answer_timeout, link.answer(ticket)).await else {
            link.retire();
            return Err(self.lost(&format!("no answer within {:?}", self.answer_timeout)));
        };
        answer.map_err(|down| self.down(&down))
    }

    fn down(&self, down: &Down) -> Fault {
        match down {
            Down::NotSent(reason) => self.unreachable(reason),
            Down::NoAnswer(reason) => self.lost(reason),
        }
    }

    fn query(name: &Name, rtype: RecordType, id: u16) -> Message {
        Message {
            head: Head {
                id,
                opcode: opcode::QUERY,
                ..Head::default()
            },
            question: vec![Question::new(name.clone(), rtype.code())],
            ..Message::default()
        }
    }

    /// The SOA record of a zone, as it is served now.
    ///
    /// # Errors
    /// If the server does not answer or does not serve the zone.
    async fn fetch_soa(&self, zone: &Name) -> Result<Record, Fault> {
        let answer = self.ask_for_soa(zone).await?;
        let row = self.soa_in(zone, &answer)?;
        let data = row.data().map_err(|_| self.malformed())?;
        Ok(Record {
            name: zone.clone(),
            ttl: row.ttl,
            data,
        })
    }

    async fn fetch_serial(&self, zone: &Name) -> Result<Serial, Fault> {
        let answer = self.ask_for_soa(zone).await?;
        self.serial_in(zone, &answer)
    }

    async fn ask_for_soa(&self, zone: &Name) -> Result<Message, Fault> {
        let limit = SERIAL_TIMEOUT.min(self.answer_timeout);
        let asked = self.ask(|id| Self::query(zone, RecordType::Soa, id));
        if let Ok(answer) = timeout(limit, asked).await {
            return answer;
        }
        // What is on its way there may still come; nothing new is sent into the silence.
        if let Ok(kept) = self.link.try_lock()
            && let Some(link) = kept.as_ref()
        {
            link.retire();
        }
        Err(self.lost(&format!("no answer within {limit:?}")))
    }

    fn serial_in(&self, zone: &Name, answer: &Message) -> Result<Serial, Fault> {
        let row = self.soa_in(zone, answer)?;
        transfer::serial_of(row).ok_or_else(|| self.malformed())
    }

    fn soa_in<'a>(&self, zone: &Name, answer: &'a Message) -> Result<&'a WireRecord, Fault> {
        if answer.head.rcode != rcode::NOERROR {
            return Err(self.query_refused(zone, answer.head.rcode));
        }
        let soa = answer
            .answer
            .iter()
            .find(|row| row.name == *zone && row.rtype == RecordType::Soa.code());
        match soa {
            Some(row) if answer.head.authoritative => Ok(row),
            Some(_) | None => Err(self.no_such_zone(zone)),
        }
    }

    async fn send_update(&self, zone: &Name, changes: &[Change]) -> Result<(), Fault> {
        let answer = self.write(zone, |id| update::message(id, zone, changes));
        let answer = answer.await;
        let fault = answer.as_ref().err().map(tracing::field::display);
        tracing::debug!(server = self.address, %zone, sets = changes.len(), fault, "update answered");
        answer
    }

    /// Sends an update and says what became of it.
    async fn write(&self, zone: &Name, build: impl FnOnce(u16) -> Message) -> Result<(), Fault> {
        let answer = self.exchange(build, &self.fence).await?;
        match answer.head.rcode {
            rcode::NOERROR => Ok(()),
            code => Err(self.update_refused(zone, code)),
        }
    }
}

impl NameServer for Server {
    fn transfer<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<ZoneContent, Fault>> {
        Box::pin(async move {
            let content = self.fetch_transfer(zone).await;
            let sets = content.as_ref().map_or(0, |content| content.sets.len());
            let fault = content.as_ref().err().map(tracing::field::display);
            tracing::debug!(server = self.address, %zone, sets, fault, "zone transferred");
            content
        })
    }

    fn changes_since<'a>(
        &'a self,
        zone: &'a Name,
        serial: Serial,
    ) -> BoxFuture<'a, Result<Delta, Fault>> {
        Box::pin(self.fetch_changes(zone, serial))
    }

    fn mirror<'a>(
        &'a self,
        zone: &'a Name,
        from: &'a Record,
        steps: &'a Difference,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.send_steps(zone, from, steps))
    }

    fn soa<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Record, Fault>> {
        Box::pin(self.fetch_soa(zone))
    }

    fn serial<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<Serial, Fault>> {
        Box::pin(self.fetch_serial(zone))
    }

    fn update<'a>(
        &'a self,
        zone: &'a Name,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.send_update(zone, changes))
    }

    fn read<'a>(
        &'a self,
        zone: &'a Name,
        keys: &'a [RecordKey],
    ) -> BoxFuture<'a, Result<ReadBack, Fault>> {
        Box::pin(self.fetch_read_back(zone, keys))
    }
}

fn u64_of(time: Time48) -> u64 {
    time.into_octets()
        .iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests;

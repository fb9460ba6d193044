//! One TCP connection to a name server that many callers share, answers in any order.
//!
//! There is no task behind it: whoever waits for an answer reads for all who wait. So nothing
//! outlives its owner, and dropping a call at any await leaves the connection usable (or marked
//! as broken, where a message was half written).

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_engine::Fence;
use bytes::{Buf, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

/// Messages in flight on one connection. The id has 16 bits; a tenth of that keeps a late answer
/// to an abandoned call from meeting a new call with the same id.
const IN_FLIGHT_MAX: usize = 6_000;

/// A connection not used for this long is not used again: BIND closes it after 30 s, and a close
/// that crosses our message on the way would make its outcome unknown.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// Why a connection gave no answer.
#[derive(Debug, Error)]
pub(crate) enum Down {
    /// Nothing left this machine, or too little to be a message.
    #[error("the message could not be sent: {0}")]
    NotSent(String),
    /// The message was sent and the connection ended before its answer.
    #[error("the connection ended before the answer: {0}")]
    NoAnswer(String),
}

/// See the module.
pub(crate) struct Link {
    writer: Mutex<OwnedWriteHalf>,
    reader: Mutex<MessageReader<OwnedReadHalf>>,
    waiting: StdMutex<Waiting>,
    /// Set when no further call may start here; running ones still get their answers.
    retired: AtomicBool,
}

struct Waiting {
    callers: BTreeMap<u16, oneshot::Sender<Vec<u8>>>,
    next_id: u16,
    broken: Option<String>,
    used: Instant,
}

/// A place in the list of those who wait; leaving it is dropping it.
pub(crate) struct Ticket<'a> {
    link: &'a Link,
    pub(crate) id: u16,
    answer: oneshot::Receiver<Vec<u8>>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.link.waiting().callers.remove(&self.id);
    }
}

impl Link {
    /// Connects to `address`, `HOST:PORT`.
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        Ok(Self {
            writer: Mutex::new(write),
            reader: Mutex::new(MessageReader::new(read)),
            waiting: StdMutex::new(Waiting {
                callers: BTreeMap::new(),
                next_id: 0,
                broken: None,
                used: Instant::now(),
            }),
            retired: AtomicBool::new(false),
        })
    }

    /// Whether a new call may start here.
    pub(crate) fn is_usable(&self) -> bool {
        if self.retired.load(Ordering::Relaxed) {
            return false;
        }
        {
            let waiting = self.waiting();
            if waiting.broken.is_some() {
                return false;
            }
            if !waiting.callers.is_empty() {
                return true;
            }
            if waiting.used.elapsed() > IDLE_MAX {
                return false;
            }
        }
        // Nobody waits, so nothing may arrive: an end of stream shows up here before we send.
        self.reader
            .try_lock()
            .is_ok_and(|reader| reader.is_silent())
    }

    /// Whether the connection has ended.
    pub(crate) fn is_broken(&self) -> bool {
        self.waiting().broken.is_some()
    }

    /// Lets running calls finish and takes no new ones, after an answer was overdue.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Takes a place in the list of those who wait.
    pub(crate) fn enlist(&self) -> Result<Ticket<'_>, Down> {
        let mut waiting = self.waiting();
        if let Some(reason) = &waiting.broken {
            return Err(Down::NotSent(reason.clone()));
        }
        if waiting.callers.len() >= IN_FLIGHT_MAX {
            return Err(Down::NotSent(format!(
                "{IN_FLIGHT_MAX} messages wait for answers"
            )));
        }
        let mut id = waiting.next_id;
        while waiting.callers.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        waiting.next_id = id.wrapping_add(1);
        waiting.used = Instant::now();
        let (sender, answer) = oneshot::channel();
        waiting.callers.insert(id, sender);
        Ok(Ticket {
            link: self,
            id,
            answer,
        })
    }

    /// Sends messages, each with its length in front, as long as the fence is open. One that closes half-way
    /// breaks the connection, so that the server never has the whole message.
    ///
    /// # Cancellation
    /// If dropped while waiting for its turn, nothing was sent. If dropped half-way, the
    /// connection is marked as broken.
    pub(crate) async fn send(&self, messages: &[u8], fence: &Fence) -> Result<(), Down> {
        let writer = self.writer.lock().await;
        let breaks = BreaksUnlessDone {
            link: self,
            done: false,
        };
        let mut rest = messages;
        while !rest.is_empty() {
            let sent = match writer.writable().await {
                // Right before it goes: the process may have been stopped for long at any await.
                Ok(()) if !fence.is_open() => {
                    if rest.len() == messages.len() {
                        breaks.done();
                    }
                    return Err(Down::NotSent("this replica does not hold the lease".into()));
                }
                Ok(()) => writer.try_write(rest),
                Err(error) => Err(error),
            };
            match sent {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    breaks.done();
                    self.fail(&error.to_string());
                    return Err(Down::NotSent(error.to_string()));
                }
            }
        }
        breaks.done();
        Ok(())
    }

    /// Waits for the answer of `ticket`, reading for others meanwhile.
    ///
    /// # Cancellation
    /// Dropping it loses only this answer.
    pub(crate) async fn answer(&self, mut ticket: Ticket<'_>) -> Result<Vec<u8>, Down> {
        loop {
            tokio::select! {
                biased;
                answer = &mut ticket.answer => {
                    return answer.map_err(|_| Down::NoAnswer(self.why_broken()));
                }
                mut reader = self.reader.lock() => match reader.next_at_once().await {
                    Ok(message) => self.deliver(message),
                    Err(error) => self.fail(&error.to_string()),
                },
            }
        }
    }

    fn deliver(&self, message: Vec<u8>) {
        let Some(id) = message
            .first_chunk::<2>()
            .map(|bytes| u16::from_be_bytes(*bytes))
        else {
            return self.fail("a message without a header arrived");
        };
        // An answer nobody waits for belongs to a call that was given up.
        if let Some(caller) = self.waiting().callers.remove(&id) {
            // The caller may have gone in this moment; its answer is then of no use.
            drop(caller.send(message));
        }
    }

    fn fail(&self, reason: &str) {
        let mut waiting = self.waiting();
        waiting.broken.get_or_insert_with(|| reason.to_owned());
        waiting.callers.clear();
    }

    fn why_broken(&self) -> String {
        self.waiting()
            .broken
            .clone()
            .unwrap_or_else(|| "closed".to_owned())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held; if something did, the map is still a map.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the connection as broken when a write is dropped half-way.
struct BreaksUnlessDone<'a> {
    link: &'a Link,
    done: bool,
}

impl BreaksUnlessDone<'_> {
    fn done(mut self) {
        self.done = true;
    }
}

impl Drop for BreaksUnlessDone<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.link.fail("a message was given up half-way");
        }
    }
}

/// The receiving half with what has arrived of the next message, so that reading can be dropped
/// and taken up again.
pub(crate) struct MessageReader<Half> {
    half: Half,
    buffer: BytesMut,
}

impl<Half: AsyncRead + Unpin> MessageReader<Half> {
    /// A reader at the start of a message.
    pub(crate) fn new(half: Half) -> Self {
        Self {
            half,
            buffer: BytesMut::new(),
        }
    }

    /// The next message, without its length.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if self.buffer.len() >= length + 2 {
                    self.buffer.advance(2);
                    return Ok(self.buffer.split_to(length).to_vec());
                }
                self.buffer.reserve(length + 2 - self.buffer.len());
            } else {
                self.buffer.reserve(4_096);
            }
            if self.half.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
        }
    }
}

impl MessageReader<OwnedReadHalf> {
    /// The next message, acknowledged at once. A server that sends small answers one by one waits for
    /// each to be acknowledged (Nagle), which the kernel would put off for 40 ms; the option has to
    /// be set again and again, and elsewhere than on Linux it does not exist.
    async fn next_at_once(&mut self) -> io::Result<Vec<u8>> {
        #[cfg(target_os = "linux")]
        self.half.as_ref().set_quickack(true)?;
        self.next().await
    }

    fn is_silent(&self) -> bool {
        let mut probe = [0; 1];
        self.buffer.is_empty()
            && matches!(self.half.try_read(&mut probe),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

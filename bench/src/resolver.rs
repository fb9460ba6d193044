//! Asking the name server over UDP until it gives the answer that is waited for.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_core::{Name, RecordType};
use bindery_dns::wire::{Head, Message, Question, datagram_bytes};

/// The pause between two questions: the resolution of the times.
const PAUSE: Duration = Duration::from_micros(100);
/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a name may take to resolve before the run is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// A message over UDP without EDNS is no longer than this.
const DATAGRAM_LEN_MAX: usize = 512;

/// A socket for questions.
struct Resolver {
    socket: UdpSocket,
    id: u16,
}

/// Sockets for questions to several servers.
pub(crate) struct Resolvers(Vec<Resolver>);

/// When an answer was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// On the first server.
    pub(crate) first: Instant,
    /// On every server.
    pub(crate) all: Instant,
}

impl Resolvers {
    /// Asks these servers, of which there is at least one.
    pub(crate) fn new(servers: &[SocketAddr]) -> Result<Self> {
        let resolvers = servers.iter().copied().map(Resolver::new);
        Ok(Self(resolvers.collect::<Result<_>>()?))
    }

    /// Asks one server after the other until each has the address for `name`: asking all of them at
    /// a time would take from the processors what they need themselves.
    pub(crate) fn wait_for(&mut self, name: &Name, address: Ipv4Addr) -> Result<Seen> {
        let mut seen = None;
        for resolver in &mut self.0 {
            let all = resolver.wait_for(name, address)?;
            let first = seen.map_or(all, |seen: Seen| seen.first);
            seen = Some(Seen { first, all });
        }
        seen.context("there is no server to ask")
    }
}

impl Resolver {
    /// Asks the server at `server`.
    fn new(server: SocketAddr) -> Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            (Ipv4Addr::LOCALHOST, 0).into()
        } else {
            (std::net::Ipv6Addr::LOCALHOST, 0).into()
        };
        let socket = UdpSocket::bind(any).context("cannot open a socket")?;
        socket.connect(server).context("cannot reach the server")?;
        socket
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .context("cannot set a timeout")?;
        Ok(Self { socket, id: 0 })
    }

    /// Asks until `name` has the address, and says when it had.
    fn wait_for(&mut self, name: &Name, address: Ipv4Addr) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.has(name, address)? {
                return Ok(Instant::now());
            }
            thread::sleep(PAUSE);
        }
        bail!("{name} does not resolve to {address} after {PATIENCE:?}")
    }

    /// Whether `name` has the address now. An answer that does not come is a no.
    fn has(&mut self, name: &Name, address: Ipv4Addr) -> Result<bool> {
        self.id = self.id.wrapping_add(1);
        let question = Message {
            head: Head {
                id: self.id,
                ..Head::default()
            },
            question: vec![Question::new(name.clone(), RecordType::A.code())],
            ..Message::default()
        };
        let question = question.compose(DATAGRAM_LEN_MAX).context("a long name")?;
        // A server that is not up yet refuses; the answer is no.
        if self.socket.send(&datagram_bytes(question)).is_err() {
            return Ok(false);
        }
        let mut buffer = [0; DATAGRAM_LEN_MAX];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let answer = Message::parse(&buffer[..length]).context("a malformed answer")?;
            if answer.head.id == self.id {
                let wanted = address.octets();
                return Ok(answer.answer.iter().any(|row| row.rdata == wanted));
            }
        }
        Ok(false)
    }
}

//! A wire to a name server that can be held: what is sent over it then arrives later, or never.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};

/// Where the opcode of a message is that is sent over TCP, behind its length and id.
const OPCODE_AT: usize = 4;
/// UPDATE (RFC 2136 section 2.2), as it stands in that byte.
const UPDATE: u8 = 5 << 3;

/// See the module. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct Wire {
    address: SocketAddr,
    state: Arc<(Mutex<WireState>, Condvar)>,
}

#[derive(Default)]
struct WireState {
    to: Option<SocketAddr>,
    is_held: bool,
    /// Updates that are held back.
    updates: usize,
}

impl Wire {
    /// A wire that leads nowhere yet.
    pub(crate) fn new() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
        let wire = Self {
            address: listener.local_addr()?,
            state: Arc::default(),
        };
        let ends = wire.clone();
        // It ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                ends.connect(stream).ok();
            }
        });
        Ok(wire)
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says where it ends.
    pub(crate) fn lead_to(&self, address: SocketAddr) {
        self.lock().to = Some(address);
    }

    /// From now on updates stay on the way, and what is sent behind them.
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// How many updates are on the way.
    pub(crate) fn held(&self) -> usize {
        self.lock().updates
    }

    /// Lets everything arrive.
    pub(crate) fn release(&self) {
        self.lock().is_held = false;
        self.state.1.notify_all();
    }

    fn connect(&self, from: TcpStream) -> Result<()> {
        let to = self.lock().to.context("it leads nowhere")?;
        let to = TcpStream::connect(to)?;
        let (mut back, mut front) = (to.try_clone()?, from.try_clone()?);
        thread::spawn(move || {
            std::io::copy(&mut back, &mut front).ok();
            front.shutdown(Shutdown::Both).ok();
        });
        let wire = self.clone();
        thread::spawn(move || wire.carry(from, to));
        Ok(())
    }

    /// Carries messages one by one.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        loop {
            let mut message = vec![0; 2];
            if from.read_exact(&mut message).is_err() {
                break;
            }
            let len = u16::from_be_bytes([message[0], message[1]]);
            message.resize(2 + usize::from(len), 0);
            if from.read_exact(&mut message[2..]).is_err() {
                break;
            }
            if message
                .get(OPCODE_AT)
                .is_some_and(|byte| byte & 0x78 == UPDATE)
            {
                self.wait();
            }
            if to.write_all(&message).is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Write).ok();
    }

    fn wait(&self) {
        let mut state = self.lock();
        state.updates += usize::from(state.is_held);
        while state.is_held {
            let waited = self.state.1.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.updates = 0;
    }

    fn lock(&self) -> MutexGuard<'_, WireState> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Child processes that end with the value that holds them.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// How much of a log is worth showing when a server did not come up.
const LOG_TAIL_LEN_MAX: usize = 4000;
/// Where ports for servers are looked for, and how many are kept at a time.
const PORTS: Range<u16> = 10_000..32_000;
const PORT_BLOCK: usize = 8;

/// A running server; dropping it kills it by its pid and waits until it is gone.
pub struct ServerProcess {
    child: Child,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a program whose output goes to `log`.
    ///
    /// # Errors
    /// When the log cannot be written or the program cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = file.try_clone().context("cannot share the log")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// The end of what it wrote, for a message about its failure.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(LOG_TAIL_LEN_MAX);
        text.get(from..).unwrap_or(&text).to_owned()
    }

    /// Kills it and waits until it is gone.
    pub fn stop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The first of so many loopback ports in a row that nobody uses, kept for this process until it
/// ends.
///
/// They lie below the ports that the system gives to whoever asks for any, so nobody is given one
/// between this choice and the start of the server, or while a server is restarted.
///
/// # Errors
/// When the machine has none.
pub fn free_ports(count: u16) -> Result<u16> {
    static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("bindery-test-ports");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    for first in PORTS.step_by(PORT_BLOCK) {
        let lock = File::create(folder.join(first.to_string()))
            .with_context(|| format!("cannot write in {}", folder.display()))?;
        // Another file handle, in this process or another, has the block.
        if lock.try_lock().is_err() {
            continue;
        }
        if (first..first.saturating_add(count)).all(is_free) {
            kept.push(lock);
            return Ok(first);
        }
    }
    bail!("no {count} free ports in a row from {PORTS:?}")
}

/// One such port.
///
/// # Errors
/// When the machine has none.
pub fn free_port() -> Result<u16> {
    free_ports(1)
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

//! Child processes that end with the value that holds them.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// How much of a log is worth showing when a server did not come up.
const LOG_TAIL_LEN_MAX: usize = 4000;

/// A running server; dropping it kills it by its pid and waits until it is gone.
pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
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

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port of the loopback interface that nobody listens on now.
///
/// # Errors
/// When the machine has none.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free loopback port")?;
    Ok(listener
        .local_addr()
        .context("a bound socket has an address")?
        .port())
}

//! A local `named`: started as a child with a generated configuration, its zones made and
//! removed over its control channel, stopped with Bindery.
//!
//! Everything it reads and writes lies in one folder. It runs as the user that runs Bindery and
//! in the foreground.
//!
//! It must *never* touch a system-wide `named` on the same machine, print a key, or decide what a zone
//! holds. It knows nothing of Kubernetes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bindery_dns::{Key, SigningClock};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use bindery_dns::local::Replication;
use control::Control;
use listed::Listed;
use process::Process;
use reserved::Reserved;
use rndc::Rndc;

pub use check::{CheckFault, ConfigCheck, find_checkconf, placed};
pub use host::Host;
pub use supervisor::{NamedSupervisor, SupervisedHost};
pub use zone_locks::{ZoneLock, ZoneLocks};
pub use zones::quoted as quoted_zone;

mod check;
mod config;
mod control;
mod host;
mod listed;
pub mod process;
mod reserved;
pub mod rndc;
mod supervisor;
mod zone_locks;
mod zones;

/// How long `named` may take to answer after it was started. With 100,000 zones it needs
/// minutes; the wait ends early if the process does.
const START_TIMEOUT: Duration = Duration::from_mins(5);

/// How often to look whether it answers.
const START_POLL: Duration = Duration::from_millis(20);

/// How long `named` may take to write its zones and end after being told to.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How often free ports are looked for: another process may take one for UDP between our looking
/// and `named`'s binding.
const PORT_TRIES: usize = 3;

/// How `named` is set up.
#[derive(Clone)]
pub struct Options {
    /// The program; [`find_named`] looks for it.
    pub program: PathBuf,
    /// Where its configuration, zones, journals and log lie.
    pub folder: PathBuf,
    /// Where it answers; port 0 takes a free one.
    pub address: SocketAddr,
    /// The key that updates and transfers must be signed with.
    pub key: Key,
    /// Whether its zones are its own or copies, and whose.
    pub role: Replication,
    /// What time it is, for the control channel.
    pub clock: SigningClock,
    /// Secure random bytes, for the control channel's key.
    pub random: Arc<dyn Fn() -> [u8; 32] + Send + Sync>,
}

/// Why `named` does not run.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is taken or not ours.
    #[error(
        "cannot listen on {address}: {source}; stop what listens there (`ss -tulpn` shows it) or \
         choose another address with --dns-address"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its folder or configuration could not be written.
    #[error("cannot prepare {path} for named: {source}")]
    Prepare {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program}: {source}; install the package bind9 or use --server builtin")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended at once.
    #[error(
        "named ended at once ({status}); it said:\n{log}\nthe whole log is {path}; to do without \
         named use --server builtin"
    )]
    Ended {
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
        /// The log.
        path: PathBuf,
    },
    /// It runs but does not answer.
    #[error(
        "named does not answer on {address}; it said:\n{log}\nthe whole log is {path}; to do \
         without named use --server builtin"
    )]
    Silent {
        /// The address.
        address: SocketAddr,
        /// The last lines of its log.
        log: String,
        /// The log.
        path: PathBuf,
    },
}

/// Looks for `named` in PATH and where distributions put it.
#[must_use]
pub fn find_named() -> Option<PathBuf> {
    process::find("named")
}

/// A running `named`. Dropping it kills the process; [`Named::stop`] ends it gently.
pub struct Named {
    process: Process,
    host: Host,
}

impl Named {
    /// Starts `named` and waits until it answers.
    ///
    /// # Errors
    /// If it cannot be started or does not answer, with what it said.
    ///
    /// # Cancellation
    /// If dropped, the process is killed.
    pub async fn start(mut options: Options) -> Result<Self, StartError> {
        // It runs in its folder, so paths must not depend on where we run.
        options.folder =
            std::path::absolute(&options.folder).map_err(|source| StartError::Prepare {
                path: options.folder.clone(),
                source,
            })?;
        process::end_leftover(&options.folder, STOP_TIMEOUT).await;
        let supported = process::defaults(&options.program).await;
        let wanted = options.address;
        for _ in 1..PORT_TRIES {
            match Self::start_once(&mut options, wanted, &supported).await {
                Err(StartError::Silent { .. }) => {}
                started => return started,
            }
        }
        Self::start_once(&mut options, wanted, &supported).await
    }

    async fn start_once(
        options: &mut Options,
        wanted: SocketAddr,
        supported: &str,
    ) -> Result<Self, StartError> {
        // Both are kept until it answers.
        let reserved = Reserved::new(wanted)?;
        let control = Reserved::new((Ipv4Addr::LOCALHOST, 0).into())?;
        options.address = reserved.address;
        let control_key = Key::generate("bindery-control", (options.random)())
            .map_err(|problem| io::Error::other(problem.to_string()))
            .map_err(|source| StartError::Prepare {
                path: options.folder.clone(),
                source,
            })?;
        let config = config::write(options, control.address, &control_key, supported)
            .map_err(|(path, source)| StartError::Prepare { path, source })?;
        let rndc = Rndc::new(
            control.address,
            control_key,
            options.clock.clone(),
            first_serial(options),
        );
        let listed = Listed::read(&options.folder).map_err(|source| StartError::Prepare {
            path: options.folder.join(config::LISTED),
            source,
        })?;
        let process = Process::spawn_named(&options.program, &config, &options.folder);
        let process = process.map_err(|source| StartError::Spawn {
            program: options.program.clone(),
            source,
        })?;
        let host = Host::new(options, Control::new(options, rndc, listed));
        let named = Self { process, host };
        named.wait_until_it_answers(options).await?;
        Ok(named)
    }

    async fn wait_until_it_answers(&self, options: &Options) -> Result<(), StartError> {
        let path = options.folder.join(config::LOG);
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.process.ended() {
                return Err(StartError::Ended {
                    status: status.to_string(),
                    log: log_tail(&path),
                    path,
                });
            }
            if self.host.is_up().await {
                return Ok(());
            }
            if Instant::now() > deadline || has_lost_a_port(&path) {
                let address = options.address;
                return Err(StartError::Silent {
                    address,
                    log: log_tail(&path),
                    path,
                });
            }
            sleep(START_POLL).await;
        }
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.host.address()
    }

    /// What makes and removes its zones.
    #[must_use]
    pub fn host(&self) -> Host {
        self.host.clone()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the process ends by itself, and says how and why.
    pub async fn died(&self) -> String {
        let status = self.process.wait().await;
        // Another one may be started in the folder, and writes there.
        self.host.close().await;
        let log = log_tail(&self.host.log());
        format!("named ended ({status}); it said:\n{log}")
    }

    /// Has it write what it has and end; kills it if it does not.
    pub async fn stop(self) {
        self.process.stop(STOP_TIMEOUT).await;
    }
}

/// Serials of control messages must not repeat within a second, also not across restarts.
fn first_serial(options: &Options) -> u32 {
    (options.random)()
        .first_chunk::<4>()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Whether `named` found a port taken; it goes on without, so there is nothing to wait for.
fn has_lost_a_port(log: &Path) -> bool {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("address in use")
}

/// The last lines of the log and of what went to standard error, for an error message.
fn log_tail(path: &Path) -> String {
    let output = path.with_file_name(process::OUTPUT);
    [file_tail(path), file_tail(&output)]
        .join("\n")
        .trim()
        .to_owned()
}

fn file_tail(path: &Path) -> String {
    const LINES: usize = 12;
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// How an address is written in an address list of named.conf.
fn listed(address: IpAddr) -> String {
    if address.is_unspecified() {
        "{ any; }".to_owned()
    } else {
        format!("{{ {address}; }}")
    }
}

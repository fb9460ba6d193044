//! Zones of a running `named`: files written for it, commands over its control channel.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bindery_core::zones::{SigningAnswer, SigningPolicy};
use bindery_core::{Fault, FaultKind, Name, Record};
use bindery_dns::Server;
use bindery_engine::ports::{NameServer, ZoneHost};
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::control::{AddedBy, Control, ControlFault};
use super::rndc::{RndcFault, RndcReason};
use super::zone_locks::ZoneLocks;
use super::zones::{self, Files};
use super::{Options, config};
use bindery_dns::local::Replication;

/// How long `named` may take to remove a zone's file; afterwards we do.
const FORGET_TIMEOUT: Duration = Duration::from_secs(5);

/// How long `named` may take to load a listed zone. What takes longer is added by itself when it is
/// tried again, and then as long as a command may.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to look whether it has, at first and at last. A list of a hundred takes about as long, and
/// each look costs `named` as much as a fifth of a zone.
const LOAD_POLL_MIN: Duration = Duration::from_millis(30);
const LOAD_POLL_MAX: Duration = Duration::from_millis(60);

/// The policy by which `named` takes keys and signatures out of a zone.
const INSECURE: &str = "insecure";

/// Files that are written at a time: enough to keep a disk busy, and few threads.
const WRITES_MAX: usize = 8;

/// How often to look whether it has.
const FORGET_POLL: Duration = Duration::from_millis(2);

/// Makes and removes zones of a running `named`; clones are handles of the same.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    role: Replication,
    address: SocketAddr,
    server: Server,
    control: Control,
    locks: ZoneLocks,
    writes: Semaphore,
}

impl Host {
    pub(super) fn new(options: &Options, control: Control) -> Self {
        let server = Server::new(options.address.to_string(), Some(options.key.clone()));
        Self {
            inner: Arc::new(Inner {
                folder: options.folder.clone(),
                role: options.role.clone(),
                address: options.address,
                server: server.with_clock(options.clock.clone()),
                control,
                locks: ZoneLocks::default(),
                writes: Semaphore::new(WRITES_MAX),
            }),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.inner.address
    }

    pub(super) fn log(&self) -> PathBuf {
        self.inner.folder.join(config::LOG)
    }

    /// Has what is under way end and nothing else begin.
    pub(super) async fn close(&self) {
        self.inner.control.close().await;
    }

    /// Whether it answers on its control channel and to queries.
    pub(super) async fn is_up(&self) -> bool {
        if self.inner.control.command("status").await.is_err() {
            return false;
        }
        // Any answer will do; a server without the zone refuses.
        let probe = self.inner.server.serial(&Name::root()).await;
        !matches!(probe, Err(fault) if fault.kind == FaultKind::Unreachable)
    }

    /// Whether the zone is served, as queries see it.
    async fn state(&self, zone: &Name) -> Result<State, Fault> {
        match self.inner.server.serial(zone).await {
            Ok(_) => Ok(State::Served),
            Err(fault) => match fault.kind {
                FaultKind::Missing => Ok(State::Missing),
                FaultKind::Refused | FaultKind::ServerFailed => Ok(State::Broken),
                FaultKind::Unreachable
                | FaultKind::Lost
                | FaultKind::Throttled
                | FaultKind::Denied
                | FaultKind::Conflict
                | FaultKind::Invalid
                | FaultKind::TooLarge
                | FaultKind::Malformed
                | FaultKind::Behind
                | FaultKind::Held => Err(fault),
            },
        }
    }

    async fn add_zone(&self, zone: &Name, records: &[Record]) -> Result<(), Fault> {
        // Held from the look to the command: a file must not be written under a served zone.
        let _turn = self.inner.locks.take(zone).await;
        match (self.state(zone).await?, &self.inner.role) {
            // What a secondary cannot serve has not been copied yet, or its primaries are away.
            (State::Served, _) | (State::Broken, Replication::Secondary { .. }) => return Ok(()),
            (State::Missing, _) => {}
            // Known to `named` but not served: not loaded yet, or it cannot be.
            (State::Broken, Replication::Primary { .. }) => match self.load(zone).await? {
                Loading::Served => return Ok(()),
                Loading::Impossible(why) => {
                    self.put_aside(zone, Files::All, &why).await?;
                    self.drop_zone(zone).await?;
                }
            },
        }
        let (folder, name) = (self.inner.folder.clone(), zone.clone());
        let role = self.inner.role.clone();
        let lines = match self.inner.role {
            // What an old zone of this name left must not be served for the new one.
            Replication::Secondary { .. } if records.is_empty() => None,
            Replication::Primary { .. } | Replication::Secondary { .. } => Some(records.to_vec()),
        };
        let write = move || match lines {
            Some(lines) => {
                if matches!(role, Replication::Primary { .. }) {
                    // What `named` left may be all that there is of what others wrote.
                    let kept = zones::put_aside(&folder, &name, Files::All)?;
                    log_aside(&name, "it does not have the zone any more", &kept);
                }
                zones::write(&folder, &name, &lines, &role)
            }
            None => zones::remove_files(&folder, &name),
        };
        self.write(write)
            .await
            .map_err(|error| disk_fault(zone, "written", &error))?;
        match self.inner.control.add(zone).await {
            Ok(AddedBy::List) if !records.is_empty() => self.wait_until_loaded(zone).await,
            Ok(AddedBy::Command | AddedBy::List) => Ok(()),
            Err(error) => Err(self.control_fault(zone, "add", &error)),
        }
    }

    /// Writes files, few at a time.
    async fn write(
        &self,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        // Nobody closes it.
        let _turn = self.inner.writes.acquire().await;
        on_disk(work).await
    }

    /// `named` answers before it has loaded what was listed.
    async fn wait_until_loaded(&self, zone: &Name) -> Result<(), Fault> {
        let deadline = Instant::now() + LOAD_TIMEOUT;
        let mut pause = LOAD_POLL_MIN;
        while !matches!(self.state(zone).await?, State::Served) {
            if Instant::now() > deadline {
                let log = self.log();
                let message = format!("named has not loaded zone {zone}; see {}", log.display());
                return Err(Fault::new(FaultKind::ServerFailed, message));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOAD_POLL_MAX);
        }
        Ok(())
    }

    /// Has `named` load a zone that it does not serve, and waits until it does.
    async fn load(&self, zone: &Name) -> Result<Loading, Fault> {
        match self.inner.control.command(&zones::load_command(zone)).await {
            // It may be at it already, which takes time where a zone is large.
            Ok(()) => self.wait_until_loaded(zone).await.map(|()| Loading::Served),
            Err(fault) if fault.reason() == Some(RndcReason::DynamicZone) => {
                // A zone that takes updates is not loaded twice: it has been meanwhile.
                self.wait_until_loaded(zone).await.map(|()| Loading::Served)
            }
            Err(fault) if fault.is_refusal() => Ok(Loading::Impossible(fault.to_string())),
            Err(fault) => Err(self.control_fault(zone, "load", &fault)),
        }
    }

    /// Serves a zone that cannot be loaded without the changes since its file was written, if that is what
    /// is broken.
    async fn mend_zone(&self, zone: &Name) -> Result<bool, Fault> {
        let _turn = self.inner.locks.take(zone).await;
        if matches!(self.inner.role, Replication::Secondary { .. }) {
            return Ok(false);
        }
        match self.state(zone).await? {
            State::Served => return Ok(true),
            State::Missing => return Ok(false),
            State::Broken => {}
        }
        let why = match self.load(zone).await? {
            Loading::Served => return Ok(true),
            Loading::Impossible(why) => why,
        };
        if !self.put_aside(zone, Files::Journal, &why).await? {
            return Ok(false);
        }
        Ok(matches!(self.load(zone).await?, Loading::Served))
    }

    /// Puts files of a zone aside, and says whether there were any.
    async fn put_aside(&self, zone: &Name, files: Files, why: &str) -> Result<bool, Fault> {
        let (folder, name) = (self.inner.folder.clone(), zone.clone());
        let work = move || zones::put_aside(&folder, &name, files);
        let kept = tokio::task::spawn_blocking(work).await;
        let kept = kept.map_err(io::Error::other).flatten();
        let kept = kept.map_err(|error| disk_fault(zone, "put aside", &error))?;
        log_aside(zone, why, &kept);
        Ok(!kept.is_empty())
    }

    async fn refresh_zone(&self, zone: &Name) -> Result<(), Fault> {
        let command = zones::refresh_command(zone);
        match self.inner.control.command(&command).await {
            // What it does not have yet, or is fetching already, needs no word.
            Ok(()) | Err(ControlFault::Command(RndcFault::Failed { .. })) => Ok(()),
            Err(error) => Err(self.control_fault(zone, "refresh", &error)),
        }
    }

    async fn sign_zone(&self, zone: &Name, policy: &SigningPolicy) -> Result<SigningAnswer, Fault> {
        let _turn = self.inner.locks.take(zone).await;
        let policy = match (policy, &self.inner.role) {
            (SigningPolicy::Unsaid, _) => return Ok(SigningAnswer::Done),
            (_, Replication::Secondary { .. }) => return Ok(SigningAnswer::Unsupported),
            (SigningPolicy::Unsigned, Replication::Primary { .. }) => INSECURE,
            (SigningPolicy::Named(policy), Replication::Primary { .. }) => policy,
        };
        if !zones::is_policy_name(policy) {
            let said = "a policy has letters, digits, `.`, `-` and `_` only".to_owned();
            return Ok(SigningAnswer::NoPolicy(said));
        }
        match self.inner.control.sign(zone, policy).await {
            Ok(()) => Ok(SigningAnswer::Done),
            // It has the zone, so what it does not find is the policy.
            Err(fault) if fault.reason() == Some(RndcReason::NotFound) => {
                Ok(SigningAnswer::NoPolicy(fault.to_string()))
            }
            Err(fault) => Err(self.control_fault(zone, "sign", &fault)),
        }
    }

    async fn remove_zone(&self, zone: &Name) -> Result<(), Fault> {
        let _turn = self.inner.locks.take(zone).await;
        self.drop_zone(zone).await
    }

    async fn drop_zone(&self, zone: &Name) -> Result<(), Fault> {
        // Its going is the sign that `named` is done, so there must be one to go: a removal that
        // comes late would take the file of the zone's successor.
        let (folder, name) = (self.inner.folder.clone(), zone.clone());
        on_disk(move || zones::ensure_file(&folder, &name))
            .await
            .map_err(|error| disk_fault(zone, "written", &error))?;
        match self.inner.control.remove(zone).await {
            Ok(Some(way)) => self.wait_until_forgotten(zone, way).await,
            Ok(None) => {}
            Err(error) => return Err(self.control_fault(zone, "delete", &error)),
        }
        let (folder, name) = (self.inner.folder.clone(), zone.clone());
        on_disk(move || zones::remove_files(&folder, &name))
            .await
            .map_err(|error| disk_fault(zone, "removed", &error))
    }

    /// `named` answers before it has dropped the zone.
    async fn wait_until_forgotten(&self, zone: &Name, way: AddedBy) {
        let deadline = Instant::now() + FORGET_TIMEOUT;
        while !self.is_forgotten(zone, way).await && Instant::now() < deadline {
            sleep(FORGET_POLL).await;
        }
    }

    async fn is_forgotten(&self, zone: &Name, way: AddedBy) -> bool {
        match way {
            // The last thing it does is to remove the file, after it has taken the zone off a list
            // of its own. A kill in between would bring the zone back without its data.
            AddedBy::Command => !zones::path(&self.inner.folder, zone).exists(),
            // It leaves the file of a zone from its configuration where it is.
            AddedBy::List => matches!(self.state(zone).await, Ok(State::Missing)),
        }
    }

    fn control_fault(&self, zone: &Name, what: &str, error: &ControlFault) -> Fault {
        let kind = match error {
            // The key is ours, so a `named` that hangs up is about to end.
            ControlFault::Ended
            | ControlFault::Command(RndcFault::Connection { .. } | RndcFault::Denied { .. }) => {
                FaultKind::Unreachable
            }
            ControlFault::WriteList { .. } | ControlFault::Command(RndcFault::Failed { .. }) => {
                FaultKind::ServerFailed
            }
            ControlFault::Command(RndcFault::Signature | RndcFault::Malformed) => {
                FaultKind::Malformed
            }
        };
        let log = self.log();
        Fault::new(
            kind,
            format!(
                "named could not {what} zone {zone}: {error}; see {}",
                log.display()
            ),
        )
    }
}

/// What came of an attempt to load a zone.
enum Loading {
    /// It is served.
    Served,
    /// It cannot be, and why.
    Impossible(String),
}

enum State {
    Served,
    Missing,
    Broken,
}

impl ZoneHost for Host {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.add_zone(zone, records))
    }

    fn mend<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(self.mend_zone(zone))
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.refresh_zone(zone))
    }

    fn sign<'a>(
        &'a self,
        zone: &'a Name,
        policy: &'a SigningPolicy,
    ) -> BoxFuture<'a, Result<SigningAnswer, Fault>> {
        Box::pin(self.sign_zone(zone, policy))
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.remove_zone(zone))
    }
}

/// Does what waits for the disk where it holds up nobody.
pub(super) async fn on_disk(
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

fn log_aside(zone: &Name, why: &str, kept: &[PathBuf]) {
    for path in kept {
        let kept = path.display();
        tracing::error!(%zone, why, %kept, "a zone's file is put aside, since named cannot use it");
    }
}

fn disk_fault(zone: &Name, what: &str, error: &io::Error) -> Fault {
    Fault::new(
        FaultKind::ServerFailed,
        format!("the file of zone {zone} could not be {what}: {error}"),
    )
}

//! The `named` beside us: zones made, changed and removed over its control channel, records over DNS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bindery_bind::rndc::{Rndc, RndcFault, RndcReason};
use bindery_bind::{ZoneLocks, quoted_zone};
use bindery_core::{Change, Fault, Name, Record, RecordData, RecordKey, RecordSet, Serial};
use bindery_dns::{Key, Server, SigningClock};
use bindery_engine::ports::NameServer as _;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::statement::{ZoneStatement, quoted};
pub(crate) use fault::NamedFault;
use fault::{about, disk, dns};
use keys::FollowedKeys;
use signing_keys::{KeyTexts, SeenKeys, Taken};

mod fault;
pub(crate) mod files;
mod keys;
pub(crate) mod signing_keys;

/// The longest command that `named` reads, with room for the rest of the message: 32 KiB.
const COMMAND_LEN_MAX: usize = 30_000;

/// How long `named` may take to remove the file of a zone that it has dropped; afterwards we do.
const FORGET_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const FORGET_POLL: Duration = Duration::from_millis(2);

/// How the `named` beside us is reached.
#[derive(Clone)]
pub struct NamedOptions {
    /// Where the files of its zones lie.
    pub folder: PathBuf,
    /// Where its control channel is.
    pub control: SocketAddr,
    /// The key of the control channel.
    pub control_key: Key,
    /// Where it answers DNS, as `HOST:PORT`.
    pub dns: String,
    /// The key that updates are signed with; without it records cannot be written.
    pub update_key: Option<Key>,
    /// A folder whose keys count instead as soon as `named` has them: `rndc.key`, and beside it `previous.key`.
    pub keys: Option<PathBuf>,
    /// A folder of keys that sign zones: those of a zone are taken before it is signed for the first time.
    pub signing_keys: Option<PathBuf>,
    /// Whether zones are signed with those alone.
    pub makes_no_signing_keys: bool,
    /// How long its control channel may take to answer a question. What is to be done may take longer.
    pub patience: Duration,
    /// What time it is.
    pub clock: SigningClock,
    /// A random number, for the first serials of control messages.
    pub random: Arc<dyn Fn() -> u32 + Send + Sync>,
}

/// How a zone is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// With data; what `named` says of it.
    Yes(String),
    /// Without.
    No,
}

/// The `named` beside us.
pub(crate) struct NamedControl {
    folder: PathBuf,
    /// Keys of zones that somebody gives, and whether no others are made.
    signing: (Option<PathBuf>, bool),
    seen_signing: std::sync::Mutex<SeenKeys>,
    /// For what may take long.
    control: Mutex<Rndc>,
    /// For looking, which must not wait for that.
    probe: Mutex<Rndc>,
    server: std::sync::Mutex<Arc<Server>>,
    dns: String,
    keys: Option<FollowedKeys>,
    random: Arc<dyn Fn() -> u32 + Send + Sync>,
    can_update: bool,
    address: SocketAddr,
    patience: Duration,
    locks: ZoneLocks,
    pub(crate) clock: SigningClock,
}

impl NamedControl {
    pub(crate) fn new(options: NamedOptions) -> Self {
        let channel = || {
            let (key, clock) = (options.control_key.clone(), options.clock.clone());
            Mutex::new(Rndc::new(options.control, key, clock, (options.random)()))
        };
        let server = Server::new(options.dns.clone(), options.update_key.clone());
        Self {
            control: channel(),
            probe: channel(),
            server: std::sync::Mutex::new(server.with_clock(options.clock.clone()).into()),
            keys: options.followed_keys(),
            dns: options.dns,
            random: options.random,
            can_update: options.update_key.is_some(),
            address: options.control,
            patience: options.patience,
            signing: (options.signing_keys, options.makes_no_signing_keys),
            seen_signing: std::sync::Mutex::default(),
            folder: options.folder,
            locks: ZoneLocks::default(),
            clock: options.clock,
        }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The fingerprints of the keys that it has; nothing where nobody follows them.
    pub(crate) fn loaded_keys(&self) -> Option<Vec<String>> {
        self.keys.as_ref().map(FollowedKeys::loaded)
    }

    /// The keys that it signs zones with.
    pub(crate) async fn fetch_signing_keys(&self) -> Result<KeyTexts, NamedFault> {
        let folder = self.folder.clone();
        let read = on_disk(move || signing_keys::read(&folder)).await;
        read.map_err(|source| disk("read", &Name::root(), source))
    }

    /// By which these are told from others. They are read only where something in the folder came or went.
    pub(crate) async fn fetch_signing_digest(&self) -> Result<Option<String>, NamedFault> {
        let changed = std::fs::metadata(&self.folder).and_then(|folder| folder.modified());
        let changed = changed.map_err(|source| disk("read", &Name::root(), source))?;
        let seen = || {
            let seen = self.seen_signing.lock();
            seen.unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        if let Ok(digest) = seen().known(changed) {
            return Ok(digest);
        }
        let digest = signing_keys::digest(&self.fetch_signing_keys().await?);
        seen().note(changed, digest.clone());
        Ok(digest)
    }

    /// Takes the keys that somebody gives for a zone, which is about to be signed.
    ///
    /// # Cancellation
    /// If dropped, some may have been taken; the rest are not, and the zone is signed with those.
    pub(crate) async fn take_signing_keys(&self, zone: &Name) -> Result<(), NamedFault> {
        let (given, makes_none) = self.signing.clone();
        let (folder, name) = (self.folder.clone(), zone.clone());
        let taken = on_disk(move || signing_keys::take(given.as_deref(), &folder, &name)).await;
        match taken.map_err(|source| disk("written", zone, source))? {
            Taken::Nothing if makes_none => Err(NamedFault::Refused {
                act: "sign",
                zone: zone.clone(),
                said: "no key of the zone is given, and none is to be made (autoGenerate)"
                    .to_owned(),
            }),
            Taken::Given(count) => {
                tracing::info!(%zone, count, "keys that somebody gives are taken");
                Ok(())
            }
            Taken::Had | Taken::Nothing => Ok(()),
        }
    }

    fn server(&self) -> Arc<Server> {
        let server = self.server.lock();
        Arc::clone(&server.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// What it says of itself, on a channel of its own.
    pub(crate) async fn fetch_status(&self) -> Result<String, NamedFault> {
        let said = self.look("status").await;
        said.map_err(NamedFault::Control)
    }

    /// A zone's statement.
    pub(crate) async fn fetch_statement(&self, zone: &Name) -> Result<ZoneStatement, NamedFault> {
        let shown = self.fetch(zone, "showzone", "show").await?;
        ZoneStatement::parse(&shown).ok_or_else(|| NamedFault::Unreadable { zone: zone.clone() })
    }

    /// How a zone is.
    pub(crate) async fn fetch_loaded(&self, zone: &Name) -> Result<Loaded, NamedFault> {
        let command = format!("zonestatus {}", quoted_zone(zone));
        match self.look(&command).await {
            Ok(said) => Ok(Loaded::Yes(said)),
            Err(fault) if fault.reason() == Some(RndcReason::NotLoaded) => Ok(Loaded::No),
            Err(fault) => Err(about(zone, "show", fault)),
        }
    }

    /// How a zone is signed; nothing where it has no policy.
    pub(crate) async fn fetch_dnssec(&self, zone: &Name) -> Result<String, NamedFault> {
        self.fetch(zone, "dnssec -status", "show the keys of").await
    }

    /// Every zone that it has, of those that have left something in the folder.
    pub(crate) async fn fetch_zones(&self, more: Vec<Name>) -> Result<Vec<Name>, NamedFault> {
        let folder = self.folder.clone();
        let mut candidates = on_disk(move || files::zones(&folder))
            .await
            .map_err(|source| disk("read", &Name::root(), source))?;
        candidates.extend(more);
        candidates.sort_unstable();
        candidates.dedup();
        let mut zones = Vec::new();
        for zone in candidates {
            match self.fetch_statement(&zone).await {
                Ok(_) => zones.push(zone),
                Err(NamedFault::NoSuchZone { .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(zones)
    }

    /// Makes a zone that it does not have; one that it has is left as it is. A primary begins with
    /// `content`, the text of its file.
    ///
    /// # Cancellation
    /// If dropped, a file may be left that the next attempt puts aside.
    pub(crate) async fn write_zone(
        &self,
        zone: &Name,
        statement: &ZoneStatement,
        content: Option<String>,
    ) -> Result<(), NamedFault> {
        let command = command("addzone", zone, statement)?;
        // Held from the look to the command: a file must not be written under a zone that is served.
        let _turn = self.locks.take(zone).await;
        match self.fetch_statement(zone).await {
            Ok(_) => return Err(NamedFault::Exists { zone: zone.clone() }),
            Err(NamedFault::NoSuchZone { .. }) => {}
            Err(fault) => return Err(fault),
        }
        let (folder, name) = (self.folder.clone(), zone.clone());
        let write = move || {
            if content.is_none() || !files::tells_its_name(&name) {
                files::write_mark(&folder, &name)?;
            }
            match content {
                Some(text) => files::write_zone(&folder, &name, &text),
                None => Ok(()),
            }
        };
        on_disk(write)
            .await
            .map_err(|source| disk("written", zone, source))?;
        match self.control.lock().await.command(&command).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.reason() == Some(RndcReason::Exists) => {
                Err(NamedFault::Exists { zone: zone.clone() })
            }
            Err(fault) => {
                if let RndcFault::Failed { text, .. } = fault {
                    // Nobody has it, so what was written for it goes.
                    self.clear(zone).await?;
                    return Err(NamedFault::Refused {
                        act: "add",
                        zone: zone.clone(),
                        said: text,
                    });
                }
                Err(NamedFault::Control(fault))
            }
        }
    }

    /// Changes a zone's statement.
    ///
    /// # Cancellation
    /// If dropped, it may have been changed.
    pub(crate) async fn write_statement(
        &self,
        zone: &Name,
        change: impl FnOnce(&mut ZoneStatement) + Send,
    ) -> Result<(), NamedFault> {
        let _turn = self.locks.take(zone).await;
        let before = self.fetch_statement(zone).await?;
        let mut statement = before.clone();
        change(&mut statement);
        if statement == before {
            return Ok(());
        }
        let command = command("modzone", zone, &statement)?;
        let done = self.control.lock().await.command(&command).await;
        done.map(drop).map_err(|fault| match fault {
            // It has the zone, so what it did not find is something that the zone was to have.
            RndcFault::Failed { text, .. } => NamedFault::Refused {
                act: "change",
                zone: zone.clone(),
                said: text,
            },
            RndcFault::Connection { .. }
            | RndcFault::Denied { .. }
            | RndcFault::Signature
            | RndcFault::Malformed => NamedFault::Control(fault),
        })
    }

    /// Has it read its configuration again, which is when the policy of a zone begins to count.
    pub(crate) async fn send_reconfig(&self, zone: &Name) -> Result<(), NamedFault> {
        let done = self.control.lock().await.command("reconfig").await;
        done.map(drop).map_err(|fault| about(zone, "sign", fault))
    }

    /// Removes a zone and its files.
    ///
    /// # Cancellation
    /// If dropped, the zone may be gone and files of it left.
    pub(crate) async fn remove_zone(&self, zone: &Name) -> Result<String, NamedFault> {
        let _turn = self.locks.take(zone).await;
        let statement = self.fetch_statement(zone).await?;
        let file = statement.value("file").map(|file| self.folder.join(file));
        let command = format!("delzone -clean {}", quoted_zone(zone));
        let said = self.control.lock().await.command(&command).await;
        let said = said.map_err(|fault| about(zone, "remove", fault))?;
        // It answers before it has removed the file; a removal that comes late would take the file of the
        // zone's successor.
        let deadline = Instant::now() + FORGET_TIMEOUT;
        while file.as_ref().is_some_and(|file| file.exists()) && Instant::now() < deadline {
            sleep(FORGET_POLL).await;
        }
        self.clear(zone).await?;
        Ok(said.trim().to_owned())
    }

    /// Has it do one thing with a zone: `reload`, `freeze` and the like.
    pub(crate) async fn send(
        &self,
        zone: &Name,
        word: &str,
        act: &'static str,
    ) -> Result<String, NamedFault> {
        let _turn = self.locks.take(zone).await;
        let command = format!("{word} {}", quoted_zone(zone));
        let said = self.control.lock().await.command(&command).await;
        match said {
            Ok(said) => Ok(said.trim().to_owned()),
            Err(RndcFault::Failed {
                text,
                reason: Some(RndcReason::Frozen),
            }) => Ok(text),
            Err(fault) => Err(about(zone, act, fault)),
        }
    }

    /// The serial at which a zone is served.
    pub(crate) async fn fetch_serial(&self, zone: &Name) -> Result<Serial, Fault> {
        self.server().serial(zone).await
    }

    /// The records of one type at a name.
    pub(crate) async fn fetch_set(
        &self,
        zone: &Name,
        key: &RecordKey,
    ) -> Result<Option<RecordSet>, NamedFault> {
        let read = self.server().read(zone, std::slice::from_ref(key)).await;
        let mut read = read.map_err(|fault| dns(zone, fault))?;
        Ok(read.sets.pop().flatten())
    }

    /// Changes records of one set, and looks whether they are as they should be.
    ///
    /// # Cancellation
    /// If dropped, the change may have been made.
    pub(crate) async fn write_records(
        &self,
        zone: &Name,
        change: Change,
    ) -> Result<(), NamedFault> {
        if !self.can_update {
            return Err(NamedFault::NoUpdateKey);
        }
        let sent = self
            .server()
            .update(zone, std::slice::from_ref(&change))
            .await;
        sent.map_err(|fault| dns(zone, fault))?;
        if change.add.is_empty() {
            return Ok(());
        }
        // It answers with success to some updates that it does not do.
        let standing = self.fetch_set(zone, &change.key).await?;
        let stands = |data: &RecordData| standing.as_ref().is_some_and(|set| set.contains(data));
        match change.add.into_iter().find(|data| !stands(data)) {
            None => Ok(()),
            Some(data) => {
                let (name, ttl) = (change.key.name, change.ttl);
                let record = Record { name, ttl, data }.to_string();
                Err(NamedFault::Ignored { record })
            }
        }
    }

    async fn fetch(
        &self,
        zone: &Name,
        word: &str,
        act: &'static str,
    ) -> Result<String, NamedFault> {
        let command = format!("{word} {}", quoted_zone(zone));
        let said = self.look(&command).await;
        said.map_err(|fault| about(zone, act, fault))
    }

    /// Asks a question; a `named` that is stopped or hangs is told soon.
    async fn look(&self, command: &str) -> Result<String, RndcFault> {
        let asked = async { self.probe.lock().await.command(command).await };
        let said = timeout(self.patience, asked).await.unwrap_or_else(|_| {
            let why = format!("no answer within {:?}", self.patience);
            Err(RndcFault::Connection {
                address: self.address,
                source: Arc::new(io::Error::new(io::ErrorKind::TimedOut, why)),
            })
        });
        if let (Err(fault), Some(keys)) = (&said, &self.keys) {
            keys.note(fault);
        }
        said
    }

    async fn clear(&self, zone: &Name) -> Result<(), NamedFault> {
        let (folder, name) = (self.folder.clone(), zone.clone());
        let cleared = on_disk(move || files::remove_zone(&folder, &name)).await;
        cleared.map_err(|source| disk("removed", zone, source))
    }
}

/// The clause that names a zone's file.
pub(crate) fn file_clause(folder: &std::path::Path, zone: &Name) -> String {
    quoted(&files::path(folder, zone).display().to_string())
}

fn command(word: &str, zone: &Name, statement: &ZoneStatement) -> Result<String, NamedFault> {
    let command = format!("{word} {} IN {statement}", quoted_zone(zone));
    if command.len() > COMMAND_LEN_MAX {
        return Err(NamedFault::TooLong { zone: zone.clone() });
    }
    Ok(command)
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

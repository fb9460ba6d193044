//! A small authoritative name server, for machines without `named`.
//!
//! It serves zones that it keeps on disk, takes signed updates and gives signed transfers; or it
//! copies its zones from primaries and follows their changes. Queries read a snapshot, so they do
//! not wait for writers.
//!
//! It must *never* recurse, serve a zone that it does not have, or acknowledge an update before the
//! disk has it. It knows nothing of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bindery_core::{Fault, FaultKind, Name, Record, RecordSet};
use bindery_dns::local::{Replication, put_aside, zone_file_name};
use bindery_dns::wire::rcode;
use bindery_dns::{Key, SigningClock};
use bindery_engine::ports::ZoneHost;
use domain::rdata::tsig::Time48;
use domain::tsig;
use futures::future::BoxFuture;
use rpds::HashTrieMapSync;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use announce::NotifyTarget;
use content::Content;
use history::History;
use journal::Journal;
use pending::Pending;
use zone::Zone;

mod announce;
mod content;
mod copy;
mod follow;
mod history;
mod journal;
mod lookup;
mod pending;
mod respond;
mod sockets;
mod transfer;
mod update;
mod zone;

pub use journal::Damaged;
pub use sockets::Sockets;

/// How the server is set up.
pub struct Options {
    /// Where zones are kept; `None` keeps them in memory only.
    pub folder: Option<PathBuf>,
    /// The key that updates and transfers must be signed with.
    pub key: Key,
    /// What time it is, for signatures.
    pub clock: SigningClock,
    /// Whether its zones are its own or copies, and whose.
    pub role: Replication,
    /// Unpredictable ids for the messages to secondaries.
    pub notify_id: Arc<dyn Fn() -> u16 + Send + Sync>,
}

/// Why the server could not be opened.
#[derive(Debug, Error)]
pub enum OpenServerError {
    /// The folder cannot be made or read.
    #[error("zone folder {path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A zone file cannot be used.
    #[error("a zone cannot be loaded")]
    Load {
        /// Why.
        #[source]
        source: Damaged,
    },
}

/// A handle of the server; clones are handles of the same.
#[derive(Clone)]
pub struct BuiltinServer {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    zones: ArcSwap<Zones>,
    /// Held while zones come and go.
    changing: Mutex<()>,
    /// Who is told of changes.
    targets: Vec<NotifyTarget>,
    /// Copies that are to be looked after.
    asked: Pending,
}

type Zones = HashTrieMapSync<Name, Arc<Zone>>;

impl BuiltinServer {
    /// Opens the server with the zones of its folder. It answers once [`Self::serve`] runs.
    ///
    /// # Errors
    /// If the folder or a zone in it cannot be used.
    pub fn open(options: Options) -> Result<Self, OpenServerError> {
        let mut zones = Zones::new_sync();
        if let Some(folder) = &options.folder {
            let problem = |source| OpenServerError::Folder {
                path: folder.clone(),
                source,
            };
            let mut made = fs::DirBuilder::new();
            let made = made.recursive(true).mode(0o700).create(folder);
            made.map_err(problem)?;
            for path in zone_files(folder).map_err(problem)? {
                let Some(zone) = load(&path, &options.role)? else {
                    continue;
                };
                if options.role.primaries().is_some() {
                    zone.confirm((options.clock)());
                }
                zones.insert_mut(zone.name.clone(), Arc::new(zone));
            }
        }
        let targets = options.role.notify().iter();
        let inner = Inner {
            targets: targets.map(|address| NotifyTarget::new(*address)).collect(),
            asked: Pending::default(),
            options,
            zones: ArcSwap::from_pointee(zones),
            changing: Mutex::new(()),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Answers on `sockets` until `stop`.
    ///
    /// # Cancellation
    /// Dropping it closes the sockets; a commit that has begun is completed.
    pub async fn serve(self, sockets: Sockets, stop: CancellationToken) {
        let announcing = announce::run(&self);
        let following = follow::run(&self);
        let serving = sockets::serve(self.clone(), sockets, stop);
        tokio::select! {
            biased;
            () = serving => {}
            () = announcing => {}
            () = following => {}
        }
    }

    /// The names of all zones, sorted.
    #[must_use]
    pub fn zones(&self) -> Vec<Name> {
        let names: BTreeSet<Name> = self.inner.zones.load().keys().cloned().collect();
        names.into_iter().collect()
    }

    /// The zone of this very name.
    fn zone(&self, name: &Name) -> Option<Arc<Zone>> {
        self.inner.zones.load().get(name).cloned()
    }

    /// The zone a name lies in: the one with the longest name.
    fn zone_of(&self, name: &Name) -> Option<Arc<Zone>> {
        let zones = self.inner.zones.load();
        name.suffixes()
            .find_map(|suffix| zones.get(suffix).cloned())
    }

    fn now(&self) -> Time48 {
        Time48::from_u64(self.seconds())
    }

    /// Seconds since 1970.
    fn seconds(&self) -> u64 {
        (self.inner.options.clock)()
    }

    /// Where zones are copied from; `None` if they are not.
    fn primaries(&self) -> Option<&[SocketAddr]> {
        self.inner.options.role.primaries()
    }

    fn signing_key(&self) -> Arc<tsig::Key> {
        self.inner.options.key.signing()
    }

    /// Has secondaries told that a zone changed.
    fn announce(&self, zone: &Name) {
        for target in &self.inner.targets {
            target.changed.add(zone);
        }
    }

    fn path_of(&self, zone: &Name) -> Option<PathBuf> {
        self.inner
            .options
            .folder
            .as_ref()
            .map(|folder| folder.join(zone_file_name(zone)))
    }

    async fn write_zone(&self, zone: &Name, records: &[Record]) -> Result<(), Fault> {
        let _changing = self.inner.changing.lock().await;
        if self.zone(zone).is_some() {
            return Ok(());
        }
        let content = if self.primaries().is_some() {
            // It comes from the primaries; until then the zone answers that it cannot serve.
            Content::new(zone.clone())
        } else {
            content_of(zone, records).ok_or_else(|| {
                Fault::new(
                    FaultKind::Malformed,
                    format!("zone {zone} cannot be created without an SOA record of its own"),
                )
            })?
        };
        let created = match self.path_of(zone) {
            None => Zone::new(content, History::new(), None),
            Some(path) => {
                let create = move || {
                    Journal::create(&path, &content)
                        .map(|journal| Zone::new(content, History::new(), Some(journal)))
                };
                tokio::task::spawn_blocking(create)
                    .await
                    .map_err(io::Error::other)
                    .flatten()
                    .map_err(|error| disk_fault(zone, "created", &error))?
            }
        };
        let zones = self.inner.zones.load_full();
        self.inner
            .zones
            .store(Arc::new(zones.insert(zone.clone(), Arc::new(created))));
        self.announce(zone);
        self.inner.asked.add(zone);
        Ok(())
    }

    async fn delete_zone(&self, zone: &Name) -> Result<(), Fault> {
        let _changing = self.inner.changing.lock().await;
        let Some(served) = self.zone(zone) else {
            return Ok(());
        };
        served
            .delete()
            .await
            .map_err(|error| disk_fault(zone, "deleted", &error))?;
        let zones = self.inner.zones.load_full();
        self.inner.zones.store(Arc::new(zones.remove(zone)));
        Ok(())
    }
}

impl ZoneHost for BuiltinServer {
    fn create<'a>(
        &'a self,
        zone: &'a Name,
        records: &'a [Record],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.write_zone(zone, records))
    }

    fn refresh<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        self.inner.asked.add(zone);
        Box::pin(std::future::ready(Ok(())))
    }

    fn delete<'a>(&'a self, zone: &'a Name) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.delete_zone(zone))
    }
}

fn disk_fault(zone: &Name, what: &str, error: &io::Error) -> Fault {
    let message = format!("zone {zone} could not be {what} in the data folder: {error}");
    Fault::new(FaultKind::ServerFailed, message).with_code(rcode::SERVFAIL)
}

/// The content of a new zone; nothing if it has no SOA at its apex or a record outside.
fn content_of(zone: &Name, records: &[Record]) -> Option<Content> {
    let mut sets = BTreeMap::new();
    for record in records {
        let (_, data) = sets
            .entry(record.key())
            .or_insert_with(|| (record.ttl, Vec::new()));
        data.push(record.data.clone());
    }
    let mut content = Content::new(zone.clone());
    for (key, (ttl, data)) in sets {
        if !key.name.is_in(zone) {
            return None;
        }
        content.put(
            &key.name,
            key.rtype,
            Some(Arc::new(RecordSet::new(ttl, data))),
        );
    }
    content.soa()?;
    Some(content)
}

/// The zone in a file. One that is damaged is put aside, and what of it can be read is served; its owner
/// brings it up to date, or makes it anew.
fn load(path: &Path, role: &Replication) -> Result<Option<Zone>, OpenServerError> {
    let damage = match Journal::open(path) {
        Ok((_, content, _)) if role.primaries().is_none() && content.soa().is_none() => {
            Damaged::Empty {
                path: path.to_owned(),
            }
        }
        Ok((journal, content, history)) => {
            return Ok(Some(Zone::new(content, history, Some(journal))));
        }
        Err(source @ Damaged::Version { .. }) => return Err(OpenServerError::Load { source }),
        Err(damage) => damage,
    };
    let io = |source| OpenServerError::Load {
        source: Damaged::Io {
            path: path.to_owned(),
            source,
        },
    };
    let kept = put_aside(path.parent().unwrap_or(path), path).map_err(io)?;
    tracing::error!(%damage, kept = %kept.display(), "a zone file is put aside");
    let Some(content) = Journal::readable(&kept) else {
        return Ok(None);
    };
    let journal = Journal::create(path, &content).map_err(io)?;
    Ok(Some(Zone::new(content, History::new(), Some(journal))))
}

fn zone_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("zone") => files.push(path),
            // Left by a crash before it got its name; nobody was told of it.
            Some("new") => fs::remove_file(path)?,
            Some(_) | None => {}
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;

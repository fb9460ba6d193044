//! The store's folder: its lock, its format and the database that a committer thread writes.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{Change, Durable, ObjectId, Shared, Stored, Write, read_back};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
const VERSION: &str = "resourceVersion";
/// The format this version of Bindery writes.
const FORMAT: u64 = 1;
/// What redb may cache; the objects are in memory anyway.
const CACHE_BYTES: usize = 16 << 20;

/// Why the data folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Open {
    /// The folder cannot be made or is not ours.
    #[error("cannot use the data folder {}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has the folder.
    #[error(
        "the data folder {} is in use by another Bindery; stop it or choose another --data-dir",
        .folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder was written by a newer version.
    #[error(
        "the data folder {} has format {found}, this Bindery knows up to {FORMAT}; \
         use the newer Bindery that wrote it or another --data-dir",
        .folder.display()
    )]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// The format found.
        found: u64,
    },
    /// The format file holds something else.
    #[error("the data folder {} was not written by Bindery: its file `format` says {found:?}", .folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What the file says.
        found: String,
    },
    /// The database cannot be read.
    #[error("cannot read the database {}", .file.display())]
    Database {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// An object in the database is not JSON.
    #[error("cannot read the stored object {key:?}")]
    Object {
        /// Its key.
        key: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The committer thread cannot be started.
    #[error("cannot start the thread that writes the database")]
    Thread {
        /// Why.
        #[source]
        source: io::Error,
    },
}

pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) lock: File,
    pub(super) objects: Vec<Arc<Stored>>,
    pub(super) version: u64,
}

/// The thread that makes writes durable, all that wait in one transaction.
pub(super) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Takes the lock of `folder` and reads everything in it.
pub(super) fn open(folder: &Path) -> Result<Opened, Open> {
    let lock = lock(folder)?;
    check_format(folder)?;
    let file = folder.join("objects.redb");
    let fault = |source: redb::Error| Open::Database {
        file: file.clone(),
        source: Box::new(source),
    };
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create(&file)
        .map_err(|source| fault(source.into()))?;
    prepare(&database).map_err(fault)?;
    let mut objects = Vec::new();
    let mut version = 0;
    for (key, bytes) in read_all(&database, &mut version).map_err(fault)? {
        let stored = object_id(&key)
            .ok_or_else(|| serde::de::Error::custom("its key has the wrong form"))
            .and_then(|id| read_back(id, bytes))
            .map_err(|source| Open::Object { key, source })?;
        objects.push(Arc::new(stored));
    }
    Ok(Opened {
        database,
        lock,
        objects,
        version,
    })
}

impl Committer {
    pub(super) fn start(database: Database, lock: File, shared: Arc<Shared>) -> Result<Self, Open> {
        let inner = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("api-committer".to_owned())
            .spawn(move || {
                let _ending = Ending(&inner);
                commit_until_stopped(&database, &inner);
                drop(database);
                drop(lock);
            })
            .map_err(|source| Open::Thread { source })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

/// However the committer ends, nobody waits for it any longer.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.durable.send_modify(|durable| durable.broken = true);
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the committer was printed when it happened; nothing is left to save.
            let _ended = thread.join();
        }
    }
}

/// A transaction of so many writes means a crowd; the next one waits for more of them.
const CROWD: usize = 8;
/// How long it waits. A transaction costs about a millisecond of processor and disk, however many
/// writes share it.
const GATHERING: Duration = Duration::from_millis(2);

/// While one transaction is written the next one gathers, so a lone writer waits for no timer and many
/// writers share one fsync.
fn commit_until_stopped(database: &Database, shared: &Shared) {
    let mut crowded = false;
    loop {
        if crowded {
            thread::sleep(GATHERING);
        }
        let batch = {
            let mut state = shared.lock();
            while state.pending.is_empty() && !state.stopping {
                state = shared
                    .work
                    .wait(state)
                    .expect("nothing panics while it holds the store");
            }
            if state.pending.is_empty() {
                return;
            }
            std::mem::take(&mut state.pending)
        };
        crowded = batch.len() >= CROWD;
        if let Err(error) = write_batch(database, &batch) {
            tracing::error!(%error, "the database refused a write; no more writes are accepted");
            return;
        }
        shared.commits.fetch_add(1, Ordering::Relaxed);
        let mut changed = Vec::new();
        let version = {
            let mut state = shared.lock();
            for write in batch {
                shared.publish(&mut state, write, &mut changed);
            }
            state.visible
        };
        shared.durable.send_replace(Durable {
            version,
            broken: false,
        });
        for changed in changed {
            changed.send_replace(());
        }
    }
}

fn write_batch(database: &Database, batch: &[Write]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for write in batch {
            let key = object_key(&write.after.id);
            match write.change {
                Change::Deleted => objects.remove(key.as_str())?,
                Change::Created | Change::Updated => {
                    objects.insert(key.as_str(), &*write.after.bytes)?
                }
            };
        }
        let last = batch.last().map_or(0, |write| write.after.version);
        transaction.open_table(COUNTERS)?.insert(VERSION, last)?;
    }
    transaction.commit()?;
    Ok(())
}

fn lock(folder: &Path) -> Result<File, Open> {
    let fault = |source| Open::Folder {
        folder: folder.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(fault)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(fault)?;
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("lock"))
        .map_err(fault)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Open::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(fault(source)),
    }
}

fn check_format(folder: &Path) -> Result<(), Open> {
    let fault = |source| Open::Folder {
        folder: folder.to_owned(),
        source,
    };
    let path = folder.join("format");
    match fs::read_to_string(&path) {
        Ok(found) => match found.trim().parse::<u64>() {
            Ok(format) if format <= FORMAT => Ok(()),
            Ok(found) => Err(Open::Newer {
                folder: folder.to_owned(),
                found,
            }),
            Err(_) => Err(Open::Foreign {
                folder: folder.to_owned(),
                found,
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let write = || {
                let scratch = folder.join("format.new");
                let mut file = File::create(&scratch)?;
                writeln!(file, "{FORMAT}")?;
                file.sync_all()?;
                fs::rename(&scratch, &path)?;
                File::open(folder)?.sync_all()
            };
            write().map_err(fault)
        }
        Err(source) => Err(fault(source)),
    }
}

fn prepare(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    Ok(())
}

fn read_all(database: &Database, version: &mut u64) -> Result<Vec<(String, Bytes)>, redb::Error> {
    let transaction = database.begin_read()?;
    *version = transaction
        .open_table(COUNTERS)?
        .get(VERSION)?
        .map_or(0, |guard| guard.value());
    let mut objects = Vec::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, bytes) = entry?;
        objects.push((
            key.value().to_owned(),
            Bytes::copy_from_slice(bytes.value()),
        ));
    }
    Ok(objects)
}

/// No part of an identity can hold a slash: they are DNS names and path segments.
fn object_key(id: &ObjectId) -> String {
    format!("{}/{}/{}", id.resource, id.namespace, id.name)
}

fn object_id(key: &str) -> Option<ObjectId> {
    let mut parts = key.splitn(3, '/').map(Arc::from);
    Some(ObjectId {
        resource: parts.next()?,
        namespace: parts.next()?,
        name: parts.next()?,
    })
}

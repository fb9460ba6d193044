//! The store's folder: its lock, its format and its database.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{Change, ObjectId, Refused, State, Stored, Write};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// The texts that packed objects are told apart from, by number, with their resources.
const BASES: TableDefinition<'_, u32, (&str, &[u8])> = TableDefinition::new("bases");
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// The name of the database's file.
const DATABASE: &str = "objects.redb";
const VERSION: &str = "resourceVersion";
/// The format this version of Bindery writes. In format 1 no object was packed.
const FORMAT: u64 = 2;
/// What redb may cache; the objects are in memory anyway.
const CACHE_BYTES: usize = 16 << 20;

/// Why the data folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
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
    /// An object in the database is damaged.
    #[error(
        "the object {key} in the database {} is damaged; restore the file from a backup, or move it \
         away and apply your objects again",
        .file.display()
    )]
    Object {
        /// The file.
        file: PathBuf,
        /// The object's key.
        key: String,
    },
    /// The committer thread cannot be started.
    #[error("cannot start the thread that writes the database")]
    Thread {
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What stands in a folder that was opened.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) lock: File,
    pub(super) version: u64,
}

/// The disk as the committer needs it; tests have one that fills up.
pub(super) trait Disk: Send {
    /// The data folder.
    fn folder(&self) -> &Path;
    /// Opens the database, making it where there is none.
    fn open(&self) -> Result<Database, redb::Error>;
    /// Whether `len` bytes can be written.
    fn check_room(&self, len: usize) -> io::Result<()>;

    /// What a writer is told after `error`.
    fn refusal(&self, error: &redb::Error) -> Refused {
        let (is_full, why) = if let redb::Error::Io(error) = error {
            (is_full(error), error.to_string())
        } else {
            (false, error.to_string())
        };
        let folder = self.folder().display();
        let advice = if is_full {
            "make room on its disk"
        } else {
            "see to its disk"
        };
        let message = format!(
            "the data folder {folder} cannot be written ({why}), so nothing was changed; {advice}, \
             then writes are accepted again without a restart"
        );
        Refused {
            is_full,
            message: message.into(),
        }
    }
}

/// The disk that holds a folder.
pub(super) struct Folder(pub(super) PathBuf);

impl Disk for Folder {
    fn folder(&self) -> &Path {
        &self.0
    }

    fn open(&self) -> Result<Database, redb::Error> {
        let file = private()
            .read(true)
            .truncate(false)
            .open(self.0.join(DATABASE))?;
        // One that an older Bindery made can be read by whoever reaches the folder.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        let mut builder = Database::builder();
        Ok(builder.set_cache_size(CACHE_BYTES).create_file(file)?)
    }

    fn check_room(&self, len: usize) -> io::Result<()> {
        let path = self.0.join("room.new");
        let written = private()
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&vec![1; len]).and_then(|()| file.sync_all()));
        fs::remove_file(&path).and(written)
    }
}

/// Takes the lock of the folder and reads everything in it into `state`, one object at a time: nothing is
/// held twice.
pub(super) fn open(disk: &dyn Disk, state: &mut State) -> Result<Opened, OpenError> {
    let folder = disk.folder();
    let lock = lock(folder)?;
    check_format(folder)?;
    let fault = |source: redb::Error| OpenError::Database {
        file: folder.join(DATABASE),
        source: Box::new(source),
    };
    let database = disk.open().map_err(fault)?;
    prepare(&database).map_err(fault)?;
    let version = version(&database).map_err(fault)?;
    if let Some(key) = read_all(&database, state).map_err(fault)? {
        let file = folder.join(DATABASE);
        return Err(OpenError::Object { file, key });
    }
    Ok(Opened {
        database,
        lock,
        version,
    })
}

/// Writes what `batch` did.
pub(super) fn write_batch(database: &Database, batch: &[Write]) -> Result<(), redb::Error> {
    let states = batch.iter().map(|write| match write.change {
        Change::Deleted => (&*write.after.id, None),
        Change::Created | Change::Updated => (&*write.after.id, Some(&write.after)),
    });
    write_states(database, states, last_version(batch))
}

/// Writes what was there before `batch`. Its versions stay used.
pub(super) fn write_undo(database: &Database, batch: &[Write]) -> Result<(), redb::Error> {
    let states = batch
        .iter()
        .rev()
        .map(|write| (&*write.after.id, write.before.as_ref()));
    write_states(database, states, last_version(batch))
}

/// The last resourceVersion in the database.
pub(super) fn version(database: &Database) -> Result<u64, redb::Error> {
    let counters = database.begin_read()?.open_table(COUNTERS)?;
    Ok(counters.get(VERSION)?.map_or(0, |guard| guard.value()))
}

fn last_version(batch: &[Write]) -> u64 {
    batch.last().map_or(0, |write| write.after.version)
}

fn write_states<'a>(
    database: &Database,
    states: impl Iterator<Item = (&'a ObjectId, Option<&'a Arc<Stored>>)>,
    version: u64,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    let mut new_bases = Vec::new();
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for (id, state) in states {
            let key = object_key(id);
            match state {
                None => objects.remove(key.as_str())?,
                Some(stored) => {
                    new_bases.extend(stored.packed.new_base());
                    objects.insert(key.as_str(), &*stored.packed.to_disk())?
                }
            };
        }
        if !new_bases.is_empty() {
            let mut bases = transaction.open_table(BASES)?;
            for base in &new_bases {
                bases.insert(base.number, (&*base.resource, &*base.text))?;
            }
        }
        transaction.open_table(COUNTERS)?.insert(VERSION, version)?;
    }
    transaction.commit()?;
    for base in new_bases {
        base.keep();
    }
    Ok(())
}

/// Whether there is no room, or not for us.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A file to be written that nobody else can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let fault = |source| OpenError::Folder {
        folder: folder.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(fault)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(fault)?;
    let file = private()
        .truncate(false)
        .open(folder.join("lock"))
        .map_err(fault)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(fault(source)),
    }
}

fn check_format(folder: &Path) -> Result<(), OpenError> {
    let fault = |source| OpenError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let path = folder.join("format");
    match fs::read_to_string(&path) {
        Ok(found) => match found.trim().parse::<u64>() {
            Ok(FORMAT) => Ok(()),
            Ok(format) if format < FORMAT => write_format(folder).map_err(fault),
            Ok(found) => Err(OpenError::Newer {
                folder: folder.to_owned(),
                found,
            }),
            Err(_) => Err(OpenError::Foreign {
                folder: folder.to_owned(),
                found,
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            write_format(folder).map_err(fault)
        }
        Err(source) => Err(fault(source)),
    }
}

/// From here on an older Bindery refuses the folder.
fn write_format(folder: &Path) -> io::Result<()> {
    let scratch = folder.join("format.new");
    let mut file = private().truncate(true).open(&scratch)?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&scratch, folder.join("format"))?;
    File::open(folder)?.sync_all()
}

/// Makes the tables of a new database. One that has them is not written, so that a full disk does not
/// keep it from being read.
fn prepare(database: &Database) -> Result<(), redb::Error> {
    let reading = database.begin_read()?;
    if reading.open_table(OBJECTS).is_ok()
        && reading.open_table(BASES).is_ok()
        && reading.open_table(COUNTERS).is_ok()
    {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(BASES)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    Ok(())
}

/// Reads all objects; returns the key of one that is damaged.
fn read_all(database: &Database, state: &mut State) -> Result<Option<String>, redb::Error> {
    let reading = database.begin_read()?;
    for entry in reading.open_table(BASES)?.iter()? {
        let (number, base) = entry?;
        let (resource, text) = base.value();
        state.bases.insert(number.value(), resource, text);
    }
    for entry in reading.open_table(OBJECTS)?.iter()? {
        let (key, bytes) = entry?;
        let key = key.value();
        let loaded = object_id(key).and_then(|id| state.load(&id, bytes.value()));
        if loaded.is_none() {
            return Ok(Some(key.to_owned()));
        }
    }
    Ok(None)
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

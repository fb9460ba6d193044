//! Files that others write while Bindery runs: whether one is still, and what is in it then.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use crate::surroundings;

/// How long a file must not have changed before it is read. Programs that write a file pause for less
/// between two writes, and a change still takes effect within a second.
pub(crate) const SETTLE: Duration = Duration::from_millis(250);
/// How long ago a file must have been written to count as still when Bindery starts. More than
/// [`SETTLE`], since the clock of a file server may differ a little.
const SETTLED_BEFORE: Duration = Duration::from_secs(2);

/// What differs when a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether a file was last touched so long ago that it counts as still at first sight.
pub(crate) fn is_old(metadata: &Metadata) -> bool {
    let touched = metadata.ctime().max(metadata.mtime());
    let now = surroundings::since_1970().as_secs();
    // Whole seconds are cut off on both sides, so one more has to pass.
    u64::try_from(touched).is_ok_and(|touched| touched + SETTLED_BEFORE.as_secs() < now)
}

/// The text of a file that is as `stamp` says; `None` where it is not, or not any longer.
///
/// Limits: it reads one byte more than `len_max`, so that a longer file can be told.
///
/// # Errors
/// If the file cannot be read or is no text.
pub(crate) fn read_text(path: &Path, stamp: Stamp, len_max: u64) -> io::Result<Option<String>> {
    // Should a pipe have taken the place of the file, opening it must not wait for a writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let is_same = |file: &File| io::Result::Ok(Stamp::of(&file.metadata()?) == stamp);
    if !is_same(&file)? {
        return Ok(None);
    }
    let mut text = String::new();
    (&file).take(len_max + 1).read_to_string(&mut text)?;
    Ok(is_same(&file)?.then_some(text))
}

/// The message without the number of the error.
pub(crate) fn plain(error: &io::Error) -> String {
    let known = [
        (io::ErrorKind::NotFound, "there is no such file or folder"),
        (io::ErrorKind::NotADirectory, "it is not a folder"),
        (io::ErrorKind::PermissionDenied, "permission denied"),
        (io::ErrorKind::InvalidData, "it is not UTF-8 text"),
    ];
    let found = known.iter().find(|(kind, _)| *kind == error.kind());
    found.map_or_else(|| error.to_string(), |(_, text)| (*text).to_owned())
}

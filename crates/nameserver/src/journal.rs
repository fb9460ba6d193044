//! A zone on disk: one file of checksummed commits, each on the disk before it is acknowledged.
//!
//! ```text
//! file   = magic commit*
//! commit = length:u32 checksum:8 bytes payload     (checksum: SHA-256 of the payload, cut)
//! payload= apex:name count:u32 change*
//! change = owner:name type:u16 ttl:u32 records:u32 (length:u16 data)*    (no record: no set)
//! ```
//!
//! A commit holds whole sets, so applying it twice does no harm. The first commit is the zone as
//! it was when the file was written; when the rest outgrows it, the file is written anew.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bindery_core::{Name, RecordData, RecordSet, RecordType};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::content::Content;
use super::history::{CommitDiff, History};

/// First bytes of each file; the digit is the version of the format.
const MAGIC: &[u8; 16] = b"bindery-zone 1\n\0";

/// Where the version stands in them.
const VERSION_AT: usize = 13;

/// Bytes before a commit's payload.
const FRAME_LEN: usize = 12;

/// The least size at which a file is written anew, so that small zones are not always at it.
const REWRITE_LEN_MIN: u64 = 1 << 20;

/// A zone file that cannot be used.
#[derive(Debug, Error)]
pub enum Damaged {
    /// It cannot be read or written.
    #[error("zone file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was not written by this version of Bindery.
    #[error(
        "zone file {path} is of another version of Bindery; use that one, or move the file away"
    )]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// It is a copy that never arrived, and the server is no secondary.
    #[error(
        "zone file {path} holds a copy that never arrived, and a primary has nowhere to copy it \
         from; move it away"
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A commit in its middle is broken, which no crash can do.
    #[error("zone file {path} is damaged at byte {at}; restore it from a backup, or move it away")]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where the broken commit starts.
        at: u64,
    },
}

/// One set as a commit writes it; `None` where it goes.
pub(super) type SetChange<'a> = (&'a Name, RecordType, Option<&'a Arc<RecordSet>>);

/// An open zone file, at its end.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    len: u64,
    base_len: u64,
    /// Behind `len` stands a part of a commit that failed.
    is_torn: bool,
}

impl Journal {
    /// Writes a new file that holds `content`, in the place of any that was there.
    pub(super) fn create(path: &Path, content: &Content) -> io::Result<Self> {
        let journal = Self::prepare(path, content)?;
        fs::rename(path.with_extension("new"), path)?;
        sync_parent(path)?;
        Ok(journal)
    }

    /// Writes the file under a temporary name.
    fn prepare(path: &Path, content: &Content) -> io::Result<Self> {
        let changes: Vec<SetChange<'_>> = content
            .sets()
            .map(|(name, rtype, set)| (name, rtype, Some(set)))
            .collect();
        let mut bytes = MAGIC.to_vec();
        frame(content.apex(), &changes, &mut bytes)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path.with_extension("new"))?;
        file.set_permissions(private())?;
        if let Err(error) = file.write_all(&bytes).and_then(|()| file.sync_all()) {
            // A disk that is full gets its room back.
            let _removed = fs::remove_file(path.with_extension("new"));
            return Err(error);
        }
        let len = bytes.len() as u64;
        Ok(Self {
            path: path.to_owned(),
            file,
            len,
            base_len: len,
            is_torn: false,
        })
    }

    /// Reads a file and cuts off a commit that a crash left half-written.
    ///
    /// The content has no SOA if it is that of a copy that has not arrived.
    pub(super) fn open(path: &Path) -> Result<(Self, Content, History), Damaged> {
        let io = |source| Damaged::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io)?;
        // One that an older Bindery made can be read by whoever reaches the folder.
        file.set_permissions(private()).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        check_head(path, &bytes)?;
        let mut content: Option<Content> = None;
        let mut history = History::new();
        let mut at = MAGIC.len();
        let mut base_len = 0;
        while at < bytes.len() {
            let broken = || Damaged::Broken {
                path: path.to_owned(),
                at: at as u64,
            };
            let payload = match unframe(&bytes[at..]) {
                Frame::Whole(payload) => payload,
                Frame::Torn => break,
                Frame::Broken => return Err(broken()),
            };
            let before = content.clone();
            let changed = replay(payload, &mut content).ok_or_else(broken)?;
            history.push(
                before
                    .zip(content.as_ref())
                    .and_then(|(before, after)| CommitDiff::between(&before, after, &changed)),
            );
            at += FRAME_LEN + payload.len();
            if base_len == 0 {
                base_len = at as u64;
            }
        }
        // The first commit was on the disk before the file had its name.
        let Some(content) = content else {
            return Err(Damaged::Broken {
                path: path.to_owned(),
                at: MAGIC.len() as u64,
            });
        };
        let len = at as u64;
        if len < bytes.len() as u64 {
            file.set_len(len).map_err(io)?;
            file.sync_all().map_err(io)?;
        }
        file.seek(SeekFrom::Start(len)).map_err(io)?;
        Ok((
            Self {
                path: path.to_owned(),
                file,
                len,
                base_len,
                is_torn: false,
            },
            content,
            history,
        ))
    }

    /// What can still be read of a file that is broken: the zone as it was before the commit that is.
    pub(super) fn readable(path: &Path) -> Option<Content> {
        let bytes = fs::read(path).ok()?;
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut content: Option<Content> = None;
        while let Frame::Whole(payload) = unframe(rest) {
            let mut next = content.clone();
            if replay(payload, &mut next).is_none() {
                break;
            }
            content = next;
            rest = &rest[FRAME_LEN + payload.len()..];
        }
        content.filter(|content| content.soa().is_some())
    }

    /// Appends one commit and waits until the disk has it.
    ///
    /// If that fails, the file is as it was before, or the next commit makes it so first.
    pub(super) fn commit(&mut self, apex: &Name, changes: &[SetChange<'_>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame(apex, changes, &mut bytes)?;
        if self.is_torn {
            self.cut()?;
        }
        let written = self
            .file
            .write_all(&bytes)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.is_torn = self.cut().is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Cuts off what a commit that failed has left.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        self.file.seek(SeekFrom::Start(self.len))?;
        self.is_torn = false;
        Ok(())
    }

    /// Writes the file anew if what was appended has outgrown what it began with.
    pub(super) fn rewrite_if_long(&mut self, content: &Content) -> io::Result<()> {
        if self.len < REWRITE_LEN_MIN || self.len / 3 < self.base_len {
            return Ok(());
        }
        let journal = Self::prepare(&self.path, content)?;
        fs::rename(self.path.with_extension("new"), &self.path)?;
        // From here on the old file has no name, so nothing may be appended to it.
        *self = journal;
        sync_parent(&self.path)
    }

    /// Removes the file for good.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        sync_parent(&self.path)
    }
}

/// The mode of a file that nobody else can read.
fn private() -> fs::Permissions {
    fs::Permissions::from_mode(0o600)
}

/// Whether a file is one of ours, of the version that we know.
fn check_head(path: &Path, bytes: &[u8]) -> Result<(), Damaged> {
    let path = path.to_owned();
    if is_of_another_version(bytes) {
        return Err(Damaged::Version { path });
    }
    if !bytes.starts_with(MAGIC) {
        return Err(Damaged::Broken { path, at: 0 });
    }
    Ok(())
}

/// Whether a file begins as ours do, but for the version of the format.
fn is_of_another_version(bytes: &[u8]) -> bool {
    let head = bytes.get(..MAGIC.len()).unwrap_or_default();
    let differs = |(at, (one, other)): (usize, (&u8, &u8))| one != other && at != VERSION_AT;
    let is_like_ours =
        head.len() == MAGIC.len() && !head.iter().zip(MAGIC).enumerate().any(differs);
    is_like_ours && head[VERSION_AT].is_ascii_digit() && head != MAGIC
}

/// Makes a rename or removal durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

enum Frame<'a> {
    Whole(&'a [u8]),
    /// The last write, cut short: it was never acknowledged.
    Torn,
    /// Wrong, and more follows.
    Broken,
}

fn frame(apex: &Name, changes: &[SetChange<'_>], bytes: &mut Vec<u8>) -> io::Result<()> {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; FRAME_LEN]);
    bytes.extend_from_slice(apex.as_wire());
    put_u32(bytes, changes.len())?;
    for (name, rtype, set) in changes {
        bytes.extend_from_slice(name.as_wire());
        bytes.extend_from_slice(&rtype.code().to_be_bytes());
        bytes.extend_from_slice(&set.map_or(0, |set| set.ttl).to_be_bytes());
        let data = set.map_or(&[][..], |set| set.data());
        put_u32(bytes, data.len())?;
        for data in data {
            let rdata = data.to_wire();
            let length = u16::try_from(rdata.len()).map_err(|_| too_long())?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&rdata);
        }
    }
    let (head, payload) = bytes[start..].split_at_mut(FRAME_LEN);
    let length = u32::try_from(payload.len()).map_err(|_| too_long())?;
    head[..4].copy_from_slice(&length.to_be_bytes());
    head[4..].copy_from_slice(&checksum(payload));
    Ok(())
}

fn unframe(bytes: &[u8]) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_at_checked(FRAME_LEN) else {
        return Frame::Torn;
    };
    let length = head
        .first_chunk::<4>()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let Ok(length) = usize::try_from(length) else {
        return Frame::Torn;
    };
    let Some(payload) = rest.get(..length) else {
        return Frame::Torn;
    };
    if head[4..] == checksum(payload) && !payload.is_empty() {
        return Frame::Whole(payload);
    }
    // A file system may have lengthened the file before the data came: zeros up to the end.
    if rest.len() == length || bytes.iter().all(|byte| *byte == 0) {
        return Frame::Torn;
    }
    Frame::Broken
}

/// Applies a commit and says which sets it names, unless it is the first, which names them all.
fn replay(
    mut payload: &[u8],
    content: &mut Option<Content>,
) -> Option<BTreeSet<(Name, RecordType)>> {
    let apex = take_name(&mut payload)?;
    let is_first = content.is_none();
    let content = content.get_or_insert_with(|| Content::new(apex.clone()));
    if *content.apex() != apex {
        return None;
    }
    let mut changed = BTreeSet::new();
    for _ in 0..take_u32(&mut payload)? {
        let name = take_name(&mut payload)?;
        let rtype = RecordType::from_code(u16::from_be_bytes(take(&mut payload)?));
        let ttl = take_u32(&mut payload)?;
        let count = take_u32(&mut payload)?;
        let mut data = Vec::new();
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes(take(&mut payload)?));
            let (rdata, rest) = payload.split_at_checked(length)?;
            payload = rest;
            data.push(RecordData::from_wire(rtype.code(), rdata).ok()?);
        }
        let set = (count > 0).then(|| Arc::new(RecordSet::new(ttl, data)));
        content.put(&name, rtype, set);
        if !is_first {
            changed.insert((name, rtype));
        }
    }
    payload.is_empty().then_some(changed)
}

fn checksum(payload: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(payload);
    let mut cut = [0; 8];
    cut.copy_from_slice(&digest[..8]);
    cut
}

fn put_u32(bytes: &mut Vec<u8>, number: usize) -> io::Result<()> {
    let number = u32::try_from(number).map_err(|_| too_long())?;
    bytes.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the commit is too long")
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_be_bytes)
}

fn take_name(bytes: &mut &[u8]) -> Option<Name> {
    let (name, rest) = Name::read_wire(bytes).ok()?;
    *bytes = rest;
    Some(name)
}

#[cfg(test)]
mod tests;

//! Notices that something in the folder changed, and who is still writing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Editors save in several steps; this long nothing may happen before the folder is read.
const QUIET: Duration = Duration::from_millis(60);
/// A folder that never comes to rest is read nevertheless.
const UNREST_MAX: Duration = Duration::from_millis(300);
/// How often the folder is read even if nothing was noticed: links that lead to other folders and
/// network file systems tell nothing.
const RESCAN: Duration = Duration::from_secs(2);
/// The same where the system does not tell at all.
const RESCAN_BLIND: Duration = Duration::from_millis(500);

/// How long a file that was written and not closed counts as being written. A program that makes a file
/// step by step may think for a while; one that keeps it open for good must not hold it up for good.
const WRITING_MAX: Duration = Duration::from_secs(10);
/// Files that may be noted as being written. More than that are not read one by one by hand.
const WRITING_LEN_MAX: usize = 10_000;

/// Notices changes of one folder, also after it was gone and came back.
pub(crate) struct Changes {
    root: PathBuf,
    depth: RecursiveMode,
    woken: Arc<Notify>,
    writing: Writing,
    watcher: Option<Watched>,
    complained: bool,
}

/// Files that were written and not closed, with the time of the last write.
type Writing = Arc<Mutex<BTreeMap<PathBuf, Instant>>>;

struct Watched {
    /// Device and inode of the folder that is watched.
    place: (u64, u64),
    _watcher: RecommendedWatcher,
}

impl Changes {
    /// Changes of `root` and of all folders below; call [`Changes::refresh`] before each reading of it.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self::of(root, RecursiveMode::Recursive)
    }

    /// The same without the folders below.
    pub(crate) fn flat(root: PathBuf) -> Self {
        Self::of(root, RecursiveMode::NonRecursive)
    }

    fn of(root: PathBuf, depth: RecursiveMode) -> Self {
        Self {
            root,
            depth,
            woken: Arc::new(Notify::new()),
            writing: Writing::default(),
            watcher: None,
            complained: false,
        }
    }

    /// Watches the folder that is there now.
    pub(crate) fn refresh(&mut self) {
        let place = fs::metadata(&self.root)
            .ok()
            .map(|found| (found.dev(), found.ino()));
        if self.watcher.as_ref().map(|watched| watched.place) == place {
            return;
        }
        self.watcher = place.and_then(|place| {
            let root = self.root.canonicalize().ok()?;
            let (woken, writing) = (Arc::clone(&self.woken), Arc::clone(&self.writing));
            let depth = self.depth;
            let tell = move |event: notify::Result<notify::Event>| {
                note_writing(&writing, &event);
                if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                    woken.notify_one();
                }
            };
            let made = notify::recommended_watcher(tell).and_then(|mut watcher| {
                watcher.watch(&root, depth)?;
                Ok(watcher)
            });
            match made {
                Ok(watcher) => Some(Watched {
                    place,
                    _watcher: watcher,
                }),
                Err(error) => {
                    if !self.complained {
                        tracing::warn!(%error, "the folder cannot be watched; it is read often");
                    }
                    self.complained = true;
                    None
                }
            }
        });
    }

    /// The files that somebody is writing now, as far as that was noticed.
    pub(crate) fn writing(&self) -> BTreeSet<PathBuf> {
        let now = Instant::now();
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.retain(|_, at| *at + WRITING_MAX > now);
        writing.keys().cloned().collect()
    }

    /// Waits until something changed and came to rest, until it is time to look anyway, or until
    /// `at`.
    pub(crate) async fn next(&self, at: Option<Instant>) {
        let rescan = if self.watcher.is_some() {
            RESCAN
        } else {
            RESCAN_BLIND
        };
        let latest = Instant::now() + rescan;
        let wake = at.map_or(latest, |at| at.min(latest));
        if tokio::time::timeout_at(wake, self.woken.notified())
            .await
            .is_err()
        {
            return;
        }
        let end = Instant::now() + UNREST_MAX;
        while Instant::now() < end && timeout(QUIET, self.woken.notified()).await.is_ok() {}
    }
}

/// Notes who began to write and who is done. Where the system lost count, nobody is known to write.
fn note_writing(writing: &Writing, event: &notify::Result<notify::Event>) {
    let mut writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(event) = event.as_ref().ok().filter(|event| !event.need_rescan()) else {
        writing.clear();
        return;
    };
    let is_written = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
    let is_done = event.kind == EventKind::Access(AccessKind::Close(AccessMode::Write));
    let is_moved = matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
    for path in &event.paths {
        if is_written && writing.len() < WRITING_LEN_MAX {
            writing.insert(path.clone(), Instant::now());
        } else if is_done || is_moved || event.kind.is_remove() {
            writing.remove(path);
        }
    }
}

/// Whether something was written; that somebody looked is no change.
fn is_change(kind: EventKind) -> bool {
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    kind == written || !kind.is_access()
}

#[cfg(test)]
mod tests {
    use notify::event::{DataChange, RemoveKind};

    use super::*;

    fn check(kinds: &[EventKind]) -> usize {
        let writing = Writing::default();
        for kind in kinds {
            let event = notify::Event::new(*kind).add_path("/zones/a.yaml".into());
            note_writing(&writing, &Ok(event));
        }
        writing.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    #[test]
    fn a_file_is_being_written_until_it_is_closed_or_gone() {
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let looked = EventKind::Access(AccessKind::Close(AccessMode::Read));
        assert_eq!(check(&[written, looked, written]), 1);
        assert_eq!(check(&[written, closed]), 0);
        assert_eq!(check(&[written, EventKind::Remove(RemoveKind::File)]), 0);
        assert_eq!(check(&[looked]), 0);
    }
}

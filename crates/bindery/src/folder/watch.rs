//! Notices that something in the folder changed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
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

/// Notices changes of one folder, also after it was gone and came back.
pub(crate) struct Changes {
    root: PathBuf,
    woken: Arc<Notify>,
    watcher: Option<Watched>,
    complained: bool,
}

struct Watched {
    /// Device and inode of the folder that is watched.
    place: (u64, u64),
    _watcher: RecommendedWatcher,
}

impl Changes {
    /// Changes of `root`; call [`Changes::refresh`] before each reading of it.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            woken: Arc::new(Notify::new()),
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
            let woken = Arc::clone(&self.woken);
            let tell = move |event: notify::Result<notify::Event>| {
                if event.as_ref().map_or(true, |event| is_change(event.kind)) {
                    woken.notify_one();
                }
            };
            let made = notify::recommended_watcher(tell).and_then(|mut watcher| {
                watcher.watch(&self.root, RecursiveMode::Recursive)?;
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

/// Whether something was written; that somebody looked is no change.
fn is_change(kind: EventKind) -> bool {
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    kind == written || !kind.is_access()
}

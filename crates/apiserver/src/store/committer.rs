//! The thread that makes writes durable, and what it does when the disk takes none.
//!
//! A transaction that fails may or may not have reached the disk. Its writes are taken back in memory at
//! once and their writers are told; the next ones are refused. When the disk takes a scratch file of
//! enough room, the database is opened again, what the failed transaction may have left in it is
//! undone, and writes are accepted. Readers and watchers see none of it.

use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::Database;

use super::disk::{self, Disk, OpenError};
use super::{Durable, Refused, Shared, Write};

/// The thread that makes writes durable, all that wait in one transaction.
pub(super) struct Committer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A transaction of so many writes means a crowd; the next one waits for more of them.
const CROWD: usize = 8;
/// How long it waits. A transaction costs about a millisecond of processor and disk, however many
/// writes share it.
const GATHERING: Duration = Duration::from_millis(2);
/// How long to wait before a disk that refused a write is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 500 });
/// Room that must be there before writes are accepted again: what a hundred small writes take.
const ROOM_MIN: usize = 256 << 10;
/// The database is a tree whose changed pages are written anew, so a write takes several times its size.
const ROOM_PER_BYTE: usize = 4;

impl Committer {
    pub(super) fn start(
        disk: Box<dyn Disk>,
        database: Database,
        lock: File,
        shared: Arc<Shared>,
    ) -> Result<Self, OpenError> {
        let inner = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("api-committer".to_owned())
            .spawn(move || {
                let _ending = Ending(&inner);
                commit_until_stopped(&*disk, database, &inner);
                drop(lock);
            })
            .map_err(|source| OpenError::Thread { source })?;
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
        self.0.durable.send_modify(|durable| durable.ended = true);
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

/// While one transaction is written the next one gathers, so a lone writer waits for no timer and many
/// writers share one fsync.
fn commit_until_stopped(disk: &dyn Disk, mut database: Database, shared: &Shared) {
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
        match disk::write_batch(&database, &batch) {
            Ok(()) => publish(shared, batch),
            Err(error) => {
                // Its cache is no longer what the file holds.
                drop(database);
                let Some(opened) = recover(disk, shared, &batch, &error) else {
                    return;
                };
                database = opened;
            }
        }
    }
}

fn publish(shared: &Shared, batch: Vec<Write>) {
    shared.commits.fetch_add(1, Ordering::Relaxed);
    let mut changed = Vec::new();
    let version = {
        let mut state = shared.lock();
        for write in batch {
            shared.publish(&mut state, write, &mut changed);
        }
        state.visible
    };
    shared
        .durable
        .send_modify(|durable| durable.version = version);
    for changed in changed {
        changed.ring();
    }
}

/// Takes back what could not be written and refuses further writes until the disk takes some again.
/// `None` if the store is closed meanwhile.
fn recover(
    disk: &dyn Disk,
    shared: &Shared,
    batch: &[Write],
    error: &redb::Error,
) -> Option<Database> {
    let refused = disk.refusal(error);
    let folder = disk.folder().display();
    tracing::error!(%folder, %error, "the data folder cannot be written; writes are refused");
    take_back(shared, batch, &refused);
    let bytes: usize = batch.iter().map(|write| write.after.packed.len()).sum();
    let room = ROOM_MIN.max(bytes * ROOM_PER_BYTE);
    loop {
        let opened = disk
            .check_room(room)
            .map_err(|error| error.to_string())
            .and_then(|()| undone(disk, batch).map_err(|error| error.to_string()));
        match opened {
            Ok(database) => {
                shared.lock().refused = None;
                tracing::warn!("the data folder can be written again; writes are accepted");
                return Some(database);
            }
            Err(error) => tracing::debug!(%error, "the disk takes no writes yet"),
        }
        let state = shared.lock();
        let (state, _) = shared
            .work
            .wait_timeout_while(state, TRY_AGAIN, |state| !state.stopping)
            .expect("nothing panics while it holds the store");
        if state.stopping {
            return None;
        }
    }
}

/// Opens the database again; what the failed transaction left in it is undone. That it can be read does
/// not mean that it is on the disk, so the writers were told that it failed.
fn undone(disk: &dyn Disk, batch: &[Write]) -> Result<Database, redb::Error> {
    let database = disk.open()?;
    let first = batch.first().map_or(u64::MAX, |write| write.after.version);
    if disk::version(&database)? >= first {
        disk::write_undo(&database, batch)?;
    }
    Ok(database)
}

/// Memory is as it was before `batch` and whatever was staged after it.
fn take_back(shared: &Shared, batch: &[Write], refused: &Refused) {
    let mut state = shared.lock();
    let later = std::mem::take(&mut state.pending);
    let first = batch
        .first()
        .map_or(state.assigned, |write| write.after.version);
    for write in batch.iter().chain(&later).rev() {
        state.take_back(write);
    }
    state.refused = Some(refused.clone());
    let last = state.assigned;
    drop(state);
    shared
        .durable
        .send_modify(|durable| durable.lose(first, last, refused));
}

impl Durable {
    /// Notes that the versions from `first` to `last` will never be.
    pub(super) fn lose(&mut self, first: u64, last: u64, refused: &Refused) {
        self.forgotten = self.lost.1;
        self.lost = (first, last);
        self.why = Some(refused.clone());
    }
}

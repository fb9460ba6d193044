//! One served zone: a snapshot for readers, a lock for the writer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use bindery_core::{Name, Serial};
use bindery_dns::wire::{WireRecord, rcode};
use tokio::sync::Mutex;

use super::content::Content;
use super::copy::{self, PrimaryAnswer};
use super::history::{CommitDiff, History};
use super::journal::{Journal, SetChange};
use super::update::{self, Refusal};

/// See the module.
pub(super) struct Zone {
    pub(super) name: Name,
    snapshot: ArcSwap<Snapshot>,
    writer: Arc<Mutex<Writer>>,
    /// When a copy is too old to be served, in seconds since 1970; what is no copy never is.
    expires: AtomicU64,
}

/// A zone at one moment, with the way it came.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) content: Arc<Content>,
    pub(super) history: History,
}

/// Where commits go.
struct Writer {
    /// None where nothing is kept on disk.
    journal: Option<Journal>,
    deleted: bool,
}

/// What became of an update that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateOutcome {
    /// The zone has a new serial.
    Changed,
    /// All was as the update wanted it already.
    Unchanged,
}

/// What became of a primary's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// The copy is newer now.
    Changed,
    /// They were none.
    Unchanged,
    /// They begin with a serial that the copy no longer has.
    Moved,
    /// They change what the copy does not have; only the whole zone helps.
    Diverged,
}

impl Zone {
    pub(super) fn new(content: Content, history: History, journal: Option<Journal>) -> Self {
        Self {
            name: content.apex().clone(),
            snapshot: ArcSwap::from_pointee(Snapshot {
                content: Arc::new(content),
                history,
            }),
            expires: AtomicU64::new(u64::MAX),
            writer: Arc::new(Mutex::new(Writer {
                journal,
                deleted: false,
            })),
        }
    }

    /// The zone as it is now; it stays so for whoever holds it.
    pub(super) fn content(&self) -> Arc<Content> {
        Arc::clone(&self.snapshot.load().content)
    }

    /// The zone as it is now, with the way it came.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Whether there is something to answer with: a copy may not have arrived yet, or be too old
    /// (RFC 1035 section 3.3.13).
    pub(super) fn is_served(&self, now: u64) -> bool {
        now < self.expires.load(Ordering::Relaxed) && self.content().soa().is_some()
    }

    /// Notes that a primary confirmed the copy.
    pub(super) fn confirm(&self, now: u64) {
        let expire = self.content().soa().map_or(0, |(soa, _)| soa.expire);
        let expires = now.saturating_add(u64::from(expire));
        self.expires.store(expires, Ordering::Relaxed);
    }

    /// Applies an update if its prerequisites hold, and returns when the disk has it.
    ///
    /// # Cancellation
    /// If dropped before the commit began, nothing happens; afterwards it is completed.
    pub(super) async fn update(
        self: &Arc<Self>,
        prerequisites: Vec<WireRecord>,
        rows: Vec<WireRecord>,
    ) -> Result<UpdateOutcome, Refusal> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        if writer.deleted {
            return Err(rcode::NOTAUTH);
        }
        let before = self.content();
        update::check(&before, &prerequisites)?;
        let data = update::prescan(before.apex(), &rows)?;
        let updated = update::apply(&before, &rows, data);
        if updated.changed.is_empty() {
            return Ok(UpdateOutcome::Unchanged);
        }
        let zone = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            zone.keep(&mut writer, updated)?;
            // The lock is held until the new content is visible.
            drop(writer);
            Ok::<_, io::Error>(())
        });
        match written.await {
            Ok(Ok(())) => Ok(UpdateOutcome::Changed),
            Ok(Err(error)) => {
                tracing::error!(zone = %self.name, %error, "an update could not be kept");
                Err(rcode::SERVFAIL)
            }
            Err(error) => {
                tracing::error!(zone = %self.name, %error, "an update was interrupted");
                Err(rcode::SERVFAIL)
            }
        }
    }

    /// Takes an answer that begins with the serial `base`, and returns when the disk has it.
    ///
    /// # Cancellation
    /// If dropped before the commit began, nothing happens; afterwards it is completed.
    pub(super) async fn adopt(
        self: &Arc<Self>,
        base: Option<Serial>,
        answer: PrimaryAnswer,
    ) -> io::Result<Adopted> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let zone = Arc::clone(self);
        // A whole zone takes its time to be compared, so all of it happens aside.
        tokio::task::spawn_blocking(move || {
            let before = zone.content();
            if writer.deleted || before.serial() != base {
                return Ok(Adopted::Moved);
            }
            let Some(updated) = copy::updated(&before, answer) else {
                return Ok(Adopted::Diverged);
            };
            if updated.changed.is_empty() {
                return Ok(Adopted::Unchanged);
            }
            zone.keep(&mut writer, updated)?;
            Ok(Adopted::Changed)
        })
        .await
        .map_err(io::Error::other)?
    }

    /// Writes a change and shows it.
    fn keep(&self, writer: &mut Writer, updated: update::Updated) -> io::Result<()> {
        writer.commit(&updated)?;
        let before = self.snapshot();
        let mut history = before.history.clone();
        history.push(CommitDiff::between(
            &before.content,
            &updated.content,
            &updated.changed,
        ));
        self.snapshot.store(Arc::new(Snapshot {
            content: Arc::new(updated.content),
            history,
        }));
        Ok(())
    }

    /// Removes the zone's file and lets no update follow.
    pub(super) async fn delete(&self) -> io::Result<()> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        tokio::task::spawn_blocking(move || {
            if let Some(journal) = writer.journal.take() {
                journal.remove()?;
            }
            writer.deleted = true;
            Ok(())
        })
        .await
        .map_err(io::Error::other)?
    }
}

impl Writer {
    fn commit(&mut self, updated: &update::Updated) -> io::Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let content = &updated.content;
        let changes: Vec<SetChange<'_>> = updated
            .changed
            .iter()
            .map(|(name, rtype)| (name, *rtype, content.set(name, *rtype)))
            .collect();
        journal.commit(content.apex(), &changes)?;
        if let Err(error) = journal.rewrite_if_long(content) {
            // The commit itself is safe; the file only stays longer than it need be.
            tracing::warn!(zone = %content.apex(), %error, "the zone file was not shortened");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bindery_core::{Record, RecordSet};

    use super::*;

    #[test]
    fn a_copy_is_served_until_it_was_not_confirmed_for_too_long() {
        let soa = "example.com. 60 IN SOA a.example.com. b.example.com. 1 2 3 40 5";
        let soa: Record = soa.parse().unwrap();
        let mut content = Content::new(soa.name.clone());
        let empty = Zone::new(content.clone(), History::new(), None);
        assert!(!empty.is_served(0));
        let set = RecordSet::new(soa.ttl, [soa.data.clone()]);
        content.put(&soa.name, soa.data.rtype(), Some(Arc::new(set)));
        let zone = Zone::new(content, History::new(), None);
        assert!(zone.is_served(u64::MAX - 1));
        zone.confirm(100);
        assert!(zone.is_served(139));
        assert!(!zone.is_served(140));
        zone.confirm(140);
        assert!(zone.is_served(140));
    }
}

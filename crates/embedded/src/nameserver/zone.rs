//! One served zone: a snapshot for readers, a lock for the writer.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bindery_core::Name;
use bindery_dns::wire::{Row, rcode};
use tokio::sync::Mutex;

use super::content::Content;
use super::journal::{Change, Journal};
use super::update::{self, Refusal};

/// See the module.
pub(super) struct Zone {
    pub(super) name: Name,
    content: ArcSwap<Content>,
    writer: Arc<Mutex<Writer>>,
}

/// Where commits go.
struct Writer {
    /// None where nothing is kept on disk.
    journal: Option<Journal>,
    deleted: bool,
}

/// What became of an update that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The zone has a new serial.
    Changed,
    /// All was as the update wanted it already.
    Unchanged,
}

impl Zone {
    pub(super) fn new(content: Content, journal: Option<Journal>) -> Self {
        Self {
            name: content.apex().clone(),
            content: ArcSwap::from_pointee(content),
            writer: Arc::new(Mutex::new(Writer {
                journal,
                deleted: false,
            })),
        }
    }

    /// The zone as it is now; it stays so for whoever holds it.
    pub(super) fn content(&self) -> Arc<Content> {
        self.content.load_full()
    }

    /// Applies an update if its prerequisites hold, and returns when the disk has it.
    ///
    /// # Cancellation
    /// If dropped before the commit began, nothing happens; afterwards it is completed.
    pub(super) async fn update(
        self: &Arc<Self>,
        prerequisites: Vec<Row>,
        rows: Vec<Row>,
    ) -> Result<Outcome, Refusal> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        if writer.deleted {
            return Err(rcode::NOTAUTH);
        }
        let before = self.content();
        update::check(&before, &prerequisites)?;
        let data = update::prescan(before.apex(), &rows)?;
        let updated = update::apply(&before, &rows, data);
        if updated.changed.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let zone = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            writer.commit(&updated)?;
            zone.content.store(Arc::new(updated.content));
            // The lock is held until the new content is visible.
            drop(writer);
            Ok::<_, io::Error>(())
        });
        match written.await {
            Ok(Ok(())) => Ok(Outcome::Changed),
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
        if !journal.is_sound() {
            return Err(io::Error::other(
                "the zone file could not be repaired; restart Bindery",
            ));
        }
        let content = &updated.content;
        let changes: Vec<Change<'_>> = updated
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

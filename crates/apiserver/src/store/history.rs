//! The recent events of one resource, for watches that resume and for lists of the past.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Expired, Stored};

/// Events kept per resource: a controller that restarts or falls behind for a minute at 150 writes a
/// second still resumes; beyond that a fresh list is cheaper than the replay.
const EVENTS_LEN_MAX: usize = if cfg!(test) { 500 } else { 10_000 };
/// Bytes kept per resource, as they are packed, so that large objects cannot fill the memory with old versions.
const EVENTS_BYTES_MAX: usize = 32 << 20;

/// What an event did to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Created,
    Updated,
    Deleted,
}

impl Change {
    /// The word a watch uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "ADDED",
            Self::Updated => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One published change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) change: Change,
    pub(crate) before: Option<Arc<Stored>>,
    /// The object afterwards; of a deletion, its last state with the deletion's resourceVersion.
    pub(crate) after: Arc<Stored>,
}

#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The newest resourceVersion that was dropped.
    dropped: u64,
}

impl Event {
    pub(super) fn new(change: Change, before: Option<Arc<Stored>>, after: Arc<Stored>) -> Self {
        Self {
            change,
            before,
            after,
        }
    }
}

/// One line of a watch.
pub(crate) fn watch_line(word: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + word.len() + 26);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(word.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}

impl History {
    /// Nothing before `version` is known.
    pub(super) fn starting_at(version: u64) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            dropped: version,
        }
    }

    /// Versions before `version` cannot be asked for any more.
    pub(super) fn forget_until(&mut self, version: u64) {
        self.dropped = self.dropped.max(version);
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.after.packed.len();
        self.events.push_back(Arc::new(event));
        while self.events.len() > EVENTS_LEN_MAX || self.bytes > EVENTS_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else {
                return;
            };
            self.bytes -= oldest.after.packed.len();
            self.dropped = oldest.after.version;
        }
    }

    /// The events after `version`, oldest first.
    pub(super) fn after(
        &self,
        version: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Expired> {
        if version < self.dropped {
            return Err(Expired {
                oldest: self.dropped,
            });
        }
        let start = self
            .events
            .partition_point(|event| event.after.version <= version);
        Ok(self.events.range(start..))
    }
}

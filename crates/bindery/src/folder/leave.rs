//! How long something must not have been declared before that is believed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::document::ObjectKey;
use super::plan::{Absent, Disappearance};

/// How long an object must have left a file that declares others. The file is still and whole by then, so
/// this only has to cover a document on its way to another file.
const LEFT_GRACE: Duration = Duration::from_millis(500);
/// How long a file must be gone. Saving, moving and checking out take milliseconds, a folder of some
/// thousand files that is written anew a second or two.
const GONE_GRACE: Duration = Duration::from_secs(3);
/// A folder in which files change all the time keeps what is no longer declared, but not for longer than
/// this.
const UNREST_MAX: Duration = Duration::from_secs(30);

/// Since when which object is not declared any longer.
#[derive(Debug)]
pub(crate) struct Leaving {
    since: BTreeMap<ObjectKey, Instant>,
    /// When the folder last changed. As long as files come and go, others may follow.
    changed: Instant,
}

impl Leaving {
    /// Nothing has left yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: BTreeMap::new(),
            changed: now,
        }
    }

    /// Begins to count anew.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Notes that a file came, went or was written.
    pub(crate) fn note_change(&mut self, now: Instant) {
        self.changed = now;
    }

    /// Those that have been gone for long enough, and when the next one will have been.
    pub(crate) fn due(
        &mut self,
        absent: Vec<Absent>,
        now: Instant,
    ) -> (Vec<Absent>, Option<Instant>) {
        let mut since = BTreeMap::new();
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        for one in absent {
            let began = self.since.get(&one.key).copied().unwrap_or(now);
            since.insert(one.key.clone(), began);
            let at = self.at(began, one.way);
            if at <= now {
                due.push(one);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        self.since = since;
        (due, next)
    }

    fn at(&self, began: Instant, way: Disappearance) -> Instant {
        let grace = match way {
            Disappearance::LeftFile => LEFT_GRACE,
            Disappearance::FileGone => GONE_GRACE,
        };
        (began.max(self.changed) + grace).min(began + UNREST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Origin;
    use super::*;

    fn absent(way: Disappearance) -> Absent {
        Absent {
            key: ObjectKey::new("v1", "A", None, "x"),
            origin: Origin {
                file: "a".to_owned(),
                hash: String::new(),
                api_version: "v1".to_owned(),
                held: false,
            },
            way,
        }
    }

    /// The milliseconds after which an object is due that left at 0, if the folder changes at these.
    fn check(way: Disappearance, changes: &[u64]) -> Option<u64> {
        let start = Instant::now();
        let mut leaving = Leaving::new(start);
        (0..60_000).step_by(100).find(|passed| {
            let now = start + Duration::from_millis(*passed);
            if changes.contains(passed) {
                leaving.note_change(now);
            }
            !leaving.due(vec![absent(way)], now).0.is_empty()
        })
    }

    #[test]
    fn a_file_may_be_gone_for_longer_than_a_document() {
        assert_eq!(check(Disappearance::LeftFile, &[]), Some(500));
        assert_eq!(check(Disappearance::FileGone, &[]), Some(3_000));
    }

    #[test]
    fn while_files_come_and_go_nothing_is_taken_away() {
        assert_eq!(check(Disappearance::LeftFile, &[300, 700]), Some(1_200));
        assert_eq!(check(Disappearance::FileGone, &[1_000, 2_500]), Some(5_500));
        let always: Vec<u64> = (0..60_000).step_by(100).collect();
        assert_eq!(
            check(Disappearance::LeftFile, &always),
            Some(30_000),
            "but not for ever"
        );
    }

    #[test]
    fn what_comes_back_begins_anew() {
        let start = Instant::now();
        let mut leaving = Leaving::new(start);
        let at = |millis| start + Duration::from_millis(millis);
        assert!(
            leaving
                .due(vec![absent(Disappearance::FileGone)], at(0))
                .0
                .is_empty()
        );
        assert!(leaving.due(Vec::new(), at(2_900)).0.is_empty());
        assert!(
            leaving
                .due(vec![absent(Disappearance::FileGone)], at(3_100))
                .0
                .is_empty()
        );
    }
}

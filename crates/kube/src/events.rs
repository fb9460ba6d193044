//! Kubernetes Events: what became of an object, for those who read `kubectl describe`.
//!
//! The status is the truth and is always written; an Event is a courtesy. So nothing waits for one,
//! nothing fails with one, and an object that goes straight to Ready has none: at ten thousand
//! records it would double the writes to say what the status says already.

mod writing;

pub(crate) use writing::write_events;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bindery_core::zones::ClaimReceipt;
use bindery_core::{Condition, ConditionStatus, Kind, Moment, Reason};
use bindery_sources::Id;
use bindery_sources::meta::PUBLISHED;
use tokio::sync::Notify;

use crate::context::Context;
use crate::metrics::count;

/// Events that wait to be written. At the pace of the writer that is less than a minute; what is
/// older has most likely been overtaken. About 500 bytes each, so 512 KiB in all.
pub(crate) const EVENTS_WAITING_MAX: usize = 1024;

/// What was last said about an object, in an Event or in the status that stood before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    /// It was not looked up yet.
    #[default]
    Unknown,
    /// Nothing that an author would remember.
    Silent,
    /// That its main condition is so, and why.
    Said(Said),
}

/// The main condition of an object, without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) good: bool,
    pub(crate) reason: Reason,
}

/// How an Event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// All is well again.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An Event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) object: Id,
    pub(crate) tone: Tone,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) at: Moment,
}

/// Events that wait to be written.
///
/// Guarantees: pushing never waits; they come out in the order in which they were pushed.
/// Limits: [`EVENTS_WAITING_MAX`]; the oldest makes room for the newest.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Mutex<VecDeque<Notice>>,
    arrived: Notify,
}

impl Tone {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Voice {
    /// What the status that stands says.
    pub(crate) fn of(standing: Option<Said>) -> Self {
        match standing {
            Some(said) if !is_under_way(said) => Self::Said(said),
            Some(_) | None => Self::Silent,
        }
    }
}

impl Notices {
    /// Puts one in, and returns the one that had to go for it.
    pub(crate) fn push(&self, notice: Notice) -> Option<Notice> {
        let mut waiting = self.lock();
        let oldest = (waiting.len() >= EVENTS_WAITING_MAX).then(|| waiting.pop_front());
        waiting.push_back(notice);
        drop(waiting);
        self.arrived.notify_one();
        oldest.flatten()
    }

    /// The one that waits longest; waits until there is one.
    ///
    /// Cancellation: nothing is lost if it is dropped while waiting.
    pub(crate) async fn pop(&self) -> Notice {
        loop {
            let next = self.lock().pop_front();
            if let Some(notice) = next {
                return notice;
            }
            self.arrived.notified().await;
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Notice>> {
        // No code that can panic runs under the lock; a poisoned one holds a sound state.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets an Event be written if a status that was just written says something else than before.
pub(crate) fn tell(object: &Id, ctx: &Context, main: &Condition) {
    let now = Said {
        good: main.status == ConditionStatus::True,
        reason: main.reason,
    };
    let tone = {
        let mut state = ctx.state();
        let Some(progress) = state.progress.get_mut(object) else {
            return;
        };
        let before = progress.voice;
        if !is_under_way(now) {
            progress.voice = Voice::Said(now);
        }
        tone(object.kind, before, now)
    };
    if let Some(tone) = tone {
        push(object, ctx, tone, main);
    }
}

/// Lets an Event be written about a condition.
pub(crate) fn push(object: &Id, ctx: &Context, tone: Tone, main: &Condition) {
    log(object, tone, main);
    let dropped = ctx.notices.push(Notice {
        object: Id::clone(object),
        tone,
        reason: main.reason,
        message: main.message.clone(),
        at: ctx.clock.now(),
    });
    if dropped.is_some() {
        count(&ctx.cluster.metrics.events_dropped);
    }
}

/// Lets an Event be written about an annotation that somebody else changed.
pub(crate) fn tell_tampered(object: &Id, ctx: &Context) {
    let message = format!(
        "somebody else changed the annotation {PUBLISHED}, by which Bindery knows its own records; it is \
         written back"
    );
    warn(object, ctx, message);
}

/// Lets an Event be written about what others did to sets of an object, once each time.
pub(crate) fn tell_mended(object: &Id, ctx: &Context, outcomes: &[ClaimReceipt]) {
    let mended = outcomes
        .iter()
        .filter_map(|outcome| outcome.mended.as_ref());
    let times = mended.clone().map(|mended| mended.times).sum();
    let before = {
        let mut state = ctx.state();
        let progress = state.progress.get_mut(object);
        progress.map_or(times, |progress| progress.mended(times))
    };
    if times <= before {
        return;
    }
    for mended in mended {
        count(&ctx.cluster.metrics.mended);
        let found: Vec<String> = mended.found.iter().map(ToString::to_string).collect();
        let message = format!(
            "somebody else wrote {} to {} in DNS, over what is declared; it was put right",
            found.join(", "),
            mended.key
        );
        warn(object, ctx, message);
    }
}

fn warn(object: &Id, ctx: &Context, message: String) {
    tracing::warn!(%object, why = message, "others changed what is Bindery's");
    let dropped = ctx.notices.push(Notice {
        object: Id::clone(object),
        tone: Tone::Warning,
        reason: Reason::Overwritten,
        message,
        at: ctx.clock.now(),
    });
    if dropped.is_some() {
        count(&ctx.cluster.metrics.events_dropped);
    }
}

/// The same in the log. What a server or a zone does to all objects alike is told of that one.
fn log(object: &Id, tone: Tone, main: &Condition) {
    let (reason, why) = (main.reason.as_str(), &*main.message);
    let shared = [
        Reason::ServerUnreachable,
        Reason::ServerBehind,
        Reason::ZoneNotReady,
    ];
    let is_held = main.reason == Reason::Held && object.kind != Kind::DnsZone;
    let is_shared = is_held || shared.contains(&main.reason);
    match tone {
        Tone::Normal => tracing::info!(%object, reason, why, "an object is as declared"),
        Tone::Warning if is_shared => {
            tracing::debug!(%object, reason, why, "an object is not as declared");
        }
        Tone::Warning => tracing::warn!(%object, reason, why, "an object is not as declared"),
    }
}

/// How to tell of a change, if it is worth an Event.
fn tone(kind: Kind, before: Voice, now: Said) -> Option<Tone> {
    match (before, now.good) {
        (Voice::Said(said), _) if said == now => None,
        (_, false) if is_under_way(now) => None,
        (_, false) => Some(Tone::Warning),
        (Voice::Said(said), true) => (!said.good).then_some(Tone::Normal),
        // Zones are few, and that one is served is news.
        (Voice::Silent | Voice::Unknown, true) => (kind == Kind::DnsZone).then_some(Tone::Normal),
    }
}

/// Whether it only says that the work is not done yet, of which nobody has to be warned.
fn is_under_way(said: Said) -> bool {
    !said.good && matches!(said.reason, Reason::Progressing | Reason::Pending)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bindery_core::ObjectRef;

    use super::*;

    const READY: Said = Said {
        good: true,
        reason: Reason::ReconcileSucceeded,
    };

    fn not(reason: Reason) -> Said {
        Said {
            good: false,
            reason,
        }
    }

    #[test]
    fn changes_are_told_and_a_straight_way_to_ready_is_not() {
        let conflict = not(Reason::Conflict);
        let (said, silent) = (Voice::Said, Voice::Silent);
        let rows = [
            (Kind::ARecord, silent, READY, None),
            (Kind::DnsZone, silent, READY, Some(Tone::Normal)),
            (Kind::ARecord, silent, conflict, Some(Tone::Warning)),
            (Kind::ARecord, said(conflict), conflict, None),
            (Kind::ARecord, said(conflict), READY, Some(Tone::Normal)),
            (Kind::ARecord, said(READY), READY, None),
            (Kind::ARecord, said(READY), conflict, Some(Tone::Warning)),
            (
                Kind::ARecord,
                said(conflict),
                not(Reason::NotOwned),
                Some(Tone::Warning),
            ),
            (Kind::ARecord, said(READY), not(Reason::Progressing), None),
            (Kind::DnsEndpoint, silent, not(Reason::Pending), None),
        ];
        for (kind, before, now, expected) in rows {
            assert_eq!(tone(kind, before, now), expected, "{before:?} to {now:?}");
        }
        assert_eq!(Voice::of(Some(not(Reason::Pending))), Voice::Silent);
        assert_eq!(Voice::of(Some(conflict)), Voice::Said(conflict));
    }

    #[test]
    fn the_oldest_makes_room() {
        let notices = Notices::default();
        let notice = |number: usize| Notice {
            object: Arc::new(ObjectRef {
                kind: Kind::ARecord,
                namespace: "default".into(),
                name: "www".into(),
                uid: "uid".into(),
            }),
            tone: Tone::Warning,
            reason: Reason::Conflict,
            message: number.to_string(),
            at: Moment(0),
        };
        for number in 0..EVENTS_WAITING_MAX {
            assert_eq!(notices.push(notice(number)), None);
        }
        let dropped = notices.push(notice(EVENTS_WAITING_MAX));
        assert_eq!(dropped, Some(notice(0)));
        assert_eq!(notices.len(), EVENTS_WAITING_MAX);
    }
}

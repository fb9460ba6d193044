//! Kubernetes Events: what became of an object, for those who read `kubectl describe`.
//!
//! The status is the truth and is always written; an Event is a courtesy. So nothing waits for one,
//! nothing fails with one, and an object that goes straight to Ready has none: at ten thousand
//! records it would double the writes to say what the status says already.

mod writing;

pub(crate) use writing::write_events;

use bindery_api::{Role, role};
use bindery_core::zones::ClaimReceipt;
use bindery_core::{Condition, Kind, Moment, Reason};
use bindery_sources::Id;
use bindery_sources::meta::PUBLISHED;

use crate::context::Context;
use crate::metrics::count;
use crate::status::MainCondition;

/// Events that wait to be written. At the pace of the writer that is less than a minute; what is
/// older has most likely been overtaken. About 500 bytes each, so 512 KiB in all.
pub(crate) const EVENTS_WAITING_MAX: usize = 1024;

/// What was last said about an object, in an Event or in the status that stood before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LastEvent {
    /// It was not looked up yet.
    #[default]
    Unknown,
    /// Nothing that an author would remember.
    Silent,
    /// That its main condition is so, and why.
    Sent(MainCondition),
}

/// How an Event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    /// All is well again.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An Event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedEvent {
    pub(crate) object: Id,
    pub(crate) event_type: EventType,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) at: Moment,
}

impl EventType {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl LastEvent {
    /// What the status that stands says.
    pub(crate) fn of(existing: Option<MainCondition>) -> Self {
        match existing {
            Some(said) if !is_under_way(said) => Self::Sent(said),
            Some(_) | None => Self::Silent,
        }
    }
}

/// Lets an Event be written if a status that was just written says something else than before.
pub(crate) fn emit_change(object: &Id, ctx: &Context, main: &Condition) {
    let now = MainCondition::of(main);
    let event_type = {
        let mut state = ctx.state();
        let Some(progress) = state.progress.get_mut(object) else {
            return;
        };
        let before = progress.last_event;
        if !is_under_way(now) {
            progress.last_event = LastEvent::Sent(now);
        }
        event_type(object.kind, before, now)
    };
    if let Some(event_type) = event_type {
        push(object, ctx, event_type, main);
    }
}

/// Lets an Event be written about a condition.
pub(crate) fn push(object: &Id, ctx: &Context, event_type: EventType, main: &Condition) {
    log(object, event_type, main);
    let dropped = ctx.events.push(QueuedEvent {
        object: Id::clone(object),
        event_type,
        reason: main.reason,
        message: main.message.clone(),
        at: ctx.clock.now(),
    });
    if dropped.is_some() {
        count(&ctx.cluster.metrics.events_dropped);
    }
}

/// Lets an Event be written about an annotation that somebody else changed.
pub(crate) fn emit_tampered(object: &Id, ctx: &Context) {
    let message = format!(
        "somebody else changed the annotation {PUBLISHED}, by which Bindery knows its own records; it is \
         written back"
    );
    warn(object, ctx, message);
}

/// Lets an Event be written about what others did to sets of an object, once each time.
pub(crate) fn emit_mended(object: &Id, ctx: &Context, outcomes: &[ClaimReceipt]) {
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
    let dropped = ctx.events.push(QueuedEvent {
        object: Id::clone(object),
        event_type: EventType::Warning,
        reason: Reason::Overwritten,
        message,
        at: ctx.clock.now(),
    });
    if dropped.is_some() {
        count(&ctx.cluster.metrics.events_dropped);
    }
}

/// The same in the log. What a server or a zone does to all objects alike is told of that one, and what is held
/// by the engine.
fn log(object: &Id, event_type: EventType, main: &Condition) {
    let (reason, why) = (main.reason.as_str(), &*main.message);
    let shared = [
        Reason::Held,
        Reason::ServerUnreachable,
        Reason::ServerBehind,
        Reason::ZoneNotReady,
    ];
    let is_shared = shared.contains(&main.reason);
    match event_type {
        EventType::Normal => tracing::info!(%object, reason, why, "an object is as declared"),
        EventType::Warning if is_shared => {
            tracing::debug!(%object, reason, why, "an object is not as declared");
        }
        EventType::Warning => tracing::warn!(%object, reason, why, "an object is not as declared"),
    }
}

/// How to tell of a change, if it is worth an Event.
fn event_type(kind: Kind, before: LastEvent, now: MainCondition) -> Option<EventType> {
    match (before, now.good) {
        (LastEvent::Sent(said), _) if said == now => None,
        (_, false) if is_under_way(now) => None,
        (_, false) => Some(EventType::Warning),
        (LastEvent::Sent(said), true) => (!said.good).then_some(EventType::Normal),
        // Zones are few, and that one is served is news.
        (LastEvent::Silent | LastEvent::Unknown, true) => {
            (role(kind) == Role::Zone).then_some(EventType::Normal)
        }
    }
}

/// Whether it only says that the work is not done yet, of which nobody has to be warned.
fn is_under_way(said: MainCondition) -> bool {
    !said.good && matches!(said.reason, Reason::Progressing | Reason::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: MainCondition = MainCondition {
        good: true,
        reason: Reason::ReconcileSucceeded,
    };

    fn not(reason: Reason) -> MainCondition {
        MainCondition {
            good: false,
            reason,
        }
    }

    #[test]
    fn changes_are_told_and_a_straight_way_to_ready_is_not() {
        let conflict = not(Reason::Conflict);
        let (said, silent) = (LastEvent::Sent, LastEvent::Silent);
        let rows = [
            (Kind::ARecord, silent, READY, None),
            (Kind::DnsZone, silent, READY, Some(EventType::Normal)),
            (Kind::ARecord, silent, conflict, Some(EventType::Warning)),
            (Kind::ARecord, said(conflict), conflict, None),
            (
                Kind::ARecord,
                said(conflict),
                READY,
                Some(EventType::Normal),
            ),
            (Kind::ARecord, said(READY), READY, None),
            (
                Kind::ARecord,
                said(READY),
                conflict,
                Some(EventType::Warning),
            ),
            (
                Kind::ARecord,
                said(conflict),
                not(Reason::NotOwned),
                Some(EventType::Warning),
            ),
            (Kind::ARecord, said(READY), not(Reason::Progressing), None),
            (Kind::DnsEndpoint, silent, not(Reason::Pending), None),
        ];
        for (kind, before, now, expected) in rows {
            assert_eq!(
                event_type(kind, before, now),
                expected,
                "{before:?} to {now:?}"
            );
        }
        assert_eq!(LastEvent::of(Some(not(Reason::Pending))), LastEvent::Silent);
        assert_eq!(LastEvent::of(Some(conflict)), LastEvent::Sent(conflict));
    }
}

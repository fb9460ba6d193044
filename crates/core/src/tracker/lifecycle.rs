//! Where a parent is in its life.
//!
//! ```text
//! NotStarted         --begin-->   CreationInProgress
//! NotStarted         --retire-->  Gone
//! NotStarted         --remnant--> DeletionPending
//! CreationInProgress --done-->    Created
//! CreationInProgress --failed-->  NotStarted
//! Created            --begin-->   UpdateInProgress
//! Created            --retire-->  DeletionPending
//! Created            --absent-->  NotStarted
//! UpdateInProgress   --done-->    Created
//! UpdateInProgress   --failed-->  Created
//! DeletionPending    --revive-->  Created
//! DeletionPending    --delete-->  DeletionInProgress
//! DeletionPending    --release--> Gone
//! DeletionPending    --absent-->  Gone
//! DeletionInProgress --deleted--> Gone
//! DeletionInProgress --failed-->  DeletionPending
//! ```

use std::marker::PhantomData;

/// Where a parent is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Known, but nothing was done yet; children are buffered.
    #[default]
    NotStarted,
    /// Being created or opened.
    CreationInProgress,
    /// It exists, and its actual children are known.
    Created,
    /// Its own configuration is being changed.
    UpdateInProgress,
    /// No longer wanted; its children are being taken away.
    DeletionPending,
    /// Being deleted.
    DeletionInProgress,
    /// It is gone.
    Gone,
}

/// What moves a parent from one phase to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Its creation starts, or a change of its own configuration.
    Begin,
    /// The creation or the change succeeded.
    Done,
    /// What was begun failed and will be tried again.
    Failed,
    /// The parent is no longer wanted.
    Retire,
    /// The parent is wanted again.
    Revive,
    /// It is no longer wanted and was never seen whole, but something of it may be there.
    Remnant,
    /// Its deletion starts.
    Delete,
    /// The deletion succeeded.
    Deleted,
    /// Its children are gone, and it is not ours to delete: we let go of it.
    Release,
    /// It was found to be there no more, and its children with it.
    Absent,
}

/// Every transition there is; the diagram of this module is printed from it.
pub const TRANSITIONS: [(Phase, Signal, Phase); 16] = [
    (Phase::NotStarted, Signal::Begin, Phase::CreationInProgress),
    (Phase::NotStarted, Signal::Retire, Phase::Gone),
    (Phase::NotStarted, Signal::Remnant, Phase::DeletionPending),
    (Phase::CreationInProgress, Signal::Done, Phase::Created),
    (Phase::CreationInProgress, Signal::Failed, Phase::NotStarted),
    (Phase::Created, Signal::Begin, Phase::UpdateInProgress),
    (Phase::Created, Signal::Retire, Phase::DeletionPending),
    (Phase::Created, Signal::Absent, Phase::NotStarted),
    (Phase::UpdateInProgress, Signal::Done, Phase::Created),
    (Phase::UpdateInProgress, Signal::Failed, Phase::Created),
    (Phase::DeletionPending, Signal::Revive, Phase::Created),
    (
        Phase::DeletionPending,
        Signal::Delete,
        Phase::DeletionInProgress,
    ),
    (Phase::DeletionPending, Signal::Release, Phase::Gone),
    (Phase::DeletionPending, Signal::Absent, Phase::Gone),
    (Phase::DeletionInProgress, Signal::Deleted, Phase::Gone),
    (
        Phase::DeletionInProgress,
        Signal::Failed,
        Phase::DeletionPending,
    ),
];

impl Phase {
    /// The phase after `signal`, or `None` where the signal means nothing here.
    #[must_use]
    pub fn after(self, signal: Signal) -> Option<Self> {
        TRANSITIONS
            .iter()
            .find(|(from, by, _)| (*from, *by) == (self, signal))
            .map(|(_, _, to)| *to)
    }

    /// The word for it, as metrics and logs have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::CreationInProgress => "creation_in_progress",
            Self::Created => "created",
            Self::UpdateInProgress => "update_in_progress",
            Self::DeletionPending => "deletion_pending",
            Self::DeletionInProgress => "deletion_in_progress",
            Self::Gone => "gone",
        }
    }
}

/// Evidence that a parent has no children left; it lasts as long as nobody touches them.
#[derive(Clone, Copy, Debug)]
pub struct Drained<'a>(PhantomData<&'a ()>);

impl Drained<'_> {
    /// Only what keeps children can say it.
    pub(super) fn seen() -> Self {
        Self(PhantomData)
    }
}

/// Why a parent may be deleted. There is no third way: children are never left behind.
#[derive(Clone, Copy, Debug)]
pub enum Deletion<'a> {
    /// None of its children is left.
    Drained(Drained<'a>),
    /// Its children go along with it, which its author asked for.
    Cascade,
}

/// The parent ended, so what was known of its children is void: whoever keeps them forgets it
/// ([`Children::restart`](super::Children::restart)), since the parent may be wanted again.
#[derive(Debug)]
#[must_use = "the children of a parent that ended are not there any more"]
pub struct ParentEnded(());

/// One parent's life.
///
/// Guarantees: the phase changes along [`TRANSITIONS`] only; a deletion begins with evidence that no child
/// is left, or by the word that they go along; a wish that changes while work is on its way takes effect
/// when that work ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifecycle {
    phase: Phase,
    retired: bool,
}

impl Lifecycle {
    /// Where the parent is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether somebody still wants the parent.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.retired
    }

    /// Whether the parent exists, so that its actual children are known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(
            self.phase,
            Phase::Created | Phase::UpdateInProgress | Phase::DeletionPending
        )
    }

    /// Says that the parent is wanted (again).
    pub fn want(&mut self) {
        self.retired = false;
        match self.phase {
            Phase::DeletionPending => self.step(Signal::Revive),
            Phase::Gone => *self = Self::default(),
            Phase::NotStarted
            | Phase::CreationInProgress
            | Phase::Created
            | Phase::UpdateInProgress
            | Phase::DeletionInProgress => {}
        }
    }

    /// Says that the parent is no longer wanted. Work on its way is finished first.
    pub fn retire(&mut self) {
        self.retired = true;
        if matches!(self.phase, Phase::NotStarted | Phase::Created) {
            self.step(Signal::Retire);
        }
    }

    /// Says that a parent that was never opened is no longer wanted, and that something of it may be there
    /// all the same, so that it is deleted.
    ///
    /// Assumptions: nothing of it is on its way.
    pub fn retire_remnant(&mut self) {
        self.retired = true;
        self.step(Signal::Remnant);
    }

    /// Begins to create the parent, or to change its own configuration.
    pub fn begin(&mut self) {
        self.step(Signal::Begin);
    }

    /// Begins to delete the parent.
    pub fn begin_deletion(&mut self, why: Deletion<'_>) {
        match why {
            Deletion::Drained(Drained(_)) | Deletion::Cascade => self.step(Signal::Delete),
        }
    }

    /// What was begun, a creation or a change, succeeded.
    pub fn succeed(&mut self) {
        self.step(Signal::Done);
        self.settle();
    }

    /// The deletion succeeded. A parent that is wanted again meanwhile starts anew.
    pub fn finish_deletion(&mut self) -> ParentEnded {
        self.end(Signal::Deleted)
    }

    /// What was begun failed; it will begin again.
    pub fn fail(&mut self) {
        self.step(Signal::Failed);
        self.settle();
    }

    /// Lets go of a parent that is not ours to delete: none of our children is left in it.
    pub fn release(&mut self, evidence: Drained<'_>) -> ParentEnded {
        let Drained(_) = evidence;
        self.end(Signal::Release)
    }

    /// The parent is there no more, and its children with it. One that is wanted has to be created again.
    pub fn find_absent(&mut self) -> ParentEnded {
        self.end(Signal::Absent)
    }

    fn end(&mut self, signal: Signal) -> ParentEnded {
        self.step(signal);
        self.settle();
        ParentEnded(())
    }

    fn step(&mut self, signal: Signal) {
        self.phase = self
            .phase
            .after(signal)
            .unwrap_or_else(|| unreachable!("{signal:?} means nothing in {:?}", self.phase));
    }

    /// Applies a wish that changed while work was on its way.
    fn settle(&mut self) {
        match (self.phase, self.retired) {
            (Phase::NotStarted | Phase::Created, true) => self.step(Signal::Retire),
            (Phase::DeletionPending | Phase::Gone, false) => self.want(),
            (
                Phase::NotStarted
                | Phase::CreationInProgress
                | Phase::Created
                | Phase::UpdateInProgress
                | Phase::DeletionPending
                | Phase::DeletionInProgress
                | Phase::Gone,
                _,
            ) => {}
        }
    }
}

#[cfg(test)]
mod tests;

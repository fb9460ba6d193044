use proptest::prelude::*;

use super::*;
use crate::tracker::Children;

#[test]
fn the_diagram_is_the_table() {
    let source = include_str!("../lifecycle.rs");
    let drawn = source.lines().filter(|line| line.contains("-->"));
    let drawn: Vec<&str> = drawn.filter(|line| line.starts_with("//!")).collect();
    let printed = TRANSITIONS.map(|(from, signal, to)| {
        let signal = format!("--{}-->", format!("{signal:?}").to_lowercase());
        format!("//! {:<18} {signal:<12} {to:?}", format!("{from:?}"))
    });
    assert_eq!(drawn, printed);
}

#[test]
fn retiring_during_a_change_takes_effect_when_it_ends() {
    let mut parent = Lifecycle::default();
    parent.begin();
    parent.succeed();
    parent.begin();
    parent.retire();
    assert_eq!(parent.phase(), Phase::UpdateInProgress);
    parent.fail();
    assert_eq!(parent.phase(), Phase::DeletionPending);
    parent.want();
    assert_eq!(parent.phase(), Phase::Created);
}

#[test]
fn a_parent_that_is_wanted_again_while_it_is_deleted_starts_anew() {
    let mut parent = Lifecycle::default();
    parent.begin();
    parent.succeed();
    parent.retire();
    parent.begin_deletion(Deletion::Cascade);
    parent.want();
    assert_eq!(parent.phase(), Phase::DeletionInProgress);
    let _ended = parent.finish_deletion();
    assert_eq!(parent.phase(), Phase::NotStarted);
    assert!(parent.is_wanted());
}

#[test]
fn a_parent_that_vanished_is_created_again_if_it_is_wanted() {
    let mut parent = Lifecycle::default();
    parent.begin();
    parent.succeed();
    let _ended = parent.find_absent();
    assert_eq!(parent.phase(), Phase::NotStarted);
    parent.begin();
    parent.succeed();
    parent.retire();
    let _ended = parent.find_absent();
    assert_eq!(parent.phase(), Phase::Gone);
}

#[test]
fn what_may_be_left_of_a_parent_that_was_never_opened_is_deleted() {
    let mut parent = Lifecycle::default();
    parent.retire_remnant();
    assert_eq!(parent.phase(), Phase::DeletionPending);
    parent.begin_deletion(Deletion::Cascade);
    let _ended = parent.finish_deletion();
    assert_eq!(parent.phase(), Phase::Gone);
}

#[test]
fn a_parent_that_nobody_opened_goes_at_once() {
    let mut parent = Lifecycle::default();
    parent.begin();
    parent.retire();
    parent.fail();
    assert_eq!((parent.phase(), parent.is_wanted()), (Phase::Gone, false));
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Want,
    Retire,
    Begin,
    Succeed,
    Fail,
    Delete,
    Cascade,
    Release,
    Absent,
    Desire(u8, bool),
    Look,
    Land,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Want),
        Just(Act::Retire),
        Just(Act::Begin),
        Just(Act::Succeed),
        Just(Act::Fail),
        Just(Act::Delete),
        Just(Act::Cascade),
        Just(Act::Release),
        Just(Act::Absent),
        (0_u8..3, any::<bool>()).prop_map(|(child, there)| Act::Desire(child, there)),
        Just(Act::Look),
        Just(Act::Land),
    ]
}

/// A parent with children in a world that applies what is sent.
#[derive(Default)]
struct Model {
    parent: Lifecycle,
    children: Children<u8, bool, ()>,
    /// The children that really are there.
    world: std::collections::BTreeMap<u8, bool>,
}

impl Model {
    fn play(&mut self, act: Act) {
        let phase = self.parent.phase();
        let is_at_work = matches!(phase, Phase::CreationInProgress | Phase::UpdateInProgress);
        match act {
            Act::Want => self.parent.want(),
            Act::Retire => self.parent.retire(),
            Act::Begin if matches!(phase, Phase::NotStarted | Phase::Created) => {
                self.parent.begin();
            }
            Act::Succeed if is_at_work => self.parent.succeed(),
            Act::Succeed if phase == Phase::DeletionInProgress => {
                let ended = self.parent.finish_deletion();
                self.children.restart(ended);
                self.world.clear();
            }
            Act::Fail if is_at_work || phase == Phase::DeletionInProgress => self.parent.fail(),
            Act::Delete if phase == Phase::DeletionPending => {
                if let Some(drained) = self.children.drained() {
                    assert!(self.world.is_empty(), "children are left");
                    self.parent.begin_deletion(Deletion::Drained(drained));
                }
            }
            Act::Cascade if phase == Phase::DeletionPending => {
                self.parent.begin_deletion(Deletion::Cascade);
            }
            Act::Release if phase == Phase::DeletionPending => {
                if let Some(drained) = self.children.drained() {
                    assert!(self.world.is_empty(), "children are left");
                    let ended = self.parent.release(drained);
                    self.children.restart(ended);
                }
            }
            Act::Absent if matches!(phase, Phase::Created | Phase::DeletionPending) => {
                let ended = self.parent.find_absent();
                self.children.restart(ended);
                self.world.clear();
            }
            Act::Desire(child, there) => self.children.desire(child, there.then_some(true)),
            Act::Look if self.parent.is_open() => {
                let pending: Vec<u8> = self.children.pending().copied().collect();
                for child in pending {
                    if self.children.desired(&child) == self.children.actual(&child) {
                        self.children.settle(&child);
                    } else {
                        self.children.send(&child);
                        match self.children.desired(&child) {
                            Some(value) => self.world.insert(child, *value),
                            None => self.world.remove(&child),
                        };
                    }
                }
            }
            Act::Land => {
                let sent: Vec<u8> = self.children.in_flight().keys().copied().collect();
                for child in sent {
                    let seen = self.world.get(&child).copied();
                    self.children.observe(child, seen);
                    self.children.complete(&child);
                }
            }
            // The signal means nothing here, and the types or a look at the phase keep it away.
            Act::Begin
            | Act::Succeed
            | Act::Fail
            | Act::Delete
            | Act::Cascade
            | Act::Release
            | Act::Absent
            | Act::Look => {}
        }
    }
}

proptest! {
    /// The model asserts it whenever the parent goes without `Cascade`.
    #[test]
    fn a_parent_never_goes_before_its_children(acts in prop::collection::vec(act(), 0..80)) {
        let mut model = Model::default();
        for act in acts {
            model.play(act);
            if model.parent.phase() == Phase::Gone {
                prop_assert!(!model.parent.is_wanted());
                prop_assert!(model.world.is_empty(), "children are left");
            }
        }
    }
}

#[test]
fn every_phase_has_a_word_of_its_own() {
    let words = [
        (Phase::NotStarted, "not_started"),
        (Phase::CreationInProgress, "creation_in_progress"),
        (Phase::Created, "created"),
        (Phase::UpdateInProgress, "update_in_progress"),
        (Phase::DeletionPending, "deletion_pending"),
        (Phase::DeletionInProgress, "deletion_in_progress"),
        (Phase::Gone, "gone"),
    ];
    for (phase, word) in words {
        assert_eq!(phase.as_str(), word);
    }
}

use proptest::prelude::*;

use super::*;
use crate::{fault::FaultKind, tracker::Lifecycle};

type Kids = Children<u8, u8, &'static str>;

fn fault() -> Fault {
    Fault::new(FaultKind::Malformed, "no effect")
}

fn ended() -> ParentEnded {
    let mut parent = Lifecycle::default();
    parent.begin();
    parent.succeed();
    parent.find_absent()
}

#[test]
fn a_child_in_flight_is_not_planned_twice() {
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.send(&1);
    children.desire(1, Some(2));
    assert_eq!(children.pending().count(), 0);
    assert_eq!(children.complete(&1).and_then(|sent| sent.desired), Some(1));
    assert_eq!(children.pending().collect::<Vec<_>>(), [&1]);
}

#[test]
fn a_child_that_waits_or_is_on_its_way_is_unsettled() {
    let mut children = Kids::default();
    assert!(!children.has_unsettled() && !children.is_unsettled(&1));
    children.mark(1);
    assert!(children.has_unsettled() && children.is_unsettled(&1));
    children.send(&1);
    assert!(children.has_unsettled() && children.is_unsettled(&1));
    assert!(children.has_in_flight() && !children.is_unsettled(&2));
    children.complete(&1);
    children.settle(&1);
    assert!(!children.has_unsettled() && !children.is_unsettled(&1));
}

#[test]
fn what_had_no_effect_is_noted_unless_the_wish_changed() {
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.send(&1);
    children.land(&1, None, |_| fault());
    assert_eq!(children.no_effect(&1), Some(&fault()));
    children.desire(1, Some(2));
    assert_eq!(children.no_effect(&1), None);
    children.send(&1);
    children.desire(1, Some(3));
    children.land(&1, None, |_| fault());
    assert_eq!(children.no_effect(&1), None);
    children.send(&1);
    children.observe(1, Some(3));
    children.land(&1, None, |_| fault());
    assert_eq!(children.no_effect(&1), None);
}

#[test]
fn a_lost_answer_is_why_it_had_no_effect() {
    let lost = Fault::new(FaultKind::Lost, "lost");
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.send(&1);
    children.lose_answer(&1, &lost);
    children.queue_to_verify([1]);
    assert_eq!(children.to_verify_len(), 1);
    assert_eq!(children.take_to_verify(), [1]);
    children.land(&1, None, |_| fault());
    assert_eq!(children.no_effect(&1), Some(&lost));
}

#[test]
fn attempts_of_a_quarantined_child_count_until_it_is_settled() {
    let mut children = Kids::default();
    let retry = |attempts: u32| Duration::from_secs(attempts.into());
    children.desire(1, Some(1));
    for attempt in 1..4 {
        children.quarantine(&1, "refused", retry);
        let at = Duration::from_secs(attempt);
        assert!(children.retry_times().eq([at]));
        children.retry_due(at.saturating_sub(Duration::from_nanos(1)));
        assert_eq!(children.pending().count(), 0);
        children.retry_due(at);
        assert_eq!(children.pending().count(), 1);
        assert_eq!(children.retry_times().count(), 0);
        assert!(
            children
                .quarantined(&1)
                .is_some_and(|one| one.why == "refused")
        );
    }
    children.settle(&1);
    children.quarantine(&1, "refused", retry);
    assert!(children.retry_times().eq([Duration::from_secs(1)]));
    children.quarantine_until(&1, "contested", Duration::from_secs(9));
    children.quarantine(&1, "refused", retry);
    assert!(children.retry_times().eq([Duration::from_secs(1)]));
}

#[test]
fn a_parent_that_ended_leaves_only_wishes() {
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.send(&1);
    children.queue_to_verify([1]);
    children.desire(2, Some(2));
    children.quarantine(&2, "refused", |_| Duration::MAX);
    children.observe(3, Some(3));
    children.restart(ended());
    assert!(children.all_actual().is_empty() && !children.has_in_flight());
    assert_eq!(children.to_verify_len(), 0);
    assert!(children.quarantined(&2).is_none());
    assert_eq!(children.pending().collect::<Vec<_>>(), [&1, &2]);
}

#[test]
fn what_was_recalled_is_looked_at_again() {
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.send(&1);
    children.queue_to_verify([1]);
    let recalled = children.recall();
    assert_eq!(recalled[&1].desired, Some(1));
    assert!(!children.has_in_flight() && children.to_verify_len() == 0);
    assert_eq!(children.pending().count(), 1);
}

#[derive(Clone, Debug)]
enum Act {
    Desire(u8, Option<u8>),
    Observe(u8, Option<u8>),
    ObserveAll(Vec<(u8, u8)>),
    Look,
    Complete(u8),
    Land(u8, Option<u8>),
    Refuse(u8),
    RetryDue,
    Recall,
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let child = 0_u8..4;
    let value = prop::option::of(0_u8..3);
    prop_oneof![
        4 => (child.clone(), value.clone()).prop_map(|(child, value)| Act::Desire(child, value)),
        2 => (child.clone(), value.clone()).prop_map(|(child, value)| Act::Observe(child, value)),
        1 => prop::collection::vec((0_u8..4, 0_u8..3), 0..4).prop_map(Act::ObserveAll),
        4 => Just(Act::Look),
        3 => child.clone().prop_map(Act::Complete),
        3 => (child.clone(), value).prop_map(|(child, value)| Act::Land(child, value)),
        2 => child.prop_map(Act::Refuse),
        1 => Just(Act::RetryDue),
        1 => Just(Act::Recall),
        1 => Just(Act::Restart),
    ]
}

fn play(children: &mut Kids, act: Act) {
    match act {
        Act::Desire(child, value) => children.desire(child, value),
        Act::Observe(child, value) => children.observe(child, value),
        Act::ObserveAll(all) => children.observe_all(all.into_iter().collect()),
        Act::Look => {
            let pending: Vec<u8> = children.pending().copied().collect();
            for child in pending {
                assert!(!children.in_flight().contains_key(&child), "planned twice");
                if children.desired(&child) == children.actual(&child) {
                    children.settle(&child);
                } else if children.no_effect(&child).is_some() {
                    children.quarantine(&child, "no effect", |_| Duration::MAX);
                } else {
                    children.send(&child);
                    children.queue_to_verify([child]);
                }
            }
        }
        Act::Complete(child) => drop(children.complete(&child)),
        Act::Land(child, seen) if children.in_flight().contains_key(&child) => {
            let before = children.actual(&child).copied();
            children.observe(child, seen);
            children.land(&child, before.as_ref(), |_| fault());
        }
        Act::Refuse(child) if children.complete(&child).is_some() => {
            children.quarantine(&child, "refused", |_| Duration::ZERO);
        }
        Act::Land(..) | Act::Refuse(_) => {}
        Act::RetryDue => children.retry_due(Duration::ZERO),
        Act::Recall => drop(children.recall()),
        Act::Restart => children.restart(ended()),
    }
}

proptest! {
    #[test]
    fn what_is_desired_and_differs_is_never_forgotten(
        acts in prop::collection::vec(act(), 0..60),
    ) {
        let mut children = Kids::default();
        for act in acts {
            play(&mut children, act.clone());
            let pending: BTreeSet<u8> = children.pending().copied().collect();
            for (child, value) in children.all_desired() {
                let is_known = children.actual(child) == Some(value)
                    || pending.contains(child)
                    || children.in_flight().contains_key(child)
                    || children.quarantined(child).is_some();
                prop_assert!(is_known, "{child} is forgotten after {act:?}");
            }
            for child in children.in_flight().keys() {
                prop_assert!(!pending.contains(child), "{child} may be planned twice");
            }
            let is_left = !children.all_desired().is_empty() || children.has_unsettled();
            prop_assert!(!is_left || children.drained().is_none());
        }
    }
}

#[test]
fn a_child_that_is_seen_to_differ_from_its_wish_is_looked_at() {
    let mut children = Kids::default();
    children.desire(1, Some(1));
    children.settle(&1);
    children.observe(1, Some(1));
    children.observe(2, Some(1));
    assert_eq!(children.pending().count(), 0);
    children.observe(1, Some(2));
    assert_eq!(children.pending().collect::<Vec<_>>(), [&1]);
    children.settle(&1);
    children.observe(1, None);
    assert_eq!(children.pending().collect::<Vec<_>>(), [&1]);
}

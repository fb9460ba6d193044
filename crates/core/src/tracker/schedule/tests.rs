use proptest::prelude::*;

use super::*;

const POLICY: Backoff = Backoff {
    first: Duration::from_secs(2),
    max: Duration::from_secs(8),
};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn at(now: u64) -> Failure {
    let now = seconds(now);
    Failure {
        now,
        ..Failure::default()
    }
}

#[test]
fn a_key_that_fails_waits_longer_each_time_until_it_succeeds() {
    let mut schedule = Schedule::<&str>::default();
    let mut waits = Vec::new();
    for _ in 0..4 {
        schedule.fail(&"a", &POLICY, at(100));
        let until = schedule.retry_at(&"a").expect("it failed");
        assert!(schedule.is_due(&"a", until) && schedule.is_due(&"b", Duration::ZERO));
        assert!(!schedule.is_due(&"a", until.saturating_sub(Duration::from_nanos(1))));
        waits.push(until.saturating_sub(seconds(100)).as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 4]);
    schedule.succeed(&"a");
    assert_eq!(schedule.retry_at(&"a"), None);
    schedule.fail(&"a", &POLICY, at(100));
    assert_eq!(schedule.retry_at(&"a"), Some(seconds(101)));
}

#[test]
fn the_other_side_may_ask_for_a_longer_wait_but_not_for_a_shorter_one() {
    let mut schedule = Schedule::<&str>::default();
    for (asked, until) in [(30, 130), (1, 102), (0, 104)] {
        let retry_after = Some(seconds(asked));
        let failure = Failure {
            retry_after,
            ..at(100)
        };
        schedule.fail(&"a", &POLICY, failure);
        assert_eq!(schedule.retry_at(&"a"), Some(seconds(until)));
    }
}

#[test]
fn a_parked_key_waits_until_something_changes() {
    let mut schedule = Schedule::<&str>::default();
    schedule.fail(&"a", &POLICY, at(0));
    schedule.park(&"a");
    schedule.set_wake(&"a", [seconds(1)], [], Duration::ZERO);
    assert_eq!(schedule.next_wake(), None);
    assert!(!schedule.is_due(&"a", seconds(1_000_000)));
    schedule.hasten(&"a");
    assert!(schedule.is_due(&"a", Duration::ZERO));
}

#[test]
fn a_key_that_is_hastened_is_due_and_its_failures_still_count() {
    let mut schedule = Schedule::<&str>::default();
    schedule.fail(&"a", &POLICY, at(100));
    schedule.hasten(&"a");
    assert!(schedule.is_due(&"a", Duration::ZERO));
    schedule.fail(&"a", &POLICY, at(100));
    assert_eq!(schedule.retry_at(&"a"), Some(seconds(102)));
}

#[test]
fn a_key_wakes_at_the_first_time_that_is_not_past() {
    let mut schedule = Schedule::<&str>::default();
    schedule.set_wake(&"a", [seconds(1), seconds(9)], [seconds(7)], seconds(1));
    assert_eq!(schedule.next_wake(), Some(seconds(7)));
    schedule.set_wake(&"a", [seconds(1), seconds(9)], [], seconds(1));
    assert_eq!(schedule.next_wake(), Some(seconds(9)));
    schedule.set_wake(&"a", [Duration::MAX], [], seconds(1));
    assert_eq!(schedule.next_wake(), None);
}

#[test]
fn what_has_nothing_to_do_with_a_failure_does_not_wait_for_it() {
    let mut schedule = Schedule::<&str>::default();
    schedule.fail(&"a", &POLICY, at(9));
    schedule.set_wake(&"a", [seconds(1)], [], Duration::ZERO);
    assert_eq!(schedule.next_wake(), Some(seconds(10)));
    schedule.set_wake(&"a", [seconds(1)], [seconds(3)], Duration::ZERO);
    assert_eq!(schedule.next_wake(), Some(seconds(3)));
}

#[test]
fn of_a_key_that_is_forgotten_nothing_is_left() {
    let mut schedule = Schedule::<&str>::default();
    schedule.push("a");
    schedule.fail(&"a", &POLICY, at(0));
    schedule.set_wake(&"a", [seconds(1)], [], Duration::ZERO);
    schedule.forget(&"a");
    assert_eq!((schedule.next_wake(), schedule.take()), (None, Vec::new()));
    assert!(schedule.is_due(&"a", Duration::ZERO) && schedule.pauses.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Push(u8),
    Take,
    Fail(u8, u64),
    Succeed(u8),
    SetWake(u8, u64),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let key = 0_u8..4;
    prop_oneof![
        key.clone().prop_map(Act::Push),
        Just(Act::Take),
        (key.clone(), any::<u64>()).prop_map(|(key, random)| Act::Fail(key, random)),
        key.clone().prop_map(Act::Succeed),
        (key, 0_u64..20).prop_map(|(key, after)| Act::SetWake(key, after)),
        (0_u64..5).prop_map(Act::Pass),
    ]
}

proptest! {
    #[test]
    fn no_key_is_lost_and_none_wakes_too_early(acts in prop::collection::vec(act(), 0..80)) {
        let mut schedule = Schedule::<u8>::default();
        let mut now = Duration::ZERO;
        // What is to be handed out now, and when each key wakes, by a simpler book.
        let mut due = BTreeSet::new();
        let mut wakes: BTreeMap<u8, Duration> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Push(key) => {
                    schedule.push(key);
                    due.insert(key);
                }
                Act::Take => {
                    let taken: BTreeSet<u8> = schedule.take().into_iter().collect();
                    prop_assert_eq!(&taken, &due);
                    due.clear();
                }
                Act::Fail(key, random) => {
                    let retry_after = None;
                    let failure = Failure { now, random, retry_after };
                    schedule.fail(&key, &POLICY, failure);
                    let wait = schedule.retry_at(&key).map(|at| at.saturating_sub(now));
                    prop_assert!(wait.is_some_and(|wait| wait >= seconds(1) && wait <= POLICY.max));
                }
                Act::Succeed(key) => {
                    schedule.succeed(&key);
                    prop_assert!(schedule.is_due(&key, now));
                }
                Act::SetWake(key, after) => {
                    let at = now + seconds(after);
                    schedule.set_wake(&key, [at], [], now);
                    let at = at.max(schedule.retry_at(&key).unwrap_or_default());
                    if at > now {
                        wakes.insert(key, at);
                    } else {
                        wakes.remove(&key);
                    }
                }
                Act::Pass(count) => {
                    now += seconds(count);
                    schedule.wake(now);
                    due.extend(wakes.extract_if(.., |_, at| *at <= now).map(|(key, _)| key));
                }
            }
            prop_assert_eq!(schedule.next_wake(), wakes.values().min().copied());
        }
    }
}

#[test]
fn of_a_key_that_woke_nothing_is_left() {
    let mut schedule = Schedule::<&str>::default();
    schedule.set_wake(&"a", [seconds(1)], [], Duration::ZERO);
    assert_eq!(schedule.retry_at(&"a"), None, "it never failed");
    schedule.wake(seconds(1));
    assert_eq!(schedule.take(), ["a"]);
    assert_eq!(
        format!("{schedule:?}"),
        format!("{:?}", Schedule::<&str>::default())
    );
}

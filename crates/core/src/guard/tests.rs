use proptest::prelude::*;

use super::*;
use crate::{
    content::ZoneContent,
    plan::tests::{contents, plan_between, records},
};

/// What a policy lets pass of the plan from one content to another.
fn filtered(policy: &mut dyn Policy, actual: &ZoneContent, desired: &ZoneContent) -> Plan {
    plan_between(actual, desired).filter(policy, &mut Vec::new())
}

const ALL: [WritePolicy; 3] = [
    WritePolicy::Sync,
    WritePolicy::UpsertOnly,
    WritePolicy::CreateOnly,
];

proptest! {
    #[test]
    fn a_filter_only_removes_changes((actual, desired) in contents()) {
        let plan = plan_between(&actual, &desired);
        for mut policy in ALL {
            let mut held = Vec::new();
            let passed = plan.clone().filter(&mut policy, &mut held);
            let both = passed.planned().iter().cloned();
            let both = both.chain(held.into_iter().map(|held| held.planned));
            prop_assert_eq!(&plan, &Plan::new(plan.zone().clone(), both.collect()));
        }
    }

    #[test]
    fn sync_changes_nothing_of_a_plan((actual, desired) in contents()) {
        let passed = filtered(&mut WritePolicy::Sync, &actual, &desired);
        prop_assert_eq!(passed, plan_between(&actual, &desired));
    }

    #[test]
    fn upsert_only_takes_no_set_away((mut actual, desired) in contents()) {
        let plan = filtered(&mut WritePolicy::UpsertOnly, &actual, &desired);
        let before: Vec<_> = actual.sets.keys().cloned().collect();
        plan.rehearse(&mut actual);
        prop_assert!(before.iter().all(|key| actual.sets.contains_key(key)));
        for (key, set) in &desired.sets {
            prop_assert_eq!(actual.sets.get(key), Some(set));
        }
    }

    #[test]
    fn create_only_changes_nothing_that_exists((mut actual, desired) in contents()) {
        let plan = filtered(&mut WritePolicy::CreateOnly, &actual, &desired);
        let before = actual.clone();
        plan.rehearse(&mut actual);
        for (key, set) in &before.sets {
            prop_assert_eq!(actual.sets.get(key), Some(set));
        }
        prop_assert!(desired.sets.keys().all(|key| actual.sets.contains_key(key)));
    }

    #[test]
    fn a_held_plan_keeps_its_digest_and_has_another_than_the_whole(
        (actual, desired) in contents(),
    ) {
        let hold = || {
            let mut held = Vec::new();
            let whole = plan_between(&actual, &desired);
            let passed = whole.clone().filter(&mut WritePolicy::UpsertOnly, &mut held);
            let held = held.into_iter().map(|held| held.planned).collect();
            (Plan::new(whole.zone().clone(), held), passed, whole)
        };
        let (held, passed, whole) = hold();
        prop_assert_eq!(held.digest(), hold().0.digest());
        prop_assert_eq!(passed.is_empty(), held.digest() == whole.digest());
    }
}

#[test]
fn what_is_not_ours_is_refused() {
    let (old, new) = (
        records(&["a.example.com. 60 IN A 192.0.2.1"]),
        records(&["a.example.com. 60 IN A 192.0.2.2"]),
    );
    let plan = plan_between(&old, &new);
    let mut foreign = plan.planned()[0].clone();
    foreign.holder = Holder::Foreign;
    let zone = plan.zone().clone();
    let mut held = Vec::new();
    let passed = Plan::new(zone, vec![foreign.clone()]).filter(&mut OwnedOnly, &mut held);
    assert!(passed.is_empty());
    let judgement = Judgement::Refuse;
    let planned = foreign;
    assert_eq!(held, [HeldBack { planned, judgement }]);
    assert_eq!(plan.clone().filter(&mut OwnedOnly, &mut held), plan);
}

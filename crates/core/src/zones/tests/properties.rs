//! Laws that hold for every history of wishes and faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::{WWW, WWW2, World, declare};

#[derive(Clone, Debug)]
enum Act {
    Declare(usize, Vec<usize>),
    Fail(u32),
    Settle,
}

/// A few lines that clash with each other in every way there is.
const LINES: [&str; 6] = [
    WWW,
    WWW2,
    "www.example.com. 60 IN TXT \"hello\"",
    "www.example.com. 60 IN CNAME a.example.com.",
    "a.example.com. 60 IN A 192.0.2.3",
    "a.example.com. 300 IN CNAME www.example.com.",
];

fn act() -> impl Strategy<Value = Act> {
    let lines = prop::collection::vec(0..LINES.len(), 0..3);
    prop_oneof![
        4 => (0_usize..4, lines).prop_map(|(owner, lines)| Act::Declare(owner, lines)),
        1 => (1_u32..4).prop_map(Act::Fail),
        2 => Just(Act::Settle),
    ]
}

/// Plays a history; each object carries every line that it ever asked for, as controllers see to it.
fn play(acts: &[Act]) -> (World, BTreeMap<usize, Vec<usize>>) {
    let mut world = World::with_zone("mail.example.com. 60 IN A 192.0.2.9");
    let mut wishes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut history: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for act in acts {
        match act {
            Act::Declare(owner, lines) => {
                wishes.insert(*owner, lines.clone());
                let lines_carried = history.entry(*owner).or_default();
                lines_carried.extend(lines);
                let since = i64::try_from(*owner).expect("small");
                let text = |lines: Vec<usize>| {
                    lines
                        .into_iter()
                        .map(|line| LINES[line])
                        .collect::<Vec<_>>()
                        .join("\n")
                };
                let carries = text(lines_carried.iter().copied().collect());
                let asks = text(lines.clone());
                world
                    .zones
                    .declare(declare(&owner.to_string(), since, &asks, &carries));
            }
            Act::Fail(failures) => world.failures += failures,
            Act::Settle => world.settle(),
        }
    }
    world.settle();
    (world, wishes)
}

proptest! {
    #[test]
    fn the_history_does_not_matter_only_the_last_wishes(
        acts in prop::collection::vec(act(), 0..20),
    ) {
        let (world, wishes) = play(&acts);
        let last: Vec<Act> =
            wishes.into_iter().map(|(owner, lines)| Act::Declare(owner, lines)).collect();
        let (fresh, _) = play(&last);
        prop_assert_eq!(world.lines(), fresh.lines());
        prop_assert!(world.lines().contains(&"mail.example.com. 60 IN A 192.0.2.9".to_owned()));
    }

    #[test]
    fn planning_again_after_everything_was_applied_finds_nothing(
        acts in prop::collection::vec(act(), 0..20),
    ) {
        let (mut world, _) = play(&acts);
        let updates = world.updates;
        world.now += Duration::from_mins(1);
        world.zones.wake(world.now);
        world.settle();
        prop_assert_eq!(world.updates, updates);
    }
}

//! More than one message of changes, and more sets than are asked for one by one.

use super::*;
use crate::delta::{Difference, Net};

fn host(number: usize, address: u8) -> String {
    format!("h{number}.example.com. 60 IN A 192.0.2.{address}")
}

fn ask(world: &mut World, number: usize, line: &str, carried: &str) {
    let owner = format!("h{number}");
    world.zones.declare(declare(&owner, 1, line, carried));
}

/// An open zone with these limits on sets in a message and sets that are asked for one by one.
fn with_limits(sets_per_message_max: usize, sets_by_changes_min: usize) -> World {
    let mut world = World::with_zone(&soa(1));
    world.zones.limits.sets_per_message_max = sets_per_message_max;
    world.zones.limits.sets_by_changes_min = sets_by_changes_min;
    world.settle();
    world
}

fn soa(serial: u32) -> String {
    format!("example.com. 60 IN SOA ns.example.com. admin.example.com. {serial} 60 60 60 60")
}

fn next(world: &mut World) -> Option<Step> {
    world.zones.next_step(&name(ZONE), world.now)
}

fn end(world: &mut World, completion: Completion) {
    world.zones.complete(&name(ZONE), completion, world.now);
}

/// The next step, which must be an update; it is carried out on the server and not yet heard of.
fn write(world: &mut World) -> (Vec<Change>, Completion) {
    let step = next(world).expect("something is to be written");
    let Step::Commit(plan) = step.clone() else {
        panic!("{step:?}");
    };
    let completion = world.carry_out(&name(ZONE), step);
    (plan.into_changes(), completion)
}

#[test]
fn a_second_message_leaves_full_or_not_at_all() {
    let mut world = with_limits(2, 200);
    for number in 0..7 {
        ask(&mut world, number, &host(number, 1), "");
    }
    let (first, first_end) = write(&mut world);
    let (second, second_end) = write(&mut world);
    assert_eq!((first.len(), second.len()), (2, 2));
    assert_eq!(next(&mut world), None, "two are on their way");
    end(&mut world, second_end);
    let (third, third_end) = write(&mut world);
    assert_eq!(third.len(), 2);
    end(&mut world, first_end);
    assert_eq!(next(&mut world), None, "one set alone waits for the answer");
    end(&mut world, third_end);
    let (fourth, fourth_end) = write(&mut world);
    assert_eq!(fourth.len(), 1);
    end(&mut world, fourth_end);
    world.settle();
    assert_eq!(world.lines().len(), 8);
    assert_eq!(world.status("h6"), ClaimStatus::Programmed(Serial(5)));
    assert_eq!(world.updates, 4);
}

#[test]
fn many_sets_are_read_back_by_what_changed() {
    let mut world = with_limits(500, 3);
    for number in 0..3 {
        ask(&mut world, number, &host(number, 1), "");
    }
    let (_, sent) = write(&mut world);
    end(&mut world, sent);
    let Some(Step::ReadChanges(since, keys)) = next(&mut world) else {
        panic!("they are many");
    };
    assert_eq!((since, keys.len()), (Serial(1), 3));
    // The server ignored the last of them without a word.
    let steps = Difference {
        to: records(&soa(2)).remove(0),
        removed: Vec::new(),
        added: [0, 1]
            .map(|number| records(&host(number, 1)).remove(0))
            .into(),
        fleeting: Vec::new(),
        returned: Vec::new(),
    };
    end(
        &mut world,
        Completion::ChangesRead(keys, Ok(Delta::Difference(steps))),
    );
    while let Some(step) = next(&mut world) {
        assert_eq!(step, Step::Check, "nothing is written again at once");
        end(&mut world, Completion::Checked(Ok(Serial(2))));
    }
    assert_eq!(world.status("h0"), ClaimStatus::Programmed(Serial(2)));
    assert!(matches!(world.status("h2"), ClaimStatus::Failing(_)));
}

#[test]
fn what_was_seen_on_the_way_does_not_outlast_it() {
    let mut world = with_limits(1, 2);
    let (one, two, three) = (host(0, 1), host(0, 2), host(0, 3));
    ask(&mut world, 0, &one, "");
    world.settle();
    let base = world.server[&name(ZONE)].serial;

    // The second value is read back beside another update, so the serial is not settled.
    ask(&mut world, 0, &two, &one);
    let (_, sent) = write(&mut world);
    end(&mut world, sent);
    let Some(Step::Verify(keys)) = next(&mut world) else {
        panic!("one set is asked for");
    };
    ask(&mut world, 1, &host(1, 1), "");
    let (_, beside) = write(&mut world);
    let seen = world.carry_out(&name(ZONE), Step::Verify(keys));
    end(&mut world, seen);
    end(&mut world, beside);
    // The third value, and two sets to read back: what changed since the first value is asked for.
    ask(&mut world, 0, &three, &two);
    let (_, sent) = write(&mut world);
    end(&mut world, sent);
    let Some(Step::ReadChanges(since, keys)) = next(&mut world) else {
        panic!("they are many");
    };
    assert_eq!(since, base);
    let mut net = Net::default();
    let line = |line: &str| records(line).remove(0);
    net.remove(line(&one));
    net.add(line(&two));
    net.add(line(&host(1, 1)));
    net.remove(line(&two));
    net.add(line(&three));
    let steps = net.steps(line(&soa(world.server[&name(ZONE)].serial.0)));
    end(
        &mut world,
        Completion::ChangesRead(keys, Ok(Delta::Difference(steps))),
    );
    let updates = world.updates;
    world.settle();
    assert_eq!(world.updates, updates, "nothing is left to write");
    let zone = &world.zones.known[&name(ZONE)];
    let key = line(&three).key();
    let standing = zone.children.actual(&key).expect("it stands");
    assert_eq!(standing.data(), [line(&three).data]);
    assert!(!zone.drifted);
}

#[test]
fn a_server_that_sends_the_whole_zone_is_asked_for_sets_instead() {
    let crowd: Vec<String> = (100..120).map(|number| host(number, 9)).collect();
    let mut world = World::with_zone(&format!("{}\n{}", soa(1), crowd.join("\n")));
    world.zones.limits.sets_by_changes_min = 2;
    world.settle();
    let mut steps = Vec::new();
    for round in 1..3 {
        for number in 0..2 {
            let carried = host(number, round - 1);
            ask(&mut world, number, &host(number, round), &carried);
        }
        let (_, sent) = write(&mut world);
        end(&mut world, sent);
        let step = next(&mut world).expect("it is read back");
        let completion = world.carry_out(&name(ZONE), step.clone());
        end(&mut world, completion);
        steps.push(step);
        world.settle();
    }
    assert!(matches!(steps[0], Step::ReadChanges(..)), "{steps:?}");
    assert!(matches!(steps[1], Step::Verify(_)), "{steps:?}");
}

#[test]
fn what_may_be_written_and_not_read_back_is_bounded() {
    let at_rest = |unread: usize| {
        let mut world = World::with_zone("");
        world.settle();
        let zone = world.zones.known.get_mut(&name(ZONE));
        let children = &mut zone.expect("it is declared").children;
        let keys = (0..unread).map(|one| name(&format!("h{one}.example.com.")));
        children.queue_to_verify(keys.map(|name| RecordKey::new(name, RecordType::A)));
        world
    };
    for (unread, writes) in [(4_999, true), (5_000, false)] {
        let mut world = at_rest(unread);
        world.zones.declare(declare("www", 1, WWW, ""));
        let step = world.begin();
        assert_eq!(
            matches!(step, Step::Commit(_)),
            writes,
            "{unread}: {}",
            step.name()
        );
        // With a message on its way, they are read back from there on.
        let mut world = at_rest(unread);
        world
            .zones
            .known
            .get_mut(&name(ZONE))
            .expect("it is declared")
            .commits = 1;
        let step = world.zones.next_step(&name(ZONE), world.now);
        assert_eq!(step.is_none(), writes, "{unread}");
    }
}

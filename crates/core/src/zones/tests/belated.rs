//! Updates of an earlier process that arrive when this one has read the zone.

use super::*;

/// An object that is being deleted and carries this line, of which nothing stands.
fn deleted(line: &str) -> World {
    let mut world = World::with_zone("");
    world.zones.declare(declare("late", 1, "", line));
    world.settle();
    let event = world.zones.event(&object("late")).expect("settled");
    assert_eq!(event.withdrawal, Withdrawal::Done);
    world.zones.forget(&object("late"));
    world
}

/// Somebody else than this process writes.
fn arrives(world: &mut World, lines: &str) {
    let mut standing = world.lines();
    standing.push(lines.to_owned());
    let serial = world.server[&name(ZONE)].serial;
    let mut content = content(&standing.join("\n"));
    content.serial = serial.next();
    world.server.insert(name(ZONE), content);
}

#[test]
fn a_line_that_arrives_when_its_object_is_gone_goes_again() {
    let mut world = deleted(WWW);
    arrives(&mut world, WWW);
    world.look();
    assert_eq!(world.lines(), [""; 0]);
}

#[test]
fn a_line_that_arrives_when_its_object_asks_for_another_goes_again() {
    let mut world = World::with_zone("");
    let other = "other.example.com. 300 IN A 192.0.2.1";
    world.zones.declare(declare("late", 1, other, WWW));
    world.settle();
    world.zones.declare(declare("late", 1, other, ""));
    world.settle();
    arrives(&mut world, WWW);
    world.look();
    assert_eq!(world.lines(), [other]);
}

#[test]
fn a_line_that_was_never_carried_or_was_there_at_first_is_of_others() {
    let mut world = deleted(WWW);
    arrives(&mut world, WWW2);
    world.look();
    assert_eq!(world.lines(), [WWW2]);

    let mut world = World::with_zone(WWW);
    world.zones.declare(declare("late", 1, "", WWW));
    world.settle();
    assert_eq!(world.lines(), [""; 0]);
    world.zones.forget(&object("late"));
    arrives(&mut world, WWW);
    world.look();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn what_comes_much_later_is_of_others() {
    let mut world = deleted(WWW);
    world.now += Duration::from_hours(1);
    world.look();
    arrives(&mut world, WWW);
    world.look();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn a_line_that_was_asked_for_and_withdrawn_goes_again_when_an_old_message_arrives() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("late", 1, WWW, ""));
    world.settle();
    world.zones.declare(declare("late", 1, "", WWW));
    world.settle();
    world.zones.forget(&object("late"));
    arrives(&mut world, WWW);
    world.look();
    assert_eq!(world.lines(), [""; 0]);
}

#[test]
fn a_line_may_be_on_its_way_to_the_end_of_the_horizon() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("late", 1, "", WWW));
    world.settle();
    let zone = world.zones.known.get_mut(&name(ZONE));
    let belated = &mut zone.expect("it is declared").belated;
    let line = records(WWW).remove(0);
    let end = Duration::from_mins(20);
    belated.expire(end);
    assert!(belated.has(&line.key(), &line.data));
    belated.expire(end + Duration::from_nanos(1));
    assert!(!belated.has(&line.key(), &line.data));
}

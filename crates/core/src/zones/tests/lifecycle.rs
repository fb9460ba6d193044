//! Zones that come, are looked at, get lost and go.

use super::{
    followers::{APEX, served},
    *,
};

#[test]
fn a_look_that_finds_nothing_new_is_no_news() {
    let mut world = World::with_zone("");
    world.settle();
    world.zones.take_zone_events();
    world.now += Duration::from_mins(2);
    world.zones.wake(world.now);
    let mut looks = 0;
    for zone in world.zones.take_work() {
        while let Some(step) = world.zones.next_step(&zone, world.now) {
            assert_eq!(step, Step::Check);
            looks += 1;
            let completion = world.carry_out(&zone, step);
            world.zones.complete(&zone, completion, world.now);
        }
    }
    assert_eq!((looks, world.zones.take_zone_events()), (1, Vec::new()));
}

#[test]
fn a_zone_of_ours_that_was_lost_is_not_taken_for_empty() {
    let soa = "example.com. 60 IN SOA ns.example.com. admin.example.com. 1 60 60 60 60";
    let mut world = World::new();
    let hosting = Hosting::Served(records(soa));
    world.zones.declare_zone(zone_declaration(hosting));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.server.clear();
    world.zones.declare(declare("www", 1, "", WWW));
    let zone = name(ZONE);
    let mut lost = false;
    while !world.server.contains_key(&zone) {
        let Some(step) = world.zones.next_step(&zone, world.now) else {
            world.now += Duration::from_secs(1);
            continue;
        };
        let completion = world.carry_out(&zone, step);
        world.zones.complete(&zone, completion, world.now);
        let event = world.zones.zone_event(&zone).expect("it is known");
        lost |= matches!(event.state, ZoneState::Failed(_));
        let told = world.zones.event(&object("www"));
        let told = told.map(|event| event.withdrawal);
        let made = world.server.contains_key(&zone);
        assert!(
            made || told != Some(Withdrawal::Done),
            "others may still have it"
        );
    }
    assert!(lost);
    world.settle();
    let event = world.zones.event(&object("www")).expect("it is told");
    assert_eq!(event.withdrawal, Withdrawal::Done);
}

#[test]
fn a_zone_that_the_server_lacks_is_told_and_opens_once_it_is_there() {
    let mut world = World::new();
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.zones.declare(declare("www", 1, WWW, ""));
    for zone in world.zones.take_work() {
        let step = world.zones.next_step(&zone, world.now).expect("it opens");
        let completion = world.carry_out(&zone, step);
        world.zones.complete(&zone, completion, world.now);
    }
    assert!(matches!(world.status("www"), ClaimStatus::ZoneNotReady(_)));
    world.server.insert(name(ZONE), content(""));
    world.settle();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn a_served_zone_starts_with_its_records_inside() {
    let mut world = World::new();
    world.zones.declare(declare("www", 1, WWW, ""));
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Served(Vec::new())));
    world.settle();
    assert_eq!((world.lines(), world.updates), (vec![WWW.to_owned()], 0));
    world.zones.undeclare_zone(&name(ZONE));
    world.settle();
    assert!(world.server.is_empty());
    let event = world
        .zones
        .zone_event(&name(ZONE))
        .expect("the zone is known");
    assert_eq!(event.state, ZoneState::Gone);
    assert_eq!(world.status("www"), ClaimStatus::NoZone);
}

#[test]
fn a_served_zone_that_vanished_comes_back_with_its_records() {
    let mut world = World::new();
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Served(Vec::new())));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.server.clear();
    world.now += Duration::from_mins(1);
    world.zones.wake(world.now);
    world.settle();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn a_zone_of_others_keeps_what_is_not_ours_when_it_is_retired() {
    let foreign = "mail.example.com. 60 IN A 192.0.2.9";
    let mut world = World::with_zone(foreign);
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.zones.undeclare_zone(&name(ZONE));
    world.settle();
    assert_eq!(world.lines(), [foreign]);
}

#[test]
fn a_line_that_moves_to_a_zone_below_leaves_the_one_above() {
    let host = "www.sub.example.com. 60 IN A 192.0.2.1";
    let beside = "www.sub.example.com. 60 IN TXT \"of others\"";
    let below = name("sub.example.com");
    let mut world = World::with_zone(&format!("{host}\n{beside}"));
    world.server.insert(below.clone(), content(""));
    world.zones.declare_zone(ZoneDeclaration {
        zone: below.clone(),
        ..zone_declaration(Hosting::Elsewhere)
    });
    let mut moved = declare("www", 1, host, "");
    moved.claims[0].zone = below.clone();
    world.zones.declare(moved);
    world.settle();
    assert_eq!(world.lines(), [beside]);
    assert_eq!(world.server[&below].sets.len(), 1);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn drift_is_noticed_by_the_serial_and_repaired() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    let mut drifted = content("");
    drifted.serial = Serial(9);
    world.server.insert(name(ZONE), drifted);
    world.now += Duration::from_mins(1);
    world.zones.wake(world.now);
    world.settle();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn a_line_in_a_zone_that_is_not_declared_yet_is_not_taken_for_gone() {
    let mut world = World::with_zone(WWW);
    world.zones = Zones::new(Limits::default(), servers(&[ServerRole::Primary]));
    world.zones.await_zone(&name(ZONE));
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    let told = |world: &World| {
        world
            .zones
            .event(&object("www"))
            .map(|event| event.withdrawal)
    };
    assert_ne!(told(&world), Some(Withdrawal::Done), "nobody has looked");
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.settle();
    assert!(world.lines().is_empty());
    assert_eq!(told(&world), Some(Withdrawal::Done));
}

#[test]
fn a_claim_that_comes_after_its_zone_is_gone_holds_up_nobody() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.zones.undeclare_zone(&name(ZONE));
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    world.zones.take_events();
    world.zones.take_zone_events();
    assert_eq!(world.zones.zone_event(&name(ZONE)), None, "it is forgotten");
    // Decided a moment before, and withdrawn a moment later.
    let late = "late.example.com. 60 IN A 192.0.2.9";
    world.zones.declare(declare("late", 1, late, ""));
    world.zones.declare(declare("late", 1, "", late));
    world.settle();
    for owner in ["late", "www"] {
        let event = world.zones.event(&object(owner));
        let told = event.map(|event| event.withdrawal);
        assert_eq!(told, Some(Withdrawal::Done), "{owner}");
    }
}

#[test]
fn of_a_name_one_copy_is_kept_however_often_it_is_declared() {
    let mut world = World::with_zone("");
    for revision in 1..=3 {
        let mut declaration = declare("www", 1, WWW, WWW);
        declaration.revision = revision;
        // The first time it is not recorded yet, as in life.
        declaration.published.retain(|_| revision > 1);
        world.zones.declare(declaration);
        world.settle();
    }
    let event = world.zones.event(&object("www")).expect("it is told");
    assert_eq!(event.revision, 3);
    let kept = world.zones.owners.get(&object("www")).expect("it asks");
    let kept = &kept.claims[0].key.name;
    let zone = &world.zones.known[&name(ZONE)];
    let (asked, _) = zone.nodes.get_key_value(kept).expect("it is asked for");
    let desired = zone.children.all_desired().keys().next().expect("one");
    let actual = zone.children.all_actual().keys().next().expect("one");
    for other in [asked, &desired.name, &actual.name] {
        assert!(std::ptr::eq(kept.as_wire(), other.as_wire()));
    }
}

#[test]
fn a_server_that_says_when_to_come_back_is_not_asked_before() {
    let mut world = World::with_zone("");
    world.settle();
    world.zones.declare(declare("www", 1, WWW, ""));
    let Step::Commit(plan) = world.begin() else {
        panic!("there is something to write");
    };
    let hour = Duration::from_hours(1);
    let fault = Fault::new(FaultKind::Refused, "REFUSED").with_retry_after(hour);
    let sent = Sent {
        refused: plan
            .keys()
            .map(|key| (key.clone(), fault.clone()))
            .collect(),
        ..Sent::default()
    };
    world
        .zones
        .complete(&name(ZONE), Completion::Sent(sent), world.now);
    world.pass(Duration::from_mins(30));
    assert_eq!(world.updates, 0);
    world.pass(Duration::from_mins(31));
    assert_eq!(world.updates, 1);
}

#[test]
fn a_value_that_another_object_has_may_be_asked_for_too() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("one", 1, WWW, ""));
    world.settle();
    let mut asking = declare("two", 2, WWW, "");
    asking.published.clear();
    world.zones.declare(asking);
    assert_eq!(world.status("two"), ClaimStatus::Admissible);
}

#[test]
fn a_zone_that_is_taken_back_asks_for_nothing() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.settle();
    let asked = |world: &World| {
        let event = world.zones.zone_event(&name(ZONE));
        event.expect("it is known").sets
    };
    assert_eq!(asked(&world), 2, "its name servers and their addresses");
    world.zones.undeclare_zone(&name(ZONE));
    assert_eq!(asked(&world), 0);
}

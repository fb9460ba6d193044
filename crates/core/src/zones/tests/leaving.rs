//! Zones that are to go, and removals that a restart must not forget.

use std::sync::Arc;

use super::*;
use crate::zones::{Going, HeldPlan, HeldScope, Noted};

const APEX: &str = "\
    example.com. 60 IN SOA ns1.example.com. admin.example.com. 1 60 60 60 60\n\
    example.com. 60 IN NS ns1.example.com.\n\
    ns1.example.com. 60 IN A 192.0.2.53";
const THEIRS: &str = "theirs.example.com. 60 IN A 198.51.100.1";

fn served() -> ZoneDeclaration {
    zone_declaration(Hosting::Served(records(APEX)))
}

fn going(going: Going) -> ZoneDeclaration {
    ZoneDeclaration {
        going: Some(going),
        ..served()
    }
}

fn held(world: &World) -> Option<HeldPlan> {
    let event = world.zones.zone_event(&name(ZONE))?;
    event.held
}

/// A zone that Bindery serves, with a record of ours and what others wrote into it.
fn standing(theirs: &str) -> World {
    let mut world = World::new();
    world
        .server
        .insert(name(ZONE), content(&format!("{APEX}\n{theirs}")));
    world.zones.declare_zone(served());
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert!(world.lines().contains(&WWW.to_owned()));
    world
}

#[test]
fn a_zone_with_data_in_it_goes_only_by_its_authors_word() {
    let rows = [
        // By name, with only our own data in it, and where it moves: at once.
        (Going::Asked, "", true),
        (Going::Moved, "", true),
        (Going::Asked, THEIRS, false),
        (Going::Moved, THEIRS, false),
        (Going::Along, "", false),
        (Going::Along, THEIRS, false),
        (Going::Unsaid, "", false),
    ];
    for (word, theirs, goes) in rows {
        let mut world = standing(theirs);
        world.zones.declare_zone(going(word));
        world.settle();
        assert_eq!(world.server.is_empty(), goes, "{word:?} {theirs:?}");
        if goes {
            continue;
        }
        assert!(world.lines().contains(&WWW.to_owned()), "it is served on");
        let held = held(&world);
        assert_eq!(held.is_none(), word == Going::Unsaid);
        let Some(plan) = held else {
            continue;
        };
        assert_eq!(plan.scope, HeldScope::Zone);
        assert_eq!(plan.foreign, usize::from(!theirs.is_empty()));
        assert_eq!(plan.removals, 1 + plan.foreign);
        let named = ZoneDeclaration {
            allowed: Some(plan.digest.as_str().into()),
            ..going(word)
        };
        world.zones.declare_zone(named);
        world.settle();
        assert!(
            world.server.is_empty(),
            "{word:?} {theirs:?}: it was let go"
        );
    }
}

#[test]
fn a_zone_without_data_goes_with_whatever_takes_it_along() {
    let mut world = World::new();
    world.zones.declare_zone(served());
    world.settle();
    assert!(!world.server.is_empty());
    world.zones.declare_zone(going(Going::Along));
    world.settle();
    assert!(world.server.is_empty());
}

#[test]
fn nothing_goes_from_a_zone_that_is_held_and_all_of_it_comes_back() {
    let mut world = standing(THEIRS);
    world.zones.hold_zone(&name(ZONE));
    // Its object is gone, so the record has no zone any more.
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    assert!(world.lines().contains(&WWW.to_owned()));
    let event = world.zones.event(&object("www")).expect("it is told");
    assert!(matches!(event.withdrawal, Withdrawal::Failing(_)));
    let serial = world.server[&name(ZONE)].serial;

    world.zones.declare_zone(served());
    world.zones.declare(declare("www", 1, WWW, WWW));
    world.settle();
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    assert_eq!(world.server[&name(ZONE)].serial, serial);
    assert!(world.lines().contains(&THEIRS.to_owned()));
    // Guarded as any other: one record may go.
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    assert!(!world.lines().contains(&WWW.to_owned()));
}

#[test]
fn a_word_for_a_zone_as_it_was_is_none_for_what_others_wrote_since() {
    let mut world = standing("");
    world.zones.declare_zone(going(Going::Along));
    world.settle();
    let plan = held(&world).expect("it is held");
    let zone = world.server.get_mut(&name(ZONE)).expect("it is served");
    let line = records(THEIRS).remove(0);
    zone.serial = zone.serial.next();
    let set = RecordSet::new(60, [line.data.clone()]);
    zone.sets.insert(line.key(), set);
    world.now += Duration::from_mins(1);
    world.zones.wake(world.now);
    world.settle();
    world.zones.declare_zone(ZoneDeclaration {
        allowed: Some(plan.digest.as_str().into()),
        ..going(Going::Along)
    });
    world.settle();
    assert!(world.lines().contains(&THEIRS.to_owned()));
    let next = held(&world).expect("it is another plan");
    assert_eq!(
        (next.foreign, next.shown[0].to_string()),
        (1, "theirs.example.com. A".into())
    );
}

#[test]
fn of_many_zones_deleted_by_name_within_a_minute_the_first_three_go() {
    let mut world = World::new();
    let zones: Vec<String> = (0..6)
        .map(|number| format!("zone{number}.example"))
        .collect();
    let apex = |zone: &str| records(&APEX.replace("example.com", zone));
    let declaration = |zone: &str| ZoneDeclaration {
        zone: name(zone),
        ..zone_declaration(Hosting::Served(apex(zone)))
    };
    for zone in &zones {
        world.zones.declare_zone(declaration(zone));
        let line = format!("theirs.{zone}. 60 IN A 192.0.2.1");
        let mut wish = declare(zone, 1, &line, "");
        wish.claims[0].zone = name(zone);
        world.zones.declare(wish);
    }
    world.settle();
    assert_eq!(world.server.len(), 6);
    for zone in &zones {
        world.zones.declare_zone(ZoneDeclaration {
            going: Some(Going::Asked),
            ..declaration(zone)
        });
        world.settle();
    }
    assert_eq!(world.server.len(), 3);
    // They do not go by themselves once the minute is over.
    world.now += Duration::from_mins(5);
    world.zones.wake(world.now);
    world.settle();
    assert_eq!(world.server.len(), 3);
}

/// Lets everything settle, writing down what is to be written down, and returns how often that was.
fn settle_and_note(world: &mut World, noted: &mut Arc<Noted>) -> usize {
    let mut writes = 0;
    loop {
        world.settle();
        let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
        if !event.waits {
            return writes;
        }
        writes += 1;
        let next = event.noted.expect("it is written down");
        *noted = Arc::new(Noted {
            number: noted.number + 1,
            ..Noted::clone(&next)
        });
        world.zones.declare_zone(ZoneDeclaration {
            noted: Some(Arc::clone(noted)),
            ..zone_declaration(Hosting::Elsewhere)
        });
    }
}

fn host(number: usize) -> String {
    format!("h{number}.example.com. 60 IN A 192.0.2.{number}")
}

/// A run that begins with what is written down and what stands in the zone.
fn restart(world: World, noted: &Arc<Noted>, left: std::ops::Range<usize>) -> World {
    let mut next = World::new();
    next.server = world.server;
    for number in left {
        let line = host(number);
        next.zones
            .declare(declare(&format!("h{number}"), 1, &line, &line));
    }
    next.zones.declare_zone(ZoneDeclaration {
        noted: Some(Arc::clone(noted)),
        ..zone_declaration(Hosting::Elsewhere)
    });
    next.settle();
    next
}

#[test]
fn what_was_removed_of_late_counts_after_a_restart() {
    let lines: Vec<String> = (0..100).map(host).collect();
    let mut world = World::new();
    world.server.insert(name(ZONE), content(&lines.join("\n")));
    let mut noted = Arc::new(Noted::default());
    let mut world = restart(world, &noted, 0..100);
    for first in [0, 12, 24] {
        for number in first..first + 12 {
            world
                .zones
                .declare(declare(&format!("h{number}"), 2, "", &host(number)));
        }
        let writes = settle_and_note(&mut world, &mut noted);
        assert!(writes <= 2, "{writes} writes for twelve removals");
        world = restart(world, &noted, first + 12..100);
    }
    assert!(
        world.lines().len() >= 70,
        "{} are left",
        world.lines().len()
    );
}

#[test]
fn what_was_written_down_and_did_not_happen_does_not_count() {
    let lines: Vec<String> = (0..20).map(host).collect();
    let mut world = World::new();
    world.server.insert(name(ZONE), content(&lines.join("\n")));
    let mut noted = Arc::new(Noted::default());
    for round in 0..5 {
        world = restart(world, &noted, round..20);
        world
            .zones
            .declare(declare(&format!("h{round}"), 2, "", &host(round)));
        assert_eq!(settle_and_note(&mut world, &mut noted), 1);
        assert_eq!(noted.marks.len(), round + 1);
        // It is wanted again and removed again, over and over: still one removal.
        world = restart(world, &noted, round..20);
        assert_eq!(world.lines().len(), 20 - round);
        world
            .zones
            .declare(declare(&format!("h{round}"), 2, "", &host(round)));
        settle_and_note(&mut world, &mut noted);
    }
    assert_eq!((world.lines().len(), held(&world)), (15, None));
}

/// A zone of this name with these records in it, on a server of ours.
fn declaration(zone: &str, word: Option<Going>) -> ZoneDeclaration {
    let apex = records(&APEX.replace("example.com", zone));
    ZoneDeclaration {
        zone: name(zone),
        going: word,
        ..zone_declaration(Hosting::Served(apex))
    }
}

/// Zones that are served, the first so many of them with a record of ours in it.
fn zones(count: usize, with_data: usize) -> (World, Vec<String>) {
    let mut world = World::new();
    let zones: Vec<String> = (0..count)
        .map(|number| format!("zone{number}.example"))
        .collect();
    for (number, zone) in zones.iter().enumerate() {
        world.zones.declare_zone(declaration(zone, None));
        if number < with_data {
            let mut wish = declare(zone, 1, &format!("www.{zone}. 60 IN A 192.0.2.1"), "");
            wish.claims[0].zone = name(zone);
            world.zones.declare(wish);
        }
    }
    world.settle();
    assert_eq!(world.server.len(), count);
    (world, zones)
}

#[test]
fn zones_that_are_empty_or_move_do_not_count_among_those_deleted_by_name() {
    for (word, with_data) in [(Going::Asked, 0), (Going::Asked, 1), (Going::Moved, 6)] {
        let (mut world, zones) = zones(6, with_data);
        for zone in &zones {
            world.zones.declare_zone(declaration(zone, Some(word)));
        }
        world.settle();
        assert_eq!(world.server.len(), 0, "{word:?} {with_data}");
    }
}

#[test]
fn of_a_zone_that_others_serve_what_is_ours_is_lost_and_what_is_theirs_is_not() {
    let servers = "example.com. 60 IN NS ns1.example.com.";
    let ours = "ns1.example.com. 60 IN A 192.0.2.53";
    let leave = |world: &mut World| {
        world.zones.declare_zone(ZoneDeclaration {
            going: Some(Going::Along),
            ..zone_declaration(Hosting::Elsewhere)
        });
        world.settle();
        world.zones.zone_event(&name(ZONE)).expect("it is known")
    };
    let mut world = World::with_zone(&format!("{servers}\n{THEIRS}"));
    world.zones.declare(declare("ns1", 1, ours, ""));
    world.settle();
    let event = leave(&mut world);
    let plan = event.held.expect("its address would be taken away");
    assert_eq!((plan.removals, plan.foreign), (1, 0));
    assert_eq!(world.lines().len(), 3);

    let mut world = World::with_zone(&format!("{servers}\n{THEIRS}"));
    world.settle();
    assert_eq!(leave(&mut world).state, ZoneState::Gone);
    assert_eq!(world.lines().len(), 2, "it is with those who serve it");
}

#[test]
fn a_zone_that_is_held_is_told_when_that_is_known() {
    let mut world = standing(THEIRS);
    world.zones.declare_zone(going(Going::Along));
    let zone = name(ZONE);
    let step = world.zones.next_step(&zone, world.now).expect("it is read");
    let completion = world.carry_out(&zone, step);
    world.zones.complete(&zone, completion, world.now);
    world.zones.take_zone_events();
    world.settle();
    let told = world.zones.take_zone_events();
    assert!(told.iter().any(|event| event.held.is_some()), "{told:?}");
}

#[test]
fn what_was_held_with_its_zone_goes_when_the_zone_is_wanted_again() {
    let mut world = standing(THEIRS);
    world.zones.hold_zone(&name(ZONE));
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    assert!(world.lines().contains(&WWW.to_owned()));
    world.zones.declare_zone(served());
    world.settle();
    assert!(!world.lines().contains(&WWW.to_owned()));
    assert!(world.lines().contains(&THEIRS.to_owned()));
}

/// Whether a zone that is to go, and that the leader does not have, is made again before it is gone.
fn is_made_again(world: &mut World, declaration: ZoneDeclaration) -> bool {
    let zone = name(ZONE);
    world.zones.declare(declare("www", 1, "", WWW));
    world.zones.declare_zone(declaration);
    let mut made = false;
    for _ in 0..20 {
        while let Some(step) = world.zones.next_step(&zone, world.now) {
            made |= matches!(&step, Step::Open(Some(_)));
            let completion = world.carry_out(&zone, step);
            world.zones.complete(&zone, completion, world.now);
        }
        world.now += Duration::from_secs(1);
    }
    made
}

#[test]
fn a_zone_that_is_to_go_and_is_missing_is_made_only_to_ask_other_servers() {
    let secondary = [ServerRole::Secondary];
    let with_secondary = || followers::with_followers(&secondary);
    let empty = || ZoneDeclaration {
        going: Some(Going::Asked),
        ..zone_declaration(Hosting::Served(Vec::new()))
    };
    let elsewhere = ZoneDeclaration {
        hosting: Hosting::Elsewhere,
        ..empty()
    };
    let rows = [
        (World::new(), going(Going::Asked), false),
        (World::new(), empty(), false),
        (with_secondary(), empty(), false),
        (World::new(), elsewhere, false),
        (with_secondary(), going(Going::Asked), true),
    ];
    for (mut world, declaration, makes) in rows {
        let text = format!("{declaration:?}");
        assert_eq!(is_made_again(&mut world, declaration), makes, "{text}");
        let event = world.zones.event(&object("www"));
        let told = event.map(|event| event.withdrawal);
        assert_eq!(told, Some(Withdrawal::Done), "{text}");
    }
}

#[test]
fn a_missing_zone_of_which_nothing_is_said_does_not_go() {
    let mut world = World::new();
    is_made_again(
        &mut world,
        ZoneDeclaration {
            going: Some(Going::Unsaid),
            ..zone_declaration(Hosting::Elsewhere)
        },
    );
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_ne!(event.state, ZoneState::Gone);
}

#[test]
fn zones_that_are_deleted_by_name_at_once_count_before_any_of_them_is_gone() {
    let together = |count: usize| {
        let (mut world, zones) = zones(count, count);
        for zone in &zones {
            world
                .zones
                .declare_zone(declaration(zone, Some(Going::Asked)));
        }
        world.settle();
        world.server.len()
    };
    assert_eq!(together(3), 0);
    assert_eq!(together(4), 4, "nobody can tell which three were meant");
}

#[test]
fn a_zone_is_made_again_where_its_soa_is_known_and_nothing_else_helps() {
    let soa = records(APEX).into_iter();
    let (soa, others): (Vec<Record>, Vec<Record>) =
        soa.partition(|record| record.data.rtype() == RecordType::Soa);
    for (records, makes) in [(soa, true), (others, false)] {
        let mut world = followers::with_followers(&[ServerRole::Secondary]);
        let declaration = ZoneDeclaration {
            going: Some(Going::Asked),
            ..zone_declaration(Hosting::Served(records))
        };
        assert_eq!(is_made_again(&mut world, declaration), makes);
    }
}

#[test]
fn a_zone_that_is_held_and_that_its_server_loses_is_not_shown_as_it_was() {
    let mut world = standing(THEIRS);
    world.zones.declare_zone(going(Going::Along));
    world.settle();
    assert!(held(&world).is_some());
    let missing = Fault::new(FaultKind::Missing, "no such zone");
    let zone = name(ZONE);
    world
        .zones
        .complete(&zone, Completion::Read(Err(missing)), world.now);
    assert_eq!(held(&world), None, "nothing is known of it");
}

#[test]
fn a_zone_is_told_to_be_held_in_the_moment_it_is() {
    let mut world = standing(THEIRS);
    world.zones.declare_zone(going(Going::Along));
    let read = world.begin();
    world.end(read);
    world.zones.take_zone_events();
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let told = world.zones.take_zone_events();
    assert!(told.iter().any(|event| event.held.is_some()), "{told:?}");
}

#[test]
fn what_its_object_puts_into_a_zone_is_no_data() {
    let mut world = World::new();
    let lines = format!("{APEX}\nns0.example.com. 60 IN A 192.0.2.52");
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Served(records(&lines))));
    world.settle();
    assert_eq!(world.lines().len(), 4);
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.data, 0);
}

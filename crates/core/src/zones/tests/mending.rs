//! What others write over our sets is put right; what is theirs stays.

use std::time::Duration;

use super::{
    ClaimStatus, Completion, Delta, Limits, Step, WWW, WWW2, World, ZONE, ZoneContent,
    answers::with_limits, content, declare, name, object, records,
};
use crate::{Adoption, RecordKey, RecordType, Serial};

const FOREIGN: &str = "mail.example.com. 60 IN A 192.0.2.9";
const ALIAS: &str = "www.example.com. 300 IN CNAME other.example.com.";
const STRANGE: &str = "www.example.com. 60 IN A 198.51.100.9";

/// A world in which www was served, with a foreign set beside it.
fn with(line: &str) -> World {
    let mut world = World::with_zone(FOREIGN);
    world.zones.declare(declare("www", 1, line, ""));
    world.settle();
    assert_eq!(served(&world), [line]);
    world
}

/// What is served beside the foreign set, which must be there.
fn served(world: &World) -> Vec<String> {
    let mut lines = world.lines();
    assert!(lines.iter().any(|line| line == FOREIGN), "{lines:?}");
    lines.retain(|line| line != FOREIGN);
    lines
}

/// Somebody else makes the zone hold these lines and the foreign set.
fn overwrite(world: &mut World, lines: &str) {
    let serial = world.server[&name(ZONE)].serial;
    let sets = content(&format!("{FOREIGN}\n{lines}")).sets;
    let serial = Serial(serial.0 + 1);
    world
        .server
        .insert(name(ZONE), ZoneContent { serial, sets });
    world.now += Duration::from_secs(30);
    world.zones.wake(world.now);
    world.settle();
}

#[test]
fn a_set_that_we_have_had_is_mended_whole() {
    let rows = [
        (WWW, STRANGE.to_owned()),
        (WWW, ALIAS.to_owned()),
        (WWW, format!("{WWW}\n{STRANGE}")),
        (WWW, String::new()),
        (ALIAS, STRANGE.to_owned()),
        (
            ALIAS,
            format!("{STRANGE}\nwww.example.com. 60 IN TXT \"theirs\""),
        ),
        (
            ALIAS,
            "www.example.com. 300 IN CNAME theirs.example.com.".to_owned(),
        ),
    ];
    for (ours, theirs) in rows {
        let mut world = with(ours);
        overwrite(&mut world, &theirs);
        assert_eq!(served(&world), [ours], "after {theirs:?}");
        assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    }
}

#[test]
fn what_others_put_there_is_told() {
    let mut world = with(WWW);
    overwrite(&mut world, &format!("{WWW}\n{STRANGE}"));
    let event = world.zones.event(&object("www")).expect("it is settled");
    let mended = event.outcomes[0].mended.clone().expect("it was mended");
    assert_eq!(mended.times, 1);
    assert_eq!(mended.found[0].to_string(), "198.51.100.9");
}

#[test]
fn the_status_knows_of_a_set_that_was_replaced_while_nobody_looked() {
    let mut world = World::with_zone(&format!("{FOREIGN}\n{STRANGE}"));
    let mut www = declare("www", 1, WWW, "");
    www.had = vec![RecordKey::new(name("www.example.com."), RecordType::A)];
    world.zones.declare(www);
    world.settle();
    assert_eq!(served(&world), [WWW]);
}

#[test]
fn a_set_that_we_never_had_stays_though_its_object_carries_a_line_of_it() {
    for theirs in [STRANGE, ALIAS] {
        let mut world = World::with_zone(&format!("{FOREIGN}\n{theirs}"));
        world.zones.declare(declare("www", 1, WWW, ""));
        world.settle();
        assert_eq!(served(&world), [theirs]);
        assert_eq!(world.status("www"), ClaimStatus::NotOwned);
    }
}

#[test]
fn a_claim_is_published_when_what_stood_in_its_way_is_gone() {
    let mut world = World::with_zone(&format!("{FOREIGN}\n{ALIAS}"));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert_eq!(world.status("www"), ClaimStatus::NotOwned);
    overwrite(&mut world, "");
    assert_eq!(served(&world), [WWW]);
}

#[test]
fn what_an_object_lets_go_stays_with_those_who_wrote_it() {
    let mut world = with(WWW);
    overwrite(&mut world, "");
    world.zones.declare(declare("www", 1, "", WWW));
    world.settle();
    overwrite(&mut world, STRANGE);
    assert_eq!(served(&world), [STRANGE]);
    world.zones.declare(declare("www", 1, WWW2, ""));
    world.settle();
    assert_eq!(served(&world), [STRANGE], "it is a new wish");
}

#[test]
fn whoever_writes_over_us_for_ever_is_answered_less_and_less_often() {
    let mut world = with(WWW);
    let before = world.updates;
    for _ in 0..300 {
        let serial = world.server[&name(ZONE)].serial;
        let sets = content(&format!("{FOREIGN}\n{STRANGE}")).sets;
        let serial = Serial(serial.0 + 1);
        world
            .server
            .insert(name(ZONE), ZoneContent { serial, sets });
        world.now += Duration::from_secs(1);
        world.zones.wake(world.now);
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                let completion = world.carry_out(&zone, step);
                world.zones.complete(&zone, completion, world.now);
            }
        }
    }
    let updates = world.updates - before;
    assert!(
        (5..20).contains(&updates),
        "{updates} updates in 300 seconds"
    );
    let event = world.zones.event(&object("www")).expect("it is told");
    let ClaimStatus::Failing(fault) = &event.outcomes[0].status else {
        panic!("{:?}", event.outcomes[0].status);
    };
    assert!(fault.message.contains("198.51.100.9"), "{}", fault.message);
    world.now += Duration::from_mins(2);
    world.zones.wake(world.now);
    world.settle();
    assert_eq!(served(&world), [WWW]);
}

#[test]
fn who_never_had_a_set_has_not_had_it_after_an_edit_and_who_had_it_still_has() {
    let more = "more.example.com. 300 IN A 192.0.2.5";
    let both = format!("{WWW}\n{more}");
    let mut world = World::with_zone(&format!("{FOREIGN}\n{STRANGE}"));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    world.zones.declare(declare("www", 1, &both, ""));
    world.settle();
    assert!(served(&world).contains(&STRANGE.to_owned()));

    let mut world = with(WWW);
    world.zones.declare(declare("www", 1, &both, ""));
    world.settle();
    overwrite(&mut world, &format!("{STRANGE}\n{more}"));
    assert!(served(&world).contains(&WWW.to_owned()));
    assert!(!served(&world).contains(&STRANGE.to_owned()));
}

#[test]
fn what_took_the_place_of_a_set_goes_in_the_message_that_brings_it_back() {
    let mut world = with(WWW);
    overwrite(&mut world, ALIAS);
    let last = world.messages.last().expect("a message");
    assert_eq!(last.len(), 2, "{last:?}");
}

#[test]
fn a_set_may_be_mended_again_when_its_time_has_come_and_calm_makes_it_the_first() {
    let mut world = with(WWW);
    let key = RecordKey::new(name("www.example.com."), RecordType::A);
    let zone = name(ZONE);
    let mut mend = |now| {
        let zone = world.zones.known.get_mut(&zone).expect("it is known");
        zone.mend(&key, &[], now)
    };
    let start = Duration::from_secs(100);
    assert_eq!(mend(start), Ok(()));
    let until = mend(start).expect_err("it has to wait");
    assert!(until > start);
    assert_eq!(mend(until), Ok(()));
    let next = mend(until).expect_err("it has to wait");
    assert!(
        next.saturating_sub(until) > until.saturating_sub(start),
        "longer and longer"
    );
    let calm = Duration::from_mins(10);
    assert_eq!(mend(next + calm), Ok(()));
    let last = mend(next + calm).expect_err("it has to wait");
    let first = until.saturating_sub(start);
    assert_eq!(last, next + calm + first, "as the first time");
}

#[test]
fn a_name_that_a_stranger_gives_free_is_taken_when_that_is_seen_to_change() {
    let theirs = "www.example.com. 60 IN CNAME other.example.com.";
    let soa = "example.com. 60 IN SOA ns1.example.com. admin.example.com. 8 60 60 60 60";
    let mut world = World::with_zone(&format!("{}\n{theirs}", soa.replace(" 8 ", " 7 ")));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert_eq!(world.status("www"), ClaimStatus::NotOwned);
    world.server.insert(name(ZONE), content(soa));
    let steps = crate::delta::Difference {
        to: records(soa).remove(0),
        removed: records(theirs),
        added: Vec::new(),
        fleeting: Vec::new(),
        returned: Vec::new(),
    };
    let changed = Completion::ChangesRead(Vec::new(), Ok(Delta::Difference(steps)));
    world.zones.complete(&name(ZONE), changed, world.now);
    world.settle();
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    assert!(world.lines().contains(&WWW.to_owned()));
}

#[test]
fn what_stands_in_the_way_goes_once_and_in_the_same_message() {
    let mut world = with(WWW);
    overwrite(&mut world, ALIAS);
    let message = world.messages.last().expect("it was mended");
    let removals: Vec<bool> = message.iter().map(crate::Change::is_removal).collect();
    assert_eq!(removals, [true, false], "{message:?}");
}

#[test]
fn what_stands_in_the_way_goes_though_nobody_touched_it_of_late() {
    let mut world = World::with_zone(&format!("{FOREIGN}\n{ALIAS}"));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert_eq!(world.status("www"), ClaimStatus::NotOwned);
    // The object turns out to have had the set.
    let mut www = declare("www", 1, WWW2, "");
    www.had = vec![RecordKey::new(name("www.example.com."), RecordType::A)];
    world.zones.declare(www);
    world.settle();
    assert_eq!(served(&world), [WWW2]);
    assert_eq!(world.messages.len(), 1, "{:?}", world.messages);
}

#[test]
fn what_stands_in_the_way_and_is_on_its_way_out_is_not_sent_again() {
    let text = "www.example.com. 300 IN TXT \"ours\"";
    let mut world = with_limits(Limits {
        sets_per_message_max: 1,
        ..Limits::default()
    });
    let serial = world.server[&name(ZONE)].serial.next();
    let sets = content(ALIAS).sets;
    let there = ZoneContent { serial, sets };
    world.server.insert(name(ZONE), there);
    world.look();
    let had = |owner: &str, line: &str| {
        let mut declaration = declare(owner, 1, line, "");
        declaration.had = vec![records(line)[0].key()];
        declaration
    };
    let len = |step: &Step| {
        let Step::Commit(plan) = step else {
            panic!("{step:?}");
        };
        plan.len()
    };
    world.zones.declare(had("one", WWW));
    let first = world.begin();
    assert_eq!(len(&first), 2, "the CNAME goes and the address comes");
    world.zones.declare(had("two", text));
    let second = world.begin();
    assert_eq!(len(&second), 1);
    world.end(first);
    world.end(second);
    world.settle();
    assert_eq!(world.lines(), [WWW, text]);
}

#[test]
fn what_objects_do_themselves_is_not_told_as_if_others_had_done_it() {
    let mended = |world: &World| {
        let event = world.zones.event(&object("www")).expect("it is settled");
        event.outcomes[0].mended.clone()
    };
    let mut world = with(WWW);
    world.zones.declare(declare("www", 1, WWW2, WWW));
    world.settle();
    assert_eq!(
        (served(&world), mended(&world)),
        (vec![WWW2.to_owned()], None)
    );
    // Nor where it takes over what others have, by its author's word.
    let mut world = World::with_zone(&format!("{FOREIGN}\n{STRANGE}"));
    let mut taking = declare("www", 1, WWW, "");
    taking.adoption = Adoption::Take;
    world.zones.declare(taking);
    world.settle();
    assert_eq!(
        (served(&world), mended(&world)),
        (vec![WWW.to_owned()], None)
    );
}

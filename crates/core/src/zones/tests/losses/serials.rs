//! Serials never go back, whatever a server lost.

use super::*;

#[test]
fn a_zone_that_may_have_been_there_begins_beyond_what_nobody_was_told() {
    let mut world = World::new();
    world.zones.declare_zone(ZoneDeclaration {
        serial_floor: SerialFloor::Untold,
        ..served(APEX)
    });
    world.pass(Duration::from_secs(5));
    assert_eq!(world.serial(), Serial(1_001));
}

#[test]
fn a_zone_that_is_created_again_goes_beyond_the_serial_it_had() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let before = world.serial();
    world.server.clear();
    world.pass(Duration::from_secs(5));
    assert!(world.serial().newer_than(before), "{}", world.serial());
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn a_zone_that_vanished_while_nobody_looked_goes_beyond_what_its_status_told() {
    let mut world = World::new();
    world.zones.declare_zone(with_floor(61));
    world.pass(Duration::from_secs(5));
    assert!(world.serial().newer_than(Serial(61)), "{}", world.serial());
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.mended, Some(Serial(61)), "people are told");
}

#[test]
fn an_older_version_is_not_ready_before_it_is_beyond_what_its_status_told() {
    let mut world = World::new();
    world.server.insert(name(ZONE), content(APEX));
    world.zones.declare_zone(with_floor(49));
    world.zones.declare(declare("www", 1, WWW, ""));
    let mut told = Vec::new();
    while world.now < Duration::from_secs(5) {
        world.pass(Duration::ZERO);
        if state(&world) == ZoneState::Ready {
            told.push(world.serial());
        }
        world.now += Duration::from_millis(100);
        world.zones.wake(world.now);
    }
    assert!(world.has(WWW));
    let ready = told.first().expect("it becomes ready");
    assert!(ready.newer_than(Serial(49)), "{told:?}");
}

/// The next process has to know it, should this one end in between.
#[test]
fn while_a_server_is_behind_what_it_had_the_receipt_says_what_that_was() {
    let mut world = World::new();
    world.server.insert(name(ZONE), content(APEX));
    world.zones.declare_zone(with_floor(49));
    let mut told = Vec::new();
    for _ in 0..20 {
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                let completion = world.carry_out(&zone, step);
                world.zones.complete(&zone, completion, world.now);
                told.extend(world.zones.zone_event(&zone).map(|event| event.fallen_from));
            }
        }
    }
    assert!(told.contains(&Some(Serial(49))), "{told:?}");
    assert_eq!(told.last(), Some(&None), "{told:?}");
}

/// Some sets are read back after a change long before the whole zone is.
#[test]
fn a_serial_that_went_back_is_never_told_without_the_one_before() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let older = world.server[&name(ZONE)].clone();
    for _ in 0..5 {
        world.write(THEIRS);
    }
    world.pass(Duration::from_mins(1));
    let before = world.serial();
    world.server.insert(name(ZONE), older);
    world.zones.declare(declare("api", 1, API, ""));
    let mut is_told = false;
    for _ in 0..20 {
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                let completion = world.carry_out(&zone, step);
                world.zones.complete(&zone, completion, world.now);
                let event = world.zones.zone_event(&zone).expect("the zone is known");
                if event.serial.is_some_and(|serial| before.newer_than(serial)) {
                    assert_eq!(event.fallen_from, Some(before));
                    is_told = true;
                }
            }
        }
    }
    assert!(is_told, "it went back");
}

#[test]
fn changes_on_the_way_up_do_not_pass_for_the_serial_that_no_status_told() {
    let mut world = World::new();
    world.server.insert(name(ZONE), content(APEX));
    // Content begins at 7: the change that writes the record again leads to the floor itself.
    world.zones.declare_zone(with_floor(8));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(world.has(WWW));
    assert_eq!(state(&world), ZoneState::Ready);
    assert!(
        world.serial().newer_than(Serial(1_000)),
        "{}",
        world.serial()
    );
}

#[test]
fn a_status_that_tells_nonsense_breaks_nothing() {
    // Older, the same, and at the distance that RFC 1982 leaves undefined.
    for floor in [6, 7, 7 + (1 << 31)] {
        let mut world = World::new();
        world.server.insert(name(ZONE), content(APEX));
        world.zones.declare_zone(with_floor(floor));
        world.pass(Duration::from_secs(5));
        assert_eq!(world.serial(), Serial(7), "{floor}");
        assert_eq!(state(&world), ZoneState::Ready);
    }
    // Nearly as far ahead as can be, and a little less: servers still take that for newer.
    for (ahead, goes) in [(2, false), (1_010, true)] {
        let mut world = World::new();
        world.server.insert(name(ZONE), content(APEX));
        world.zones.declare_zone(with_floor(7 + (1 << 31) - ahead));
        world.pass(Duration::from_secs(5));
        assert_eq!(world.serial().newer_than(Serial(7)), goes, "{ahead}");
        assert_eq!(state(&world), ZoneState::Ready);
    }
}

#[test]
fn a_serial_that_is_told_later_moves_nothing() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.declare_zone(with_floor(1_000_000));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.serial(), Serial(7));
}

#[test]
fn the_serial_that_its_author_asks_for_counts_where_it_is_newer() {
    let mut world = World::new();
    let asked = APEX.replace(" 7 60", " 2026111701 60");
    world.zones.declare_zone(ZoneDeclaration {
        serial_floor: SerialFloor::Told(Serial(49)),
        ..served(&asked)
    });
    world.pass(Duration::from_secs(5));
    assert_eq!(world.serial(), Serial(2_026_111_701));
}

#[test]
fn no_server_is_given_what_a_fallen_leader_has_before_that_is_beyond() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.server.insert(name(ZONE), content(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.zones.declare_zone(with_floor(49));
    let zone = name(ZONE);
    let renewal = loop {
        let step = world.zones.next_step(&zone, world.now);
        let step = step.expect("its serial goes beyond");
        if matches!(step, Step::Renew(_)) {
            break step;
        }
        let completion = world.carry_out(&zone, step);
        world.zones.complete(&zone, completion, world.now);
    };
    assert_eq!(world.zones.next_step(&zone, world.now), None);
    let completion = world.carry_out(&zone, renewal);
    world.zones.complete(&zone, completion, world.now);
    let step = world.zones.next_step(&zone, world.now);
    assert!(matches!(step, Some(Step::Follow(_))), "{step:?}");
}

#[test]
fn a_leader_on_its_way_up_is_fallen_for_the_next_process_too() {
    let restart = |has: u32| {
        let mut world = World::new();
        let apex = APEX.replace(" 7 60", &format!(" {has} 60"));
        world.server.insert(name(ZONE), content(&apex));
        world.zones.declare_zone(ZoneDeclaration {
            serial_floor: SerialFloor::Fallen(Serial(7)),
            ..served(APEX)
        });
        world.pass(Duration::from_secs(5));
        assert_eq!(state(&world), ZoneState::Ready);
        world.serial()
    };
    assert_eq!(restart(7), Serial(1_008));
    assert_eq!(restart(9), Serial(1_008), "what was written on the way");
    assert_eq!(restart(1_008), Serial(1_008), "it is beyond");
}

#[test]
fn nothing_is_ready_while_another_server_has_an_older_version_with_a_newer_serial() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.server.insert(name(ZONE), content(APEX));
    world.serials.insert(server(1), Ok(Serial(50)));
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(3));
    assert!(world.serial().newer_than(Serial(50)));
    assert!(matches!(state(&world), ZoneState::Degraded(_)));
    assert!(matches!(world.status("www"), ClaimStatus::Lagging(_)));
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&world), ZoneState::Ready);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_leader_that_fell_back_is_told_until_it_is_beyond() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let backup = world.server[&name(ZONE)].clone();
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    world.server.insert(name(ZONE), backup);
    let mut told = Vec::new();
    world.watch(Duration::from_secs(5), |world, _| {
        if let ZoneState::Degraded(fault) = state(world) {
            told.push(fault);
        }
    });
    let lost = |fault: &Fault| fault.message.contains("found at serial 7 after 8");
    assert!(told.iter().any(lost), "{told:?}");
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn only_of_a_zone_of_others_a_serial_that_nobody_may_write_is_left_alone() {
    let elsewhere = zone_declaration(Hosting::Elsewhere);
    for (declaration, is_left) in [(elsewhere, true), (served(APEX), false)] {
        let mut world = World::new();
        world.server.insert(name(ZONE), content(APEX));
        world.zones.declare_zone(declaration);
        world.pass(Duration::from_secs(5));
        let backup = world.server[&name(ZONE)].clone();
        world.zones.declare(declare("www", 1, WWW, ""));
        world.pass(Duration::from_secs(5));
        world.server.insert(name(ZONE), backup);
        world.refusal = Some(Fault::new(FaultKind::Refused, "not allowed"));
        world.pass(Duration::from_mins(2));
        assert!(world.has(WWW));
        assert_eq!(state(&world) == ZoneState::Ready, is_left);
    }
}

#[test]
fn a_serial_that_another_server_had_before_the_leader_fell_says_nothing() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    let before = content(&format!("{APEX}\n{WWW}"));
    world.server.insert(name(ZONE), before);
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_secs(3));
    assert!(world.serial().newer_than(Serial(49)));
    assert!(matches!(world.status("www"), ClaimStatus::Lagging(_)));
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_zone_is_made_again_with_everything_in_it_and_beyond_what_was_seen() {
    let text = "new.example.com. 60 IN TXT \"theirs\"";
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    world.write(&format!("{THEIRS}\n{text}"));
    world.pass(Duration::from_secs(5));
    let before = world.serial();
    world.server.clear();
    // Somebody wants an alias where others had a text.
    let alias = "new.example.com. 60 IN CNAME www.example.com.";
    world.pass(Duration::from_secs(1));
    world.server.clear();
    world.zones.declare(declare("new", 1, alias, ""));
    let mut made = Vec::new();
    world.watch(Duration::from_secs(5), |_, step| {
        if let Some(Step::Open(Some(records))) = step {
            made.clone_from(records);
        }
    });
    let lines: Vec<String> = made.iter().map(ToString::to_string).collect();
    let has = |line: &str| lines.iter().any(|one| one == line);
    assert!(has(WWW) && has(THEIRS) && has(alias), "{lines:?}");
    assert!(!has(text), "{lines:?}");
    let serial = made.iter().find_map(|record| {
        let RecordData::Soa(soa) = &record.data else {
            return None;
        };
        Some(Serial(soa.serial))
    });
    assert!(serial.is_some_and(|serial| serial.newer_than(before)));
}

#[test]
fn the_leader_goes_beyond_the_version_that_another_server_still_has() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.server.insert(name(ZONE), content(APEX));
    world.others = Some(content(&APEX.replace(" 7 60", " 5000 60")));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_secs(5));
    assert!(world.serial().newer_than(Serial(5_000)));
}

#[test]
fn where_it_is_remembered_what_the_leader_had_others_are_not_asked() {
    let stray = "stray.example.com. 60 IN A 192.0.2.200";
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let backup = world.server[&name(ZONE)].clone();
    world.write(THEIRS);
    world.pass(Duration::from_secs(5));
    let newer = format!("{}\n{stray}", APEX.replace(" 7 60", " 60 60"));
    world.others = Some(content(&newer));
    world.server.insert(name(ZONE), backup);
    world.pass(Duration::from_secs(5));
    assert!(
        world.has(THEIRS) && !world.has(stray),
        "{:?}",
        world.lines()
    );
}

#[test]
fn a_zone_that_cannot_be_read_tells_the_serial_that_was_told_before() {
    let mut world = World::new();
    world.failures = 100;
    world.zones.declare_zone(with_floor(61));
    world.pass(Duration::from_secs(1));
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.serial, Some(Serial(61)));
}

/// The secondary has the older version as well, under the serial that the leader was found with.
#[test]
fn nothing_is_ready_before_others_have_what_a_fallen_lead_was_given() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.server.insert(name(ZONE), content(APEX));
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_millis(500));
    assert!(world.serial().newer_than(Serial(49)), "{}", world.serial());
    assert_eq!(state(&world), ZoneState::Opening);
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&world), ZoneState::Ready);
}

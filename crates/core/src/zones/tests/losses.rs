//! Servers that lose data, come back with older data, or do not answer.

mod order;
mod serials;

use super::{followers::*, *};

const THEIRS: &str = "theirs.example.com. 60 IN A 192.0.2.99";
const API: &str = "api.example.com. 60 IN A 192.0.2.2";

impl World {
    fn serial(&self) -> Serial {
        self.server[&name(ZONE)].serial
    }

    /// Somebody else writes a record on the leader.
    fn write(&mut self, line: &str) {
        let content = self.server.get_mut(&name(ZONE)).expect("the zone is there");
        for record in records(line) {
            let set = RecordSet::new(record.ttl, [record.data.clone()]);
            content.sets.insert(record.key(), set);
        }
        content.serial = content.serial.next();
    }

    fn has(&self, line: &str) -> bool {
        self.lines().contains(&line.to_owned())
    }
}

fn with_floor(floor: u32) -> ZoneDeclaration {
    ZoneDeclaration {
        serial_floor: SerialFloor::Told(Serial(floor)),
        ..served(APEX)
    }
}

#[test]
fn a_lead_that_falls_back_gets_what_others_wrote_and_not_what_was_withdrawn() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("api", 1, API, ""));
    world.pass(Duration::from_secs(5));
    let backup = world.server[&name(ZONE)].clone();
    world.write(THEIRS);
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    world.zones.declare(declare("api", 1, "", API));
    world.pass(Duration::from_secs(5));
    world.zones.forget(&object("api"));
    let before = world.serial();
    assert!(world.has(THEIRS) && world.has(WWW) && !world.has(API));

    world.server.insert(name(ZONE), backup);
    world.pass(Duration::from_secs(5));
    assert!(world.serial().newer_than(before), "{}", world.serial());
    assert!(world.has(THEIRS) && world.has(WWW), "{:?}", world.lines());
    assert!(!world.has(API), "{:?}", world.lines());
    assert_eq!(state(&world), ZoneState::Ready);
    // What others remove from then on stays removed.
    let content = world.server.get_mut(&name(ZONE)).expect("it is there");
    content.sets.remove(&records(THEIRS)[0].key());
    content.serial = content.serial.next();
    world.pass(Duration::from_secs(5));
    assert!(!world.has(THEIRS));
}

#[test]
fn a_change_that_is_lost_while_another_comes_is_noticed() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(world.has(WWW));
    // The server goes back by one change, and takes the next: its serial is what it was.
    let mut older = content("");
    older.serial = Serial(world.serial().0 - 1);
    world.server.insert(name(ZONE), older);
    world.zones.declare(declare("api", 1, API, ""));
    world.pass(Duration::from_mins(2));
    assert!(world.has(API));
    assert!(world.has(WWW), "{:?}", world.lines());
}

#[test]
fn a_zone_that_vanishes_comes_back_with_what_others_wrote() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.write(THEIRS);
    world.pass(Duration::from_secs(5));
    world.server.clear();
    world.pass(Duration::from_secs(5));
    assert!(world.has(THEIRS), "{:?}", world.lines());
}

#[test]
fn what_another_server_still_has_is_put_back_after_a_restart() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.server.insert(name(ZONE), content(APEX));
    let newer = format!("{}\n{THEIRS}\n{API}", APEX.replace(" 7 60", " 49 60"));
    world.others = Some(content(&newer));
    world.serials.insert(server(1), Ok(Serial(49)));
    // It withdrew its record from the leader, and waits for the secondary to hear of it.
    world.zones.declare(declare("api", 1, "", API));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_millis(500));
    assert!(world.has(THEIRS), "{:?}", world.lines());
    assert!(!world.has(API), "{:?}", world.lines());
    assert!(world.serial().newer_than(Serial(49)));
}

#[test]
fn what_the_newest_version_elsewhere_does_not_have_is_not_brought_back_by_an_older_one() {
    let restart = |newer: u32| {
        let mut world = with_followers(&[ServerRole::Primary]);
        let older = content(&format!("{APEX}\n{THEIRS}\n{API}"));
        world.server.insert(name(ZONE), older);
        let newest = APEX.replace(" 7 60", &format!(" {newer} 60"));
        world.others = Some(content(&format!("{newest}\n{THEIRS}")));
        world.serials.insert(server(1), Ok(Serial(newer)));
        // Its object went with leave of every server that was there.
        world.zones.declare_zone(with_floor(49));
        world.pass(Duration::from_millis(500));
        assert!(world.has(THEIRS), "{:?}", world.lines());
        world.has(API)
    };
    assert!(!restart(49), "it was taken away in between");
    assert!(restart(48), "nobody has the newest version");
}

#[test]
fn what_others_wrote_on_a_second_primary_is_kept_on_the_lead() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("api", 1, "", API));
    world.pass(Duration::from_secs(5));
    world.extras = Some((Serial(9), format!("{THEIRS}\n{API}")));
    world.pass(Duration::from_secs(30));
    assert!(world.has(THEIRS), "{:?}", world.lines());
    assert!(!world.has(API), "{:?}", world.lines());
    // The rest was let go.
    assert_eq!(world.extras, None);
}

#[test]
fn what_cannot_stand_on_the_lead_is_told() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.write(THEIRS);
    world.pass(Duration::from_secs(5));
    let alias = "theirs.example.com. 60 IN CNAME else.example.net.";
    world.extras = Some((Serial(9), alias.to_owned()));
    world.pass(Duration::from_secs(30));
    let ZoneState::Degraded(fault) = state(&world) else {
        panic!("{:?}", state(&world));
    };
    let set = "theirs.example.com. CNAME";
    assert!(fault.message.contains(set), "{fault}");
    assert!(world.extras.is_some(), "nothing was taken away");
}

#[test]
fn what_stands_on_another_primary_in_place_of_a_set_that_we_had_goes() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let alias = "www.example.com. 60 IN CNAME else.example.net.";
    world.extras = Some((Serial(9), alias.to_owned()));
    world.pass(Duration::from_secs(30));
    assert_eq!(world.extras, None);
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn a_silent_server_is_told_of_every_zone_and_taken_back_when_it_answers() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.take_zone_events();
    let silence = |server: &str| Err(Fault::new(FaultKind::Lost, format!("{server} is silent")));
    world
        .zones
        .on_answer(&server(1), silence("192.0.2.2"), world.now);
    assert_eq!(world.zones.take_zone_events().len(), 1);
    let ZoneState::Degraded(fault) = state(&world) else {
        panic!("{:?}", state(&world));
    };
    assert_eq!(fault.kind, FaultKind::Behind);
    world
        .zones
        .on_answer(&server(0), silence("192.0.2.1"), world.now);
    let ZoneState::Degraded(fault) = state(&world) else {
        panic!("{:?}", state(&world));
    };
    assert_eq!(fault.kind, FaultKind::Lost);
    world.failures = 100;
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(20));
    world.failures = 0;
    world.zones.on_answer(&server(0), Ok(()), world.now);
    world.zones.on_answer(&server(1), Ok(()), world.now);
    world.pass(Duration::from_millis(300));
    assert_eq!(state(&world), ZoneState::Ready);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn an_older_version_loses_what_was_withdrawn_since_and_nothing_of_others() {
    let host = |number: usize| format!("h{number}.example.com. 60 IN A 192.0.2.{number}");
    let mut world = World::new();
    let before = content(&format!("{APEX}\n{THEIRS}"));
    world.server.insert(name(ZONE), before);
    world.zones.declare_zone(served(APEX));
    for number in 0..24 {
        let owner = format!("h{number}");
        world.zones.declare(declare(&owner, 1, &host(number), ""));
    }
    world.pass(Duration::from_secs(5));
    let backup = world.server[&name(ZONE)].clone();
    // A few at a time, which the guard lets go.
    for number in 0..12 {
        let owner = format!("h{number}");
        world.zones.declare(declare(&owner, 2, "", &host(number)));
        if number == 5 {
            world.pass(Duration::from_mins(2));
        }
    }
    world.pass(Duration::from_mins(2));
    for number in 0..12 {
        world.zones.forget(&object(&format!("h{number}")));
    }

    world.server.insert(name(ZONE), backup);
    world.pass(Duration::from_secs(5));
    let left: Vec<usize> = (0..24).filter(|number| world.has(&host(*number))).collect();
    assert!(left.into_iter().eq(12..24), "{:?}", world.lines());
    assert!(world.has(THEIRS));
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.held, None, "nobody has to say that twice");
}

#[test]
fn a_secondary_that_lacks_an_edit_of_the_zone_makes_no_record_doubtful() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let before = world.serial();
    world.serials.insert(server(1), Ok(before));
    let edited = APEX.replace("60 60 60 60", "60 60 60 5");
    world.zones.declare_zone(served(&edited));
    world.pass(Duration::from_millis(200));
    assert!(world.serial().newer_than(before));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn what_another_primary_has_is_put_beside_what_stands_where_it_can() {
    let (alias, other) = (
        "x.example.com. 60 IN CNAME one.example.net.",
        "x.example.com. 60 IN CNAME two.example.net.",
    );
    let (one, two) = (
        "x.example.com. 60 IN A 192.0.2.8",
        "x.example.com. 60 IN A 192.0.2.9",
    );
    let text = "x.example.com. 60 IN TXT \"theirs\"";
    let cut = "x.example.com. 60 IN NS ns.example.net.";
    let rows = [
        (alias, other, false),
        (one, other, false),
        (alias, one, false),
        (one, two, true),
        (one, text, true),
        (text, cut, true),
    ];
    for (stands, extra, fits) in rows {
        let mut world = with_followers(&[ServerRole::Primary]);
        let before = content(&format!("{APEX}\n{stands}"));
        world.server.insert(name(ZONE), before);
        world.zones.declare_zone(served(APEX));
        world.pass(Duration::from_secs(5));
        world.extras = Some((Serial(9), extra.to_owned()));
        world.pass(Duration::from_secs(30));
        assert!(world.has(stands), "{stands}");
        assert_eq!(world.has(extra), fits, "{stands} and {extra}");
        assert_eq!(world.extras.is_none(), fits, "{stands} and {extra}");
        assert_eq!(state(&world) == ZoneState::Ready, fits);
    }
}

#[test]
fn name_servers_and_what_is_declared_are_not_taken_from_another_primary() {
    let strange = "www.example.com. 300 IN A 192.0.2.77";
    for extra in ["example.com. 60 IN NS ns9.example.net.", strange] {
        let mut world = with_followers(&[ServerRole::Primary]);
        world.zones.declare_zone(served(APEX));
        world.zones.declare(declare("www", 1, WWW, ""));
        world.pass(Duration::from_secs(5));
        world.extras = Some((Serial(9), extra.to_owned()));
        world.pass(Duration::from_secs(30));
        assert!(!world.has(extra), "{extra}");
        assert_eq!(world.extras, None, "it may go there");
    }
}

#[test]
fn what_another_primary_has_goes_there_only_once_the_leader_has_it() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.extras = Some((Serial(9), THEIRS.to_owned()));
    world.watch(Duration::from_secs(10), |world, step| {
        if let Some(Step::Follow(task)) = step
            && let FollowerAction::Sync(known) = &task.action
        {
            assert!(known.sifted.is_none() || world.has(THEIRS));
        }
    });
    assert!(world.has(THEIRS));
}

#[test]
fn a_zone_that_was_taken_back_and_is_declared_again_lost_nothing() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.undeclare_zone(&name(ZONE));
    world.pass(Duration::from_secs(5));
    assert!(world.server.is_empty());
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!((event.state, event.mended), (ZoneState::Ready, None));
}

#[test]
fn what_was_withdrawn_goes_from_an_older_version_that_leads_while_the_first_is_silent() {
    let mut world = with_followers(&[ServerRole::Primary, ServerRole::Secondary]);
    let older = content(&format!("{APEX}\n{API}"));
    world.server.insert(name(ZONE), older);
    let newest = format!("{}\n{THEIRS}", APEX.replace(" 7 60", " 60 60"));
    world.others = Some(content(&newest));
    world.zones.declare_zone(with_floor(60));
    let silence = Fault::new(FaultKind::Lost, "it does not answer");
    world.zones.on_answer(&server(0), Err(silence), world.now);
    world.pass(Duration::from_secs(5));
    assert!(world.has(THEIRS), "{:?}", world.lines());
    assert!(!world.has(API), "{:?}", world.lines());
}

/// A world that has written and withdrawn a record of others, and the version from before the withdrawal.
fn with_an_older_version(roles: &[ServerRole]) -> (World, ZoneContent) {
    let mut world = with_followers(roles);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    world.write(API);
    world.pass(Duration::from_mins(1));
    let older = world.server[&name(ZONE)].clone();
    let content = world.server.get_mut(&name(ZONE)).expect("it is there");
    content.sets.remove(&records(API)[0].key());
    content.serial = content.serial.next();
    world.write(THEIRS);
    world.pass(Duration::from_mins(1));
    assert!(world.has(THEIRS) && !world.has(API));
    (world, older)
}

#[test]
fn a_server_that_joins_with_an_older_version_and_leads_brings_nothing_back() {
    let (mut world, older) = with_an_older_version(&[]);
    // It was out, and takes the place of one that is gone in the same moment.
    world.server.insert(name(ZONE), older);
    let all = servers(&[ServerRole::Primary, ServerRole::Primary]);
    world.zones.set_servers(all.clone(), world.now);
    world.zones.set_servers(all[1..].to_vec(), world.now);
    world.pass(Duration::from_secs(5));
    assert!(!world.has(API), "{:?}", world.lines());
    assert!(world.has(THEIRS) && world.has(WWW), "{:?}", world.lines());
}

#[test]
fn what_others_wrote_on_a_server_that_was_in_line_stays_when_it_leads() {
    let (mut world, older) = with_an_older_version(&[ServerRole::Primary]);
    // Others wrote there and nowhere else, a moment before the first one fell silent.
    world.server.insert(name(ZONE), older);
    let silence = Err(Fault::new(FaultKind::Lost, "it does not answer"));
    world.zones.on_answer(&server(0), silence, world.now);
    world.pass(Duration::from_secs(5));
    assert!(world.has(API), "{:?}", world.lines());
    assert!(world.has(THEIRS) && world.has(WWW), "{:?}", world.lines());
}

#[test]
fn what_a_fallen_lead_is_to_get_back_is_not_forgotten_when_it_is_read_once_more() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let backup = world.server[&name(ZONE)].clone();
    world.write(THEIRS);
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    world.server.insert(name(ZONE), backup.clone());
    for _ in 0..2 {
        let read = Completion::Read(Ok(backup.clone()));
        world.zones.complete(&name(ZONE), read, world.now);
    }
    world.pass(Duration::from_secs(5));
    assert!(world.has(THEIRS) && world.has(WWW), "{:?}", world.lines());
}

#[test]
fn of_what_is_taken_away_in_between_only_the_zones_own_name_servers_stay() {
    let text = "example.com. 60 IN TXT \"taken away\"";
    let cut = "sub.example.com. 60 IN NS ns.example.net.";
    let mut world = with_followers(&[ServerRole::Primary]);
    let older = content(&format!("{APEX}\n{text}\n{cut}\n{WWW}"));
    world.server.insert(name(ZONE), older);
    let newest = APEX.replace(" 7 60", " 49 60").replace("NS ns1", "NS ns2");
    world.others = Some(content(&newest));
    world.serials.insert(server(1), Ok(Serial(49)));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_secs(5));
    assert!(!world.has(text) && !world.has(cut), "{:?}", world.lines());
    assert!(world.has(WWW), "it is asked for");
    assert!(world.has("example.com. 60 IN NS ns1.example.com."));
}

#[test]
fn what_a_second_primary_has_in_place_of_ours_is_not_kept() {
    let theirs = "www.example.com. 300 IN A 192.0.2.66\nexample.com. 60 IN NS ns.example.net.";
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let before = world.lines();
    world.extras = Some((Serial(9), theirs.to_owned()));
    world.pass(Duration::from_secs(30));
    assert_eq!(world.lines(), before);
}

#[test]
fn a_serial_that_was_seen_is_gone_beyond_by_no_more_than_it_takes() {
    let mut world = World::new();
    let newer = APEX.replace(" 7 60", " 60 60");
    world.server.insert(name(ZONE), content(&newer));
    world.zones.declare_zone(with_floor(49));
    world.pass(Duration::from_secs(5));
    world.server.clear();
    world.pass(Duration::from_secs(5));
    let serial = world.serial();
    assert!(serial.newer_than(Serial(60)), "{serial}");
    assert!(Serial(100).newer_than(serial), "{serial}");
}

#[test]
fn what_was_put_back_is_of_others_again_who_may_take_it_away() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.extras = Some((Serial(9), THEIRS.to_owned()));
    world.pass(Duration::from_secs(30));
    assert!(world.has(THEIRS) && world.extras.is_none());
    let content = world.server.get_mut(&name(ZONE)).expect("it is there");
    content.sets.remove(&records(THEIRS)[0].key());
    content.serial = content.serial.next();
    world.pass(Duration::from_secs(30));
    assert!(!world.has(THEIRS), "{:?}", world.lines());
}

/// A zone that lost what others wrote, as it was before and after that.
fn fallen() -> (World, [ZoneContent; 2]) {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let before = world.server[&name(ZONE)].clone();
    world.write(&format!("{THEIRS}\n{API}"));
    world.pass(Duration::from_secs(5));
    let after = world.server[&name(ZONE)].clone();
    (world, [before, after])
}

#[test]
fn what_others_put_back_themselves_and_take_away_again_is_not_put_back() {
    let (mut world, [before, after]) = fallen();
    let mut again = before.clone();
    again.serial = after.serial.next();
    for content in [&before, &after, &again] {
        let read = Completion::Read(Ok(content.clone()));
        world.zones.complete(&name(ZONE), read, world.now);
    }
    world.server.insert(name(ZONE), again);
    world.pass(Duration::from_secs(5));
    assert!(!world.has(THEIRS) && !world.has(API), "{:?}", world.lines());
}

#[test]
fn of_a_set_of_others_that_is_there_in_part_the_rest_is_put_back() {
    let other = "theirs.example.com. 60 IN A 192.0.2.98";
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let mut part = world.server[&name(ZONE)].clone();
    world.write(THEIRS);
    let both = content(&format!("{THEIRS}\n{other}")).sets;
    let whole = world.server.get_mut(&name(ZONE)).expect("it is there");
    whole.sets.extend(both);
    world.pass(Duration::from_secs(5));
    let read = Completion::Read(Ok(part.clone()));
    world.zones.complete(&name(ZONE), read, world.now);
    part.sets.extend(content(other).sets);
    world.server.insert(name(ZONE), part.clone());
    let read = Completion::Read(Ok(part));
    world.zones.complete(&name(ZONE), read, world.now);
    world.pass(Duration::from_secs(5));
    assert!(world.has(THEIRS) && world.has(other), "{:?}", world.lines());
}

#[test]
fn a_primary_that_takes_the_lead_has_lost_nothing() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let silence = Err(Fault::new(FaultKind::Lost, "it does not answer"));
    world.zones.on_answer(&server(0), silence, world.now);
    world.pass(Duration::from_secs(5));
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.leader.map(|one| one.id), Some(server(1)));
    assert_eq!((event.mended, event.fallen_from), (None, None));
}

#[test]
fn name_servers_of_others_stay_whatever_a_newer_version_says() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.server.insert(name(ZONE), content(APEX));
    let newest = APEX.replace(" 7 60", " 49 60").replace("NS ns1", "NS ns2");
    world.others = Some(content(&newest));
    world.serials.insert(server(1), Ok(Serial(49)));
    world.zones.declare_zone(ZoneDeclaration {
        serial_floor: SerialFloor::Told(Serial(49)),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.watch(Duration::from_secs(5), |_, step| {
        assert!(!matches!(step, Some(Step::Commit(_))), "{step:?}");
    });
    assert!(world.has("example.com. 60 IN NS ns1.example.com."));
}

#[test]
fn what_others_wrote_on_a_second_primary_of_an_exclusive_zone_goes() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(ZoneDeclaration {
        tenancy: Tenancy::Exclusive,
        ..served(APEX)
    });
    world.pass(Duration::from_secs(5));
    world.extras = Some((Serial(9), THEIRS.to_owned()));
    world.watch(Duration::from_secs(30), |world, _| {
        assert!(!world.has(THEIRS), "it is not brought here first");
    });
    assert_eq!(world.extras, None);
}

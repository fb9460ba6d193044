//! Servers that fall silent, come and go; and which of them leads.

use super::{followers::*, *};
use crate::fleet::{Known, Past};

fn silence() -> Result<(), Fault> {
    Err(Fault::new(FaultKind::Lost, "it does not answer"))
}

/// A zone on these servers, the first of which leads, with one record.
fn with_www(roles: &[ServerRole]) -> World {
    let mut world = with_followers(roles);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    world
}

fn leader(world: &World) -> Option<ServerId> {
    Some(world.zones.term(&name(ZONE))?.leader)
}

fn withdrawal(world: &World) -> Option<Withdrawal> {
    let receipt = world.zones.event(&object("www"));
    receipt.map(|receipt| receipt.withdrawal)
}

const MAIL: &str = "mail.example.com. 60 IN A 192.0.2.8";

#[test]
fn a_silent_secondary_is_out_of_rotation_until_it_caught_up() {
    let mut world = with_www(&[ServerRole::Secondary, ServerRole::Secondary]);
    world.zones.on_answer(&server(1), silence(), world.now);
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.pass(Duration::from_secs(1));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    let ZoneState::Degraded(fault) = state(&world) else {
        panic!("{:?}", state(&world));
    };
    assert_eq!(fault.message, "it does not answer");

    // Back, but behind: it is told of, and nobody waits for it.
    world.zones.on_answer(&server(1), Ok(()), world.now);
    world.pass(Duration::from_secs(3));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    assert!(matches!(state(&world), ZoneState::Degraded(_)));
    world.serials.clear();
    world.pass(Duration::from_secs(3));
    assert_eq!(state(&world), ZoneState::Ready);

    // It counts again.
    world.serials.insert(server(1), Ok(Serial(8)));
    world
        .zones
        .declare(declare("ftp", 3, "ftp.example.com. 60 IN A 192.0.2.9", ""));
    world.pass(Duration::from_secs(3));
    assert!(matches!(world.status("ftp"), ClaimStatus::Lagging(_)));
}

#[test]
fn a_record_that_waits_for_a_server_is_served_when_that_one_falls_silent() {
    let mut world = with_www(&[ServerRole::Secondary]);
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.pass(Duration::from_millis(500));
    assert_eq!(world.zones.event(&object("mail")), None);
    world.zones.take_events();
    world.zones.on_answer(&server(1), silence(), world.now);
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("mail")));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
}

#[test]
fn with_no_server_in_rotation_nothing_is_served() {
    let mut world = with_www(&[]);
    world.zones.on_answer(&server(0), silence(), world.now);
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("www")));
    assert!(matches!(world.status("www"), ClaimStatus::Failing(_)));
    world.zones.on_answer(&server(0), Ok(()), world.now);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));

    let mut world = with_www(&[ServerRole::Secondary]);
    world.zones.on_answer(&server(0), silence(), world.now);
    let status = world.status("www");
    assert!(
        matches!(status, ClaimStatus::Programmed(_)),
        "the secondary serves it"
    );
    world.zones.take_events();
    world.zones.on_answer(&server(1), silence(), world.now);
    assert!(matches!(world.status("www"), ClaimStatus::Failing(_)));
    let told = world.zones.take_events();
    let is_told = told.iter().any(|one| *one.owner == *object("www"));
    assert!(is_told, "it was the last that served it");
}

#[test]
fn with_no_server_left_nothing_is_served_and_the_zone_says_so() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.on_answer(&server(1), silence(), world.now);
    world.zones.take_events();
    // The one that answers is taken out.
    let silent = servers(&[ServerRole::Primary, ServerRole::Primary]).remove(1);
    world.zones.set_servers(vec![silent], world.now);
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("www")));
    assert!(!matches!(world.status("www"), ClaimStatus::Programmed(_)));

    world.zones.set_servers(Vec::new(), world.now);
    assert_ne!(state(&world), ZoneState::Ready);
    assert!(!matches!(world.status("www"), ClaimStatus::Programmed(_)));
    world
        .zones
        .set_servers(servers(&[ServerRole::Primary]), world.now);
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&world), ZoneState::Ready);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn another_primary_leads_when_the_leader_falls_silent() {
    let mut world = with_www(&[ServerRole::Primary, ServerRole::Secondary]);
    let before = world.server.clone();
    let serial = before[&name(ZONE)].serial;
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.pass(Duration::from_millis(1));
    assert_eq!(leader(&world), Some(server(0)));
    // The other one has not been given the last record.
    world.server = before;
    world.zones.on_answer(&server(0), silence(), world.now);
    assert_eq!(leader(&world), Some(server(1)));
    world.pass(Duration::from_secs(2));
    assert!(
        world.lines().contains(&MAIL.to_owned()),
        "it is written there"
    );
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    let now = world.server[&name(ZONE)].serial;
    assert!(
        now.newer_than(Serial(serial.0 + 1_000)),
        "{now}: beyond what anybody has"
    );
    assert!(matches!(state(&world), ZoneState::Degraded(_)));

    world.zones.on_answer(&server(0), Ok(()), world.now);
    assert_eq!(leader(&world), Some(server(1)), "who leads goes on");
    world.pass(Duration::from_secs(2));
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn a_former_leader_is_asked_for_what_was_written_after_it_was_known() {
    let mut world = with_www(&[ServerRole::Primary]);
    let known = world.server[&name(ZONE)].serial;
    world.zones.on_answer(&server(0), silence(), world.now);
    world.pass(Duration::from_secs(1));
    world.zones.on_answer(&server(0), Ok(()), world.now);
    let task = world.zones.take_work().into_iter().find_map(|zone| {
        let step = world.zones.next_step(&zone, world.now);
        step.filter(|step| matches!(step, Step::Follow(_)))
    });
    let Some(Step::Follow(FollowerTask { visit, action })) = task else {
        panic!("{task:?}");
    };
    assert_eq!(visit.server, server(0));
    let wanted = Known {
        past: Past::Led(known),
        ..Known::default()
    };
    assert_eq!(action, FollowerAction::Sync(wanted));
    // Somebody wrote there.
    let theirs = "theirs.example.com. 60 IN A 192.0.2.77";
    let differs = Completion::Differs(visit, Serial(9), records(theirs));
    world.zones.complete(&name(ZONE), differs, world.now);
    world.pass(Duration::from_secs(2));
    assert!(
        world.lines().contains(&theirs.to_owned()),
        "{:?}",
        world.lines()
    );
}

#[test]
fn an_object_keeps_its_lines_while_a_former_leader_may_have_them() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.on_answer(&server(0), silence(), world.now);
    world.zones.declare(declare("www", 2, "", WWW));
    world.pass(Duration::from_secs(2));
    assert!(!world.lines().contains(&WWW.to_owned()));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Lingering(_))));
    world.zones.on_answer(&server(0), Ok(()), world.now);
    world.pass(Duration::from_secs(2));
    assert_eq!(withdrawal(&world), Some(Withdrawal::Done));
}

#[test]
fn an_edited_record_is_served_though_a_silent_primary_has_its_former_value() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.on_answer(&server(1), silence(), world.now);
    let after = "www.example.com. 60 IN A 192.0.2.9";
    world
        .zones
        .declare(declare("www", 2, after, &format!("{WWW}\n{after}")));
    world.pass(Duration::from_secs(2));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Lingering(_))));
    world.zones.on_answer(&server(1), Ok(()), world.now);
    world.pass(Duration::from_secs(2));
    assert_eq!(withdrawal(&world), Some(Withdrawal::Done));
}

#[test]
fn a_zone_opens_on_another_primary_when_the_first_never_answered() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    let zones = world.zones.take_work();
    let step = world.zones.next_step(&zones[0], world.now);
    assert!(matches!(step, Some(Step::Open(_))), "it hangs");
    world.zones.on_answer(&server(0), silence(), world.now);
    world.pass(Duration::from_secs(3));
    assert_eq!(leader(&world), Some(server(1)));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    // Nothing of the first is known, so it may have what an object lets go of.
    world.zones.declare(declare("www", 2, "", WWW));
    world.pass(Duration::from_secs(1));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Lingering(_))));
}

#[test]
fn a_zone_waits_for_servers_and_goes_on_with_others() {
    let mut world = World::new();
    world.zones = Zones::new(Limits::default(), Vec::new());
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(world.server.is_empty() && leader(&world).is_none());
    world
        .zones
        .set_servers(servers(&[ServerRole::Primary]), world.now);
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));

    // The only server is replaced by an empty one.
    let other = ServerInfo::at("192.0.2.99:53", ServerRole::Primary);
    world.server.clear();
    world.zones.set_servers(vec![other.clone()], world.now);
    assert_eq!(leader(&world), Some(other.id));
    world.pass(Duration::from_secs(5));
    assert!(world.lines().contains(&WWW.to_owned()));
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn a_zone_may_have_servers_of_its_own() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(ZoneDeclaration {
        servers: Some([server(1)].into()),
        ..served(APEX)
    });
    world.pass(Duration::from_secs(5));
    assert_eq!(leader(&world), Some(server(1)));
    let receipt = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(receipt.followers, []);
}

#[test]
fn without_servers_nothing_is_called_served_and_nothing_is_lost() {
    let mut world = with_www(&[ServerRole::Secondary]);
    let known = servers(&[ServerRole::Primary, ServerRole::Secondary]);
    world.zones.take_events();
    world.zones.set_servers(Vec::new(), world.now);
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("www")));
    assert!(matches!(world.status("www"), ClaimStatus::Failing(_)));
    assert!(matches!(state(&world), ZoneState::Degraded(_)));
    // What is declared meanwhile waits, and says so.
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.zones.declare(declare("www", 2, "", WWW));
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("mail"), ClaimStatus::Failing(_)));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Failing(_))));
    assert!(world.lines().contains(&WWW.to_owned()));

    world.zones.set_servers(known, world.now);
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    assert_eq!(withdrawal(&world), Some(Withdrawal::Done));
    assert!(!world.lines().contains(&WWW.to_owned()));
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn what_others_took_away_while_no_server_was_known_is_not_put_back() {
    let theirs = "theirs.example.com. 60 IN A 192.0.2.77";
    let mut world = World::with_zone(&format!("{APEX}\n{theirs}"));
    world.pass(Duration::from_secs(5));
    world.zones.set_servers(Vec::new(), world.now);
    world.server.insert(name(ZONE), content(APEX));
    world
        .server
        .entry(name(ZONE))
        .and_modify(|zone| zone.serial = Serial(9));
    world
        .zones
        .set_servers(servers(&[ServerRole::Primary]), world.now);
    world.pass(Duration::from_secs(5));
    assert!(
        !world.lines().contains(&theirs.to_owned()),
        "{:?}",
        world.lines()
    );
    assert_eq!(
        world.server[&name(ZONE)].serial,
        Serial(9),
        "nothing was written"
    );
}

/// What is known of a primary that is synced next.
fn next_past(world: &mut World) -> Option<Past> {
    for _ in 0..20 {
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                if let Step::Follow(FollowerTask {
                    action: FollowerAction::Sync(known),
                    ..
                }) = &step
                {
                    return Some(known.past);
                }
                let completion = world.carry_out(&zone, step);
                world.zones.complete(&zone, completion, world.now);
            }
        }
    }
    None
}

#[test]
fn of_servers_that_change_places_the_former_leader_may_have_what_nobody_else_has() {
    let mut world = with_www(&[ServerRole::Primary]);
    let mut swapped = servers(&[ServerRole::Primary, ServerRole::Primary]);
    let [one, two] = &mut swapped[..] else {
        panic!("there are two");
    };
    std::mem::swap(&mut one.address, &mut two.address);
    world.zones.set_servers(swapped, world.now);
    assert_eq!(next_past(&mut world), Some(Past::Unknown));
}

#[test]
fn nobody_waits_for_a_server_that_joins_before_it_has_the_zone() {
    let mut world = with_www(&[]);
    world.serials.insert(server(1), Ok(Serial(1)));
    world.zones.set_servers(
        servers(&[ServerRole::Primary, ServerRole::Secondary]),
        world.now,
    );
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.pass(Duration::from_secs(3));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    assert!(
        matches!(state(&world), ZoneState::Degraded(_)),
        "it is told"
    );
    assert_eq!(world.zones.out_of_rotation(&name(ZONE)), [server(1)]);
    world.serials.clear();
    world.pass(Duration::from_secs(3));
    assert_eq!(state(&world), ZoneState::Ready);
    assert_eq!(world.zones.out_of_rotation(&name(ZONE)), []);
}

#[test]
fn what_was_gone_before_the_servers_fell_silent_is_not_told_to_stand() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.declare(declare("www", 2, "", WWW));
    world.pass(Duration::from_secs(2));
    assert_eq!(withdrawal(&world), Some(Withdrawal::Done));
    // The other one leads, and falls silent before it was read.
    world.zones.on_answer(&server(0), silence(), world.now);
    world.zones.on_answer(&server(1), silence(), world.now);
    assert_eq!(withdrawal(&world), None, "nothing is known yet");
}

/// A zone that was taken back, whose deletion ended like this.
fn closed(fault: Option<Fault>) -> World {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.undeclare_zone(&name(ZONE));
    world.zones.declare(declare("www", 2, "", WWW));
    let step = world.zones.next_step(&name(ZONE), world.now);
    assert_eq!(step, Some(Step::Close));
    world.zones.take_events();
    let result = fault.map_or(Ok(()), Err);
    let completion = Completion::Closed(result);
    world.zones.complete(&name(ZONE), completion, world.now);
    world
}

#[test]
fn a_zone_that_only_a_silent_server_may_have_holds_no_object_up() {
    let mut world = closed(Some(Fault::new(FaultKind::Lost, "it does not answer")));
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("www")));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Lingering(_))));
    world.pass(Duration::from_mins(1));
    assert_eq!(withdrawal(&world), Some(Withdrawal::Done));

    let world = closed(Some(Fault::new(FaultKind::Refused, "not allowed")));
    assert!(matches!(withdrawal(&world), Some(Withdrawal::Failing(_))));
}

#[test]
fn a_zone_is_not_deleted_while_another_server_is_being_given_it() {
    let mut world = with_www(&[ServerRole::Secondary, ServerRole::Secondary]);
    world.zones.declare(declare("mail", 2, MAIL, ""));
    // One visit is on its way to each of them.
    let mut visits = Vec::new();
    while visits.len() < 2 {
        let step = world.zones.next_step(&name(ZONE), world.now);
        let step = step.expect("something is to be done");
        if let Step::Follow(task) = step {
            visits.push(task.visit);
            continue;
        }
        let completion = world.carry_out(&name(ZONE), step);
        world.zones.complete(&name(ZONE), completion, world.now);
    }
    world.zones.undeclare_zone(&name(ZONE));
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let followed = Completion::Followed(visits.remove(0), Ok(Serial(8)));
    world.zones.complete(&name(ZONE), followed, world.now);
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    // Nobody waits for one that does not answer.
    world.zones.on_answer(&server(2), silence(), world.now);
    let step = world.zones.next_step(&name(ZONE), world.now);
    assert_eq!(step, Some(Step::Close));
}

#[test]
fn of_the_primaries_that_answer_the_one_with_the_newest_serial_leads() {
    for (older, newer) in [(1, 2), (2, 1)] {
        let mut world = with_www(&[ServerRole::Primary, ServerRole::Primary]);
        world.serials.insert(server(older), Ok(Serial(1)));
        world.zones.declare(declare("mail", 2, MAIL, ""));
        world.pass(Duration::from_secs(5));
        world.zones.on_answer(&server(0), silence(), world.now);
        assert!(world.zones.is_silent(&server(0)) && !world.zones.is_silent(&server(1)));
        assert_eq!(leader(&world), Some(server(newer)));
        world.zones.on_answer(&server(0), Ok(()), world.now);
        assert!(!world.zones.is_silent(&server(0)));
    }
}

#[test]
fn of_two_lines_the_one_that_cannot_go_is_told_before_the_one_that_lingers() {
    let api = "api.example.com. 60 IN A 192.0.2.2";
    let both = format!("{api}\n{WWW}");
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, &both, ""));
    world.pass(Duration::from_secs(5));
    world.zones.on_answer(&server(1), silence(), world.now);
    world.zones.declare(declare("www", 2, "", &both));
    let step = world.begin_commit();
    let Completion::Sent(mut sent) = world.carry_out(&name(ZONE), step) else {
        panic!("it was sent");
    };
    let refused = sent
        .to_verify
        .extract_if(.., |key| key.name == name("api.example.com."));
    let fault = Fault::new(FaultKind::Refused, "REFUSED");
    sent.refused = refused.map(|key| (key, fault.clone())).collect();
    world
        .server
        .get_mut(&name(ZONE))
        .expect("it is there")
        .sets
        .extend(content(api).sets);
    world
        .zones
        .complete(&name(ZONE), Completion::Sent(sent), world.now);
    world.pass(Duration::ZERO);
    let told = withdrawal(&world);
    assert!(matches!(told, Some(Withdrawal::Failing(_))), "{told:?}");
}

#[test]
fn who_waits_hears_that_nobody_takes_updates_though_others_still_serve() {
    let mut world = with_www(&[ServerRole::Secondary]);
    world.zones.declare(declare("mail", 2, MAIL, ""));
    world.zones.take_events();
    let secondary = servers(&[ServerRole::Primary, ServerRole::Secondary]).remove(1);
    world.zones.set_servers(vec![secondary], world.now);
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("mail")));
    assert!(matches!(world.status("mail"), ClaimStatus::Failing(_)));
}

#[test]
fn whoever_is_served_hears_nothing_of_a_secondary_that_falls_silent() {
    let mut world = with_www(&[ServerRole::Secondary]);
    world.zones.take_events();
    world.zones.on_answer(&server(1), silence(), world.now);
    assert_eq!(world.zones.take_events(), []);
}

#[test]
fn who_leads_a_zone_that_is_being_deleted_stays_the_one() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.undeclare_zone(&name(ZONE));
    let close = world.begin();
    assert_eq!(close, Step::Close);
    world.zones.on_answer(&server(0), silence(), world.now);
    assert_eq!(leader(&world), Some(server(0)));
    world.end(close);
    assert_eq!(state(&world), ZoneState::Gone);
}

#[test]
fn what_was_on_its_way_to_a_leader_that_falls_silent_is_written_to_the_next() {
    let mut world = with_www(&[ServerRole::Primary]);
    world.zones.declare(declare("mail", 2, MAIL, ""));
    let lost = world.begin_commit();
    world.zones.on_answer(&server(0), silence(), world.now);
    assert_eq!(leader(&world), Some(server(1)));
    drop(lost);
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("mail"), ClaimStatus::Programmed(_)));
    assert!(world.lines().contains(&MAIL.to_owned()));
}

#[test]
fn a_server_that_joins_while_a_zone_is_deleted_has_to_delete_it_too() {
    let all = servers(&[ServerRole::Primary, ServerRole::Primary]);
    let mut world = with_followers(&[]);
    world.zones.set_servers(all[1..].to_vec(), world.now);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.undeclare_zone(&name(ZONE));
    assert_eq!(world.begin(), Step::Close);
    world.zones.set_servers(all, world.now);
    let closed = Completion::Closed(Ok(()));
    world.zones.complete(&name(ZONE), closed, world.now);
    assert_ne!(state(&world), ZoneState::Gone);
    assert_eq!(world.begin(), Step::Close, "on all of them");
    let closed = Completion::Closed(Ok(()));
    world.zones.complete(&name(ZONE), closed, world.now);
    assert_eq!(state(&world), ZoneState::Gone);
}

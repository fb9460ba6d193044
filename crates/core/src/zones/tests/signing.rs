//! Zones that their server signs: what it makes is nobody's record.

use std::time::Duration;

use super::{
    ClaimStatus, Completion, Hosting, Limits, ServerRole, Signing, SigningPolicy, Step, Tenancy,
    World, ZONE, ZoneDeclaration, ZoneState, Zones, content, declare, name, records, server,
    servers, zone_declaration,
};
use crate::{
    Serial,
    delta::{Delta, Difference},
    zones::{SigningReport, SigningTrouble},
};

const PLAIN: &str = "example.com. 60 IN SOA ns.example.com. root.example.com. 7 1 1 1 1
example.com. 60 IN NS ns.example.com.
www.example.com. 60 IN A 192.0.2.1";
const SIGNED: &str = "example.com. 60 IN TYPE48 \\# 8 0101030D00112233
example.com. 60 IN TYPE46 \\# 4 00060D02
example.com. 60 IN TYPE47 \\# 4 00000001
example.com. 60 IN TYPE51 \\# 5 0100000000
example.com. 60 IN TYPE59 \\# 4 00010D02
example.com. 60 IN TYPE60 \\# 4 01010300
example.com. 0 IN TYPE65534 \\# 5 0D439E0001
www.example.com. 60 IN TYPE46 \\# 4 00010D03
www.example.com. 60 IN TYPE47 \\# 4 00000001
0123456789abcdef0123456789abcdef.example.com. 60 IN TYPE50 \\# 4 01000000";

/// What a server makes of a zone that it is told to sign; one that is signed stays as it is.
pub(super) fn sign(content: &mut super::ZoneContent) {
    if content.clone().sift(&name(ZONE)).has_keys() {
        return;
    }
    let made: super::ZoneContent = records(SIGNED).into_iter().collect();
    content.sets.extend(made.sets);
    content.serial = content.serial.next();
}

fn signed(serial: u32, lines: &str) -> super::ZoneContent {
    let mut content = content(&format!("{PLAIN}\n{SIGNED}\n{lines}"));
    content.serial = Serial(serial);
    content
}

#[test]
fn what_a_server_made_by_signing_is_not_foreign_and_stays() {
    for tenancy in [Tenancy::Shared, Tenancy::Exclusive] {
        let mut world = World::new();
        let theirs = "theirs.example.com. 60 IN A 192.0.2.9";
        world.server.insert(name(ZONE), signed(7, theirs));
        world.zones.declare_zone(ZoneDeclaration {
            tenancy,
            ..zone_declaration(Hosting::Elsewhere)
        });
        let www = "www.example.com. 60 IN A 192.0.2.1";
        world.zones.declare(declare("www", 1, www, www));
        world.settle();
        let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
        assert!(event.held.is_none());
        let expected = usize::from(tenancy == Tenancy::Shared);
        assert_eq!(event.foreign, expected, "{tenancy:?}");
        let made = records(SIGNED).into_iter().map(|record| record.to_string());
        let lines = world.lines();
        assert!(made.clone().all(|line| lines.contains(&line)), "{lines:?}");
    }
}

#[test]
fn a_zone_that_is_signed_anew_costs_one_look_and_no_write() {
    let mut world = World::new();
    world.server.insert(name(ZONE), signed(7, ""));
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    let www = "www.example.com. 60 IN A 192.0.2.1";
    world.zones.declare(declare("www", 1, www, www));
    world.settle();
    assert_eq!(world.status("www"), ClaimStatus::Programmed(Serial(7)));
    drop(world.zones.take_events());
    drop(world.zones.take_zone_events());
    // Its server signs it anew, and nobody asked for that.
    let again = "www.example.com. 60 IN TYPE46 \\# 4 00010D04";
    let steps = Difference {
        to: records(&PLAIN.replace(" 7 1 ", " 8 1 ")).remove(0),
        removed: records("www.example.com. 60 IN TYPE46 \\# 4 00010D03"),
        added: records(again),
        fleeting: Vec::new(),
        returned: Vec::new(),
    };
    world.server.insert(name(ZONE), signed(8, again));
    let mut steps_taken = Vec::new();
    for _ in 0..3 {
        world.now += Duration::from_mins(1);
        world.zones.wake(world.now);
        for zone in world.zones.take_work() {
            while let Some(step) = world.zones.next_step(&zone, world.now) {
                steps_taken.push(step.name());
                let completion = if matches!(step, Step::ReadChanges(..)) {
                    let changes = Delta::Difference(steps.clone());
                    Completion::ChangesRead(Vec::new(), Ok(changes))
                } else {
                    world.carry_out(&zone, step)
                };
                world.zones.complete(&zone, completion, world.now);
            }
        }
    }
    assert_eq!(steps_taken, ["Check", "ReadChanges", "Check", "Check"]);
    assert!(world.zones.take_events().is_empty(), "nobody is told");
    assert_eq!(
        (
            world.updates,
            world
                .zones
                .zone_event(&name(ZONE))
                .map(|event| event.foreign)
        ),
        (0, Some(0))
    );
}

/// A world with a zone of ours on servers of these roles, to be signed so.
fn to_be_signed(roles: &[ServerRole], policy: SigningPolicy) -> World {
    let mut world = World::new();
    world.zones = Zones::new(Limits::default(), servers(roles));
    world.zones.declare_zone(by(policy));
    world.pass(Duration::from_secs(5));
    world
}

fn by(policy: SigningPolicy) -> ZoneDeclaration {
    let signer = None;
    ZoneDeclaration {
        signing: Signing { policy, signer },
        ..zone_declaration(Hosting::Served(records(PLAIN)))
    }
}

fn named(policy: &str) -> SigningPolicy {
    SigningPolicy::Named(policy.into())
}

fn report(world: &World) -> SigningReport {
    let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
    event.signing
}

#[test]
fn a_zone_with_a_policy_is_signed_and_its_digest_is_told() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let signing = report(&world);
    assert!(
        signing.is_complete && signing.trouble.is_none(),
        "{signing:?}"
    );
    assert_eq!((signing.ds.len(), world.told.len()), (1, 1));
    // It is told again by and by, and nobody hears of it.
    drop(world.zones.take_zone_events());
    world.pass(Duration::from_mins(1));
    assert!(world.zones.take_zone_events().is_empty());
    world.pass(Duration::from_mins(10));
    assert_eq!((world.told.len(), world.updates), (2, 0));
    assert!(world.zones.take_zone_events().is_empty());
}

#[test]
fn a_field_that_is_taken_away_leaves_a_zone_signed_and_the_word_none_does_not() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let serial = world.server[&name(ZONE)].serial;
    world.zones.declare_zone(by(SigningPolicy::Unsaid));
    world.pass(Duration::from_mins(1));
    assert!(report(&world).is_complete && world.told.len() == 1);
    world.zones.declare_zone(by(SigningPolicy::Unsigned));
    world.pass(Duration::from_mins(1));
    let unsigned = SigningReport {
        is_known: true,
        ..SigningReport::default()
    };
    assert_eq!(report(&world), unsigned);
    assert_eq!(world.told.last(), Some(&SigningPolicy::Unsigned));
    assert!(world.server[&name(ZONE)].serial.newer_than(serial));
    world.pass(Duration::from_mins(1));
    assert_eq!(
        world.told.len(),
        2,
        "what is not signed is not told so again"
    );
}

#[test]
fn a_policy_that_the_server_does_not_have_is_told_and_tried_again() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("mine"));
    let trouble = SigningTrouble::NoPolicy("not found".to_owned());
    assert_eq!(report(&world).trouble, Some(trouble));
    let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
    assert_eq!(event.state, ZoneState::Ready, "it is served all the same");
    let before = world.told.len();
    world.pass(Duration::from_mins(1));
    assert!(world.told.len() > before);
}

#[test]
fn where_several_primaries_have_a_zone_none_of_them_signs_it() {
    let roles = [ServerRole::Primary, ServerRole::Primary];
    let mut world = to_be_signed(&roles, named("default"));
    assert_eq!(
        report(&world).trouble,
        Some(SigningTrouble::SeveralPrimaries(2))
    );
    assert!(world.told.is_empty());
    world.zones.set_servers(servers(&roles[..1]), world.now);
    world.pass(Duration::from_mins(1));
    assert!(report(&world).is_complete);
}

#[test]
fn a_primary_that_joins_is_not_given_a_signed_zone_and_never_leads_it() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let roles = [
        ServerRole::Primary,
        ServerRole::Primary,
        ServerRole::Secondary,
    ];
    world.zones.set_servers(servers(&roles), world.now);
    world.pass(Duration::from_mins(1));
    let followers = |world: &World| {
        let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
        let ids = event.followers.iter().map(|one| one.info.id.clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(followers(&world), [server(2)]);
    assert_eq!(report(&world).left_out, 1);
    let silence = crate::Fault::new(crate::FaultKind::Unreachable, "silent");
    world
        .zones
        .on_answer(&server(0), Err(silence.clone()), world.now);
    assert_eq!(
        world.zones.term(&name(ZONE)).map(|term| term.leader),
        Some(server(0))
    );
    // Another process knows it from the status, though the signer is silent all the time.
    let mut next = World::new();
    next.zones = Zones::new(Limits::default(), servers(&roles));
    next.zones.on_answer(&server(0), Err(silence), next.now);
    let mut declaration = by(named("default"));
    declaration.signing.signer = Some(server(0));
    next.zones.declare_zone(declaration);
    assert_eq!(
        next.zones.term(&name(ZONE)).map(|term| term.leader),
        Some(server(0))
    );
    assert_eq!(followers(&next), [server(2)]);
}

#[test]
fn a_zone_that_the_server_lost_is_signed_again() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    world.server.clear();
    world.pass(Duration::from_mins(1));
    assert!(report(&world).is_complete);
    assert_eq!(world.told.len(), 2);
}

#[test]
fn who_signs_a_zone_goes_on_doing_so_when_others_come_before_it() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let mut all = servers(&[ServerRole::Primary, ServerRole::Primary]);
    all.reverse();
    world.zones.set_servers(all.clone(), world.now);
    world.pass(Duration::from_mins(1));
    let leader = |world: &World| world.zones.term(&name(ZONE)).map(|term| term.leader);
    assert_eq!(leader(&world), Some(server(0)));
    let mut next = World::new();
    next.server = world.server;
    next.zones = Zones::new(Limits::default(), all);
    let mut declaration = by(named("default"));
    declaration.signing.signer = Some(server(0));
    next.zones.declare_zone(declaration);
    next.pass(Duration::from_mins(1));
    assert_eq!(leader(&next), Some(server(0)));
    assert!(report(&next).is_complete);
}

#[test]
fn while_its_signer_is_away_nobody_else_gets_a_signed_zone() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let all = servers(&[ServerRole::Primary, ServerRole::Primary]);
    let leader = |world: &World| world.zones.term(&name(ZONE)).map(|term| term.leader);
    world.zones.set_servers(all.clone(), world.now);
    world.zones.set_servers(all[1..].to_vec(), world.now);
    world.pass(Duration::from_mins(1));
    assert_eq!(leader(&world), None);
    world.zones.set_servers(all.clone(), world.now);
    world.pass(Duration::from_mins(1));
    assert_eq!(leader(&world), Some(server(0)));
    assert!(report(&world).is_complete);

    // Another process finds a primary without the zone, and does not make it there.
    let mut next = World::new();
    next.zones = Zones::new(Limits::default(), all[1..].to_vec());
    let mut declaration = by(named("default"));
    declaration.signing.signer = Some(server(0));
    next.zones.declare_zone(declaration.clone());
    next.pass(Duration::from_mins(1));
    assert!(next.server.is_empty());
    let event = next.zones.zone_event(&name(ZONE)).expect("it is declared");
    let ZoneState::Failed(fault) = event.state else {
        panic!("it is not there: {:?}", event.state);
    };
    assert!(fault.message.contains("192.0.2.1:53"), "{fault}");
    // One that has it goes by another name.
    next.server = world.server;
    next.pass(Duration::from_mins(1));
    assert!(report(&next).is_complete);
    assert_eq!(leader(&next), Some(server(1)));
    // By its author's word it is made anew.
    next.server.clear();
    next.zones = Zones::new(Limits::default(), all[1..].to_vec());
    declaration.signing.policy = SigningPolicy::Unsigned;
    next.zones.declare_zone(declaration);
    next.pass(Duration::from_mins(1));
    assert!(next.server.contains_key(&name(ZONE)));
}

#[test]
fn a_signer_that_lost_the_zone_signs_it_again_and_no_other_primary_gets_it() {
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    let roles = [ServerRole::Primary, ServerRole::Primary];
    world.zones.set_servers(servers(&roles), world.now);
    world.pass(Duration::from_secs(5));
    world.server.clear();
    world.pass(Duration::from_mins(1));
    let signing = report(&world);
    assert!(
        signing.is_complete && signing.trouble.is_none(),
        "{signing:?}"
    );
    assert_eq!(signing.left_out, 1);
    let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
    assert!(event.followers.is_empty(), "{:?}", event.followers);
}

#[test]
fn a_zone_that_is_found_signed_is_left_to_the_server_that_signs_it() {
    let roles = [ServerRole::Primary, ServerRole::Primary];
    let mut world = World::new();
    world.zones = Zones::new(Limits::default(), servers(&roles));
    world.server.insert(name(ZONE), signed(7, ""));
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Served(records(PLAIN))));
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
    assert_eq!(event.followers, [], "the other would sign it too");
    assert_eq!(report(&world).left_out, 1);
}

#[test]
fn a_zone_that_others_serve_is_neither_told_to_be_signed_nor_left_to_its_signer() {
    let roles = [ServerRole::Primary, ServerRole::Primary];
    let mut world = World::new();
    world.zones = Zones::new(Limits::default(), servers(&roles));
    world.server.insert(name(ZONE), signed(7, ""));
    world.zones.declare_zone(ZoneDeclaration {
        hosting: Hosting::Elsewhere,
        ..by(named("default"))
    });
    world.pass(Duration::from_secs(5));
    assert!(world.told.is_empty());
    let event = world.zones.zone_event(&name(ZONE)).expect("it is declared");
    assert_eq!(event.followers.len(), 1);
}

#[test]
fn a_zone_is_looked_at_often_only_while_its_signatures_are_awaited() {
    let usual = Duration::from_secs(30);
    let pause = |world: &World| world.zones.known[&name(ZONE)].check_pause(usual);
    let mut world = to_be_signed(&[ServerRole::Primary], named("default"));
    assert_eq!(pause(&world), usual, "it is signed");
    let content = content(PLAIN);
    let read = Completion::Read(Ok(content));
    world.zones.complete(&name(ZONE), read, world.now);
    assert!(pause(&world) < usual, "it is to be");
    let unknown = to_be_signed(&[ServerRole::Primary], named("unknown"));
    assert_eq!(pause(&unknown), usual, "nothing comes of it");
}

#[test]
fn only_a_zone_that_we_serve_and_that_stays_is_told_to_be_signed() {
    let mut world = World::new();
    world.server.insert(name(ZONE), content(PLAIN));
    world.zones.declare_zone(ZoneDeclaration {
        hosting: Hosting::Elsewhere,
        ..by(named("default"))
    });
    world.pass(Duration::from_mins(1));
    assert_eq!(world.told, []);

    let mut world = to_be_signed(&[ServerRole::Primary], SigningPolicy::Unsaid);
    world.zones.declare_zone(ZoneDeclaration {
        going: Some(super::Going::Along),
        ..by(named("default"))
    });
    world.pass(Duration::from_mins(1));
    assert_eq!(world.told, []);
}

#[test]
fn a_policy_that_is_not_there_is_asked_for_again_when_its_time_has_come() {
    let mut world = World::new();
    world.zones.declare_zone(by(named("mine")));
    let mut step = world.begin();
    while !matches!(step, Step::Sign(_)) {
        world.end(step);
        world.now += Duration::from_secs(1);
        step = world.begin();
    }
    world.end(step);
    let later = world.now + Duration::from_mins(1);
    let zone = world.zones.known.get_mut(&name(ZONE));
    zone.expect("it is declared").next_check = later;
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let again = world.now + Duration::from_secs(10);
    assert_eq!(world.zones.next_wake(), Some(again));
}

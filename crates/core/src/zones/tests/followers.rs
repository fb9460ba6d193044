//! Several servers, and the records of the zone itself.

use std::collections::BTreeSet;

use super::*;
use crate::zones::{Going, Receipt};

pub(super) const APEX: &str = "example.com. 60 IN SOA ns1.example.com. admin.example.com. 7 60 60 60 60\n\
                    example.com. 60 IN NS ns1.example.com.\n\
                    ns1.example.com. 60 IN A 192.0.2.53";

pub(super) fn with_followers(roles: &[ServerRole]) -> World {
    let roles: Vec<ServerRole> = [ServerRole::Primary].iter().chain(roles).copied().collect();
    World {
        zones: Zones::new(Limits::default(), servers(&roles)),
        ..World::new()
    }
}

impl World {
    /// Lets time pass, and carries out what becomes due.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            for zone in self.zones.take_work() {
                while let Some(step) = self.zones.next_step(&zone, self.now) {
                    let completion = self.carry_out(&zone, step);
                    self.zones.complete(&zone, completion, self.now);
                    self.zones.take_events();
                }
            }
            match self.zones.next_wake().filter(|wake| *wake <= end) {
                Some(wake) => self.now = self.now.max(wake),
                None => break,
            }
            self.zones.wake(self.now);
        }
        self.now = end;
    }
}

pub(super) fn served(lines: &str) -> ZoneDeclaration {
    zone_declaration(Hosting::Served(records(lines)))
}

pub(super) fn state(world: &World) -> ZoneState {
    let event = world.zones.zone_event(&name(ZONE));
    event.expect("the zone is known").state
}

#[test]
fn a_set_is_programmed_only_when_every_server_has_it() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&world), ZoneState::Ready);
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_millis(500));
    assert_eq!(world.zones.event(&object("www")), None);
    world.pass(Duration::from_secs(2));
    let ClaimStatus::Lagging(fault) = world.status("www") else {
        panic!("{:?}", world.status("www"));
    };
    assert!(
        fault.message.contains("192.0.2.2:53 has serial 7, not 8"),
        "{fault}"
    );
    assert!(matches!(state(&world), ZoneState::Degraded(_)));

    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert_eq!(world.status("www"), ClaimStatus::Programmed(Serial(8)));
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn from_a_zone_of_others_our_records_go_on_every_primary_before_it_is_let_go() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.server.insert(name(ZONE), content(APEX));
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let had = world.server[&name(ZONE)].serial;
    world.serials.insert(server(1), Ok(had));
    world.zones.undeclare_zone(&name(ZONE));
    world.zones.declare(declare("www", 2, "", WWW));
    world.pass(Duration::from_secs(5));
    assert!(!world.lines().contains(&WWW.to_owned()));
    assert_ne!(state(&world), ZoneState::Gone, "the other one still has it");
    let receipt = world.zones.event(&object("www"));
    assert_ne!(receipt.map(|one| one.withdrawal), Some(Withdrawal::Done));

    world.serials.clear();
    world.pass(Duration::from_secs(5));
    let told = world.zones.take_zone_events();
    assert!(told.iter().any(|one| one.state == ZoneState::Gone));
    let receipt = world.zones.event(&object("www"));
    assert_eq!(receipt.map(|one| one.withdrawal), Some(Withdrawal::Done));
}

#[test]
fn a_server_that_fails_for_a_moment_is_not_told_of() {
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    let fault = Fault::new(FaultKind::Unreachable, "connection refused");
    world.serials.insert(server(1), Err(fault));
    world.pass(Duration::ZERO);
    assert_eq!(world.zones.event(&object("www")), None);
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn the_lead_goes_beyond_a_server_that_is_ahead() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.serials.insert(server(1), Ok(Serial(41)));
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_millis(100));
    assert_eq!(world.server[&name(ZONE)].serial, Serial(42));
}

#[test]
fn an_edit_of_the_zone_is_applied_to_the_served_one() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let edited = APEX
        .replace("60 60 60 60", "60 60 60 5")
        .replace("ns1.", "ns2.");
    world.zones.declare_zone(ZoneDeclaration {
        generation: 2,
        ..served(&edited)
    });
    world.pass(Duration::from_secs(5));
    let lines = world.lines();
    assert!(
        lines.contains(&"example.com. 60 IN NS ns2.example.com.".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"ns2.example.com. 60 IN A 192.0.2.53".to_owned()),
        "{lines:?}"
    );
    assert!(!lines.iter().any(|line| line.contains("ns1.")), "{lines:?}");
    let content = &world.server[&name(ZONE)];
    let soa = &content.sets[&RecordKey::new(name(ZONE), RecordType::Soa)];
    let [RecordData::Soa(soa)] = soa.data() else {
        panic!("{soa:?}");
    };
    assert_eq!(
        (soa.minimum, soa.mname.to_string()),
        (5, "ns2.example.com.".into())
    );
    assert!(content.serial.newer_than(Serial(7)));
}

#[test]
fn a_new_zone_waits_for_its_objects_to_carry_what_they_ask_for() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    let mut uncarried = declare("www", 1, WWW, "");
    let carried = uncarried.clone();
    uncarried.published.clear();
    world.zones.declare(uncarried);
    world.pass(Duration::ZERO);
    assert!(world.server.is_empty(), "nothing is served yet");
    assert_eq!(world.status("www"), ClaimStatus::Admissible);
    world.zones.declare(carried);
    world.pass(Duration::ZERO);
    assert!(world.lines().contains(&WWW.to_owned()), "at once");
    assert_eq!(world.updates, 0, "it was there from the first moment");
}

#[test]
fn an_object_that_never_carries_its_wish_holds_a_new_zone_for_a_moment_only() {
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    let mut uncarried = declare("www", 1, WWW, "");
    uncarried.published.clear();
    world.zones.declare(uncarried);
    world.pass(Duration::from_secs(5));
    assert!(world.server.contains_key(&name(ZONE)));
}

#[test]
fn a_zone_of_an_earlier_run_is_read_before_it_goes() {
    let mut world = World::new();
    world.server.insert(name(ZONE), content(APEX));
    world.zones.declare(declare("www", 1, "", WWW));
    world.zones.declare_zone(ZoneDeclaration {
        going: Some(Going::Asked),
        ..served("")
    });
    world.failures = 1;
    assert_eq!(world.zones.event(&object("www")), None, "it is on its way");
    world.settle();
    assert!(world.server.is_empty());
    let event = world.zones.event(&object("www")).expect("it is gone");
    assert_eq!(event.withdrawal, Withdrawal::Done);
}

#[test]
fn what_a_server_in_rotation_lost_and_does_not_get_again_is_not_served() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    world.serials.insert(server(1), Ok(Serial(6)));
    world.pass(Duration::from_secs(10));
    let status = world.status("www");
    assert!(matches!(status, ClaimStatus::Lagging(_)), "{status:?}");
    world.serials.clear();
    world.pass(Duration::from_secs(10));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn a_server_that_is_asked_and_does_not_answer_is_told_of_in_time() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.declare(declare("www", 1, WWW, ""));
    let visit = loop {
        let step = world.begin();
        if matches!(step, Step::Follow(_)) {
            break step;
        }
        world.end(step);
    };
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let end = world.now + Limits::default().pace.grace;
    let wake = world.zones.next_wake().expect("it wakes by itself");
    assert!(wake <= end, "{wake:?}");
    world.zones.take_events();
    world.now = end;
    while let Some(step) = world.zones.next_step(&name(ZONE), world.now) {
        world.end(step);
    }
    let told = world.zones.take_events();
    assert!(told.iter().any(|one| *one.owner == *object("www")));
    assert!(matches!(world.status("www"), ClaimStatus::Lagging(_)));
    world.end(visit);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_server_stays_late_while_the_leader_is_read_again() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.serials.insert(server(1), Ok(Serial(7)));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(matches!(state(&world), ZoneState::Degraded(_)));
    let content = world.server[&name(ZONE)].clone();
    let read = Completion::Read(Ok(content));
    world.zones.complete(&name(ZONE), read, world.now);
    assert!(matches!(state(&world), ZoneState::Degraded(_)));
}

#[test]
fn who_waits_for_one_server_does_not_wait_for_one_that_is_out_of_rotation() {
    let mut world = with_followers(&[ServerRole::Secondary, ServerRole::Primary]);
    let silence = Fault::new(FaultKind::Lost, "it does not answer");
    world.zones.on_answer(&server(2), Err(silence), world.now);
    world.serials.insert(server(1), Ok(Serial(6)));
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("www"), ClaimStatus::Lagging(_)));
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    let status = world.status("www");
    assert!(matches!(status, ClaimStatus::Programmed(_)), "{status:?}");
}

#[test]
fn one_set_that_waits_holds_no_other() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    let serial = world.server[&name(ZONE)].serial;
    world.serials.insert(server(1), Ok(serial));
    let mail = "mail.example.com. 60 IN A 192.0.2.8";
    world.zones.declare(declare("mail", 1, mail, ""));
    world.pass(Duration::from_millis(500));
    assert_eq!(world.zones.event(&object("mail")), None);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    world.pass(Duration::from_secs(5));
    assert!(matches!(world.status("mail"), ClaimStatus::Lagging(_)));
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
}

#[test]
fn with_too_many_lists_that_wait_for_a_server_everything_does() {
    let key = |number: u32| {
        let name = name(&format!("h{number}.example.com."));
        RecordKey::new(name, RecordType::A)
    };
    let mut zone = super::super::Zone::default();
    let servers = servers(&[ServerRole::Secondary]);
    zone.fleet = crate::fleet::Fleet::new(&servers);
    for number in 1..=1_000 {
        zone.propagate(Serial(number), &[key(number)], Duration::ZERO);
    }
    assert!(zone.propagation.holds(&key(1_000)));
    assert!(!zone.propagation.holds(&key(0)), "nobody wrote it");
    zone.propagate(Serial(1_001), &[key(1_001)], Duration::ZERO);
    assert!(zone.propagation.holds(&key(0)));
}

#[test]
fn nothing_is_served_while_a_server_has_another_version_that_the_lead_went_beyond() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.serials.insert(server(1), Ok(Serial(41)));
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.server[&name(ZONE)].serial, Serial(42));
    let status = world.status("www");
    assert!(matches!(status, ClaimStatus::Lagging(_)), "{status:?}");
}

#[test]
fn what_a_server_lost_that_had_it_before_it_was_read_back_is_not_served() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    let before = world.server[&name(ZONE)].serial;
    world.zones.declare(declare("www", 1, WWW, ""));
    let commit = world.begin_commit();
    world.end(commit);
    world.now += Duration::from_secs(2);
    let verify = world.begin();
    let visit = world.begin();
    assert!(matches!(
        (&verify, &visit),
        (Step::Verify(_), Step::Follow(_))
    ));
    world.end(visit);
    world.end(verify);
    world.pass(Duration::ZERO);
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    world.serials.insert(server(1), Ok(before));
    world.pass(Duration::from_secs(10));
    let status = world.status("www");
    assert!(matches!(status, ClaimStatus::Lagging(_)), "{status:?}");
}

/// All steps that there are now; none of them is carried out yet.
fn steps(world: &mut World) -> Vec<Step> {
    let mut steps = Vec::new();
    for zone in world.zones.take_work() {
        while let Some(step) = world.zones.next_step(&zone, world.now) {
            steps.push(step);
        }
    }
    steps
}

/// Carries out a step, and says who is told of something now.
fn carried_out(world: &mut World, step: Step) -> Vec<Receipt> {
    let completion = world.carry_out(&name(ZONE), step);
    world.zones.complete(&name(ZONE), completion, world.now);
    world.zones.take_events()
}

#[test]
fn what_a_later_commit_finds_on_every_server_is_told() {
    let mut world = with_followers(&[ServerRole::Secondary, ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.zones.declare(declare("www", 1, WWW, ""));
    // It is written and read back, and the followers are about to be asked.
    let mut visits = Vec::new();
    while visits.len() < 2 {
        for step in steps(&mut world) {
            if matches!(step, Step::Follow(_)) {
                visits.push(step);
            } else {
                drop(carried_out(&mut world, step));
            }
        }
    }
    // Before they answer, another change is written and not read back yet.
    let api = WWW.replace("www", "api");
    world.zones.declare(declare("api", 1, &api, ""));
    let mut verify = None;
    while verify.is_none() {
        for step in steps(&mut world) {
            if matches!(step, Step::Verify(_)) {
                verify = Some(step);
            } else {
                drop(carried_out(&mut world, step));
            }
        }
    }
    // One secondary has that already, the other only what was read back.
    world.serials.insert(server(1), Ok(Serial(9)));
    world.serials.insert(server(2), Ok(Serial(8)));
    for visit in visits {
        assert_eq!(carried_out(&mut world, visit), [], "not on both for sure");
    }
    // The lead is seen to be at what the first one has: so both have the first change.
    let mut told = carried_out(&mut world, verify.expect("it is read back"));
    world.serials.clear();
    world.now += Duration::from_secs(5);
    world.zones.wake(world.now);
    for step in steps(&mut world) {
        told.extend(carried_out(&mut world, step));
    }
    let told: BTreeSet<Id> = told.into_iter().map(|one| one.owner).collect();
    assert_eq!(told, [object("api"), object("www")].into());
}

//! What a step's end means: faults of a server, messages, serials, and who hears of it.

use super::{
    followers::{APEX, served, state, with_followers},
    *,
};
use crate::zones::Going;

impl World {
    /// Carries out what is due, and looks at the world before and after each step.
    pub(super) fn watch(&mut self, time: Duration, mut look: impl FnMut(&Self, Option<&Step>)) {
        let end = self.now + time;
        while self.now <= end {
            self.zones.wake(self.now);
            for zone in self.zones.take_work() {
                while let Some(step) = self.zones.next_step(&zone, self.now) {
                    look(self, Some(&step));
                    let completion = self.carry_out(&zone, step);
                    self.zones.complete(&zone, completion, self.now);
                    look(self, None);
                }
            }
            self.now += Duration::from_millis(50);
        }
    }

    /// Takes the next step, which must be there, without ending it.
    pub(super) fn begin(&mut self) -> Step {
        let step = self.zones.next_step(&name(ZONE), self.now);
        step.expect("there is something to do")
    }

    /// Carries out what comes before the next commit, which must be there, and begins that.
    pub(super) fn begin_commit(&mut self) -> Step {
        loop {
            let step = self.begin();
            if matches!(step, Step::Commit(_)) {
                return step;
            }
            self.end(step);
        }
    }

    /// Ends a step as the server answers it.
    pub(super) fn end(&mut self, step: Step) {
        let completion = self.carry_out(&name(ZONE), step);
        self.zones.complete(&name(ZONE), completion, self.now);
    }
}

fn unreachable() -> Fault {
    Fault::new(FaultKind::Unreachable, "connection refused")
}

fn servfail() -> Fault {
    Fault::new(FaultKind::ServerFailed, "SERVFAIL")
}

fn missing() -> Fault {
    Fault::new(FaultKind::Missing, "no such zone")
}

/// A world at rest, with limits of its own.
pub(super) fn with_limits(limits: Limits) -> World {
    let mut world = World {
        zones: Zones::new(limits, servers(&[ServerRole::Primary])),
        ..World::new()
    };
    world.server.insert(name(ZONE), content(""));
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.settle();
    world
}

fn told(world: &mut World) -> Vec<String> {
    let events = world.zones.take_events().into_iter();
    events.map(|event| event.owner.name.to_string()).collect()
}

#[test]
fn a_zone_is_made_only_where_its_server_says_that_it_has_none() {
    for (fault, makes) in [
        (unreachable(), false),
        (servfail(), true),
        (missing(), true),
    ] {
        let mut world = World::new();
        world.zones.declare_zone(served(APEX));
        let step = world.begin();
        assert_eq!(step, Step::Open(None), "it is looked for first");
        let completion = Completion::Read(Err(fault.clone()));
        world.zones.complete(&name(ZONE), completion, world.now);
        world.now += Duration::from_secs(5);
        let step = world.begin();
        assert_eq!(matches!(step, Step::Open(Some(_))), makes, "{fault}");
    }
}

#[test]
fn a_zone_that_is_read_again_is_given_up_only_where_its_server_says_so() {
    let rows = [
        (Hosting::Elsewhere, unreachable(), false),
        (Hosting::Elsewhere, servfail(), false),
        (Hosting::Elsewhere, missing(), true),
        (Hosting::Served(records(APEX)), unreachable(), false),
        (Hosting::Served(records(APEX)), servfail(), true),
        (Hosting::Served(records(APEX)), missing(), true),
    ];
    for (hosting, fault, is_lost) in rows {
        let mut world = World::new();
        world.server.insert(name(ZONE), content(APEX));
        world.zones.declare_zone(zone_declaration(hosting));
        world.settle();
        world
            .zones
            .complete(&name(ZONE), Completion::Read(Err(fault.clone())), world.now);
        assert_eq!(
            matches!(state(&world), ZoneState::Failed(_)),
            is_lost,
            "{fault}"
        );
        // The same where it was asked what others wrote.
        if fault != servfail() {
            let mut world = World::with_zone("");
            world.settle();
            let completion = Completion::ChangesRead(Vec::new(), Err(fault.clone()));
            world.zones.complete(&name(ZONE), completion, world.now);
            assert_eq!(
                matches!(state(&world), ZoneState::Failed(_)),
                is_lost,
                "{fault}"
            );
        }
    }
}

#[test]
fn a_zone_that_is_to_go_and_whose_server_is_silent_is_not_gone() {
    let mut world = World::new();
    world.failures = 1_000;
    world.zones.declare_zone(ZoneDeclaration {
        going: Some(Going::Asked),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.pass(Duration::from_secs(5));
    assert!(matches!(state(&world), ZoneState::Failed(_)));
}

#[test]
fn what_others_wrote_a_moment_ago_counts_before_a_zone_goes() {
    let theirs = "theirs.example.com. 60 IN A 198.51.100.1";
    let mut world = World::new();
    world.zones.declare_zone(served(APEX));
    world.settle();
    let zone = world.server.get_mut(&name(ZONE)).expect("it is served");
    zone.sets.extend(content(theirs).sets);
    zone.serial = zone.serial.next();
    world.zones.declare_zone(ZoneDeclaration {
        going: Some(Going::Asked),
        ..served(APEX)
    });
    world.settle();
    assert!(world.lines().contains(&theirs.to_owned()));
}

#[test]
fn nothing_is_written_while_the_zone_is_read_or_has_to_wait() {
    let mut world = World::with_zone("");
    world.settle();
    world.now += Duration::from_mins(1);
    let step = world.begin();
    assert_eq!(step, Step::Check);
    world.zones.declare(declare("www", 1, WWW, ""));
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let completion = Completion::Checked(Err(unreachable()));
    world.zones.complete(&name(ZONE), completion, world.now);
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    let wake = world.zones.next_wake().expect("it is tried again");
    assert!(wake > world.now);
    world.now = wake;
    assert!(matches!(world.begin(), Step::Commit(_)));
}

#[test]
fn an_older_serial_where_changes_are_asked_for_means_that_something_was_lost() {
    for (seen, reads) in [(Serial(1), false), (Serial(0), true)] {
        let mut world = World::with_zone("");
        world.settle();
        let completion = Completion::ChangesRead(Vec::new(), Ok(Delta::UpToDate(seen)));
        world.zones.complete(&name(ZONE), completion, world.now);
        let step = world.zones.next_step(&name(ZONE), world.now);
        assert_eq!(step == Some(Step::Read), reads, "{seen}");
    }
}

#[test]
fn a_look_that_finds_another_serial_or_a_server_again_is_news() {
    let mut world = World::with_zone("");
    world.settle();
    let look = |world: &mut World, result| {
        world.zones.take_zone_events();
        let completion = Completion::Checked(result);
        world.zones.complete(&name(ZONE), completion, world.now);
        world.zones.take_zone_events().len()
    };
    assert_eq!(look(&mut world, Ok(Serial(1))), 0);
    assert_eq!(look(&mut world, Err(unreachable())), 1);
    assert_eq!(look(&mut world, Ok(Serial(1))), 1, "it answers again");
    assert_eq!(look(&mut world, Ok(Serial(2))), 1);
}

#[test]
fn a_message_holds_no_more_bytes_than_it_may_and_never_half_a_name() {
    // A new set of one address of a host with such a name.
    let one = 2 * (16 + 10) + 4;
    let mut world = with_limits(Limits {
        message_len_max: 2 * one,
        ..Limits::default()
    });
    for number in 0..5 {
        let line = format!("h{number}.example.com. 60 IN A 192.0.2.{number}");
        world
            .zones
            .declare(declare(&format!("h{number}"), 1, &line, ""));
    }
    world.settle();
    let sizes: Vec<usize> = world.messages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 1]);

    let mut world = with_limits(Limits {
        message_len_max: one,
        ..Limits::default()
    });
    let text = "h0.example.com. 60 IN TXT \"a text beside it\"";
    let line = "h0.example.com. 60 IN A 192.0.2.1";
    world.zones.declare(declare("text", 1, text, ""));
    world.zones.declare(declare("h0", 1, line, ""));
    world.settle();
    assert_eq!(world.messages.len(), 1);
    assert_eq!(world.lines().len(), 2);
}

#[test]
fn a_name_is_not_cut_in_two_by_the_number_of_sets() {
    let mut world = with_limits(Limits {
        sets_per_message_max: 2,
        ..Limits::default()
    });
    for (owner, line) in [
        ("a", "a.example.com. 60 IN A 192.0.2.1"),
        ("b", "b.example.com. 60 IN A 192.0.2.2"),
        ("t", "b.example.com. 60 IN TXT \"beside it\""),
        ("c", "c.example.com. 60 IN A 192.0.2.3"),
    ] {
        world.zones.declare(declare(owner, 1, line, ""));
    }
    world.settle();
    let sizes: Vec<usize> = world.messages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 1]);
}

#[test]
fn many_sets_whose_reading_back_fails_are_read_back_again() {
    let mut world = with_limits(Limits {
        sets_by_changes_min: 2,
        ..Limits::default()
    });
    let lines = [WWW, "b.example.com. 60 IN A 192.0.2.2"];
    for (owner, line) in ["www", "b"].iter().zip(lines) {
        world.zones.declare(declare(owner, 1, line, ""));
    }
    let step = world.begin();
    world.end(step);
    let step = world.begin();
    assert!(
        matches!(&step, Step::ReadChanges(_, keys) if keys.len() == 2),
        "{step:?}"
    );
    world.failures = 1;
    world.end(step);
    assert!(matches!(world.status("www"), ClaimStatus::Failing(_)));
    world.settle();
    assert!(matches!(world.status("www"), ClaimStatus::Programmed(_)));
    assert!(matches!(world.status("b"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_set_that_is_refused_is_tried_later_and_later() {
    let mut world = World::with_zone("");
    world.settle();
    world.zones.declare(declare("www", 1, WWW, ""));
    let mut waits = Vec::new();
    for _ in 0..3 {
        let step = world.begin();
        let Step::Commit(plan) = step else {
            panic!("{step:?}");
        };
        let refused = plan
            .into_changes()
            .into_iter()
            .map(|change| (change.key, Fault::new(FaultKind::Refused, "REFUSED")));
        let sent = Sent {
            refused: refused.collect(),
            ..Sent::default()
        };
        let zone = name(ZONE);
        world
            .zones
            .complete(&zone, Completion::Sent(sent), world.now);
        assert!(matches!(world.status("www"), ClaimStatus::Rejected(_)));
        assert_eq!(world.zones.next_step(&zone, world.now), None);
        let wake = world.zones.next_wake().expect("it is tried again");
        waits.push(wake.saturating_sub(world.now));
        world.now = wake;
    }
    assert!(waits[0] > Duration::ZERO && waits[0] < waits[1] && waits[1] < waits[2]);
}

#[test]
fn who_waits_for_a_zone_hears_what_becomes_of_it() {
    let mut world = World::with_zone("");
    world.settle();
    world.zones.declare(declare("www", 1, WWW, ""));
    assert_eq!(told(&mut world), Vec::<String>::new(), "it is on its way");
    world
        .zones
        .on_answer(&server(0), Err(unreachable()), world.now);
    assert_eq!(told(&mut world), ["www"]);
    assert!(matches!(world.status("www"), ClaimStatus::Failing(_)));
    world.zones.on_answer(&server(0), Ok(()), world.now);
    told(&mut world);
    world.settle();
    assert_eq!(told(&mut world), ["www"]);

    let mut world = World::new();
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.zones.declare(declare("www", 1, WWW, ""));
    told(&mut world);
    let step = world.begin();
    world.end(step);
    assert_eq!(told(&mut world), ["www"], "there is no such zone");
    assert!(matches!(world.status("www"), ClaimStatus::ZoneNotReady(_)));

    let mut world = World::new();
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    let mut asking = declare("www", 1, WWW, "");
    asking.published.clear();
    world.zones.declare(asking);
    told(&mut world);
    let step = world.begin();
    world.end(step);
    assert_eq!(told(&mut world), ["www"], "it asks whether it may have it");
}

#[test]
fn what_was_never_in_a_zone_that_others_do_not_serve_yet_is_withdrawn() {
    let mut world = World::new();
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.zones.declare(declare("www", 1, "", WWW));
    let step = world.begin();
    world.end(step);
    let event = world.zones.event(&object("www")).expect("it is told");
    assert_eq!(event.withdrawal, Withdrawal::Done);
}

#[test]
fn of_two_claims_of_one_object_at_a_name_only_the_loser_is_told_of_a_conflict() {
    let alias = "www.example.com. 300 IN CNAME other.example.com.";
    let mut world = World::with_zone("");
    world.zones.declare(declare("early", 1, WWW, ""));
    let text = "www.example.com. 300 IN TXT \"beside it\"";
    let both = format!("{alias}\n{text}");
    world.zones.declare(declare("late", 2, &both, ""));
    world.settle();
    let event = world.zones.event(&object("late")).expect("it is told");
    let statuses: Vec<&ClaimStatus> = event.outcomes.iter().map(|one| &one.status).collect();
    assert!(
        matches!(
            statuses[..],
            [ClaimStatus::Conflict { .. }, ClaimStatus::Programmed(_)]
        ),
        "{statuses:?}"
    );
}

#[test]
fn edits_are_not_counted_as_removed() {
    let host = |number: usize| format!("h{number}.example.com. 60 IN A 192.0.2.{number}");
    let mut world = World::with_zone("");
    for number in 0..30 {
        let owner = format!("h{number}");
        world.zones.declare(declare(&owner, 1, &host(number), ""));
    }
    world.settle();
    for number in 0..12 {
        let owner = format!("h{number}");
        let edited = host(number).replace("192.0.2", "198.51.100");
        world
            .zones
            .declare(declare(&owner, 2, &edited, &host(number)));
    }
    world.settle();
    world.zones.declare(declare("h20", 2, "", &host(20)));
    world.settle();
    assert_eq!(world.lines().len(), 29);
}

#[test]
fn a_zone_is_opening_until_every_server_has_it_and_a_withdrawal_waits_as_well() {
    let mut world = with_followers(&[ServerRole::Secondary, ServerRole::Secondary]);
    world.serials.insert(server(2), Ok(Serial(3)));
    world.zones.declare_zone(served(APEX));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::from_millis(500));
    assert_eq!(state(&world), ZoneState::Opening);
    assert_eq!(world.zones.behind(&name(ZONE)), [server(2)]);
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    assert_eq!(state(&world), ZoneState::Ready);
    assert!(world.zones.behind(&name(ZONE)).is_empty());

    let before = world.server[&name(ZONE)].serial;
    world.serials.insert(server(2), Ok(before));
    world.zones.declare(declare("www", 1, "", WWW));
    world.pass(Duration::from_millis(500));
    assert!(!world.lines().contains(&WWW.to_owned()));
    assert_eq!(world.zones.event(&object("www")), None, "one has it still");
    // It is looked at again soon.
    let wake = world.zones.next_wake().expect("it is looked at");
    assert!(wake < world.now + Duration::from_millis(600), "{wake:?}");
    world.pass(Duration::from_secs(2));
    let event = world.zones.event(&object("www")).expect("it is told");
    assert!(matches!(event.withdrawal, Withdrawal::Failing(_)));
    world.serials.clear();
    world.pass(Duration::from_secs(5));
    let event = world.zones.event(&object("www")).expect("it is told");
    assert_eq!(event.withdrawal, Withdrawal::Done);
    world.serials.insert(server(2), Ok(before));
    world.pass(Duration::from_secs(5));
    world.zones.undeclare_zone(&name(ZONE));
    assert!(world.zones.behind(&name(ZONE)).is_empty());
}

#[test]
fn a_server_that_is_behind_is_looked_at_within_milliseconds() {
    let mut world = with_followers(&[ServerRole::Secondary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world
        .serials
        .insert(server(1), Ok(world.server[&name(ZONE)].serial));
    world.zones.declare(declare("www", 1, WWW, ""));
    world.pass(Duration::ZERO);
    let wake = world.zones.next_wake().expect("it is looked at");
    assert!(wake <= world.now + Duration::from_millis(10), "{wake:?}");
}

#[test]
fn other_servers_are_left_alone_while_the_leader_has_not_what_it_had() {
    // It lost the zone: what others have may be all that is left.
    let mut world = with_followers(&[ServerRole::Primary]);
    world.zones.declare_zone(served(APEX));
    world.pass(Duration::from_secs(5));
    world.server.clear();
    world.watch(Duration::from_secs(5), |world, step| {
        let is_open = matches!(state(world), ZoneState::Ready | ZoneState::Degraded(_));
        let is_known = !is_open && world.server.is_empty();
        assert!(!is_known || !matches!(step, Some(Step::Follow(_))));
    });
    // It fell back, and they are being asked.
    let mut world = with_followers(&[ServerRole::Primary]);
    world.server.insert(name(ZONE), content(APEX));
    world.zones.declare_zone(ZoneDeclaration {
        serial_floor: SerialFloor::Told(Serial(49)),
        ..served(APEX)
    });
    let step = world.begin();
    world.end(step);
    let step = world.begin();
    assert!(matches!(step, Step::Rescue(_)), "{step:?}");
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
}

#[test]
fn questions_become_fewer_where_there_are_many_zones() {
    let pace = |count: usize| {
        let mut world = with_followers(&[ServerRole::Secondary, ServerRole::Secondary]);
        for number in 0..count {
            world.zones.declare_zone(ZoneDeclaration {
                zone: name(&format!("zone{number}.example.")),
                ..zone_declaration(Hosting::Elsewhere)
            });
        }
        (world.zones.check_interval(), world.zones.idle_pace().idle)
    };
    let seconds = Duration::from_secs;
    assert_eq!(pace(1), (seconds(1), seconds(1)));
    assert_eq!(pace(400), (seconds(2), seconds(4)));
}

#[test]
fn what_was_written_and_not_read_back_is_not_gone_when_it_is_taken_back() {
    let mut world = World::with_zone("");
    world.settle();
    world.zones.declare(declare("www", 1, WWW, ""));
    let zone = name(ZONE);
    let step = world.zones.next_step(&zone, world.now).expect("a commit");
    let completion = world.carry_out(&zone, step);
    world.zones.complete(&zone, completion, world.now);
    let step = world
        .zones
        .next_step(&zone, world.now)
        .expect("it is read back");
    world.failures = 1;
    let completion = world.carry_out(&zone, step);
    world.zones.complete(&zone, completion, world.now);
    world.zones.declare(declare("www", 1, "", WWW));
    let told = world
        .zones
        .event(&object("www"))
        .map(|event| event.withdrawal);
    assert!(matches!(told, Some(Withdrawal::Failing(_))), "{told:?}");
    world.settle();
    assert_eq!(world.lines(), Vec::<String>::new());
    let told = world
        .zones
        .event(&object("www"))
        .map(|event| event.withdrawal);
    assert_eq!(told, Some(Withdrawal::Done));
}

#[test]
fn a_zone_that_is_being_read_has_nothing_to_wake_for() {
    let mut world = World::with_zone("");
    world.settle();
    world.now += Duration::from_mins(1);
    assert_eq!(world.begin(), Step::Check);
    assert_eq!(world.zones.next_step(&name(ZONE), world.now), None);
    assert_eq!(world.zones.next_wake(), None);
}

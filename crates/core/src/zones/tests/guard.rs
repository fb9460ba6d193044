//! What is held, what is let through, and what others write.

use super::*;
use crate::delta::Difference;

fn host(number: usize) -> String {
    format!("h{number}.example.com. 60 IN A 192.0.2.{number}")
}

/// A zone with so many sets, each of an object of its own.
fn with_hosts(count: usize) -> World {
    let mut world = World::with_zone("");
    for number in 0..count {
        let line = host(number);
        world
            .zones
            .declare(declare(&format!("h{number}"), 1, &line, ""));
    }
    world.settle();
    assert_eq!(world.lines().len(), count);
    world
}

/// The object asks for nothing any more and still carries its line, as one that is being deleted.
fn withdraw(world: &mut World, number: usize) {
    world
        .zones
        .declare(declare(&format!("h{number}"), 2, "", &host(number)));
}

fn held(world: &World) -> Option<crate::zones::HeldPlan> {
    world
        .zones
        .zone_event(&name(ZONE))
        .expect("it is known")
        .held
}

#[test]
fn what_is_on_its_way_counts_too() {
    let mut world = with_hosts(30);
    for number in 0..9 {
        withdraw(&mut world, number);
    }
    let zone = name(ZONE);
    let step = world.zones.next_step(&zone, world.now);
    let step = step.expect("nine of thirty may go");
    assert!(matches!(&step, Step::Commit(plan) if plan.len() == 9));
    for number in 9..12 {
        withdraw(&mut world, number);
    }
    let sent = world.carry_out(&zone, step);
    world.zones.complete(&zone, sent, world.now);
    world.settle();
    assert_eq!(world.lines().len(), 21, "the other three are held");
    assert_eq!(held(&world).map(|plan| plan.removals), Some(3));
}

#[test]
fn a_plan_that_removes_too_much_is_held_until_its_digest_is_named() {
    let mut world = with_hosts(30);
    for number in 0..12 {
        withdraw(&mut world, number);
    }
    world.settle();
    let plan = held(&world).expect("twelve of thirty are too many");
    assert_eq!(
        (plan.removals, plan.total, world.lines().len()),
        (12, 30, 30)
    );
    let event = world.zones.event(&object("h0")).expect("it is told");
    assert!(
        matches!(event.withdrawal, Withdrawal::Failing(_)),
        "{event:?}"
    );

    let allow = |digest: &str| ZoneDeclaration {
        allowed: Some(digest.into()),
        ..zone_declaration(Hosting::Elsewhere)
    };
    world.zones.declare_zone(allow("another"));
    world.settle();
    assert_eq!(world.lines().len(), 30);
    world.zones.declare_zone(allow(&plan.digest));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (18, None));
    let event = world.zones.event(&object("h0")).expect("it is told");
    assert_eq!(event.withdrawal, Withdrawal::Done);
}

#[test]
fn few_removals_and_additions_pass() {
    let mut world = with_hosts(40);
    for number in 0..9 {
        withdraw(&mut world, number);
    }
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (31, None));
}

#[test]
fn what_others_wrote_does_not_count_as_removed() {
    // It comes first in the order in which sets are looked at.
    let ours = "a.example.com. 60 IN A 192.0.2.200";
    let foreign: Vec<String> = (0..30).map(host).collect();
    let mut world = World::with_zone(&format!("{}\n{ours}", foreign.join("\n")));
    // Withdrawn while nothing ran: it is found by the first transfer, which shows all the others too.
    world.zones.declare(declare("a", 1, "", ours));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (30, None));
}

#[test]
fn removals_that_come_one_by_one_count_together() {
    let mut world = with_hosts(20);
    for number in 0..20 {
        withdraw(&mut world, number);
        world.settle_without_waiting();
    }
    let plan = held(&world).expect("all of them are too many");
    assert!(world.lines().len() >= 11, "{:?}", world.lines());
    assert_eq!(plan.removals, world.lines().len());
}

#[test]
fn a_set_that_is_wanted_again_is_no_longer_held() {
    let mut world = with_hosts(15);
    for number in 0..15 {
        withdraw(&mut world, number);
    }
    world.settle();
    let before = held(&world).expect("all of them are too many").removals;
    world.zones.declare(declare("h0", 3, &host(0), &host(0)));
    world.settle();
    assert_eq!(held(&world).expect("the rest is held").removals, before - 1);
    assert!(matches!(world.status("h0"), ClaimStatus::Programmed(_)));
}

#[test]
fn an_exclusive_zone_loses_what_others_wrote_and_a_shared_one_keeps_and_counts_it() {
    let foreign = "mail.example.com. 60 IN A 192.0.2.9";
    let mut world = World::with_zone(foreign);
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!((event.foreign, world.lines().len()), (1, 2));
    world.zones.declare_zone(ZoneDeclaration {
        tenancy: Tenancy::Exclusive,
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!((event.foreign, world.lines()), (0, vec![WWW.to_owned()]));
}

#[test]
fn of_all_at_the_apex_only_name_servers_are_not_called_foreign() {
    let own = "example.com. 60 IN NS ns.example.net.";
    let foreign = "example.com. 60 IN TXT \"theirs\"\nsub.example.com. 60 IN NS ns.example.net.";
    let mut world = World::with_zone(&format!("{own}\n{foreign}"));
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!(event.foreign, 2);
    world.zones.declare_zone(ZoneDeclaration {
        tenancy: Tenancy::Exclusive,
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    assert_eq!(world.lines(), [own]);
}

fn allow(digest: &str) -> ZoneDeclaration {
    ZoneDeclaration {
        allowed: Some(digest.into()),
        ..zone_declaration(Hosting::Elsewhere)
    }
}

#[test]
fn the_last_name_servers_of_a_zone_go_only_when_its_author_says_so() {
    let both = "example.com. 60 IN NS a.example.net.\nexample.com. 60 IN NS b.example.net.";
    let one = "example.com. 60 IN NS a.example.net.";
    let mut world = World::with_zone("");
    world.zones.declare(declare("ns", 1, both, ""));
    world.settle();
    world.zones.declare(declare("ns", 2, one, both));
    world.settle();
    assert_eq!((world.lines(), held(&world)), (vec![one.to_owned()], None));

    world.zones.declare(declare("ns", 3, "", one));
    world.settle();
    let plan = held(&world).expect("the zone would have no name server");
    assert_eq!((plan.removals, world.lines().len()), (1, 1));
    world.zones.declare_zone(allow(&plan.digest));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (0, None));

    // The word for that plan, which still stands, is none for the next one.
    world.zones.declare(declare("ns", 4, one, ""));
    world.settle();
    world.zones.declare(declare("ns", 5, "", one));
    world.settle();
    world.zones.declare_zone(allow(&plan.digest));
    world.settle();
    let next = held(&world).expect("it is another plan");
    assert_eq!(world.lines().len(), 1);
    world.zones.declare_zone(allow(&next.digest));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (0, None));
}

#[test]
fn a_plan_that_was_shown_can_be_named_although_more_has_joined_it() {
    let mut world = with_hosts(30);
    for number in 0..12 {
        withdraw(&mut world, number);
    }
    world.settle();
    let shown = world.zones.take_zone_events().pop();
    let shown = shown.and_then(|event| event.held).expect("it is held");
    for number in 12..15 {
        withdraw(&mut world, number);
    }
    world.settle();
    assert_eq!(held(&world).map(|plan| plan.removals), Some(15));
    world.zones.declare_zone(allow(&shown.digest));
    world.settle();
    let rest = held(&world).expect("what joined it is held on");
    assert_eq!((rest.removals, world.lines().len()), (3, 18));
    assert_ne!(rest.digest, shown.digest);
    world.zones.declare_zone(allow(&rest.digest));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (15, None));
}

#[test]
fn an_exclusive_zone_keeps_the_name_servers_that_its_server_gave_it() {
    let lines = "example.com. 60 IN NS ns.example.net.";
    let mut world = World::with_zone(lines);
    world.zones.declare_zone(ZoneDeclaration {
        tenancy: Tenancy::Exclusive,
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    assert_eq!(
        (world.lines(), held(&world)),
        (vec![lines.to_owned()], None)
    );
}

#[test]
fn an_exclusive_zone_keeps_the_addresses_of_its_name_servers() {
    let kept = "ns.example.com. 60 IN A 192.0.2.53\nexample.com. 60 IN NS ns.example.com.";
    let others = "mail.example.com. 60 IN A 192.0.2.9\nns.example.com. 60 IN TXT \"theirs\"";
    let mut world = World::with_zone(&format!("{kept}\n{others}"));
    world.zones.declare_zone(ZoneDeclaration {
        tenancy: Tenancy::Exclusive,
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    assert_eq!(
        (world.lines().join("\n"), held(&world)),
        (kept.to_owned(), None)
    );
    // An object that asks for the name has it.
    let wanted = "ns.example.com. 60 IN A 192.0.2.54";
    world.zones.declare(declare("ns", 1, wanted, ""));
    world.settle();
    assert_eq!(world.lines()[0], wanted);
}

#[test]
fn what_others_did_since_is_taken_in_step_by_step() {
    let mut world =
        World::with_zone("example.com. 60 IN SOA ns.example.com. admin.example.com. 7 60 60 60 60");
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    let zone = name(ZONE);
    let content = world.server.get_mut(&zone).expect("it is served");
    content.serial = content.serial.next();
    let [ours, theirs] =
        [WWW, "mail.example.com. 60 IN A 192.0.2.9"].map(|line| records(line).remove(0));
    content.sets.remove(&ours.key());
    content
        .sets
        .insert(theirs.key(), RecordSet::new(60, [theirs.data.clone()]));
    let to = format!(
        "example.com. 60 IN SOA ns.example.com. admin.example.com. {} 60 60 60 60",
        content.serial
    );
    world.now += Duration::from_mins(1);
    world.zones.wake(world.now);
    let mut steps = Vec::new();
    for zone in world.zones.take_work() {
        while let Some(step) = world.zones.next_step(&zone, world.now) {
            let completion = match &step {
                Step::ReadChanges(_, keys) => Completion::ChangesRead(
                    keys.clone(),
                    Ok(Delta::Difference(Difference {
                        to: records(&to).remove(0),
                        removed: vec![ours.clone()],
                        added: vec![theirs.clone()],
                        fleeting: Vec::new(),
                        returned: Vec::new(),
                    })),
                ),
                Step::Open(_)
                | Step::Read
                | Step::Check
                | Step::Commit(_)
                | Step::Verify(_)
                | Step::Renew(_)
                | Step::Sign(_)
                | Step::Follow(_)
                | Step::Rescue(_)
                | Step::Close => world.carry_out(&zone, step.clone()),
            };
            steps.push(step);
            world.zones.complete(&zone, completion, world.now);
        }
    }
    assert!(
        steps
            .iter()
            .any(|step| matches!(step, Step::ReadChanges(..))),
        "{steps:?}"
    );
    assert!(!steps.contains(&Step::Read), "{steps:?}");
    assert!(world.lines().contains(&WWW.to_owned()), "ours is mended");
    let event = world.zones.zone_event(&zone).expect("it is known");
    assert_eq!(event.foreign, 1);
}

impl World {
    /// Carries out what is due now.
    fn settle_without_waiting(&mut self) {
        loop {
            let work = self.zones.take_work();
            if work.is_empty() {
                return;
            }
            for zone in work {
                while let Some(step) = self.zones.next_step(&zone, self.now) {
                    let completion = self.carry_out(&zone, step);
                    self.zones.complete(&zone, completion, self.now);
                }
            }
        }
    }
}

#[test]
fn what_is_held_goes_with_a_zone_that_is_taken_back() {
    let mut world = with_hosts(20);
    for number in 0..12 {
        withdraw(&mut world, number);
    }
    world.settle();
    assert!(held(&world).is_some());
    world.zones.undeclare_zone(&name(ZONE));
    world.settle();
    assert_eq!(world.lines(), Vec::<String>::new());
    let gone = world.zones.zone_event(&name(ZONE)).map(|event| event.state);
    assert_eq!(gone, Some(ZoneState::Gone));
}

/// The object asks for these lines no more and still carries them.
fn withdraw_line(world: &mut World, owner: &str, line: &str) {
    world.zones.declare(declare(owner, 2, "", line));
}

#[test]
fn the_last_name_servers_are_held_though_more_is_wanted_at_the_apex() {
    let servers = "example.com. 60 IN NS a.example.net.";
    let text = "example.com. 60 IN TXT \"ours\"";
    let mut world = World::with_zone("");
    world.zones.declare(declare("ns", 1, servers, ""));
    world.zones.declare(declare("text", 1, text, ""));
    world.settle();
    withdraw_line(&mut world, "ns", servers);
    world.settle();
    assert_eq!(held(&world).map(|plan| plan.removals), Some(1));
    assert_eq!(world.lines().len(), 2);
}

#[test]
fn a_delegation_and_a_record_at_the_apex_go_as_any_other() {
    for line in [
        "sub.example.com. 60 IN NS a.example.net.",
        "example.com. 60 IN TXT \"ours\"",
    ] {
        let mut world = World::with_zone("");
        world.zones.declare(declare("one", 1, line, ""));
        world.settle();
        assert_eq!(world.lines(), [line]);
        withdraw_line(&mut world, "one", line);
        world.settle();
        assert_eq!((world.lines(), held(&world)), (Vec::new(), None));
    }
}

#[test]
fn a_set_whose_name_stays_is_not_removed_too_much() {
    let mut world = with_hosts(12);
    let text = |number: usize| format!("h{number}.example.com. 60 IN TXT \"{number}\"");
    for number in 0..12 {
        let owner = format!("t{number}");
        world.zones.declare(declare(&owner, 1, &text(number), ""));
    }
    world.settle();
    assert_eq!(world.lines().len(), 24);
    for number in 0..12 {
        withdraw_line(&mut world, &format!("t{number}"), &text(number));
    }
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (12, None));
}

#[test]
fn three_tenths_of_a_zone_may_go_within_a_minute_and_not_one_more() {
    let mut world = with_hosts(40);
    for number in 0..12 {
        withdraw(&mut world, number);
        if number == 5 {
            world.settle_without_waiting();
        }
    }
    world.settle_without_waiting();
    assert_eq!((world.lines().len(), held(&world)), (28, None));
    withdraw(&mut world, 12);
    world.settle_without_waiting();
    assert_eq!(held(&world).map(|plan| plan.removals), Some(1));
}

#[test]
fn delegations_count_as_removed() {
    let mut world = with_hosts(18);
    let cut = |number: usize| format!("sub{number}.example.com. 60 IN NS ns.example.net.");
    for number in 0..12 {
        let owner = format!("sub{number}");
        world.zones.declare(declare(&owner, 1, &cut(number), ""));
    }
    world.settle();
    for number in 0..12 {
        withdraw_line(&mut world, &format!("sub{number}"), &cut(number));
    }
    world.settle();
    assert_eq!(held(&world).map(|plan| plan.removals), Some(12));
}

#[test]
fn what_is_changed_on_its_way_is_not_removed() {
    let mut world = with_hosts(30);
    for number in 0..12 {
        let edited = host(number).replace("192.0.2", "198.51.100");
        let edit = declare(&format!("h{number}"), 2, &edited, &host(number));
        world.zones.declare(edit);
    }
    let zone = name(ZONE);
    let step = world.zones.next_step(&zone, world.now).expect("a commit");
    withdraw(&mut world, 20);
    let sent = world.carry_out(&zone, step);
    world.zones.complete(&zone, sent, world.now);
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (29, None));
}

#[test]
fn what_something_else_takes_along_is_held_however_little_it_is() {
    let mut world = with_hosts(3);
    let leave = |world: &mut World, going| {
        world.zones.declare(Declaration {
            going,
            ..declare("h1", 2, "", &host(1))
        });
        world.settle();
    };
    // Before it is known by whose word it goes, it neither goes nor is held.
    leave(&mut world, Going::Unsaid);
    assert_eq!((world.lines().len(), held(&world)), (3, None));
    leave(&mut world, Going::Along);
    let plan = held(&world).expect("nobody asked for it");
    assert_eq!((plan.removals, plan.along, world.lines().len()), (1, 1, 3));
    let event = world.zones.event(&object("h1")).expect("it is told");
    let said = format!("{:?}", event.withdrawal);
    assert!(said.contains("is being deleted"), "{said}");
    // Its author says that it is meant, by the digest or by deleting it.
    let mut named = with_hosts(3);
    leave(&mut named, Going::Along);
    let digest = held(&named).map(|plan| plan.digest.into());
    named.zones.declare_zone(ZoneDeclaration {
        allowed: digest,
        ..zone_declaration(Hosting::Elsewhere)
    });
    named.settle();
    assert_eq!((named.lines().len(), held(&named)), (2, None));
    leave(&mut world, Going::Asked);
    assert_eq!((world.lines().len(), held(&world)), (2, None));
}

#[test]
fn what_is_wanted_again_is_held_no_longer() {
    let mut world = with_hosts(3);
    world.zones.declare(Declaration {
        going: Going::Along,
        ..declare("h1", 2, "", &host(1))
    });
    world.settle();
    assert_eq!(held(&world).map(|plan| plan.along), Some(1));
    world.zones.declare(declare("again", 3, &host(1), ""));
    world.settle();
    assert_eq!((world.lines().len(), held(&world)), (3, None));
}

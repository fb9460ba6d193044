//! What a zone's author allows, and who asked for what is done.

use super::*;
use crate::zones::Cut;

const OTHER: &str = "www.example.com. 300 IN A 192.0.2.9";

fn with_writes(writes: WritePolicy) -> World {
    let mut world = World::with_zone("");
    world.zones.declare_zone(ZoneDeclaration {
        writes,
        ..zone_declaration(Hosting::Elsewhere)
    });
    // What is asked for before the zone is first read may have been sent by an earlier process.
    world.settle();
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW]);
    world
}

/// What stands after an edit, and after everything was withdrawn.
fn edited_and_withdrawn(writes: WritePolicy) -> [Vec<String>; 2] {
    let mut world = with_writes(writes);
    world.zones.declare(declare("www", 2, OTHER, WWW));
    world.settle();
    let edited = world.lines();
    world
        .zones
        .declare(declare("www", 3, "", &edited.join("\n")));
    world.settle();
    [edited, world.lines()]
}

#[test]
fn a_zone_takes_only_the_changes_that_its_author_wants() {
    let lines = |lines: &[&str]| {
        lines
            .iter()
            .map(|&line| line.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        edited_and_withdrawn(WritePolicy::Sync),
        [lines(&[OTHER]), lines(&[])]
    );
    assert_eq!(
        edited_and_withdrawn(WritePolicy::UpsertOnly),
        [lines(&[OTHER]), lines(&[OTHER])]
    );
    assert_eq!(
        edited_and_withdrawn(WritePolicy::CreateOnly),
        [lines(&[WWW]), lines(&[WWW])]
    );
}

#[test]
fn of_the_name_servers_that_something_takes_along_all_but_the_last_may_go() {
    let both = "example.com. 60 IN NS a.example.net.\nexample.com. 60 IN NS b.example.net.";
    let one = "example.com. 60 IN NS a.example.net.";
    let mut world = World::with_zone("");
    world.zones.declare(declare("ns", 1, both, ""));
    world.settle();
    world.zones.declare(Declaration {
        going: Going::Along,
        ..declare("ns", 2, one, both)
    });
    world.settle();
    assert_eq!(world.lines(), [one]);
    world.zones.declare(Declaration {
        going: Going::Along,
        ..declare("ns", 3, "", one)
    });
    world.settle();
    assert_eq!(world.lines(), [one], "the last of them is held");
}

#[test]
fn what_a_forgotten_object_left_behind_is_foreign() {
    let mut world = with_writes(WritePolicy::Sync);
    world.zones.forget(&object("www"));
    world.zones.declare(declare("next", 2, OTHER, ""));
    world.settle();
    assert_eq!(
        (world.lines(), world.status("next")),
        (vec![WWW.to_owned()], ClaimStatus::NotOwned)
    );
}

#[test]
fn a_plan_knows_who_asked_for_it() {
    let mut world = with_writes(WritePolicy::Sync);
    world.zones.declare(declare("www", 2, OTHER, WWW));
    let zone = name(ZONE);
    assert_eq!(world.zones.take_work(), [name(ZONE)]);
    let Some(Step::Commit(plan)) = world.zones.next_step(&zone, world.now) else {
        panic!("an open zone commits what is wanted");
    };
    assert_eq!(plan.askers().collect::<Vec<_>>(), [&object("www")]);
    assert!(
        plan.to_string().ends_with("for arecord/default/www\n"),
        "{plan}"
    );
}

#[test]
fn a_zone_that_is_declared_may_be_asked_about() {
    let mut zones = Zones::new(Limits::default(), servers(&[ServerRole::Primary]));
    assert_eq!((zones.probe(), zones.names().next()), (None, None));
    zones.declare(declare("www", 1, WWW, ""));
    assert_eq!((zones.probe(), zones.names().count()), (None, 1));
    zones.declare_zone(zone_declaration(Hosting::Elsewhere));
    assert_eq!(zones.probe(), Some(name(ZONE)));
}

#[test]
fn a_cut_says_where_it_is_and_what_to_do() {
    let at = || name("sub.example.com.");
    for (cut, said) in [
        (
            Cut::Delegation(at()),
            "NS records at sub.example.com. delegate it",
        ),
        (Cut::Alias(at()), "a DNAME at sub.example.com. stands for"),
        (Cut::Zone(at()), "sub.example.com."),
    ] {
        assert!(cut.to_string().contains(said), "{cut}");
    }
}

//! What a zone's author allows, and who asked for what is done.

use std::sync::Arc;

use super::*;
use crate::{
    group::Group,
    zones::{Cut, Noted},
};

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

/// A zone whose removals are written down, by nobody yet, with these lines.
fn with_notes(lines: &str) -> World {
    let mut world = World::with_zone("");
    world.zones.declare_zone(ZoneDeclaration {
        noted: Some(Arc::new(Noted::default())),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.zones.declare(declare("www", 1, lines, ""));
    world.settle();
    world
}

/// Whether an edit from some lines to others is carried out before anything is written down.
fn goes_unwritten(before: &str, after: &str, going: Going) -> bool {
    let mut world = with_notes(before);
    let stood = world.lines();
    world.zones.declare(Declaration {
        going,
        ..declare("www", 2, after, before)
    });
    world.settle();
    world.lines() != stood
}

#[test]
fn what_takes_a_name_or_name_servers_away_is_written_down_first_and_an_edit_is_not() {
    let both = format!("{WWW}\nwww.example.com. 300 IN TXT \"beside\"");
    let two = format!("{WWW}\n{WWW2}");
    let servers = "example.com. 60 IN NS a.example.net.\nexample.com. 60 IN NS b.example.net.";
    let server = "example.com. 60 IN NS a.example.net.";
    assert!(!goes_unwritten(WWW, "", Going::Asked), "a name");
    assert!(!goes_unwritten(server, "", Going::Asked), "name servers");
    assert!(
        goes_unwritten(&both, WWW, Going::Asked),
        "a set beside another"
    );
    assert!(goes_unwritten(&two, WWW, Going::Asked), "a value");
    assert!(goes_unwritten("", WWW, Going::Along), "an addition");
    assert!(
        goes_unwritten(servers, server, Going::Along),
        "some of the name servers"
    );
}

#[test]
fn receipts_name_the_group_of_the_servers() {
    let group = || Group::named("public");
    let mut world = World::new();
    world.zones = Zones::new(Limits::default(), Vec::new()).on(group());
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.zones.declare(declare("www", 1, WWW, ""));
    let receipt = world
        .zones
        .event(&object("www"))
        .expect("no server is known");
    assert_eq!(receipt.outcomes[0].group, group());
    let ClaimStatus::ZoneNotReady(fault) = world.status("www") else {
        panic!("{:?}", world.status("www"));
    };
    assert!(
        fault.message.contains("cluster public"),
        "{}",
        fault.message
    );
}

#[test]
fn an_edit_by_another_object_waits_for_no_note_though_the_first_is_taken_along() {
    let mut world = with_notes(WWW);
    world.zones.declare(Declaration {
        going: Going::Along,
        ..declare("www", 2, "", WWW)
    });
    world.zones.declare(declare("next", 3, WWW2, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
}

#[test]
fn what_an_earlier_run_let_through_is_written_down_again_before_it_goes() {
    let text = "www.example.com. 300 IN TXT \"beside\"";
    let both = format!("{WWW}\n{text}");
    let mark = crate::backoff::jitter_seed(records(text)[0].key().to_string().as_bytes());
    let mut world = World::new();
    world.server.insert(name(ZONE), content(&both));
    world.zones.declare_zone(ZoneDeclaration {
        noted: Some(Arc::new(Noted {
            passed: vec![mark],
            ..Noted::default()
        })),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.zones.declare(Declaration {
        going: Going::Along,
        ..declare("www", 1, WWW, &both)
    });
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!((event.held, event.waits), (None, true));
    assert_eq!(world.lines().len(), 2);
    let next = event.noted.map(|next| {
        let number = 1;
        Arc::new(Noted {
            number,
            ..Noted::clone(&next)
        })
    });
    world.zones.declare_zone(ZoneDeclaration {
        noted: next,
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    assert_eq!(world.lines(), [WWW]);
}

#[test]
fn a_value_and_the_last_name_servers_that_something_takes_along_are_held_for_that() {
    let servers = "example.com. 60 IN NS a.example.net.";
    let beside = "example.com. 60 IN TXT \"beside\"";
    for (before, after) in [
        (format!("{WWW}\n{WWW2}"), WWW.to_owned()),
        (format!("{servers}\n{beside}"), beside.to_owned()),
    ] {
        let mut world = World::with_zone("");
        world.zones.declare(declare("www", 1, &before, ""));
        world.settle();
        world.zones.declare(Declaration {
            going: Going::Along,
            ..declare("www", 2, &after, &before)
        });
        world.settle();
        let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
        let held = event.held.expect("nobody asked for it");
        assert_eq!((held.removals, held.along), (1, 1), "{before}");
        assert_eq!(world.lines().len(), 2, "{before}");
    }
}

#[test]
fn only_what_is_removed_counts_as_removed_though_more_waits_to_be_looked_at() {
    let limits = Limits {
        sets_per_message_max: 1,
        ..Limits::default()
    };
    let line = |name: &str, number: usize| format!("{name}{number}.example.com. 60 IN A 192.0.2.1");
    let lines = |name: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| line(name, number)).collect()
    };
    let foreign = lines("foreign", 15);
    let edited = lines("edited", 15);
    let stood = [lines("a", 2), foreign.clone(), edited.clone()].concat();
    let mut world = World::new();
    world.zones = Zones::new(limits, servers(&[ServerRole::Primary]));
    world.server.insert(name(ZONE), content(&stood.join("\n")));
    // Two go; of others it is found that they are gone, or changed, or not ours.
    for line in lines("a", 2).iter().chain(&lines("gone", 15)) {
        world.zones.declare(declare(&line[..8], 1, "", line));
    }
    for line in &edited {
        let after = line.replace(".1", ".2");
        world.zones.declare(declare(&line[..8], 1, &after, line));
    }
    world
        .zones
        .declare_zone(zone_declaration(Hosting::Elsewhere));
    world.settle();
    let event = world.zones.zone_event(&name(ZONE)).expect("it is known");
    assert_eq!((event.held, world.lines().len()), (None, 30));
}

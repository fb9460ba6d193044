//! Names that are answered from elsewhere are never called served.

use super::*;
use crate::zones::Cut;

const NS: &str = "sub.example.com. 300 IN NS ns1.sub.example.com.";
const BELOW: &str = "host.sub.example.com. 300 IN A 192.0.2.7";
const GLUE: &str = "ns1.sub.example.com. 300 IN A 192.0.2.53";

fn delegated() -> ClaimStatus {
    ClaimStatus::Occluded(Cut::Delegation(name("sub.example.com.")))
}

fn told(world: &mut World) -> Vec<Id> {
    let events = world.zones.take_events().into_iter();
    events.map(|event| event.owner).collect()
}

#[test]
fn what_lies_at_or_below_a_delegation_stands_and_is_not_called_served() {
    let mut world = World::with_zone(NS);
    let at = "sub.example.com. 300 IN TXT \"at the cut\"";
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.zones.declare(declare("at", 1, at, ""));
    world.zones.declare(declare("beside", 1, WWW, ""));
    world.settle();
    assert_eq!(world.lines().len(), 4, "all of it is written");
    assert_eq!(world.status("below"), delegated());
    assert_eq!(world.status("at"), delegated());
    assert!(matches!(world.status("beside"), ClaimStatus::Programmed(_)));
}

#[test]
fn name_servers_their_glue_and_their_signer_are_answered_above_the_cut() {
    let mut world = World::with_zone("");
    let signer = "sub.example.com. 300 IN TYPE43 \\# 4 00010203";
    world.zones.declare(declare("servers", 1, NS, ""));
    world.zones.declare(declare("glue", 1, GLUE, ""));
    world.zones.declare(declare("signer", 1, signer, ""));
    world.settle();
    for owner in ["servers", "glue", "signer"] {
        let status = world.status(owner);
        assert!(
            matches!(status, ClaimStatus::Programmed(_)),
            "{owner}: {status:?}"
        );
    }
}

#[test]
fn a_delegation_of_others_that_comes_and_goes_is_told_to_those_below() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.zones.declare(declare("beside", 1, WWW, ""));
    world.settle();
    told(&mut world);
    let plain = world.server.get(&name(ZONE)).cloned().expect("it is there");
    let mut cut = plain.clone();
    cut.serial = cut.serial.next();
    cut.sets.extend(content(NS).sets);
    world.server.insert(name(ZONE), cut.clone());
    world.look();
    assert_eq!(world.status("below"), delegated());
    assert!(told(&mut world).contains(&object("below")));
    let serial = cut.serial.next();
    let plain = ZoneContent { serial, ..plain };
    world.server.insert(name(ZONE), plain);
    world.look();
    assert!(matches!(world.status("below"), ClaimStatus::Programmed(_)));
    assert!(told(&mut world).contains(&object("below")));
}

#[test]
fn glue_whose_name_server_leaves_the_delegation_is_glue_no_longer() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("servers", 1, NS, ""));
    world.zones.declare(declare("glue", 1, GLUE, ""));
    world.settle();
    told(&mut world);
    let other = "sub.example.com. 300 IN NS ns.example.net.";
    world.zones.declare(declare("servers", 1, other, NS));
    world.settle();
    assert_eq!(world.status("glue"), delegated());
    assert!(told(&mut world).contains(&object("glue")));
}

#[test]
fn a_zone_below_on_the_same_servers_answers_for_its_names() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.settle();
    told(&mut world);
    let zone = name("sub.example.com.");
    world.server.insert(zone.clone(), content(""));
    world.zones.declare_zone(ZoneDeclaration {
        zone: zone.clone(),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.settle();
    let answered = ClaimStatus::Occluded(Cut::Zone(zone.clone()));
    assert_eq!(world.status("below"), answered);
    assert!(told(&mut world).contains(&object("below")));
    world.zones.take_zone_events();
    world.zones.undeclare_zone(&zone);
    world.settle();
    assert!(matches!(world.status("below"), ClaimStatus::Programmed(_)));
    assert!(told(&mut world).contains(&object("below")));
}

#[test]
fn a_dname_hides_what_lies_below_it_and_not_what_is_beside_it() {
    let mut world = World::with_zone("sub.example.com. 60 IN TYPE39 \\# 6 0161026e6c00");
    let beside = "sub.example.com. 300 IN TXT \"at the alias\"";
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.zones.declare(declare("beside", 1, beside, ""));
    world.settle();
    let alias = ClaimStatus::Occluded(Cut::Alias(name("sub.example.com.")));
    assert_eq!(world.status("below"), alias);
    assert!(matches!(world.status("beside"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_dname_at_the_apex_hides_everything_but_the_apex() {
    let mut world = World::with_zone("example.com. 60 IN TYPE39 \\# 6 0161026e6c00");
    let apex = "example.com. 300 IN TXT \"at the apex\"";
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.zones.declare(declare("apex", 1, apex, ""));
    world.settle();
    let alias = ClaimStatus::Occluded(Cut::Alias(name(ZONE)));
    assert_eq!(world.status("below"), alias);
    assert!(matches!(world.status("apex"), ClaimStatus::Programmed(_)));
}

#[test]
fn a_delegation_of_ours_that_is_withdrawn_hides_nothing_any_more() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("servers", 1, NS, ""));
    world.zones.declare(declare("below", 1, BELOW, ""));
    world.settle();
    assert_eq!(world.status("below"), delegated());
    told(&mut world);
    world.zones.declare(declare("servers", 1, "", NS));
    world.settle();
    assert!(matches!(world.status("below"), ClaimStatus::Programmed(_)));
    assert!(told(&mut world).contains(&object("below")));
}

/// Declares the zone below, which no server has unless it is put there.
fn declare_below(world: &mut World) {
    world.zones.declare_zone(ZoneDeclaration {
        zone: name("sub.example.com."),
        ..zone_declaration(Hosting::Elsewhere)
    });
    world.pass(Duration::from_secs(5));
}

#[test]
fn a_zone_below_that_no_server_has_hides_nothing() {
    let mut world = World::with_zone("");
    world.zones.declare(declare("below", 1, BELOW, ""));
    declare_below(&mut world);
    assert!(matches!(world.status("below"), ClaimStatus::Programmed(_)));
}

#[test]
fn who_is_below_a_zone_that_goes_on_answering_hears_nothing() {
    let mut world = World::with_zone("");
    let zone = name("sub.example.com.");
    world.server.insert(zone, content(""));
    world.zones.declare(declare("below", 1, BELOW, ""));
    declare_below(&mut world);
    told(&mut world);
    world.zones.hold_zone(&name("sub.example.com."));
    assert_eq!(told(&mut world), []);
}

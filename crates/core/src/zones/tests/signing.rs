//! Zones that their server signs: what it makes is nobody's record.

use super::{
    ClaimStatus, Completion, Hosting, Tenancy, World, ZONE, ZoneDeclaration, content, declare,
    name, records, zone_declaration,
};
use crate::{
    Serial,
    delta::{Delta, Difference},
    zones::Step,
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
        world.now += std::time::Duration::from_mins(1);
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

//! Kinds of ownership as a zone sees them.

use super::{ClaimStatus, WWW, WWW2, Withdrawal, World, declare, object};
use crate::{Declaration, FaultKind, Ownership, Serial};

const MAIL: &str = "mail.example.com. 60 IN A 192.0.2.9";

/// An object that asks for these lines, of which these are known, under one kind of ownership.
fn under(ownership: Ownership, asks: &str, known: &str) -> Declaration {
    let known = declare("www", 1, known, "").published;
    Declaration {
        ownership,
        published: known,
        ..declare("www", 1, asks, "")
    }
}

#[test]
fn what_is_not_recorded_in_its_object_waits() {
    let mut world = World::with_zone("");
    world.zones.declare(under(Ownership::Object, WWW, ""));
    world.settle();
    assert_eq!(world.status("www"), ClaimStatus::Admissible);
    assert_eq!(world.updates, 0);
}

#[test]
fn without_a_registry_a_claim_is_written_at_once() {
    let mut world = World::with_zone(MAIL);
    world.zones.declare(under(Ownership::None, WWW, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW, MAIL]);
    assert_eq!(world.status("www"), ClaimStatus::Programmed(Serial(2)));
}

#[test]
fn without_a_registry_what_is_asked_for_is_ours_whoever_wrote_it() {
    let mut world = World::with_zone(&format!("{MAIL}\n{WWW}"));
    world.zones.declare(under(Ownership::None, WWW2, ""));
    world.settle();
    assert_eq!(world.lines(), [WWW2, MAIL]);
}

#[test]
fn without_a_registry_what_is_remembered_goes_and_nothing_else() {
    let mut world = World::with_zone(MAIL);
    world.zones.declare(under(Ownership::None, WWW, ""));
    world.settle();
    world.zones.declare(under(Ownership::None, "", WWW));
    world.settle();
    assert_eq!(world.lines(), [MAIL]);
    let receipt = world.zones.event(&object("www")).expect("settled");
    assert_eq!(receipt.withdrawal, Withdrawal::Done);
}

#[test]
fn a_registry_of_txt_records_is_refused_and_nothing_is_written() {
    let mut world = World::with_zone("");
    world.zones.declare(under(Ownership::Txt, WWW, WWW));
    // Another object's claim on the same set is none the worse for it.
    let other = Declaration {
        owner: object("other"),
        ..under(Ownership::Object, WWW2, WWW2)
    };
    world.zones.declare(other);
    world.settle();
    assert_eq!(world.lines(), [WWW2]);
    let ClaimStatus::Rejected(fault) = world.status("www") else {
        unreachable!("{:?}", world.status("www"));
    };
    assert_eq!(fault.kind, FaultKind::Invalid);
    assert!(fault.message.contains("not supported yet"), "{fault}");
}

//! All of a zone is read now and then, since its serial may be right by chance.

use super::{followers::state, signing::sign, *};
use crate::{backoff::jitter_seed, zones::Zone};

const SOA: &str = "example.com. 60 IN SOA ns.example.net. root.example.net. 7 1 1 1 1";

/// Less than half of the interval: no zone is read again so soon.
const EARLY: Duration = Duration::from_mins(2);
/// More than one and a half of it: every zone was read.
const LATE: Duration = Duration::from_mins(8);

/// A world at rest whose zone has a SOA and a record of ours, and of which everything was told.
fn resting() -> World {
    let mut world = World::with_zone(SOA);
    world.zones.declare(declare("www", 1, WWW, ""));
    world.settle();
    drop((world.zones.take_events(), world.zones.take_zone_events()));
    world
}

fn www() -> RecordKey {
    RecordKey::new(name("www.example.com."), RecordType::A)
}

fn soa() -> RecordKey {
    RecordKey::new(name(ZONE), RecordType::Soa)
}

fn served(world: &mut World) -> &mut ZoneContent {
    world.server.get_mut(&name(ZONE)).expect("it is served")
}

fn known(world: &mut World) -> &mut Zone {
    let zone = world.zones.known.get_mut(&name(ZONE));
    zone.expect("it is declared")
}

/// The SOA as its server has it once it made another serial.
fn soa_at(serial: Serial, line: &str) -> RecordSet {
    let line = line.replace(" 7 1", &format!(" {} 1", serial.0));
    let record = records(&line).remove(0);
    RecordSet::new(record.ttl, [record.data])
}

/// What a zone does in this time beside looks at its serial.
fn steps(world: &mut World, time: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    world.watch(time, |_, step| {
        steps.extend(step.filter(|one| **one != Step::Check).cloned());
    });
    steps
}

#[test]
fn what_a_server_lost_is_found_though_its_serial_is_what_it_was() {
    let mut world = resting();
    // It lost a change, and somebody made another one.
    served(&mut world).sets.remove(&www());
    assert_eq!(steps(&mut world, EARLY), [], "the serial tells nothing");
    steps(&mut world, LATE);
    assert_eq!(world.lines(), [WWW, SOA]);
}

#[test]
fn a_zone_that_is_read_and_is_as_it_was_is_told_to_nobody() {
    let mut world = resting();
    let serial = served(&mut world).serial;
    assert_eq!(serial, Serial(8), "our change made one");
    served(&mut world).sets.insert(soa(), soa_at(serial, SOA));
    let steps = steps(&mut world, LATE);
    assert!(!steps.is_empty() && steps.iter().all(|step| *step == Step::Read));
    assert_eq!(world.zones.take_events(), []);
    assert_eq!(world.zones.take_zone_events(), []);
}

#[test]
fn a_zone_that_is_read_and_is_not_as_it_was_is_told_of() {
    let mut world = resting();
    let theirs = content("theirs.example.com. 60 IN A 192.0.2.9").sets;
    served(&mut world).sets.extend(theirs);
    steps(&mut world, LATE);
    let events = world.zones.take_zone_events();
    assert_eq!(
        events.iter().map(|one| one.foreign).collect::<Vec<_>>(),
        [1]
    );
}

/// What makes a zone doubtful, or another one than it was.
type Doubt = fn(&mut Zone, &mut ZoneContent);

const DOUBTS: [(&str, Doubt); 15] = [
    ("it is to be read again", |zone, _| {
        zone.stale = true;
    }),
    ("others wrote", |zone, _| {
        zone.drifted = true;
    }),
    ("it failed", |zone, _| {
        zone.fault = Some(Fault::new(FaultKind::Lost, "no answer"));
    }),
    ("a message was not seen yet", |zone, _| {
        zone.acknowledged = 1;
    }),
    ("it is to go", |zone, _| zone.lifecycle.retire()),
    ("another serial was seen", |zone, _| {
        zone.serial = Some(Serial(9));
    }),
    ("it has another serial", |_, content| {
        content.serial = Serial(9);
    }),
    ("it has keys", |_, content| sign_at(content)),
    ("a set came", |_, content| {
        content.sets.extend(super::content(&format!("a{WWW}")).sets);
    }),
    ("a set went", |_, content| drop(content.sets.remove(&www()))),
    ("a set is another", |_, content| {
        let set = content.sets.remove(&www()).expect("it stands");
        content
            .sets
            .insert(RecordKey::new(name("w.example.com."), RecordType::A), set);
    }),
    ("a value is another", |_, content| {
        content.sets.extend(super::content(WWW2).sets);
    }),
    ("a TTL is another", |_, content| {
        content
            .sets
            .extend(super::content(&WWW.replace("300", "60")).sets);
    }),
    ("the SOA was edited", |_, content| {
        content
            .sets
            .insert(soa(), soa_at(Serial(8), &SOA.replace("root", "admin")));
    }),
    ("the SOA has another TTL", |_, content| {
        content
            .sets
            .insert(soa(), soa_at(Serial(8), &SOA.replace(" 60 IN", " 61 IN")));
    }),
];

fn sign_at(content: &mut ZoneContent) {
    let serial = content.serial;
    sign(content);
    content.serial = serial;
}

#[test]
fn a_zone_is_as_it_was_where_nothing_of_it_is_doubtful() {
    let is_as_known = |doubt: Doubt| {
        let mut world = resting();
        let mut content = served(&mut world).clone();
        let zone = known(&mut world);
        doubt(zone, &mut content);
        let signatures = content.sift(&name(ZONE));
        zone.is_as_known(&content, &signatures)
    };
    assert!(is_as_known(|_, _| {}));
    assert!(is_as_known(|_, content| {
        content.sets.insert(soa(), soa_at(Serial(8), SOA));
    }));
    for (why, doubt) in DOUBTS {
        assert!(!is_as_known(doubt), "{why}");
    }
}

/// A server without memory of changes answers with all of the zone, which may be what it was again.
#[test]
fn a_zone_that_is_sent_in_place_of_its_changes_is_no_longer_in_doubt() {
    let mut world = resting();
    world.now += Duration::from_mins(1);
    assert_eq!(world.begin(), Step::Check);
    let ahead = Completion::Checked(Ok(Serial(9)));
    world.zones.complete(&name(ZONE), ahead, world.now);
    assert_eq!(world.begin(), Step::ReadChanges(Serial(8), Vec::new()));
    let whole = Delta::Whole(served(&mut world).clone());
    let whole = Completion::ChangesRead(Vec::new(), Ok(whole));
    world.zones.complete(&name(ZONE), whole, world.now);
    assert_eq!(steps(&mut world, Duration::from_secs(30)), []);
    assert_eq!(state(&world), ZoneState::Ready);
}

#[test]
fn one_that_failed_is_first_asked_for_its_serial() {
    let due = |is_due: bool, fault: Option<Fault>| {
        let mut world = resting();
        world.now += Duration::from_mins(1);
        let now = world.now;
        let zone = known(&mut world);
        zone.next_audit = if is_due { now } else { now + EARLY };
        zone.fault = fault;
        world.begin()
    };
    let fault = || Some(Fault::new(FaultKind::Unreachable, "connection refused"));
    assert_eq!(due(true, None), Step::Read);
    assert_eq!(due(false, None), Step::Check);
    assert_eq!(due(true, fault()), Step::Check);
}

#[test]
fn many_zones_and_large_ones_are_read_less_often() {
    let audits = |zones: u32, sets: usize| {
        let names = (0..zones).map(|one| name(&format!("{one}.example.com.")));
        let mut all = Zones::new(Limits::default(), servers(&[ServerRole::Primary]));
        all.known.extend(names.map(|name| (name, Zone::default())));
        let now = Duration::from_secs(7);
        let audits = all.known.keys();
        let audits = audits.map(|name| all.audit_at(name, sets, now).saturating_sub(now));
        audits.collect::<Vec<_>>()
    };
    let mean = |audits: &[Duration]| {
        let sum: Duration = audits.iter().sum();
        sum.as_secs() / u64::try_from(audits.len()).expect("few")
    };
    let few = audits(1_000, 100);
    let bounds = [Duration::from_secs(150), Duration::from_secs(450)];
    assert!(few.iter().all(|one| bounds[0] <= *one && *one < bounds[1]));
    assert!((290..310).contains(&mean(&few)), "they are spread");
    assert!(
        (970..1_030).contains(&mean(&audits(10_000, 100))),
        "ten in a second"
    );
    assert!((970..1_030).contains(&mean(&audits(1_000, 100_000))));
    let zones = Zones::new(Limits::default(), Vec::new());
    let later = u32::from(jitter_seed(name(ZONE).as_wire()).to_le_bytes()[0]);
    let at = bounds[0] + Duration::from_mins(5) / 256 * later;
    assert_eq!(zones.audit_at(&name(ZONE), 0, Duration::ZERO), at);
}

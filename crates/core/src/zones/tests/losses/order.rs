//! What has to be done before a fallen leader goes beyond what it had: afterwards a process that begins anew
//! takes for granted what it finds.

use super::*;

/// A leader with an older version, which has a record that the newest version elsewhere does not have and lacks
/// one of others.
fn fallen_lead() -> World {
    let mut world = with_followers(&[ServerRole::Primary]);
    world
        .server
        .insert(name(ZONE), content(&format!("{APEX}\n{API}")));
    let newest = APEX.replace(" 7 60", " 49 60");
    world.others = Some(content(&format!("{newest}\n{THEIRS}")));
    world.serials.insert(server(1), Ok(Serial(49)));
    world.zones.declare_zone(with_floor(49));
    world
}

impl World {
    /// Lets time pass; the first step that `fails` takes is not carried out and ends as it says.
    fn pass_failing(&mut self, time: Duration, fails: impl Fn(&Step) -> Option<Completion>) {
        let end = self.now + time;
        let mut has_failed = false;
        while self.now <= end {
            self.zones.wake(self.now);
            for zone in self.zones.take_work() {
                while let Some(step) = self.zones.next_step(&zone, self.now) {
                    if matches!(step, Step::Renew(_)) {
                        assert!(has_failed && !self.has(API) && self.has(THEIRS));
                    }
                    let failed = fails(&step).filter(|_| !has_failed);
                    has_failed |= failed.is_some();
                    let completion = match failed {
                        Some(failed) => failed,
                        None => self.carry_out(&zone, step),
                    };
                    self.zones.complete(&zone, completion, self.now);
                }
            }
            self.now += Duration::from_millis(50);
        }
        assert!(has_failed);
    }
}

fn lost() -> Fault {
    Fault::new(FaultKind::Lost, "no answer in time")
}

#[test]
fn a_lead_goes_beyond_when_what_came_back_is_gone_though_a_message_is_lost() {
    let mut world = fallen_lead();
    world.pass_failing(Duration::from_secs(10), |step| {
        let Step::Commit(plan) = step else {
            return None;
        };
        Some(Completion::Sent(Sent {
            lost: Some((lost(), plan.keys().cloned().collect())),
            ..Sent::default()
        }))
    });
    assert!(!world.has(API) && world.has(THEIRS), "{:?}", world.lines());
    assert!(world.serial().newer_than(Serial(49)), "{}", world.serial());
}

#[test]
fn whoever_may_know_what_was_lost_is_asked_until_it_answers() {
    let mut world = fallen_lead();
    world.pass_failing(Duration::from_secs(10), |step| {
        matches!(step, Step::Rescue(_)).then(|| Completion::Rescued(Err(lost())))
    });
    assert!(!world.has(API) && world.has(THEIRS), "{:?}", world.lines());
    assert!(world.serial().newer_than(Serial(49)), "{}", world.serial());
}

/// Its author lets nobody take anything out of the zone.
#[test]
fn a_lead_that_cannot_be_mended_goes_beyond_after_a_while() {
    let mut world = fallen_lead();
    world.zones.declare_zone(ZoneDeclaration {
        writes: WritePolicy::UpsertOnly,
        ..with_floor(49)
    });
    world.pass(Duration::from_secs(10));
    assert!(world.has(API), "{:?}", world.lines());
    assert!(Serial(49).newer_than(world.serial()), "{}", world.serial());
    world.pass(Duration::from_mins(1));
    assert!(world.serial().newer_than(Serial(49)), "{}", world.serial());
}

#[test]
fn what_came_back_is_known_though_the_lead_is_read_once_more() {
    let (mut world, [before, _]) = fallen();
    world.zones.declare(declare("api", 1, "", ""));
    let withdrawn = "gone.example.com. 60 IN A 192.0.2.8";
    world.zones.declare(declare("gone", 1, withdrawn, ""));
    world.pass(Duration::from_secs(5));
    let older = world.server[&name(ZONE)].clone();
    world.zones.declare(declare("gone", 1, "", withdrawn));
    world.pass(Duration::from_mins(2));
    world.zones.forget(&object("gone"));
    assert!(!world.has(withdrawn) && before.serial != older.serial);
    for _ in 0..2 {
        let read = Completion::Read(Ok(older.clone()));
        world.zones.complete(&name(ZONE), read, world.now);
    }
    world.server.insert(name(ZONE), older);
    world.pass(Duration::from_secs(5));
    assert!(!world.has(withdrawn), "{:?}", world.lines());
}

use super::*;

const PACE: Pace = Pace {
    first: Duration::from_millis(2),
    behind_max: Duration::from_secs(1),
    idle: Duration::from_secs(10),
    grace: Duration::from_secs(1),
};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn info(index: usize, role: ServerRole) -> ServerInfo {
    ServerInfo::at(&format!("192.0.2.{index}:53"), role)
}

fn of(roles: &[ServerRole]) -> Fleet {
    let infos = roles.iter().enumerate();
    let infos: Vec<_> = infos.map(|(index, role)| info(index, *role)).collect();
    Fleet::new(&infos)
}

fn fleet() -> Fleet {
    of(&[ServerRole::Primary, ServerRole::Secondary])
}

fn id(index: usize) -> ServerId {
    info(index, ServerRole::Primary).id
}

fn down() -> Fault {
    Fault::new(FaultKind::Unreachable, "down")
}

/// Whom the next task is about and what it is.
fn next(fleet: &mut Fleet, now: Duration) -> Option<(Visit, FollowerAction)> {
    fleet.next(now).map(|task| (task.visit, task.action))
}

/// Brings every follower to these serials.
fn visit_all(fleet: &mut Fleet, serial: Serial, now: Duration) {
    while let Some((visit, _)) = next(fleet, now) {
        fleet.complete(&visit, Ok(serial), &PACE, now);
    }
}

#[test]
fn nothing_is_done_before_the_leader_has_a_serial() {
    let mut fleet = fleet();
    assert_eq!(fleet.next(at(0)), None);
    assert_eq!(fleet.wake(), None);
}

#[test]
fn every_follower_is_visited_once_at_a_time_until_it_has_the_serial() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    let (first, action) = next(&mut fleet, at(0)).expect("the primary is due");
    assert_eq!(action, FollowerAction::Sync(Known::default()));
    let (second, action) = next(&mut fleet, at(0)).expect("the secondary is due");
    assert_eq!(action, FollowerAction::Probe);
    assert_eq!(fleet.next(at(0)), None);
    fleet.complete(&first, Ok(Serial(5)), &PACE, at(1));
    fleet.complete(&second, Ok(Serial(4)), &PACE, at(1));
    assert!(!fleet.has(Serial(5)) && fleet.has(Serial(4)));
    assert_eq!(fleet.next(at(2)), None);
    let (second, _) = next(&mut fleet, at(3)).expect("it is due again");
    fleet.complete(&second, Ok(Serial(5)), &PACE, at(4));
    assert!(fleet.is_current());
    assert_eq!(fleet.wake(), Some(at(10_001)));
}

#[test]
fn waiting_grows_to_a_bound_and_begins_anew_with_a_new_serial() {
    let mut fleet = of(&[ServerRole::Secondary]);
    fleet.aim(Serial(5), at(0));
    for round in 0..40 {
        let now = at(10_000 * round);
        let wanted = if round < 6 {
            FollowerAction::Probe
        } else {
            FollowerAction::Refresh
        };
        let (visit, action) = next(&mut fleet, now).expect("it is due");
        assert_eq!(action, wanted);
        fleet.complete(&visit, Err(down()), &PACE, now);
        assert!(fleet.wake() <= Some(now + PACE.behind_max));
    }
    fleet.aim(Serial(6), at(400_000));
    let (_, action) = next(&mut fleet, at(400_000)).expect("it is due");
    assert_eq!(action, FollowerAction::Probe);
}

#[test]
fn a_follower_that_is_ahead_is_noticed() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    for serial in [7, 9] {
        let (visit, _) = next(&mut fleet, at(0)).expect("it is due");
        fleet.complete(&visit, Ok(Serial(serial)), &PACE, at(0));
    }
    assert_eq!(fleet.ahead(), Some(Serial(9)));
    fleet.aim(Serial(10), at(1));
    assert_eq!(fleet.ahead(), None);
}

#[test]
fn a_laggard_is_named_after_a_grace() {
    let mut fleet = of(&[ServerRole::Secondary]);
    fleet.aim(Serial(5), at(0));
    let (visit, _) = next(&mut fleet, at(0)).expect("it is due");
    fleet.complete(&visit, Ok(Serial(4)), &PACE, at(10));
    assert_eq!(fleet.lateness(&PACE, at(20), None), None);
    assert_eq!(fleet.grace_ends(&PACE), Some(at(1_000)));
    let told = fleet.lateness(&PACE, at(1_000), Some(Serial(5)));
    let told = told.expect("it is late").message;
    assert!(told.contains("192.0.2.0:53 has serial 4, not 5"), "{told}");
}

#[test]
fn a_silent_server_is_waited_for_by_nobody_until_it_caught_up() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    visit_all(&mut fleet, Serial(5), at(0));
    fleet.fall_silent(&id(1), &down(), at(1));
    assert!(fleet.has(Serial(5)) && !fleet.is_current());
    fleet.aim(Serial(6), at(2));
    visit_all(&mut fleet, Serial(6), at(2));
    assert!(fleet.has(Serial(6)), "the one in rotation has it");
    assert_eq!(
        fleet.wake(),
        Some(at(10_002)),
        "nothing is asked of the other"
    );

    fleet.answer(&id(1), at(3));
    let (visit, _) = next(&mut fleet, at(3)).expect("it is asked at once");
    fleet.complete(&visit, Ok(Serial(5)), &PACE, at(3));
    assert!(fleet.has(Serial(6)), "it is behind and does not count");
    let (visit, _) = next(&mut fleet, at(10)).expect("it is asked again");
    fleet.complete(&visit, Ok(Serial(6)), &PACE, at(10));
    fleet.aim(Serial(7), at(11));
    assert!(
        fleet.is_serving() && !fleet.has(Serial(7)),
        "it counts again"
    );
}

#[test]
fn what_goes_waits_for_primaries_out_of_rotation_too() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    fleet.fall_silent(&id(0), &down(), at(0));
    fleet.fall_silent(&id(1), &down(), at(0));
    assert!(fleet.has(Serial(5)) && !fleet.leaders_have(Serial(5)) && !fleet.is_serving());
    fleet.answer(&id(0), at(1));
    visit_all(&mut fleet, Serial(5), at(1));
    assert!(fleet.leaders_have(Serial(5)), "a secondary never leads");
}

#[test]
fn an_answer_counts_for_no_other_server() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    let (late, _) = next(&mut fleet, at(0)).expect("it is due");
    let moved = ServerInfo {
        address: "192.0.2.9:53".into(),
        ..info(0, ServerRole::Primary)
    };
    fleet.set_servers([&moved, &info(1, ServerRole::Secondary)], None, at(1));
    fleet.complete(&late, Ok(Serial(5)), &PACE, at(2));
    let states: Vec<_> = fleet.states().collect();
    assert_eq!(
        (&*states[0].info.address, states[0].serial),
        ("192.0.2.9:53", None)
    );
    visit_all(&mut fleet, Serial(5), at(3));
    assert!(fleet.is_current());
    fleet.set_servers([&info(1, ServerRole::Secondary)], None, at(4));
    assert_eq!(fleet.states().count(), 1);
    assert!(fleet.is_current(), "what is known of it stays known");
}

#[test]
fn a_leader_that_follows_is_not_taken_for_a_server_that_always_did() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    visit_all(&mut fleet, Serial(5), at(0));
    let former = info(7, ServerRole::Primary);
    let past = Past::Led(Serial(5));
    fleet.change_leader(&id(0), Some((&former, past)), at(1));
    fleet.aim(Serial(1_006), at(2));
    fleet.complete(
        &Visit {
            server: id(1),
            number: 2,
        },
        Ok(Serial(5)),
        &PACE,
        at(2),
    );
    let (secondary, _) = next(&mut fleet, at(2)).expect("it is due");
    assert_eq!(secondary.server, id(1));
    let (_, action) = next(&mut fleet, at(2)).expect("it is due");
    let known = Known {
        past,
        ..Known::default()
    };
    assert_eq!(action, FollowerAction::Sync(known));
    assert!(!fleet.has(Serial(1_006)), "the secondary is waited for");
    fleet.complete(&secondary, Ok(Serial(1_006)), &PACE, at(3));
    assert!(fleet.has(Serial(1_006)), "the former leader is not");
}

/// Ends the visit of the follower that is due.
fn visit(fleet: &mut Fleet, result: Result<Serial, Fault>, now: Duration) -> FollowerAction {
    let (visit, action) = next(fleet, now).expect("one is due");
    fleet.complete(&visit, result, &PACE, now);
    action
}

#[test]
fn what_a_follower_had_before_the_leader_fell_back_proves_nothing() {
    let mut fleet = of(&[ServerRole::Primary]);
    let sync = |same| {
        FollowerAction::Sync(Known {
            same,
            ..Known::default()
        })
    };
    fleet.aim(Serial(5), at(0));
    assert_eq!(visit(&mut fleet, Ok(Serial(5)), at(0)), sync(None));
    fleet.aim(Serial(6), at(1));
    let known = visit(&mut fleet, Ok(Serial(6)), at(1));
    assert_eq!(known, sync(Some(Serial(5))));
    fleet.aim(Serial(3), at(2));
    assert_eq!(visit(&mut fleet, Ok(Serial(9)), at(2)), sync(None));
    assert_eq!(fleet.newest(), Some(Serial(9)));
    // One that is ahead has something else.
    assert_eq!(visit(&mut fleet, Ok(Serial(9)), at(1_000)), sync(None));
}

#[test]
fn all_is_well_only_when_every_follower_has_what_the_leader_has() {
    let mut fleet = of(&[ServerRole::Secondary, ServerRole::Secondary]);
    fleet.aim(Serial(5), at(0));
    let (first, _) = next(&mut fleet, at(0)).expect("one is due");
    let (second, _) = next(&mut fleet, at(0)).expect("so is the other");
    fleet.complete(&first, Ok(Serial(5)), &PACE, at(0));
    fleet.complete(&second, Ok(Serial(4)), &PACE, at(0));
    assert!(!fleet.is_current() && !fleet.expects(&first, Serial(5)));
    assert_eq!(fleet.behind().collect::<Vec<_>>(), [&id(1)]);
    assert_eq!(fleet.newest(), Some(Serial(5)));
    visit(&mut fleet, Ok(Serial(5)), at(10));
    assert!(fleet.is_current() && fleet.expects(&first, Serial(5)));
    assert!(!fleet.expects(&first, Serial(6)));
    let unknown = Visit {
        server: id(7),
        number: 1,
    };
    assert!(!fleet.expects(&unknown, Serial(5)));
    assert_eq!(fleet.behind().count(), 0);
}

#[test]
fn a_server_serves_once_its_serial_is_known() {
    let mut fleet = of(&[ServerRole::Primary]);
    fleet.aim(Serial(5), at(0));
    assert!(!fleet.is_serving());
    assert_eq!(fleet.serial(&id(0)), None);
    visit_all(&mut fleet, Serial(5), at(0));
    assert!(fleet.is_serving());
    assert_eq!(
        (fleet.serial(&id(0)), fleet.serial(&id(1))),
        (Some(Serial(5)), None)
    );
}

#[test]
fn a_server_of_unknown_past_is_known_once_it_has_what_the_leader_has() {
    let mut fleet = fleet();
    fleet.aim(Serial(5), at(0));
    let joins = info(7, ServerRole::Primary);
    fleet.set_servers([&joins], Some(Past::Unknown), at(0));
    assert!(fleet.has_unknown());
    visit_all(&mut fleet, Serial(5), at(0));
    assert!(!fleet.has_unknown());
}

#[test]
fn a_server_that_answers_again_is_late_at_once_and_others_after_the_grace() {
    let mut fleet = of(&[ServerRole::Primary]);
    fleet.aim(Serial(5), at(0));
    let is_late = |fleet: &Fleet, now| fleet.lateness(&PACE, now, Some(Serial(5))).is_some();
    assert!(!is_late(&fleet, at(1)) && is_late(&fleet, at(1000)));
    fleet.fall_silent(&id(0), &down(), at(0));
    assert!(
        !is_late(&fleet, at(5000)),
        "who is silent is told of otherwise"
    );
    fleet.answer(&id(0), at(5000));
    assert!(is_late(&fleet, at(1)));
}

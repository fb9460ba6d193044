//! Addresses of endpoints: where they live, what they are bound to, what a provider refuses, and drift.

use super::*;

#[test]
fn throttling_holds_up_everything_for_as_long_as_asked() {
    let mut stage = Stage::new();
    let wait = Duration::from_secs(30);
    let throttled = fault(FaultKind::Throttled).with_retry_after(wait);
    stage.world.faults.push_back(throttled);
    stage.service("a", 80);
    stage.settle();
    stage.service("b", 80);
    stage.pass(Duration::from_secs(29));
    assert_eq!(stage.world.log, ["ensure a"]);
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.lines(), ["a", "b"]);
}

#[test]
fn no_more_balancers_are_worked_on_than_the_provider_takes() {
    let mut stage = Stage::new();
    for turn in 0..25 {
        stage.service(&format!("s{turn}"), 80);
    }
    stage.begin();
    assert_eq!(stage.flying.len(), limits().balancers_max);
    stage.settle();
    assert_eq!(stage.lines().len(), 25);
    // One that was throttled begins with less.
    let throttled = fault(FaultKind::Throttled);
    stage.world.faults.push_back(throttled);
    for turn in 0..25 {
        stage.service(&format!("s{turn}"), 81);
    }
    stage.begin();
    stage.land(0);
    while stage.flying.len() > 4 {
        stage.land(0);
    }
    stage.pass(Duration::from_mins(1));
    assert_eq!(stage.requests("ensure"), 51);
}

#[test]
fn a_poisoned_address_is_reported_and_others_go_through() {
    let mut stage = standing();
    stage.world.poison.insert(address("10.0.0.3"));
    let all = ["10.0.0.1@n1", "10.0.0.2@n1", "10.0.0.3@n1", "10.0.0.4@n1"];
    stage.slice("s", "web", &all);
    stage.settle();
    assert_eq!(stage.lines().len(), 4);
    let report = &stage.reports[&service_key("web")];
    let (shown, len) = &report.refused;
    assert_eq!((shown[0].0, *len), (address("10.0.0.3"), 1));
    // It is tried again alone, later each time.
    stage.world.log.clear();
    stage.pass(Duration::from_mins(30));
    assert!((3..12).contains(&stage.requests("bind 10.0.0.3")));
    stage.world.poison.clear();
    stage.pass(Duration::from_mins(10));
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.reports[&service_key("web")].refused.1, 0);
}

#[test]
fn an_address_on_which_the_provider_chokes_ends_up_alone() {
    let mut stage = standing();
    let all: Vec<String> = (1..=4).map(|last| format!("10.0.0.{last}@n1")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    stage.slice("s", "web", &all);
    for _ in 0..40 {
        stage.begin();
        if stage.flying.is_empty() {
            stage.now += Duration::from_secs(5);
            stage.machine.wake(stage.now);
            continue;
        }
        let (work, step) = stage.flying.remove(0);
        let chokes = matches!(&step, BalancerStep::Bind(all)
            if all.iter().any(|one| one.address == address("10.0.0.3")));
        let end = if let BalancerStep::Bind(changes) = &step
            && chokes
        {
            let failed = |one: &AddressChange| AddressOutcome {
                address: one.address,
                result: Err(fault(FaultKind::ServerFailed)),
            };
            BalancerEnd::Bound(changes.iter().map(failed).collect())
        } else {
            stage.world.carry_out(&step)
        };
        stage.machine.complete(&work, end, stage.now);
    }
    assert_eq!(stage.lines().len(), 4, "{:?}", stage.lines());
    assert_eq!(stage.machine.report(&service_key("web")).refused.1, 1);
}

#[test]
fn a_node_that_goes_takes_the_location_along_and_one_that_comes_brings_it() {
    let mut stage = standing();
    stage.node("n1", "");
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.1 web @- 80>8080"]);
    stage.node("n1", "192.0.2.9");
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.1 web @192.0.2.9 80>8080"]);
    // A provider that needs locations gets none without.
    stage.machine.limits.needs_location = true;
    stage.node("n1", "");
    stage.settle();
    assert_eq!(stage.lines(), ["web"]);
}

#[test]
fn each_address_lives_at_the_address_of_its_family() {
    let mut stage = Stage::new();
    let both = vec![address("192.0.2.5"), address("2001:db8::5")];
    stage.machine.set_node(&"n5".into(), both);
    stage.service("web", 80);
    stage.slice("s", "web", &["10.0.0.1@n5", "2001:db8:1::1@n5"]);
    stage.settle();
    assert_eq!(
        stage.lines()[1..],
        [
            "10.0.0.1 web @192.0.2.5 80>8080",
            "2001:db8:1::1 web @2001:db8::5 80>8080"
        ]
    );
}

#[test]
fn an_address_serves_several_services_and_leaves_them_one_by_one() {
    let mut stage = Stage::new();
    stage.service("a", 80);
    stage.service("b", 81);
    stage.slice("sa", "a", &["10.0.0.1@n1"]);
    stage.slice("sb", "b", &["10.0.0.1@n1"]);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    stage.retire("a");
    stage.settle();
    assert_eq!(stage.lines(), ["b", "10.0.0.1 b @192.0.2.1 81>8080"]);
}

#[test]
fn endpoints_that_are_about_to_end_serve_while_no_other_does() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n1~"]);
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.1 web @192.0.2.1 80>8080"]);
    stage.slice("s", "web", &["10.0.0.1@n1~", "10.0.0.2@n1~"]);
    stage.settle();
    assert_eq!(stage.lines().len(), 3);
    stage.slice("s2", "web", &["10.0.0.3@n2"]);
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.3 web @192.0.2.2 80>8080"]);
}

#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let mut stage = standing();
    stage.service("other", 80);
    stage.slice("s", "other", &["10.0.0.1@n1"]);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.reports[&service_key("web")].bound_len, 0);
}

#[test]
fn a_port_of_another_number_moves_what_leads_there() {
    let mut stage = standing();
    stage.service("web", 8443);
    stage.settle();
    assert_eq!(stage.lines()[1], "10.0.0.1 web @192.0.2.1 8443>8080");
}

#[test]
fn drift_is_put_right_at_the_next_look() {
    let mut stage = standing();
    stage.service("other", 80);
    stage.settle();
    let truth = stage.truth();
    let World { holdings, .. } = &mut stage.world;
    holdings.addresses.clear();
    holdings.balancers.remove(&service_key("other"));
    stage.pass(limits().read_interval * 2);
    assert_eq!(stage.lines(), truth);
    // What is not whole is made whole.
    let held = stage
        .world
        .holdings
        .balancers
        .get_mut(&service_key("other"));
    held.expect("it is there").digest = None;
    stage.world.log.clear();
    stage.pass(limits().read_interval);
    assert_eq!(stage.requests("ensure other"), 1);
}

#[test]
fn what_changes_during_a_look_is_not_taken_from_it() {
    let mut stage = standing();
    stage.machine.read_soon();
    stage.begin();
    assert_eq!(stage.flying.len(), 1);
    // The provider answers before it binds, and the answer arrives after.
    let (work, step) = stage.flying.remove(0);
    let answer = stage.world.carry_out(&step);
    stage.slice("s", "web", &["10.0.0.2@n1"]);
    stage.settle();
    stage.machine.complete(&work, answer, stage.now);
    stage.world.log.clear();
    stage.settle();
    assert_eq!(stage.world.log, nothing());
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn what_nobody_asks_for_is_left_alone_for_a_while_and_then_swept() {
    let mut stage = standing();
    stage.service("other", 80);
    stage.settle();
    stage.services.remove("web");
    stage.crash();
    let before = stage.lines();
    stage.pass(Duration::from_mins(1));
    assert_eq!(stage.lines(), before, "somebody may still tell of it");
    stage.pass(limits().read_interval * 2);
    assert_eq!(stage.lines(), ["other"]);
    let told = &stage.reports[&service_key("web")];
    assert_eq!(told.phase, Phase::Gone);
}

#[test]
fn what_nobody_asks_for_is_taken_over_by_who_tells_of_it_in_time() {
    let mut stage = standing();
    let (services, truth) = (stage.services.clone(), stage.lines());
    stage.services.clear();
    stage.crash();
    stage.settle();
    stage.world.log.clear();
    for (uid, (_, port)) in services {
        stage.service(&uid, port);
    }
    stage.pass(Duration::from_hours(1));
    assert_eq!(stage.lines(), truth);
    assert_eq!(stage.requests("bind") + stage.requests("remove"), 0);
}

#[test]
fn nothing_is_swept_before_everything_was_told() {
    let stage = standing();
    let mut stage = Stage::unread(stage.world);
    stage.pass(Duration::from_hours(5));
    assert_eq!(stage.lines().len(), 2);
}

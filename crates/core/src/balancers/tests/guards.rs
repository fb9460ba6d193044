//! Event scripts and their end states.

use super::*;

fn nothing() -> Vec<String> {
    Vec::new()
}

/// A Service that stands with one endpoint.
fn standing() -> Stage {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("s", "web", &["10.0.0.1@n1"]);
    stage.settle();
    stage.world.log.clear();
    stage
}

#[test]
fn declaring_the_same_again_sends_nothing() {
    let mut stage = standing();
    stage.service("web", 80);
    stage.slice("s", "web", &["10.0.0.1@n1"]);
    stage.node("n1", "192.0.2.1");
    stage.settle();
    assert_eq!(stage.world.log, nothing());
}

#[test]
fn endpoints_wait_for_their_balancer_and_what_went_meanwhile_does_not_come_back() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.begin();
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n1"]);
    stage.slice("s", "web", &["10.0.0.2@n1"]);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.world.log, ["ensure web", "bind 10.0.0.2"]);
}

#[test]
fn endpoints_of_services_without_a_balancer_are_not_sent() {
    let mut stage = Stage::new();
    stage.slice("s", "inner", &["10.0.0.1@n1"]);
    stage.settle();
    assert_eq!(stage.world.log, nothing());
    assert_eq!(stage.machine.buffered().count(), 0, "nobody waits for it");
}

#[test]
fn retiring_what_nobody_knows_asks_nobody() {
    let mut stage = Stage::new();
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.phase("web"), Some(Phase::Gone));
    assert_eq!(stage.world.log, nothing());
    assert_eq!(stage.machine.keys().count(), 0);
}

#[test]
fn retiring_what_a_process_before_made_removes_it() {
    let mut stage = standing();
    stage.crash();
    stage.settle();
    stage.services.clear();
    stage.crash();
    stage.settle();
    assert_eq!(stage.phase("web"), None, "nobody spoke of it");
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.lines(), nothing());
    assert_eq!(stage.phase("web"), Some(Phase::Gone));
}

#[test]
fn retiring_twice_is_retiring_once() {
    let mut stage = standing();
    stage.retire("web");
    stage.begin();
    stage.retire("web");
    stage.settle();
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.requests("remove"), 1);
    assert_eq!(stage.lines(), nothing());
}

#[test]
fn the_end_of_a_step_of_something_gone_means_nothing() {
    let mut stage = Stage::new();
    let work = BalancerWork::Balancer(service_key("ghost"));
    let end = BalancerEnd::Ensured(Ok(Frontage::default()));
    stage.machine.complete(&work, end, stage.now);
    stage
        .machine
        .complete(&work, BalancerEnd::Removed(Ok(())), stage.now);
    stage.settle();
    assert_eq!(stage.machine.keys().count(), 0);
}

#[test]
fn a_balancer_goes_only_after_its_addresses() {
    let mut stage = standing();
    stage.world.faults.push_back(fault(FaultKind::Unreachable));
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.phase("web"), Some(Phase::DeletionPending));
    assert_eq!(stage.requests("remove"), 0);
    stage.pass(Duration::from_secs(9));
    assert_eq!(stage.lines(), nothing());
    assert_eq!(stage.phase("web"), Some(Phase::Gone));
}

#[test]
fn one_that_waits_for_its_addresses_does_not_hold_up_others() {
    let mut stage = standing();
    stage.service("other", 80);
    stage.settle();
    stage.world.poison.insert(address("10.0.0.1"));
    stage.retire("web");
    stage.retire("other");
    stage.settle();
    assert_eq!(stage.phase("other"), Some(Phase::Gone));
    assert_eq!(stage.phase("web"), Some(Phase::DeletionPending));
    let report = &stage.reports[&service_key("web")];
    assert_eq!(report.refused.1, 1, "and it says why");
    stage.world.poison.clear();
    stage.pass(Duration::from_mins(1));
    assert_eq!(stage.lines(), nothing());
}

#[test]
fn endpoints_that_come_while_a_balancer_goes_are_not_bound() {
    let mut stage = standing();
    stage.retire("web");
    stage.slice("s2", "web", &["10.0.0.2@n1"]);
    stage.begin();
    stage.land(0);
    stage.begin();
    stage.slice("s3", "web", &["10.0.0.3@n1"]);
    stage.settle();
    assert_eq!(stage.lines(), nothing());
    let sent = stage.world.log.concat();
    assert!(!sent.contains("10.0.0.2") && !sent.contains("10.0.0.3"));
}

#[test]
fn a_balancer_that_still_has_addresses_for_its_provider_is_drained_again() {
    let mut stage = standing();
    // Somebody else bound an address to it.
    let stray = Binding {
        location: None,
        balancer: service_key("web"),
        targets: Arc::default(),
    };
    let bindings = [stray].into_iter().collect();
    let addresses = &mut stage.world.holdings.addresses;
    addresses.insert(address("10.9.9.9"), bindings);
    stage.retire("web");
    stage.begin();
    stage.land(0);
    stage.world.faults.push_back(fault(FaultKind::Conflict));
    stage.settle();
    stage.pass(Duration::from_secs(20));
    assert_eq!(stage.lines(), nothing());
}

#[test]
fn a_deletion_is_never_given_up() {
    let mut stage = standing();
    stage.retire("web");
    stage.begin();
    stage.land(0);
    for kind in [FaultKind::Invalid, FaultKind::Denied, FaultKind::Refused] {
        stage.world.faults.push_back(fault(kind));
    }
    stage.settle();
    let told = stage.reports[&service_key("web")].fault.clone();
    assert_eq!(told.map(|one| one.kind), Some(FaultKind::Invalid));
    stage.pass(Duration::from_mins(1));
    assert_eq!(stage.lines(), nothing());
    assert_eq!(stage.requests("remove"), 4);
}

#[test]
fn what_is_declared_again_before_its_removal_stays() {
    let mut stage = standing();
    stage.retire("web");
    stage.service("web", 80);
    stage.settle();
    assert_eq!(stage.world.log, nothing());
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn what_is_declared_again_during_its_removal_is_made_again_with_its_endpoints() {
    let mut stage = standing();
    stage.retire("web");
    stage.begin();
    stage.land(0);
    stage.begin();
    stage.service("web", 81);
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n2"]);
    stage.settle();
    assert_eq!(stage.requests("remove"), 1);
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.phase("web"), Some(Phase::Created));
}

#[test]
fn a_deletion_that_was_tried_is_made_good_when_the_balancer_is_wanted_again() {
    let mut stage = standing();
    stage.retire("web");
    stage.begin();
    stage.land(0);
    stage.world.faults.push_back(fault(FaultKind::ServerFailed));
    stage.settle();
    stage.service("web", 80);
    stage.settle();
    assert_eq!(stage.requests("ensure"), 1, "part of it may be gone");
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_wish_that_is_taken_back_while_its_service_goes_brings_nothing_back() {
    let mut stage = standing();
    stage.retire("web");
    stage.begin();
    stage.land(0);
    stage.begin();
    stage.service("web", 80);
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.lines(), nothing());
    assert_eq!(stage.phase("web"), Some(Phase::Gone));
}

#[test]
fn a_service_made_anew_under_its_name_is_another_one() {
    let mut stage = Stage::new();
    stage.service("web#u1", 80);
    stage.slice("s", "web", &["10.0.0.1@n1"]);
    stage.settle();
    stage.retire("u1");
    stage.service("web#u2", 80);
    stage.settle();
    assert_eq!(stage.lines(), ["u2", "10.0.0.1 u2 @192.0.2.1 80>8080"]);
    assert_eq!(stage.phase("u1"), Some(Phase::Gone));
    // Told late, the old one takes nothing of the new one along.
    stage.retire("u1");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn retiring_during_creation_leaks_nothing_whatever_the_answer_is() {
    for answer in [
        None,
        Some(FaultKind::Lost),
        Some(FaultKind::Invalid),
        Some(FaultKind::ServerFailed),
    ] {
        let mut stage = Stage::new();
        stage.service("web", 80);
        stage.slice("s", "web", &["10.0.0.1@n1"]);
        stage.begin();
        stage.retire("web");
        stage.world.faults.extend(answer.map(fault));
        stage.pass(Duration::from_mins(1));
        assert_eq!(stage.lines(), nothing(), "{answer:?}");
        assert_eq!(stage.phase("web"), Some(Phase::Gone), "{answer:?}");
        assert_eq!(stage.requests("remove"), 1, "{answer:?}");
    }
}

#[test]
fn retiring_during_a_change_leaks_nothing_whatever_the_answer_is() {
    for answer in [
        None,
        Some(FaultKind::Lost),
        Some(FaultKind::Invalid),
        Some(FaultKind::ServerFailed),
    ] {
        let mut stage = standing();
        stage.service("web", 81);
        stage.begin();
        stage.retire("web");
        stage.world.faults.extend(answer.map(fault));
        stage.pass(Duration::from_mins(1));
        assert_eq!(stage.lines(), nothing(), "{answer:?}");
        assert_eq!(stage.phase("web"), Some(Phase::Gone), "{answer:?}");
    }
}

#[test]
fn what_was_never_tried_goes_without_a_word() {
    let mut stage = Stage::new();
    stage.world.faults.push_back(fault(FaultKind::Throttled));
    stage.machine.hasten();
    stage.settle();
    stage.world.log.clear();
    stage.service("web", 80);
    stage.retire("web");
    stage.pass(Duration::from_mins(1));
    assert_eq!(stage.world.log, ["read"]);
}

#[test]
fn what_changes_while_a_balancer_is_made_is_sent_afterwards() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.begin();
    stage.service("web", 81);
    stage.service("web", 82);
    stage.settle();
    assert_eq!(stage.requests("ensure"), 2);
    let digest = stage.world.holdings.balancers[&service_key("web")]
        .digest
        .clone();
    assert_eq!(digest, Some(front("web", 82).digest()));
    assert_eq!(stage.phase("web"), Some(Phase::Created));
}

#[test]
fn what_is_refused_for_good_waits_for_another_wish() {
    let mut stage = Stage::new();
    stage.world.faults.push_back(fault(FaultKind::Invalid));
    stage.service("web", 80);
    stage.pass(Duration::from_hours(3));
    assert_eq!(stage.requests("ensure"), 1);
    stage.service("web", 80);
    stage.pass(Duration::from_hours(1));
    assert_eq!(stage.requests("ensure"), 1, "the same again is in vain");
    let told = stage.reports[&service_key("web")].fault.clone();
    assert_eq!(told.map(|one| one.kind), Some(FaultKind::Invalid));
    stage.service("web", 81);
    stage.settle();
    assert_eq!(stage.lines(), ["web"]);
    assert_eq!(stage.reports[&service_key("web")].fault, None);
}

#[test]
fn a_refusal_of_what_is_no_longer_asked_for_parks_nothing() {
    let mut stage = Stage::new();
    stage.world.faults.push_back(fault(FaultKind::Invalid));
    stage.service("web", 80);
    stage.begin();
    stage.service("web", 81);
    stage.settle();
    assert_eq!(stage.lines(), ["web"]);
}

#[test]
fn a_change_that_is_refused_leaves_the_live_balancer_its_endpoints() {
    let mut stage = standing();
    stage.world.faults.push_back(fault(FaultKind::Invalid));
    stage.service("web", 81);
    stage.settle();
    stage.slice("s", "web", &["10.0.0.2@n2"]);
    stage.settle();
    let report = &stage.reports[&service_key("web")];
    assert!(!report.is_programmed && report.carries_traffic());
    let stands: Vec<String> = stage.lines();
    assert!(stands[1].starts_with("10.0.0.2 web"), "{stands:?}");
    stage.retire("web");
    stage.settle();
    assert_eq!(stage.lines(), nothing());
}

#[test]
fn a_service_with_a_mistake_keeps_what_it_has_and_gets_nothing_new() {
    let mistaken = |name: &str| BalancerDeclaration {
        owner: GroupOwner::Service("default".into(), name.into()),
        spec: None,
        previous: Vec::new(),
    };
    let mut stage = standing();
    let before = stage.lines();
    // After a restart nobody knows what it was to be.
    stage.services.clear();
    let mut stage = Stage::unread(stage.world);
    stage.slice("s", "web", &["10.0.0.7@n1"]);
    for name in ["web", "new"] {
        stage.machine.declare(&service_key(name), mistaken(name));
    }
    stage.machine.set_synced();
    stage.pass(Duration::from_hours(1));
    assert_eq!(stage.lines(), before);
    stage.machine.retire(&service_key("new"));
    stage.machine.retire(&service_key("web"));
    stage.settle();
    assert_eq!(stage.lines(), nothing());
}

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

#[test]
fn a_gateway_comes_with_its_first_pod_and_goes_after_its_last() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    assert_eq!(
        stage.lines(),
        [
            "egress/out",
            "10.0.0.1 egress/out @192.0.2.1",
            "10.0.0.2 egress/out @192.0.2.1"
        ]
    );
    stage.drop_pod("p1");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert!(stage.leaving.is_empty(), "its finalizer may go");
    stage.drop_pod("p2");
    stage.settle();
    assert_eq!(stage.lines(), nothing());
    assert!(stage.leaving.is_empty());
}

#[test]
fn a_pod_is_held_until_its_address_is_bound_to_nothing() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.drop_pod("p1");
    stage.begin();
    assert_eq!(stage.leaving.len(), 1);
    stage.world.faults.push_back(fault(FaultKind::Lost));
    stage.land(0);
    stage.begin();
    assert_eq!(stage.leaving.len(), 1, "nobody knows");
    stage.pass(Duration::from_secs(9));
    assert!(stage.leaving.is_empty());
    assert_eq!(stage.lines(), nothing());
}

#[test]
fn the_last_pod_that_waits_takes_its_gateway_along() {
    for answer in [
        None,
        Some(FaultKind::Lost),
        Some(FaultKind::Invalid),
        Some(FaultKind::ServerFailed),
    ] {
        let mut stage = Stage::new();
        stage.world.faults.extend(answer.map(fault));
        stage.pod("p1", "out", "10.0.0.1");
        stage.begin();
        stage.drop_pod("p1");
        stage.pass(Duration::from_mins(1));
        assert_eq!(stage.lines(), nothing(), "{answer:?}");
        assert!(stage.leaving.is_empty(), "{answer:?}");
    }
}

#[test]
fn a_pod_that_comes_while_its_gateway_goes_is_served() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.drop_pod("p1");
    stage.begin();
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.requests("remove"), 0, "it was not too late");
    stage.drop_pod("p2");
    stage.begin();
    stage.land(0);
    stage.begin();
    stage.pod("p3", "out", "10.0.0.3");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.requests("remove"), 1);
}

#[test]
fn a_pod_with_the_address_of_one_that_goes_keeps_it() {
    let mut stage = Stage::new();
    stage.pod("old", "out", "10.0.0.1");
    stage.settle();
    stage.pod("new", "out", "10.0.0.1");
    stage.drop_pod("old");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.lines().len(), 2);
    assert!(stage.leaving.is_empty(), "what is bound is the other one's");
    assert_eq!(stage.requests("remove"), 0);
}

#[test]
fn a_pod_that_was_deleted_while_nobody_looked_is_taken_out_of_its_gateway() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    let (label, ip) = stage.pods.remove("p1").expect("it is there");
    stage.leaving.insert("p1".into(), (label, ip));
    stage.crash();
    stage.settle();
    assert_eq!(stage.lines(), nothing());
    assert!(stage.leaving.is_empty());
}

#[test]
fn a_pod_whose_addresses_nobody_knows_is_held_until_the_gateway_has_no_stray_one() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    stage.pods.remove("p1");
    stage.crash();
    let pod = EndpointsKey::Pod("p1".into());
    stage.machine.release(&pod, &"out".into(), &[]);
    stage.begin();
    assert!(!stage.released.contains(&pod));
    stage.settle();
    assert!(stage.released.contains(&pod));
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_pod_that_changes_its_label_moves() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.pod("p1", "other", "10.0.0.1");
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.lines().len(), 2);
}

#[test]
fn a_gateway_gets_the_families_that_its_pods_have() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.pod("p2", "out", "2001:db8::2");
    stage.settle();
    assert_eq!(stage.requests("ensure"), 2);
    let digest = |families: &[Family]| {
        let families = families.to_vec();
        BalancerSpec::Egress(EgressFront { families }).digest()
    };
    let held = &stage.world.holdings.balancers[&gateway("out")];
    assert_eq!(held.digest, Some(digest(&[Family::V4, Family::V6])));
}

#[test]
fn an_event_costs_what_it_concerns() {
    let mut stage = Stage::new();
    for turn in 0..200_u8 {
        let service = format!("s{turn}");
        stage.service(&service, 80);
        stage.slice(&service, &service, &[&format!("10.0.{turn}.1@n1")]);
    }
    stage.settle();
    stage.world.log.clear();
    stage.slice("s7", "s7", &["10.0.7.1@n1", "10.0.7.2@n1"]);
    stage.begin();
    let news: Vec<&BalancerKey> = stage.machine.changed.iter().collect();
    assert_eq!(news, Vec::<&BalancerKey>::new(), "all news were taken");
    assert_eq!(stage.flying.len(), 1);
    stage.settle();
    assert_eq!(stage.world.log, ["bind 10.0.7.2"]);
}

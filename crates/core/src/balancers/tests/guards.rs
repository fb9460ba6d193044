//! Event scripts and their end states.

mod addresses;
mod egress;

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
    assert_eq!(stage.machine.keys().count(), 0, "nobody waits for it");
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

#[test]
fn an_address_that_is_bound_has_nobody_look_at_a_balancer_that_stays() {
    let mut stage = standing();
    stage.slice("s", "web", &["10.0.0.1@n1", "10.0.0.2@n1"]);
    stage.begin();
    stage.land(0);
    assert_eq!(stage.machine.take_work(), [BalancerWork::Addresses]);
}

#[test]
fn a_look_that_finds_everything_as_it_was_tells_nothing() {
    let mut stage = standing();
    stage.reports.clear();
    stage.world.log.clear();
    stage.pass(limits().read_interval);
    assert_eq!(stage.world.log, ["read"]);
    assert_eq!(stage.reports, BTreeMap::new());
}

#[test]
fn every_balancer_that_is_known_is_listed() {
    let mut stage = standing();
    stage.pod("p", "out", "10.0.0.9");
    let keys: BTreeSet<&BalancerKey> = stage.machine.keys().collect();
    assert_eq!(keys, [&service_key("web"), &gateway("out")].into());
}

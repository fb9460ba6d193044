//! What is sent, how much of it at a time, and what an answer says of what stands.

use super::*;

fn with_limits(limits: BalancerLimits) -> Stage {
    let mut stage = Stage::new();
    stage.machine = Balancers::new(limits, BalancerTimes::default());
    stage.node("n1", "192.0.2.1");
    stage.machine.set_synced();
    stage.settle();
    stage.world.log.clear();
    stage
}

fn hosts(range: std::ops::RangeInclusive<u8>) -> Vec<String> {
    range.map(|last| format!("10.0.0.{last}@n1")).collect()
}

fn slice(stage: &mut Stage, endpoints: &[String]) {
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    stage.slice("s", "web", &endpoints);
}

/// A Service that stands with these endpoints.
fn standing(endpoints: std::ops::RangeInclusive<u8>) -> Stage {
    let mut stage = Stage::new();
    stage.service("web", 80);
    slice(&mut stage, &hosts(endpoints));
    stage.settle();
    stage.world.log.clear();
    stage
}

#[test]
fn a_request_holds_no_more_than_it_may_though_others_need_nothing() {
    let mut stage = standing(1..=2);
    // Two come and go before anybody looks, and eight are new.
    stage.slice("s", "web", &[]);
    slice(&mut stage, &hosts(1..=10));
    stage.settle();
    assert_eq!(
        stage.world.log,
        [
            "bind 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6",
            "bind 10.0.0.7 10.0.0.8 10.0.0.9 10.0.0.10",
        ]
    );
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn what_was_refused_travels_alone_and_holds_up_nobody() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.world.poison.insert(address("10.0.0.2"));
    slice(&mut stage, &hosts(1..=2));
    stage.settle();
    stage.world.log.clear();
    stage.slice("t", "web", &["10.0.0.3@n1"]);
    stage.settle();
    assert_eq!(stage.world.log, ["bind 10.0.0.3"], "at once");
    // Its time has come, and others have something to do as well.
    stage.now += Duration::from_mins(1);
    stage.machine.wake(stage.now);
    slice(&mut stage, &hosts(2..=9));
    stage.world.log.clear();
    stage.settle();
    assert_eq!(
        stage.world.log,
        [
            "bind 10.0.0.1 10.0.0.4 10.0.0.5 10.0.0.6",
            "bind 10.0.0.2",
            "bind 10.0.0.7 10.0.0.8 10.0.0.9",
        ]
    );
    let report = stage.machine.report(&service_key("web"));
    assert_eq!(report.refused.1, 1);
}

#[test]
fn a_request_that_fails_as_a_whole_is_made_again_with_half_as_much() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.settle();
    stage.world.log.clear();
    stage.world.faults.push_back(fault(FaultKind::ServerFailed));
    slice(&mut stage, &hosts(1..=4));
    stage.settle();
    let report = stage.machine.report(&service_key("web"));
    assert_eq!(report.refused.1, 0, "nobody knows which of them");
    stage.pass(Duration::from_secs(10));
    assert_eq!(
        stage.world.log,
        [
            "bind 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4",
            "bind 10.0.0.1 10.0.0.2",
            "bind 10.0.0.3 10.0.0.4",
        ]
    );
    stage.world.faults.push_back(fault(FaultKind::ServerFailed));
    stage.slice("t", "web", &["10.0.0.5@n1"]);
    stage.settle();
    let report = stage.machine.report(&service_key("web"));
    assert_eq!(report.refused.1, 1, "of one alone it is known");
}

#[test]
fn no_more_requests_with_addresses_are_on_their_way_than_may_be() {
    let mut stage = with_limits(BalancerLimits {
        chunk_len_max: 2,
        chunks_max: 3,
        ..limits()
    });
    stage.service("web", 80);
    stage.settle();
    slice(&mut stage, &hosts(1..=20));
    stage.begin();
    assert_eq!(stage.flying.len(), 3);
    stage.land(0);
    stage.begin();
    assert_eq!(stage.flying.len(), 3);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_provider_with_too_much_to_do_gets_half_and_then_one_more_with_each_success() {
    let mut stage = with_limits(BalancerLimits {
        balancers_max: 4,
        ..limits()
    });
    for number in 0..20 {
        stage.service(&format!("web{number:02}"), 80);
    }
    stage.begin();
    assert_eq!(stage.flying.len(), 4);
    stage.world.faults.push_back(fault(FaultKind::Throttled));
    stage.land(0);
    stage.begin();
    assert_eq!(stage.flying.len(), 3, "there is room for two");
    stage.land(0);
    stage.begin();
    assert_eq!(stage.flying.len(), 3, "and now for three");
    for _ in 0..6 {
        stage.land(0);
        stage.begin();
    }
    assert_eq!(stage.flying.len(), 4, "never more than at first");
    stage.world.faults.push_back(fault(FaultKind::Unreachable));
    stage.land(0);
    stage.begin();
    assert_eq!(stage.flying.len(), 4);
}

#[test]
fn what_did_not_reach_the_provider_need_not_be_taken_back() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.settle();
    stage.world.faults.push_back(fault(FaultKind::Unreachable));
    slice(&mut stage, &hosts(1..=1));
    stage.settle();
    stage.retire("web");
    stage.pass(Duration::from_secs(30));
    assert_eq!(
        stage.world.log,
        ["ensure web", "bind 10.0.0.1", "remove web"]
    );
}

#[test]
fn of_a_change_that_failed_something_may_have_been_done() {
    for (kind, requests) in [(FaultKind::ServerFailed, 2), (FaultKind::Unreachable, 1)] {
        let mut stage = standing(1..=1);
        stage.world.faults.push_back(fault(kind));
        stage.service("web", 81);
        stage.begin();
        stage.land(0);
        // Its author thinks better of it.
        stage.service("web", 80);
        stage.pass(Duration::from_secs(30));
        assert_eq!(stage.requests("ensure"), requests, "{kind:?}");
        assert_eq!(stage.lines(), stage.truth());
    }
}

#[test]
fn a_service_that_took_the_place_of_another_keeps_its_endpoints_when_that_goes() {
    let mut stage = Stage::new();
    stage.service("web#1", 80);
    slice(&mut stage, &hosts(1..=2));
    stage.settle();
    stage.service("web#2", 80);
    stage.settle();
    stage.retire("1");
    stage.settle();
    slice(&mut stage, &hosts(1..=3));
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn endpoints_that_wait_for_a_balancer_are_counted() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("s", "web", &[]);
    stage.begin();
    let buffered = |stage: &Stage| stage.machine.report(&service_key("web")).buffered_len;
    assert_eq!(buffered(&stage), 0);
    slice(&mut stage, &hosts(1..=2));
    assert_eq!(buffered(&stage), 2);
    stage.settle();
    assert_eq!(buffered(&stage), 0);
}

#[test]
fn a_balancer_has_its_address_while_endpoints_leave_it() {
    let mut stage = standing(1..=1);
    stage.retire("web");
    stage.begin();
    assert_eq!(stage.phase("web"), Some(Phase::DeletionPending));
    let report = stage.machine.report(&service_key("web"));
    assert_eq!(report.frontage, frontage(&service_key("web")));
    assert!(!report.carries_traffic(), "it is on its way out");
    stage.settle();
    assert_eq!(stage.lines(), Vec::<String>::new());
}

#[test]
fn traffic_needs_a_front_and_an_endpoint() {
    let mut stage = standing(1..=1);
    let report = stage.machine.report(&service_key("web"));
    assert!(report.carries_traffic());
    let bare = BalancerReport {
        frontage: Frontage::default(),
        ..report.clone()
    };
    assert!(!bare.carries_traffic());
    stage.slice("s", "web", &[]);
    stage.settle();
    assert!(!stage.machine.report(&service_key("web")).carries_traffic());
}

/// What the next request to make a balancer says of the addresses that it had.
fn previous(stage: &Stage) -> Vec<IpAddr> {
    let asked = stage.flying.iter().find_map(|(_, step)| match step {
        BalancerStep::Ensure { previous, .. } => Some(previous.clone()),
        BalancerStep::Remove(_) | BalancerStep::Bind(_) | BalancerStep::Read => None,
    });
    asked.expect("a balancer is asked for")
}

#[test]
fn whoever_makes_a_balancer_again_is_told_the_addresses_that_it_had() {
    let had = frontage(&service_key("web")).addresses;
    // A change after a restart.
    let mut stage = standing(1..=1);
    stage.services.get_mut("web").expect("it is there").1 = 81;
    stage.crash();
    stage.begin();
    stage.land(0);
    stage.begin();
    assert_eq!(previous(&stage), had);
    // Somebody took it away.
    let mut stage = standing(1..=1);
    stage.world.holdings = Holdings::default();
    stage.machine.hasten();
    stage.begin();
    stage.land(0);
    let report = stage.machine.report(&service_key("web"));
    assert_eq!(report.frontage, Frontage::default());
    assert!(!report.is_programmed);
    stage.begin();
    assert_eq!(previous(&stage), had);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn an_answer_that_is_older_than_a_change_says_nothing_of_it() {
    let mut stage = standing(1..=1);
    stage.machine.hasten();
    stage.begin();
    let (work, step) = stage.flying.remove(0);
    assert_eq!(step, BalancerStep::Read);
    let before = stage.world.carry_out(&step);
    stage.service("other", 80);
    stage.begin();
    stage.land(0);
    stage.machine.complete(&work, before, stage.now);
    stage.settle();
    assert_eq!(stage.requests("ensure"), 1, "it was seen to be made");
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn what_is_bound_to_a_balancer_that_is_not_there_is_unbound() {
    let mut world = World::default();
    let binding = Binding {
        location: None,
        balancer: service_key("ghost"),
        targets: Arc::default(),
    };
    let bindings: Bindings = [binding].into_iter().collect();
    world
        .holdings
        .addresses
        .insert(address("10.0.0.7"), bindings);
    let mut stage = Stage::unread(world);
    stage.machine.set_synced();
    stage.settle();
    assert_eq!(stage.lines(), Vec::<String>::new());
}

#[test]
fn a_pod_is_let_go_when_the_addresses_it_told_of_are_unbound() {
    let key = EndpointsKey::Pod("p".into());
    let mut stage = Stage::new();
    stage.pod("p", "out", "10.0.0.9");
    stage.settle();
    stage.world.faults.push_back(fault(FaultKind::Unreachable));
    stage.machine.release(&key, &"out".into(), &[]);
    stage.settle();
    assert!(!stage.released.contains(&key), "it is still bound");
    stage.pass(Duration::from_secs(30));
    assert!(stage.released.contains(&key));
    assert_eq!(stage.lines(), Vec::<String>::new());
}

#[test]
fn a_pod_that_comes_back_is_not_told_to_be_gone() {
    let key = EndpointsKey::Pod("p".into());
    let mut stage = Stage::new();
    stage.pod("p", "out", "10.0.0.9");
    stage.settle();
    stage.world.faults.push_back(fault(FaultKind::Unreachable));
    stage.drop_pod("p");
    stage.settle();
    stage.leaving.clear();
    stage.pod("p", "out", "10.0.0.8");
    stage.pass(Duration::from_secs(30));
    assert!(!stage.released.contains(&key));
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_provider_that_knows_of_no_ports_is_told_none() {
    let mut stage = with_limits(BalancerLimits {
        binds_ports: false,
        ..limits()
    });
    stage.service("web", 80);
    slice(&mut stage, &hosts(1..=1));
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.1 web @192.0.2.1"]);
}

#[test]
fn how_long_a_balancer_waited_for_others_is_known() {
    let mut stage = with_limits(BalancerLimits {
        balancers_max: 1,
        ..limits()
    });
    stage.service("one", 80);
    stage.service("two", 80);
    stage.begin();
    stage.now += Duration::from_secs(3);
    stage.settle();
    let queued = |uid: &str| stage.machine.queued_for(&service_key(uid));
    assert_eq!(
        (queued("one"), queued("two")),
        (Duration::ZERO, Duration::from_secs(3))
    );
}

#[test]
fn addresses_wait_until_a_request_has_them() {
    let mut stage = standing(1..=1);
    assert!(!stage.machine.has_pending_addresses());
    slice(&mut stage, &hosts(1..=2));
    assert!(stage.machine.has_pending_addresses());
    stage.begin();
    assert!(!stage.machine.has_pending_addresses(), "it is on its way");
}

#[test]
fn an_endpoint_that_is_refused_does_not_wait_for_its_balancer() {
    let mut stage = standing(1..=1);
    stage.world.poison.insert(address("10.0.0.2"));
    slice(&mut stage, &hosts(1..=2));
    stage.settle();
    let report = stage.machine.report(&service_key("web"));
    assert_eq!((report.bound_len, report.buffered_len), (1, 0));
    assert_eq!(report.refused.1, 1);
}

#[test]
fn a_pod_that_told_of_its_addresses_waits_for_no_others() {
    let key = EndpointsKey::Pod("p".into());
    let mut stage = Stage::new();
    stage.pod("p", "out", "10.0.0.9");
    stage.pod("q", "out", "10.0.0.8");
    stage.settle();
    // What the other one leaves behind stays.
    stage.world.poison.insert(address("10.0.0.8"));
    stage.drop_pod("q");
    stage.settle();
    stage.machine.release(&key, &"out".into(), &[]);
    stage.settle();
    assert!(stage.released.contains(&key));
    assert!(!stage.released.contains(&EndpointsKey::Pod("q".into())));
}

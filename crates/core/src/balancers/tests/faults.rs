//! Four faults that another engine has, which lose or leak addresses: each a test of its own.

use super::*;

#[test]
fn an_endpoint_that_moves_between_two_slices_is_not_lost() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("a", "web", &["10.0.0.1@n1"]);
    stage.settle();
    stage.slice("b", "web", &["10.0.0.1@n1"]);
    stage.settle();
    stage.slice("a", "web", &[]);
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.1 web @192.0.2.1 80>8080"]);
    stage.drop_slice("b");
    stage.settle();
    assert_eq!(stage.lines(), ["web"]);
}

#[test]
fn an_address_whose_answer_was_lost_is_not_leaked() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.settle();
    stage.world.faults.push_back(fault(FaultKind::Lost));
    stage.slice("a", "web", &["10.0.0.1@n1"]);
    stage.begin();
    stage.land(0);
    // It was done, and is no longer asked for before anybody could know.
    stage.drop_slice("a");
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.lines(), ["web"]);
    stage.retire("web");
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.lines(), Vec::<String>::new());
}

#[test]
fn a_lost_answer_that_was_not_carried_out_is_found_out_too() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.settle();
    stage.slice("a", "web", &["10.0.0.1@n1"]);
    stage.begin();
    let (work, step) = stage.flying.remove(0);
    let BalancerStep::Bind(changes) = step else {
        unreachable!("addresses are what is left to do");
    };
    let lost = |change: &AddressChange| AddressOutcome {
        address: change.address,
        result: Err(fault(FaultKind::Lost)),
    };
    let end = BalancerEnd::Bound(changes.iter().map(lost).collect());
    stage.machine.complete(&work, end, stage.now);
    let report = stage.machine.report(&service_key("web"));
    assert_eq!((report.bound_len, report.waiting_len), (1, 1), "it may be");
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(stage.requests("read"), 1, "what stands there is asked for");
}

#[test]
fn a_node_that_changes_its_address_leaves_nothing_behind() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.slice("a", "web", &["10.0.0.1@n1", "10.0.0.2@n1"]);
    stage.settle();
    // The node moves, and before anything is sent a pod of it goes.
    stage.node("n1", "192.0.2.77");
    stage.slice("a", "web", &["10.0.0.2@n1"]);
    stage.settle();
    assert_eq!(stage.lines(), ["web", "10.0.0.2 web @192.0.2.77 80>8080"]);
    // The other way round.
    stage.slice("a", "web", &[]);
    stage.node("n1", "192.0.2.1");
    stage.settle();
    assert_eq!(stage.lines(), ["web"]);
}

#[test]
fn what_waits_for_a_balancer_that_cannot_be_made_does_not_grow() {
    let mut stage = Stage::new();
    stage.world.faults.push_back(fault(FaultKind::Invalid));
    stage.service("web", 80);
    stage.settle();
    for turn in 0..10_000_u32 {
        let endpoint = format!("10.0.{}.{}@n1", turn / 250 % 250, turn % 250);
        stage.slice("a", "web", &[&endpoint]);
        stage.settle();
    }
    let buffered = |stage: &Stage| stage.reports[&service_key("web")].buffered_len;
    assert_eq!(buffered(&stage), 1);
    assert_eq!(stage.requests("ensure"), 1, "it is not tried again");
    // What came last is bound as soon as it can be made.
    stage.service("web", 81);
    stage.settle();
    assert_eq!(stage.lines(), stage.truth());
    assert_eq!(buffered(&stage), 0);
}

#[test]
fn a_fault_is_over_when_a_read_shows_what_is_wanted() {
    let mut stage = Stage::new();
    stage.world.faults.push_back(fault(FaultKind::Lost));
    stage.service("web", 80);
    stage.begin();
    // It was done, and its answer was lost. Before it is tried again somebody reads what stands.
    stage.land(0);
    assert!(stage.machine.report(&service_key("web")).fault.is_some());
    stage.machine.read_soon();
    stage.settle();
    stage.pass(Duration::from_secs(10));
    let report = stage.machine.report(&service_key("web"));
    assert!(report.is_programmed);
    assert_eq!(report.fault, None);
    assert_eq!(stage.reports[&service_key("web")].fault, None, "it is told");
}

#[test]
fn a_fault_is_over_when_what_failed_is_no_longer_asked_for() {
    let mut stage = Stage::new();
    stage.service("web", 80);
    stage.settle();
    stage.world.faults.push_back(fault(FaultKind::Throttled));
    stage.service("web", 81);
    stage.begin();
    stage.land(0);
    assert!(stage.machine.report(&service_key("web")).fault.is_some());
    stage.service("web", 80);
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.requests("ensure"), 2, "what stands is what is wanted");
    assert_eq!(stage.reports[&service_key("web")].fault, None);
}

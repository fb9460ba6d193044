//! Gateways of pods with an egress label.

use super::*;

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
fn a_pod_whose_gateway_nobody_knows_is_held_until_no_gateway_has_its_address() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    // It lost its label while nobody looked.
    stage.pods.remove("p1");
    stage.crash();
    let p1 = EndpointsKey::Pod("p1".into());
    stage
        .machine
        .release(&p1, &"".into(), &[address("10.0.0.1")]);
    stage.begin();
    stage.land(0);
    stage.begin();
    assert!(!stage.released.contains(&p1), "its address is bound");
    stage.settle();
    assert!(stage.released.contains(&p1));
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_pod_without_a_known_gateway_or_address_is_held_by_nothing() {
    let mut stage = Stage::new();
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    let p1 = EndpointsKey::Pod("p1".into());
    stage.machine.release(&p1, &"".into(), &[]);
    stage.settle();
    assert!(stage.released.contains(&p1));
}

#[test]
fn a_pod_that_comes_where_a_process_before_made_the_gateway_is_bound_at_once() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.crash();
    stage.settle();
    stage.world.log.clear();
    stage.pod("p2", "out", "10.0.0.2");
    stage.settle();
    assert_eq!(stage.world.log, ["bind 10.0.0.2"]);
    assert_eq!(stage.lines(), stage.truth());
}

#[test]
fn a_pod_that_gets_another_address_leaves_nothing_at_the_former_one() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.settle();
    stage.pod("p1", "out", "10.0.0.2");
    stage.settle();
    assert_eq!(
        stage.lines(),
        ["egress/out", "10.0.0.2 egress/out @192.0.2.1"]
    );
    assert_eq!(stage.requests("remove"), 0, "its gateway stays");
}

#[test]
fn a_pod_with_two_addresses_is_held_until_both_are_bound_to_nothing() {
    let mut stage = Stage::new();
    stage.pod("p1", "out", "10.0.0.1");
    stage.pod("p2", "out", "2001:db8::1");
    stage.pod("p3", "out", "10.0.0.3");
    stage.settle();
    // Both addresses are those of one pod, of which a process before this one told.
    stage.pods.remove("p1");
    stage.pods.remove("p2");
    stage.crash();
    stage.settle();
    let both = EndpointsKey::Pod("both".into());
    let addresses = [address("10.0.0.1"), address("2001:db8::1")];
    for (at, ip) in addresses.iter().enumerate() {
        stage.pod(&format!("q{at}"), "out", &ip.to_string());
    }
    stage.settle();
    for at in 0..addresses.len() {
        let key = EndpointsKey::Pod(format!("q{at}").as_str().into());
        stage.pods.remove(&format!("q{at}"));
        stage.machine.set_endpoints(&key, None);
    }
    stage.world.poison.insert(addresses[1]);
    stage.machine.release(&both, &"out".into(), &addresses);
    stage.settle();
    assert!(!stage.released.contains(&both), "one of them is bound");
    stage.world.poison.clear();
    stage.pass(Duration::from_mins(2));
    assert!(stage.released.contains(&both));
    assert_eq!(stage.lines(), stage.truth());
}

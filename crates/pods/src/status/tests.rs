//! Statuses of pods, as `kubectl` would show them.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("it is a time")
}

fn pod(more: &str) -> Pod {
    let text = format!(
        "{{metadata: {{name: web-0, uid: u}}, spec: {{containers: [{{name: a, image: i}}, {{name: b}}]{more}}}}}"
    );
    serde_saphyr::from_str(&text).expect("a fixture is a pod")
}

fn running(second: i64, is_ready: bool) -> ContainerFacts {
    ContainerFacts {
        state: ContainerPhase::Running {
            since: at(second),
            pid: 7,
        },
        last: None,
        restarts: 0,
        is_started: true,
        is_ready,
    }
}

/// What is told of each condition, as `Type=Status since reason`.
fn conditions(pod: &Pod) -> Vec<String> {
    let all = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let told = all.map(|one| {
        let since = one
            .last_transition_time
            .as_ref()
            .map_or(0, |time| time.0.as_second());
        let reason = one.reason.as_deref().unwrap_or("-");
        format!("{}={} {since} {reason}", one.type_, one.status)
    });
    told.collect()
}

/// Writes what is known into the status; whether there was anything to write.
fn write(pod: &mut Pod, facts: &PodFacts, second: i64) -> bool {
    let Some(patch) = patch(pod, facts, at(second)) else {
        return false;
    };
    let status = serde_json::from_value(patch["status"].clone()).expect("it is a status");
    pod.status = Some(status);
    true
}

#[test]
fn a_pod_is_ready_when_all_containers_are_and_says_since_when() {
    let mut pod = pod("");
    let mut facts = PodFacts::of(&pod);
    facts.address = Some(Ipv4Addr::new(127, 64, 0, 5));
    assert!(write(&mut pod, &facts, 1));
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    assert_eq!(phase(&pod).as_deref(), Some("Pending"));
    facts.containers = vec![running(2, true), running(2, false)];
    assert!(write(&mut pod, &facts, 2));
    assert_eq!(phase(&pod).as_deref(), Some("Running"));
    let told = conditions(&pod);
    let wanted = [
        "Initialized=True 1 -",
        "Ready=False 1 ContainersNotReady",
        "ContainersReady=False 1 ContainersNotReady",
        "PodScheduled=True 1 -",
    ];
    assert_eq!(told, wanted);
    assert!(!write(&mut pod, &facts, 3), "nothing changed");
    facts.containers[1].is_ready = true;
    assert!(write(&mut pod, &facts, 4));
    assert_eq!(conditions(&pod)[1], "Ready=True 4 -");
}

#[test]
fn a_crash_is_told_with_its_signal() {
    let mut pod = pod("");
    let mut facts = PodFacts::of(&pod);
    facts.containers = vec![running(2, true), running(2, true)];
    facts.containers[0] = ContainerFacts {
        state: ContainerPhase::Waiting {
            reason: "CrashLoopBackOff",
            message: "back-off".to_owned(),
        },
        last: Some(ContainerEnd {
            code: 137,
            signal: Some(9),
            message: None,
            started: Some(at(2)),
            finished: Some(at(3)),
        }),
        restarts: 1,
        is_started: false,
        is_ready: false,
    };
    assert!(write(&mut pod, &facts, 3));
    let status = pod.status.clone().unwrap_or_default();
    let told = &status.container_statuses.unwrap_or_default()[0];
    let last = told
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let last = last.map(|end| (end.exit_code, end.signal, end.reason.as_deref()));
    assert_eq!(last, Some((137, Some(9), Some("Error"))));
    assert_eq!(told.restart_count, 1);
    assert_eq!(status.phase.as_deref(), Some("Running"), "one of them runs");
}

#[test]
fn restarts_are_counted_on_over_a_restart_of_ours() {
    let mut pod = pod("");
    let mut facts = PodFacts::of(&pod);
    facts.containers = vec![running(2, true), running(2, true)];
    facts.containers[0].restarts = 3;
    write(&mut pod, &facts, 3);
    let again = PodFacts::of(&pod);
    assert_eq!(again.containers[0].restarts, 4);
    assert_eq!(
        again.containers[0].last.as_ref().map(|end| end.code),
        Some(255)
    );
}

#[test]
fn a_readiness_gate_holds_readiness_back() {
    let mut pod = pod(", readinessGates: [{conditionType: served}]");
    let mut facts = PodFacts::of(&pod);
    facts.containers = vec![running(2, true), running(2, true)];
    write(&mut pod, &facts, 1);
    let told = conditions(&pod);
    assert_eq!(told[1], "Ready=False 1 ReadinessGatesNotReady");
    assert_eq!(told[2], "ContainersReady=True 1 -");
    let all = pod
        .status
        .as_mut()
        .and_then(|status| status.conditions.as_mut());
    all.expect("they were written").push(PodCondition {
        type_: "served".to_owned(),
        status: "True".to_owned(),
        ..PodCondition::default()
    });
    write(&mut pod, &facts, 5);
    assert_eq!(conditions(&pod)[1], "Ready=True 5 -");
}

#[test]
fn a_pod_that_is_not_for_this_node_says_so_and_nothing_else() {
    let mut pod = pod("");
    let facts = PodFacts {
        unschedulable: Some("0/1 nodes are available".to_owned()),
        ..PodFacts::of(&pod)
    };
    write(&mut pod, &facts, 1);
    assert_eq!(conditions(&pod), ["PodScheduled=False 1 Unschedulable"]);
}

#[test]
fn containers_wait_for_those_that_prepare() {
    let mut pod = pod(", initContainers: [{name: prepare}]");
    let mut facts = PodFacts::of(&pod);
    facts.init[0] = running(1, false);
    write(&mut pod, &facts, 1);
    assert_eq!(
        conditions(&pod)[0],
        "Initialized=False 1 ContainersNotInitialized"
    );
}

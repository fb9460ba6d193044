//! What is said of an instance: its pods, its configuration and what it copies.

use bindery_core::Reason;

use super::conditions::{Rollup, Said, encompassing};

/// A pod as far as conditions speak of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodView {
    /// Its number in the `StatefulSet`.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Whether Kubernetes calls it ready.
    pub is_ready: bool,
    /// Why it is on no node.
    pub unscheduled: Option<String>,
    /// The container that ends again and again, and how it ended last.
    pub crashing: Option<String>,
    /// What it waits for before it runs.
    pub waiting: Option<String>,
    /// What its sidecar says.
    pub sidecar: SidecarView,
}

/// What became of the last question to a sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SidecarView {
    /// It was not asked yet, or there is nobody to ask.
    #[default]
    Unasked,
    /// It answers.
    Answers,
    /// It does not, or not as it should: the seed's reason, and what failed, after `Pod NAME`.
    Fails(Reason, String),
}

/// What conditions of an instance are made of, beside its pods.
#[derive(Clone, Debug, Default)]
pub struct InstanceFacts {
    /// How many pods it is to have.
    pub replicas: usize,
    /// What named says against the configuration that is declared.
    pub config_problem: Option<String>,
    /// Whether it has not become ready for longer than it may take.
    pub is_overdue: bool,
    /// Of a secondary, whether its zones are those of the primaries.
    pub copies: Option<Said>,
    /// How the replacement of its key stands.
    pub keys: Option<Said>,
    /// What it asks for and does not get.
    pub not_acted_on: Vec<String>,
}

/// The conditions of an instance.
#[must_use]
pub fn instance_rollup(facts: &InstanceFacts, pods: &[PodView]) -> Rollup {
    let children: Vec<Said> = (0..facts.replicas)
        .map(|ordinal| {
            let pod = pods.iter().find(|pod| pod.ordinal == ordinal);
            pod.map_or_else(|| absent(ordinal), said_of)
        })
        .collect();
    let ready = children.iter().filter(|one| one.holds).count();
    let mut whole = encompassing(ready, facts.replicas, "pods");
    if ready == 0 {
        // Where all fail for one reason, that is the reason.
        let mut reasons = children.iter().map(|one| one.reason);
        if let Some(first) = reasons.next()
            && first != Reason::Progressing
            && reasons.all(|one| one == first)
        {
            whole.reason = first;
        }
    }
    let configuration = match &facts.config_problem {
        Some(problem) => {
            whole = Said::new(
                "Ready",
                false,
                Reason::ConfigurationInvalid,
                problem.clone(),
            );
            Said::new(
                "Configuration",
                false,
                Reason::ConfigurationInvalid,
                problem.clone(),
            )
        }
        None => Said::new(
            "Configuration",
            true,
            Reason::ConfigurationValid,
            "named-checkconf accepts the configuration",
        ),
    };
    let available = Said::new(
        "Available",
        ready > 0,
        if ready > 0 {
            Reason::MinimumReplicasAvailable
        } else {
            whole.reason
        },
        if ready > 0 {
            format!("{ready} of {} pods answer", facts.replicas)
        } else {
            whole.message.clone()
        },
    );
    let progressing = progress(facts, ready);
    let mut conditions = vec![whole, available, progressing, configuration];
    conditions.extend(facts.copies.clone());
    conditions.extend(facts.keys.clone());
    conditions.extend(degraded(&facts.not_acted_on));
    conditions.extend(children);
    Rollup {
        conditions,
        ready,
        total: facts.replicas,
    }
}

/// That fields have no effect, if there are such ([decision 20](../../../../docs/adr/0020-what-is-not-acted-on-says-so.md)).
pub(super) fn degraded(not_acted_on: &[String]) -> Option<Said> {
    let message = not_acted_on.join("; ");
    (!not_acted_on.is_empty()).then(|| Said::new("Degraded", true, Reason::Unsupported, message))
}

fn progress(facts: &InstanceFacts, ready: usize) -> Said {
    let missing = facts.replicas - ready;
    let (holds, reason, message) = if missing == 0 {
        (false, Reason::Ready, "Nothing is under way".to_owned())
    } else if facts.is_overdue {
        let message = format!("{missing} pods have not become ready in time");
        (false, Reason::ProgressDeadlineExceeded, message)
    } else {
        let message = format!("{missing} pods are awaited");
        (true, Reason::Progressing, message)
    };
    Said::new("Progressing", holds, reason, message)
}

fn kind(ordinal: usize) -> String {
    format!("Pod-{ordinal}")
}

fn absent(ordinal: usize) -> Said {
    let message = format!("Pod {ordinal} is not there yet");
    Said::new(kind(ordinal), false, Reason::Progressing, message)
}

fn said_of(pod: &PodView) -> Said {
    let name = &pod.name;
    let say = |holds, reason, words: String| {
        Said::new(
            kind(pod.ordinal),
            holds,
            reason,
            format!("Pod {name} {words}"),
        )
    };
    if let Some(why) = &pod.unscheduled {
        return say(
            false,
            Reason::PodsPending,
            format!("is not scheduled: {why}"),
        );
    }
    if let Some(how) = &pod.crashing {
        return say(false, Reason::PodsCrashing, format!("crashes: {how}"));
    }
    if let Some(what) = &pod.waiting {
        return say(false, Reason::PodsPending, format!("waits: {what}"));
    }
    match &pod.sidecar {
        SidecarView::Fails(reason, words) => say(false, *reason, words.clone()),
        _ if pod.is_ready => say(true, Reason::Ready, "is ready".to_owned()),
        SidecarView::Unasked | SidecarView::Answers => {
            say(false, Reason::Progressing, "is progressing".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ordinal: usize, edit: impl FnOnce(&mut PodView)) -> PodView {
        let mut pod = PodView {
            ordinal,
            name: format!("dns-{ordinal}"),
            is_ready: true,
            sidecar: SidecarView::Answers,
            ..PodView::default()
        };
        edit(&mut pod);
        pod
    }

    fn check(replicas: usize, pods: &[PodView]) -> Vec<String> {
        let facts = InstanceFacts {
            replicas,
            ..InstanceFacts::default()
        };
        let rollup = instance_rollup(&facts, pods);
        let shown = rollup
            .conditions
            .iter()
            .filter(|one| one.kind == "Ready" || one.kind.starts_with("Pod-"));
        shown
            .map(|one| format!("{} {} {} {}", one.kind, one.holds, one.reason, one.message))
            .collect()
    }

    #[test]
    fn all_pods_ready() {
        assert_eq!(
            check(2, &[pod(0, |_| {}), pod(1, |_| {})]),
            [
                "Ready true AllReady All 2 pods are ready",
                "Pod-0 true Ready Pod dns-0 is ready",
                "Pod-1 true Ready Pod dns-1 is ready",
            ]
        );
    }

    #[test]
    fn one_of_two_pods_says_its_own_failure() {
        let unreachable = |pod: &mut PodView| {
            pod.is_ready = false;
            let words = "cannot connect to Bindcar API".to_owned();
            pod.sidecar = SidecarView::Fails(Reason::BindcarUnreachable, words);
        };
        assert_eq!(
            check(2, &[pod(0, |_| {}), pod(1, unreachable)]),
            [
                "Ready false PartiallyReady 1/2 pods are ready",
                "Pod-0 true Ready Pod dns-0 is ready",
                "Pod-1 false BindcarUnreachable Pod dns-1 cannot connect to Bindcar API",
            ]
        );
        assert_eq!(
            check(1, &[pod(0, unreachable)])[0],
            "Ready false BindcarUnreachable No pods are ready"
        );
    }

    #[test]
    fn pods_that_are_not_scheduled_or_crash_say_so() {
        let pending = |pod: &mut PodView| pod.unscheduled = Some("no node fits".into());
        assert_eq!(
            check(1, &[pod(0, pending)]),
            [
                "Ready false PodsPending No pods are ready",
                "Pod-0 false PodsPending Pod dns-0 is not scheduled: no node fits",
            ]
        );
        let crashing = |pod: &mut PodView| pod.crashing = Some("bind9 ended with code 1".into());
        assert_eq!(
            check(1, &[pod(0, crashing)])[1],
            "Pod-0 false PodsCrashing Pod dns-0 crashes: bind9 ended with code 1"
        );
    }

    #[test]
    fn numbers_are_ordinals_whatever_the_order_of_the_pods() {
        let conditions = check(3, &[pod(2, |_| {}), pod(0, |_| {})]);
        assert_eq!(conditions[1], "Pod-0 true Ready Pod dns-0 is ready");
        assert_eq!(
            conditions[2],
            "Pod-1 false Progressing Pod 1 is not there yet"
        );
        assert_eq!(conditions[3], "Pod-2 true Ready Pod dns-2 is ready");
    }

    #[test]
    fn a_configuration_that_does_not_check_is_told_in_the_words_of_named() {
        let facts = InstanceFacts {
            replicas: 1,
            config_problem: Some("named.conf:3: unknown option 'x'".into()),
            ..InstanceFacts::default()
        };
        let rollup = instance_rollup(&facts, &[pod(0, |_| {})]);
        assert_eq!(rollup.conditions[0].reason, Reason::ConfigurationInvalid);
        assert_eq!(
            rollup.conditions[0].message,
            "named.conf:3: unknown option 'x'"
        );
        assert!(!rollup.conditions[0].holds);
        assert_eq!(rollup.ready, 1, "what runs goes on running");
    }

    #[test]
    fn what_does_not_come_in_time_is_told() {
        let facts = InstanceFacts {
            replicas: 1,
            is_overdue: true,
            ..InstanceFacts::default()
        };
        let rollup = instance_rollup(&facts, &[]);
        let progressing = &rollup.conditions[2];
        assert_eq!(progressing.reason, Reason::ProgressDeadlineExceeded);
        assert!(!progressing.holds);
    }

    #[test]
    fn a_field_without_effect_is_told_and_stops_nothing() {
        let facts = InstanceFacts {
            replicas: 1,
            not_acted_on: vec!["primaryServers: no".into(), "a: b".into()],
            ..InstanceFacts::default()
        };
        let rollup = instance_rollup(&facts, &[pod(0, |_| {})]);
        assert!(rollup.conditions[0].holds, "it is ready");
        let said = rollup.conditions.iter().find(|one| one.kind == "Degraded");
        let said = said.expect("it is told");
        assert_eq!((said.holds, said.reason), (true, Reason::Unsupported));
        assert_eq!(said.message, "primaryServers: no; a: b");
    }

    #[test]
    fn an_instance_of_no_pods_says_so() {
        assert_eq!(
            check(0, &[]),
            ["Ready false NoChildren No pods are declared"]
        );
    }
}

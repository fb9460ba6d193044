//! What of a Service Azure's Service Gateway cannot do.

use std::collections::BTreeMap;

use bindery_core::balancers::{BalancerSpec, Front, FrontPort, FrontProtocol};
use bindery_core::{Problem, Reason, Shown};

/// The annotation by which a Service asks for an address inside its network.
const INTERNAL: &str = "service.beta.kubernetes.io/azure-load-balancer-internal";
/// The annotation that has minutes after which a quiet connection is closed.
const IDLE: &str = "service.beta.kubernetes.io/azure-load-balancer-tcp-idle-timeout";
/// The minutes where nobody says.
const IDLE_DEFAULT: u16 = 4;
/// The minutes that Azure takes.
const IDLE_RANGE: std::ops::RangeInclusive<u16> = 4..=30;
/// The highest port of a rule's front.
const PORT_MAX: u16 = 65_534;

/// What of a spec cannot be done, each thing once.
pub(crate) fn problems(spec: &BalancerSpec) -> Vec<Problem> {
    match spec {
        BalancerSpec::Inbound(front) => front_problems(front),
        BalancerSpec::Egress(_) => Vec::new(),
    }
}

/// After how many minutes a quiet connection of a front is closed; `None` where what its author says is wrong.
pub(crate) fn idle_minutes(front: &Front) -> Option<u16> {
    match front.options.get(IDLE) {
        None => Some(IDLE_DEFAULT),
        Some(text) => {
            let minutes = text.trim().parse::<u16>().ok();
            minutes.filter(|minutes| IDLE_RANGE.contains(minutes))
        }
    }
}

fn front_problems(front: &Front) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |reason, field: &str, message: String| {
        problems.push(Problem {
            field: field.to_owned(),
            reason,
            message,
        });
    };
    let internal = front.options.get(INTERNAL);
    if internal.is_some_and(|text| text.trim().eq_ignore_ascii_case("true")) {
        let text = "a Service Gateway has public addresses only: take the annotation off";
        let field = annotation(INTERNAL);
        add(Reason::UnsupportedInternalLoadBalancer, &field, text.into());
    }
    if front.affinity.is_some() {
        let text = "a Service Gateway does not keep a client at its endpoint: use None";
        let field = "spec.sessionAffinity";
        add(Reason::UnsupportedSessionAffinity, field, text.into());
    }
    if !front.requested.is_empty() {
        let text = "Azure chooses the address: take it out";
        let field = "spec.loadBalancerIP";
        add(Reason::UnsupportedLoadBalancerIP, field, text.into());
    }
    if front.families.len() > 1 {
        let text = "a Service Gateway has one version of IP for each Service: name one, or make two Services";
        let field = "spec.ipFamilies";
        add(Reason::UnsupportedDualStack, field, text.into());
    }
    if !front.source_ranges.is_empty() {
        let text =
            "a Service Gateway keeps nobody out: use a network policy, and take the ranges out";
        let field = "spec.loadBalancerSourceRanges";
        add(Reason::UnsupportedSourceRanges, field, text.into());
    }
    if idle_minutes(front).is_none() {
        let said = front.options.get(IDLE).map_or("", |text| text);
        let text = format!("{} is no number of minutes from 4 to 30", Shown(said));
        add(Reason::InvalidIdleTimeout, &annotation(IDLE), text);
    }
    port_problems(&front.ports, &mut add);
    problems
}

fn port_problems(ports: &[FrontPort], add: &mut impl FnMut(Reason, &str, String)) {
    let mut backends: BTreeMap<(FrontProtocol, u16), u16> = BTreeMap::new();
    for port in ports {
        let number = port.port;
        if number > PORT_MAX {
            let text = format!("Azure has no rule for port {number}: 1 to {PORT_MAX} can be used");
            add(Reason::UnsupportedPort, "spec.ports", text);
        }
        let Some(target) = port.target else {
            let text = format!("port {number} leads to a named port: give its number");
            let field = "spec.ports.targetPort";
            add(Reason::UnsupportedNamedTargetPort, field, text);
            continue;
        };
        if let Some(other) = backends.insert((port.protocol, target), number) {
            let protocol = port.protocol.as_str();
            let text = format!(
                "ports {other} and {number} both lead to port {target} ({protocol}) of the endpoints: let one of \
                 them go"
            );
            let field = "spec.ports.targetPort";
            add(Reason::UnsupportedBackendPortCollision, field, text);
        }
    }
}

fn annotation(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bindery_core::balancers::{EgressFront, Family, SourceRange, TrafficPolicy};

    use super::*;

    fn front() -> Front {
        Front {
            namespace: "default".into(),
            name: "web".into(),
            labels: BTreeMap::new(),
            ports: vec![port(80, Some(8080))],
            families: vec![Family::V4],
            affinity: None,
            source_ranges: Vec::new(),
            traffic_policy: TrafficPolicy::Local,
            requested: Vec::new(),
            options: BTreeMap::new(),
        }
    }

    fn port(port: u16, target: Option<u16>) -> FrontPort {
        FrontPort {
            protocol: FrontProtocol::Tcp,
            port,
            name: "".into(),
            target,
            node_port: None,
        }
    }

    fn reasons(change: impl FnOnce(&mut Front)) -> Vec<Reason> {
        let mut front = front();
        change(&mut front);
        let found = problems(&BalancerSpec::Inbound(front));
        found.into_iter().map(|one| one.reason).collect()
    }

    fn option(name: &str, value: &str) -> Vec<Reason> {
        reasons(|front| {
            front.options.insert(name.into(), value.into());
        })
    }

    #[test]
    fn what_a_service_gateway_does_is_no_problem() {
        assert_eq!(reasons(|_| {}), []);
        assert_eq!(reasons(|front| front.families = vec![Family::V6]), []);
        assert_eq!(option(INTERNAL, "false"), []);
        assert_eq!(option(IDLE, "4"), []);
        assert_eq!(option(IDLE, " 30 "), []);
        let families = vec![Family::V4, Family::V6];
        let egress = BalancerSpec::Egress(EgressFront { families });
        assert_eq!(problems(&egress), []);
        let udp = FrontPort {
            protocol: FrontProtocol::Udp,
            ..port(80, Some(8080))
        };
        assert_eq!(reasons(|front| front.ports.push(udp)), []);
    }

    #[test]
    fn what_it_cannot_do_has_a_reason_of_its_own() {
        let check = |found: Vec<Reason>, wanted: Reason| assert_eq!(found, [wanted]);
        let internal = Reason::UnsupportedInternalLoadBalancer;
        check(option(INTERNAL, "true"), internal);
        check(option(INTERNAL, "TRUE"), internal);
        for bad in ["3", "31", "ten", "", "4.5"] {
            check(option(IDLE, bad), Reason::InvalidIdleTimeout);
        }
        let hours = Some(Duration::from_hours(3));
        let sticky = reasons(|front| front.affinity = hours);
        check(sticky, Reason::UnsupportedSessionAffinity);
        let asked = reasons(|front| front.requested = vec![[192, 0, 2, 1].into()]);
        check(asked, Reason::UnsupportedLoadBalancerIP);
        let both = reasons(|front| front.families.push(Family::V6));
        check(both, Reason::UnsupportedDualStack);
        let range = SourceRange::new([10, 0, 0, 0].into(), 8).expect("a network");
        let kept_out = reasons(|front| front.source_ranges = vec![range]);
        check(kept_out, Reason::UnsupportedSourceRanges);
        let named = reasons(|front| front.ports = vec![port(80, None)]);
        check(named, Reason::UnsupportedNamedTargetPort);
        let twice = reasons(|front| front.ports.push(port(81, Some(8080))));
        check(twice, Reason::UnsupportedBackendPortCollision);
        let high = reasons(|front| front.ports = vec![port(65_535, Some(1))]);
        check(high, Reason::UnsupportedPort);
        let several = reasons(|front| {
            front.affinity = hours;
            front.families.push(Family::V6);
        });
        assert_eq!(several.len(), 2);
    }
}

use std::sync::Arc;

use bindery_core::balancers::{
    BalancerSpec, EndpointState, Family, Front, FrontProtocol, TrafficPolicy, Whereabouts,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use serde_json::{Value, json};

use super::*;

fn class() -> BalancerClass {
    BalancerClass {
        name: Arc::from("bindery.dev/lb"),
        takes_unnamed: false,
    }
}

fn service(extra: &Value) -> Service {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"tier": "front"}},
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": "bindery.dev/lb",
            "ports": [{"port": 80, "name": "http"}],
        },
    });
    merge(&mut object, extra);
    serde_json::from_value(object).expect("a Service")
}

fn merge(base: &mut Value, extra: &Value) {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, extra) => *base = extra.clone(),
    }
}

fn wish(extra: &Value) -> ServiceWish {
    let view = service_view(&service(extra), &class()).expect("it has a UID");
    view.wish
}

/// What a Service that asks for a balancer asks for, and what is wrong with it.
fn asked(extra: &Value) -> (Option<Front>, Vec<ServiceProblem>) {
    let ServiceWish::Have(declaration, problems) = wish(extra) else {
        unreachable!("it asks for a balancer")
    };
    let front = declaration.spec.map(|spec| match spec {
        BalancerSpec::Inbound(front) => front,
        BalancerSpec::Egress(_) => unreachable!("it is a Service"),
    });
    (front, problems)
}

fn front(extra: &Value) -> Front {
    asked(extra).0.expect("nothing is wrong with it")
}

/// The reasons and fields of what is wrong.
fn problems(extra: &Value) -> Vec<(&'static str, String)> {
    let (front, problems) = asked(extra);
    assert_eq!(front.is_none(), !problems.is_empty());
    let each = problems.into_iter();
    each.map(|one| (one.reason, one.field)).collect()
}

#[test]
fn a_service_is_read_with_everything_that_it_says() {
    let front = front(&json!({
        "metadata": {"annotations": {
            "bindery.dev/address-pool": "public",
            "bindery.dev/load-balancer-ips": "203.0.113.5, 2001:db8::5",
            "other.example/x": "y",
        }},
        "spec": {
            "ports": [
                {"port": 443, "name": "https", "targetPort": "tls", "nodePort": 30443},
                {"port": 53, "name": "dns", "protocol": "UDP", "targetPort": 5353},
            ],
            "ipFamilies": ["IPv6", "IPv4"],
            "sessionAffinity": "ClientIP",
            "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["192.0.2.9/24", " 2001:db8::/32 "],
        },
    }));
    assert_eq!((&*front.namespace, &*front.name), ("shop", "web"));
    assert_eq!(front.labels["tier"], "front".into());
    let ports: Vec<_> = front
        .ports
        .iter()
        .map(|one| {
            (
                one.protocol,
                one.port,
                &*one.name,
                one.target,
                one.node_port,
            )
        })
        .collect();
    assert_eq!(
        ports,
        [
            (FrontProtocol::Tcp, 443, "https", None, Some(30443)),
            (FrontProtocol::Udp, 53, "dns", Some(5353), None),
        ]
    );
    assert_eq!(front.families, [Family::V6, Family::V4]);
    assert_eq!(front.affinity.map(|one| one.as_secs()), Some(10_800));
    assert_eq!(front.traffic_policy, TrafficPolicy::Local);
    let ranges: Vec<String> = front
        .source_ranges
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ranges, ["192.0.2.0/24", "2001:db8::/32"]);
    let requested: Vec<String> = front.requested.iter().map(ToString::to_string).collect();
    assert_eq!(requested, ["203.0.113.5", "2001:db8::5"]);
    let options: Vec<&str> = front.options.keys().map(|key| &**key).collect();
    assert_eq!(options, ["bindery.dev/address-pool"]);
}

#[test]
fn what_a_service_does_not_say_has_its_usual_value() {
    let usual = front(&json!({}));
    assert_eq!(usual.families, [Family::V4]);
    assert_eq!(usual.ports[0].target, Some(80));
    assert_eq!(
        (usual.affinity, usual.traffic_policy),
        (None, TrafficPolicy::Cluster)
    );
    assert!(usual.source_ranges.is_empty() && usual.requested.is_empty());
    let annotated = json!({"metadata": {"annotations": {
        "service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8,",
    }}});
    assert_eq!(front(&annotated).source_ranges.len(), 1);
    let asked = json!({"spec": {"loadBalancerIP": "203.0.113.9"}});
    assert_eq!(front(&asked).requested.len(), 1);
}

#[test]
fn each_mistake_of_a_service_has_its_reason_and_its_field() {
    let found = problems(&json!({"spec": {
        "ports": [
            {"port": 80, "protocol": "SCTP"},
            {"port": 0, "name": "none"},
        ],
        "ipFamilies": ["IPv5"],
        "loadBalancerSourceRanges": ["10.0.0.0", "10.0.0.0/33"],
        "loadBalancerIP": "here",
    }}));
    let found: Vec<(&str, &str)> = found.iter().map(|(one, at)| (*one, at.as_str())).collect();
    assert_eq!(
        found,
        [
            ("UnsupportedProtocol", "spec.ports[0].protocol"),
            ("InvalidPort", "spec.ports[1].port"),
            ("InvalidFamily", "spec.ipFamilies[0]"),
            ("InvalidSourceRange", "spec.loadBalancerSourceRanges[0]"),
            ("InvalidSourceRange", "spec.loadBalancerSourceRanges[1]"),
            ("InvalidLoadBalancerIP", "spec.loadBalancerIP"),
        ]
    );
    let found = problems(&json!({"spec": {"ports": []}}));
    assert_eq!(found, [("NoPorts", "spec.ports".to_owned())]);
}

#[test]
fn only_services_of_our_class_are_ours() {
    let other = json!({"spec": {"loadBalancerClass": "example.com/other"}});
    assert_eq!(wish(&other), ServiceWish::Nothing);
    assert_eq!(
        wish(&json!({"spec": {"type": "ClusterIP"}})),
        ServiceWish::Nothing
    );
    let unnamed = service(&json!({"spec": {"loadBalancerClass": null}}));
    let view = service_view(&unnamed, &class()).expect("it has a UID");
    assert_eq!(view.wish, ServiceWish::Nothing);
    let alone = BalancerClass {
        takes_unnamed: true,
        ..class()
    };
    let view = service_view(&unnamed, &alone).expect("it has a UID");
    assert!(matches!(view.wish, ServiceWish::Have(..)));
    let mut nobody = service(&json!({}));
    nobody.metadata.uid = None;
    assert_eq!(service_view(&nobody, &class()), None);
}

#[test]
fn what_was_ours_leaves_when_it_goes_or_becomes_something_else() {
    let kept = json!(["bindery.dev/load-balancer"]);
    for extra in [
        json!({"metadata": {"finalizers": kept}, "spec": {"type": "ClusterIP"}}),
        json!({"metadata": {"finalizers": kept}, "spec": {"loadBalancerClass": "other"}}),
        json!({"metadata": {"finalizers": kept, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        // However broken it is.
        json!({"metadata": {"finalizers": kept, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"ports": []}}),
        // Whoever took the finalizer away.
        json!({"metadata": {"annotations": {"bindery.dev/names-published": "60"}},
            "spec": {"type": "ClusterIP"}}),
        json!({"spec": {"type": "ClusterIP"}, "status": {"conditions": [{"type": "Programmed",
            "status": "True", "reason": "Programmed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
    ] {
        assert_eq!(wish(&extra), ServiceWish::Leave, "{extra}");
    }
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(wish(&gone), ServiceWish::Nothing, "it is not ours to hold");
}

fn slice(extra: &Value) -> EndpointSlice {
    let mut object = json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [],
    });
    merge(&mut object, extra);
    serde_json::from_value(object).expect("a slice")
}

#[test]
fn endpoints_count_as_they_do_for_kube_proxy() {
    let endpoint = |address: &str, conditions: Value| json!({"addresses": [address], "conditions": conditions, "nodeName": "n1"});
    let group = slice_group(&slice(&json!({"endpoints": [
        {"addresses": ["10.0.0.1"]},
        endpoint("10.0.0.2", json!({"ready": true})),
        endpoint("10.0.0.3", json!({"ready": false})),
        endpoint("10.0.0.4", json!({"ready": false, "serving": true, "terminating": true})),
        endpoint("10.0.0.5", json!({"ready": false, "serving": false, "terminating": true})),
        endpoint("10.0.0.6", json!({"ready": false, "serving": true})),
        endpoint("not an address", json!({})),
    ]})))
    .expect("it has a Service");
    let found: Vec<(String, EndpointState)> = group
        .endpoints
        .iter()
        .map(|one| (one.address.to_string(), one.state))
        .collect();
    let ready = EndpointState::Ready;
    assert_eq!(
        found,
        [
            ("10.0.0.1".to_owned(), ready),
            ("10.0.0.2".to_owned(), ready),
            ("10.0.0.4".to_owned(), EndpointState::Draining),
        ]
    );
    assert_eq!(group.endpoints[0].place, Whereabouts::Unknown);
    assert_eq!(group.endpoints[1].place, Whereabouts::Node("n1".into()));
}

#[test]
fn a_slice_without_a_service_or_with_names_tells_nothing() {
    assert_eq!(slice_group(&slice(&json!({"addressType": "FQDN"}))), None);
    let nobody = json!({"metadata": {"labels": null}});
    assert_eq!(slice_group(&slice(&nobody)), None);
    let ports = json!({"ports": [
        {"name": "a", "port": 1, "protocol": "SCTP"}, {"name": "b"}, {"name": "c", "port": 53, "protocol": "UDP"},
    ]});
    let group = slice_group(&slice(&ports)).expect("it has a Service");
    let names: Vec<&str> = group.ports.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["c"]);
}

#[test]
fn a_node_has_one_address_of_each_family() {
    let node: Node = serde_json::from_value(json!({"status": {"addresses": [
        {"type": "Hostname", "address": "n1"},
        {"type": "ExternalIP", "address": "203.0.113.1"},
        {"type": "InternalIP", "address": "192.0.2.9"},
        {"type": "InternalIP", "address": "192.0.2.10"},
        {"type": "InternalIP", "address": "2001:db8::1"},
    ]}}))
    .expect("a node");
    let found: Vec<String> = node_addresses(&node)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, ["192.0.2.9", "2001:db8::1"]);
    assert_eq!(
        node_addresses(&Node::default()),
        Vec::<std::net::IpAddr>::new()
    );
}

fn pod(extra: &Value) -> Option<EgressPod> {
    let mut object = json!({
        "metadata": {"name": "p", "uid": "u", "labels": {"bindery.dev/egress-gateway": "out"}},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}],
            "hostIPs": [{"ip": "192.0.2.1"}],
        },
    });
    merge(&mut object, extra);
    let pod: Pod = serde_json::from_value(object).expect("a pod");
    egress_pod(&pod)
}

#[test]
fn a_pod_asks_for_a_gateway_by_its_label() {
    let seen = pod(&json!({})).expect("it has the label");
    let group = seen.group.expect("it lives");
    assert_eq!((&*seen.label, seen.is_kept), ("out", false));
    let places: Vec<&Whereabouts> = group.endpoints.iter().map(|one| &one.place).collect();
    let host = "192.0.2.1".parse().expect("an address");
    assert_eq!(places, [&Whereabouts::At(host), &Whereabouts::Unknown]);
    for gone in [
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"status": {"phase": "Succeeded"}}),
        json!({"status": {"podIPs": []}}),
    ] {
        assert_eq!(pod(&gone).expect("it has the label").group, None, "{gone}");
    }
    assert_eq!(pod(&json!({"metadata": {"labels": null}})), None);
    let kept = json!({"metadata": {"labels": null, "finalizers": ["bindery.dev/egress"]}});
    let kept = pod(&kept).expect("our finalizer keeps it");
    assert!(kept.is_kept && kept.group.is_none());
}

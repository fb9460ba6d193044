use serde::de::DeserializeOwned;

use super::*;
use crate::ask::explain::lines;
use crate::ask::fixture::{TOWN, inventory};
use crate::live::Paint;

const SERVICE: &str = "\
metadata:
  name: web
  namespace: default
  uid: u1
  finalizers: [bindery.dev/load-balancer]
  annotations:
    external-dns.alpha.kubernetes.io/hostname: web.example.com
    external-dns.alpha.kubernetes.io/ttl: '60'
    bindery.dev/names-published: '60'
spec:
  type: LoadBalancer
  ports: [{name: http, port: 8080}]
status:
  loadBalancer: {ingress: [{ip: 192.0.2.7}]}
  conditions:
  - {type: Programmed, status: 'True', reason: Programmed, message: traffic is forwarded,
     lastTransitionTime: '2026-01-01T00:00:00Z'}
";

const SLICE: &str = "\
metadata: {name: web, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- addresses: [10.0.0.1]
- {addresses: [10.0.0.2], conditions: {ready: false}}
";

const POOL: &str = "\
metadata: {name: lab}
spec: {addresses: [192.0.2.0/28]}
status: {used: 1, free: 13}
";

const NAMES: &str = "---
kind: DNSEndpoint
metadata:
  name: service-web
  finalizers: [bindery.dev/dns]
  annotations: {bindery.dev/published: web.example.com. 60 IN A 192.0.2.7}
spec: {endpoints: [{dnsName: web.example.com, recordType: A, recordTTL: 60, targets: [192.0.2.7]}]}
status:
  conditions:
  - {type: Accepted, status: 'True', reason: Accepted, message: fine, observedGeneration: 1}
  - {type: Programmed, status: 'True', reason: Programmed, message: served, observedGeneration: 1}
";

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).expect("a fixture is an object")
}

/// The way of a Service, line by line.
fn check(service: &str, slice: &str, pools: &[&str], town: &str) -> Vec<String> {
    let slices = (!slice.is_empty()).then(|| read(slice));
    let way = service_trace(Surroundings {
        service: BalancedService(read(service)),
        slices: Some(slices.into_iter().collect()),
        pools: Some(pools.iter().copied().map(read).collect()),
        inventory: inventory(town),
    });
    lines(&way, Paint::Plain)
}

#[test]
fn a_service_goes_all_the_way_from_its_endpoints_to_its_name() {
    let town = format!("{TOWN}{NAMES}");
    assert_eq!(
        check(SERVICE, SLICE, &[POOL], &town),
        [
            "service/default/web",
            "✓  service     type LoadBalancer, no class, kept by bindery.dev/load-balancer",
            "✓  validation  ports 8080/TCP http",
            "✓  address     192.0.2.7 of addresspool/lab",
            "✓  balancer    Programmed: traffic is forwarded",
            "✓  endpoints   endpointslice/web: 1 ready, 1 not ready (10.0.0.1)",
            "✓  name        web.example.com, TTL 60, in dnsendpoint/default/service-web",
            "✓  dns         web.example.com. 60 IN A 192.0.2.7",
            "               127.0.0.1:5300 primary serial 7 ready",
            "it is served as declared",
        ]
    );
}

/// What is said where a way stops, and the last line.
fn stop(lines: &[String]) -> (String, &str) {
    let first = lines.iter().position(|line| line.starts_with('✗'));
    let first = first.expect("it stops somewhere");
    let rest = lines
        .iter()
        .skip(first)
        .take_while(|line| !line.starts_with('-'));
    let said: Vec<&str> = rest.map(String::as_str).collect();
    (said.join("\n"), lines.last().map_or("", String::as_str))
}

#[test]
fn a_service_of_somebody_else_or_of_nobody_says_how_to_become_ours() {
    let nobody = SERVICE.replace("[bindery.dev/load-balancer]", "[]");
    let way = check(&nobody, SLICE, &[POOL], TOWN);
    let (said, end) = stop(&way);
    assert!(
        said.contains("`loadBalancerClass: bindery.dev/lb`"),
        "{said}"
    );
    assert_eq!(end, "it stops at: service");
    let other = nobody.replace(
        "type: LoadBalancer",
        "type: LoadBalancer\n  loadBalancerClass: a/b",
    );
    let (said, _) = stop(&check(&other, SLICE, &[POOL], TOWN));
    assert!(said.contains("the class a/b is not Bindery's"), "{said}");
    let inner = nobody.replace("type: LoadBalancer", "type: ClusterIP");
    let (said, _) = stop(&check(&inner, SLICE, &[POOL], TOWN));
    assert!(said.contains("spec.type: LoadBalancer"), "{said}");
}

#[test]
fn each_mistake_of_its_author_stops_it_at_validation() {
    let service = SERVICE.replace(
        "type: LoadBalancer",
        "type: LoadBalancer\n  loadBalancerSourceRanges: [nowhere]",
    );
    let way = check(&service, SLICE, &[POOL], TOWN);
    let (said, end) = stop(&way);
    assert!(
        said.contains("InvalidSourceRange: spec.loadBalancerSourceRanges[0]"),
        "{said}"
    );
    assert_eq!(end, "it stops at: validation");
    // What only the provider knows to be wrong is in the condition.
    let service = SERVICE.replace(
        "status: 'True', reason: Programmed, message: traffic is forwarded",
        "status: 'False', reason: Invalid, message: it takes no SCTP",
    );
    let way = check(&service, SLICE, &[POOL], TOWN);
    let (said, end) = stop(&way);
    assert!(said.contains("Invalid: it takes no SCTP"), "{said}");
    assert_eq!(end, "it stops at: validation");
}

#[test]
fn a_service_without_an_address_is_told_of_the_pools() {
    let service = SERVICE
        .replace("{ingress: [{ip: 192.0.2.7}]}", "{}")
        .replace(
            "status: 'True', reason: Programmed, message: traffic is forwarded",
            "status: 'False', reason: Failed, message: no address is free",
        );
    let way = check(&service, SLICE, &[POOL], TOWN);
    let (said, end) = stop(&way);
    assert!(said.contains("Failed: no address is free"), "{said}");
    assert!(
        said.contains("addresspool/lab: 192.0.2.0/28; 1 used, 13 free"),
        "{said}"
    );
    assert_eq!(end, "it stops at: address");
    let (said, _) = stop(&check(&service, SLICE, &[], TOWN));
    assert!(
        said.contains("there is no AddressPool: apply one"),
        "{said}"
    );
}

#[test]
fn endpoints_that_get_no_traffic_say_why() {
    let idle = SERVICE.replace("traffic is forwarded", "no endpoint is ready");
    let way = check(&idle, "", &[POOL], TOWN);
    let (said, end) = stop(&way);
    assert!(said.contains("kubernetes.io/service-name: web"), "{said}");
    assert_eq!(end, "it stops at: endpoints");
    let misnamed = SLICE.replace("name: http", "name: https");
    let (said, _) = stop(&check(&idle, &misnamed, &[POOL], TOWN));
    assert!(
        said.contains("(https TCP)") && said.contains("(http TCP): name them alike"),
        "{said}"
    );
    let (said, _) = stop(&check(&idle, SLICE, &[POOL], TOWN));
    assert!(
        said.contains("1 ready, and none is bound to the balancer yet"),
        "{said}"
    );
    // One that the provider refuses does not hold up the others.
    let partly = SERVICE.replace(
        "reason: Programmed, message: traffic is forwarded",
        "reason: PartiallyProgrammed, message: 'traffic is forwarded; 1 endpoints are refused, such as 10.0.0.9'",
    );
    let way = check(&partly, SLICE, &[POOL], TOWN);
    assert!(
        way.iter().any(|line| line.starts_with("!  endpoints")),
        "{way:?}"
    );
    assert!(
        way.iter().any(|line| line.contains("such as 10.0.0.9")),
        "{way:?}"
    );
}

#[test]
fn a_name_that_is_not_in_dns_says_where_it_stops() {
    let early = SERVICE.replace("    bindery.dev/names-published: '60'\n", "");
    let way = check(&early, SLICE, &[POOL], TOWN);
    assert_eq!(stop(&way).1, "it stops at: name");
    let town = format!("{TOWN}{}", NAMES.replace("example.com", "example.net"));
    let way = check(SERVICE, SLICE, &[POOL], &town);
    let (said, end) = stop(&way);
    assert!(said.contains("NoMatchingZone"), "{said}");
    assert!(
        said.contains("bindery explain dnsendpoint/default/service-web"),
        "{said}"
    );
    assert_eq!(end, "it stops at: dns");
    let unnamed = early.replace("external-dns.alpha.kubernetes.io/hostname", "x/y");
    let way = check(&unnamed, SLICE, &[POOL], TOWN);
    assert_eq!(
        way.last().map(String::as_str),
        Some("it is served as declared")
    );
}

#[test]
fn what_may_not_be_listed_is_said_and_stops_nothing() {
    let way = service_trace(Surroundings {
        service: BalancedService(read(SERVICE)),
        slices: None,
        pools: None,
        inventory: inventory(&format!("{TOWN}{NAMES}")),
    });
    assert_eq!(way.stops_at, None);
    let shown = lines(&way, Paint::Plain).join("\n");
    assert!(
        shown.contains("EndpointSlices were not looked at"),
        "{shown}"
    );
}

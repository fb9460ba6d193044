use std::collections::BTreeMap;

use bindery_balancer::{LocalBalancer, Proxy, ProxyLimits, ProxyTasks};
use bindery_core::balancers::{
    BalancerDeclaration, BalancerKey, BalancerSpec, BalancerTimes, EndpointGroup, EndpointPort,
    EndpointState, EndpointsKey, Family, Front, FrontPort, FrontProtocol, GroupEndpoint,
    GroupOwner, TrafficPolicy, Whereabouts,
};
use bindery_core::{AddressRange, Pool};
use bindery_engine::Fence;
use bindery_engine::balancing::{BalancerEngine, LoadBalancer as _};
use bindery_engine::pools::PoolKeeper as _;
use tokio::net::TcpListener;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

/// The spans of the next message, as a collector reads them, which answers with a code.
async fn collect(listener: &TcpListener, code: u16) -> Vec<Value> {
    let (mut socket, _) = listener.accept().await.expect("a message comes");
    let mut text = Vec::new();
    let (head, body) = loop {
        let mut buffer = [0; 4096];
        let len = socket.read(&mut buffer).await.expect("it is sent whole");
        assert!(len > 0, "it is sent whole");
        text.extend_from_slice(&buffer[..len]);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            continue;
        };
        let wanted = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if wanted.and_then(|wanted| wanted.parse().ok()) == Some(body.len()) {
            break (head.to_owned(), body.to_owned());
        }
    };
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let answer = format!("HTTP/1.1 {code} So\r\ncontent-length: 2\r\n\r\n{{}}");
    socket.write_all(answer.as_bytes()).await.expect("it reads");
    let body: Value = serde_json::from_str(&body).expect("it is JSON");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    spans.expect("it has spans").clone()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().into_iter().flatten();
    let mut found = all.filter(|one| one["key"] == key);
    found
        .next()
        .map_or(&Value::Null, |one| &one["value"]["stringValue"])
}

/// A Service with one port, and an endpoint of it.
fn service(port: u16) -> (BalancerDeclaration, EndpointGroup) {
    let owner = GroupOwner::Service("default".into(), "web".into());
    let front = Front {
        namespace: "default".into(),
        name: "web".into(),
        labels: BTreeMap::new(),
        ports: vec![FrontPort {
            protocol: FrontProtocol::Tcp,
            port,
            name: "".into(),
            target: None,
            node_port: None,
        }],
        families: vec![Family::V4],
        affinity: None,
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        requested: Vec::new(),
        options: BTreeMap::new(),
    };
    let group = EndpointGroup {
        owner: owner.clone(),
        ports: vec![EndpointPort {
            name: "".into(),
            protocol: FrontProtocol::Tcp,
            port,
        }],
        endpoints: vec![GroupEndpoint {
            address: [127, 0, 0, 2].into(),
            place: Whereabouts::Unknown,
            state: EndpointState::Ready,
        }],
    };
    let declaration = BalancerDeclaration {
        owner,
        spec: Some(BalancerSpec::Inbound(front)),
        previous: Vec::new(),
    };
    (declaration, group)
}

/// The provider of this machine with a pool, and a port that is free at its first address.
async fn provider() -> (Arc<LocalBalancer>, ProxyTasks, u16) {
    let free = TcpListener::bind("127.0.16.1:0").await.expect("a port");
    let port = free.local_addr().expect("it has one").port();
    let (proxy, tasks) = Proxy::new(ProxyLimits::of_this_process());
    let provider = LocalBalancer::new(Arc::new(proxy));
    let range = AddressRange::parse("127.0.16.0/24").expect("a range");
    let pool = Pool {
        addresses: [range].into_iter().collect(),
        auto_assign: true,
        ..Pool::default()
    };
    provider.set_pools([("pool".to_owned(), pool)].into());
    provider.remember(&[]);
    (Arc::new(provider), tasks, port)
}

/// Takes messages until a span with this name was in one.
async fn take_until(listener: &TcpListener, spans: &mut Vec<Value>, name: &str) -> Value {
    loop {
        if let Some(found) = spans.iter().find(|one| one["name"] == name) {
            return found.clone();
        }
        spans.extend(collect(listener, 200).await);
    }
}

#[tokio::test]
async fn a_collector_gets_the_spans_of_a_service_with_parent_and_child() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it has one");
    let (layer, export) = open(&format!("http://{address}")).expect("it is one");
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter()));
    // Tasks of this test run on its thread.
    let _guard = tracing::subscriber::set_default(subscriber);
    let stop = CancellationToken::new();
    let exporting = tokio::spawn(export.run(stop.clone()));
    let (provider, tasks, port) = provider().await;
    let forwarding = tokio::spawn(tasks.run(stop.clone()));
    let times = BalancerTimes::default();
    let (engine, run) = BalancerEngine::start(provider, times, Fence::none(), &stop);
    let running = tokio::spawn(run);

    let key = BalancerKey::Service("u1".into());
    let (declaration, group) = service(port);
    let slice = EndpointsKey::Slice("default".into(), "web".into());
    engine.set_endpoints(slice, Some(group));
    engine.declare(key.clone(), declaration);
    engine.set_synced();
    let mut spans = Vec::new();
    let made = take_until(&listener, &mut spans, "load balancer").await;
    let (create, bind) = (
        take_until(&listener, &mut spans, "create").await,
        take_until(&listener, &mut spans, "locations").await,
    );
    engine.retire(key);
    spans.clear();
    let ended = take_until(&listener, &mut spans, "load balancer").await;
    let delete = take_until(&listener, &mut spans, "delete").await;
    for (parent, child, operation, state) in [
        (&made, &create, "create", "created"),
        (&made, &bind, "locations", ""),
        (&ended, &delete, "delete", "gone"),
    ] {
        assert_eq!(parent["parentSpanId"], "");
        assert_eq!(child["parentSpanId"], parent["spanId"], "{child}");
        assert_eq!(child["traceId"], parent["traceId"], "{child}");
        let of = |span, key| attribute(span, key).as_str().unwrap_or_default().to_owned();
        assert_eq!(of(child, "operation"), operation);
        assert_eq!(of(child, "state"), state);
        assert_eq!(of(child, "status"), "success");
        assert_eq!(
            [of(child, "serviceUID"), of(parent, "serviceUID")],
            ["u1", "u1"]
        );
        assert!(time(parent, "startTimeUnixNano") <= time(child, "startTimeUnixNano"));
        assert!(time(child, "endTimeUnixNano") <= time(parent, "endTimeUnixNano"));
    }
    assert_ne!(made["traceId"], ended["traceId"]);
    stop.cancel();
    running.await.expect("it ends");
    forwarding.await.expect("it ends");
    drop(listener);
    exporting
        .await
        .expect("it ends, whether somebody listens or not");
}

fn time(span: &Value, key: &str) -> u128 {
    let text = span[key].as_str().and_then(|text| text.parse().ok());
    text.expect("it is a number of nanoseconds")
}

#[test]
fn what_is_about_several_services_is_linked_with_each_of_them() {
    let (layer, mut export) = open("http://127.0.0.1").expect("it is one");
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter()));
    tracing::subscriber::with_default(subscriber, || {
        let service = || tracing::info_span!(target: TRACE_TARGET, parent: None, "service");
        let (one, other) = (service(), service());
        let request = tracing::info_span!(target: TRACE_TARGET, parent: None, "request");
        request.follows_from(&one);
        request.follows_from(&other);
        // A log line's span is none of ours.
        let line = tracing::info_span!("line");
        request.follows_from(&line);
        for span in [request, one, other] {
            drop(span);
        }
    });
    let ended: Vec<Value> = std::iter::from_fn(|| export.receiver.try_recv().ok()).collect();
    let [request, one, other] = &*ended else {
        panic!("three spans ended: {ended:?}");
    };
    let link = |span: &Value| json!({"traceId": span["traceId"], "spanId": span["spanId"]});
    assert_eq!(request["links"], json!([link(one), link(other)]));
    assert_ne!(one["traceId"], other["traceId"]);
}

#[test]
fn without_a_collector_no_span_is_made_whatever_is_logged() {
    let lines = crate::log::filter("trace").expect("it is one");
    let subscriber = tracing_subscriber::registry().with(lines);
    tracing::subscriber::with_default(subscriber, || {
        assert!(tracing::enabled!(tracing::Level::TRACE));
        let span = tracing::info_span!(target: TRACE_TARGET, "request");
        assert!(span.is_disabled());
    });
}

#[test]
fn an_endpoint_is_a_plain_url() {
    for good in [
        "http://127.0.0.1:4318",
        "http://[::1]:4318/",
        "http://collector",
    ] {
        open(good).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    let (_, export) = open("http://collector/otel/").expect("it is one");
    assert_eq!((export.port, &*export.path), (4318, "/otel/v1/traces"));
    for bad in ["https://collector:4318", "collector:4318", "", "http://"] {
        assert!(open(bad).is_err(), "{bad}");
    }
}

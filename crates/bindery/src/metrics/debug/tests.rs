use std::collections::BTreeSet;

use bindery_core::balancers::{BalancerDeclaration, BalancerSpec, Family, Front, TrafficPolicy};
use bindery_engine::supervisor::Supervisor;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::metrics::page::tests::{balancers_at_rest, sources_at_rest};
use crate::metrics::serve;

/// One page over a connection of its own: the code and the body.
async fn ask(port: u16, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    socket
        .write_all(request.as_bytes())
        .await
        .expect("it reads");
    let mut answer = String::new();
    socket
        .read_to_string(&mut answer)
        .await
        .expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("it has a code"), body.to_owned())
}

fn declaration(name: &str) -> BalancerDeclaration {
    BalancerDeclaration {
        owner: GroupOwner::Service("default".into(), name.into()),
        spec: Some(BalancerSpec::Inbound(Front {
            namespace: "default".into(),
            name: name.into(),
            labels: std::collections::BTreeMap::new(),
            ports: Vec::new(),
            families: vec![Family::V4],
            affinity: None,
            source_ranges: Vec::new(),
            traffic_policy: TrafficPolicy::Cluster,
            requested: Vec::new(),
            options: std::collections::BTreeMap::new(),
        })),
        previous: Vec::new(),
    }
}

/// The names of all fields, those of objects and lists below among them.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.keys().cloned());
            map.values().for_each(|one| fields(one, found));
        }
        Value::Array(list) => list.iter().for_each(|one| fields(one, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A page once it says what is waited for.
async fn becomes(port: u16, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let (code, body) = ask(port, path).await;
        assert_eq!(code, 200, "{body}");
        let found: Value = serde_json::from_str(&body).expect("it is JSON");
        if is_so(&found) || tokio::time::Instant::now() > deadline {
            return found;
        }
        // pause between polls
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_debug_pages_have_every_balancer_and_what_waits_for_it() {
    let stop = CancellationToken::new();
    let mut work = Supervisor::new(stop.clone());
    let balancers = balancers_at_rest(&mut work);
    let engine = balancers.engine().clone();
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let sources = sources_at_rest().with_balancers(Some(balancers));
    work.spawn("metrics", serve(listener, sources, stop.clone()));
    // No pool has an address, so that nothing is made.
    for at in 0..=PAGE_LEN {
        let key = BalancerKey::Service(format!("u{at:03}").as_str().into());
        engine.declare(key, declaration(&format!("web{at:03}")));
    }
    let slice = bindery_core::balancers::EndpointsKey::Slice("default".into(), "a".into());
    let endpoint = bindery_core::balancers::GroupEndpoint {
        address: [10, 0, 0, 1].into(),
        place: bindery_core::balancers::Whereabouts::Unknown,
        state: bindery_core::balancers::EndpointState::Ready,
    };
    let group = bindery_core::balancers::EndpointGroup {
        owner: GroupOwner::Service("default".into(), "web001".into()),
        ports: Vec::new(),
        endpoints: vec![endpoint],
    };
    engine.set_endpoints(slice, Some(group));
    engine.set_synced();

    let path = "/debug/difftracker/services";
    let has_all = |page: &Value| page["services"][0]["fault"]["kind"] != Value::Null;
    let page = becomes(port, path, has_all).await;
    assert_eq!(page["total"], PAGE_LEN + 1);
    assert_eq!(page["services"].as_array().map(Vec::len), Some(PAGE_LEN));
    let first = &page["services"][0];
    assert_eq!(first["serviceUID"], "u000");
    assert_eq!(
        (&first["namespace"], &first["name"]),
        (&json!("default"), &json!("web000"))
    );
    assert_eq!(first["state"], "not_started");
    assert_eq!(first["lastOperation"]["operation"], "create");
    let next = page["next"].as_str().expect("there is one more");
    let rest = becomes(port, &format!("{path}?after={next}"), |_| true).await;
    assert_eq!(rest["services"][0]["serviceUID"], format!("u{PAGE_LEN:03}"));
    assert_eq!(rest["next"], Value::Null);

    let path = "/debug/difftracker/buffered";
    let waits = |page: &Value| page["buffered"][0]["fault"] != Value::Null;
    let page = becomes(port, path, waits).await;
    assert_eq!(
        (&page["total"], &page["endpoints"], &page["pods"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let entry = &page["buffered"][0];
    assert_eq!(
        (&entry["name"], &entry["count"]),
        (&json!("web001"), &json!(1))
    );

    let mut known = BTreeSet::new();
    fields(&page, &mut known);
    fields(&rest, &mut known);
    let document = include_str!("../../../../../docs/metrics.md");
    let untold: Vec<&String> = known
        .iter()
        .filter(|name| !document.contains(&format!("`{name}`")))
        .collect();
    assert!(
        untold.is_empty(),
        "docs/metrics.md does not have {untold:?}"
    );
    stop.cancel();
    work.run().await;
}

#[tokio::test]
async fn a_process_without_load_balancers_says_so() {
    let stop = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let serving = tokio::spawn(serve(listener, sources_at_rest(), stop.clone()));
    for path in ["/debug/difftracker/services", "/debug/difftracker/buffered"] {
        let (code, body) = ask(port, path).await;
        assert_eq!(code, 404);
        assert!(body.contains("--load-balancer"), "{body}");
    }
    stop.cancel();
    serving.await.expect("it ends");
}

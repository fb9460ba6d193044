use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bindery_apiserver::Options;
use bindery_balancer::{LocalBalancer, Proxy, ProxyLimits};
use bindery_core::balancers::BalancerTimes;
use bindery_core::{Moment, zones::Limits};
use bindery_core::{ServerInfo, ServerRole};
use bindery_engine::supervisor::Supervisor;
use bindery_engine::{Fence, ServerHandle, Servers};
use bindery_kube::{BalancerControllers, Clock, Controllers, Replica, Settings};
use bindery_sources::balancers::BalancerClass;
use tower::{Service as _, ServiceExt as _};

use super::*;
use crate::cli::{ElectionFlags, LeaderElect};
use crate::election::Part;

/// The page on which every metric stands.
const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");

/// One metric as the page of metrics declares it.
struct Declared {
    kind: String,
    help: String,
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment(0)
    }
}

/// Everything that `up` has, over a client of its API, and the tasks of the controllers.
fn sources(api: &EmbeddedApi, client: kube::Client) -> (Sources, Vec<bindery_kube::Task>) {
    let stop = CancellationToken::new();
    let handle = |address, role| ServerHandle {
        info: ServerInfo::at(address, role),
        server: Arc::new(bindery_dns::Server::new("192.0.2.53:53", None)),
        host: None,
    };
    let primary = handle("192.0.2.53:53", ServerRole::Primary);
    let secondary = handle("192.0.2.54:53", ServerRole::Secondary);
    let servers: Servers = [primary, secondary].into_iter().collect();
    let (engine, _running) = Engine::start(servers.alone(), Limits::default(), &stop);
    let controllers = Controllers {
        client,
        engine: engine.clone(),
        settings: Settings::default(),
        clock: Arc::new(Still),
        replica: Replica::alone(),
    };
    let (handle, tasks) = controllers.start(&stop);
    let sources = Sources::new(Readiness::default(), engine, handle).with_api(api.clone());
    let sources = sources.with_servers_file(ServersReport::default());
    (sources, tasks)
}

/// The same at rest.
pub(in crate::metrics) fn sources_at_rest() -> Sources {
    let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
    sources(&api, api.client()).0
}

/// Load balancers that nobody asks for and that no pool has addresses for; the engine runs.
pub(in crate::metrics) fn balancers_at_rest(work: &mut Supervisor) -> BalancersHandle {
    let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
    let (proxy, _) = Proxy::new(ProxyLimits::of_this_process());
    let provider = Arc::new(LocalBalancer::new(Arc::new(proxy)));
    let stop = work.stop_token();
    let (engine, running) = BalancerEngine::start(
        Arc::<LocalBalancer>::clone(&provider),
        BalancerTimes::default(),
        Fence::none(),
        &stop,
    );
    work.spawn("balancer engine", running);
    let controllers = BalancerControllers {
        client: api.client(),
        engine,
        provider,
        class: BalancerClass {
            name: "bindery.dev/lb".into(),
            takes_unnamed: true,
        },
        clock: Arc::new(Still),
        replica: Replica::alone(),
    };
    controllers.start(&stop).0
}

/// The page of metrics as `OpenMetrics`.
fn page() -> String {
    let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
    let flags = ElectionFlags {
        leader_elect: LeaderElect::On,
        lease_name: "bindery".to_owned(),
        lease_namespace: None,
        lease_identity: None,
        lease_duration: 4,
    };
    let (_, report) = Part::of(&flags, &api.client(), Arc::new(Still), false);
    let mut work = Supervisor::default();
    let sources = sources_at_rest()
        .with_election(report.expect("it is on"))
        .with_balancers(Some(balancers_at_rest(&mut work)));
    let mut page = String::new();
    encode(&mut page, &sources.registry).expect("text can always be written");
    page
}

/// Asks the pages on `local` for one: the code, the content type and the body.
async fn ask(pages: &Router, page: &str, headers: [(&str, &str); 2]) -> (u16, String, String) {
    let request = Request::get(page)
        .header(headers[0].0, headers[0].1)
        .header(headers[1].0, headers[1].1)
        .body(axum::body::Body::empty())
        .expect("it is a request");
    let Ok(answer) = pages.clone().oneshot(request).await;
    let content_type = answer.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.map_or(b"".as_slice(), |one| one.as_bytes());
    let content_type = String::from_utf8_lossy(content_type).into_owned();
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
    let body = String::from_utf8_lossy(&body.expect("it has a body")).into_owned();
    (code, content_type, body)
}

#[tokio::test]
async fn only_its_own_names_reach_the_pages() {
    for (local, host, wanted) in [
        ("127.0.0.1", "127.0.0.1:9970", 200),
        ("127.0.0.1", "localhost", 200),
        // Through a tunnel it has another port.
        ("127.0.0.1", "localhost:8080", 200),
        ("127.0.0.1", "rebound.example:9970", 403),
        ("127.0.0.1", "192.0.2.1:9970", 403),
        ("0.0.0.0", "192.0.2.1:9970", 200),
        ("0.0.0.0", "rebound.example:9970", 403),
        ("192.0.2.1", "192.0.2.1:9970", 200),
    ] {
        let pages = pages(local.parse().expect("an address"), sources_at_rest());
        for page in [
            "/metrics",
            "/healthz",
            "/readyz",
            "/debug/difftracker/services",
        ] {
            let (code, _, body) = ask(&pages, page, [("host", host), ("accept", "*/*")]).await;
            // It has no load balancers.
            let is_debug = page.starts_with("/debug") && wanted == 200;
            let wanted = if is_debug { 404 } else { wanted };
            assert_eq!(code, wanted, "{page} of {local} as {host}: {body}");
        }
    }
}

#[tokio::test]
async fn open_metrics_is_served_to_those_who_ask_and_classic_text_to_others() {
    let pages = pages([127, 0, 0, 1].into(), sources_at_rest());
    let ask = |accept| {
        ask(
            &pages,
            "/metrics",
            [("host", "localhost"), ("accept", accept)],
        )
    };
    let (code, content_type, body) = ask("application/openmetrics-text").await;
    assert_eq!(
        (code, &*content_type),
        (
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
    );
    assert!(body.ends_with("# EOF\n"), "{body}");
    let (code, content_type, body) = ask("*/*").await;
    assert_eq!(
        (code, &*content_type),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(body.contains("# TYPE bindery_build_info gauge\n"), "{body}");
    assert!(
        body.contains("# TYPE bindery_api_requests_total counter\n"),
        "{body}"
    );
    for line in body.lines().filter(|line| line.starts_with('#')) {
        assert!(
            line.starts_with("# HELP ") || line.starts_with("# TYPE "),
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_ready_while_every_watch_fails() {
    let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
    crate::kinds::install(&api.client())
        .await
        .expect("they fit");
    let is_down = Arc::new(AtomicBool::new(true));
    let (service, down) = (api.service(), Arc::clone(&is_down));
    let service = tower::service_fn(move |request| {
        let (mut service, is_down) = (service.clone(), down.load(Ordering::Relaxed));
        async move {
            if is_down {
                return Err(std::io::Error::other("nobody answers"));
            }
            let Ok(answer) = service.call(request).await;
            Ok(answer)
        }
    });
    let (sources, tasks) = sources(&api, kube::Client::new(service, "default"));
    for (_, task) in tasks {
        tokio::spawn(task);
    }
    let pages = pages([127, 0, 0, 1].into(), sources);
    let becomes = async |wanted: u16| {
        let asking = [("host", "localhost"), ("accept", "*/*")];
        // Time is the test's own, nothing waits; a watch lives for less than these seconds.
        for _ in 0..600 {
            let (code, _, body) = ask(&pages, "/readyz", asking).await;
            if code == wanted {
                return body;
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        format!("it does not become {wanted}")
    };
    let deaf = "waiting for the Kubernetes API, where every watch fails\n";
    assert_eq!(becomes(503).await, deaf);
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(becomes(200).await, "ok\n");
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(becomes(503).await, deaf);
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(becomes(200).await, "ok\n");
}

/// What a page declares, by the name that its samples have.
fn declared(page: &str) -> BTreeMap<String, Declared> {
    let mut helps = BTreeMap::new();
    let mut declared = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            helps.insert(name, help.trim_end_matches('.').to_owned());
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let help = helps.remove(name).expect("the help stands before the type");
            let kind = kind.to_owned();
            declared.insert(format!("{name}{suffix}"), Declared { kind, help });
        }
    }
    declared
}

#[tokio::test]
async fn every_metric_stands_in_the_documentation_and_no_other_does() {
    let declared = declared(&page());
    assert!(declared.len() > 20, "{} metrics", declared.len());
    let mut missing = Vec::new();
    for (name, Declared { kind, help }) in &declared {
        let (start, end) = (format!("| `{name}` | {kind} | "), format!(" | {help} |"));
        let stands = |line: &str| line.starts_with(&start) && line.ends_with(&end);
        if !DOCUMENT.lines().any(stands) {
            missing.push(format!("{start}LABELS{end}"));
        }
    }
    assert!(
        missing.is_empty(),
        "add to docs/metrics.md:\n{}",
        missing.join("\n")
    );
    let told: BTreeSet<&str> = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let known: BTreeSet<&str> = declared.keys().map(String::as_str).collect();
    assert_eq!(told.difference(&known).collect::<Vec<_>>(), [&""; 0]);
}

#[tokio::test]
async fn the_page_is_sound() {
    let page = page();
    assert!(page.ends_with("# EOF\n"), "{page}");
    let declared = declared(&page);
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a name and a value");
        value.parse::<f64>().expect("a number");
        let name = series.split('{').next().unwrap_or_default();
        let parts = ["_bucket", "_sum", "_count"];
        let of_histogram = parts.iter().find_map(|part| name.strip_suffix(part));
        let is_declared = |name: &str| declared.contains_key(name);
        assert!(
            is_declared(name) || of_histogram.is_some_and(is_declared),
            "{line} is not declared"
        );
    }
    assert!(page.contains("bindery_update_duration_seconds_bucket{le=\"+Inf\"} 0"));
    assert!(page.contains("bindery_visits{queue=\"records\",state=\"waiting\"} 0"));
    let behind = "bindery_server_behind_zones{server=\"192.0.2.54:53\",role=\"secondary\"} 0";
    assert!(page.contains(behind), "{page}");
    for series in [
        "engine_service_operations_total{operation=\"create\",status=\"success\"} 0",
        "engine_service_operations_total{operation=\"delete\",status=\"failure\"} 0",
        "engine_service_operation_duration_seconds_count{operation=\"delete\"} 0",
        "engine_pending_service_operations{state=\"not_started\"} 0",
        "engine_pending_service_operations{state=\"creation_in_progress\"} 0",
        "engine_pending_service_operations{state=\"created\"} 0",
        "engine_pending_service_operations{state=\"deletion_pending\"} 0",
        "engine_pending_service_operations{state=\"deletion_in_progress\"} 0",
        "engine_buffered_endpoints_total 0",
        "engine_buffered_pods_total 0",
        "engine_buffer_duration_seconds_count 0",
        "engine_locations_sync_total{status=\"success\"} 0",
        "engine_locations_sync_duration_seconds_count 0",
        "engine_location_addresses_synced{action=\"add\"} 0",
        "engine_operation_retries_total{operation=\"create\"} 0",
        "engine_operation_queue_duration_seconds_count{operation=\"create\"} 0",
    ] {
        assert!(page.contains(&format!("\n{series}\n")), "{series}");
    }
    // Nobody asked it yet.
    let rotation = "bindery_server_in_rotation{server=\"192.0.2.53:53\",name=\"192.0.2.53:53\",\
                    role=\"primary\",cluster=\"\"} 0";
    assert!(page.contains(rotation), "{page}");
}

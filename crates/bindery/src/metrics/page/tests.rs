use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bindery_core::fleet::{Member, Role};
use bindery_core::{Moment, zones::Limits};
use bindery_embedded::Options;
use bindery_engine::{Servers, Station};
use bindery_kube::{Clock, Controllers, Settings};

use super::*;

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

/// Everything that `up` has, at rest.
fn page() -> String {
    let api = EmbeddedApi::open(Options::in_memory()).expect("memory always opens");
    let stop = CancellationToken::new();
    let station = |role| Station {
        member: Member {
            address: "192.0.2.53:53".into(),
            role,
        },
        server: Arc::new(bindery_dns::Server::new("192.0.2.53:53", None)),
        host: None,
    };
    let servers = Servers {
        lead: station(Role::Primary),
        followers: Arc::new([station(Role::Secondary)]),
    };
    let (engine, _running) = Engine::start(servers.alone(), Limits::default(), &stop);
    let controllers = Controllers {
        client: api.client(),
        engine: engine.clone(),
        settings: Settings {
            sites: BTreeMap::new(),
        },
        clock: Arc::new(Still),
    };
    let (handle, _tasks) = controllers.start(&stop);
    let sources = Sources::new(Readiness::default(), engine, handle).with_api(api);
    let mut page = String::new();
    encode(&mut page, &sources.registry).expect("text can always be written");
    page
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
    let behind = "bindery_server_behind_zones{server=\"192.0.2.53:53\",role=\"secondary\"} 0";
    assert!(page.contains(behind), "{page}");
}

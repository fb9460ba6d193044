//! What the engine of load balancers knows, for people who look for a mistake: JSON of bounded size.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bindery_core::Fault;
use bindery_core::balancers::{BalancerKey, GroupOwner};
use bindery_engine::balancing::{BalancerEngine, SeenBalancer};
use serde::Serialize;

use super::page::PageState;

/// Balancers on one page. Each takes 1 kB as a rule and 8 kB at most, with two addresses, five refused endpoints
/// and messages that are cut.
const PAGE_LEN: usize = 200;

/// Letters of a message of a provider that are shown.
const MESSAGE_LEN_MAX: usize = 1000;

/// `/debug/difftracker/services`.
#[derive(Serialize)]
struct ServicesPage {
    total: usize,
    /// What to ask for next, as `?after=`.
    next: Option<String>,
    services: Vec<ServiceEntry>,
}

/// `/debug/difftracker/buffered`.
#[derive(Serialize)]
struct BufferedPage {
    total: usize,
    next: Option<String>,
    /// All endpoints of Services that wait, on whichever page.
    endpoints: usize,
    /// All pods that wait.
    pods: usize,
    buffered: Vec<BufferedEntry>,
}

/// Which balancer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryKey {
    #[serde(rename = "serviceUID")]
    service_uid: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    egress_label: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceEntry {
    #[serde(flatten)]
    key: EntryKey,
    state: &'static str,
    state_seconds: f64,
    programmed: bool,
    carries_traffic: bool,
    addresses: Vec<String>,
    hostname: Option<String>,
    endpoints: EndpointCounts,
    refused: Vec<RefusedEntry>,
    fault: Option<FaultEntry>,
    orphan: bool,
    last_operation: Option<OperationEntry>,
}

#[derive(Serialize)]
struct EndpointCounts {
    bound: usize,
    waiting: usize,
    buffered: usize,
    refused: usize,
}

#[derive(Serialize)]
struct RefusedEntry {
    address: String,
    #[serde(flatten)]
    fault: FaultEntry,
}

#[derive(Serialize)]
struct FaultEntry {
    kind: &'static str,
    why: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationEntry {
    operation: &'static str,
    status: &'static str,
    seconds: f64,
    seconds_ago: f64,
}

#[derive(Serialize)]
struct BufferedEntry {
    #[serde(flatten)]
    key: EntryKey,
    state: &'static str,
    /// How many endpoints of the Service, or pods of the label, wait.
    count: usize,
    /// How long the first of them has waited.
    seconds: f64,
    /// Why the balancer does not stand.
    fault: Option<FaultEntry>,
}

/// Every balancer that is known.
pub(super) async fn services(State(sources): PageState, RawQuery(query): RawQuery) -> Response {
    let Some(engine) = sources.balancer_engine() else {
        return nobody();
    };
    let page = engine.balancers(after(query.as_deref()).as_ref(), PAGE_LEN);
    let answer = ServicesPage {
        total: page.total,
        next: page.next.as_ref().map(ToString::to_string),
        services: page.shown.iter().map(service).collect(),
    };
    json(&answer)
}

/// Balancers that do not stand, with what waits for them.
pub(super) async fn buffered(State(sources): PageState, RawQuery(query): RawQuery) -> Response {
    let Some(engine) = sources.balancer_engine() else {
        return nobody();
    };
    json(&buffered_page(engine, query.as_deref()))
}

fn buffered_page(engine: &BalancerEngine, query: Option<&str>) -> BufferedPage {
    let page = engine.buffered(after(query).as_ref(), PAGE_LEN);
    let (endpoints, pods) = engine.buffered_lens();
    let entry = |seen: &SeenBalancer| BufferedEntry {
        key: key(seen),
        state: seen.report.phase.as_str(),
        count: seen.report.buffered_len,
        seconds: seen.buffered_for.unwrap_or_default().as_secs_f64(),
        fault: seen.report.fault.as_ref().map(fault),
    };
    BufferedPage {
        total: page.total,
        next: page.next.as_ref().map(ToString::to_string),
        endpoints,
        pods,
        buffered: page.shown.iter().map(entry).collect(),
    }
}

fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_string(answer) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn nobody() -> Response {
    let why = "this process gives no load balancers; start it with --load-balancer\n";
    (StatusCode::NOT_FOUND, why).into_response()
}

/// The key behind which to go on. UIDs and labels need no escapes in a query.
fn after(query: Option<&str>) -> Option<BalancerKey> {
    let mut parts = query?.split('&');
    let text = parts.find_map(|part| part.strip_prefix("after="))?;
    Some(match text.strip_prefix("egress/") {
        Some(label) => BalancerKey::Egress(label.into()),
        None => BalancerKey::Service(text.into()),
    })
}

fn key(seen: &SeenBalancer) -> EntryKey {
    let (namespace, name) = match &seen.report.owner {
        Some(GroupOwner::Service(namespace, name)) => {
            (Some(namespace.to_string()), Some(name.to_string()))
        }
        Some(GroupOwner::Egress(_)) | None => (None, None),
    };
    let (service_uid, egress_label) = match &seen.report.key {
        BalancerKey::Service(uid) => (Some(uid.to_string()), None),
        BalancerKey::Egress(label) => (None, Some(label.to_string())),
    };
    EntryKey {
        service_uid,
        namespace,
        name,
        egress_label,
    }
}

fn service(seen: &SeenBalancer) -> ServiceEntry {
    let report = &seen.report;
    let refused = |(address, why): &(std::net::IpAddr, Fault)| RefusedEntry {
        address: address.to_string(),
        fault: fault(why),
    };
    let seconds = |duration: Duration| duration.as_secs_f64();
    ServiceEntry {
        key: key(seen),
        state: report.phase.as_str(),
        state_seconds: seconds(seen.in_phase),
        programmed: report.is_programmed,
        carries_traffic: report.carries_traffic(),
        addresses: report
            .frontage
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect(),
        hostname: report.frontage.hostname.as_ref().map(ToString::to_string),
        endpoints: EndpointCounts {
            bound: report.bound_len,
            waiting: report.waiting_len,
            buffered: report.buffered_len,
            refused: report.refused.1,
        },
        refused: report.refused.0.iter().map(refused).collect(),
        fault: report.fault.as_ref().map(fault),
        orphan: report.is_orphan,
        last_operation: seen.last.map(|last| OperationEntry {
            operation: last.operation.as_str(),
            status: last.status,
            seconds: seconds(last.duration),
            seconds_ago: seconds(last.ago),
        }),
    }
}

fn fault(fault: &Fault) -> FaultEntry {
    FaultEntry {
        kind: fault.kind.as_str(),
        why: fault.message.chars().take(MESSAGE_LEN_MAX).collect(),
    }
}

#[cfg(test)]
mod tests;

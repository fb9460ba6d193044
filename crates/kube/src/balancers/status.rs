//! What a Service's status says of its balancer, and the Events about it.

use std::collections::BTreeSet;

use bindery_core::backoff::jitter_seed;
use bindery_core::balancers::BalancerReport;
use bindery_core::{FaultKind, Reason};
use bindery_sources::balancers::SERVICE_CONDITION as CONDITION;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::api::{BalancerApiError, parts};
use super::service::ObservedService;
use super::{BalancerContext, BalancerObject};

/// Bytes of an Event's message; `events.k8s.io` allows as many.
const MESSAGE_LEN_MAX: usize = 1024;

/// What is to be said.
struct Said {
    is_good: bool,
    reason: Reason,
    message: String,
}

/// Writes what a Service has, where its status says something else, and tells what its author should know.
///
/// Cancellation: the status is written or not; Events may be missing.
pub(super) async fn report(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<(), BalancerApiError> {
    let object = &*observed.object;
    let conditions = conditions(object);
    let known = conditions.iter().find(|one| one.type_ == CONDITION);
    let said = said(observed);
    let mut status = serde_json::Map::new();
    if let Some(said) = &said.filter(|_| observed.report.is_some() || known.is_none()) {
        let condition = condition(shared, object, known, said);
        if known != Some(&condition) {
            let others = conditions.iter().filter(|one| one.type_ != CONDITION);
            let all: Vec<&Condition> = others.chain([&condition]).collect();
            status.insert("conditions".to_owned(), json!(all));
        }
    }
    let ingress = observed.report.as_ref().and_then(ingress);
    if let Some(ingress) = ingress.filter(|wanted| !is_same(object, wanted)) {
        status.insert("loadBalancer".to_owned(), json!({"ingress": ingress}));
    }
    if !status.is_empty() {
        let body = json!({"metadata": {"uid": object.metadata.uid}, "status": status});
        shared.api.write_status(place, &body).await?;
    }
    tell(shared, place, observed).await;
    Ok(())
}

/// Takes out of a status what is not there any more; says whether something was written.
///
/// Cancellation: it is written or not.
pub(super) async fn clear(
    shared: &BalancerContext,
    place: &BalancerObject,
    observed: &ObservedService,
) -> Result<bool, BalancerApiError> {
    let object = &*observed.object;
    let conditions = conditions(object);
    let others: Vec<&Condition> = conditions
        .iter()
        .filter(|one| one.type_ != CONDITION)
        .collect();
    let is_clear = others.len() == conditions.len() && is_same(object, &[]);
    if !is_clear {
        let others = (!others.is_empty()).then_some(others);
        let body = json!({
            "metadata": {"uid": object.metadata.uid},
            "status": {"loadBalancer": {"ingress": null}, "conditions": others},
        });
        shared.api.write_status(place, &body).await?;
    }
    Ok(!is_clear)
}

fn conditions(object: &Service) -> &[Condition] {
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

/// What the status is to have; `None` where it is left as it is, since nobody knows yet.
fn ingress(report: &BalancerReport) -> Option<Vec<Value>> {
    let addresses = report.frontage.addresses.iter();
    let mut ingress: Vec<Value> = addresses
        .map(|address| json!({"ip": address.to_string(), "ipMode": "VIP"}))
        .collect();
    if let Some(hostname) = &report.frontage.hostname {
        ingress.push(json!({"hostname": hostname}));
    }
    // After a start nothing stands for a moment, of which nobody has to hear.
    (!ingress.is_empty() || report.fault.is_some()).then_some(ingress)
}

/// Whether the status has these addresses and names.
fn is_same(object: &Service, wanted: &[Value]) -> bool {
    let status = object.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let stands = balancer.and_then(|one| one.ingress.as_ref());
    let stands = stands.into_iter().flatten();
    let stands: Vec<(Option<&str>, Option<&str>)> = stands
        .map(|one| (one.ip.as_deref(), one.hostname.as_deref()))
        .collect();
    let wanted = wanted.iter();
    let wanted: Vec<(Option<&str>, Option<&str>)> = wanted
        .map(|one| (one["ip"].as_str(), one["hostname"].as_str()))
        .collect();
    stands == wanted
}

fn said(observed: &ObservedService) -> Option<Said> {
    let no = |reason, message| {
        Some(Said {
            is_good: false,
            reason,
            message,
        })
    };
    if !observed.problems.is_empty() {
        let all = observed.problems.iter();
        let all: Vec<String> = all
            .map(|one| format!("{}: {}", one.field, one.message))
            .collect();
        return no(Reason::Invalid, all.join("; "));
    }
    let Some(report) = &observed.report else {
        let message = "the provider of load balancers was not asked yet".to_owned();
        return no(Reason::Pending, message);
    };
    if let Some(fault) = &report.fault {
        // The address that it lacks has a name of its own.
        let lacks = observed.notice.as_ref();
        let lacks = lacks.filter(|(_, text)| *text == fault.message);
        let reason = match lacks {
            Some((reason, _)) => *reason,
            None if fault.kind.is_terminal() => Reason::Invalid,
            None => Reason::Failed,
        };
        return no(reason, fault.message.clone());
    }
    if !report.is_programmed {
        return no(Reason::Progressing, "it is being made".to_owned());
    }
    let traffic = if report.bound_len == 0 {
        "no endpoint is ready"
    } else {
        "traffic is forwarded"
    };
    let (mut message, mut reason) = (traffic.to_owned(), Reason::Programmed);
    if let Some((notice, text)) = &observed.notice {
        reason = *notice;
        message = format!("{message}; {text}");
    }
    if let (Some((address, fault)), len) = (report.refused.0.first(), report.refused.1) {
        reason = Reason::PartiallyProgrammed;
        message = format!("{message}; {len} endpoints are refused, such as {address}: {fault}");
    }
    Some(Said {
        is_good: true,
        reason,
        message,
    })
}

fn condition(
    shared: &BalancerContext,
    object: &Service,
    known: Option<&Condition>,
    said: &Said,
) -> Condition {
    let status = if said.is_good { "True" } else { "False" };
    let now = Timestamp::from_second(shared.clock.now().0).unwrap_or_default();
    let since = known.filter(|known| known.status == status);
    Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: said.reason.as_str().to_owned(),
        message: said.message.clone(),
        // A Service has no generation.
        observed_generation: object.metadata.generation,
        last_transition_time: since
            .map_or_else(|| Time(now), |known| known.last_transition_time.clone()),
    }
}

/// Tells by Events what a Service's author should know, each thing once.
async fn tell(shared: &BalancerContext, place: &BalancerObject, observed: &ObservedService) {
    let mut news: Vec<(&'static str, String)> = Vec::new();
    for problem in &observed.problems {
        let message = format!("{}: {}", problem.field, problem.message);
        news.push((problem.reason, message));
    }
    if let Some(report) = &observed.report {
        if let Some(fault) = report.fault.as_ref().filter(|one| is_for_authors(one.kind)) {
            news.push(("LoadBalancerRefused", fault.message.clone()));
        }
        for (address, fault) in &report.refused.0 {
            news.push(("EndpointRefused", format!("{address}: {fault}")));
        }
    }
    let texts = news.iter();
    let texts: BTreeSet<String> = texts
        .map(|(reason, text)| format!("{reason} {text}"))
        .collect();
    let before = shared
        .seen()
        .service_mut(place)
        .map(|service| std::mem::replace(&mut service.told, texts))
        .unwrap_or_default();
    for (reason, message) in news {
        if before.contains(&format!("{reason} {message}")) {
            continue;
        }
        let event = event(shared, &observed.object, place, (reason, message));
        if let Err(error) = shared.api.write_event(place, &event).await {
            let error = error.to_string();
            tracing::debug!(error, "an Event was not written");
        }
    }
}

/// Whether a fault is one that only a person can help with.
fn is_for_authors(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Invalid | FaultKind::Denied | FaultKind::Refused | FaultKind::TooLarge
    )
}

fn event(
    shared: &BalancerContext,
    object: &Service,
    place: &BalancerObject,
    (reason, mut message): (&'static str, String),
) -> Event {
    let (namespace, name) = parts(place);
    let now = shared.clock.now().0;
    let now = Time(Timestamp::from_second(now).unwrap_or_default());
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_LEN_MAX - 3) {
        message.truncate(end);
    }
    let salt = format!("{reason}{message}{now:?}");
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:016x}", jitter_seed(salt.as_bytes()))),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            uid: object.metadata.uid.clone(),
            ..ObjectReference::default()
        },
        reason: Some(reason.to_owned()),
        message: Some(message),
        type_: Some("Warning".to_owned()),
        source: Some(EventSource {
            component: Some("bindery".to_owned()),
            host: None,
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

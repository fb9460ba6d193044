//! The way of a balancer as spans: one for as long as something has to be done about it, and one below that for each
//! operation. What a provider does within an operation is below it.
//!
//! Where nobody collects spans there are none, and nothing of this costs anything.

use std::collections::{BTreeMap, BTreeSet};

use bindery_core::{
    balancers::{AddressChange, BalancerKey, BalancerReport, BalancerStep},
    tracker::Phase,
};
use tracing::{Level, Span, field::Empty};

use super::BalancerOperation;

/// The target of these spans, by which they are told apart from log lines.
pub const TRACE_TARGET: &str = "bindery::trace";

/// Balancers that one request is linked with: what a collector takes of a span by default.
const LINKS_MAX: usize = 128;

/// The spans of balancers about which something has to be done.
#[derive(Debug, Default)]
pub(super) struct BalancerSpans {
    services: BTreeMap<BalancerKey, Span>,
}

impl BalancerSpans {
    /// The span of an operation that begins.
    pub(super) fn begin(&mut self, operation: BalancerOperation, step: &BalancerStep) -> Span {
        if !tracing::span_enabled!(target: TRACE_TARGET, Level::INFO) {
            return Span::none();
        }
        match step {
            BalancerStep::Ensure { key, .. } | BalancerStep::Remove(key) => {
                let service = self.services.entry(key.clone());
                let service = service.or_insert_with(|| service_span(key));
                operation_span(service, operation, Some(key), 0)
            }
            BalancerStep::Bind(changes) => self.begin_binding(operation, changes),
            BalancerStep::Read => operation_span(&Span::none(), operation, None, 0),
        }
    }

    /// Takes in how a balancer is: where nothing is left to do, its span ends.
    pub(super) fn take(&mut self, report: &BalancerReport) {
        let is_settled = report.is_programmed && report.waiting_len == 0;
        if !is_settled && report.phase != Phase::Gone {
            return;
        }
        if let Some(span) = self.services.remove(&report.key) {
            span.record("state", report.phase.as_str());
        }
    }

    /// A request for one balancer is below it; one for several is linked with each of them.
    fn begin_binding(&self, operation: BalancerOperation, changes: &[AddressChange]) -> Span {
        let bindings = changes
            .iter()
            .flat_map(|one| one.wanted.iter().chain(&one.stood));
        let keys: BTreeSet<&BalancerKey> = bindings.map(|binding| &binding.balancer).collect();
        let alone = keys.first().copied().filter(|_| keys.len() == 1);
        let none = Span::none();
        let parent = alone.and_then(|key| self.services.get(key));
        let span = operation_span(parent.unwrap_or(&none), operation, alone, changes.len());
        if alone.is_none() {
            let services = keys.into_iter().filter_map(|key| self.services.get(key));
            for service in services.take(LINKS_MAX) {
                span.follows_from(service);
            }
        }
        span
    }
}

fn service_span(key: &BalancerKey) -> Span {
    tracing::info_span!(
        target: TRACE_TARGET,
        parent: None,
        "load balancer",
        serviceUID = %key,
        state = Empty,
    )
}

fn operation_span(
    parent: &Span,
    operation: BalancerOperation,
    key: Option<&BalancerKey>,
    addresses: usize,
) -> Span {
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        parent: parent,
        "operation",
        otel.name = operation.as_str(),
        operation = operation.as_str(),
        serviceUID = Empty,
        state = Empty,
        status = Empty,
        addresses = Empty,
        queued = Empty,
    );
    if let Some(key) = key {
        span.record("serviceUID", tracing::field::display(key));
    }
    if addresses > 0 {
        span.record("addresses", addresses);
    }
    span
}

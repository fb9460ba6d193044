//! What is counted, under the names that bindcar gives it where it is the same.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds; a health check takes well below one thousandth, a large zone some seconds.
const DURATIONS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What the page is: the text format of `OpenMetrics`.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    path: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// The numbers of one sidecar.
pub(super) struct SidecarMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Histogram,
    operations: Family<OperationLabels, Counter>,
    limited: Family<ResultLabels, Counter>,
    managed: Gauge,
    expected: Gauge,
    ready: Gauge,
}

impl SidecarMetrics {
    pub(super) fn new(version: &str) -> Self {
        let metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Histogram::new(DURATIONS),
            operations: Family::default(),
            limited: Family::default(),
            managed: Gauge::default(),
            expected: Gauge::default(),
            ready: Gauge::default(),
        };
        metrics.registered(version)
    }

    fn registered(mut self, version: &str) -> Self {
        let registry = &mut self.registry;
        registry.register(
            "bindcar_http_requests",
            "Requests that were answered",
            self.requests.clone(),
        );
        registry.register(
            "bindcar_http_request_duration_seconds",
            "How long answers took",
            self.durations.clone(),
        );
        registry.register(
            "bindcar_zone_operations",
            "What was done to zones and records, and what came of it",
            self.operations.clone(),
        );
        registry.register(
            "bindcar_rate_limit_requests",
            "Requests by whether they were within the limits",
            self.limited.clone(),
        );
        registry.register(
            "bindcar_zones_managed",
            "Zones as of the last time that they were listed",
            self.managed.clone(),
        );
        registry.register(
            "bindery_sidecar_zones_expected",
            "Zones that the server should have",
            self.expected.clone(),
        );
        registry.register(
            "bindery_sidecar_ready",
            "Whether the server may be asked",
            self.ready.clone(),
        );
        let labels = [("version".to_owned(), version.to_owned())];
        let info = prometheus_client::metrics::info::Info::new(labels);
        registry.register("bindcar_app", "What runs here", info);
        self
    }

    /// A request was answered.
    pub(super) fn count_request(&self, (method, path): (&str, &str), status: u16, took: Duration) {
        let labels = RequestLabels {
            method: method.to_owned(),
            path: path.to_owned(),
            status,
        };
        self.requests.get_or_create(&labels).inc();
        self.durations.observe(took.as_secs_f64());
    }

    /// Something was done to a zone or a record.
    pub(super) fn count_operation(&self, operation: &'static str, is_done: bool) {
        let result = if is_done { "success" } else { "error" };
        let labels = OperationLabels { operation, result };
        self.operations.get_or_create(&labels).inc();
    }

    /// A request was within the limits, or not.
    pub(super) fn count_allowance(&self, is_allowed: bool) {
        let result = if is_allowed { "allowed" } else { "rejected" };
        self.limited.get_or_create(&ResultLabels { result }).inc();
    }

    pub(super) fn set_managed(&self, zones: usize) {
        self.managed.set(i64::try_from(zones).unwrap_or(i64::MAX));
    }

    pub(super) fn set_readiness(&self, is_ready: bool, expected: usize) {
        self.ready.set(i64::from(is_ready));
        self.expected
            .set(i64::try_from(expected).unwrap_or(i64::MAX));
    }

    /// The page.
    pub(super) fn page(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

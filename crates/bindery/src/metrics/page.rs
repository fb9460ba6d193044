//! The three pages of the metrics address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use bindery_engine::Engine;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::process::Process;
use super::readiness::Readiness;
use crate::control::Control;

/// The content type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the numbers of the pages come from.
pub(crate) struct Sources {
    /// All metrics.
    pub(crate) registry: Registry,
    /// What `/readyz` says.
    pub(crate) readiness: Readiness,
}

impl Sources {
    /// Numbers that every way of running has.
    pub(crate) fn new(readiness: Readiness) -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("bindery_build", "The running version", build);
        registry.register_collector(Box::new(Process::new()));
        Self {
            registry,
            readiness,
        }
    }

    /// Adds the counters of engine and controllers.
    pub(crate) fn add_control(&mut self, control: &Control) {
        let engine = EngineCounters(control.engine.clone());
        self.registry.register_collector(Box::new(engine));
    }
}

/// Serves the pages until `stop`.
pub(crate) async fn serve(listener: TcpListener, sources: Sources, stop: CancellationToken) {
    let pages = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(Arc::new(sources));
    let served = axum::serve(listener, pages).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "metrics are no longer served");
    }
}

async fn metrics(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    let mut page = String::new();
    match encode(&mut page, &sources.registry) {
        Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, OPEN_METRICS)], page),
        Err(error) => {
            let text = [(header::CONTENT_TYPE, "text/plain")];
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                text,
                format!("{error}\n"),
            )
        }
    }
}

async fn readyz(State(sources): State<Arc<Sources>>) -> impl IntoResponse {
    let waiting = sources.readiness.waiting();
    if waiting.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("waiting for {}\n", waiting.join(", ")),
    )
}

struct EngineCounters(Engine);

impl std::fmt::Debug for EngineCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EngineCounters")
    }
}

impl Collector for EngineCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counters = self.0.metrics();
        let rows: [(&str, &str, &AtomicU64); 6] = [
            ("batches", "Update messages sent", &counters.batches),
            ("sets_sent", "Record sets sent", &counters.sets_sent),
            (
                "sets_verified",
                "Record sets read back",
                &counters.sets_verified,
            ),
            (
                "sets_refused",
                "Record sets that a server refused",
                &counters.sets_refused,
            ),
            (
                "steps_failed",
                "Steps that failed and are tried again",
                &counters.steps_failed,
            ),
            ("transfers", "Transfers of whole zones", &counters.transfers),
        ];
        for (name, help, value) in rows {
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            let name = format!("bindery_engine_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}

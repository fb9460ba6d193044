//! The three pages of the metrics address.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use bindery_embedded::EmbeddedApi;
use bindery_engine::Engine;
use bindery_kube::Handle;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::api::ApiNumbers;
use super::controllers::ControllerNumbers;
use super::engine::EngineNumbers;
use super::process::Process;
use super::readiness::Readiness;

/// The content type of `OpenMetrics` text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the numbers of the pages come from.
pub(crate) struct Sources {
    registry: Registry,
    readiness: Readiness,
}

impl Sources {
    /// Numbers of the process, the engine and the controllers.
    pub(crate) fn new(readiness: Readiness, engine: Engine, controllers: Handle) -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("bindery_build", "The running version", build);
        registry.register_collector(Box::new(Process::new()));
        registry.register_collector(Box::new(EngineNumbers(engine)));
        registry.register_collector(Box::new(ControllerNumbers(controllers)));
        Self {
            registry,
            readiness,
        }
    }

    /// Numbers of the embedded API too.
    pub(crate) fn with_api(mut self, api: EmbeddedApi) -> Self {
        self.registry.register_collector(Box::new(ApiNumbers(api)));
        self
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

#[cfg(test)]
mod tests;

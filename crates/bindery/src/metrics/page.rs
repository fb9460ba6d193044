//! The pages of the metrics address.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bindery_apiserver::{EmbeddedApi, is_own_host};
use bindery_engine::Engine;
use bindery_engine::balancing::BalancerEngine;
use bindery_kube::{BalancersHandle, Handle};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::api::ApiNumbers;
use super::balancers::BalancerNumbers;
use super::controllers::ControllerNumbers;
use super::debug;
use super::election::ElectionNumbers;
use super::engine::{EngineNumbers, ServersFileNumbers};
use super::format;
use super::process::ProcessMetrics;
use super::readiness::Readiness;
use crate::election::ElectionReport;
use crate::servers::ServersReport;

/// What every page is made of.
pub(super) type PageState = State<Arc<Sources>>;

/// Where the numbers of the pages come from.
pub(crate) struct Sources {
    registry: Registry,
    readiness: Readiness,
    controllers: Handle,
    api: Option<EmbeddedApi>,
    election: Option<ElectionReport>,
    balancers: Option<BalancersHandle>,
}

impl Sources {
    /// Numbers of the process, the engine and the controllers.
    pub(crate) fn new(readiness: Readiness, engine: Engine, controllers: Handle) -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("bindery_build", "The running version", build);
        registry.register_collector(Box::new(ProcessMetrics::new()));
        registry.register_collector(Box::new(EngineNumbers(engine)));
        registry.register_collector(Box::new(ControllerNumbers(controllers.clone())));
        Self {
            registry,
            readiness,
            controllers,
            api: None,
            election: None,
            balancers: None,
        }
    }

    /// Whether the file of name servers can be used, too.
    pub(crate) fn with_servers_file(mut self, report: ServersReport) -> Self {
        let numbers = ServersFileNumbers(report);
        self.registry.register_collector(Box::new(numbers));
        self
    }

    /// What this process is among others, too.
    pub(crate) fn with_election(mut self, report: ElectionReport) -> Self {
        let numbers = ElectionNumbers(report.clone());
        self.registry.register_collector(Box::new(numbers));
        let asked = report.clone();
        self.readiness.ask(move || asked.waiting());
        self.election = Some(report);
        self
    }

    /// Numbers of load balancers too, where this process gives any.
    pub(crate) fn with_balancers(mut self, balancers: Option<BalancersHandle>) -> Self {
        if let Some(balancers) = &balancers {
            let numbers = BalancerNumbers(balancers.clone());
            self.registry.register_collector(Box::new(numbers));
        }
        self.balancers = balancers;
        self
    }

    /// The engine of load balancers, where this process gives any.
    pub(super) fn balancer_engine(&self) -> Option<&BalancerEngine> {
        self.balancers.as_ref().map(BalancersHandle::engine)
    }

    /// Numbers of the embedded API too, and whether it can be written.
    pub(crate) fn with_api(mut self, api: EmbeddedApi) -> Self {
        let numbers = ApiNumbers(api.clone());
        self.registry.register_collector(Box::new(numbers));
        self.api = Some(api);
        self
    }
}

/// Serves the pages until `stop`, to those who ask for them by an address or name of this machine.
pub(crate) async fn serve(listener: TcpListener, sources: Sources, stop: CancellationToken) {
    let local = match listener.local_addr() {
        Ok(local) => local.ip(),
        Err(error) => {
            tracing::error!(%error, "the listener of metrics has no address");
            return;
        }
    };
    let served =
        axum::serve(listener, pages(local, sources)).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "metrics are no longer served");
    }
}

fn pages(local: IpAddr, sources: Sources) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/debug/difftracker/services", get(debug::services))
        .route("/debug/difftracker/buffered", get(debug::buffered))
        .with_state(Arc::new(sources))
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            answer_own(local, request, next)
        }))
}

/// Refuses what a web page sends that has its own name resolve to this machine.
async fn answer_own(local: IpAddr, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let names = [bindery_apiserver::host_name()];
    if host.is_some_and(|host| is_own_host(host, local, &names)) {
        return next.run(request).await;
    }
    let why = "the Host header does not name this server; ask for it by its address\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

async fn metrics(State(sources): PageState, headers: HeaderMap) -> Response {
    let mut page = String::new();
    if let Err(error) = encode(&mut page, &sources.registry) {
        return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response();
    }
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|one| one.to_str().ok()).collect();
    if format::wants_open_metrics(&accepted.join(",")) {
        ([(header::CONTENT_TYPE, format::OPEN_METRICS)], page).into_response()
    } else {
        let page = format::classic(&page);
        ([(header::CONTENT_TYPE, format::CLASSIC)], page).into_response()
    }
}

async fn readyz(State(sources): PageState) -> impl IntoResponse {
    let refusal = sources.api.as_ref().and_then(EmbeddedApi::refusal);
    if let Some(refusal) = refusal {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{refusal}\n"));
    }
    let mut waiting = sources.readiness.waiting();
    if sources.controllers.all_watches_fail() {
        waiting.push("the Kubernetes API, where every watch fails".into());
    }
    if waiting.is_empty() {
        let follower = sources.election.as_ref();
        let follower = follower.and_then(ElectionReport::follower);
        let text = follower.map_or_else(|| "ok\n".to_owned(), |text| format!("ok: {text}\n"));
        return (StatusCode::OK, text);
    }
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("waiting for {}\n", waiting.join(", ")),
    )
}

#[cfg(test)]
pub(super) mod tests;

//! The sidecar's server: limits first, then who asks, then what is asked.

mod body;
mod entry;
mod failure;
mod limits;
mod metrics;
mod readiness;
mod records;
mod review;
#[cfg(test)]
mod tests;
mod tls;
mod zones;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use bindery_http::{BoxedError, ConnectionLimits, Heard, HttpService};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::expected::Expectation;
use crate::named::{NamedControl, NamedOptions};
use entry::Doorkeeper;
pub use entry::Entry;
use failure::NotDone;
use limits::Allowance;
pub use limits::RequestLimits;
use metrics::SidecarMetrics;
use readiness::LastReadiness;
pub use review::ReviewPolicy;
use tls::TlsIdentity;
pub use tls::{SetupError, TlsFiles};

/// What the paths of the API begin with.
const BASE: &str = "/api/v1";
/// Requests under way at a time; each holds its body.
const REQUESTS_MAX: usize = 256;

/// How a sidecar is set up.
pub struct ServerSetup {
    /// The `named` beside it.
    pub named: NamedOptions,
    /// What callers have to show.
    pub entry: Entry,
    /// How often may be asked; without it as often as anybody likes.
    pub limits: Option<RequestLimits>,
    /// A file with the zones that the server should have.
    pub expected: Option<PathBuf>,
    /// Whether the server is not ready before somebody has told which zones it should have.
    pub waits_for_expected: bool,
    /// With what TLS is spoken; without it plain HTTP is.
    pub tls: Option<TlsFiles>,
}

/// A sidecar that can be served.
pub struct SidecarServer {
    served: ServedSidecar,
    app: Arc<App>,
}

/// What answers requests.
struct App {
    named: NamedControl,
    expectation: Expectation,
    last_readiness: LastReadiness,
    metrics: Arc<SidecarMetrics>,
}

/// The API as connections see it.
struct ServedSidecar {
    router: Router,
    keeper: Doorkeeper,
    allowance: Allowance,
    body_len_max: usize,
    places: Semaphore,
    metrics: Arc<SidecarMetrics>,
    tls: Option<TlsIdentity>,
}

impl SidecarServer {
    /// A sidecar; nothing is asked of anybody yet.
    ///
    /// # Errors
    /// If the files for TLS cannot be used.
    pub fn new(setup: ServerSetup) -> Result<Self, SetupError> {
        let folder = setup.named.folder.clone();
        let metrics = Arc::new(SidecarMetrics::new(env!("CARGO_PKG_VERSION")));
        let app = App {
            named: NamedControl::new(setup.named),
            expectation: Expectation::new(&folder, setup.expected, setup.waits_for_expected),
            last_readiness: LastReadiness::default(),
            metrics: Arc::clone(&metrics),
        };
        let app = Arc::new(app);
        let served = ServedSidecar {
            router: router(Arc::clone(&app)),
            keeper: Doorkeeper::new(setup.entry),
            body_len_max: setup.limits.unwrap_or_default().body_len_max,
            allowance: Allowance::new(setup.limits),
            places: Semaphore::new(REQUESTS_MAX),
            metrics,
            tls: setup.tls.map(TlsIdentity::new).transpose()?,
        };
        Ok(Self { served, app })
    }

    /// Serves on `listener` until `stop`.
    ///
    /// # Cancellation
    /// Dropping it closes every connection; what `named` was asked for may be done all the same.
    ///
    /// # Limits
    /// Those of its setup, 256 requests at a time, and those of connections.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let limits = ConnectionLimits::default();
        tokio::select! {
            biased;
            never = self.app.named.follow_keys() => match never {},
            () = bindery_http::serve(listener, Arc::new(self.served), limits, stop) => {}
        }
    }
}

impl App {
    /// The first serial of a zone that has none: the day, and 01.
    fn today(&self) -> u32 {
        let seconds = i64::try_from((self.named.clock)()).unwrap_or_default();
        let now = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        let day = now.to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y%m%d01");
        day.to_string().parse().unwrap_or(1)
    }
}

fn router(app: Arc<App>) -> Router {
    let one = get(zones::get).patch(zones::patch).delete(zones::delete);
    let of_zone = post(records::add)
        .put(records::replace)
        .delete(records::remove);
    let api = Router::new()
        .route("/health", get(readiness::health))
        .route("/ready", get(readiness::ready))
        .route("/zones", post(zones::create).get(zones::list))
        .route("/zones/{name}", one)
        .route("/zones/{name}/reload", post(zones::reload))
        .route("/zones/{name}/freeze", post(zones::freeze))
        .route("/zones/{name}/thaw", post(zones::thaw))
        .route("/zones/{name}/notify", post(zones::notify))
        .route("/zones/{name}/retransfer", post(zones::retransfer))
        .route("/zones/{name}/status", get(zones::status))
        .route("/zones/{name}/ds", get(records::ds))
        .route("/zones/{name}/dnssec/checkds", post(records::check_ds))
        .route("/zones/{name}/records", of_zone)
        .route("/dnssec/keys", get(zones::signing_keys))
        .route("/server/status", get(zones::server_status))
        .route(
            "/expected",
            put(readiness::put_expected).get(readiness::expected),
        );
    Router::new()
        .nest(BASE, api)
        .route("/health", get(readiness::health))
        .route("/ready", get(readiness::ready))
        .route("/metrics", get(page))
        .fallback(async || NotDone::new(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            let error = "this path is not asked in this way";
            NotDone::new(StatusCode::METHOD_NOT_ALLOWED, error)
        })
        .with_state(app)
}

async fn page(State(app): State<Arc<App>>) -> Response {
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (kind, app.metrics.page()).into_response()
}

impl HttpService for ServedSidecar {
    type Body = Body;

    fn tls(&self, _address: IpAddr) -> Result<Option<Arc<ServerConfig>>, BoxedError> {
        Ok(self.tls.as_ref().map(TlsIdentity::config))
    }

    fn plain_refusal(&self) -> Option<&'static str> {
        Some("this sidecar speaks HTTPS")
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Heard<Incoming>>,
        peer: SocketAddr,
    ) -> Response {
        self.counted(request, peer).await
    }
}

impl ServedSidecar {
    /// Answers, counts and, where something was to change, logs.
    async fn counted(&self, request: Request<Heard<Incoming>>, peer: SocketAddr) -> Response {
        let since = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (response, who) = match self.admitted(request, peer).await {
            Ok((response, who)) => (response, who),
            Err(failure) => (failure.into_response(), "nobody".into()),
        };
        let (label, status) = (path_label(&path), response.status());
        let took = since.elapsed();
        self.metrics
            .count_request((method.as_str(), &label), status.as_u16(), took);
        if let Some(operation) = operation(&method, &label) {
            self.metrics.count_operation(operation, status.is_success());
            tracing::info!(
                %method, path, status = status.as_u16(), %who, %peer, operation,
                milliseconds = took.as_millis(),
                "a request to change something was answered"
            );
        }
        response
    }

    async fn admitted(
        &self,
        request: Request<Heard<Incoming>>,
        peer: SocketAddr,
    ) -> Result<(Response, Arc<str>), NotDone> {
        let allowed = self.allowance.take(peer.ip());
        self.metrics.count_allowance(allowed.is_ok());
        allowed.map_err(|wait| {
            let error = "too many requests";
            NotDone::new(StatusCode::TOO_MANY_REQUESTS, error).after(wait)
        })?;
        let who = if is_for_everybody(request.uri().path()) {
            "anybody".into()
        } else {
            self.keeper.admit(request.headers()).await?
        };
        // Nobody closes it.
        let _place = self.places.acquire().await;
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, self.body_len_max).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let error = format!("the request is longer than {} bytes", self.body_len_max);
                return NotDone::new(StatusCode::PAYLOAD_TOO_LARGE, error);
            }
            NotDone::bad_request("the request ended early").with_details(error.to_string())
        })?;
        let request = Request::from_parts(parts, Body::from(body.to_bytes()));
        let Ok(response) = self.router.clone().oneshot(request).await;
        Ok((response, who))
    }
}

/// Whether anybody may ask for this: it tells nothing of the zones but which are missing.
fn is_for_everybody(path: &str) -> bool {
    let path = path.strip_prefix(BASE).unwrap_or(path);
    matches!(path, "/health" | "/ready" | "/metrics")
}

/// The path without what differs from zone to zone.
fn path_label(path: &str) -> String {
    let Some(rest) = path
        .strip_prefix(BASE)
        .and_then(|path| path.strip_prefix("/zones/"))
    else {
        let is_known = is_for_everybody(path)
            || matches!(
                path.strip_prefix(BASE),
                Some("/zones" | "/server/status" | "/expected")
            );
        return if is_known {
            path.to_owned()
        } else {
            "other".to_owned()
        };
    };
    match rest.split_once('/') {
        None => format!("{BASE}/zones/{{name}}"),
        Some((_, end)) => match end {
            "reload" | "freeze" | "thaw" | "notify" | "retransfer" | "status" | "ds"
            | "dnssec/checkds" | "records" => format!("{BASE}/zones/{{name}}/{end}"),
            _ => "other".to_owned(),
        },
    }
}

/// What a request is to change; nothing where it only looks.
fn operation(method: &Method, label: &str) -> Option<&'static str> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let end = label.strip_prefix("/api/v1/").unwrap_or(label);
    let end = end.strip_prefix("zones/{name}").unwrap_or(end);
    Some(match (end, method.as_str()) {
        ("zones", _) => "create",
        ("", "DELETE") => "delete",
        ("", _) => "modify",
        ("/reload", _) => "reload",
        ("/freeze", _) => "freeze",
        ("/thaw", _) => "thaw",
        ("/notify", _) => "notify",
        ("/retransfer", _) => "retransfer",
        ("/dnssec/checkds", _) => "checkds",
        ("/records", "POST") => "add_record",
        ("/records", "PUT") => "update_record",
        ("/records", _) => "remove_record",
        ("expected", _) => "expect",
        _ => "other",
    })
}

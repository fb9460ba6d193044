//! The API over HTTP/1 and HTTP/2, for `kubectl` and whatever else speaks Kubernetes.
//!
//! A web page in the user's browser must not reach it: requests whose `Host` is not this server's own
//! address, or that carry a foreign `Origin`, are refused before anything else happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::EmbeddedApi;
use super::body::ApiBody;
use super::failure::Failure;
use super::service::{ApiService, refused};

/// Connections at a time; each costs a few file handles and up to 3 MiB of body.
const CONNECTIONS_MAX: usize = 512;
/// Requests under way at a time over all connections; watches do not count once they have begun.
const REQUESTS_MAX: usize = 1_024;
/// How long a client may take to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests under way may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How the API is served.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// What a client must send as `Authorization: Bearer …`. Needed on an address that other machines
    /// can reach; without it such requests are all refused.
    pub token: Option<Arc<str>>,
    /// Names besides the listener's own address and localhost that clients may call it by.
    pub host_names: Vec<String>,
}

struct Gate {
    local: SocketAddr,
    options: ServeOptions,
    requests: Semaphore,
}

impl EmbeddedApi {
    /// Serves the API on `listener` until `stop`.
    ///
    /// # Cancellation
    /// Dropping it closes every connection.
    ///
    /// # Limits
    /// 512 connections and 1,024 requests at a time; more wait.
    pub async fn serve(
        self,
        listener: TcpListener,
        options: ServeOptions,
        stop: CancellationToken,
    ) {
        let local = match listener.local_addr() {
            Ok(local) => local,
            Err(error) => {
                tracing::error!(%error, "the API's listener has no address");
                return;
            }
        };
        let gate = Arc::new(Gate {
            local,
            options,
            requests: Semaphore::new(REQUESTS_MAX),
        });
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&places).acquire_owned();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_ended) = connections.join_next() => {}
                accepted = async { (place.await, listener.accept().await) } => {
                    let (Ok(place), Ok((socket, _))) = accepted else {
                        // Out of file handles: wait until some connection ends.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    let (gate, service, stop) = (Arc::clone(&gate), self.service(), stop.clone());
                    connections.spawn(async move {
                        serve_connection(socket, gate, service, stop).await;
                        drop(place);
                    });
                }
            }
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        // Watches have ended; what is not done by then is cut off.
        let _cut_off = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    }
}

async fn serve_connection(
    socket: TcpStream,
    gate: Arc<Gate>,
    service: ApiService,
    stop: CancellationToken,
) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn off Nagle's algorithm");
    }
    let ending = stop.clone();
    let answering = service_fn(move |request: Request<Incoming>| {
        let (gate, mut service) = (Arc::clone(&gate), service.clone());
        let ending = ending.clone();
        async move {
            if let Err(failure) = gate.check(request.uri(), request.headers()) {
                return Ok(refused(&failure));
            }
            let Ok(_place) = gate.requests.acquire().await else {
                return Ok(refused(&Failure::internal("the server is stopping")));
            };
            let answer: Result<Response<ApiBody>, std::convert::Infallible> =
                service.call(request).await;
            answer.map(|answer| answer.map(|body| body.until(ending)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250);
    let connection = builder.serve_connection(TokioIo::new(socket), answering);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an API connection ended early");
    }
}

impl Gate {
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let host = uri.authority().map(http::uri::Authority::as_str);
        let host = host.or_else(|| {
            headers
                .get(header::HOST)
                .and_then(|host| host.to_str().ok())
        });
        if !host.is_some_and(|host| self.is_own(host)) {
            return Err(forbidden("the Host header does not name this server"));
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let own = origin
                .strip_prefix("http://")
                .is_some_and(|host| self.is_own(host));
            if !own {
                return Err(forbidden("requests from other web pages are refused"));
            }
        }
        self.check_token(headers)
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.options.token else {
            if self.local.ip().is_loopback() {
                return Ok(());
            }
            let why = "this API can be reached from other machines but has no token";
            return Err(forbidden(why));
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .map_or(&b""[..], |value| value.as_bytes());
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        if same_in_constant_time(given, token.as_bytes()) {
            return Ok(());
        }
        Err(Failure::new(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "Unauthorized",
        ))
    }

    /// Whether `host` (with or without port) is this server.
    fn is_own(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        if port.is_some_and(|port| port.parse() != Ok(self.local.port())) {
            return false;
        }
        let name = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_lowercase();
        let own_address = name.parse().is_ok_and(|address: std::net::IpAddr| {
            address.to_canonical() == self.local.ip().to_canonical()
                || (address.is_loopback() && self.local.ip().is_loopback())
                || self.local.ip().is_unspecified()
        });
        own_address || name == "localhost" || self.options.host_names.contains(&name)
    }
}

fn forbidden(why: &str) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, "Forbidden", why)
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        Some(_) | None => (host, None),
    }
}

/// Compares without telling by its duration where the first difference is.
fn same_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let differences = one
        .iter()
        .zip(other)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn gate(local: &str, token: Option<&str>) -> Gate {
        Gate {
            local: local.parse().unwrap(),
            options: ServeOptions {
                token: token.map(Into::into),
                host_names: Vec::new(),
            },
            requests: Semaphore::new(1),
        }
    }

    fn check(gate: &Gate, headers: &[(&'static str, &str)]) -> u16 {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect();
        match gate.check(&Uri::from_static("/api"), &headers) {
            Ok(()) => 200,
            Err(failure) => failure.code.as_u16(),
        }
    }

    #[test]
    fn only_its_own_names_reach_it() {
        let gate = gate("127.0.0.1:6430", None);
        for host in [
            "127.0.0.1:6430",
            "localhost:6430",
            "localhost",
            "LOCALHOST:6430",
            "[::1]:6430",
        ] {
            assert_eq!(check(&gate, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:6430",
            "127.0.0.1:80",
            "192.0.2.1:6430",
            "",
        ] {
            assert_eq!(check(&gate, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(check(&gate, &[]), 403);
    }

    #[test]
    fn a_foreign_origin_is_refused() {
        let gate = gate("127.0.0.1:6430", None);
        let own = [
            ("host", "localhost:6430"),
            ("origin", "http://localhost:6430"),
        ];
        assert_eq!(check(&gate, &own), 200);
        for origin in [
            "http://evil.example",
            "https://localhost:6430",
            "null",
            "http://localhost:1",
        ] {
            let headers = [("host", "localhost:6430"), ("origin", origin)];
            assert_eq!(check(&gate, &headers), 403, "{origin}");
        }
    }

    #[test]
    fn an_address_others_can_reach_needs_a_token() {
        let host = ("host", "192.0.2.1:6430");
        assert_eq!(check(&gate("192.0.2.1:6430", None), &[host]), 403);
        let gate = gate("192.0.2.1:6430", Some("secret"));
        assert_eq!(check(&gate, &[host]), 401);
        assert_eq!(
            check(&gate, &[host, ("authorization", "Bearer secre")]),
            401
        );
        assert_eq!(
            check(&gate, &[host, ("authorization", "Bearer secret")]),
            200
        );
    }
}

//! The API over HTTP/1 and HTTP/2, for `kubectl` and whatever else speaks Kubernetes.
//!
//! A web page in the user's browser must not reach it, and connections that do nothing must not keep
//! others out. With an [`Identity`] it speaks TLS, and where other machines can reach it nothing else.

mod gate;
mod identity;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bindery_http::{BoxedError, ConnectionLimits, Heard, HttpService};
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::EmbeddedApi;
use super::body::ApiBody;
use super::failure::Failure;
use super::service::{ApiService, refused};
use gate::Gate;
pub use gate::is_own_host;
pub use identity::{Identity, IdentityError, host_name};

/// Requests under way at a time over all connections; watches do not count once they have begun.
const REQUESTS_MAX: usize = 1_024;

/// How the API is served.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// What a client must send as `Authorization: Bearer …`. Needed on an address that other machines
    /// can reach; without it such requests are all refused.
    pub token: Option<Arc<str>>,
    /// Names besides the listener's own address and localhost that clients may call it by.
    pub host_names: Vec<String>,
    /// With what it speaks TLS. On loopback plain HTTP is answered on the same port too.
    pub identity: Option<Arc<Identity>>,
}

impl EmbeddedApi {
    /// Serves the API on `listener` until `stop`.
    ///
    /// # Cancellation
    /// Dropping it closes every connection.
    ///
    /// # Limits
    /// 512 connections and 1,024 requests at a time; more wait. A connection on which nothing is under
    /// way is closed after a minute, and at once when its place is wanted.
    pub async fn serve(
        self,
        listener: TcpListener,
        options: ServeOptions,
        stop: CancellationToken,
    ) {
        self.serve_within(ConnectionLimits::default(), listener, options, stop)
            .await;
    }

    async fn serve_within(
        self,
        limits: ConnectionLimits,
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
        let gate = Gate {
            local,
            options,
            requests: Semaphore::new(REQUESTS_MAX),
        };
        let served = ServedApi {
            gate: Arc::new(gate),
            service: self.service(),
            stop: stop.clone(),
        };
        bindery_http::serve(listener, Arc::new(served), limits, stop).await;
    }
}

/// The API as connections see it.
struct ServedApi {
    gate: Arc<Gate>,
    service: ApiService,
    stop: CancellationToken,
}

impl HttpService for ServedApi {
    type Body = ApiBody;

    fn tls(&self, address: IpAddr) -> Result<Option<Arc<ServerConfig>>, BoxedError> {
        let identity = self.gate.options.identity.as_ref();
        let config = identity.map(|identity| identity.config(address));
        Ok(config.transpose()?)
    }

    fn plain_refusal(&self) -> Option<&'static str> {
        let is_open = self.gate.local.ip().is_loopback();
        (!is_open)
            .then_some("this API speaks HTTPS here; use the kubeconfig that bindery up has written")
    }

    fn answer(
        self: Arc<Self>,
        request: Request<Heard<Incoming>>,
        _peer: SocketAddr,
    ) -> impl Future<Output = Response<ApiBody>> + Send + 'static {
        let (gate, mut service) = (Arc::clone(&self.gate), self.service.clone());
        let ending = self.stop.clone();
        async move {
            if let Err(failure) = gate.check(request.uri(), request.headers()) {
                refused(&failure)
            } else if let Ok(_place) = gate.requests.acquire().await {
                let Ok(answer) = service.call(request).await;
                answer.map(|body| body.until(ending))
            } else {
                refused(&Failure::internal("the server is stopping"))
            }
        }
    }
}

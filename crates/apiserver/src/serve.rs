//! The API over HTTP/1 and HTTP/2, for `kubectl` and whatever else speaks Kubernetes.
//!
//! A web page in the user's browser must not reach it, and connections that do nothing must not keep
//! others out. With an [`Identity`] it speaks TLS, and where other machines can reach it nothing else.

mod gate;
mod identity;
#[cfg(test)]
mod tests;
mod turns;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::EmbeddedApi;
use super::body::ApiBody;
use super::failure::Failure;
use super::service::{ApiService, refused};
use gate::Gate;
pub use gate::is_own_host;
pub use identity::{Identity, IdentityError, host_name};
use turns::{Heard, Noted, Patience, Told, Turns};

/// Connections at a time; each costs a few file handles and up to 3 MiB of body.
const CONNECTIONS_MAX: usize = 512;
/// Connections beyond that, for newcomers while a quiet one gives way.
const NEWCOMERS_MAX: usize = 16;
/// Requests under way at a time over all connections; watches do not count once they have begun.
const REQUESTS_MAX: usize = 1_024;
/// How long a client may take to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may stand without a request, or with an answer that nobody reads.
const QUIET_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a connection that is closed may take to say so.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
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
    /// With what it speaks TLS. On loopback plain HTTP is answered on the same port too.
    pub identity: Option<Arc<Identity>>,
}

/// How many connections there may be, and how long quiet ones stay.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    patience: Patience,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            patience: Patience {
                first: HEADER_TIMEOUT,
                later: QUIET_TIMEOUT,
            },
        }
    }
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
        self.serve_within(Limits::default(), listener, options, stop)
            .await;
    }

    async fn serve_within(
        self,
        limits: Limits,
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
        let mut standing: Vec<Arc<Turns>> = Vec::new();
        let mut connections = JoinSet::new();
        loop {
            let has_room = connections.len() < limits.connections + NEWCOMERS_MAX;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_ended) = connections.join_next() => {}
                accepted = listener.accept(), if has_room => {
                    let Ok((socket, _)) = accepted else {
                        // Out of file handles: wait until some connection ends.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    let turns = Turns::new(limits.patience);
                    // What has ended is held by nobody else.
                    standing.retain(|one| Arc::strong_count(one) > 1);
                    if standing.len() >= limits.connections {
                        make_room(&standing);
                    }
                    standing.push(Arc::clone(&turns));
                    let served = Served {
                        gate: Arc::clone(&gate),
                        service: self.service(),
                        turns,
                        stop: stop.clone(),
                    };
                    connections.spawn(served.connection(socket));
                }
            }
        }
        let drained = async { while connections.join_next().await.is_some() {} };
        // Watches have ended; what is not done by then is cut off.
        let _cut_off = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    }
}

/// Closes the connection on which nothing has been under way for longest. Where something is under way
/// on all, newcomers wait.
fn make_room(standing: &[Arc<Turns>]) {
    let staying = standing
        .iter()
        .filter(|one| !one.give_way.is_cancelled())
        .filter_map(|one| one.quiet_since().map(|since| (since, one)));
    if let Some((_, quietest)) = staying.min_by_key(|(since, _)| *since) {
        quietest.give_way.cancel();
    }
}

/// One connection and what it needs.
struct Served {
    gate: Arc<Gate>,
    service: ApiService,
    turns: Arc<Turns>,
    stop: CancellationToken,
}

/// The first byte of a TLS handshake (RFC 8446 section 5.1), which no HTTP request has.
const HANDSHAKE: u8 = 22;

/// What those get who speak HTTP where TLS is needed.
const NOT_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Connection: close\r\n\r\nthis API speaks HTTPS here; use the kubeconfig that bindery up has written\n";

/// A connection, once it is known what is spoken on it.
enum Opened {
    Plain(Noted<TcpStream>),
    Tls(Box<TlsStream<Noted<TcpStream>>>),
}

impl Served {
    async fn connection(self, socket: TcpStream) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off Nagle's algorithm");
        }
        let opened = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            () = self.turns.overdue() => return,
            opened = self.open(socket) => opened,
        };
        match opened {
            Ok(Some(Opened::Plain(socket))) => self.talk(socket).await,
            Ok(Some(Opened::Tls(socket))) => self.talk(socket).await,
            Ok(None) => {}
            Err(error) => {
                let error: &dyn std::error::Error = &*error;
                tracing::debug!(error, "an API connection could not be opened");
            }
        }
    }

    /// Finds out what the client speaks. `None` where it must not.
    async fn open(
        &self,
        socket: TcpStream,
    ) -> Result<Option<Opened>, Box<dyn std::error::Error + Send + Sync>> {
        let Some(identity) = &self.gate.options.identity else {
            let socket = Noted::new(socket, Arc::clone(&self.turns));
            return Ok(Some(Opened::Plain(socket)));
        };
        let mut first = [0];
        let called = socket.local_addr()?.ip();
        let is_tls = socket.peek(&mut first).await? == 1 && first == [HANDSHAKE];
        let mut socket = Noted::new(socket, Arc::clone(&self.turns));
        if is_tls {
            let acceptor = TlsAcceptor::from(identity.config(called)?);
            let socket = acceptor.accept(socket).await?;
            return Ok(Some(Opened::Tls(Box::new(socket))));
        }
        if self.gate.local.ip().is_loopback() {
            return Ok(Some(Opened::Plain(socket)));
        }
        socket.write_all(NOT_HTTPS).await?;
        socket.shutdown().await?;
        Ok(None)
    }

    async fn talk<S>(self, socket: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (turns, stop) = (Arc::clone(&self.turns), self.stop.clone());
        let answering = service_fn(move |request| self.answer(request));
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
            () = turns.overdue() => {
                // A client that is about to ask again learns that nothing of it was heard.
                connection.as_mut().graceful_shutdown();
                let closed = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
                closed.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "an API connection ended early");
        }
    }

    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Told<ApiBody>>, Infallible>> + use<> {
        let turn = self.turns.begin();
        let (gate, mut service) = (Arc::clone(&self.gate), self.service.clone());
        let ending = self.stop.clone();
        async move {
            let answer = if let Err(failure) = gate.check(request.uri(), request.headers()) {
                refused(&failure)
            } else if let Ok(_place) = gate.requests.acquire().await {
                let request = request.map(|body| Heard::new(body, Arc::clone(&turn)));
                let Ok(answer) = service.call(request).await;
                answer.map(|body| body.until(ending))
            } else {
                refused(&Failure::internal("the server is stopping"))
            };
            Ok(answer.map(|body| Told::new(body, turn)))
        }
    }
}

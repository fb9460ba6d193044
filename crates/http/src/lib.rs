//! HTTP on a socket, as every server of ours serves it: connections with limits, TLS where it is asked
//! for, an orderly end.
//!
//! Connections that do nothing must not keep others out. It must *never* know what is served: who may ask
//! and what is answered is for whoever listens.

mod turns;

use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

pub use turns::{Heard, Patience, Told};
use turns::{NotedSocket, Turns};

/// Connections at a time; each costs a few file handles and what its request holds.
const CONNECTIONS_MAX: usize = 512;
/// Connections beyond that, for newcomers while a quiet one gives way.
const NEWCOMERS_MAX: usize = 16;
/// How long a client may take to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may stand without a request, or with an answer that nobody reads.
const QUIET_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a connection that is closed may take to say so.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long requests under way may take to end when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// An error of anything that a connection is opened with.
pub type BoxedError = Box<dyn Error + Send + Sync>;

/// How many connections there may be, and how long quiet ones stay.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// How many there may be at a time; the quietest one gives way to one more.
    pub connections: usize,
    /// How long it may be the client's turn.
    pub patience: Patience,
}

impl Default for ConnectionLimits {
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

/// What is spoken on a connection, and who answers.
pub trait HttpService: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<BoxedError>> + Send + Unpin + 'static;

    /// TLS for clients that have called `address`; nothing where plain HTTP is all there is.
    ///
    /// # Errors
    /// If there is no certificate for it; the connection is closed.
    fn tls(&self, address: IpAddr) -> Result<Option<Arc<ServerConfig>>, BoxedError>;

    /// What those get who speak plain HTTP where there is TLS; nothing where they are answered too.
    fn plain_refusal(&self) -> Option<&'static str>;

    /// Answers a request of the client at `peer`.
    fn answer(
        self: Arc<Self>,
        request: Request<Heard<Incoming>>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Serves on `listener` until `stop`.
///
/// # Cancellation
/// Dropping it closes every connection.
///
/// # Limits
/// As many connections as given, and a few newcomers. A connection on which nothing is under way is closed
/// when the patience with it ends, and at once when its place is wanted.
pub async fn serve<E: HttpService>(
    listener: TcpListener,
    endpoint: Arc<E>,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let mut standing: Vec<Arc<Turns>> = Vec::new();
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < limits.connections + NEWCOMERS_MAX;
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept(), if has_room => {
                let Ok((socket, peer)) = accepted else {
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
                    endpoint: Arc::clone(&endpoint),
                    turns,
                    peer,
                    stop: stop.clone(),
                };
                connections.spawn(served.connection(socket));
            }
        }
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    // Streams have ended; what is not done by then is cut off.
    let _cut_off = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
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
struct Served<E> {
    endpoint: Arc<E>,
    turns: Arc<Turns>,
    peer: SocketAddr,
    stop: CancellationToken,
}

/// The first byte of a TLS handshake (RFC 8446 section 5.1), which no HTTP request has.
const HANDSHAKE: u8 = 22;

/// A connection, once it is known what is spoken on it.
enum Opened {
    Plain(NotedSocket<TcpStream>),
    Tls(Box<TlsStream<NotedSocket<TcpStream>>>),
}

impl<E: HttpService> Served<E> {
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
                let error: &dyn Error = &*error;
                tracing::debug!(error, "a connection could not be opened");
            }
        }
    }

    /// Finds out what the client speaks. `None` where it must not.
    async fn open(&self, socket: TcpStream) -> Result<Option<Opened>, BoxedError> {
        let called = socket.local_addr()?.ip();
        let Some(config) = self.endpoint.tls(called)? else {
            let socket = NotedSocket::new(socket, Arc::clone(&self.turns));
            return Ok(Some(Opened::Plain(socket)));
        };
        let mut first = [0];
        let is_tls = socket.peek(&mut first).await? == 1 && first == [HANDSHAKE];
        let mut socket = NotedSocket::new(socket, Arc::clone(&self.turns));
        if is_tls {
            let socket = TlsAcceptor::from(config).accept(socket).await?;
            return Ok(Some(Opened::Tls(Box::new(socket))));
        }
        let Some(refusal) = self.endpoint.plain_refusal() else {
            return Ok(Some(Opened::Plain(socket)));
        };
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{refusal}\n"
        );
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await?;
        Ok(None)
    }

    async fn talk<S>(self, socket: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (turns, stop) = (Arc::clone(&self.turns), self.stop.clone());
        let answering = service_fn(move |request: Request<Incoming>| {
            let turn = self.turns.begin();
            let request = request.map(|body| Heard::new(body, Arc::clone(&turn)));
            let answer = Arc::clone(&self.endpoint).answer(request, self.peer);
            async move { Ok::<_, Infallible>(answer.await.map(|body| Told::new(body, turn))) }
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
            () = turns.overdue() => {
                // A client that is about to ask again learns that nothing of it was heard.
                connection.as_mut().graceful_shutdown();
                let closed = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
                closed.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

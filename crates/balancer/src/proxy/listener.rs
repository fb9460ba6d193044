//! One address and port that the proxy listens on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bindery_core::balancers::FrontProtocol;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::sync::CancellationToken;

use super::route::PortRoute;
use super::{Shared, tcp, udp};
use crate::forwarding::FrontKey;

/// Where something listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListenerKey {
    pub(super) protocol: FrontProtocol,
    pub(super) address: SocketAddr,
}

/// A socket that was opened and does nothing yet.
pub(super) enum OpenSocket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// A listener that runs, from outside.
pub(super) struct Listener {
    stop: CancellationToken,
    /// Cancelled when the socket is closed, by whomever.
    closed: CancellationToken,
}

/// What a listener needs to run.
pub(super) struct ListenerSeat {
    pub(super) route: Arc<PortRoute>,
    pub(super) shared: Arc<Shared>,
    pub(super) stop: CancellationToken,
}

impl ListenerKey {
    pub(super) fn front(&self) -> FrontKey {
        (self.protocol, self.address.port())
    }
}

impl OpenSocket {
    pub(super) async fn open(at: ListenerKey) -> io::Result<Self> {
        match at.protocol {
            FrontProtocol::Tcp => TcpListener::bind(at.address).await.map(Self::Tcp),
            FrontProtocol::Udp => UdpSocket::bind(at.address).await.map(Self::Udp),
        }
    }
}

impl Listener {
    /// A listener, and the task that serves it.
    pub(super) fn new(
        at: ListenerKey,
        socket: OpenSocket,
        route: Arc<PortRoute>,
        shared: &Arc<Shared>,
    ) -> (Self, BoxFuture<'static, ()>) {
        let stop = CancellationToken::new();
        let closed = CancellationToken::new();
        let seat = ListenerSeat {
            route,
            shared: Arc::clone(shared),
            stop: stop.clone(),
        };
        // Whatever ends the task drops the guard after the socket.
        let guard = closed.clone().drop_guard();
        let task: BoxFuture<'static, ()> = match socket {
            OpenSocket::Tcp(listener) => Box::pin(tcp::serve((listener, guard), seat, at.address)),
            OpenSocket::Udp(socket) => Box::pin(udp::serve((socket, guard), seat)),
        };
        (Self { stop, closed }, task)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Closes the socket; connections have their grace.
    pub(super) async fn close(self) {
        self.stop.cancel();
        self.closed.cancelled().await;
    }
}

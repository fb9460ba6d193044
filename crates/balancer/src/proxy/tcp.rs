//! TCP: each connection of a client is one to an endpoint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::DropGuard;

use super::listener::ListenerSeat;
use super::route::PortRoute;

/// What is read at a time, in each direction; whoever reads slowly holds the other side back.
pub(super) const BUFFER_LEN: usize = 16 * 1024;
/// How long a connection is quiet before the other side is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);
/// How long nothing is accepted after the machine had no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until told to stop; then those that stand have their grace.
pub(super) async fn serve(
    (listener, guard): (TcpListener, DropGuard),
    seat: ListenerSeat,
    front: SocketAddr,
) {
    let mut connections = JoinSet::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    loop {
        tokio::select! {
            biased;
            () = seat.stop.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            permit = Arc::clone(&seat.shared.room).acquire_owned(), if room.is_none() => {
                room = permit.ok();
            }
            accepted = listener.accept(), if room.is_some() => match accepted {
                Ok((client, peer)) => {
                    let route = Arc::clone(&seat.route);
                    let timeout = seat.shared.limits.connect_timeout;
                    let permit = room.take();
                    connections.spawn(async move {
                        forward(client, (front, peer), &route, timeout).await;
                        drop(permit);
                    });
                }
                // Out of file handles: what is there goes on.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
    drop(room);
    drop(listener);
    drop(guard);
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is not done by then is cut off with the set of tasks.
    let _cut_off = tokio::time::timeout(seat.shared.limits.grace, drained).await;
}

/// Forwards one connection to the first endpoint that takes it.
async fn forward(
    mut client: TcpStream,
    (front, peer): (SocketAddr, SocketAddr),
    route: &PortRoute,
    timeout: Duration,
) {
    if !route.admits(peer.ip()) {
        return;
    }
    let Some(mut endpoint) = connect(route, front, peer, timeout).await else {
        refuse(&client);
        return;
    };
    for stream in [&client, &endpoint] {
        keep_alive(stream);
    }
    // An end on one side is an end on the other, in that direction; a fault ends both.
    let copied =
        copy_bidirectional_with_sizes(&mut client, &mut endpoint, BUFFER_LEN, BUFFER_LEN).await;
    if copied.is_err() {
        refuse(&client);
        refuse(&endpoint);
    }
}

async fn connect(
    route: &PortRoute,
    front: SocketAddr,
    peer: SocketAddr,
    timeout: Duration,
) -> Option<TcpStream> {
    for endpoint in route.candidates(front, peer.ip()) {
        let connecting = tokio::time::timeout(timeout, TcpStream::connect(endpoint));
        if let Ok(Ok(stream)) = connecting.await {
            route.keep(peer.ip(), endpoint);
            return Some(stream);
        }
    }
    None
}

/// Closes a connection as a fault and not as an end, so that nobody takes what came for the whole.
fn refuse(stream: &TcpStream) {
    // Without it the connection is closed all the same.
    let _plain_end = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

fn keep_alive(stream: &TcpStream) {
    // Neither is needed for forwarding; a machine without them forwards all the same.
    let _slower = stream.set_nodelay(true);
    if sockopt::set_socket_keepalive(stream, true).is_ok() {
        let _longer = sockopt::set_tcp_keepidle(stream, KEEPALIVE);
    }
}

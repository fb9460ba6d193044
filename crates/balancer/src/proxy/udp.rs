//! UDP: the datagrams of one client are a flow to one endpoint, until it is quiet for a while.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use super::listener::ListenerSeat;

/// The longest datagram.
const DATAGRAM_LEN_MAX: usize = 65_535;
/// Datagrams that are forwarded before others have their turn.
const TURN_LEN_MAX: usize = 64;

/// One client's flow.
struct Flow {
    number: u64,
    endpoint: SocketAddr,
    upstream: Arc<UdpSocket>,
    /// When the last datagram passed, in either direction.
    seen: Arc<Mutex<Instant>>,
    task: AbortHandle,
}

/// All flows of one listener.
struct Flows {
    socket: Arc<UdpSocket>,
    front: SocketAddr,
    seat: ListenerSeat,
    by_client: BTreeMap<SocketAddr, Flow>,
    /// Each tells of its end by client and number.
    tasks: JoinSet<(SocketAddr, u64)>,
    started: u64,
    buffer: Vec<u8>,
}

/// Forwards datagrams until told to stop.
pub(super) async fn serve((socket, guard): (UdpSocket, DropGuard), seat: ListenerSeat) {
    let Ok(front) = socket.local_addr() else {
        return;
    };
    let mut view = seat.route.subscribe();
    let mut flows = Flows {
        socket: Arc::new(socket),
        front,
        seat,
        by_client: BTreeMap::new(),
        tasks: JoinSet::new(),
        started: 0,
        buffer: vec![0; DATAGRAM_LEN_MAX],
    };
    loop {
        tokio::select! {
            biased;
            () = flows.seat.stop.cancelled() => break,
            Some(ended) = flows.tasks.join_next() => {
                if let Ok((client, number)) = ended {
                    flows.forget(client, number);
                }
            }
            Ok(()) = view.changed() => {
                let now = view.borrow_and_update().clone();
                flows.drop_where(|endpoint| !now.has(endpoint));
            }
            Ok(()) = flows.socket.readable() => flows.forward(),
        }
    }
    // A flow has no end to wait for. Its task holds the socket, so the tasks go first.
    flows.tasks.shutdown().await;
    drop(flows);
    drop(guard);
}

impl Flows {
    /// Forwards what has come from clients.
    fn forward(&mut self) {
        for _ in 0..TURN_LEN_MAX {
            let Ok((len, client)) = self.socket.try_recv_from(&mut self.buffer) else {
                return;
            };
            if !self.seat.route.admits(client.ip()) {
                continue;
            }
            let Some(flow) = self.by_client.get(&client) else {
                self.begin(client, len);
                continue;
            };
            touch(&flow.seen);
            // A datagram that finds no room is lost, as datagrams are.
            if let Err(error) = flow.upstream.try_send(&self.buffer[..len])
                && error.kind() != io::ErrorKind::WouldBlock
            {
                let number = flow.number;
                self.forget(client, number);
            }
        }
    }

    /// Begins a flow with the datagram that has come, if there is an endpoint and room.
    fn begin(&mut self, client: SocketAddr, len: usize) {
        let Ok(permit) = Arc::clone(&self.seat.shared.room).try_acquire_owned() else {
            return;
        };
        let candidates = self.seat.route.candidates(self.front, client.ip());
        let opened = candidates.into_iter().find_map(|endpoint| {
            let upstream = upstream(endpoint, &self.buffer[..len]).ok()?;
            Some((endpoint, upstream))
        });
        let Some((endpoint, upstream)) = opened else {
            return;
        };
        self.seat.route.keep(client.ip(), endpoint);
        self.started += 1;
        let number = self.started;
        let upstream = Arc::new(upstream);
        let seen = Arc::new(Mutex::new(Instant::now()));
        let replies = Replies {
            upstream: Arc::clone(&upstream),
            socket: Arc::clone(&self.socket),
            client,
            seen: Arc::clone(&seen),
            idle_timeout: self.seat.shared.limits.idle_timeout,
        };
        let task = self.tasks.spawn(async move {
            replies.forward().await;
            drop(permit);
            (client, number)
        });
        let flow = Flow {
            number,
            endpoint,
            upstream,
            seen,
            task,
        };
        self.by_client.insert(client, flow);
    }

    fn forget(&mut self, client: SocketAddr, number: u64) {
        if self
            .by_client
            .get(&client)
            .is_some_and(|flow| flow.number == number)
            && let Some(flow) = self.by_client.remove(&client)
        {
            flow.task.abort();
        }
    }

    fn drop_where(&mut self, is_gone: impl Fn(SocketAddr) -> bool) {
        let gone = self
            .by_client
            .extract_if(.., |_, flow| is_gone(flow.endpoint));
        for (_, flow) in gone {
            flow.task.abort();
        }
    }
}

/// What comes back from an endpoint to one client.
struct Replies {
    upstream: Arc<UdpSocket>,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    seen: Arc<Mutex<Instant>>,
    idle_timeout: Duration,
}

impl Replies {
    /// Forwards until the flow is quiet for too long or the endpoint refuses it.
    async fn forward(self) {
        loop {
            let idle_at = *lock(&self.seen) + self.idle_timeout;
            tokio::select! {
                biased;
                readable = self.upstream.readable() => {
                    if readable.is_err() || self.pass_on().is_err() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                () = tokio::time::sleep_until(idle_at) => {
                    if Instant::now() >= *lock(&self.seen) + self.idle_timeout {
                        return;
                    }
                }
            }
        }
    }

    /// Passes on what is there. An endpoint where nobody listens is an error.
    fn pass_on(&self) -> io::Result<()> {
        // Taken for a moment only: flows are many, and few of them have something at the same time.
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        for _ in 0..TURN_LEN_MAX {
            let len = match self.upstream.try_recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            touch(&self.seen);
            // A datagram that finds no room is lost, as datagrams are.
            let _lost = self.socket.try_send_to(&buffer[..len], self.client);
        }
        Ok(())
    }
}

/// A socket that sends to one endpoint and hears nobody else, and has sent its first datagram: the runtime does
/// not know at once that a new socket can be written to.
fn upstream(endpoint: SocketAddr, first: &[u8]) -> io::Result<UdpSocket> {
    let any = if endpoint.is_ipv4() {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
    } else {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(endpoint)?;
    socket.set_nonblocking(true)?;
    socket.send(first)?;
    UdpSocket::from_std(socket)
}

fn touch(seen: &Mutex<Instant>) {
    *lock(seen) = Instant::now();
}

fn lock(seen: &Mutex<Instant>) -> std::sync::MutexGuard<'_, Instant> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

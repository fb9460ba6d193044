//! The proxy: traffic is forwarded by sockets of this process, without privileges.

mod affinity;
mod listener;
mod route;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bindery_core::balancers::{BalancerKey, FrontProtocol};
use bindery_core::{Fault, FaultKind};
use futures::future::BoxFuture;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::listener::{Listener, ListenerKey, OpenSocket};
use self::route::PortRoute;
use crate::forwarding::{DataPlane, Forwarding, FoundForwarding, FrontKey};

/// Listeners that wait to be started; whoever starts more waits as well.
const STARTING_MAX: usize = 64;
/// File handles that are not for connections: the store, the API, name servers, listeners.
const HANDLES_RESERVED: u64 = 256;
/// Connections at most, whatever the machine allows: each has two buffers of [`tcp::BUFFER_LEN`], 128 MiB in all.
const CONNECTIONS_MAX: u64 = 4096;
const CONNECTIONS_MIN: u64 = 64;

/// How much the proxy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// TCP connections and UDP flows at a time, over all balancers. More TCP connections wait in the kernel; the
    /// datagrams of more UDP flows are dropped.
    pub connections_max: usize,
    /// How long established connections may go on after their balancer, address or port is gone.
    pub grace: Duration,
    /// How long an endpoint may take to accept a connection before the next one is tried.
    pub connect_timeout: Duration,
    /// How long a UDP flow is kept without a datagram.
    pub idle_timeout: Duration,
}

/// Forwards traffic with sockets of this process.
///
/// # Limits
/// Its connections and listeners end with the process.
pub struct Proxy {
    fronts: Mutex<BTreeMap<BalancerKey, ProxyFront>>,
    starting: mpsc::Sender<BoxFuture<'static, ()>>,
    shared: Arc<Shared>,
}

/// Runs what the proxy starts.
pub struct ProxyTasks {
    starting: mpsc::Receiver<BoxFuture<'static, ()>>,
}

/// What all listeners have in common.
struct Shared {
    limits: ProxyLimits,
    /// Room for connections and flows.
    room: Arc<Semaphore>,
}

/// One balancer.
#[derive(Default)]
struct ProxyFront {
    forwarding: Arc<Forwarding>,
    routes: BTreeMap<FrontKey, Arc<PortRoute>>,
    listeners: BTreeMap<ListenerKey, Listener>,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MIN.try_into().unwrap_or(usize::MAX),
            grace: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_mins(1),
        }
    }
}

impl ProxyLimits {
    /// As many connections as this process may have file handles for, two for each; it takes as many handles as
    /// it is allowed to.
    #[must_use]
    pub fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let wanted = 2 * CONNECTIONS_MAX + HANDLES_RESERVED;
        let most = limit.maximum.unwrap_or(u64::MAX).min(wanted);
        let mut current = limit.current.unwrap_or(u64::MAX);
        if current < most {
            let raised = Rlimit {
                current: Some(most),
                ..limit
            };
            if setrlimit(Resource::Nofile, raised).is_ok() {
                current = most;
            }
        }
        let connections = current.saturating_sub(HANDLES_RESERVED) / 2;
        let connections = connections.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        Self {
            connections_max: connections.try_into().unwrap_or(usize::MAX),
            ..Self::default()
        }
    }
}

impl Proxy {
    /// A proxy that forwards nothing yet, and what runs its listeners.
    #[must_use]
    pub fn new(limits: ProxyLimits) -> (Self, ProxyTasks) {
        let (starting, started) = mpsc::channel(STARTING_MAX);
        let shared = Shared {
            limits,
            room: Arc::new(Semaphore::new(limits.connections_max)),
        };
        let proxy = Self {
            fronts: Mutex::default(),
            starting,
            shared: Arc::new(shared),
        };
        (proxy, ProxyTasks { starting: started })
    }

    /// Connections and flows that are forwarded now, and how many there may be.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        let most = self.shared.limits.connections_max;
        let free = self.shared.room.available_permits();
        (most.saturating_sub(free), most)
    }

    async fn write(&self, changes: &[(BalancerKey, Option<Arc<Forwarding>>)]) -> Result<(), Fault> {
        let mut fronts = self.fronts.lock().await;
        // Everything that can fail comes first, so that all of it is done or nothing.
        let mut opened = Vec::new();
        for (key, forwarding) in changes {
            if let Some(forwarding) = forwarding {
                opened.push(open_sockets(fronts.get(key), forwarding).await?);
            } else {
                opened.push(BTreeMap::new());
            }
        }
        let mut ended = Vec::new();
        for ((key, forwarding), sockets) in changes.iter().zip(opened) {
            let Some(forwarding) = forwarding else {
                let front = fronts.remove(key).unwrap_or_default();
                ended.extend(front.listeners.into_values());
                continue;
            };
            let front = fronts.entry(key.clone()).or_default();
            ended.extend(front.change(forwarding));
            for (at, socket) in sockets {
                let route = Arc::clone(front.route(at.front()));
                let (listener, task) = Listener::new(at, socket, route, &self.shared);
                front.listeners.insert(at, listener);
                // Whoever runs the listeners has stopped: the process ends.
                let _stopped = self.starting.send(task).await;
            }
        }
        // Another balancer may want the address and port next.
        for listener in ended {
            listener.close().await;
        }
        Ok(())
    }

    async fn found(&self) -> BTreeMap<BalancerKey, FoundForwarding> {
        let fronts = self.fronts.lock().await;
        let found = |front: &ProxyFront| FoundForwarding {
            addresses: front.forwarding.addresses.clone(),
            ports: front.forwarding.ports.clone(),
            is_whole: front.listeners.values().all(Listener::is_open),
        };
        let all = fronts.iter();
        all.map(|(key, front)| (key.clone(), found(front)))
            .collect()
    }
}

impl DataPlane for Proxy {
    fn apply<'a>(
        &'a self,
        changes: &'a [(BalancerKey, Option<Arc<Forwarding>>)],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.write(changes))
    }

    fn read(&self) -> BoxFuture<'_, Result<BTreeMap<BalancerKey, FoundForwarding>, Fault>> {
        Box::pin(async { Ok(self.found().await) })
    }
}

impl ProxyTasks {
    /// Runs the listeners until told to stop; then they close, and connections end.
    ///
    /// # Cancellation
    /// Dropped, every listener and every connection is closed at once.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut listeners = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(task) = self.starting.recv() => {
                    listeners.spawn(task);
                }
                Some(_ended) = listeners.join_next() => {}
            }
        }
    }
}

impl ProxyFront {
    fn route(&mut self, front: FrontKey) -> &Arc<PortRoute> {
        self.routes
            .entry(front)
            .or_insert_with(|| Arc::new(PortRoute::default()))
    }

    /// Forwards something else from now on; gives the listeners that are no longer wanted.
    fn change(&mut self, forwarding: &Arc<Forwarding>) -> Vec<Listener> {
        self.forwarding = Arc::clone(forwarding);
        for (front, endpoints) in &forwarding.ports {
            self.route(*front).set(forwarding, endpoints);
        }
        self.routes
            .retain(|front, _| forwarding.ports.contains_key(front));
        let wanted: Vec<ListenerKey> = wanted(forwarding).collect();
        self.listeners
            .extract_if(.., |at, listener| {
                !wanted.contains(at) || !listener.is_open()
            })
            .map(|(_, listener)| listener)
            .collect()
    }
}

/// Where a balancer is to listen.
fn wanted(forwarding: &Forwarding) -> impl Iterator<Item = ListenerKey> {
    forwarding.addresses.iter().flat_map(|address| {
        forwarding.ports.keys().map(|(protocol, port)| ListenerKey {
            protocol: *protocol,
            address: SocketAddr::new(*address, *port),
        })
    })
}

/// Opens the sockets that a balancer lacks.
async fn open_sockets(
    front: Option<&ProxyFront>,
    forwarding: &Forwarding,
) -> Result<BTreeMap<ListenerKey, OpenSocket>, Fault> {
    let mut opened = BTreeMap::new();
    for at in wanted(forwarding) {
        let open = front.and_then(|front| front.listeners.get(&at));
        if !open.is_some_and(Listener::is_open) {
            let socket = OpenSocket::open(at).await;
            opened.insert(at, socket.map_err(|error| fault(at, &error))?);
        }
    }
    Ok(opened)
}

/// What an author can do about a socket that cannot be opened.
fn fault(at: ListenerKey, error: &std::io::Error) -> Fault {
    use std::io::ErrorKind;
    let address = at.address;
    let protocol = match at.protocol {
        FrontProtocol::Tcp => "TCP",
        FrontProtocol::Udp => "UDP",
    };
    let kind = error.kind();
    let text = if kind == ErrorKind::AddrInUse {
        format!(
            "{protocol} {address} is taken by another program on this machine: stop it, or ask for another \
             address"
        )
    } else if kind == ErrorKind::AddrNotAvailable {
        format!(
            "this machine does not have the address {}: give it the address, or use a pool of addresses that \
             it has, such as 127.0.10.0/24",
            address.ip()
        )
    } else if kind == ErrorKind::PermissionDenied {
        format!(
            "the proxy may not listen on port {}: use a port from 1024, or give bindery the capability \
             CAP_NET_BIND_SERVICE",
            address.port()
        )
    } else {
        format!("the proxy cannot listen on {protocol} {address}: {error}")
    };
    Fault::new(FaultKind::Refused, text)
}

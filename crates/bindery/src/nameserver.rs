//! The name servers that `up` runs: `named` where it is installed, else the built-in one.

mod named;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use bindery_core::fleet::{Member, Role};
use bindery_core::{FaultKind, Name};
use bindery_dns::{Clock, Key};
use bindery_embedded::System;
use bindery_embedded::nameserver::{self, BuiltinServer, Sockets};
use bindery_engine::ports::{NameServer, ZoneHost};
use bindery_engine::{Servers, Station};
use futures::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::address;
use crate::cli::Server;
use crate::metrics::Gate;

/// The flag that all messages about the address name.
const FLAG: &str = "--dns-address";
/// How often to look whether the name server answers, while it does not and while it does.
const PROBE_SOON: Duration = Duration::from_millis(100);
const PROBE_LATER: Duration = Duration::from_secs(5);

/// Name servers that run.
pub(crate) struct Running {
    /// Where each listens and what it does, the lead first.
    pub(crate) members: Vec<(SocketAddr, Role)>,
    /// What they are, for people.
    pub(crate) what: String,
    /// How the engine reaches them.
    pub(crate) servers: Servers,
    /// Keep them running until told to stop.
    pub(crate) tasks: Vec<BoxFuture<'static, ()>>,
}

/// What is needed to start name servers.
pub(crate) struct Wanted<'a> {
    pub(crate) server: Server,
    /// Where the first one listens; the others count up from its port.
    pub(crate) address: SocketAddr,
    /// How many take updates, and how many fetch from those.
    pub(crate) count: (u16, u16),
    /// The data folder.
    pub(crate) data: &'a Path,
    pub(crate) key: &'a Key,
    pub(crate) stop: CancellationToken,
}

/// What is needed to start one of them.
struct One<'a> {
    server: Server,
    address: SocketAddr,
    role: bindery_embedded::Role,
    /// What is added to the name of its folder.
    suffix: String,
    data: &'a Path,
    key: &'a Key,
    stop: CancellationToken,
}

/// One that runs.
struct RunningOne {
    address: SocketAddr,
    what: String,
    server: Arc<dyn NameServer>,
    host: Arc<dyn ZoneHost>,
    task: BoxFuture<'static, ()>,
}

/// Starts the name servers and waits until they answer.
///
/// # Errors
/// If one cannot; the message says what to do.
pub(crate) async fn start(wanted: Wanted<'_>) -> Result<Running> {
    let (primaries, secondaries) = (usize::from(wanted.count.0), usize::from(wanted.count.1));
    let addresses = addresses(wanted.address, primaries + secondaries)?;
    let (of_primaries, of_secondaries) = addresses.split_at(primaries);
    let reached = |all: &[SocketAddr]| all.iter().copied().map(reachable).collect::<Vec<_>>();
    let (mut members, mut stations, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let mut what = String::new();
    for (index, address) in addresses.iter().enumerate() {
        let (role, local) = if index < primaries {
            let notify = reached(of_secondaries);
            (Role::Primary, bindery_embedded::Role::Primary { notify })
        } else {
            let primaries = reached(of_primaries);
            let local = bindery_embedded::Role::Secondary { primaries };
            (Role::Secondary, local)
        };
        let one = start_one(One {
            server: wanted.server,
            address: *address,
            role: local,
            suffix: if index == 0 {
                String::new()
            } else {
                format!("-{index}")
            },
            data: wanted.data,
            key: wanted.key,
            stop: wanted.stop.clone(),
        })
        .await?;
        what = one.what;
        members.push((reachable(one.address), role));
        stations.push(Station {
            member: Member {
                address: reachable(one.address).to_string().into(),
                role,
            },
            server: one.server,
            host: Some(one.host),
        });
        tasks.push(one.task);
    }
    let lead = stations.remove(0);
    let servers = Servers {
        lead,
        followers: stations.into(),
    };
    Ok(Running {
        members,
        what,
        servers,
        tasks,
    })
}

/// So many addresses from `first` on; with port 0, ports that are free now.
fn addresses(first: SocketAddr, count: usize) -> Result<Vec<SocketAddr>> {
    if count == 1 {
        return Ok(vec![first]);
    }
    if first.port() == 0 {
        let mut held = Vec::new();
        for _ in 0..count {
            let socket = std::net::TcpListener::bind(first)
                .with_context(|| format!("cannot listen on {first}; choose another {FLAG}"))?;
            held.push(socket);
        }
        let free = held.iter().map(std::net::TcpListener::local_addr);
        return free
            .collect::<Result<_, _>>()
            .context("a bound socket has no address");
    }
    let ports = (0..count).map(|index| {
        let port = usize::from(first.port()) + index;
        let port = u16::try_from(port).with_context(|| {
            format!(
                "{count} name servers from port {} on are too many; choose another {FLAG}",
                first.port()
            )
        });
        port.map(|port| SocketAddr::new(first.ip(), port))
    });
    ports.collect()
}

async fn start_one(wanted: One<'_>) -> Result<RunningOne> {
    let found = match wanted.server {
        Server::Builtin => None,
        Server::Auto | Server::Named => bindery_embedded::bind::find_named(),
    };
    match (wanted.server, found) {
        (Server::Named, None) => bail!(
            "named is not installed (Debian: apt install bind9); install it or use --server builtin"
        ),
        (Server::Auto | Server::Builtin, None) => start_builtin(wanted).await,
        (Server::Auto | Server::Named | Server::Builtin, Some(program)) => {
            named::start(program, wanted).await
        }
    }
}

/// Opens `gate` while the name server answers, until `stop`.
pub(crate) async fn watch_answers(
    server: Arc<dyn NameServer>,
    gate: Gate,
    stop: CancellationToken,
) {
    loop {
        let answer = server.serial(&Name::root()).await;
        // Any answer will do; most servers do not have the root zone.
        let silent = answer
            .is_err_and(|fault| matches!(fault.kind, FaultKind::Unreachable | FaultKind::Lost));
        let pause = if silent {
            gate.close();
            PROBE_SOON
        } else {
            gate.open();
            PROBE_LATER
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

async fn start_builtin(wanted: One<'_>) -> Result<RunningOne> {
    address::check_dns_address(wanted.address, FLAG).await?;
    let One {
        address,
        role,
        suffix,
        data,
        key,
        stop,
        ..
    } = wanted;
    let options = nameserver::Options {
        folder: Some(data.join(format!("builtin{suffix}"))),
        key: key.clone(),
        clock: clock(),
        role,
        notify_id: Arc::new(|| {
            let [first, second, ..] = System::secret();
            u16::from_ne_bytes([first, second])
        }),
    };
    let server = BuiltinServer::open(options).context("cannot start the built-in name server")?;
    let sockets = Sockets::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another {FLAG}"))?;
    let address = sockets
        .local_addr()
        .context("a bound socket has no address")?;
    Ok(RunningOne {
        address,
        what: "built-in server".to_owned(),
        server: Arc::new(client(address, key)),
        host: Arc::new(server.clone()),
        task: Box::pin(server.serve(sockets, stop)),
    })
}

/// A client of the server; one that listens everywhere is reached on loopback.
fn client(address: SocketAddr, key: &Key) -> bindery_dns::Server {
    bindery_dns::Server::new(reachable(address).to_string(), Some(key.clone()))
}

/// Where this machine reaches what listens on `address`.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Seconds since 1970, as signatures carry them.
fn clock() -> Clock {
    Arc::new(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    })
}
